//! What a request carries and nobody is to be told.

use std::borrow::Cow;

use reqwest::header::HeaderMap;

/// Shorter values are words such as a tenant's name, which occur in answers by themselves.
const SHORTEST: usize = 8;

/// `body`, which is going to be quoted, without the values of the request's headers: some servers say what they have been sent. A
/// value after a scheme (`Bearer …`) is taken out by itself, too.
pub(super) fn without_secrets(body: Vec<u8>, headers: &HeaderMap) -> Vec<u8> {
    let values = headers.values().filter_map(|value| value.to_str().ok());
    let mut secrets: Vec<&str> =
        values.flat_map(|value| [Some(value), value.split_once(' ').map(|(_, rest)| rest.trim())]).flatten().collect();
    secrets.retain(|secret| secret.len() >= SHORTEST);
    // The whole before its part.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    let text = String::from_utf8_lossy(&body);
    let mut clean = Cow::Borrowed(text.as_ref());
    for secret in secrets.into_iter().filter(|secret| text.contains(secret)) {
        clean = Cow::Owned(clean.replace(secret, "…"));
    }
    match clean {
        Cow::Borrowed(_) => body,
        Cow::Owned(clean) => clean.into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(body: &str) -> String {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", "Bearer s3cret-token".parse().unwrap());
        headers.insert("x-scope-orgid", "team-a".parse().unwrap());
        String::from_utf8(without_secrets(body.into(), &headers)).unwrap()
    }

    #[test]
    fn what_a_server_repeats_of_the_request_is_taken_out() {
        assert_eq!(clean("no such token: Bearer s3cret-token, s3cret-token!"), "no such token: …, …!");
        assert_eq!(clean(r#"{"error": "s3cret-token"}"#), r#"{"error": "…"}"#);
    }

    #[test]
    fn everything_else_stays() {
        for body in ["", "team-a may not", "Bearer token expected", "é\u{fffd}"] {
            assert_eq!(clean(body), body);
        }
        let binary = vec![0xff, 0xfe, b'a'];
        assert_eq!(without_secrets(binary.clone(), &HeaderMap::new()), binary);
    }
}
