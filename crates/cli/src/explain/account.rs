//! What a scaler's status says, in words.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use llmscaler_api::{DecisionStatus, LLMScaler, LLMScalerStatus, MetricState, MetricStatus, MetricType, Mode};
use serde::Serialize;

use crate::advice;
use crate::prose::count;

/// The condition that sums up the others.
const READY: &str = "Ready";

/// One scaler as it is explained.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Account {
    pub namespace: String,
    pub name: String,
    /// Kind and name.
    pub target: String,
    pub mode: Mode,
    pub min_replicas: i32,
    pub max_replicas: i32,
    pub replicas: Option<i32>,
    pub ready_replicas: Option<i32>,
    pub desired_replicas: Option<i32>,
    pub ready: Option<State>,
    pub last_scale_time: Option<Timestamp>,
    pub last_active_time: Option<Timestamp>,
    /// Seconds from the creation of a pod to its readiness, as last seen.
    pub warmup_seconds: Option<i32>,
    pub metrics: Vec<Metric>,
    pub decision: Option<Decision>,
    /// What is not as it should be, or holds the count back.
    pub states: Vec<State>,
    /// What comes next, in one sentence.
    pub next: String,
}

/// What one metric said.
#[derive(Debug, Serialize)]
pub struct Metric {
    pub name: String,
    pub state: MetricState,
    /// Value, target and what it asks for, in words.
    pub words: String,
}

/// The last decision.
#[derive(Debug, Serialize)]
pub struct Decision {
    pub reason: String,
    pub message: String,
    pub stages: Vec<Stage>,
}

/// What one stage made of the count.
#[derive(Debug, Serialize)]
pub struct Stage {
    pub stage: String,
    #[serde(rename = "in")]
    pub count_in: i32,
    pub out: i32,
    pub reason: String,
    pub message: String,
}

impl Stage {
    pub fn changed(&self) -> bool {
        self.count_in != self.out
    }
}

/// A condition.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    pub condition: String,
    pub status: String,
    pub reason: String,
    pub message: String,
    pub since: Timestamp,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<&'static str>,
}

impl From<&Condition> for State {
    fn from(condition: &Condition) -> Self {
        let Condition { type_, status, reason, message, last_transition_time, .. } = condition;
        Self {
            condition: type_.clone(),
            status: status.clone(),
            reason: reason.clone(),
            message: message.clone(),
            since: last_transition_time.0,
            advice: advice::on(type_, status, reason).map(|(_, advice)| advice),
        }
    }
}

impl Account {
    /// Of a scaler as the API server has it now.
    pub fn of(scaler: &LLMScaler) -> Self {
        let (spec, status) = (&scaler.spec, scaler.status.clone().unwrap_or_default());
        let decision = status.decision.as_ref().map(decision);
        let next = Next { scaler, status: &status }.sentence();
        // The sum would say twice what one of the others says; alone it says why there was no decision.
        let noteworthy = |condition: &&Condition| {
            advice::on(&condition.type_, &condition.status, &condition.reason).is_some()
                && (condition.type_ != READY || !says_the_same(&status.conditions, condition))
        };
        Self {
            namespace: scaler.namespace().unwrap_or_default(),
            name: scaler.name_any(),
            target: format!("{} {}", spec.target_ref.kind, spec.target_ref.name),
            mode: spec.mode,
            min_replicas: spec.min_replicas,
            max_replicas: spec.max_replicas,
            replicas: status.replicas,
            ready_replicas: status.current_replicas,
            desired_replicas: status.desired_replicas,
            ready: status.conditions.iter().find(|condition| condition.type_ == READY).map(State::from),
            last_scale_time: status.last_scale_time.as_ref().map(|time| time.0),
            last_active_time: status.last_active_time.as_ref().map(|time| time.0),
            warmup_seconds: status.warmup.map(|warmup| warmup.seconds),
            metrics: status.metrics.iter().map(|metric| said(scaler, metric)).collect(),
            decision,
            states: status.conditions.iter().filter(noteworthy).map(State::from).collect(),
            next,
        }
    }
}

fn says_the_same(conditions: &[Condition], ready: &Condition) -> bool {
    conditions.iter().any(|other| other.type_ != READY && other.status == ready.status && other.reason == ready.reason)
}

fn decision(status: &DecisionStatus) -> Decision {
    let stages = status.stages.iter().map(|stage| Stage {
        stage: stage.stage.clone(),
        count_in: stage.count_in,
        out: stage.out,
        reason: stage.reason.clone(),
        message: stage.message.clone(),
    });
    Decision { reason: status.reason.clone(), message: status.message.clone(), stages: stages.collect() }
}

fn said(scaler: &LLMScaler, metric: &MetricStatus) -> Metric {
    let asks = metric.replicas.map_or_else(String::new, |replicas| format!(": asks for {}", count(replicas, "replica")));
    let words = match (metric.state, &metric.value, &metric.target, &metric.message) {
        (MetricState::Unknown, _, _, why) => format!("unknown: {}", why.as_deref().unwrap_or("nobody says why")),
        (MetricState::Idle, _, _, Some(account)) => format!("idle, there is proof of no traffic: {account}"),
        (MetricState::Idle, ..) => format!("idle, there is proof of no traffic{asks}"),
        // Its own words name the marks and the count.
        (MetricState::Value, _, _, Some(account)) => account.clone(),
        (MetricState::Value, Some(value), Some(target), None) if is_total(scaler, &metric.name) => {
            format!("{value} in total, at {target} a replica{asks}")
        }
        (MetricState::Value, Some(value), Some(target), None) => format!("{value} against {target}{}{asks}", off_by(value, target)),
        (MetricState::Value, Some(value), None, None) => format!("{value}{asks}"),
        (MetricState::Value, None, ..) => "measured".to_owned(),
    };
    Metric { name: metric.name.clone(), state: metric.state, words }
}

/// Whether the metric is a total of the pool. One without a name, or with a name that is not its own, goes by its index.
fn is_total(scaler: &LLMScaler, name: &str) -> bool {
    let metrics = &scaler.spec.metrics;
    let named = metrics.iter().find(|metric| metric.name.as_deref() == Some(name));
    let metric = named.or_else(|| name.parse::<usize>().ok().and_then(|index| metrics.get(index)));
    metric.is_some_and(|metric| metric.metric_type == MetricType::AverageValue)
}

fn off_by(value: &str, target: &str) -> String {
    let (Ok(value), Ok(target)) = (value.parse::<f64>(), target.parse::<f64>()) else { return String::new() };
    let percent = ((value / target - 1.0) * 100.0).round();
    match percent {
        0.0 => ", on target".to_owned(),
        above if above > 0.0 => format!(", {above} % above"),
        below => format!(", {} % below", -below),
    }
}

/// What comes next.
struct Next<'a> {
    scaler: &'a LLMScaler,
    status: &'a LLMScalerStatus,
}

impl Next<'_> {
    fn sentence(&self) -> String {
        let spec = &self.scaler.spec;
        if self.status.observed_generation.is_none() {
            return "Nothing was reported yet. If that lasts, no operator looks after this scaler: llmscaler doctor tells more.".to_owned();
        }
        if self.status.observed_generation < self.scaler.metadata.generation {
            return "The object was edited and this is about an earlier edit. The operator looks at an edit within seconds.".to_owned();
        }
        if let Some(condition) =
            self.status.conditions.iter().find(|condition| condition.type_ == "AbleToScale" && condition.status == "False")
        {
            return self.held_by(&condition.reason);
        }
        let is_false = |kind: &str, reason: &str| {
            self.status.conditions.iter().any(|one| one.type_ == kind && one.status == "False" && one.reason == reason)
        };
        if is_false("TargetOwned", "TargetOwned") {
            return "Nothing is written while somebody else scales the target.".to_owned();
        }
        if is_false("ScalingActive", "FailedGetMetrics") {
            return "It keeps its size until a metric is known.".to_owned();
        }
        let (replicas, desired) = (self.status.replicas.unwrap_or_default(), self.status.desired_replicas.unwrap_or_default());
        let ready = self.status.current_replicas.unwrap_or_default();
        let stabilised = self.stage("stabilise").is_some_and(|(count_in, out)| count_in != out);
        if replicas != desired {
            return format!("The way to {} is taken in steps: the next one follows as soon as it may.", count(desired, "replica"));
        }
        if ready < replicas {
            let warmup = self.status.warmup.map_or_else(String::new, |warmup| format!("; a pod takes about {} s to start", warmup.seconds));
            return format!("{} of {} are yet to become ready{warmup}.", replicas - ready, count(replicas, "replica"));
        }
        if let (true, Some((count_in, _))) = (stabilised, self.stage("stabilise")) {
            return format!("When the window has passed and nothing changes, the count goes to {count_in}.");
        }
        let next = format!("the next look is within {} s", period(spec.sync_period_seconds, 15));
        if let Some(hold) = self.hold() {
            return format!("It is held at {hold}; after that it goes by what is needed then. As always, {next}.");
        }
        format!("It stays so until a metric moves; {next}.")
    }

    /// How long the headroom law keeps what it asks for although less is needed, in its own words: `12 by the need 45 s ago, for 255 s
    /// more`. `None` where another metric decides.
    fn hold(&self) -> Option<&str> {
        let (_, recommended) = self.stage("recommend")?;
        let decisive = self.status.metrics.iter().filter(|metric| metric.replicas == Some(recommended));
        decisive.filter_map(|metric| metric.message.as_deref()?.split_once("held at ")?.1.split(':').next()).find(|hold| {
            // The dead band, and a fleet that has seen no request, wait for no time to pass.
            hold.contains(" s more")
        })
    }

    fn held_by(&self, reason: &str) -> String {
        // What the stages before the guard came to.
        let wanted = self.stage("guard").map_or(self.status.desired_replicas.unwrap_or_default(), |(count_in, _)| count_in);
        match reason {
            "InvalidSpec" => "Nothing happens until the object is edited.".to_owned(),
            "FailedGetScale" | "FailedUpdateScale" => {
                format!("It tries again every {} s.", period(self.scaler.spec.retry_period_seconds, 10))
            }
            "RecommendOnly" => format!("With mode: Auto it would write {wanted}; as it is, nothing is written."),
            "TargetOwned" => "Nothing is written while somebody else scales the target.".to_owned(),
            "RolloutInProgress" => format!("{wanted} is written when the rollout is over."),
            "NotSettled" => format!("{wanted} is written when the pods have settled."),
            "Unschedulable" => format!("{wanted} is written when the pods that wait have found nodes."),
            _ => format!("{wanted} is written when nothing keeps it back any more."),
        }
    }

    /// What came into a stage and what went out.
    fn stage(&self, name: &str) -> Option<(i32, i32)> {
        let stages = &self.status.decision.as_ref()?.stages;
        stages.iter().find(|stage| stage.stage == name).map(|stage| (stage.count_in, stage.out))
    }
}

/// 0 stands for the default.
fn period(seconds: i32, default: i32) -> i32 {
    if seconds == 0 { default } else { seconds }
}
