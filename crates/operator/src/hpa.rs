//! From a scaler to the HorizontalPodAutoscaler that stands in for it. Pure: `apply` writes it.

use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::{
    CrossVersionObjectReference, ExternalMetricSource, HPAScalingPolicy, HPAScalingRules, HorizontalPodAutoscaler,
    HorizontalPodAutoscalerBehavior, HorizontalPodAutoscalerSpec, MetricIdentifier, MetricSpec, MetricTarget,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::ObjectMeta;
use kube::{Resource, ResourceExt};
use llmscaler_api::{LLMScaler, Scaler};
use llmscaler_engine::{Behavior, Decision, Law, PolicyLimit, ReadingState, Reason, Replicas, ScalingRules, SelectPolicy, Spec, Stage};

use crate::external_metrics::Milli;

/// The label of metrics that names the scaler.
pub(crate) const SCALER: &str = "scaler";
/// The label of the HPA that names the scaler.
const SCALER_LABEL: &str = "autoscaling.modelsphere.dev/scaler";
/// The label of whatever a controller made.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "llmscaler");
/// The metric that carries `spec.fallback`.
const FALLBACK: &str = "fallback";
/// The longest value that a label may have.
const LONGEST_LABEL: usize = 63;
/// What the HPA tolerates on either side unless it is told otherwise.
const DEFAULT_TOLERANCE: f64 = 0.1;

/// The name of the HPA of a scaler.
pub(crate) fn name_of(scaler: &str) -> String {
    format!("llmscaler-{scaler}")
}

/// What names the scaler in labels: its name or, where that is too long for one, its UID.
pub(crate) fn label_of(scaler: &LLMScaler) -> String {
    let name = scaler.name_any();
    if name.len() <= LONGEST_LABEL { name } else { scaler.uid().unwrap_or_default() }
}

/// One metric of the HPA.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fed {
    pub name: String,
    pub target: FedTarget,
}

/// What the HPA compares a metric with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FedTarget {
    /// A figure per replica.
    Value(Milli),
    /// The total of the pool, shared by its replicas. A count is passed through as a total of which each replica carries one.
    AverageValue(Milli),
}

/// The metrics that the HPA of `scaler` is fed with: one for each source in their order, then that of `fallback`.
pub(crate) fn fed(scaler: &str, spec: &Spec) -> Vec<Fed> {
    let of_sources = spec.sources.iter().enumerate().map(|(index, source)| {
        let target = match source.law {
            Law::Ratio { target } => FedTarget::Value(Milli::of(target.get())),
            Law::Average { target } => FedTarget::AverageValue(Milli::of(target.get())),
            Law::Band(_) | Law::Headroom(_) | Law::Absolute => FedTarget::AverageValue(Milli::ONE),
        };
        Fed { name: metric_name(scaler, index, &source.name), target }
    });
    let fallback = spec.fallback.map(|_| Fed { name: metric_name_of(scaler, FALLBACK), target: FedTarget::AverageValue(Milli::ONE) });
    of_sources.chain(fallback).collect()
}

/// What each of these metrics is after a decision, or why nobody knows.
pub(crate) fn values(scaler: &str, spec: &Spec, decision: &Decision) -> Vec<(String, Result<Milli, String>)> {
    let of_sources = spec.sources.iter().zip(&decision.readings).enumerate().map(|(index, (source, reading))| {
        let passed_through = matches!(source.law, Law::Band(_) | Law::Headroom(_) | Law::Absolute);
        let value = match (&reading.state, reading.replicas) {
            (_, Some(count)) if passed_through => Ok(Milli::count(count)),
            (ReadingState::Unknown(why), _) => Err(why.clone()),
            (_, None) => Err("no count follows from what is known".to_owned()),
            (ReadingState::Value(value), Some(_)) => Ok(Milli::of(value.get())),
            (ReadingState::Idle, Some(_)) => Ok(Milli::ZERO),
        };
        (metric_name(scaler, index, &source.name), value)
    });
    // A floor of nothing while no source has been unknown for too long.
    let recommend = decision.stages.iter().find(|trace| trace.stage == Stage::Recommend);
    let floored = recommend.is_some_and(|trace| trace.reason == Reason::FallbackReplicas);
    let fallback = spec.fallback.map(|fallback| {
        let floor = if floored { Milli::count(fallback.replicas) } else { Milli::ZERO };
        (metric_name_of(scaler, FALLBACK), Ok(floor))
    });
    of_sources.chain(fallback).collect()
}

/// A metric goes by the name of its source or, where that could not stand in a path or would be taken for another, by its index.
fn metric_name(scaler: &str, index: usize, source: &str) -> String {
    let safe = source.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    let taken = source == FALLBACK || source.bytes().all(|byte| byte.is_ascii_digit());
    if safe && !taken { metric_name_of(scaler, source) } else { metric_name_of(scaler, &index.to_string()) }
}

fn metric_name_of(scaler: &str, metric: &str) -> String {
    format!("llmscaler-{scaler}-{metric}")
}

/// The HPA that does what the scaler asks for, from one replica up. `tolerance` is whether the API server knows that field.
pub(crate) fn build(object: &LLMScaler, scaler: &Scaler, tolerance: bool) -> HorizontalPodAutoscaler {
    let (spec, label) = (&scaler.spec, label_of(object));
    let labels = [MANAGED_BY, (SCALER_LABEL, &label)].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let metrics = fed(&object.name_any(), spec).into_iter().map(|metric| external(metric, &label)).collect();
    HorizontalPodAutoscaler {
        metadata: ObjectMeta {
            name: Some(name_of(&object.name_any())),
            namespace: object.namespace(),
            labels: Some(labels.into()),
            owner_references: object.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(HorizontalPodAutoscalerSpec {
            scale_target_ref: CrossVersionObjectReference {
                api_version: Some(scaler.target.api_version()),
                kind: scaler.target.kind.clone(),
                name: scaler.target.name.clone(),
            },
            min_replicas: Some(first(spec).as_i32()),
            max_replicas: spec.bounds.max.as_i32(),
            metrics: Some(metrics),
            behavior: Some(behavior(spec, tolerance)),
        }),
        status: None,
    }
}

/// The fewest replicas that the HPA may keep: zero is not its business.
pub(crate) fn first(spec: &Spec) -> Replicas {
    spec.bounds.min.max(Replicas::ONE)
}

fn external(metric: Fed, label: &str) -> MetricSpec {
    let target = match metric.target {
        FedTarget::Value(value) => MetricTarget { type_: "Value".into(), value: Some(value.quantity()), ..MetricTarget::default() },
        FedTarget::AverageValue(value) => {
            MetricTarget { type_: "AverageValue".into(), average_value: Some(value.quantity()), ..MetricTarget::default() }
        }
    };
    let labels = [(SCALER.to_owned(), label.to_owned())];
    let selector = LabelSelector { match_labels: Some(labels.into()), ..LabelSelector::default() };
    let metric = MetricIdentifier { name: metric.name, selector: Some(selector) };
    MetricSpec { type_: "External".into(), external: Some(ExternalMetricSource { metric, target }), ..MetricSpec::default() }
}

fn behavior(spec: &Spec, tolerance: bool) -> HorizontalPodAutoscalerBehavior {
    let (up, down) = match &spec.behavior {
        Some(Behavior { up, down }) => (rules(up), rules(down)),
        None => {
            let max = spec.bounds.max.as_i32();
            let step = spec.scale_down.max_step.map_or(max, |step| Replicas::new(step.get()).as_i32());
            (one_policy(Duration::ZERO, max, spec.sync_period), one_policy(spec.scale_down.window, step, spec.sync_period))
        }
    };
    let [up_tolerance, down_tolerance] = tolerances(spec);
    let tolerated = |side: f64| tolerance.then(|| Milli::of(side).quantity());
    HorizontalPodAutoscalerBehavior {
        scale_up: Some(HPAScalingRules { tolerance: tolerated(up_tolerance), ..up }),
        scale_down: Some(HPAScalingRules { tolerance: tolerated(down_tolerance), ..down }),
    }
}

/// What the scaler tolerates upwards and downwards. A count that is passed through is exact, and without `behavior` nothing is tolerated.
fn tolerances(spec: &Spec) -> [f64; 2] {
    let exact = spec.sources.iter().any(|source| matches!(source.law, Law::Band(_) | Law::Headroom(_) | Law::Absolute));
    match &spec.behavior {
        Some(behavior) if !exact => [behavior.up.tolerance.get(), behavior.down.tolerance.get()],
        _ => [0.0; 2],
    }
}

/// What is lost on a server that does not know the tolerance of an HPA, in words; `None` when nothing is.
pub(crate) fn lost_without_tolerance(spec: &Spec) -> Option<String> {
    let [up, down] = tolerances(spec);
    (up != DEFAULT_TOLERANCE || down != DEFAULT_TOLERANCE).then(|| {
        format!(
            "the API server does not know behavior.tolerance of an HPA (Kubernetes 1.35 does, or the feature gate \
             HPAConfigurableTolerance), so the HPA ignores deviations of 10 %, where {up} upwards and {down} downwards are asked for: a fleet \
             of ten and more may stay a replica or two off"
        )
    })
}

fn rules(rules: &ScalingRules) -> HPAScalingRules {
    let policy = |policy: &llmscaler_engine::Policy| match policy.limit {
        PolicyLimit::Pods(pods) => limit("Pods", Replicas::new(pods).as_i32(), policy.period),
        PolicyLimit::Percent(percent) => limit("Percent", Replicas::new(percent).as_i32(), policy.period),
    };
    let select = match rules.select {
        SelectPolicy::Max => "Max",
        SelectPolicy::Min => "Min",
        SelectPolicy::Disabled => "Disabled",
    };
    HPAScalingRules {
        policies: Some(rules.policies.iter().map(policy).collect()),
        select_policy: Some(select.to_owned()),
        stabilization_window_seconds: Some(seconds(rules.window)),
        tolerance: None,
    }
}

fn one_policy(window: Duration, pods: i32, period: Duration) -> HPAScalingRules {
    HPAScalingRules {
        policies: Some(vec![limit("Pods", pods, period)]),
        select_policy: Some("Max".to_owned()),
        stabilization_window_seconds: Some(seconds(window)),
        tolerance: None,
    }
}

fn limit(kind: &str, value: i32, period: Duration) -> HPAScalingPolicy {
    HPAScalingPolicy { type_: kind.to_owned(), value, period_seconds: seconds(period) }
}

fn seconds(time: Duration) -> i32 {
    i32::try_from(time.as_secs()).unwrap_or(i32::MAX)
}

impl Milli {
    fn quantity(self) -> Quantity {
        Quantity(self.to_string())
    }
}

#[cfg(test)]
mod tests;
