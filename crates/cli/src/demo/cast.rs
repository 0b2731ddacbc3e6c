//! The scalers of the demo, and the one that a user brings.

use std::path::Path;

use llmscaler_api::{Invalid, parse_json};
use llmscaler_sandbox::fleet::Fleet;
use serde_json::{Map, Value, json};

use super::scenario::Scenario;
use super::stage::NAMESPACE;
use crate::decide::{text, yaml};
use crate::failure::Failure;

/// A way to scale, of those that the documentation tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    /// By the work that arrives, with room for what may come.
    Headroom,
    /// By latency, once it has risen.
    Band,
    /// By the share of the KV cache in use.
    KvCache,
    /// By requests that wait and that run.
    QueueAndRunning,
    /// The same, down to no replica at all.
    ToZero,
    /// The same, down to one.
    NeverZero,
}

impl Strategy {
    /// The name of the scaler and of its fleet.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Headroom => "headroom",
            Self::Band => "band",
            Self::KvCache => "kv-cache",
            Self::QueueAndRunning => "queue",
            Self::ToZero => "to-zero",
            Self::NeverZero => "never-zero",
        }
    }

    /// What it goes by, in a few words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Headroom => "by the work that arrives, with room for what may come (slo.strategy: Headroom)",
            Self::Band => "by predicted latency against the promise (slo.strategy: Band)",
            Self::KvCache => "by the KV cache in use against 0.8, one step down at a time",
            Self::QueueAndRunning => "by requests that wait and that run",
            Self::ToZero => "by requests that wait and that run, to zero after five idle minutes",
            Self::NeverZero => "the same, and never below one",
        }
    }

    fn spec(self, scenario: &Scenario) -> Value {
        let slo = json!({"ttft": format!("{}s", scenario.promised.ttft), "tpot": format!("{}ms", scenario.promised.tpot * 1000.0)});
        let with = |more: Value| merged(slo.clone(), more);
        let metric = |name: &str, signal: &str, kind: &str, target: &str| json!({"name": name, "signal": signal, "metricType": kind, "target": target});
        let demand =
            json!([metric("queue", "queuedRequests", "AverageValue", "8"), metric("running", "runningRequests", "AverageValue", "32")]);
        let gently = json!({"scaleUp": {"stabilizationWindowSeconds": 0}, "scaleDown": {"stabilizationWindowSeconds": 300}});
        match self {
            Self::Headroom => json!({"preset": {"name": "vLLM"}, "slo": with(json!({"strategy": "Headroom", "objective": "0.99"}))}),
            Self::Band => json!({
                "preset": {"name": "llm-d-EPP"},
                "slo": slo,
                "behavior": {
                    "scaleUp": {"stabilizationWindowSeconds": 30, "selectPolicy": "Max", "policies": [
                        {"type": "Percent", "value": 100, "periodSeconds": 60}, {"type": "Pods", "value": 4, "periodSeconds": 60}]},
                    "scaleDown": {"stabilizationWindowSeconds": 180, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 120}]},
                },
            }),
            Self::KvCache => json!({
                "preset": {"name": "vLLM"},
                "metrics": [metric("kv-cache", "kvCacheUsage", "Value", "0.8")],
                "scaleDown": {"stabilizationWindowSeconds": 180, "maxStepReplicas": 1},
            }),
            Self::QueueAndRunning => json!({"preset": {"name": "llm-d-EPP"}, "metrics": demand, "behavior": gently}),
            Self::NeverZero => json!({"preset": {"name": "llm-d-EPP"}, "metrics": demand, "behavior": gently}),
            Self::ToZero => {
                json!({"minReplicas": 0, "preset": {"name": "llm-d-EPP"}, "metrics": demand, "behavior": gently, "idle": {"cooldownSeconds": 300}})
            }
        }
    }

    /// The scaler, on its fleet.
    pub(super) fn scaler(self, scenario: &Scenario, fleet: &Fleet, router: u16) -> Value {
        let (min, max) = scenario.bounds;
        let spec = merged(json!({"minReplicas": min, "maxReplicas": max}), self.spec(scenario));
        on_fleet(json!({"metadata": {"name": self.name()}, "spec": spec}), fleet, router)
    }
}

/// A scaler that a user brings: what it is called, and all of it.
#[derive(Clone, Debug)]
pub(super) struct Guest {
    pub name: String,
    object: Value,
}

impl Guest {
    /// The scaler, on its fleet.
    pub(super) fn scaler(&self, fleet: &Fleet, router: u16) -> Value {
        on_fleet(self.object.clone(), fleet, router)
    }
}

/// Reads a user's scaler. Signals and SLOs can be told in the demo; queries cannot.
pub(super) fn guest(file: &Path) -> Result<Guest, Failure> {
    let shown = file.display().to_string();
    let bytes = std::fs::read(file).map_err(|cause| Failure::Unreadable { file: shown.clone(), cause })?;
    text(bytes).and_then(|text| read(&text)).map_err(|invalid| Failure::Invalid { file: shown, invalid })
}

fn read(text: &str) -> Result<Guest, Invalid> {
    let mut object = yaml(text)?;
    let invalid = |field: &str, message: &str| Invalid { field: field.to_owned(), message: message.to_owned() };
    let own = match object.pointer("/metadata/name") {
        None | Some(Value::Null) => "mine".to_owned(),
        Some(Value::String(name)) if is_name(name) => name.clone(),
        Some(other) => {
            let message = format!("{other} cannot be the name of an object; write lower-case letters, digits and -, such as mine");
            return Err(invalid("metadata.name", &message));
        }
    };
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return Err(invalid("spec", "there is none; give a whole LLMScaler"));
    };
    if let Some((place, query)) = queries(spec).into_iter().next() {
        let message = format!("there is no Prometheus in the demo to answer {query}; use a signal or an slo without queries");
        return Err(invalid(&place, &message));
    }
    if spec.contains_key("customProvider") {
        return Err(invalid("spec.customProvider", "there is no decision server in the demo; use metrics with signals, or an slo"));
    }
    // Its source is the pages of its own fleet, which need no labels to be told apart and no secrets to be read.
    for field in ["serverAddress", "serverHeaders", "serverHeadersFrom", "serverTLS", "scrape"] {
        spec.remove(field);
    }
    let preset = spec.entry("preset").or_insert_with(|| json!({"name": "vLLM"}));
    if let Some(preset) = preset.as_object_mut() {
        preset.remove("matchLabels");
    }
    spec.insert("metricProvider".into(), "Scrape".into());
    spec.insert("targetRef".into(), json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "mine"}));
    spec.insert("scrape".into(), json!({"port": "metrics", "eppService": {"name": "mine"}}));
    let short: String = own.chars().take(40).collect();
    let name = format!("my-{}", short.trim_end_matches(['-', '.']));
    let object = json!({"apiVersion": "autoscaling.modelsphere.dev/v1alpha1", "kind": "LLMScaler", "metadata": {"name": name},
        "spec": object["spec"]});
    parse_json(object.clone())?.parse()?;
    Ok(Guest { name, object })
}

/// Whether an object can be called so: words of lower-case letters, digits and inner hyphens, with dots between them.
fn is_name(name: &str) -> bool {
    let in_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(in_word) && !word.starts_with('-') && !word.ends_with('-');
    name.len() <= 253 && name.split('.').all(is_word)
}

/// What only a Prometheus could answer, each with its place.
fn queries(spec: &Map<String, Value>) -> Vec<(String, String)> {
    let metrics = spec.get("metrics").and_then(Value::as_array).into_iter().flatten().enumerate();
    let of_metrics = metrics.filter_map(|(index, metric)| Some((format!("spec.metrics[{index}].query"), metric.get("query")?)));
    let of_slo = ["ttftQuery", "tpotQuery", "saturationQuery"]
        .into_iter()
        .filter_map(|field| Some((format!("spec.slo.{field}"), spec.get("slo")?.get(field)?)));
    let cost = spec.get("scaleDown").and_then(|scale_down| scale_down.get("deletionCostQuery"));
    let of_cost = cost.map(|query| ("spec.scaleDown.deletionCostQuery".to_owned(), query));
    let quoted = |(place, query): (String, &Value)| (place, query.to_string());
    of_metrics.chain(of_slo).chain(of_cost).map(quoted).collect()
}

fn on_fleet(object: Value, fleet: &Fleet, router: u16) -> Value {
    let name = &fleet.plan().name;
    let place = json!({
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "metricProvider": "Scrape",
        "scrape": {"port": "metrics", "eppService": {"name": fleet.service_name(), "port": router}},
    });
    json!({
        "apiVersion": "autoscaling.modelsphere.dev/v1alpha1",
        "kind": "LLMScaler",
        "metadata": {"name": object["metadata"]["name"], "namespace": NAMESPACE},
        "spec": merged(object["spec"].clone(), place),
    })
}

/// `over` on top of `under`, which are both objects.
fn merged(under: Value, over: Value) -> Value {
    match (under, over) {
        (Value::Object(mut under), Value::Object(over)) => {
            under.extend(over);
            Value::Object(under)
        }
        (under, _) => under,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(name: &str) -> Result<Guest, Invalid> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/samples/autoscaling_v1alpha1_llmscaler_");
        read(&std::fs::read_to_string(format!("{folder}{name}.yaml")).unwrap())
    }

    #[test]
    fn samples_without_queries_can_play_along() {
        for name in ["headroom", "slo", "queueandrunning", "scaletozero", "scrape"] {
            let guest = sample(name).unwrap();
            assert!(guest.name.starts_with("my-llmscaler-"), "{}", guest.name);
            assert_eq!((&guest.object["spec"]["metricProvider"], &guest.object["spec"]["serverAddress"]), (&json!("Scrape"), &Value::Null));
        }
    }

    #[test]
    fn a_name_that_no_object_can_have_is_refused_with_its_place() {
        let named = |name: Value| {
            let spec = json!({"minReplicas": 1, "maxReplicas": 3, "preset": {"name": "vLLM"}, "metrics": [{"signal": "queuedRequests", "target": "1"}]});
            read(&json!({"metadata": {"name": name}, "spec": spec}).to_string())
        };
        for wrong in
            [json!("Ünï"), json!("<script>"), json!("a b"), json!(""), json!("-a"), json!("a-"), json!("a..b"), json!("Big"), json!(5)]
        {
            let refused = named(wrong.clone()).unwrap_err();
            assert!(refused.field == "metadata.name" && refused.message.starts_with(&wrong.to_string()), "{wrong}: {refused:?}");
        }
        for (name, called) in [(json!("qwen3.32b-a"), "my-qwen3.32b-a"), (Value::Null, "my-mine")] {
            assert_eq!(named(name).unwrap().name, called);
        }
        let cut = format!("{}-{}", "a".repeat(39), "b".repeat(20));
        assert_eq!(named(json!(cut)).unwrap().name, format!("my-{}", "a".repeat(39)), "it does not end with a hyphen");
    }

    #[test]
    fn what_the_demo_cannot_answer_is_refused_with_its_place() {
        assert_eq!(sample("customprovider").unwrap_err().field, "spec.customProvider");
        let of = |spec: &str| read(&format!("{{metadata: {{name: a}}, spec: {spec}}}")).unwrap_err().field;
        assert_eq!(of("{metrics: [{signal: queuedRequests, target: '1'}, {query: up, target: '1'}]}"), "spec.metrics[1].query");
        assert_eq!(of("{slo: {ttft: 3s, ttftQuery: up}}"), "spec.slo.ttftQuery");
        assert_eq!(of("{scaleDown: {deletionCostQuery: up}}"), "spec.scaleDown.deletionCostQuery");
        assert_eq!(read("metadata: {name: a}").unwrap_err().field, "spec");
    }
}
