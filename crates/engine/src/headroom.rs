//! The headroom law: as many replicas as the promised latencies take, with room for noise and for growth during a warm-up.

use crate::{Costs, Target};

/// What was promised, for the headroom law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Headroom {
    /// Promised time to first token in seconds.
    pub ttft: Target,
    /// Promised time per output token after the first, in seconds.
    pub tpot: Target,
    /// The share of requests that must keep both.
    pub objective: Objective,
    /// What the steps of a replica cost.
    pub costs: Costs,
    /// Whether these costs are those of the engine, or only a stand-in where no profile is named.
    pub profile_is_given: bool,
}

/// The share of requests that must be in time: 0.5 or more, and less than 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Objective(f64);

impl Objective {
    /// `None` unless the number is at least 0.5 and below 1.
    #[must_use]
    pub fn new(share: f64) -> Option<Self> {
        (0.5..1.0).contains(&share).then_some(Self(share))
    }

    /// The number, at least 0.5 and below 1.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}
