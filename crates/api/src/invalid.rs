//! What is wrong with a field, and the checks that many fields share.

use std::time::Duration;

/// Why a resource cannot be used: the field, and what to write there instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct Invalid {
    /// The field, such as `spec.metrics[0].target`; empty when it is the document as a whole.
    pub field: String,
    /// What is wrong, and what to write instead.
    pub message: String,
}

impl Invalid {
    pub(crate) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

/// A number of things, 0 or more.
pub(crate) fn count(field: impl Into<String>, value: i32, message: &str) -> Result<u32, Invalid> {
    u32::try_from(value).map_err(|_| Invalid::new(field, message))
}

/// A length of time, 0 or more.
pub(crate) fn seconds(field: impl Into<String>, value: i32, message: &str) -> Result<Duration, Invalid> {
    count(field, value, message).map(|value| Duration::from_secs(value.into()))
}

/// The text, unless there are only blanks in it.
pub(crate) fn not_blank(field: impl Into<String>, text: &str, message: &str) -> Result<String, Invalid> {
    if text.trim().is_empty() { Err(Invalid::new(field, message)) } else { Ok(text.to_owned()) }
}
