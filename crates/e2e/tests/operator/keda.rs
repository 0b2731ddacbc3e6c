//! What stands in for KEDA: its kind, and of its operator the part that makes an HPA for each ScaledObject and takes it away again.

use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use llmscaler_e2e::Namespace;
use serde_json::{Value, json};
use tokio::task::AbortHandle;

/// The least that the API server needs to know of KEDA's kind.
pub fn definition() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "scaledobjects.keda.sh"},
        "spec": {
            "group": "keda.sh",
            "names": {"kind": "ScaledObject", "plural": "scaledobjects", "singular": "scaledobject"},
            "scope": "Namespaced",
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": schema}],
        },
    })
}

/// The ScaledObjects of a namespace.
pub fn scaled_objects(ns: &Namespace) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("keda.sh", "v1alpha1", "ScaledObject"), "scaledobjects");
    Api::namespaced_with(ns.plane().client(), ns.name(), &resource)
}

/// The part of KEDA's operator, until it is dropped. Its metrics are somebody else's business.
pub struct Keda {
    rounds: AbortHandle,
}

impl Keda {
    /// Looks after ScaledObject `name`, from one replica up.
    pub fn start(ns: &Namespace, name: &'static str) -> Self {
        let (objects, hpas) = (scaled_objects(ns), ns.api::<HorizontalPodAutoscaler>());
        let rounds = tokio::spawn(async move {
            loop {
                if let Ok(object) = objects.get_opt(name).await {
                    round(&hpas, name, object.as_ref()).await;
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        });
        Self { rounds: rounds.abort_handle() }
    }
}

impl Drop for Keda {
    fn drop(&mut self) {
        self.rounds.abort();
    }
}

/// What fails is done in the next round.
async fn round(hpas: &Api<HorizontalPodAutoscaler>, name: &str, object: Option<&DynamicObject>) {
    let hpa = format!("keda-hpa-{name}");
    match object {
        Some(object) if object.metadata.annotations.as_ref().and_then(|all| all.get("autoscaling.keda.sh/paused")).is_none() => {
            let wanted = generated(&hpa, name, object);
            let _ = hpas.patch(&hpa, &PatchParams::apply("keda-operator"), &Patch::Apply(&wanted)).await;
        }
        // Without its owner it would be collected as garbage; so it goes at once.
        _ => drop(hpas.delete(&hpa, &DeleteParams::default()).await),
    }
}

/// The HPA of a ScaledObject.
fn generated(hpa: &str, name: &str, object: &DynamicObject) -> Value {
    let spec = &object.data["spec"];
    let metrics = spec["triggers"].as_array().into_iter().flatten().enumerate().map(|(index, trigger)| {
        let metric = json!({
            "name": format!("s{index}-{}", trigger["name"].as_str().unwrap_or("prometheus")),
            "selector": {"matchLabels": {"scaledobject.keda.sh/name": name}},
        });
        let target = json!({"type": "AverageValue", "averageValue": trigger["metadata"]["threshold"]});
        json!({"type": "External", "external": {"metric": metric, "target": target}})
    });
    let owner = json!({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": name, "uid": object.metadata.uid,
        "controller": true, "blockOwnerDeletion": true});
    json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": hpa, "ownerReferences": [owner]},
        "spec": {
            "scaleTargetRef": spec["scaleTargetRef"],
            "minReplicas": spec["minReplicaCount"],
            "maxReplicas": spec["maxReplicaCount"],
            "metrics": metrics.collect::<Vec<_>>(),
            "behavior": spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"],
        },
    })
}
