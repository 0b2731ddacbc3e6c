//! What is told of one scaler.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use llmscaler_api::WarmupStatus;
use llmscaler_engine::{ConditionType, Reason};
use serde::Serialize;

use super::level::{Last, Level};
use super::record::{Event, Facts, Kept, NamedReading, Record, Scale, Trouble};
use super::samples::{SAMPLES, Samples};
use crate::clock::Clock;

/// How many syncs the overview shows.
const TREND: usize = 60;
/// A scaler in the overview.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Summary {
    namespace: String,
    name: String,
    #[serde(flatten)]
    facts: Facts,
    /// When the last sync was, in milliseconds since 1970.
    at: Option<i64>,
    spec: Level,
    ready: Level,
    desired: Level,
    /// `spec` at the last syncs, oldest first.
    trend: Vec<Level>,
    signals: Vec<NamedReading>,
    reason: Option<&'static str>,
    /// Whether a guard keeps a write back.
    deferred: bool,
    last_scale: Option<Scale>,
    /// Codes of what a person should look at.
    troubles: Vec<String>,
}

/// A scaler by itself.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Detail {
    #[serde(flatten)]
    summary: Summary,
    history: Samples,
    readings: Vec<NamedReading>,
    decision: Option<Arc<Kept>>,
    decisions: Vec<Arc<Kept>>,
    events: Vec<Event>,
    conditions: Vec<Said>,
    warmup: Option<WarmupStatus>,
    trouble: Option<Trouble>,
}

/// A condition of the status.
#[derive(Clone, Debug, Serialize)]
struct Said {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: String,
    message: String,
    since: i64,
}

impl Record {
    pub(super) fn summary(&self, namespace: &str, name: &str) -> Summary {
        let newest = |levels: &Last<Level, SAMPLES>| levels.newest().copied().unwrap_or(Level::UNKNOWN);
        let Samples { at, spec, ready, desired, .. } = &self.samples;
        Summary {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            facts: self.facts.clone(),
            at: at.newest().copied(),
            spec: newest(spec),
            ready: newest(ready),
            desired: newest(desired),
            trend: spec.iter().skip(spec.len().saturating_sub(TREND)).copied().collect(),
            signals: self.readings.iter().map(|reading| reading.without_message()).collect(),
            reason: self.trouble.as_ref().map(|trouble| trouble.reason).or(self.decision.as_ref().map(|last| last.reason.as_str())),
            deferred: self.deferred,
            last_scale: self.last_scale,
            troubles: self.troubles(),
        }
    }

    pub(super) fn detail(&self, namespace: &str, name: &str) -> Detail {
        let said = |condition: &Condition| Said {
            kind: condition.type_.clone(),
            status: condition.status.clone(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            since: Clock::time_of(condition.last_transition_time.0).as_millis(),
        };
        Detail {
            summary: self.summary(namespace, name),
            history: self.samples.clone(),
            readings: self.readings.clone(),
            decision: self.decision.clone(),
            decisions: self.decisions.iter().rev().cloned().collect(),
            events: self.events.iter().rev().cloned().collect(),
            conditions: self.conditions.iter().map(said).collect(),
            warmup: self.warmup,
            trouble: self.trouble.clone(),
        }
    }

    /// What a person should look at, each once.
    fn troubles(&self) -> Vec<String> {
        let mut troubles: Vec<String> = vec![];
        let mut add = |reason: &str| {
            if !troubles.iter().any(|known| known == reason) {
                troubles.push(reason.to_owned());
            }
        };
        if let Some(trouble) = &self.trouble {
            add(trouble.reason);
        }
        self.conditions.iter().filter(|condition| is_trouble(condition)).for_each(|condition| add(&condition.reason));
        if self.readings.iter().any(|reading| reading.replicas.is_none() && reading.value.is_none()) {
            add(Reason::FailedGetMetrics.as_str());
        }
        troubles
    }
}

/// Whether a condition is one that a person should look at. Waiting for pods, and being held by a window or the minimum, is the
/// normal course of things; being held at the maximum is not.
fn is_trouble(condition: &Condition) -> bool {
    let is = |kind: ConditionType| kind.as_str() == condition.type_;
    let (holds, fails) = (condition.status == "True", condition.status == "False");
    if is(ConditionType::AbleToScale) || is(ConditionType::ColdHistory) {
        return false;
    }
    if is(ConditionType::ScalingLimited) {
        return holds && condition.reason == Reason::TooManyReplicas.as_str();
    }
    if ConditionType::OF_HEADROOM.into_iter().any(is) {
        return holds;
    }
    fails && condition.reason != Reason::ScalingDisabled.as_str()
}
