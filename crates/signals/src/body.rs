//! What every decoder needs of an answer's body.

use serde_json::Value;

use crate::excerpt::excerpt;

/// The most of a body that a reason quotes, in bytes.
pub(crate) const LONGEST_QUOTE: usize = 1024;

/// The first JSON document of a body, or what is wrong with it. Bytes after the document are ignored.
pub(crate) fn json(body: &[u8]) -> Result<Value, String> {
    match serde_json::Deserializer::from_slice(body).into_iter().next() {
        Some(Ok(document)) => Ok(document),
        Some(Err(error)) => Err(error.to_string()),
        None => Err("it is empty".to_owned()),
    }
}

/// The beginning of a body, at most [`LONGEST_QUOTE`] bytes, fit to be shown.
pub(crate) fn quoted(body: &[u8]) -> String {
    // One byte more than the limit, so that the cut is seen and marked.
    let enough = body.get(..=LONGEST_QUOTE).unwrap_or(body);
    match String::from_utf8_lossy(enough).trim() {
        "" => "an empty body".to_owned(),
        text => excerpt(text, LONGEST_QUOTE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_document_counts() {
        assert_eq!(json(b" {\"a\": 1} trailing \xff").unwrap()["a"], 1);
        assert_eq!(json(b" \n").unwrap_err(), "it is empty");
        assert!(json(b"<html>").is_err());
        assert!(json("[".repeat(100_000).as_bytes()).is_err(), "depth is limited");
    }

    #[test]
    fn quotes_are_short_and_need_not_be_utf8() {
        assert_eq!(quoted(b" \xff<html>\r\n"), "\u{fffd}<html>");
        assert_eq!(quoted(b"\r\n"), "an empty body");
        assert_eq!(quoted(&[b'x'; LONGEST_QUOTE]), "x".repeat(LONGEST_QUOTE));
        let cut = quoted(&[b'x'; 4096]);
        assert!(cut.len() <= LONGEST_QUOTE && cut.ends_with('…'));
    }
}
