//! What keeps a sync from its end.

use llmscaler_engine::ConditionType;

use super::condition::{READY, Said};

/// What kept a sync from reaching a decision, or from carrying it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The resource cannot be used; only an edit helps.
    InvalidSpec,
    /// There is no such target.
    TargetMissing,
    /// The target could not be looked at.
    FailedGetScale,
    /// The new size could not be written.
    FailedUpdateScale,
}

impl Trouble {
    /// The reason of conditions and events.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidSpec => "InvalidSpec",
            Self::TargetMissing | Self::FailedGetScale => "FailedGetScale",
            Self::FailedUpdateScale => "FailedUpdateScale",
        }
    }

    /// The label of the metric. It tells a target that is gone, which the scaler's owner looks after, from one that is out of reach.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::TargetMissing => "TargetMissing",
            _ => self.as_str(),
        }
    }

    /// The conditions that do not hold because of it.
    pub(super) const fn conditions(self) -> &'static [&'static str] {
        const ABLE: &str = ConditionType::AbleToScale.as_str();
        const ACTIVE: &str = ConditionType::ScalingActive.as_str();
        match self {
            // What was decided before the edit holds no more either.
            Self::InvalidSpec => &[ACTIVE, ABLE, READY],
            Self::TargetMissing | Self::FailedGetScale | Self::FailedUpdateScale => &[ABLE, READY],
        }
    }

    /// What is said of each of them.
    pub(super) fn said(self, message: &str) -> Vec<Said> {
        self.conditions().iter().map(|kind| self.said_of(kind, message)).collect()
    }

    /// What is said of one condition.
    pub(super) fn said_of(self, kind: &'static str, message: &str) -> Said {
        Said { kind, status: Some(false), reason: self.as_str().into(), message: message.to_owned() }
    }
}
