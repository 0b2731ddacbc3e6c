//! Every call to the API server has a deadline: a call that hangs must not hold its scaler for ever.

use std::future::Future;
use std::time::Duration;

use kube::runtime::watcher;

use crate::lease::WRITE_MARGIN;
use crate::words;

/// For one call, retries on 429 and 503 included. Not longer than what is left of a lease when a claim to it ends, so that no write
/// outlives the leadership that it was begun under.
const API_DEADLINE: Duration = WRITE_MARGIN;

/// A connection on which the API server has said nothing for so long is dead: the client's read timeout. No list takes as long (the API
/// server itself ends a request after a minute), and no watch: see [`WATCH_TIME`].
pub const API_SILENCE: Duration = Duration::from_secs(120);

/// How long the API server is asked to hold a watch on which nothing happens, in seconds. It is then taken up again where it was, so that
/// one whose other end is gone is found out soon.
const WATCH_TIME: u32 = 110;

/// How everything is watched.
pub(crate) fn watched() -> watcher::Config {
    watcher::Config::default().timeout(WATCH_TIME)
}

/// Why a call to the API server gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// It failed, or was refused.
    #[error("{}", words::of_error(.0))]
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
    fn a_quiet_watch_ends_before_its_connection_counts_as_dead() {
        assert!(Duration::from_secs(WATCH_TIME.into()) < API_SILENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_hangs_ends_at_its_deadline() {
        let error = within(std::future::pending::<Result<(), kube::Error>>()).await.unwrap_err();
        assert!(matches!(error, CallError::Deadline) && error.to_string().contains("5 s"));
    }
}
