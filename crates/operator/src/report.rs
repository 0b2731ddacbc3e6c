//! Step *report*: status, events and logs.

pub(crate) mod condition;
mod event;
mod status;
#[cfg(test)]
mod tests;
mod trouble;
mod unreadable;

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::EventType;
use kube::{Api, Resource, ResourceExt};
use llmscaler_api::{LLMScaler, LLMScalerStatus, MetricState, WarmupStatus};
use llmscaler_engine::{ConditionType, Decision, ReadingState, ReadingTrace, Reason, Replicas, Time};
use llmscaler_signals::scrape::Problem;
use serde_json::json;
use tracing::{info, warn};

use self::condition::READY;
use crate::actuation::Reflection;
use crate::clock::Clock;
use crate::context::{Context, FIELD_MANAGER};
use crate::deadline::within;
use crate::owners::Taker;
use crate::questions::Scoped;

pub(crate) use self::condition::Said;
pub(crate) use self::trouble::Trouble;
pub(crate) use self::unreadable::unreadable;

/// The reason of events about pages that could not be read.
const FAILED_SCRAPE: &str = "FailedScrape";

/// What a sync came to.
pub(crate) struct Conclusion<'a> {
    pub decision: &'a Decision,
    /// The size that was written, if any.
    pub written: Option<Replicas>,
    /// How long pods take to start, if known.
    pub warmup: Option<WarmupStatus>,
    /// Whether the queries keep to the pool; `None` where none are asked.
    pub scoped: Option<&'a Scoped>,
}

/// Publishes what a scaler's task has to say, and remembers what was said: a status is written when it has changed, and an event is
/// published when its matter has.
pub(crate) struct Reporter {
    namespace: String,
    name: String,
    /// What was said last, in events and in the log. A status that could not be written is no reason to say it again.
    status: LLMScalerStatus,
    /// What the object says.
    written: LLMScalerStatus,
    /// Sources that are unknown.
    unknown: BTreeSet<String>,
    /// Pods and routers that could not be read.
    unreadable: BTreeSet<String>,
    /// The generation of the object that it began with.
    generation: Option<i64>,
    /// What the HPA that stands in for the operator says; `None` where there is none.
    pub reflection: Option<Reflection>,
}

impl Reporter {
    /// Continues from what the object says already, so that a restart does not repeat events.
    pub(crate) fn new(scaler: &LLMScaler) -> Self {
        let status = scaler.status.clone().unwrap_or_default();
        let unknown = status.metrics.iter().filter(|metric| metric.state == MetricState::Unknown).map(|metric| metric.name.clone());
        Self {
            namespace: scaler.namespace().unwrap_or_default(),
            name: scaler.name_any(),
            unknown: unknown.collect(),
            unreadable: BTreeSet::new(),
            written: status.clone(),
            status,
            generation: scaler.metadata.generation,
            reflection: None,
        }
    }

    /// The latest that a source can have been active, as far as the object knows: it may not have been told the last activity, and a
    /// fleet must not go to zero early because of a restart.
    pub(crate) fn last_active(&self, now: Time) -> Option<Time> {
        let told = Clock::time_of(self.written.last_active_time.as_ref()?.0);
        // A whole step would be news by itself, which each restart would move on.
        let untold = Duration::from_secs(status::ACTIVITY_NEWS.unsigned_abs()) - Duration::from_millis(1);
        Some(told.after(untold).min(now))
    }

    /// Who was said, of this generation of the object, to take back each size: a restart is no reason to try it again.
    pub(crate) fn taker(&self) -> Option<Taker> {
        let owned = ConditionType::TargetOwned.as_str();
        let lost = condition::word(Some(false));
        let condition = self.status.conditions.iter().find(|condition| condition.type_ == owned && condition.status == lost)?;
        if condition.reason != Reason::TargetOwned.as_str() || condition.observed_generation != self.generation {
            return None;
        }
        Taker::told_of(&condition.message)
    }

    /// Drops what was told of how long pods take to start, as they are those of another target from now on.
    pub(crate) fn forget_warmup(&mut self) {
        self.status.warmup = None;
    }

    /// Reports a decision. Answers whether it ended for another reason than the last one.
    pub(crate) async fn decision(&mut self, context: &Context, scaler: &LLMScaler, conclusion: Conclusion<'_>) -> bool {
        let Conclusion { decision, written, .. } = conclusion;
        let news = self.status.decision.as_ref().is_none_or(|last| last.reason != decision.reason.as_str());
        let said = self.said(decision, conclusion.scoped);
        let mut status = self.status_of(&conclusion);
        // What nothing is said of any more, as after an edit of the provider or the strategy, is not left to grow old.
        status.conditions.retain(|condition| said.iter().any(|said| said.kind == condition.type_));
        context.metrics.conditions(&self.namespace, &self.name, said.iter().map(|one| (one.kind, one.status)));
        if let Some(count) = written {
            status.last_scale_time = Some(meta::Time(Clock::timestamp_of(context.clock.now())));
            info!(from = %decision.replicas, to = %count, reason = %decision.reason, "Scaling target: {}", decision.message);
            self.event(context, scaler, EventType::Normal, Reason::SuccessfulRescale.as_str(), "Rescale", &decision.message).await;
        }
        let able = ConditionType::AbleToScale.as_str();
        for one in said.iter().filter(|one| one.kind != READY) {
            // What keeps a write back may be a condition of its own, and one event is enough.
            if one.kind != able || !said.iter().any(|other| other.kind != able && other.reason == one.reason) {
                self.event_on_turn(context, scaler, one).await;
            }
        }
        self.event_on_unknown(context, scaler, &decision.readings).await;
        self.publish(context, scaler, status, said).await;
        news
    }

    /// The status after this sync, but for its conditions, which are still as they were.
    fn status_of(&self, conclusion: &Conclusion<'_>) -> LLMScalerStatus {
        let Conclusion { decision, written, warmup, .. } = conclusion;
        let reflected = self.reflection.as_ref().and_then(|reflection| reflection.desired);
        LLMScalerStatus {
            replicas: Some(written.unwrap_or(decision.replicas).as_i32()),
            current_replicas: Some(decision.ready.as_i32()),
            desired_replicas: Some(reflected.unwrap_or(decision.desired.as_i32())),
            last_active_time: decision.memory.last_active_at.map(|at| meta::Time(Clock::timestamp_of(at))),
            warmup: *warmup,
            metrics: decision.readings.iter().map(status::metric).collect(),
            decision: Some(status::decision(decision)),
            ..self.status.clone()
        }
    }

    /// Every condition, the sum of them last.
    fn said(&self, decision: &Decision, scoped: Option<&Scoped>) -> Vec<Said> {
        let mut said: Vec<Said> = decision.conditions.iter().map(Said::from).collect();
        // Another provider asks no queries.
        said.extend(scoped.map(condition::queries_scoped));
        let mut ready = condition::ready(&decision.conditions);
        if let Some(Reflection { conditions, trouble, .. }) = &self.reflection {
            condition::reflect(&mut said, conditions);
            if let Some((reason, message)) = trouble.clone() {
                ready = Said { kind: READY, status: Some(false), reason: reason.into(), message };
            }
        }
        said.push(ready);
        said
    }

    /// Reports what kept a sync from a decision or from carrying it out. What was seen before stays in the status.
    pub(crate) async fn trouble(&mut self, context: &Context, scaler: &LLMScaler, trouble: Trouble, message: &str) {
        self.event_on_turn(context, scaler, &trouble.said_of(READY, message)).await;
        let (namespace, name) = (&self.namespace, &self.name);
        context.metrics.sync_error(namespace, name, trouble.label());
        context.metrics.broken(namespace, name, trouble.conditions());
        if let Some(history) = &context.history {
            history.failed(namespace, name, context.clock.now(), trouble.as_str(), message);
        }
        self.publish(context, scaler, self.status.clone(), trouble.said(message)).await;
    }

    /// Remembers the status, and writes it if it differs from the one that was written last.
    async fn publish(&mut self, context: &Context, scaler: &LLMScaler, mut status: LLMScalerStatus, said: Vec<Said>) {
        let generation = scaler.metadata.generation;
        status.observed_generation = generation;
        for said in said {
            condition::set(&mut status.conditions, said, generation, context.clock.timestamp());
        }
        self.status = status;
        let (namespace, name) = (&self.namespace, &self.name);
        if let Some(history) = &context.history {
            history.status(namespace, name, &self.status);
        }
        if !status::differs(&self.status, &self.written) || !context.claim.is_current() {
            return;
        }
        let api: Api<LLMScaler> = Api::namespaced(context.client.clone(), namespace);
        let (version, kind) = (LLMScaler::api_version(&()), LLMScaler::kind(&()));
        let body = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "status": self.status});
        match within(api.patch_status(name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(body))).await {
            Ok(_) => self.written = self.status.clone(),
            Err(error) if error.is_not_found() => {}
            // The next sync compares with what was written last, so it tries again.
            Err(error) => warn!(%error, "Failed to write the status"),
        }
    }

    /// An event when a condition takes a turn that people should know of.
    async fn event_on_turn(&self, context: &Context, scaler: &LLMScaler, said: &Said) {
        if let Some(weight) = event::weight_of_turn(&self.status.conditions, said) {
            self.event(context, scaler, weight, &said.reason, said.kind, &said.message).await;
        }
    }

    /// An event when a metric becomes unknown beside others that are known; when all are, the condition has its own.
    async fn event_on_unknown(&mut self, context: &Context, scaler: &LLMScaler, readings: &[ReadingTrace]) {
        let unknown: BTreeSet<String> = readings.iter().filter(|reading| reading.replicas.is_none()).map(|r| r.name.clone()).collect();
        for reading in readings {
            let ReadingState::Unknown(why) = &reading.state else { continue };
            if self.unknown.contains(&reading.name) {
                continue;
            }
            warn!(metric = reading.name, "Failed to fetch a metric: {why}");
            if unknown.len() < readings.len() {
                let note = format!("{} is unknown: {why}", reading.name);
                self.event(context, scaler, EventType::Warning, Reason::FailedGetMetrics.as_str(), "Observe", &note).await;
            }
        }
        self.unknown = unknown;
    }

    /// Reports pods and routers whose pages could not be read, each once until it can be read again.
    pub(crate) async fn problems(&mut self, context: &Context, scaler: &LLMScaler, problems: &[Problem]) {
        let fresh: Vec<String> = problems
            .iter()
            .filter(|problem| !self.unreadable.contains(&problem.name))
            .map(|problem| format!("{} {}", problem.name, problem.why))
            .collect();
        self.unreadable = problems.iter().map(|problem| problem.name.clone()).collect();
        if !fresh.is_empty() {
            let note = fresh.join("; ");
            warn!("Failed to fetch pages: {note}");
            self.event(context, scaler, EventType::Warning, FAILED_SCRAPE, "Observe", &note).await;
        }
    }

    /// Publishes an event about the scaler.
    pub(crate) async fn event(&self, context: &Context, scaler: &LLMScaler, weight: EventType, reason: &str, action: &str, note: &str) {
        event::publish(context, &scaler.object_ref(&()), weight, reason, action, note).await;
    }
}

#[cfg(test)]
impl Reporter {
    /// What is told of how long pods take to start.
    pub(crate) fn warmup(&self) -> Option<WarmupStatus> {
        self.status.warmup
    }
}
