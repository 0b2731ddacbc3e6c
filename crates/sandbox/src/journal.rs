//! What was asked, for tests that count calls and look for who wrote.

use std::ops::Range;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::request::{Ask, Request, Subresource, Verb};
use crate::store;

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// When it was carried out.
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
    /// In whose name: the field manager, or else the agent.
    pub manager: String,
    /// Who asked: what is in front of the version of the user agent.
    pub agent: String,
    /// Status code of the answer; 0 where there will be none.
    pub code: u16,
    /// The newest version before it was carried out, and after.
    pub versions: Range<u64>,
}

impl Call {
    pub(crate) fn new(ask: &Ask, request: &Request, at: Timestamp, code: u16, versions: Range<u64>) -> Self {
        Self {
            at,
            verb: ask.verb,
            resource: &ask.resource.plural,
            subresource: ask.subresource.map(Subresource::as_str).unwrap_or_default(),
            namespace: ask.namespace.clone().unwrap_or_default(),
            name: ask.name.clone().unwrap_or_default(),
            manager: request.field_manager(),
            agent: request.agent().to_owned(),
            code,
            versions,
        }
    }
}

/// One change of an object, whoever made it.
#[derive(Clone, Debug)]
pub struct Change {
    /// The version that it led to.
    pub version: u64,
    /// The object before it; `None` if there was none.
    pub before: Option<Arc<Value>>,
    /// The object after it; `None` if there is none any more.
    pub after: Option<Arc<Value>>,
}

impl Change {
    pub(crate) fn of(change: &store::Change) -> Self {
        Self { version: change.version, before: change.before.clone(), after: change.after.clone() }
    }
}
