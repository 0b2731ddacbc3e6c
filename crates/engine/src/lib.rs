//! Decides how many replicas an LLM inference fleet should have.
//!
//! [`decide`] takes what the user asked for ([`Spec`]), what was seen ([`Observation`]), what is remembered ([`Memory`]) and the
//! time, and answers with a [`Decision`]: the count to write, if any, and the account of how it came about. It is pure: the
//! operator, the simulator and the `decide` command call it alike.
//!
//! ```
//! use std::time::Duration;
//! use llmscaler_engine::*;
//!
//! let spec = Spec {
//!     bounds: Bounds { min: Replicas::new(1), max: Replicas::new(10) },
//!     sources: vec![Source {
//!         name: "kv".to_owned(),
//!         law: Law::Ratio { target: Target::new(0.8).expect("above 0") },
//!         activation: Activation::ANY_LOAD,
//!         required: false,
//!     }],
//!     sync_period: Duration::from_secs(15),
//!     scale_down: ScaleDown { window: Duration::ZERO, max_step: None, victims: VictimOrder::ColdestFirst },
//!     behavior: None,
//!     cooldown: Duration::ZERO,
//!     fallback: None,
//!     mode: Mode::Auto,
//! };
//! let workload = Workload { replicas: Replicas::new(4), ready: Replicas::new(4), ..Workload::default() };
//! let seen = Observation { workload, readings: vec![Reading::from_number(0.9)], traffic: None };
//!
//! let decision = decide(&spec, &seen, &Memory::default(), Time::default());
//! assert_eq!(decision.write, Some(Replicas::new(5))); // ceil(4 × 0.9 ÷ 0.8)
//! ```

mod activate;
mod band;
mod bound;
mod conditions;
mod decide;
mod decision;
mod guard;
mod headroom;
mod histogram;
mod memory;
mod observation;
mod pace;
mod profile;
mod reading;
mod reason;
mod recommend;
mod replicas;
mod rollout;
mod saturation;
mod spec;
mod stabilise;
#[cfg(test)]
mod tests;
mod time;
mod traffic;
mod victims;
mod wording;

pub use band::Band;
pub use decide::{decide, reconsider};
pub use decision::{Condition, ConditionType, Decision, ReadingState, ReadingTrace, Stage, StageTrace, Victims};
pub use headroom::{Headroom, HeadroomState, Objective};
pub use histogram::{Bucket, histogram_quantile, share_above, squared_variation};
pub use memory::{Memory, Recommendation, ScaleEvent};
pub use observation::{Observation, Pod, Warmth, Workload};
pub use profile::{Costs, Profile};
pub use reading::{Measurement, Reading};
pub use reason::Reason;
pub use replicas::Replicas;
pub use rollout::{Rollout, RolloutCounts};
pub use saturation::{Latency, SaturationSample, saturation};
pub use spec::{
    Activation, Behavior, Bounds, Fallback, Law, Mode, Policy, PolicyLimit, ScaleDown, ScalingRules, SelectPolicy, Source, Spec, Target,
    VictimOrder,
};
pub use time::Time;
pub use traffic::{Finished, InterToken, Late, Rates, Traffic};
