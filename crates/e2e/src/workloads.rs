//! The three kinds of targets, small and valid, for tests to change before they create them.

use crate::manifest;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use kube::api::{ApiResource, DynamicObject};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The LeaderWorkerSet resource.
pub(crate) fn leader_worker_sets() -> ApiResource {
    manifest::resource("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets")
}

/// A Deployment of pods labelled `app: NAME`.
#[must_use]
pub fn deployment(name: &str, replicas: i32) -> Deployment {
    typed(json!({
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name)},
    }))
}

/// A StatefulSet of pods labelled `app: NAME`, which start and end in parallel.
#[must_use]
pub fn stateful_set(name: &str, replicas: i32) -> StatefulSet {
    typed(json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": name}},
            "template": template(name),
        },
    }))
}

/// A LeaderWorkerSet of `replicas` groups of `size` pods. Nothing makes the pods.
#[must_use]
pub fn leader_worker_set(name: &str, replicas: i32, size: i32) -> DynamicObject {
    DynamicObject::new(name, &leader_worker_sets()).data(json!({
        "spec": {
            "replicas": replicas,
            "leaderWorkerTemplate": {"size": size, "workerTemplate": template(name)},
            "rolloutStrategy": {"type": "RollingUpdate"},
        },
    }))
}

fn template(name: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": name}},
        "spec": {
            "terminationGracePeriodSeconds": 300,
            "containers": [{"name": "server", "image": "model-server:e2e", "ports": [{"containerPort": 8000}]}],
        },
    })
}

fn typed<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}
