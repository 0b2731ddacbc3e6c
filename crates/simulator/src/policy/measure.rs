//! What a source of our own policy reads.

use llmscaler_engine::{Band, Latency, Reading, Target, saturation};

use super::View;
use crate::Promised;
use crate::metrics::Quantile;

/// A number of the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gauge {
    /// Requests that the gateway holds back.
    Queued,
    /// Requests that wait, in the gateway and in pods.
    Waiting,
    /// Requests that run in pods.
    Running,
    /// Requests in flight: held back, waiting or running.
    InFlight,
    /// Tokens in the KV caches.
    KvTokens,
}

/// What a source reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measure {
    /// The sum of the pool.
    Total(Gauge),
    /// The sum divided by the ready replicas, or by 1 where none is.
    PerReplica(Gauge),
    /// The mean share of the KV cache in use, 0 to 1.
    KvUsage,
    /// The larger of the shares that quantiles of the two latencies have of what was promised.
    Saturation {
        /// Which quantile.
        quantile: Quantile,
        /// What was promised.
        promised: Promised,
        /// Above this one latency alone tells that the pool is saturated.
        up_at: Target,
    },
}

impl Measure {
    /// The saturation that a band compares with its marks.
    #[must_use]
    pub fn for_band(quantile: Quantile, promised: Promised, band: &Band) -> Self {
        Self::Saturation { quantile, promised, up_at: band.up_at() }
    }

    /// Reads it. What is missing is unknown.
    #[must_use]
    pub fn read(&self, view: &View<'_>) -> Reading {
        match *self {
            Self::Total(gauge) => reading(gauge.read(view)),
            Self::PerReplica(gauge) => reading(gauge.read(view).map(|total| total / f64::from(view.ready.max(1)))),
            Self::KvUsage => reading(view.metrics.kv_usage(view.now)),
            Self::Saturation { quantile, promised, up_at } => {
                let idle = view.metrics.in_flight(view.now) == Some(0.0);
                let of = |value: Option<f64>| match value {
                    // A quantile of no observation: proved idle where nothing is in flight either.
                    Some(value) if value.is_nan() && idle => Reading::Idle,
                    value => reading(value),
                };
                let found = view.metrics.latencies(quantile, view.now);
                let [ttft, tpot] = [of(found.map(|found| found.ttft)), of(found.map(|found| found.tpot))];
                match (Target::new(promised.ttft), Target::new(promised.tpot)) {
                    (Some(for_ttft), Some(for_tpot)) => {
                        let ttft = Latency { reading: &ttft, target: for_ttft };
                        let tpot = Latency { reading: &tpot, target: for_tpot };
                        saturation(Some(ttft), Some(tpot), up_at)
                    }
                    _ => Reading::unknown("a promised latency is not above 0"),
                }
            }
        }
    }
}

impl Gauge {
    pub(super) fn read(self, view: &View<'_>) -> Option<f64> {
        let (metrics, now) = (view.metrics, view.now);
        match self {
            Self::Queued => metrics.queued(now),
            Self::Waiting => metrics.waiting(now),
            Self::Running => metrics.running(now),
            Self::InFlight => metrics.in_flight(now),
            Self::KvTokens => metrics.kv_used(now),
        }
    }
}

fn reading(value: Option<f64>) -> Reading {
    value.map_or_else(|| Reading::unknown("the metric is missing"), Reading::from_number)
}
