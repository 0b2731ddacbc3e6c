//! What was asked, for tests that count calls and look for who wrote.

use jiff::Timestamp;

use crate::request::{Ask, Subresource, Verb};

/// One call that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// When it was answered.
    pub at: Timestamp,
    /// What was to be done.
    pub verb: Verb,
    /// Plural of the resource.
    pub resource: &'static str,
    /// `status`, `scale`, or empty.
    pub subresource: &'static str,
    /// Empty for all, or for a resource without.
    pub namespace: String,
    /// Empty for many.
    pub name: String,
    /// Who asked: the field manager, or what is in front of the version of the user agent.
    pub manager: String,
    /// Status code of the answer.
    pub code: u16,
}

impl Call {
    pub(crate) fn new(ask: &Ask, manager: String, at: Timestamp, code: u16) -> Self {
        Self {
            at,
            verb: ask.verb,
            resource: &ask.resource.plural,
            subresource: ask.subresource.map(Subresource::as_str).unwrap_or_default(),
            namespace: ask.namespace.clone().unwrap_or_default(),
            name: ask.name.clone().unwrap_or_default(),
            manager,
            code,
        }
    }
}
