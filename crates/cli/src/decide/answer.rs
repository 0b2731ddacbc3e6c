//! The answer to one tick as a JSON object.

use llmscaler_engine::{Condition, Decision, Measurement, Memory, ReadingState, ReadingTrace, Reason, Replicas, StageTrace, Time};
use serde::{Serialize, Serializer};

/// The answer to one tick, in the order in which it is printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer<'a> {
    at: Time,
    replicas: Replicas,
    ready: Replicas,
    recommended: Replicas,
    desired: Replicas,
    write: Option<Replicas>,
    reason: Reason,
    message: &'a str,
    victims: &'a [String],
    stages: &'a [StageTrace],
    readings: Vec<Said<'a>>,
    conditions: &'a [Condition],
    #[serde(serialize_with = "number")]
    next_sync_seconds: f64,
    memory: &'a Memory,
}

/// What one source said.
#[derive(Debug, Serialize)]
struct Said<'a> {
    name: &'a str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_number")]
    value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_number")]
    target: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replicas: Option<Replicas>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

impl<'a> Answer<'a> {
    /// The answer of `decision`, taken at `at`, with the memory after its write.
    pub fn new(at: Time, decision: &'a Decision, sync_period: f64) -> Self {
        Self {
            at,
            replicas: decision.replicas,
            ready: decision.ready,
            recommended: decision.recommended,
            desired: decision.desired,
            write: decision.write,
            reason: decision.reason,
            message: &decision.message,
            victims: &decision.victims.names,
            stages: &decision.stages,
            readings: decision.readings.iter().map(Said::new).collect(),
            conditions: &decision.conditions,
            next_sync_seconds: sync_period,
            memory: &decision.memory,
        }
    }
}

impl<'a> Said<'a> {
    fn new(trace: &'a ReadingTrace) -> Self {
        let (state, value, message) = match &trace.state {
            ReadingState::Value(value) => ("Value", Some(*value), trace.account.as_deref()),
            ReadingState::Idle => ("Idle", None, trace.account.as_deref()),
            ReadingState::Unknown(why) => ("Unknown", None, Some(why.as_str())),
        };
        Self { name: &trace.name, state, value: value.map(Measurement::get), target: trace.target, replicas: trace.replicas, message }
    }
}

/// Whole numbers without a point, as people write them.
#[allow(clippy::trivially_copy_pass_by_ref)] // the signature that serde asks for
fn number<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() < EXACT { serializer.serialize_i64(*number as i64) } else { serializer.serialize_f64(*number) }
}

#[allow(clippy::ref_option)] // the signature that serde asks for
fn some_number<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => number(value, serializer),
        None => serializer.serialize_none(),
    }
}
