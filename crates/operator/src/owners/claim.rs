//! By what another autoscaler has a target: the rules for each kind, both for the watches and for whoever looks once.

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use kube::api::DynamicObject;
use llmscaler_api::{LLMScaler, TargetRef};

use crate::target::controller;

/// The annotation that pauses a ScaledObject.
pub(super) const PAUSED: &str = "autoscaling.keda.sh/paused";
/// The annotation that has a ScaledObject keep a size.
pub(super) const PAUSED_REPLICAS: &str = "autoscaling.keda.sh/paused-replicas";
/// The values of [`PAUSED`] that pause nothing, as Go reads truth. KEDA takes what is neither true nor false for true.
const FALSE: [&str; 6] = ["0", "f", "F", "false", "FALSE", "False"];

/// An autoscaler that has a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    /// What it scales, as [`key`] has it.
    pub target: String,
    /// It, or who made it.
    pub by: Named,
}

/// The kind and name of an autoscaler, as people look for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Named {
    pub kind: String,
    pub name: String,
}

impl Claim {
    /// That of an HPA; `None` for one that is in nobody's way.
    pub(super) fn of_hpa(hpa: &HorizontalPodAutoscaler) -> Option<Self> {
        let meta = &hpa.metadata;
        let maker = controller(meta.owner_references.as_deref());
        // An LLMScaler that has an HPA act for it is known as itself.
        if maker.is_some_and(is_scaler) {
            return None;
        }
        let to = &hpa.spec.as_ref()?.scale_target_ref;
        let by = match maker {
            Some(maker) => Named { kind: maker.kind.clone(), name: maker.name.clone() },
            None => Named { kind: "HorizontalPodAutoscaler".to_owned(), name: meta.name.clone().unwrap_or_default() },
        };
        let group = group(to.api_version.as_deref().unwrap_or_default());
        Some(Self { target: key(meta.namespace.as_deref().unwrap_or_default(), group, &to.kind, &to.name), by })
    }

    /// That of KEDA's ScaledObject, which has its target at zero, too; `None` for one that is paused.
    pub(super) fn of_scaled_object(object: &DynamicObject) -> Option<Self> {
        let (meta, to) = (&object.metadata, &object.data["spec"]["scaleTargetRef"]);
        let annotation = |name: &str| meta.annotations.as_ref().and_then(|all| all.get(name));
        // Of a paused one the size stays, unless it is told one to keep.
        if annotation(PAUSED).is_some_and(|value| !FALSE.contains(&value.as_str())) && annotation(PAUSED_REPLICAS).is_none() {
            return None;
        }
        let text = |field: &str, default: &'static str| to[field].as_str().unwrap_or(default).to_owned();
        let (version, kind) = (text("apiVersion", "apps/v1"), text("kind", "Deployment"));
        let target = key(meta.namespace.as_deref().unwrap_or_default(), group(&version), &kind, &text("name", ""));
        Some(Self { target, by: Named { kind: "ScaledObject".to_owned(), name: meta.name.clone().unwrap_or_default() } })
    }
}

fn is_scaler(owner: &OwnerReference) -> bool {
    owner.kind == LLMScaler::kind(&()) && group(&owner.api_version) == LLMScaler::group(&())
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// The target in a namespace, as one text.
pub(super) fn key_of(namespace: &str, target: &TargetRef) -> String {
    key(namespace, &target.group, &target.kind, &target.name)
}

/// The version is another view of the same object.
fn key(namespace: &str, group: &str, kind: &str, name: &str) -> String {
    format!("{namespace}/{kind}.{group}/{name}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(annotations: Value, to: Value) -> Option<String> {
        let metadata = json!({"name": "chat", "namespace": "serving", "annotations": annotations});
        let object =
            json!({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": metadata, "spec": {"scaleTargetRef": to}});
        Claim::of_scaled_object(&serde_json::from_value(object).unwrap()).map(|claim| claim.target)
    }

    #[test]
    fn a_scaled_object_has_a_deployment_unless_it_says_otherwise() {
        assert_eq!(of(json!({}), json!({"name": "fleet"})).as_deref(), Some("serving/Deployment.apps/fleet"));
        let set = json!({"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": "fleet"});
        assert_eq!(of(json!({}), set).as_deref(), Some("serving/LeaderWorkerSet.leaderworkerset.x-k8s.io/fleet"));
    }

    #[test]
    fn one_that_is_paused_is_in_nobodys_way() {
        for (annotations, counts) in [
            (json!({PAUSED: "true"}), false),
            (json!({PAUSED: "yes please"}), false),
            (json!({PAUSED: ""}), false),
            (json!({PAUSED: "false"}), true),
            (json!({PAUSED: "False"}), true),
            (json!({PAUSED: "0"}), true),
            (json!({PAUSED: "true", PAUSED_REPLICAS: "3"}), true),
            (json!({PAUSED_REPLICAS: "3"}), true),
        ] {
            assert_eq!(of(annotations.clone(), json!({"name": "fleet"})).is_some(), counts, "{annotations}");
        }
    }
}
