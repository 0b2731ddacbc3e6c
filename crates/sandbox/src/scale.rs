//! The scale subresource of workloads.

use serde_json::{Value, json};

use crate::object;
use crate::refusal::{FieldError, Refusal};

/// The scale of a Deployment, ReplicaSet or StatefulSet.
pub(crate) fn of(workload: &Value) -> Value {
    let labels = workload.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
    let selector: Vec<String> =
        labels.into_iter().flatten().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    let metadata = &workload["metadata"];
    let kept = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
    let metadata: serde_json::Map<String, Value> = kept.iter().map(|name| ((*name).to_owned(), metadata[*name].clone())).collect();
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": object::number(workload, "/spec/replicas").unwrap_or(0)},
        "status": {"replicas": object::number(workload, "/status/replicas").unwrap_or(0), "selector": selector.join(",")},
    })
}

/// The workload with the size that the scale asks for.
pub(crate) fn onto(workload: &Value, scale: &Value) -> Result<Value, Refusal> {
    let replicas = scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
    if !(0..=i64::from(i32::MAX)).contains(&replicas) {
        let error = FieldError::invalid("spec.replicas", &json!(replicas), "must be greater than or equal to 0");
        return Err(Refusal::invalid_scale(object::name(workload), &error));
    }
    let mut workload = workload.clone();
    object::child(&mut workload, "spec").insert("replicas".into(), replicas.into());
    Ok(workload)
}
