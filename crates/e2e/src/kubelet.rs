//! A scheduler and kubelet for one namespace, without containers: pods live as the test says.

use crate::background;
use crate::control_plane::ControlPlane;
use crate::pod_status;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// The node of all pods.
const NODE: &str = "e2e";

/// After a request that failed for another reason than that the pod has changed.
const RETRY: Duration = Duration::from_millis(500);

/// Binds the namespace's pods to a node, makes them Ready after a while, and lets them go after a while.
///
/// By default all of it happens at once. A change applies to the pods that are there, too: a pod that becomes
/// held is reported unready, one that is no longer held goes on where it would have been.
#[derive(Debug)]
pub struct Kubelet {
    policy: watch::Sender<Policy>,
    task: AbortHandle,
}

type Predicate = Arc<dyn Fn(&Pod) -> bool + Send + Sync>;

#[derive(Clone)]
struct Policy {
    ready_after: Duration,
    drain: Duration,
    capacity: usize,
    unready: Predicate,
    unschedulable: Predicate,
}

impl fmt::Debug for Policy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Policy").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

impl Kubelet {
    pub(crate) async fn start(plane: &Arc<ControlPlane>, namespace: &str) -> Self {
        let (policy, changes) = watch::channel(Policy {
            ready_after: Duration::ZERO,
            drain: Duration::ZERO,
            capacity: usize::MAX,
            unready: Arc::new(|_| false),
            unschedulable: Arc::new(|_| false),
        });
        let plane = Arc::downgrade(plane);
        let namespace = namespace.to_owned();
        let task = background::runtime().spawn(async move {
            let Some(client) = plane.upgrade().map(|plane| plane.client()) else { return };
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}});
            let _ = Api::<Node>::all(client.clone()).patch(NODE, &PatchParams::apply("e2e").force(), &Patch::Apply(&node)).await;
            let pods = Api::namespaced(client, &namespace);
            Loop { pods, policy: changes, known: HashMap::new(), listed: HashSet::new() }.run().await;
        });
        Self { policy, task: task.abort_handle() }
    }

    /// How long a pod takes from its node to Ready: the warm-up.
    pub fn ready_after(&self, time: Duration) {
        self.policy.send_modify(|policy| policy.ready_after = time);
    }

    /// How long a deleted pod takes to end. Its conditions stay as they are meanwhile.
    pub fn drain_for(&self, time: Duration) {
        self.policy.send_modify(|policy| policy.drain = time);
    }

    /// How many pods fit on the node; the younger ones are Unschedulable. Bound pods stay.
    pub fn capacity(&self, pods: usize) {
        self.policy.send_modify(|policy| policy.capacity = pods);
    }

    /// Holds the pods of which `holds` unready, until the next call of this.
    pub fn hold_unready(&self, holds: impl Fn(&Pod) -> bool + Send + Sync + 'static) {
        self.policy.send_modify(|policy| policy.unready = Arc::new(holds));
    }

    /// Holds the pods of which `holds` Unschedulable while they have no node, until the next call of this.
    pub fn hold_unschedulable(&self, holds: impl Fn(&Pod) -> bool + Send + Sync + 'static) {
        self.policy.send_modify(|policy| policy.unschedulable = Arc::new(holds));
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A pod and when the kubelet first saw it in its present stage of life.
struct Known {
    pod: Pod,
    address: Ipv4Addr,
    bound: Option<Instant>,
    deleted: Option<Instant>,
}

/// What is next for one pod.
#[derive(Debug, PartialEq)]
enum Step {
    Bind,
    ReportUnschedulable,
    Report { ready: bool },
    Remove,
    Wait(Instant),
    Nothing,
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
        let bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        let deleted = pod.metadata.deletion_timestamp.is_some();
        let known = self.known.entry(uid(&pod)).or_insert_with(|| Known {
            pod: Pod::default(),
            address: next_address(),
            bound: None,
            deleted: None,
        });
        known.pod = pod;
        known.bound = bound.then(|| known.bound.unwrap_or_else(Instant::now));
        known.deleted = deleted.then(|| known.deleted.unwrap_or_else(Instant::now));
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

fn step(known: &Known, policy: &Policy, room: bool, now: Instant) -> Step {
    let pod = &known.pod;
    if let Some(deleted) = known.deleted {
        let end = deleted + policy.drain;
        return if end <= now { Step::Remove } else { Step::Wait(end) };
    }
    let Some(bound) = known.bound else {
        return match room && !(policy.unschedulable)(pod) {
            true => Step::Bind,
            false if pod_status::is_unschedulable(pod) => Step::Nothing,
            false => Step::ReportUnschedulable,
        };
    };
    let warm = bound + policy.ready_after;
    let ready = pod_status::is_true(pod, "Ready");
    // A pod that is Ready has warmed up, whatever the policy has become since.
    let wanted = !(policy.unready)(pod) && (ready || warm <= now);
    if ready != wanted || !pod_status::is_true(pod, "Initialized") {
        Step::Report { ready: wanted }
    } else if !wanted && warm > now {
        Step::Wait(warm)
    } else {
        Step::Nothing
    }
}

fn uid(pod: &Pod) -> String {
    pod.uid().unwrap_or_default()
}

/// A loopback address per pod, so that a test can serve each pod's own metrics on the usual port.
fn next_address() -> Ipv4Addr {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed) + 1;
    let [_, high, middle, low] = count.to_be_bytes();
    // Another test process's pods differ in the second byte, mostly.
    let process = u8::try_from(std::process::id() % 200).unwrap_or_default() + 1;
    Ipv4Addr::new(127, process.wrapping_add(high), middle, low)
}
