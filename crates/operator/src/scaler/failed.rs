//! Why a sync comes to nothing.

use crate::apply::{HpaError, NotStanding, WriteError};
use crate::dereference::Unreachable;
use crate::report::Trouble;

/// Why a sync came to nothing.
pub(super) enum Failed {
    Unreachable(Unreachable),
    Write(WriteError),
    Hpa(HpaError),
}

impl From<Unreachable> for Failed {
    fn from(error: Unreachable) -> Self {
        Self::Unreachable(error)
    }
}

impl Failed {
    /// Whether the API server may serve the kind in another way by now.
    pub(super) fn is_absence(&self) -> bool {
        match self {
            Self::Unreachable(error) => error.is_absence(),
            Self::Write(error) => error.is_absence(),
            Self::Hpa(_) => false,
        }
    }

    /// Whether it is only that the scaler was edited meanwhile.
    pub(super) fn is_outdated(&self) -> bool {
        matches!(self, Self::Write(WriteError::NotStanding(NotStanding::Outdated)))
    }

    /// What it is called, and what is told of it.
    pub(super) fn describe(&self) -> (Trouble, String) {
        match self {
            Self::Unreachable(error @ Unreachable::Missing { .. }) => (Trouble::TargetMissing, error.to_string()),
            Self::Unreachable(error) => (Trouble::FailedGetScale, error.to_string()),
            Self::Write(error) => (Trouble::FailedUpdateScale, error.to_string()),
            Self::Hpa(error) => (Trouble::FailedUpdateScale, error.to_string()),
        }
    }
}
