//! What others have said, in words for people and no longer than people read.

use kube::runtime::watcher;

/// Longest account of an error, in bytes. A proxy in front of the API server answers with whole pages.
const LONGEST: usize = 300;

/// The error in words for people, on one line: where the API server has said something, that alone.
pub(crate) fn of_error(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => line(&status.message),
        other => line(&with_causes(other)),
    }
}

/// The error of a watch, likewise.
pub(crate) fn of_watch(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => {
            of_error(error)
        }
        watcher::Error::WatchError(status) => line(&status.message),
        watcher::Error::NoResourceVersion => error.to_string(),
    }
}

/// The text on one line, cut if it is too long for one.
fn line(text: &str) -> String {
    shortened(&text.split_whitespace().collect::<Vec<_>>().join(" "), LONGEST)
}

/// An error with what caused it: "client error (Connect)" alone does not tell a wrong name from a closed port. Some errors repeat their
/// cause in their own words, which is not said twice.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let words = next.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = next.source();
    }
    text
}

/// The text, cut at a character if it is longer than `most` bytes.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most.saturating_sub('…'.len_utf8()));
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_a_proxy_becomes_one_short_line() {
        let page = format!("<html>\r\n<head>\n\t<title>502 Bad Gateway</title>\n{}", "<p>é</p>\n".repeat(100));
        let status = kube::core::Status::failure(&page, "Failed to parse error data").with_code(502);
        let told = of_error(&kube::Error::Api(status.boxed()));
        assert!(told.starts_with("<html> <head> <title>502 Bad Gateway</title> <p>é</p> <p>"), "{told}");
        assert!(told.len() <= LONGEST && told.ends_with('…') && !told.contains(['\n', '\r', '\t']), "{told}");
    }

    #[test]
    fn an_error_is_told_with_its_causes_each_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("client error ({0})")]
        struct Layer(&'static str, #[source] std::io::Error);
        let refused = || std::io::Error::other("connection refused");
        assert_eq!(with_causes(&Layer("Connect", refused())), "client error (Connect): connection refused");
        assert_eq!(with_causes(&Layer("connection refused", refused())), "client error (connection refused)");
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        assert_eq!(shortened("short", 10), "short");
        assert_eq!(shortened("äääääää", 9), "äää…");
    }
}
