use llmscaler_api::{LLMScaler, Scaler};
use serde_json::{Value, json};

use super::finding::{Finding, Report};
use super::print;

/// A scaler of Deployment `vllm` as users write it, changed by `more`, in which null takes a field away.
pub fn object(more: Value) -> Value {
    let mut spec = json!({
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "vllm"},
        "serverAddress": "http://prometheus.monitoring.svc:9090",
        "minReplicas": 1,
        "maxReplicas": 10,
        "metrics": [
            {"name": "kv", "query": "avg(kv)", "target": "0.8"},
            {"name": "queue", "query": "sum(queue)", "target": "5", "metricType": "AverageValue"},
            {"name": "percent", "query": "avg(kv)", "target": "80"},
        ],
    });
    let fields = spec.as_object_mut().unwrap();
    for (key, value) in more.as_object().unwrap() {
        if value.is_null() { drop(fields.remove(key)) } else { drop(fields.insert(key.clone(), value.clone())) }
    }
    json!({"apiVersion": "autoscaling.modelsphere.dev/v1alpha1", "kind": "LLMScaler", "metadata": {"name": "vllm", "namespace": "serving"},
        "spec": spec})
}

/// The same, parsed.
pub fn scaler(more: Value) -> Scaler {
    serde_json::from_value::<LLMScaler>(object(more)).unwrap().parse().unwrap()
}

#[test]
fn the_worst_comes_last_and_each_with_what_to_do() {
    let findings = vec![
        Finding::problem("query", "kv: no series matches the query", "check the metric's name"),
        Finding::ok("target", "Deployment vllm has 3 replicas, all ready"),
        Finding::warning("drain", "a pod has 30 s to finish", "raise it"),
    ];
    let mut out = vec![];
    print::write(&mut out, &[Report { subject: "serving/vllm".to_owned(), findings }], 60).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "\
serving/vllm
  ok       target      Deployment vllm has 3 replicas, all
                       ready
  warning  drain       a pod has 30 s to finish
                       → raise it
  problem  query       kv: no series matches the query
                       → check the metric's name

1 problem, 1 warning, 0 notes, 1 as it should be
"
    );
}
