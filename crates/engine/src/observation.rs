//! What was seen at one sync.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{Reading, Replicas, Rollout, Traffic};

/// Everything that one decision is based on.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// The workload.
    pub workload: Workload,
    /// One reading for each of [`crate::Spec::sources`], in their order. A missing one is unknown.
    pub readings: Vec<Reading>,
    /// What [`crate::Law::Headroom`] measures; `None` where nothing of it is known, and without that law.
    pub traffic: Option<Box<Traffic>>,
}

/// The workload that is scaled, as its API object and pods show it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workload {
    /// Tells this workload from any other, for example its UID. Memory of another workload is not used.
    pub identity: Option<String>,
    /// `spec.replicas`.
    pub replicas: Replicas,
    /// Replicas that serve, really: 0 when none does.
    pub ready: Replicas,
    /// Whether a template change is under way.
    pub rollout: Rollout,
    /// Pods that are shutting down.
    pub terminating: u32,
    /// The pods, as far as they are known.
    pub pods: Vec<Pod>,
    /// Who else writes `spec.replicas`, in words; `None` when nobody does.
    pub other_owner: Option<String>,
    /// What was learned of how warm each pod is.
    pub warmth: Warmth,
    /// How long the pod that became ready last took from its creation to being ready; `None` until one was seen to.
    pub warmup: Option<Duration>,
}

impl Workload {
    /// Pods that are not shutting down.
    pub(crate) fn live_pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().filter(|pod| !pod.terminating)
    }
}

/// One pod of the workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// Time since it was created.
    pub age: Duration,
    /// Whether it serves.
    pub ready: bool,
    /// Time since it was last ready, or since it was created when it never was; 0 while it is ready.
    pub unready_for: Duration,
    /// Whether it is shutting down.
    pub terminating: bool,
    /// Whether the scheduler found no node for it.
    pub unschedulable: bool,
    /// The deletion cost that it carries apart from a mark of ours; 0 when it carries none.
    pub deletion_cost: i32,
    /// Its place in a workload that always removes the highest one first, as a StatefulSet does; `None` where pods that do not serve
    /// go first.
    pub ordinal: Option<u32>,
    /// Whether it belongs to the newest revision, the only one that scale-down removes pods of.
    pub current: bool,
}

impl Pod {
    /// The ordinal at the end of the name of a StatefulSet's pod or a LeaderWorkerSet's group.
    ///
    /// ```
    /// use llmscaler_engine::Pod;
    /// assert_eq!(Pod::ordinal_in("vllm-12"), Some(12));
    /// assert_eq!(Pod::ordinal_in("vllm-6fb6c7b4ff-fgx2f"), None);
    /// ```
    #[must_use]
    pub fn ordinal_in(name: &str) -> Option<u32> {
        name.rsplit_once('-')?.1.parse().ok()
    }
}

/// What was learned of how warm each pod is: the lower, the colder.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Warmth {
    /// Nobody asked: the newest pod is taken to be the coldest.
    #[default]
    NotAsked,
    /// Finite samples by pod name.
    Samples(BTreeMap<String, f64>),
    /// It was asked in vain, for this reason.
    Unknown(String),
}
