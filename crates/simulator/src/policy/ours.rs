//! Our own policy: the engine of the operator, fed as the operator feeds it.

use std::time::Duration;

use llmscaler_engine::{Law, Memory, Observation, Pod, Replicas, Spec, Time, Warmth, Workload, decide};

use super::{Measure, PodView, Policy, Verdict, View};
use crate::Promised;

/// [`llmscaler_engine::decide`] with what each source of its specification reads.
#[derive(Clone, Debug)]
pub struct Ours {
    name: String,
    spec: Spec,
    measures: Vec<Measure>,
    promised: Promised,
    memory: Memory,
}

impl Ours {
    /// With one measure for each of the sources of `spec`, in their order. The bounds of `spec` give way to those of the fleet.
    #[must_use]
    pub fn new(name: impl Into<String>, spec: Spec, measures: Vec<Measure>, promised: Promised) -> Self {
        Self { name: name.into(), spec, measures, promised, memory: Memory::default() }
    }
}

impl Policy for Ours {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn period(&self) -> f64 {
        self.spec.sync_period.as_secs_f64()
    }

    fn decide(&mut self, view: &View<'_>) -> Verdict {
        self.spec.bounds = view.bounds;
        let by_traffic = self.spec.sources.iter().any(|source| matches!(source.law, Law::Headroom(_)));
        let seen = Observation {
            workload: workload(view),
            readings: self.measures.iter().map(|measure| measure.read(view)).collect(),
            traffic: by_traffic.then(|| Box::new(view.metrics.traffic(self.promised, view.now))),
        };
        let now = Time::from_seconds(view.now);
        let decision = decide(&self.spec, &seen, &self.memory, now);
        self.memory = decision.memory;
        if let Some(write) = decision.write {
            self.memory.record_write(&self.spec, now, decision.replicas, write);
        }
        let arrivals_missing = seen.traffic.is_some_and(|traffic| traffic.arrivals.over_60s.is_none());
        Verdict {
            write: decision.write.map(Replicas::get),
            victims: decision.victims.names.iter().filter_map(|name| id(name)).collect(),
            why: decision.message,
            on_missing: arrivals_missing || seen.readings.iter().any(llmscaler_engine::Reading::is_unknown),
        }
    }
}

/// The workload as its API object and pods show it.
fn workload(view: &View<'_>) -> Workload {
    Workload {
        replicas: Replicas::new(view.replicas),
        ready: Replicas::new(view.ready),
        terminating: u32::try_from(view.pods.iter().filter(|pod| pod.terminating).count()).unwrap_or(u32::MAX),
        pods: view.pods.iter().map(|seen| pod(seen, view.now)).collect(),
        warmth: Warmth::Samples(view.pods.iter().map(|pod| (name(pod), pod.kv_usage)).collect()),
        warmup: view.warmup.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        ..Workload::default()
    }
}

fn pod(pod: &PodView, now: f64) -> Pod {
    let age = Duration::try_from_secs_f64(now - pod.created).unwrap_or_default();
    let ready = pod.ready_since.is_some() && !pod.terminating;
    Pod {
        name: name(pod),
        age,
        ready,
        unready_for: if ready { Duration::ZERO } else { age },
        terminating: pod.terminating,
        unschedulable: pod.unschedulable,
        deletion_cost: 0,
        ordinal: None,
        current: true,
    }
}

const PREFIX: &str = "replica-";

fn name(pod: &PodView) -> String {
    format!("{PREFIX}{}", pod.id)
}

fn id(name: &str) -> Option<u64> {
    name.strip_prefix(PREFIX)?.parse().ok()
}
