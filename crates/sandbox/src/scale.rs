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
    let mut scale = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {},
        "status": {"replicas": object::number(workload, "/status/replicas").unwrap_or(0), "selector": selector.join(",")},
    });
    // A size of 0 is left out, as everything that is empty.
    if let Some(replicas) = object::number(workload, "/spec/replicas").filter(|replicas| *replicas != 0) {
        scale["spec"]["replicas"] = json!(replicas);
    }
    scale
}

/// The workload with the size that the scale asks for.
pub(crate) fn onto(workload: &Value, scale: &Value) -> Result<Value, Refusal> {
    let replicas = match scale.pointer("/spec/replicas") {
        None | Some(Value::Null) => 0,
        Some(replicas) => replicas.as_i64().ok_or_else(Refusal::unfit_patch)?,
    };
    if !(0..=i64::from(i32::MAX)).contains(&replicas) {
        let error = FieldError::invalid("spec.replicas", &json!(replicas), "must be greater than or equal to 0");
        return Err(Refusal::invalid_scale(object::name(workload), &error));
    }
    let mut workload = workload.clone();
    object::child(&mut workload, "spec").insert("replicas".into(), replicas.into());
    Ok(workload)
}
