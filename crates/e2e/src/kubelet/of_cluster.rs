//! The kubelet of a real API server: it watches its pods, and writes what becomes of them.

use super::{Known, Policy, Step, step};
use crate::control_plane::ControlPlane;
use crate::pod_status;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::sync::Weak;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// The node of all pods.
const NODE: &str = "e2e";

/// After a request that failed for another reason than that the pod has changed.
const RETRY: Duration = Duration::from_millis(500);

/// Moves the pods of `namespace` on until the plane or the policy is gone.
pub(super) async fn run(plane: Weak<ControlPlane>, namespace: String, policy: watch::Receiver<Policy>) {
    let Some(client) = plane.upgrade().map(|plane| plane.client()) else { return };
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}});
    let _ = Api::<Node>::all(client.clone()).patch(NODE, &PatchParams::apply("e2e").force(), &Patch::Apply(&node)).await;
    let pods = Api::namespaced(client, &namespace);
    Loop { pods, policy, known: HashMap::new(), listed: HashSet::new() }.run().await;
}

struct Loop {
    pods: Api<Pod>,
    policy: watch::Receiver<Policy>,
    // By uid: a StatefulSet's pods come back under the same names.
    known: HashMap<String, Known>,
    listed: HashSet<String>,
}

impl Loop {
    async fn run(mut self) {
        let mut events = watcher(self.pods.clone(), watcher::Config::default()).boxed();
        let mut wake = None;
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(event)) => self.note(event),
                    Some(Err(_)) => tokio::time::sleep(RETRY).await,
                    None => return,
                },
                changed = self.policy.changed() => if changed.is_err() { return },
                () = tokio::time::sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {}
            }
            wake = self.act().await;
        }
    }

    fn note(&mut self, event: Event<Pod>) {
        match event {
            Event::Apply(pod) => self.keep(pod),
            Event::Delete(pod) => drop(self.known.remove(&uid(&pod))),
            Event::Init => self.listed.clear(),
            Event::InitApply(pod) => {
                self.listed.insert(uid(&pod));
                self.keep(pod);
            }
            // A pod that ended while nobody watched would take up room for ever.
            Event::InitDone => self.known.retain(|uid, _| self.listed.contains(uid)),
        }
    }

    fn keep(&mut self, pod: Pod) {
        self.known.entry(uid(&pod)).or_insert_with(Known::new).becomes(pod);
    }

    /// Takes every step that is due and returns when the next one will be.
    async fn act(&mut self) -> Option<Instant> {
        let policy = self.policy.borrow_and_update().clone();
        let mut oldest_first: Vec<_> =
            self.known.values().map(|known| (known.pod.creation_timestamp(), known.pod.name_any(), uid(&known.pod))).collect();
        oldest_first.sort();
        let mut wake: Option<Instant> = None;
        for (_, _, uid) in oldest_first {
            // A pod may be several steps behind: a new one is bound, reported on, and ready at once.
            loop {
                let room = self.known.values().filter(|known| known.bound.is_some()).count() < policy.capacity;
                let Some(known) = self.known.get(&uid) else { break };
                let next = match step(known, &policy, room, Instant::now()) {
                    Step::Nothing => break,
                    Step::Wait(until) => until,
                    step => match self.take(&uid, step).await {
                        Ok(()) => continue,
                        Err(kube::Error::Api(status)) if status.code == 404 => {
                            self.known.remove(&uid);
                            break;
                        }
                        // Somebody was faster; the event of what they did is on its way.
                        Err(kube::Error::Api(status)) if status.code == 409 => break,
                        Err(_) => Instant::now() + RETRY,
                    },
                };
                wake = Some(wake.map_or(next, |wake| wake.min(next)));
                break;
            }
        }
        wake
    }

    async fn take(&mut self, uid: &str, step: Step) -> Result<(), kube::Error> {
        let Some(known) = self.known.get(uid) else { return Ok(()) };
        let name = known.pod.name_any();
        let status = match step {
            Step::Bind => {
                let binding = json!({
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"name": name, "uid": uid},
                    "target": {"kind": "Node", "name": NODE},
                });
                let _: Value = self.pods.create_subresource("binding", &name, &PostParams::default(), &binding).await?;
                let pod = self.pods.get(&name).await?;
                self.keep(pod);
                return Ok(());
            }
            Step::Remove => {
                let same = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
                let params = DeleteParams::default().grace_period(0).preconditions(same);
                self.pods.delete(&name, &params).await?;
                self.known.remove(uid);
                return Ok(());
            }
            Step::ReportUnschedulable => pod_status::unschedulable(&known.pod),
            Step::Report { ready } => pod_status::running(&known.pod, ready, known.address),
            Step::Wait(_) | Step::Nothing => return Ok(()),
        };
        // With its uid, so that a successor of the same name is not taken for it.
        let mut patch = status;
        patch["metadata"] = json!({"uid": uid});
        let pod = self.pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        self.keep(pod);
        Ok(())
    }
}

fn uid(pod: &Pod) -> String {
    pod.uid().unwrap_or_default()
}
