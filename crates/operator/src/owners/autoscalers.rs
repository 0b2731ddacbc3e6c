//! The other autoscalers of the cluster, by what they scale: one watch of each kind for all scalers.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use llmscaler_api::TargetRef;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{debug, info};

use super::claim::{Claim, Named, key_of};
use super::rival::Rival;
use crate::cluster::{WATCH_SILENCE, is_unserved};
use crate::deadline::{CallError, within};
use crate::health::Health;
use crate::metrics::{Metrics, Watched};
use crate::watch::{Collection, Kept, change};

/// How often it is asked whether KEDA has been installed, or taken away.
const RECHECK: Duration = Duration::from_secs(30);

/// How long the first syncs wait for the first lists. After that the scalers go on: a list that is refused is told in the metrics.
const PATIENCE: Duration = Duration::from_secs(5);

/// The other autoscalers, by what they scale. The watches begin with it and end with it.
pub(crate) struct Autoscalers {
    hpas: Collection<Hpa>,
    /// `None` while KEDA is not installed.
    scaled_objects: Arc<RwLock<Option<Collection<ScaledObject>>>>,
    /// Whether it is known if KEDA is installed.
    looked: watch::Receiver<bool>,
    /// Until when the first lists are waited for.
    deadline: Instant,
    _search: DropGuard,
}

/// Starts watches on a kind, in all namespaces or in the only one that matters.
#[derive(Clone)]
pub(crate) struct Watches {
    pub client: Client,
    pub namespace: Option<String>,
    pub health: Health,
    pub metrics: Metrics,
}

impl Watches {
    fn start<T: Kept>(&self, resource: &ApiResource, api: impl FnOnce(Client, Option<&str>) -> Api<T::Object>) -> Collection<T> {
        let what = Watched::new(&resource.plural, self.namespace.as_deref().unwrap_or_default());
        let part = self.health.part(&format!("watch of {what}"), WATCH_SILENCE);
        Collection::watch(api(self.client.clone(), self.namespace.as_deref()), what, part, self.metrics.clone(), |_| {})
    }

    fn hpas(&self) -> Collection<Hpa> {
        let resource = ApiResource::erase::<HorizontalPodAutoscaler>(&());
        self.start(&resource, |client, namespace| match namespace {
            Some(namespace) => Api::namespaced(client, namespace),
            None => Api::all(client),
        })
    }

    fn scaled_objects(&self, resource: &ApiResource) -> Collection<ScaledObject> {
        self.start(resource, |client, namespace| match namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, resource),
            None => Api::all_with(client, resource),
        })
    }
}

impl Autoscalers {
    pub(crate) fn watch(watches: Watches) -> Self {
        let (tell, looked) = watch::channel(false);
        let scaled_objects = Arc::default();
        let cancel = CancellationToken::new();
        let search = search(watches.clone(), Arc::clone(&scaled_objects), tell);
        tokio::spawn(cancel.clone().run_until_cancelled_owned(search));
        Self { hpas: watches.hpas(), scaled_objects, looked, deadline: Instant::now() + PATIENCE, _search: cancel.drop_guard() }
    }

    /// Waits until the first lists have been answered, but not for long: whoever writes before may write against an autoscaler.
    pub(crate) async fn listed(&self) {
        let mut looked = self.looked.clone();
        let answered = async {
            self.hpas.answered().await;
            // A sender that is gone tells nothing more.
            let _ = looked.wait_for(|looked| *looked).await;
        };
        let _ = tokio::time::timeout_at(self.deadline, answered).await;
    }

    /// Those that scale the target, in words; `None` when there are none.
    pub(crate) fn of(&self, namespace: &str, target: &TargetRef) -> Option<Rival> {
        let key = key_of(namespace, target);
        // KEDA has an HPA made for each ScaledObject that is above zero, and both go by the one name.
        let mut named: BTreeSet<Named> =
            self.hpas.owned_by(&key).iter().filter_map(|hpa| hpa.0.as_ref()).map(|claim| claim.by.clone()).collect();
        if let Some(scaled_objects) = self.scaled_objects.read().unwrap_or_else(PoisonError::into_inner).as_ref() {
            named.extend(scaled_objects.owned_by(&key).iter().filter_map(|object| object.0.as_ref()).map(|claim| claim.by.clone()));
        }
        named.first().map(|named| Rival::autoscaler(named, target))
    }

    /// Where the watches stand.
    pub(crate) fn version(&self) -> Changes {
        let scaled_objects = self.scaled_objects.read().unwrap_or_else(PoisonError::into_inner);
        Changes { hpas: self.hpas.version(), scaled_objects: scaled_objects.as_ref().map(Collection::version) }
    }
}

/// Where the watches stood at a look.
pub(crate) struct Changes {
    hpas: watch::Receiver<u64>,
    scaled_objects: Option<watch::Receiver<u64>>,
}

impl Changes {
    /// Resolves at the next change of an autoscaler.
    pub(crate) async fn next(&mut self) {
        let scaled_objects = async {
            match &mut self.scaled_objects {
                Some(version) => change(version).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = change(&mut self.hpas) => {}
            () = scaled_objects => {}
        }
    }
}

/// Looks now and then whether KEDA is installed, and watches its objects while it is.
async fn search(watches: Watches, found: Arc<RwLock<Option<Collection<ScaledObject>>>>, tell: watch::Sender<bool>) {
    let kind = GroupVersionKind::gvk("keda.sh", "v1alpha1", "ScaledObject");
    loop {
        let watched = found.read().unwrap_or_else(PoisonError::into_inner).is_some();
        match within(kube::discovery::pinned_kind(&watches.client, &kind)).await {
            Ok((resource, _)) if !watched => {
                info!("KEDA is installed; watching its ScaledObjects");
                let collection = watches.scaled_objects(&resource);
                // Who reads them next reads a list, if it comes in time.
                let _ = tokio::time::timeout(PATIENCE, collection.answered()).await;
                *found.write().unwrap_or_else(PoisonError::into_inner) = Some(collection);
            }
            Ok(_) => {}
            Err(CallError::Api(error)) if is_unserved(&error) => {
                if watched {
                    info!("KEDA has been taken away");
                    *found.write().unwrap_or_else(PoisonError::into_inner) = None;
                }
            }
            // Whether it is installed is not known; the next look tells.
            Err(error) => debug!(%error, "Failed to look for KEDA"),
        }
        tell.send_replace(true);
        tokio::time::sleep(RECHECK).await;
    }
}

/// A HorizontalPodAutoscaler, as far as it matters.
#[derive(Debug)]
pub(crate) struct Hpa(Option<Claim>);

impl Kept for Hpa {
    type Object = HorizontalPodAutoscaler;

    fn keep(hpa: HorizontalPodAutoscaler) -> Self {
        Self(Claim::of_hpa(&hpa))
    }

    fn owner(&self) -> Option<&str> {
        self.0.as_ref().map(|claim| claim.target.as_str())
    }

    fn name(meta: &ObjectMeta) -> String {
        namespaced(meta)
    }
}

/// KEDA's ScaledObject, as far as it matters.
#[derive(Debug)]
pub(crate) struct ScaledObject(Option<Claim>);

impl Kept for ScaledObject {
    type Object = DynamicObject;

    fn keep(object: DynamicObject) -> Self {
        Self(Claim::of_scaled_object(&object))
    }

    fn owner(&self) -> Option<&str> {
        self.0.as_ref().map(|claim| claim.target.as_str())
    }

    fn name(meta: &ObjectMeta) -> String {
        namespaced(meta)
    }
}

fn namespaced(meta: &ObjectMeta) -> String {
    format!("{}/{}", meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

#[cfg(test)]
pub(super) mod tests;
