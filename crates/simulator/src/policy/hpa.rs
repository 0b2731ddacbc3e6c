//! The horizontal pod autoscaler of Kubernetes, autoscaling/v2, on external metrics.
//!
//! Source: `pkg/controller/podautoscaler` of Kubernetes 1.35, and the defaults of autoscaling/v2. Synchronised every 15 s; 10 %
//! tolerance; the largest of the valid proposals counts. A failed metric forbids scaling down and permits scaling up, and a failed
//! synchronisation leaves no trace in the stabilisation windows. There is no guard: what is starting or draining is not waited for.
//! Windows and policies are the engine's, which are those of autoscaling/v2.

use std::time::Duration;

use llmscaler_engine::{
    Activation, Behavior, Law, Measurement, Memory, Mode, Observation, Policy as Limit, PolicyLimit, Reading, Replicas, ScaleDown,
    ScalingRules, SelectPolicy, Source, Spec, Time, VictimOrder, Workload, decide,
};

use super::{Policy, Verdict, View};

/// What the value of an external metric is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Per {
    /// `Value`: the metric should be so large, and is taken to fall as ready pods are added: ⌈ready × value ÷ target⌉.
    Pool(f64),
    /// `AverageValue`: each replica should carry so much of the metric: ⌈value ÷ target⌉.
    Replica(f64),
}

/// What answers the query of a metric; `None` when the query fails.
type Query = Box<dyn Fn(&View<'_>) -> Option<f64>>;

/// An external metric.
pub struct Metric {
    name: &'static str,
    query: Query,
    target: Per,
}

impl Metric {
    /// The metric `name`, its query and its target, which is above 0.
    pub fn new(name: &'static str, target: Per, query: impl Fn(&View<'_>) -> Option<f64> + 'static) -> Self {
        Self { name, query: Box::new(query), target }
    }

    /// The replicas that this metric asks for; `None` when its query fails.
    fn proposal(&self, view: &View<'_>, behavior: &Behavior) -> Option<Replicas> {
        let value = (self.query)(view)?;
        let current = Replicas::new(view.replicas);
        Some(match self.target {
            Per::Pool(target) => {
                let ratio = value / target;
                if behavior.tolerates(ratio) { current } else { Replicas::ceil(ratio * f64::from(view.ready)) }
            }
            Per::Replica(target) => {
                let ratio = value / (target * current.as_f64());
                if behavior.tolerates(ratio) { current } else { Replicas::ceil(value / target) }
            }
        })
    }
}

/// The horizontal pod autoscaler of Kubernetes.
pub struct Hpa {
    name: String,
    metrics: Vec<Metric>,
    behavior: Behavior,
    memory: Memory,
}

impl Hpa {
    /// Seconds between two synchronisations.
    pub const PERIOD: f64 = 15.0;

    /// One that goes by these metrics and behaves so.
    #[must_use]
    pub fn new(name: impl Into<String>, metrics: Vec<Metric>, behavior: Behavior) -> Self {
        Self { name: name.into(), metrics, behavior, memory: Memory::default() }
    }

    /// On the mean KV cache usage of the pods, with the defaults of autoscaling/v2.
    #[must_use]
    pub fn kv(target: f64) -> Self {
        let usage = Metric::new("KV cache usage", Per::Pool(target), |view| view.metrics.kv_usage(view.now));
        Self::new(format!("hpa-kv {target}"), vec![usage], default_behavior())
    }

    /// Windows and policies on the way from the present size to `count`.
    fn behave(&mut self, view: &View<'_>, count: Replicas, name: &str, on_missing: bool) -> Verdict {
        let spec = Spec {
            bounds: view.bounds,
            sources: vec![Source { name: name.to_owned(), law: Law::Absolute, activation: Activation::ANY_LOAD, required: false }],
            sync_period: Duration::from_secs_f64(Self::PERIOD),
            scale_down: ScaleDown { window: Duration::ZERO, max_step: None, victims: VictimOrder::Workload },
            behavior: Some(self.behavior.clone()),
            cooldown: Duration::ZERO,
            fallback: None,
            mode: Mode::Auto,
        };
        let current = Replicas::new(view.replicas);
        // A workload of which nothing stands in the way: the autoscaler of Kubernetes knows no guard.
        let workload = Workload { replicas: current, ready: current, ..Workload::default() };
        let seen = Observation { workload, readings: vec![Reading::from_number(count.as_f64())], traffic: None };
        let now = Time::from_seconds(view.now);
        let decision = decide(&spec, &seen, &self.memory, now);
        self.memory = decision.memory;
        if let Some(write) = decision.write {
            self.memory.record_write(&spec, now, current, write);
        }
        Verdict { write: decision.write.map(Replicas::get), victims: Vec::new(), why: decision.message, on_missing }
    }
}

impl Policy for Hpa {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn period(&self) -> f64 {
        Self::PERIOD
    }

    fn decide(&mut self, view: &View<'_>) -> Verdict {
        let current = Replicas::new(view.replicas);
        if view.replicas == 0 && view.bounds.min > Replicas::ZERO {
            return Verdict { why: "a fleet of zero is not scaled".to_owned(), ..Verdict::default() };
        }
        let bounded = view.bounds.clamp(current);
        if bounded != current {
            let why = format!("{current} is outside {} to {}", view.bounds.min, view.bounds.max);
            return Verdict { write: Some(bounded.get()), why, ..Verdict::default() };
        }
        let proposals: Vec<(&str, Option<Replicas>)> =
            self.metrics.iter().map(|metric| (metric.name, metric.proposal(view, &self.behavior))).collect();
        let failed = proposals.iter().find(|(_, proposal)| proposal.is_none()).map(|(name, _)| *name);
        let largest = proposals.iter().filter_map(|(name, proposal)| proposal.map(|count| (count, *name))).max_by_key(|(count, _)| *count);
        match (largest, failed) {
            (None, _) => Verdict { why: "no metric is known".to_owned(), on_missing: true, ..Verdict::default() },
            (Some((count, _)), Some(failed)) if count < current => {
                Verdict { why: format!("{failed} is missing, so there is no scaling down"), on_missing: true, ..Verdict::default() }
            }
            (Some((count, name)), failed) => self.behave(view, count, name, failed.is_some()),
        }
    }
}

/// 10 %.
const TOLERANCE: f64 = 0.1;

/// Rules for one direction: a window in seconds, and of these limits within so many seconds the one that allows most.
pub(super) fn rules(window: u64, limits: &[(PolicyLimit, u64)]) -> ScalingRules {
    ScalingRules {
        window: Duration::from_secs(window),
        select: SelectPolicy::Max,
        policies: limits.iter().map(|&(limit, seconds)| Limit { limit, period: Duration::from_secs(seconds) }).collect(),
        tolerance: Measurement::new(TOLERANCE).unwrap_or(Measurement::ZERO),
    }
}

/// The defaults of autoscaling/v2: up by the larger of 100 % and 4 pods within 15 s; down to the largest proposal of 300 s.
pub(super) fn default_behavior() -> Behavior {
    Behavior {
        up: rules(0, &[(PolicyLimit::Percent(100), 15), (PolicyLimit::Pods(4), 15)]),
        down: rules(300, &[(PolicyLimit::Percent(100), 15)]),
    }
}
