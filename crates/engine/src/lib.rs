//! Decides how many replicas an LLM inference fleet should have.
mod decision;
mod memory;
mod observation;
mod reading;
mod reason;
mod replicas;
mod rollout;
mod spec;
mod time;

pub use decision::{Condition, ConditionType, Decision, ReadingState, ReadingTrace, Stage, StageTrace, Victims};
pub use memory::{Memory, Recommendation, ScaleEvent};
pub use observation::{Observation, Pod, Warmth, Workload};
pub use reading::{Measurement, Reading};
pub use reason::Reason;
pub use replicas::Replicas;
pub use rollout::{Rollout, RolloutCounts};
pub use spec::{
    Behavior, Bounds, Fallback, Law, Mode, Policy, PolicyLimit, ScaleDown, ScalingRules, SelectPolicy, Source, Spec, Target, VictimOrder,
};
pub use time::Time;
