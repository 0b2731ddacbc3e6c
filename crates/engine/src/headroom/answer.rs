//! What a tick answers, and the same again for a look that comes too early.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::numbers::within;
use crate::recommend::Activity;
use crate::{Bounds, Measurement, ReadingState, Replicas, Time};

/// Sooner than this after a tick there is no other: half of one. The constants of the law are per tick of 15 s, and what is measured
/// over 15 s was measured already.
const TOO_EARLY: Duration = Duration::from_millis(7500);

/// What a tick comes to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
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

/// The last tick.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct LastTick {
    pub at: Time,
    pub activity: Activity,
    pub answer: Answer,
}

impl LastTick {
    /// Whether it is too early for another one.
    pub(super) fn is_fresh(&self, now: Time) -> bool {
        now.since(self.at) < TOO_EARLY
    }

    /// The same answer within the bounds as they are now. A fleet that others have made larger than the `planned_for` is no smaller
    /// for it, as the plan did not know of it.
    pub(super) fn again(&self, current: Replicas, planned_for: Replicas, bounds: Bounds, now: Time) -> Answer {
        let Answer::Known { value, replicas, account } = &self.answer else { return self.answer.clone() };
        let at_least = if current > planned_for { current } else { Replicas::ZERO };
        let (replicas, age) = (bounds.clamp(at_least.max(*replicas)), now.since(self.at).as_secs());
        Answer::Known { value: *value, replicas, account: format!("asks for {replicas} by the plan of {age} s ago: {account}") }
    }
}
