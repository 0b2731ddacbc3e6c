//! Step *report*: status, events and logs.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::error_boundary::InvalidObject;
use kube::runtime::events::EventType;
use kube::{Api, Resource, ResourceExt};
use llmscaler_api::{DecisionStatus, LLMScaler, LLMScalerStatus, MetricState, MetricStatus, StageStatus, WarmupStatus};
use llmscaler_engine::{Condition, ConditionType, Decision, ReadingState, ReadingTrace, Reason, Replicas, Time};
use llmscaler_signals::scrape::Problem;
use serde_json::json;
use tracing::{info, warn};

use crate::actuation::{Reflected, Reflection};
use crate::clock::Clock;
use crate::context::{Context, FIELD_MANAGER};
use crate::deadline::within;
use crate::owners::Taker;
use crate::questions::Scoped;

/// Longest note of an event, in bytes; the API server takes 1 KiB.
const EVENT_NOTE: usize = 1000;
/// Longest message in a status, in bytes; enough for a query and what came back.
const STATUS_MESSAGE: usize = 4000;

/// The condition that sums up the others.
pub(crate) const READY: &str = "Ready";
/// The condition that says whether the queries keep to the pool.
pub(crate) const QUERIES_SCOPED: &str = "QueriesScoped";

/// The reason of events about pages that could not be read.
const FAILED_SCRAPE: &str = "FailedScrape";

/// By how many seconds the last activity has to move to be worth a write of its own.
const ACTIVITY_NEWS: i64 = 30;

/// What kept a sync from reaching a decision, or from carrying it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The resource cannot be used; only an edit helps.
    InvalidSpec,
    /// There is no such target.
    TargetMissing,
    /// The target could not be looked at.
    FailedGetScale,
    /// The new size could not be written.
    FailedUpdateScale,
}

impl Trouble {
    /// The reason of conditions and events.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidSpec => "InvalidSpec",
            Self::TargetMissing | Self::FailedGetScale => "FailedGetScale",
            Self::FailedUpdateScale => "FailedUpdateScale",
        }
    }

    /// The label of the metric. It tells a target that is gone, which the scaler's owner looks after, from one that is out of reach.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::TargetMissing => "TargetMissing",
            _ => self.as_str(),
        }
    }

    /// The conditions that do not hold because of it.
    const fn conditions(self) -> &'static [&'static str] {
        const ABLE: &str = ConditionType::AbleToScale.as_str();
        const ACTIVE: &str = ConditionType::ScalingActive.as_str();
        match self {
            // What was decided before the edit holds no more either.
            Self::InvalidSpec => &[ACTIVE, ABLE, READY],
            Self::TargetMissing | Self::FailedGetScale | Self::FailedUpdateScale => &[ABLE, READY],
        }
    }
}

/// Publishes what a scaler's task has to say, and remembers what was said: a status is written when it has changed, and an event is
/// published when its matter has.
pub(crate) struct Reporter {
    /// What was said last, in events and in the log. A status that could not be written is no reason to say it again.
    status: LLMScalerStatus,
    /// What the object says.
    written: LLMScalerStatus,
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
        let generation = scaler.metadata.generation;
        let unknown = status.metrics.iter().filter(|metric| metric.state == MetricState::Unknown).map(|metric| metric.name.clone());
        Self { reflection: None, unknown: unknown.collect(), unreadable: BTreeSet::new(), written: status.clone(), status, generation }
    }

    /// The latest that a source can have been active, as far as the object knows: it may not have been told the last activity, and a
    /// fleet must not go to zero early because of a restart.
    pub(crate) fn last_active(&self, now: Time) -> Option<Time> {
        let told = Clock::time_of(self.written.last_active_time.as_ref()?.0);
        // A whole step would be news by itself, which each restart would move on.
        let untold = Duration::from_secs(ACTIVITY_NEWS.unsigned_abs()) - Duration::from_millis(1);
        Some(told.after(untold).min(now))
    }

    /// Who was said, of this generation of the object, to take back each size: a restart is no reason to try it again.
    pub(crate) fn taker(&self) -> Option<Taker> {
        let owned = ConditionType::TargetOwned.as_str();
        let condition =
            self.status.conditions.iter().find(|condition| condition.type_ == owned && condition.status == word(Some(false)))?;
        if condition.reason != Reason::TargetOwned.as_str() || condition.observed_generation != self.generation {
            return None;
        }
        Taker::told_of(&condition.message)
    }

    /// Drops what was told of how long pods take to start, as they are those of another target from now on.
    pub(crate) fn forget_warmup(&mut self) {
        self.status.warmup = None;
    }

    /// Reports a decision, the size that was written, if any, and how long pods take to start, if known. Answers whether it ended for another reason than the last one.
    pub(crate) async fn decision(
        &mut self,
        context: &Context,
        scaler: &LLMScaler,
        decision: &Decision,
        written: Option<Replicas>,
        warmup: Option<WarmupStatus>,
        scoped: Option<&Scoped>,
    ) -> bool {
        let news = self.status.decision.as_ref().is_none_or(|last| last.reason != decision.reason.as_str());
        let mut status = self.status.clone();
        status.replicas = Some(written.unwrap_or(decision.replicas).as_i32());
        status.current_replicas = Some(decision.ready.as_i32());
        let reflected = self.reflection.as_ref().and_then(|reflection| reflection.desired);
        status.desired_replicas = Some(reflected.unwrap_or(decision.desired.as_i32()));
        status.last_active_time = decision.memory.last_active_at.map(|at| meta::Time(Clock::timestamp_of(at)));
        status.warmup = warmup;
        status.metrics = decision.readings.iter().map(metric_status).collect();
        status.decision = Some(decision_status(decision));
        let said = self.said(decision, scoped);
        let (namespace, name) = (scaler.namespace().unwrap_or_default(), scaler.name_any());
        context.metrics.conditions(&namespace, &name, said.iter().map(|one| (one.kind, one.status)));
        if let Some(count) = written {
            status.last_scale_time = Some(meta::Time(Clock::timestamp_of(context.clock.now())));
            info!(from = %decision.replicas, to = %count, reason = %decision.reason, "Scaling target: {}", decision.message);
            self.event(context, scaler, EventType::Normal, Reason::SuccessfulRescale.as_str(), "Rescale", &decision.message).await;
        }
        let able = ConditionType::AbleToScale.as_str();
        for one in said.iter().filter(|one| one.kind != READY) {
            // What keeps a write back may be a condition of its own, and one event is enough.
            if one.kind != able || !said.iter().any(|other| other.kind != able && other.reason == one.reason) {
                self.event_on_change(context, scaler, one).await;
            }
        }
        self.event_on_unknown(context, scaler, &decision.readings).await;
        // What nothing is said of any more, as after an edit of the provider or the strategy, is not left to grow old.
        status.conditions.retain(|condition| said.iter().any(|said| said.kind == condition.type_));
        self.publish(context, scaler, status, said).await;
        news
    }

    /// Every condition, the sum of them last.
    fn said(&self, decision: &Decision, scoped: Option<&Scoped>) -> Vec<Said> {
        let mut said: Vec<Said> = decision.conditions.iter().map(Said::from).collect();
        // Another provider asks no queries.
        said.extend(scoped.map(queries_scoped));
        if let Some(reflection) = &self.reflection {
            reflect(&mut said, reflection);
        }
        let trouble = self.reflection.as_ref().and_then(|reflection| reflection.trouble.clone());
        said.push(match trouble {
            Some((reason, message)) => Said { kind: READY, status: Some(false), reason: reason.into(), message },
            None => ready(&decision.conditions),
        });
        said
    }

    /// Reports what kept a sync from a decision or from carrying it out. What was seen before stays in the status.
    pub(crate) async fn trouble(&mut self, context: &Context, scaler: &LLMScaler, trouble: Trouble, message: &str) {
        let said = |kind| Said { kind, status: Some(false), reason: trouble.as_str().into(), message: message.to_owned() };
        self.event_on_change(context, scaler, &said(READY)).await;
        let said = trouble.conditions().iter().map(|kind| said(kind)).collect();
        let (namespace, name) = (scaler.namespace().unwrap_or_default(), scaler.name_any());
        context.metrics.sync_error(&namespace, &name, trouble.label());
        context.metrics.broken(&namespace, &name, trouble.conditions());
        if let Some(history) = &context.history {
            history.failed(&namespace, &name, context.clock.now(), trouble.as_str(), message);
        }
        self.publish(context, scaler, self.status.clone(), said).await;
    }

    /// Remembers the status, and writes it if it differs from the one that was written last.
    async fn publish(&mut self, context: &Context, scaler: &LLMScaler, mut status: LLMScalerStatus, said: Vec<Said>) {
        let generation = scaler.metadata.generation;
        status.observed_generation = generation;
        for said in said {
            set_condition(&mut status.conditions, said, generation, context.clock.timestamp());
        }
        self.status = status;
        if let Some(history) = &context.history {
            history.status(&scaler.namespace().unwrap_or_default(), &scaler.name_any(), &self.status);
        }
        if !differs(&self.status, &self.written) || !context.claim.is_current() {
            return;
        }
        let (namespace, name) = (scaler.namespace().unwrap_or_default(), scaler.name_any());
        let api: Api<LLMScaler> = Api::namespaced(context.client.clone(), &namespace);
        let (version, kind) = (LLMScaler::api_version(&()), LLMScaler::kind(&()));
        let body = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "status": self.status});
        match within(api.patch_status(&name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(body))).await {
            Ok(_) => self.written = self.status.clone(),
            Err(error) if error.is_not_found() => {}
            // The next sync compares with what was written last, so it tries again.
            Err(error) => warn!(%error, "Failed to write the status"),
        }
    }

    /// An event when a condition takes a turn that people should know of.
    async fn event_on_change(&self, context: &Context, scaler: &LLMScaler, said: &Said) {
        let before = self.status.conditions.iter().find(|condition| condition.type_ == said.kind);
        if before.is_some_and(|before| before.status == word(said.status) && before.reason == said.reason) {
            return;
        }
        // Some conditions tell of trouble while they hold, the others while they do not.
        let well = Some(!ConditionType::OF_HEADROOM.iter().any(|kind| kind.as_str() == said.kind));
        let unwell_before = before.is_some_and(|before| before.status == word(well.map(|well| !well)));
        // A short history is how each operator starts.
        let harmless = [Reason::DesiredWithinRange, Reason::ScalingDisabled, Reason::HistoryShort].map(Reason::as_str);
        let quiet = [ConditionType::ScalingLimited, ConditionType::ColdHistory].map(ConditionType::as_str);
        let troubling = said.status != well && !harmless.contains(&said.reason.as_ref());
        let recovered = said.status == well && unwell_before && !quiet.contains(&said.kind);
        // Waiting for a rollout or for pods to start is the normal course of things, and so is the other autoscaler to watch.
        let waiting = said.kind == ConditionType::AbleToScale.as_str() || said.reason == Reason::RecommendOnly.as_str();
        let weight = if troubling && !waiting { EventType::Warning } else { EventType::Normal };
        if troubling || recovered {
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
        publish(context, &scaler.object_ref(&()), weight, reason, action, note).await;
    }
}

/// Says on an object that cannot even be read why nothing happens: in its status and, as the API server refuses even that while a field
/// has a wrong type, in an event.
pub(crate) async fn unreadable(context: &Context, object: &InvalidObject) {
    let (namespace, name) = (object.metadata.namespace.clone().unwrap_or_default(), object.metadata.name.clone().unwrap_or_default());
    if let Some(history) = &context.history {
        history.failed(&namespace, &name, context.clock.now(), Trouble::InvalidSpec.as_str(), &object.error);
    }
    let resource = ApiResource::erase::<LLMScaler>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(context.client.clone(), &namespace, &resource);
    let message = format!("the object cannot be read: {}", object.error);
    let mut conditions = match within(api.get(&name)).await {
        Ok(found) => serde_json::from_value(found.data["status"]["conditions"].clone()).unwrap_or_default(),
        Err(_) => vec![],
    };
    let is_said = |condition: &meta::Condition| condition.reason == Trouble::InvalidSpec.as_str() && condition.message == message;
    if conditions.iter().any(is_said) {
        return;
    }
    warn!(namespace, name, error = object.error, "An LLMScaler cannot be read; it waits for its next edit");
    let reference = ObjectReference {
        api_version: Some(resource.api_version),
        kind: Some(resource.kind),
        namespace: object.metadata.namespace.clone(),
        name: object.metadata.name.clone(),
        uid: object.metadata.uid.clone(),
        ..ObjectReference::default()
    };
    publish(context, &reference, EventType::Warning, Trouble::InvalidSpec.as_str(), READY, &message).await;
    for kind in Trouble::InvalidSpec.conditions() {
        let said = Said { kind, status: Some(false), reason: Trouble::InvalidSpec.as_str().into(), message: message.clone() };
        set_condition(&mut conditions, said, object.metadata.generation, context.clock.timestamp());
    }
    if !context.claim.is_current() {
        return;
    }
    let body = json!({"status": {"conditions": conditions}});
    if let Err(error) = within(api.patch_status(&name, &PatchParams::default(), &Patch::Merge(body))).await {
        warn!(namespace, name, %error, "Failed to write the status");
    }
}

/// Publishes an event. Events inform people; nothing depends on their success.
async fn publish(context: &Context, about: &ObjectReference, weight: EventType, reason: &str, action: &str, note: &str) {
    if let (Some(history), Some(namespace), Some(name)) = (&context.history, &about.namespace, &about.name) {
        history.event(namespace, name, context.clock.now(), weight == EventType::Warning, reason, note);
    }
    // Not by kube's recorder: it dates events by the wall clock, and counts a later event up that differs only in its note, and drops
    // the note, so that of two rescales only the first would be told.
    let (now, reporter) = (context.clock.timestamp(), &context.reporter);
    let name = format!("{}.{:x}", about.name.as_deref().unwrap_or_default(), now.as_nanosecond());
    let event = Event {
        metadata: meta::ObjectMeta { name: Some(name), namespace: about.namespace.clone(), ..meta::ObjectMeta::default() },
        event_time: Some(meta::MicroTime(now)),
        type_: Some(if weight == EventType::Warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(reason.to_owned()),
        note: Some(shortened(note, EVENT_NOTE)),
        action: Some(action.to_owned()),
        regarding: Some(about.clone()),
        reporting_controller: Some(reporter.controller.clone()),
        reporting_instance: Some(reporter.instance.clone().unwrap_or_else(|| reporter.controller.clone())),
        ..Event::default()
    };
    let events: Api<Event> = Api::namespaced(context.client.clone(), about.namespace.as_deref().unwrap_or("default"));
    if let Err(error) = within(events.create(&PostParams::default(), &event)).await {
        warn!(%error, reason, "Failed to publish an event");
    }
}

/// Whether a status is worth a write. While a fleet is active its last activity is always now, which is not news each time.
fn differs(new: &LLMScalerStatus, written: &LLMScalerStatus) -> bool {
    let active = |status: &LLMScalerStatus| status.last_active_time.as_ref().map_or(0, |time| time.0.as_second());
    let news = active(new).saturating_sub(active(written)) >= ACTIVITY_NEWS;
    news || new != &LLMScalerStatus { last_active_time: new.last_active_time.clone(), ..written.clone() }
}

/// The status of a condition in the word that the API has for it.
const fn word(status: Option<bool>) -> &'static str {
    match status {
        Some(true) => "True",
        Some(false) => "False",
        None => "Unknown",
    }
}

/// A condition to set.
struct Said {
    kind: &'static str,
    /// `None` when nobody knows.
    status: Option<bool>,
    reason: Cow<'static, str>,
    message: String,
}

impl From<&Condition> for Said {
    fn from(condition: &Condition) -> Self {
        let Condition { kind, status, reason, message } = condition;
        Self { kind: kind.as_str(), status: Some(*status), reason: reason.as_str().into(), message: message.clone() }
    }
}

/// The sum of the conditions for `kubectl wait` and GitOps tools: a scaler that cannot do its work is not ready.
fn ready(conditions: &[Condition]) -> Said {
    let fatal = |condition: &&Condition| match condition.kind {
        ConditionType::ScalingActive => !condition.status && condition.reason != Reason::ScalingDisabled,
        // Who only watches needs no target for itself.
        ConditionType::TargetOwned => !condition.status && condition.reason != Reason::RecommendOnly,
        _ => false,
    };
    let active = conditions.iter().find(|condition| condition.kind == ConditionType::ScalingActive);
    let decisive = conditions.iter().find(fatal);
    let (reason, message) = decisive.or(active).map_or((Reason::NoChange, ""), |condition| (condition.reason, condition.message.as_str()));
    Said { kind: READY, status: Some(decisive.is_none()), reason: reason.as_str().into(), message: message.to_owned() }
}

fn queries_scoped(scoped: &Scoped) -> Said {
    let (status, reason, message) = match scoped {
        Scoped::Yes => (Some(true), "AllScoped", "every query keeps to this target's own series"),
        Scoped::No(why) => (Some(false), "PoolsMayMix", why.as_str()),
        Scoped::Unknown(why) => (None, "UnreadableQuery", why.as_str()),
    };
    Said { kind: QUERIES_SCOPED, status, reason: reason.into(), message: message.to_owned() }
}

/// Puts what an HPA says in the place of what is said under the same heading. That no source is known is said in our own words.
fn reflect(said: &mut Vec<Said>, reflection: &Reflection) {
    for Reflected { kind, status, reason, message } in &reflection.conditions {
        let ours = said.iter().position(|one| one.kind == *kind);
        if ours.is_some_and(|ours| said[ours].status == Some(false)) {
            continue;
        }
        let theirs = Said { kind, status: *status, reason: reason.clone().into(), message: message.clone() };
        match ours {
            Some(ours) => said[ours] = theirs,
            None => said.push(theirs),
        }
    }
}

/// Sets a condition; its transition time moves only when its status flips.
fn set_condition(conditions: &mut Vec<meta::Condition>, said: Said, generation: Option<i64>, now: Timestamp) {
    let status = word(said.status);
    let before = conditions.iter().position(|condition| condition.type_ == said.kind);
    let since = before.map(|index| &conditions[index]).filter(|condition| condition.status == status);
    let condition = meta::Condition {
        type_: said.kind.to_owned(),
        status: status.to_owned(),
        reason: said.reason.into_owned(),
        message: shortened(&said.message, STATUS_MESSAGE),
        last_transition_time: since.map_or_else(|| meta::Time(now), |condition| condition.last_transition_time.clone()),
        observed_generation: generation,
    };
    match before {
        Some(index) => conditions[index] = condition,
        None => conditions.push(condition),
    }
}

fn metric_status(reading: &ReadingTrace) -> MetricStatus {
    let (state, value, message) = match &reading.state {
        ReadingState::Value(value) => (MetricState::Value, Some(rounded(value.get()).to_string()), reading.account.clone()),
        ReadingState::Idle => (MetricState::Idle, None, reading.account.clone()),
        ReadingState::Unknown(why) => (MetricState::Unknown, None, Some(shortened(why, STATUS_MESSAGE))),
    };
    MetricStatus {
        name: reading.name.clone(),
        state,
        value,
        target: reading.target.map(|target| target.to_string()),
        replicas: reading.replicas.map(Replicas::as_i32),
        message,
    }
}

/// To six digits, so that noise in the last ones does not rewrite the status.
fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

fn decision_status(decision: &Decision) -> DecisionStatus {
    let stages = decision.stages.iter().map(|trace| StageStatus {
        stage: trace.stage.as_str().to_owned(),
        count_in: trace.count_in.as_i32(),
        out: trace.out.as_i32(),
        reason: trace.reason.to_string(),
        message: shortened(&trace.message, STATUS_MESSAGE),
    });
    DecisionStatus { reason: decision.reason.to_string(), message: shortened(&decision.message, STATUS_MESSAGE), stages: stages.collect() }
}

/// The text, cut at a character if it is longer than `most` bytes.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most.saturating_sub('…'.len_utf8()));
    format!("{}…", &text[..end])
}

#[cfg(test)]
impl Reporter {
    /// What is told of how long pods take to start.
    pub(crate) fn warmup(&self) -> Option<WarmupStatus> {
        self.status.warmup
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use llmscaler_engine::{Memory, Observation, Reading, Workload, decide};

    use super::*;
    use crate::fake_api;

    fn condition(kind: ConditionType, status: bool, reason: Reason) -> Condition {
        Condition { kind, status, reason, message: "m".to_owned() }
    }

    #[test]
    fn ready_needs_a_metric_and_the_target_for_itself() {
        let active = |status, reason| condition(ConditionType::ScalingActive, status, reason);
        let owned = |status, reason| condition(ConditionType::TargetOwned, status, reason);
        let sum = |conditions: &[Condition]| (ready(conditions).status, ready(conditions).reason.into_owned());
        assert_eq!(sum(&[active(true, Reason::ValidMetricFound), owned(true, Reason::OnlyOwner)]), (Some(true), "ValidMetricFound".into()));
        assert_eq!(sum(&[active(false, Reason::FailedGetMetrics)]), (Some(false), "FailedGetMetrics".into()));
        assert_eq!(sum(&[active(false, Reason::ScalingDisabled)]), (Some(true), "ScalingDisabled".into()), "pinned at zero on purpose");
        assert_eq!(sum(&[active(true, Reason::ValidMetricFound), owned(false, Reason::TargetOwned)]), (Some(false), "TargetOwned".into()));
        let watching = [active(true, Reason::ValidMetricFound), owned(false, Reason::RecommendOnly)];
        assert_eq!(sum(&watching), (Some(true), "ValidMetricFound".into()), "it needs no target for itself");
    }

    #[test]
    fn the_transition_time_moves_when_the_status_flips() {
        let said = |status, reason: &'static str| Said { kind: READY, status, reason: reason.into(), message: String::new() };
        let mut conditions = vec![];
        set_condition(&mut conditions, said(Some(true), "A"), Some(1), Timestamp::now());
        let long_ago = meta::Time("2020-01-01T00:00:00Z".parse().unwrap());
        conditions[0].last_transition_time = long_ago.clone();
        set_condition(&mut conditions, said(Some(true), "B"), Some(2), Timestamp::now());
        assert_eq!((conditions[0].reason.as_str(), &conditions[0].last_transition_time), ("B", &long_ago));
        set_condition(&mut conditions, said(Some(false), "C"), Some(2), Timestamp::now());
        assert_ne!(conditions[0].last_transition_time, long_ago);
        assert_eq!(conditions.len(), 1);
    }

    fn scaler(status: serde_json::Value) -> LLMScaler {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "fleet"});
        let spec = json!({"targetRef": target, "minReplicas": 1, "maxReplicas": 2});
        serde_json::from_value(json!({"metadata": {"name": "fleet", "namespace": "serving"}, "spec": spec, "status": status})).unwrap()
    }

    /// An API server that counts events and keeps the statuses that it takes.
    struct Heard {
        events: AtomicUsize,
        statuses: Mutex<Vec<serde_json::Value>>,
        refuses: AtomicBool,
    }

    fn heard() -> (Arc<Heard>, Context) {
        let heard = Arc::new(Heard { events: AtomicUsize::new(0), statuses: Mutex::default(), refuses: AtomicBool::new(false) });
        let server = heard.clone();
        let client = fake_api::client(move |asked| {
            if asked.path.contains("/events") {
                server.events.fetch_add(1, Ordering::Relaxed);
                return Some((201, asked.body));
            }
            if asked.method == "GET" {
                return Some((200, json!({"metadata": {"name": "fleet"}, "status": {}})));
            }
            if server.refuses.load(Ordering::Relaxed) {
                return fake_api::refusal(500, "InternalError", "etcdserver: request timed out");
            }
            server.statuses.lock().unwrap().push(asked.body["status"].clone());
            Some((200, json!({"metadata": {"name": "fleet"}, "spec": scaler(json!({})).spec})))
        });
        (heard, fake_api::context(client))
    }

    fn conditions(status: &serde_json::Value) -> Vec<[&str; 3]> {
        let all = status["conditions"].as_array().unwrap();
        all.iter().map(|condition| ["type", "status", "reason"].map(|key| condition[key].as_str().unwrap())).collect()
    }

    #[test]
    fn an_idle_metric_tells_what_keeps_its_size() {
        let reading = ReadingTrace {
            name: "slo".to_owned(),
            state: ReadingState::Idle,
            target: None,
            replicas: Some(Replicas::new(8)),
            account: Some("held at 8".to_owned()),
        };
        let status = metric_status(&reading);
        assert_eq!((status.state, status.replicas, status.message.as_deref()), (MetricState::Idle, Some(8), Some("held at 8")));
    }

    #[tokio::test]
    async fn what_was_said_is_not_said_again_because_the_status_could_not_be_written() {
        let (heard, context) = heard();
        heard.refuses.store(true, Ordering::Relaxed);
        let scaler = scaler(json!({}));
        let mut reporter = Reporter::new(&scaler);
        for _ in 0..5 {
            reporter.trouble(&context, &scaler, Trouble::FailedGetScale, "pods is forbidden").await;
        }
        assert_eq!(heard.events.load(Ordering::Relaxed), 1);
        heard.refuses.store(false, Ordering::Relaxed);
        for _ in 0..2 {
            reporter.trouble(&context, &scaler, Trouble::FailedGetScale, "pods is forbidden").await;
        }
        assert_eq!((heard.events.load(Ordering::Relaxed), heard.statuses.lock().unwrap().len()), (1, 1), "written once it can be");
    }

    #[tokio::test]
    async fn what_nothing_is_said_of_any_more_leaves_the_status() {
        let (heard, context) = heard();
        let old = json!({"type": "ModelOff", "status": "True", "reason": "ModelOff", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let scaler = scaler(json!({"conditions": [old], "warmup": {"seconds": 90, "samples": 1}}));
        let mut spec = scaler.spec.clone();
        spec.slo = serde_json::from_value(json!({"saturationQuery": "s"})).unwrap();
        spec.server_address = Some("http://prometheus:9090".to_owned());
        let spec = LLMScaler::new("fleet", spec).parse().unwrap().spec;
        let seen = Observation { workload: Workload::default(), readings: vec![Reading::from_number(0.5)], traffic: None };
        let decision = decide(&spec, &seen, &Memory::default(), Time::default());
        let warmup = Some(WarmupStatus { seconds: 135, samples: 2 });
        Reporter::new(&scaler).decision(&context, &scaler, &decision, None, warmup, None).await;
        let statuses = heard.statuses.lock().unwrap();
        let kinds: Vec<&str> = conditions(&statuses[0]).iter().map(|[kind, ..]| *kind).collect();
        assert_eq!(kinds, ["ScalingActive", "AbleToScale", "ScalingLimited", "CapacityAvailable", "TargetOwned", "Ready"]);
        assert_eq!(statuses[0]["warmup"], json!({"seconds": 135, "samples": 2}));
    }

    #[tokio::test]
    async fn the_metrics_have_the_conditions_of_the_status() {
        let (_, context) = heard();
        let scaler = scaler(json!({}));
        let mut spec = scaler.spec.clone();
        spec.slo = serde_json::from_value(json!({"saturationQuery": "s"})).unwrap();
        spec.server_address = Some("http://prometheus:9090".to_owned());
        let spec = LLMScaler::new("fleet", spec).parse().unwrap().spec;
        let seen = Observation { workload: Workload::default(), readings: vec![Reading::from_number(0.5)], traffic: None };
        let decision = decide(&spec, &seen, &Memory::default(), Time::default());
        let holds = |kind: &str| {
            let of_kind = format!(r#"llmscaler_condition{{namespace="serving",name="fleet",type="{kind}"}} "#);
            context.metrics.encode().lines().find_map(|line| line.strip_prefix(&of_kind).map(ToOwned::to_owned))
        };
        let reflected = |kind, status| Reflected { kind, status, reason: "R".to_owned(), message: String::new() };
        let mut reporter = Reporter::new(&scaler);
        reporter.reflection = Some(Reflection {
            desired: None,
            conditions: vec![reflected("HPAInStep", Some(false)), reflected("AbleToScale", None)],
            trouble: Some(("APIServiceFailed".to_owned(), String::new())),
        });
        reporter.decision(&context, &scaler, &decision, None, None, None).await;
        let (yes, no) = (Some("1".to_owned()), Some("0".to_owned()));
        assert_eq!((holds("HPAInStep"), holds("Ready"), holds("ScalingActive")), (no.clone(), no.clone(), yes.clone()));
        assert_eq!(holds("AbleToScale"), None, "unknown is not false");
        reporter.reflection = None;
        reporter.decision(&context, &scaler, &decision, None, None, None).await;
        assert_eq!((holds("HPAInStep"), holds("Ready")), (None, yes.clone()));
        reporter.trouble(&context, &scaler, Trouble::TargetMissing, "there is no Deployment fleet").await;
        assert_eq!((holds("Ready"), holds("AbleToScale"), holds("ScalingActive")), (no.clone(), no, yes));
        let errors = r#"llmscaler_sync_errors_total{namespace="serving",name="fleet",kind="TargetMissing"} 1"#;
        assert!(context.metrics.encode().lines().any(|line| line == errors));
    }

    #[tokio::test]
    async fn a_condition_of_the_headroom_law_is_news_when_it_begins_to_hold() {
        let (heard, context) = heard();
        let scaler = scaler(json!({}));
        let reporter = &mut Reporter::new(&scaler);
        let mut events = async |kind, status, reason| {
            let said = Said::from(&condition(kind, status, reason));
            reporter.event_on_change(&context, &scaler, &said).await;
            set_condition(&mut reporter.status.conditions, said, None, Timestamp::now());
            heard.events.swap(0, Ordering::Relaxed)
        };
        for (kind, status, reason, expected) in [
            (ConditionType::ModelOff, false, Reason::ProfileFits, 0),
            (ConditionType::ModelOff, true, Reason::ProfileTooFast, 1),
            (ConditionType::ModelOff, true, Reason::ProfileTooFast, 0),
            (ConditionType::ModelOff, false, Reason::ProfileFits, 1),
            (ConditionType::ColdHistory, true, Reason::HistoryShort, 0),
            (ConditionType::ColdHistory, false, Reason::HistoryLongEnough, 0),
            (ConditionType::CapacityAvailable, true, Reason::CapacityFound, 0),
            (ConditionType::CapacityAvailable, false, Reason::Unschedulable, 1),
            (ConditionType::CapacityAvailable, true, Reason::CapacityFound, 1),
        ] {
            assert_eq!(events(kind, status, reason).await, expected, "{} {status}", kind.as_str());
        }
    }

    #[tokio::test]
    async fn nothing_holds_on_an_object_that_cannot_be_used() {
        let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": "ValidMetricFound", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let (heard, context) = heard();
        let scaler = scaler(json!({"conditions": [condition("ScalingActive"), condition("AbleToScale"), condition("Ready")]}));
        Reporter::new(&scaler).trouble(&context, &scaler, Trouble::InvalidSpec, "spec.metrics: write one").await;
        unreadable(&context, &InvalidObject { error: "expected a number".to_owned(), metadata: scaler.metadata.clone() }).await;
        let statuses = heard.statuses.lock().unwrap();
        for status in statuses.iter() {
            let invalid = |kind| [kind, "False", "InvalidSpec"];
            assert_eq!(conditions(status), [invalid("ScalingActive"), invalid("AbleToScale"), invalid("Ready")]);
        }
        assert_eq!((statuses.len(), heard.events.load(Ordering::Relaxed)), (2, 2), "one event each is enough");
    }

    #[test]
    fn a_restart_takes_the_fleet_for_active_as_long_as_it_may_have_been() {
        let reporter = Reporter::new(&scaler(json!({"lastActiveTime": "2026-01-01T00:00:10Z"})));
        let at = |text: &str| Clock::time_of(text.parse().unwrap());
        let last = |now: &str| reporter.last_active(at(now)).unwrap();
        assert_eq!(last("2026-01-01T00:00:20Z"), at("2026-01-01T00:00:20Z"), "not in the future");
        assert_eq!(last("2026-01-01T00:05:00Z"), at("2026-01-01T00:00:39.999Z"));
        // The next status that is written for this alone.
        assert!(Clock::timestamp_of(last("2026-01-01T00:05:00Z")) < "2026-01-01T00:00:40Z".parse().unwrap());
        assert_eq!(Reporter::new(&scaler(json!({}))).last_active(at("2026-01-01T00:05:00Z")), None);
    }

    #[test]
    fn who_took_back_sizes_is_known_after_a_restart_unless_the_scaler_was_edited() {
        let taker = |status: &str, reason: &str, message: &str, generation: i64| {
            let condition = json!({"type": "TargetOwned", "status": status, "reason": reason, "message": message,
                "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z"});
            let mut scaler = scaler(json!({"conditions": [condition]}));
            scaler.metadata.generation = Some(2);
            Reporter::new(&scaler).taker().map(|taker| taker.manager)
        };
        let message = "helm keeps setting spec.replicas of Deployment fleet back; take replicas out of the chart's template";
        assert_eq!(taker("False", "TargetOwned", message, 2).as_deref(), Some("helm"));
        assert_eq!(taker("False", "TargetOwned", message, 1), None);
        assert_eq!(taker("False", "TargetOwned", "LLMScaler two scales Deployment fleet too; delete one of them", 2), None);
        assert_eq!(taker("False", "RecommendOnly", message, 2), None);
        assert_eq!(taker("True", "OnlyOwner", message, 2), None);
    }

    #[test]
    fn activity_alone_is_news_now_and_then() {
        let at = |seconds: i64, replicas| LLMScalerStatus {
            last_active_time: Some(meta::Time(Timestamp::from_second(seconds).unwrap())),
            replicas: Some(replicas),
            ..LLMScalerStatus::default()
        };
        assert!(!differs(&at(1000, 3), &at(1000, 3)));
        assert!(!differs(&at(1029, 3), &at(1000, 3)));
        assert!(differs(&at(1030, 3), &at(1000, 3)));
        assert!(differs(&at(1000, 4), &at(1000, 3)));
        assert!(differs(&at(1000, 3), &LLMScalerStatus { replicas: Some(3), ..LLMScalerStatus::default() }));
    }

    #[test]
    fn values_have_six_digits() {
        for (value, shown) in [(0.380_000_000_000_000_1, "0.38"), (0.0, "0"), (1_234_567.8, "1234570"), (2.0, "2"), (1e-9, "0.000000001")] {
            assert_eq!(rounded(value).to_string(), shown);
        }
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        assert_eq!(shortened("short", 10), "short");
        assert_eq!(shortened("äääääää", 9), "äää…");
    }
}
