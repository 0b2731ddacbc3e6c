//! What a tick answers.

use super::numbers::within;
use crate::recommend::Activity;
use crate::{Measurement, ReadingState, Replicas};

/// What a tick comes to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    /// A size.
    Known {
        /// What the reading shows: replicas that are needed, or the saturation that stands in.
        value: f64,
        replicas: Replicas,
        /// How it came about.
        account: String,
    },
    /// None, and why.
    Unknown(String),
}

impl Answer {
    /// The reading, the size and its account.
    pub(super) fn told(self, activity: Activity) -> (ReadingState, Option<Replicas>, Option<String>) {
        match self {
            Self::Known { value, replicas, account } => {
                let value = Measurement::new(within(value, 0.0, Replicas::MAX.as_f64())).unwrap_or(Measurement::ZERO);
                let state = if activity == Activity::Inactive { ReadingState::Idle } else { ReadingState::Value(value) };
                (state, Some(replicas), Some(account))
            }
            Self::Unknown(why) => (ReadingState::Unknown(why), None, None),
        }
    }
}
