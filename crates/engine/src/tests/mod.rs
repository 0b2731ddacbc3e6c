//! Tests of whole decisions, and the builders that all tests of the crate share.

mod behavior;
mod conditions;
pub(crate) mod headroom;
mod outcome;
mod properties;
mod recommend;
mod slo;
mod vectors;

use std::num::NonZeroU32;
use std::time::Duration;

use crate::*;

/// Ratio sources m0, m1, … with these targets, 1 to 10 replicas, no window, no step cap.
pub(crate) fn spec(targets: &[f64]) -> Spec {
    let source = |(index, target): (usize, &f64)| Source {
        name: format!("m{index}"),
        law: Law::Ratio { target: Target::new(*target).unwrap() },
        activation: Activation::ANY_LOAD,
        required: false,
    };
    Spec {
        bounds: bounds(1, 10),
        sources: targets.iter().enumerate().map(source).collect(),
        sync_period: Duration::from_secs(15),
        scale_down: ScaleDown { window: Duration::ZERO, max_step: None, victims: VictimOrder::ColdestFirst },
        behavior: None,
        cooldown: Duration::ZERO,
        fallback: None,
        mode: Mode::Auto,
    }
}

pub(crate) fn absolute() -> Spec {
    let mut spec = spec(&[1.0]);
    spec.sources[0] = Source { name: "decision".to_owned(), law: Law::Absolute, ..spec.sources[0].clone() };
    spec
}

pub(crate) fn bounds(min: u32, max: u32) -> Bounds {
    Bounds { min: Replicas::new(min), max: Replicas::new(max) }
}

pub(crate) fn window(seconds: u64, max_step: u32) -> ScaleDown {
    ScaleDown { window: Duration::from_secs(seconds), max_step: NonZeroU32::new(max_step), victims: VictimOrder::ColdestFirst }
}

pub(crate) fn workload(replicas: u32, ready: u32) -> Workload {
    Workload { replicas: Replicas::new(replicas), ready: Replicas::new(ready), ..Workload::default() }
}

/// Ready pods, the first the oldest.
pub(crate) fn pods(names: &[&str]) -> Vec<Pod> {
    let pod = |(index, name): (usize, &&str)| Pod {
        name: (*name).to_owned(),
        age: Duration::from_secs(1000 - index as u64),
        ready: true,
        unready_for: Duration::ZERO,
        terminating: false,
        unschedulable: false,
        deletion_cost: 0,
        ordinal: None,
        current: true,
    };
    names.iter().enumerate().map(pod).collect()
}

/// `count` pods that have not been ready for so long.
pub(crate) fn unready(count: usize, seconds: u64) -> Vec<Pod> {
    let names: Vec<String> = (0..count).map(|index| format!("u{index}")).collect();
    let mut pods = pods(&names.iter().map(String::as_str).collect::<Vec<_>>());
    for pod in &mut pods {
        pod.ready = false;
        pod.unready_for = Duration::from_secs(seconds);
    }
    pods
}

/// A fleet over time, whose every write is made and settles before the next sync.
pub(crate) struct Fleet {
    pub spec: Spec,
    pub workload: Workload,
    pub memory: Memory,
}

impl Fleet {
    pub(crate) fn new(spec: Spec, replicas: u32, ready: u32) -> Self {
        Self { spec, workload: workload(replicas, ready), memory: Memory::default() }
    }

    /// A fleet whose history is known to be empty.
    pub(crate) fn running(spec: Spec, replicas: u32, ready: u32) -> Self {
        let memory = Memory { recommendations: Some(vec![]), ..Memory::default() };
        Self { memory, ..Self::new(spec, replicas, ready) }
    }

    pub(crate) fn decide(&self, at: i64, readings: &[Reading]) -> Decision {
        let seen = Observation { workload: self.workload.clone(), readings: readings.to_vec(), traffic: None };
        decide(&self.spec, &seen, &self.memory, Time::from_millis(at * 1000))
    }

    /// One sync; answers the size that is left on the target.
    pub(crate) fn sync(&mut self, at: i64, readings: &[Reading]) -> u32 {
        let decision = self.decide(at, readings);
        self.memory = decision.memory;
        if let Some(count) = decision.write {
            self.memory.record_write(&self.spec, Time::from_millis(at * 1000), decision.replicas, count);
            self.workload.replicas = count;
            self.workload.ready = count;
        }
        self.workload.replicas.get()
    }

    pub(crate) fn sync_value(&mut self, at: i64, value: f64) -> u32 {
        self.sync(at, &[Reading::from_number(value)])
    }
}

pub(crate) fn unknown() -> Reading {
    Reading::unknown("connection refused")
}
