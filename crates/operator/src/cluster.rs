//! The watches on targets and their pods: started when a scaler first needs them, ended when the last one is gone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject, PartialObjectMeta, TypeMeta};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use llmscaler_api::TargetRef;

use crate::deadline::{CallError, within};
use crate::health::Health;
use crate::metrics::{Metrics, Watched};
use crate::owners::{Autoscalers, Watches};
use crate::pods::{KeptPod, KeptReplicaSet};
use crate::target::Target;
use crate::watch::{Collection, Kept};

/// A watch that has shown no sign of life for so long is dead.
pub(crate) const WATCH_SILENCE: Duration = Duration::from_secs(60);

/// How the API serves a kind.
#[derive(Clone, Debug)]
pub(crate) struct TargetKind {
    pub resource: ApiResource,
    /// Whether the kind has the scale subresource.
    pub has_scale: bool,
}

impl TargetKind {
    /// Whether the API server itself implements the kind: among those that scale, only its own groups have no domain.
    pub(crate) fn is_built_in(&self) -> bool {
        matches!(self.resource.group.as_str(), "" | "apps")
    }
}

/// What is watched in one namespace for the pods of its targets.
pub(crate) struct PodWatch {
    pub pods: Collection<KeptPod>,
    pub replica_sets: Collection<KeptReplicaSet>,
}

/// Watches that live for as long as somebody holds them.
type Shared<K, V> = Mutex<HashMap<K, Weak<V>>>;

/// The watches on targets and their pods.
pub(crate) struct Cluster {
    client: Client,
    health: Health,
    metrics: Metrics,
    /// The only namespace that has scalers, if it is not all of them.
    namespace: Option<String>,
    kinds: Mutex<HashMap<GroupVersionKind, TargetKind>>,
    targets: Shared<(GroupVersionKind, String), Collection<Target>>,
    /// By namespace.
    pods: Shared<String, PodWatch>,
    autoscalers: Shared<(), Autoscalers>,
}

/// Why a kind cannot be scaled.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KindError {
    /// The API server does not serve it.
    #[error(
        "the API server serves no {kind} in {api_version}; check targetRef.apiVersion and targetRef.kind, and whether its CRD is installed"
    )]
    Unserved { api_version: String, kind: String },
    /// The API server could not be asked.
    #[error("the API server could not be asked for {kind} in {api_version}: {source}")]
    Api { api_version: String, kind: String, source: Box<CallError> },
}

impl Cluster {
    pub(crate) fn new(client: Client, health: Health, metrics: Metrics, namespace: Option<String>) -> Self {
        let (kinds, targets, pods, autoscalers) = (Mutex::default(), Mutex::default(), Mutex::default(), Mutex::default());
        Self { client, health, metrics, namespace, kinds, targets, pods, autoscalers }
    }

    /// How the API serves the target's kind. A kind that is served is remembered, until [`Cluster::forget`]; one that is not is asked for
    /// again.
    pub(crate) async fn kind(&self, target: &TargetRef) -> Result<TargetKind, KindError> {
        let gvk = gvk(target);
        if let Some(kind) = lock(&self.kinds).get(&gvk) {
            return Ok(kind.clone());
        }
        let (api_version, kind) = (target.api_version(), target.kind.clone());
        let (resource, capabilities) = match within(kube::discovery::pinned_kind(&self.client, &gvk)).await {
            Ok(found) => found,
            Err(CallError::Api(error)) if is_unserved(&error) => return Err(KindError::Unserved { api_version, kind }),
            Err(source) => return Err(KindError::Api { api_version, kind, source: Box::new(source) }),
        };
        let has_scale = capabilities.subresources.iter().any(|(resource, _)| resource.plural == "scale");
        let kind = TargetKind { resource, has_scale };
        lock(&self.kinds).insert(gvk, kind.clone());
        Ok(kind)
    }

    /// The API server has no such thing as was asked of this kind: its CRD may have been taken away, or replaced by one with or without a
    /// scale subresource.
    pub(crate) fn forget(&self, target: &TargetRef) {
        lock(&self.kinds).remove(&gvk(target));
    }

    /// The targets of this kind in the namespace.
    pub(crate) fn targets(&self, target: &TargetRef, kind: &TargetKind, namespace: &str) -> Arc<Collection<Target>> {
        shared(&self.targets, (gvk(target), namespace.to_owned()), || {
            let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &kind.resource);
            self.watch(api, Watched::new(&kind.resource.plural, namespace), typed(&kind.resource))
        })
    }

    /// The pods and ReplicaSets of the namespace.
    pub(crate) fn pods(&self, namespace: &str) -> Arc<PodWatch> {
        shared(&self.pods, namespace.to_owned(), || {
            let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
            let replica_sets: Api<PartialObjectMeta<ReplicaSet>> = Api::namespaced(self.client.clone(), namespace);
            PodWatch {
                pods: self.watch(pods, Watched::new("pods", namespace), |_| {}),
                replica_sets: self.watch(replica_sets, Watched::new("replicasets", namespace), |_| {}),
            }
        })
    }

    /// The other autoscalers, of all namespaces that have scalers.
    pub(crate) fn autoscalers(&self) -> Arc<Autoscalers> {
        shared(&self.autoscalers, (), || {
            let (client, namespace) = (self.client.clone(), self.namespace.clone());
            Autoscalers::watch(Watches { client, namespace, health: self.health.clone(), metrics: self.metrics.clone() })
        })
    }

    fn watch<T: Kept>(&self, api: Api<T::Object>, what: Watched, complete: impl Fn(&mut T::Object) + Send + 'static) -> Collection<T> {
        let part = self.health.part(&format!("watch of {what}"), WATCH_SILENCE);
        Collection::watch(api, what, part, self.metrics.clone(), complete)
    }
}

/// Says of each object what it is. In a list the API server says it once for all of them, where the kind is its own.
fn typed(resource: &ApiResource) -> impl Fn(&mut DynamicObject) + use<> {
    let types = TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() };
    move |object| {
        object.types.get_or_insert_with(|| types.clone());
    }
}

fn gvk(target: &TargetRef) -> GroupVersionKind {
    GroupVersionKind::gvk(&target.group, &target.version, &target.kind)
}

/// Discovery answers 404 for a group or version that is not there, in plain text and so without a reason, and kube its own error for a
/// kind that is missing in one.
pub(crate) fn is_unserved(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 404,
        kube::Error::Discovery(_) => true,
        _ => false,
    }
}

/// The living entry of a map, or a new one.
fn shared<K: std::hash::Hash + Eq, V>(map: &Shared<K, V>, key: K, start: impl FnOnce() -> V) -> Arc<V> {
    let mut map = lock(map);
    if let Some(living) = map.get(&key).and_then(Weak::upgrade) {
        return living;
    }
    map.retain(|_, entry| entry.strong_count() > 0);
    let fresh = Arc::new(start());
    map.insert(key, Arc::downgrade(&fresh));
    fresh
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use llmscaler_engine::Rollout;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_deployment_of_a_list_is_one_though_it_does_not_say_so() {
        let status = json!({"observedGeneration": 1, "replicas": 3, "updatedReplicas": 2, "readyReplicas": 3});
        let item = json!({"metadata": {"name": "fleet", "generation": 1}, "spec": {"replicas": 3}, "status": status});
        let mut item: DynamicObject = serde_json::from_value(item).unwrap();
        assert!(item.types.is_none());
        typed(&ApiResource::erase::<Deployment>(&()))(&mut item);
        assert!(matches!(Target::of(&item).rollout, Rollout::InProgress(_)));
    }
}
