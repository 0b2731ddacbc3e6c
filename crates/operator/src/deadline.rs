//! Every call to the API server has a deadline: a call that hangs must not hold its scaler for ever.

use std::future::Future;
use std::time::Duration;

use crate::lease::WRITE_MARGIN;
use crate::report::shortened;

/// For one call, retries on 429 and 503 included. Not longer than what is left of a lease when a claim to it ends, so that no write
/// outlives the leadership that it was begun under.
const API_DEADLINE: Duration = WRITE_MARGIN;

/// Why a call to the API server gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// It failed, or was refused.
    #[error("{}", words(.0))]
    Api(#[from] kube::Error),
    /// It took too long.
    #[error("the API server did not answer within {} s, or only that it has too much to do", API_DEADLINE.as_secs())]
    Deadline,
}

impl CallError {
    /// Whether the object is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Api(kube::Error::Api(status)) if status.is_not_found())
    }

    /// Whether what was asked does not exist: the object, its subresource, or its kind. Custom resources without a scale subresource
    /// answer like an object that is not there.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Api(kube::Error::Api(status)) if matches!(status.code, 404 | 405))
    }

    /// Whether somebody else changed the object first.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Api(kube::Error::Api(status)) if status.is_conflict())
    }
}

/// Longest account of an error, in bytes. A proxy in front of the API server answers with whole pages.
const LONGEST: usize = 300;

/// The error in words for people, on one line: where the API server has said something, that alone.
pub(crate) fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => line(&status.message),
        other => line(&with_causes(other)),
    }
}

/// The text on one line, cut if it is too long for one.
pub(crate) fn line(text: &str) -> String {
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

/// The answer of `call`, if it comes in time.
///
/// # Errors
/// It failed, was refused, or took longer than 5 s.
pub async fn within<T>(call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, CallError> {
    match tokio::time::timeout(API_DEADLINE, call).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(CallError::Deadline),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_what_the_api_server_said() {
        let status = kube::core::Status::failure("pods is forbidden", "Forbidden").with_code(403);
        assert_eq!(CallError::Api(kube::Error::Api(status.boxed())).to_string(), "pods is forbidden");
    }

    #[test]
    fn what_is_not_there_and_what_cannot_be_done_with_it_is_absent() {
        let absent = |code: u16| {
            let status = kube::core::Status::failure("no", "").with_code(code);
            CallError::Api(kube::Error::Api(status.boxed())).is_absent()
        };
        assert!(absent(404) && absent(405));
        assert!(!absent(403) && !absent(409) && !absent(503) && !CallError::Deadline.is_absent());
    }

    #[test]
    fn a_page_of_a_proxy_becomes_one_short_line() {
        let page = format!("<html>\r\n<head>\n\t<title>502 Bad Gateway</title>\n{}", "<p>é</p>\n".repeat(100));
        let status = kube::core::Status::failure(&page, "Failed to parse error data").with_code(502);
        let told = words(&kube::Error::Api(status.boxed()));
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

    #[tokio::test(start_paused = true)]
    async fn a_call_that_hangs_ends_at_its_deadline() {
        let error = within(std::future::pending::<Result<(), kube::Error>>()).await.unwrap_err();
        assert!(matches!(error, CallError::Deadline) && error.to_string().contains("5 s"));
    }
}
