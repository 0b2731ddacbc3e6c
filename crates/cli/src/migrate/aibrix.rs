//! The `PodAutoscaler` of AIBrix.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use llmscaler_api::{
    Behavior, Invalid, Metric, MetricProvider, MetricType, PolicyType, Preset, PresetName, ScalingPolicy, Scheme, ScrapeSettings, Signal,
};

use super::behavior::behavior;
use super::draft::Spec;
use super::ledger::Node;
use super::outcome::{Made, annotations, target};

/// Engine metrics by the names that AIBrix knows them by, without the prefix of the engine.
const SIGNALS: [(&str, Signal); 4] = [
    ("gpu_cache_usage_perc", Signal::KvCacheUsage),
    ("kv_cache_usage_perc", Signal::KvCacheUsage),
    ("num_requests_waiting", Signal::QueuedRequests),
    ("num_requests_running", Signal::RunningRequests),
];

const NOT_SO: [(&str, &str); 6] = [
    ("schedules", "there are no schedules: change minReplicas and maxReplicas by a CronJob"),
    ("predictive", "nothing is extrapolated; strategy Headroom of slo keeps room for growth while replicas start"),
    ("observeWindowSeconds", "readings are not averaged here: average in a query, or hold by the windows of behavior"),
    ("panicWindowSeconds", "there is no panic mode: scale-up acts on each reading"),
    ("subTargetSelector", "a scaler sets spec.replicas of its target: name the workload of the role in targetRef"),
    ("circuitBreaker", "it is always so: what cannot be measured shrinks nothing"),
];

/// The scaler that does what a `PodAutoscaler` does, reading the pods as it does.
pub fn pod_autoscaler(root: &Node<'_>) -> Result<Made, Invalid> {
    let spec = root.need("spec")?;
    let target = target(&spec)?;
    if let Some(namespace) = spec.at(&["scaleTargetRef", "namespace"]) {
        namespace.left("the target is in the namespace of the scaler");
    }
    let max = spec.need("maxReplicas")?;
    max.carried("maxReplicas");
    let min = spec.get("minReplicas").inspect(|min| min.carried("minReplicas")).map(|min| min.replicas(0)).transpose()?.unwrap_or(1);
    let strategy = spec.need("scalingStrategy")?;
    let metric_type = match strategy.text()?.as_str() {
        "KPA" => MetricType::AverageValue,
        "APA" | "HPA" => MetricType::Value,
        _ => return Err(strategy.invalid("must be HPA, KPA or APA")),
    };
    strategy.carried("metrics[].metricType");
    let mut made = Spec::new(target, (min, max.replicas(1)?), tuned(root)?);
    made.metric_provider = Some(MetricProvider::Scrape);
    made.preset = Some(Preset { name: PresetName::Vllm, match_labels: std::collections::BTreeMap::new() });
    for node in spec.get("metricsSources").map(|list| list.items()).unwrap_or_default() {
        if let Some((scrape, metric)) = source(&node, made.metrics.len(), metric_type)? {
            if made.scrape.get_or_insert_with(|| scrape.clone()) == &scrape {
                made.metrics.push(metric);
            } else {
                node.lost("a scaler reads one page of each pod, and this is another than that of the first source");
            }
        }
    }
    for (name, why) in NOT_SO {
        spec.get(name).iter().for_each(|field| field.lost(why));
    }
    if made.metrics.is_empty() {
        return Ok(Made::none("none of its metricsSources can be carried"));
    }
    let mut differences = vec![match metric_type {
        MetricType::AverageValue => {
            "KPA averages the total of the pods over a stable and a panic window. Here each reading counts as it is, up at once and down \
             after the window."
                .to_owned()
        }
        MetricType::Value => "AIBrix multiplies the pods that there are; the ready ones count here, and from zero one.".to_owned(),
    }];
    differences.push("A pod that does not answer is left out of the mean, and one that starts is not counted; when too few answer the metric is unknown.".to_owned());
    Ok(Made::scaler(made, differences))
}

fn source(node: &Node<'_>, index: usize, metric_type: MetricType) -> Result<Option<(ScrapeSettings, Metric)>, Invalid> {
    let kind = node.need("metricSourceType")?;
    if kind.text()? != "pod" {
        node.lost("only the pages of the pods are read: for another source write a query for a Prometheus that has it");
        return Ok(None);
    }
    let metric = node.need("targetMetric")?;
    let name = metric.text()?;
    let bare = name.strip_prefix("vllm:").unwrap_or(&name);
    let Some((_, signal)) = SIGNALS.iter().find(|(known, _)| *known == bare) else {
        let known: Vec<&str> = SIGNALS.iter().map(|(name, _)| *name).collect();
        node.lost(format!("no signal of preset vLLM is this metric; there are {}", known.join(", ")));
        return Ok(None);
    };
    kind.carried("metricProvider");
    metric.carried(format!("metrics[{index}].signal"));
    let value = node.need("targetValue")?;
    value.carried(format!("metrics[{index}].target"));
    let field = |name: &str, to: &str| node.get(name).inspect(|field| field.carried(format!("scrape.{to}")));
    let port = field("port", "port").map(|port| port.text()).transpose()?.unwrap_or_else(|| "8000".to_owned());
    let path = field("path", "path").map(|path| path.text()).transpose()?.unwrap_or_else(|| "/metrics".to_owned());
    let https = field("protocolType", "scheme").map(|scheme| scheme.text()).transpose()?.is_some_and(|scheme| scheme == "https");
    node.get("endpoint").iter().for_each(|endpoint| endpoint.left("of no effect where pods are read"));
    let scrape = ScrapeSettings {
        port: port.parse().map_or(IntOrString::String(port), IntOrString::Int),
        path: format!("/{}", path.trim_start_matches('/')),
        scheme: if https { Scheme::Https } else { Scheme::Http },
        epp_service: None,
    };
    let metric = Metric {
        name: Some(bare.to_owned()),
        query: None,
        signal: Some(*signal),
        target: value.text()?,
        metric_type,
        activation: "0".to_owned(),
        required: false,
    };
    Ok(Some((scrape, metric)))
}

/// The behaviour that annotations tune, from AIBrix's own defaults: twice and half at most at a time, down after 300 s.
fn tuned(root: &Node<'_>) -> Result<Behavior, Invalid> {
    let mut tuned = behavior(None, true)?;
    let percent = |value| vec![ScalingPolicy { kind: PolicyType::Percent, value, period_seconds: 15 }];
    let (Some(up), Some(down)) = (&mut tuned.scale_up, &mut tuned.scale_down) else { return Ok(tuned) };
    (up.policies, down.policies) = (Some(percent(100)), Some(percent(50)));
    for (name, annotation) in annotations(root) {
        let Some((group, key)) = name.split_once('/').filter(|(group, _)| group.ends_with("autoscaling.aibrix.ai")) else { continue };
        let text = annotation.text()?;
        let to = |field: &str| annotation.carried(format!("behavior.{field}"));
        match key {
            "scale-up-tolerance" => {
                up.tolerance = Some(IntOrString::String(text));
                to("scaleUp.tolerance");
            }
            "scale-down-tolerance" => {
                down.tolerance = Some(IntOrString::String(text));
                to("scaleDown.tolerance");
            }
            "scale-up-cooldown-window" => {
                up.stabilization_window_seconds = Some(seconds(&annotation)?);
                to("scaleUp.stabilizationWindowSeconds");
            }
            "scale-down-cooldown-window" | "scale-down-delay" => {
                down.stabilization_window_seconds = Some(seconds(&annotation)?);
                to("scaleDown.stabilizationWindowSeconds");
            }
            "max-scale-up-rate" => {
                up.policies = Some(percent(share(&annotation, |rate| (rate - 1.0) * 100.0)?));
                to("scaleUp.policies");
            }
            "max-scale-down-rate" => {
                down.policies = Some(percent(share(&annotation, |rate| (1.0 - 1.0 / rate) * 100.0)?));
                to("scaleDown.policies");
            }
            "panic-threshold" => annotation.lost("there is no panic mode: scale-up acts on each reading"),
            "scale-to-zero" if annotation.truth()? => {
                annotation.lost(
                    "set minReplicas: 0, idle.cooldownSeconds, and a metric that is there while no pod is: the endpoint picker's queue",
                );
            }
            "scale-to-zero" => annotation.left("it is off"),
            _ => annotation.lost(format!("{group} has no counterpart for it")),
        }
    }
    Ok(tuned)
}

/// A length of time as Go writes it, in whole seconds.
fn seconds(node: &Node<'_>) -> Result<i32, Invalid> {
    let text = node.text()?;
    let span: Result<jiff::SignedDuration, _> = text.parse();
    let seconds = span.ok().and_then(|span| i32::try_from(span.as_secs()).ok()).filter(|seconds| *seconds >= 0);
    seconds.ok_or_else(|| node.invalid("must be a length of time, such as 300s"))
}

/// A rate as whole per cent of change, at least 1.
fn share(node: &Node<'_>, of: impl Fn(f64) -> f64) -> Result<i32, Invalid> {
    let rate: Option<f64> = node.text()?.parse().ok().filter(|rate: &f64| (1.0..=1000.0).contains(rate));
    let rate = rate.ok_or_else(|| node.invalid("must be a rate from 1 to 1000"))?;
    Ok((of(rate).round() as i32).max(1))
}
