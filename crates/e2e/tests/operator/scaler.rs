//! The scalers that the tests create.

use llmscaler_e2e::{DecisionServer, Namespace};
use serde_json::{Value, json};

/// A scaler of Deployment `fleet` on `avg(load{namespace})` against 1, from 1 to 10 replicas, with a period of 1 s.
pub fn on_load(ns: &Namespace, more: Value) -> String {
    let query = format!(r#"avg(load{{namespace="{}"}})"#, ns.name());
    let mut spec = json!({
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "fleet"},
        "serverAddress": ns.plane().prometheus().url(),
        "minReplicas": 1,
        "maxReplicas": 10,
        "syncPeriodSeconds": 1,
        "retryPeriodSeconds": 1,
        "metrics": [{"name": "load", "query": query, "target": "1"}],
    });
    merge(&mut spec, more);
    scaler("fleet", &spec)
}

/// A scaler as [`on_load`], but on what `server` decides for service `fleet`.
pub fn on_decisions(ns: &Namespace, server: &DecisionServer, more: Value) -> String {
    let mut spec = json!({
        "metricProvider": "Custom",
        "serverAddress": server.url(),
        "customProvider": {"serviceId": "fleet"},
        "metrics": null,
    });
    merge(&mut spec, more);
    on_load(ns, spec)
}

/// A scaler of this spec.
pub fn scaler(name: &str, spec: &Value) -> String {
    json!({"apiVersion": "autoscaling.modelsphere.dev/v1alpha1", "kind": "LLMScaler", "metadata": {"name": name}, "spec": spec}).to_string()
}

/// Puts the fields of `more` into `into`, as a merge patch does.
pub fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                if value.is_null() {
                    into.remove(&key);
                } else {
                    merge(into.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (into, more) => *into = more,
    }
}
