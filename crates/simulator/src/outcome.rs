//! What came of a run: section by section the figures that decide between policies.

mod fleet;
mod latencies;
mod recorder;
mod traffic;

#[cfg(test)]
mod tests;

use serde::Serialize;

pub use recorder::Recorder;

use crate::Promised;

/// What came of one run of one policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The policy.
    pub policy: String,
    /// The seed.
    pub seed: u64,
    /// What was promised.
    pub promised: Promised,
    /// Every request that arrived.
    pub offered: u64,
    /// Those that were answered to their end.
    pub finished: u64,
    /// Those that were cut off when their replica went.
    pub killed: u64,
    /// Share of the offered that kept both promises, 0 to 1; what did not finish did not keep them.
    pub attainment: f64,
    /// Share of the offered that kept the promised time to first token.
    pub ttft_attainment: f64,
    /// Share of the offered that kept the promised time per output token.
    pub tpot_attainment: f64,
    /// Seconds to the first token.
    pub ttft: Quantiles,
    /// Seconds per output token.
    pub tpot: Quantiles,
    /// Attainment of the worst five minutes by arrival, 0 to 1.
    pub worst_five_minutes: f64,
    /// Minutes whose 90th percentile of either latency was over the promise.
    pub minutes_over: u32,
    /// Requests in time per second of the traffic.
    pub goodput: f64,
    /// GPU-hours from the creation of each pod to its exit, warm-up and draining included.
    pub gpu_hours: f64,
    /// GPU-hours of pods that were not ready yet.
    pub warmup_gpu_hours: f64,
    /// GPU-hours of pods that were leaving.
    pub drain_gpu_hours: f64,
    /// Mean of the replicas asked for, from the start to the end of what is billed.
    pub average_replicas: f64,
    /// Mean of the replicas asked for, from the first to the last arrival.
    pub average_replicas_under_load: f64,
    /// Changes of the replicas asked for.
    pub scale_events: u32,
    /// Changes of direction among them.
    pub reversals: u32,
    /// Pods started, those that served from the start on aside.
    pub pods_started: u32,
    /// Pods among them that were gone within ten minutes of their start.
    pub short_lived_pods: u32,
    /// Mean of the replicas that were missing against the need, in whole replicas, as a share of it.
    pub under: f64,
    /// Mean of the replicas that were too many against the need, in whole replicas, as a share of it.
    pub over: f64,
    /// Prompt tokens processed again because the replica that had them cached went, or for lack of KV cache.
    pub recomputed_tokens: u64,
    /// Decisions that were taken without some metric.
    pub decisions_on_missing: u32,
    /// The course of the run.
    pub timeline: Vec<Sample>,
    /// Changes of the number of replicas, with the reasons.
    pub decisions: Vec<Change>,
}

/// Quantiles of a latency in seconds; NaN where there was none. What did not finish took for ever, so that no policy gains by what it
/// does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantiles {
    /// The median.
    pub p50: f64,
    /// Nine of ten are at most this.
    pub p90: f64,
    /// Ninety-nine of a hundred are at most this.
    pub p99: f64,
}

/// One interval of a run, its end included.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// The end of the interval.
    pub at: f64,
    /// Replicas asked for at the end.
    pub replicas: u32,
    /// Replicas that serve at the end.
    pub ready: u32,
    /// Replicas that the load of the interval takes, by the closed form of the profile; a fraction too.
    pub need: f64,
    /// Requests per second that arrived.
    pub arrivals: f64,
    /// Requests that arrived in the interval and were not in time.
    pub late: u64,
    /// 90th percentile of TTFT of those that arrived, in seconds; NaN where there were none. What did not finish took for ever.
    pub ttft_p90: f64,
    /// 90th percentile of TPOT of those that arrived, in seconds; NaN where there were none. What did not finish took for ever.
    pub tpot_p90: f64,
    /// Requests that waited at the end, at the gateway and at replicas.
    pub waiting: u32,
    /// Share of the KV cache of the ready replicas that was in use at the end, 0 to 1.
    pub kv_usage: f64,
}

/// A change of the number of replicas.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// When.
    pub at: f64,
    /// Replicas before.
    pub from: u32,
    /// Replicas after.
    pub to: u32,
    /// Why, in words.
    pub why: String,
}
