//! The headroom law: as many replicas as the promised latencies take, with room for noise and for growth during a warm-up.
//!
//! Every 15 s:
//!
//! 1. The *load* is the work that arrives, in replicas that do nothing else: requests and prompt tokens per second, times what the
//!    engine's profile says that each costs.
//! 2. A replica may be busy for a *share* of its time only: beyond it tokens come slower than promised, or the KV cache is full.
//! 3. Work arrives unevenly, so there is room for z standard deviations of what arrives while a typical request lives.
//! 4. A replica that is asked for now serves a warm-up later, so there is room for *growth*: by as much as the load rose within a
//!    warm-up in most past cases at such a load.
//! 5. A larger need is asked for at once.
//! 6. A smaller one waits until the largest need of the *hold* has passed. The hold is the one that would have been cheapest over
//!    the last two hours, where a start costs ten warm-ups of a replica.
//! 7. The profile is corrected by the time between tokens that is measured: a replica whose steps take twice the shortest one is
//!    busy for half of its time.
//! 8. z follows the outcome: late requests raise it, timely ones lower it slowly. Prompts that are too long for any replica are not
//!    held against the fleet.
//! 9. A young memory is careful: nothing shrinks for 5 minutes, and the hold is at least 450 s for 15.
//! 10. The objective is the one knob: it sets where z begins, how much lateness is tolerated, and how rare a growth is covered.
//!
//! | input of [`crate::Traffic`] | what for | without it |
//! |---|---|---|
//! | `arrivals`, `prompt_tokens` over 60 s | the load | nothing is proposed for 20 ticks, then the saturation of the pool (the source's own reading) decides as a band from 0.40 to 0.55 would, down by one at a time; without that nothing is proposed |
//! | the same over 15 and 30 s | to see a rise sooner | the windows that there are |
//! | `prompt_lengths` | prompts that no replica serves in time | those known stay; none is excused if there were none |
//! | `prompt_variation` | long prompts cost more than in proportion | what was learned of it |
//! | `finished`, `median_output` | what decoding costs, how long requests live | what was learned, at first 200 tokens and 0.6 of the mean |
//! | `inter_token` | to correct the profile | the correction stays |
//! | `waiting` | a queue to work off; to correct the profile | no queue is worked off, and the correction stays |
//! | `kv_capacity` | how many requests fit | that of a named profile, else only its sequences count |
//! | `kv_used`, `running` | how much KV cache a request has | what was learned, at first the mean prompt and half an output |
//! | `late_ttft`, `late_tpot` | z | z stays |
//! | [`crate::Workload::warmup`] | how far ahead growth looks, what a start costs | the last one, at first 100 s |
//!
//! Arrivals that are contradicted by what finishes, for 300 s or longer, are as unknown, and the saturation decides at once.
//!
//! Before the first request was seen nothing tells what one costs, and the fleet keeps its size.

mod account;
mod answer;
mod conditions;
mod demand;
mod growth;
mod hold;
mod inputs;
mod lengths;
mod missing;
mod numbers;
mod outcome;
mod plan;
mod shape;
mod shortfall;
mod state;
mod work;

use self::numbers::normal_quantile;
use crate::{Costs, Target};

pub(crate) use self::plan::Asked;
pub use self::state::HeadroomState;

/// Seconds of a tick.
const TICK: f64 = 15.0;

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

    /// L: the share that may be late, as far as the law follows it.
    fn late(self) -> f64 {
        (1.0 - self.0).clamp(0.0005, 0.05)
    }

    /// alpha: the share of late requests that leaves z as it is. Half of what may be late, as some always comes unplanned.
    fn tolerated(self) -> f64 {
        self.late() / 2.0
    }

    /// z0: the standard deviations of noise that are covered before anything was learned.
    fn first_margin(self) -> f64 {
        normal_quantile(1.0 - 2.0 * self.late())
    }

    /// Q: the share of past growths that is covered.
    fn growth_quantile(self) -> f64 {
        (1.0 - 10.0 * self.late()).clamp(0.5, 0.98)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// z0 from Python's `statistics.NormalDist().inv_cdf(1 - 2 * late)`.
    #[test]
    fn the_objective_sets_the_rest() {
        for (share, tolerated, margin, quantile) in [
            (0.99, 0.005, 2.053_748_910_6, 0.9),
            (0.98, 0.01, 1.750_686_071_3, 0.8),
            (0.995, 0.0025, 2.326_347_874, 0.95),
            (0.5, 0.025, 1.281_551_565_5, 0.5),
            (0.999_999, 0.000_25, 3.090_232_306_2, 0.98),
        ] {
            let objective = Objective::new(share).unwrap();
            assert!((objective.tolerated() - tolerated).abs() < 1e-12, "{share}");
            assert!((objective.first_margin() - margin).abs() < 1e-6, "{share}");
            assert!((objective.growth_quantile() - quantile).abs() < 1e-12, "{share}");
        }
    }
}
