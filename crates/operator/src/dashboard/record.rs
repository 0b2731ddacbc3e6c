//! What is kept of one scaler.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use llmscaler_api::{LLMScalerStatus, TargetRef, WarmupStatus};
use llmscaler_engine::{Decision, Law, Mode, ReadingState, ReadingTrace, Reason, Replicas, Spec, Stage, Time};
use serde::Serialize;

use super::history::Synced;
use super::level::Last;
use super::samples::{Samples, is_total, value};
use crate::words::shortened;

/// How many decisions are kept of those that changed something or came to another reason than the one before.
pub const DECISIONS: usize = 20;
/// How many events are kept.
pub const EVENTS: usize = 20;

/// The longest sentence that is kept, in bytes.
const SENTENCE: usize = 1000;

/// What is kept of one scaler.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// That of the last change; see [`super::History`].
    pub(super) version: u64,
    pub(super) facts: Facts,
    pub(super) samples: Samples,
    pub(super) readings: Vec<NamedReading>,
    pub(super) decision: Option<Arc<Kept>>,
    pub(super) deferred: bool,
    pub(super) decisions: Last<Arc<Kept>, DECISIONS>,
    pub(super) events: Last<Event, EVENTS>,
    pub(super) conditions: Vec<Condition>,
    pub(super) warmup: Option<WarmupStatus>,
    pub(super) last_scale: Option<Scale>,
    pub(super) trouble: Option<Trouble>,
}

/// What the scaler is told to do.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Facts {
    /// Kind and name; empty before the first look.
    target: String,
    /// Whether decisions are shown and not written.
    recommends_only: bool,
    min: Option<Replicas>,
    max: Option<Replicas>,
    period_seconds: Option<f64>,
    /// The share of requests that must be in time, with the law that has one.
    objective: Option<f64>,
}

/// What a source said last.
#[derive(Clone, Debug, Serialize)]
pub(super) struct NamedReading {
    name: String,
    state: &'static str,
    pub(super) value: Option<f64>,
    target: Option<f64>,
    /// Whether the value is the total of the pool, and the target the share of one replica.
    total: bool,
    pub(super) replicas: Option<Replicas>,
    /// Why it is unknown, or how the law came to its count.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// A decision as people read it.
#[derive(Debug, Serialize)]
pub(super) struct Kept {
    at: i64,
    spec: Replicas,
    ready: Replicas,
    recommended: Replicas,
    desired: Replicas,
    written: Option<Replicas>,
    pub(super) reason: Reason,
    message: Arc<str>,
    stages: Vec<KeptStage>,
}

#[derive(Debug, Serialize)]
pub(super) struct KeptStage {
    stage: Stage,
    #[serde(rename = "in")]
    count_in: Replicas,
    out: Replicas,
    reason: Reason,
    message: Arc<str>,
}

/// An event that was published.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Event {
    at: i64,
    warning: bool,
    reason: String,
    message: String,
}

/// The last change of the size.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Scale {
    at: i64,
    /// Unknown when it was before this process.
    from: Option<Replicas>,
    to: Option<Replicas>,
}

/// What kept the last sync from a decision.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Trouble {
    at: i64,
    pub(super) reason: &'static str,
    message: String,
}

impl Record {
    pub(super) fn decided(&mut self, synced: &Synced<'_>) {
        let Synced { at, target, spec, decision, written, .. } = *synced;
        if self.facts.update(target, spec) {
            // Another workload has another past.
            self.samples = Samples::default();
        }
        self.samples.push(at, Some(synced));
        self.readings = decision.readings.iter().map(|reading| NamedReading::of(reading, is_total(spec, reading))).collect();
        self.deferred = decision.deferred() && written.is_none();
        self.trouble = None;
        let kept = Arc::new(Kept::of(at, decision, written, self.decision.as_deref()));
        if written.is_some() || self.decisions.newest().is_none_or(|last| last.reason != decision.reason) {
            self.decisions.push(kept.clone());
        }
        if let Some(to) = written {
            self.last_scale = Some(Scale { at: at.as_millis(), from: Some(decision.replicas), to: Some(to) });
        }
        self.decision = Some(kept);
    }

    /// Nothing is known of this sync, which is a gap in every line.
    pub(super) fn failed(&mut self, at: Time, reason: &'static str, message: &str) {
        self.samples.push(at, None);
        self.trouble = Some(Trouble { at: at.as_millis(), reason, message: shortened(message, SENTENCE) });
    }

    pub(super) fn event(&mut self, at: Time, warning: bool, reason: &str, note: &str) {
        let message = shortened(note, SENTENCE);
        self.events.push(Event { at: at.as_millis(), warning, reason: reason.to_owned(), message });
    }

    /// Takes over what is not a part of a decision. Answers whether that is news.
    pub(super) fn status(&mut self, status: &LLMScalerStatus) -> bool {
        let told = status.last_scale_time.as_ref().map(|time| time.0.as_millisecond());
        let earlier = self.last_scale.is_none();
        if earlier && let Some(at) = told {
            self.last_scale = Some(Scale { at, from: None, to: None });
        }
        let news = self.conditions != status.conditions || self.warmup != status.warmup;
        if news {
            self.conditions.clone_from(&status.conditions);
            self.warmup = status.warmup;
        }
        news || (earlier && told.is_some())
    }
}

impl Facts {
    /// Takes over what the scaler is told to do. Answers whether the workload is another one than before.
    fn update(&mut self, target: &TargetRef, spec: &Spec) -> bool {
        let same = self.target.strip_prefix(target.kind.as_str()).and_then(|rest| rest.strip_prefix('/')) == Some(&target.name);
        let moved = !same && !self.target.is_empty();
        if !same {
            self.target = format!("{}/{}", target.kind, target.name);
        }
        self.recommends_only = spec.mode == Mode::Recommend;
        (self.min, self.max) = (Some(spec.bounds.min), Some(spec.bounds.max));
        self.period_seconds = Some(spec.sync_period.as_secs_f64());
        self.objective = spec.sources.iter().find_map(|source| match source.law {
            Law::Headroom(law) => Some(law.objective.get()),
            _ => None,
        });
        moved
    }
}

impl NamedReading {
    /// For the overview, where there is no room for sentences.
    pub(super) fn without_message(&self) -> Self {
        Self { name: self.name.clone(), message: None, ..*self }
    }

    fn of(reading: &ReadingTrace, total: bool) -> Self {
        let (state, message) = match &reading.state {
            ReadingState::Value(_) => ("Value", reading.account.as_deref()),
            ReadingState::Idle => ("Idle", reading.account.as_deref()),
            ReadingState::Unknown(why) => ("Unknown", Some(why.as_str())),
        };
        Self {
            name: reading.name.clone(),
            state,
            value: value(&reading.state),
            target: reading.target,
            total,
            replicas: reading.replicas,
            message: message.map(|message| shortened(message, SENTENCE)),
        }
    }
}

/// A sentence, cut if it is long. Those of most stages stay the same from one decision to the next, and are kept once.
fn sentence(text: &str, before: Option<&Arc<str>>) -> Arc<str> {
    let text = shortened(text, SENTENCE);
    match before {
        Some(before) if **before == *text => Arc::clone(before),
        _ => text.into(),
    }
}

impl Kept {
    fn of(at: Time, decision: &Decision, written: Option<Replicas>, before: Option<&Self>) -> Self {
        let stages = decision.stages.iter().enumerate().map(|(index, trace)| KeptStage {
            stage: trace.stage,
            count_in: trace.count_in,
            out: trace.out,
            reason: trace.reason,
            message: sentence(&trace.message, before.and_then(|before| before.stages.get(index)).map(|stage| &stage.message)),
        });
        Self {
            at: at.as_millis(),
            spec: decision.replicas,
            ready: decision.ready,
            recommended: decision.recommended,
            desired: decision.desired,
            written,
            reason: decision.reason,
            message: sentence(&decision.message, before.map(|before| &before.message)),
            stages: stages.collect(),
        }
    }
}
