//! The deletion costs that pods carry, watched from the first to the last.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use llmscaler_e2e::Namespace;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// The annotation that the ReplicaSet controller ranks by.
pub const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The annotation by which the operator knows its marks.
pub const MARK: &str = "autoscaling.modelsphere.dev/deletion-cost-mark";

/// Every deletion cost that any pod of a namespace has had since [`MarkWatch::start`].
pub struct MarkWatch {
    seen: Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>,
    task: JoinHandle<()>,
}

impl MarkWatch {
    /// Watches from now on.
    pub async fn start(ns: &Namespace) -> Self {
        let seen = Arc::<Mutex<BTreeMap<String, BTreeSet<String>>>>::default();
        let mut events = watcher(ns.api::<Pod>(), watcher::Config::default()).boxed();
        let (listed, ready) = tokio::sync::oneshot::channel();
        let shared = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let mut listed = Some(listed);
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::InitDone) => drop(listed.take().map(|listed| listed.send(()))),
                    // A pod's last state counts, too.
                    Ok(Event::Apply(pod) | Event::InitApply(pod) | Event::Delete(pod)) => {
                        if let Some(cost) = pod.annotations().get(COST) {
                            shared.lock().unwrap().entry(pod.name_any()).or_default().insert(cost.clone());
                        }
                    }
                    _ => {}
                }
            }
        });
        ready.await.unwrap();
        Self { seen, task }
    }

    /// The costs so far, by pod.
    pub fn seen(&self) -> BTreeMap<String, BTreeSet<String>> {
        self.seen.lock().unwrap().clone()
    }

    /// The pods that have had a cost so far.
    pub fn pods(&self) -> BTreeSet<String> {
        self.seen().into_keys().collect()
    }
}

impl Drop for MarkWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A user's own deletion cost on a pod.
pub async fn set_cost(ns: &Namespace, pod: &str, cost: &str) {
    annotate(ns, pod, json!({COST: cost})).await;
}

/// Merges annotations into a pod's.
pub async fn annotate(ns: &Namespace, pod: &str, annotations: Value) {
    ns.patch(&ns.api::<Pod>(), pod, &json!({"metadata": {"annotations": annotations}})).await;
}
