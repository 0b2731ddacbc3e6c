//! What series are told apart by.

use std::fmt;

use prometheus_client::encoding::EncodeLabelSet;

/// How an attempt to write `spec.replicas` ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// It was written.
    Ok,
    /// Somebody else wrote the target at the same time, or owns the field, or the scaler was edited meanwhile.
    Conflict,
    /// The API server refused or did not answer.
    Error,
    /// It was dropped, because this process was not the leader any more.
    NotLeader,
}

impl WriteOutcome {
    /// All of them.
    pub(super) const ALL: [Self; 4] = [Self::Ok, Self::Conflict, Self::Error, Self::NotLeader];

    /// The label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Conflict => "conflict",
            Self::Error => "error",
            Self::NotLeader => "not_leader",
        }
    }
}

/// What a watch is on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Watched {
    resource: String,
    namespace: String,
}

impl Watched {
    /// The objects of `resource`, such as `pods`, in a namespace; an empty one is all of them.
    #[must_use]
    pub fn new(resource: &str, namespace: &str) -> Self {
        Self { resource: resource.to_owned(), namespace: namespace.to_owned() }
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{} in all namespaces", self.resource),
            namespace => write!(f, "{} in {namespace}", self.resource),
        }
    }
}
