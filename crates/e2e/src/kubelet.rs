//! A scheduler and kubelet for one namespace, without containers: pods live as the test says.

mod of_cluster;
mod of_sandbox;

use crate::background;
use crate::control_plane::ControlPlane;
use crate::pod_status;
use k8s_openapi::api::core::v1::Pod;
use llmscaler_sandbox::Life;
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// Binds the namespace's pods to a node, makes them Ready after a while, and lets them go after a while.
///
/// By default all of it happens at once. A change applies to the pods that are there, too: a pod that becomes
/// held is reported unready, one that is no longer held goes on where it would have been.
#[derive(Debug)]
pub struct Kubelet {
    policy: watch::Sender<Policy>,
    /// What it does by the API; the sandbox looks at its pods itself.
    task: Option<AbortHandle>,
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

impl Default for Policy {
    fn default() -> Self {
        Self {
            ready_after: Duration::ZERO,
            drain: Duration::ZERO,
            capacity: usize::MAX,
            unready: Arc::new(|_| false),
            unschedulable: Arc::new(|_| false),
        }
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Policy").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

impl Kubelet {
    /// One that writes to the API, as kubelets do.
    pub(crate) fn of_cluster(plane: &Arc<ControlPlane>, namespace: &str) -> Self {
        let (policy, changes) = watch::channel(Policy::default());
        let task = background::runtime().spawn(of_cluster::run(Arc::downgrade(plane), namespace.to_owned(), changes));
        Self { policy, task: Some(task.abort_handle()) }
    }

    /// One that says to the sandbox's own how its pods live.
    pub(crate) fn of_sandbox() -> (Self, Life) {
        let (policy, changes) = watch::channel(Policy::default());
        (Self { policy, task: None }, of_sandbox::life(changes))
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
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// A pod and when the kubelet first saw it in its present stage of life.
struct Known {
    pod: Pod,
    address: Ipv4Addr,
    bound: Option<Instant>,
    deleted: Option<Instant>,
}

impl Known {
    fn new() -> Self {
        Self { pod: Pod::default(), address: next_address(), bound: None, deleted: None }
    }

    /// As the API has it now.
    fn becomes(&mut self, pod: Pod) {
        let bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        let deleted = pod.metadata.deletion_timestamp.is_some();
        self.pod = pod;
        self.bound = bound.then(|| self.bound.unwrap_or_else(Instant::now));
        self.deleted = deleted.then(|| self.deleted.unwrap_or_else(Instant::now));
    }
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

/// A loopback address per pod, so that a test can serve each pod's own metrics on the usual port.
fn next_address() -> Ipv4Addr {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed) + 1;
    let [_, high, middle, low] = count.to_be_bytes();
    // Another test process's pods differ in the second byte, mostly.
    let process = u8::try_from(std::process::id() % 200).unwrap_or_default() + 1;
    Ipv4Addr::new(127, process.wrapping_add(high), middle, low)
}
