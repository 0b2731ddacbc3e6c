//! The saturation analyzer (version 1) of llm-d's Workload Variant Autoscaler, for one variant.
//!
//! Source: `docs/saturation-analyzer.md` and the chart of its last version, 0.9.0 (deprecated upstream): every 60 s, from the worst of
//! each replica within a minute. A replica is saturated at a KV cache usage of 0.80 or with 5 requests waiting. One replica more when
//! those that are not have on average less than 0.10 of KV cache or 3 requests to spare, unless pods are starting; one fewer when at
//! least two are not, and the rest would have as much to spare with the load of all. Its count is written at once: the autoscaler that
//! the chart puts behind it has no windows and takes ten pods a step.

use super::{Policy, Verdict, View};
use crate::metrics::PodPeak;

const KV_SATURATED: f64 = 0.80;
const QUEUE_SATURATED: f64 = 5.0;
const KV_SPARE: f64 = 0.10;
const QUEUE_SPARE: f64 = 3.0;
/// Seconds over which each replica is taken at its worst.
const WINDOW: f64 = 60.0;

/// The saturation analyzer of the Workload Variant Autoscaler.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wva;

/// What the analyzer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Up,
    Down,
    Stay,
}

/// What replicas ask for at their worst.
fn analyze(replicas: &[PodPeak]) -> Step {
    let queue = |replica: &PodPeak| f64::from(replica.waiting);
    let free: Vec<&PodPeak> =
        replicas.iter().filter(|replica| replica.kv_usage < KV_SATURATED && queue(replica) < QUEUE_SATURATED).collect();
    if replicas.is_empty() {
        return Step::Stay;
    }
    let (kv, waiting) = (free.iter().map(|replica| replica.kv_usage).sum::<f64>(), free.iter().map(|replica| queue(replica)).sum::<f64>());
    // To spare on average when `count` replicas carry the load of those that are free.
    let spare = |count: f64| (KV_SATURATED - kv / count, QUEUE_SATURATED - waiting / count);
    let short = |(kv, queue): (f64, f64)| kv < KV_SPARE || queue < QUEUE_SPARE;
    let count = free.len() as f64;
    if free.is_empty() || short(spare(count)) {
        Step::Up
    } else if free.len() >= 2 && !short(spare(count - 1.0)) {
        Step::Down
    } else {
        Step::Stay
    }
}

impl Policy for Wva {
    fn name(&self) -> String {
        "wva".to_owned()
    }

    fn period(&self) -> f64 {
        60.0
    }

    fn decide(&mut self, view: &View<'_>) -> Verdict {
        let Some(peaks) = view.metrics.pod_peaks(view.now, WINDOW) else {
            return Verdict { why: "the metrics of the replicas are missing".to_owned(), on_missing: true, ..Verdict::default() };
        };
        let starting = view.ready < view.replicas;
        let (count, why) = match analyze(&peaks) {
            Step::Up if starting => (view.replicas, "short of spare capacity, but pods are starting"),
            Step::Up => (view.replicas + 1, "short of spare capacity"),
            Step::Down if starting => (view.replicas, "one fewer would do, but pods are starting"),
            Step::Down => (view.replicas.saturating_sub(1), "one fewer would have enough to spare"),
            Step::Stay => (view.replicas, "enough to spare, but not for one fewer"),
        };
        let count = count.clamp(view.bounds.min.get(), view.bounds.max.get());
        Verdict { write: (count != view.replicas).then_some(count), why: why.to_owned(), ..Verdict::default() }
    }
}
