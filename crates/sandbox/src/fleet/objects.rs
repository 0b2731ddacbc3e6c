//! What of a fleet is in the API.

use serde_json::{Value, json};

use super::{LOOPBACK, Plan};

/// Seconds that a pod has to finish what it has.
const GRACE: u32 = 600;

/// The Deployment, of the size that the fleet starts with.
pub(super) fn deployment(plan: &Plan) -> Value {
    let Plan { namespace, name, profile, start, .. } = plan;
    let container = json!({
        "name": "vllm",
        "image": "vllm/vllm-openai:v0.11.0",
        "args": ["serve", profile.name],
        // Each pod gets a port of its own when it starts.
        "ports": [{"name": "metrics", "containerPort": 8000}],
        "resources": {"limits": {"nvidia.com/gpu": profile.gpus.to_string()}},
    });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {
            "replicas": start,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"terminationGracePeriodSeconds": GRACE, "containers": [container]},
            },
        },
    })
}

pub(super) fn service_name(plan: &Plan) -> String {
    format!("{}-epp", plan.name)
}

/// The Service of the endpoint picker: the name under which its address is known.
pub(super) fn service(plan: &Plan, port: u16) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": service_name(plan), "namespace": plan.namespace, "labels": {"app": service_name(plan)}},
        "spec": {"type": "ExternalName", "externalName": LOOPBACK.to_string(), "ports": [{"name": "metrics", "port": port}]},
    })
}
