//! The SLO law of llm-d: latency as a share of what was promised, as recording rules of Prometheus and a formula of KEDA.
//!
//! Source: llm-d, `guides/workload-autoscaling/slo-aware` of 2026: rules every 15 s on P90 over one minute of the router's histograms,
//! clamped at 2, averaged over 45 s; one KEDA scaler with the formula in `AverageValue` 1; an HPA with its 10 % tolerance. The formula
//! is as published: where the credit of starting pods turns an excess into a deficit, it asks for fewer than there are.
//! Replicas are those of the moment, although there they come from kube-state-metrics by way of Prometheus.

use llmscaler_engine::{Behavior, Measurement, PolicyLimit};

use super::hpa::rules;
use super::{Hpa, Metric, Per, Policy, Verdict, View};
use crate::Promised;
use crate::metrics::{Quantile, Signal, Values};

/// The law's settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seed {
    /// The fleet grows above this share of what was promised.
    pub up_at: f64,
    /// The fleet may shrink below this share.
    pub down_at: f64,
    /// Whose latencies.
    pub signal: Signal,
    /// How their quantile is found. With exact values there is no tolerance either: a law that nothing coarsens.
    pub values: Values,
}

impl Default for Seed {
    fn default() -> Self {
        Self { up_at: 0.55, down_at: 0.40, signal: Signal::Predicted, values: Values::Buckets }
    }
}

/// Shares above this count for no more.
const CLAMP: f64 = 2.0;
/// Seconds over which shares are averaged.
const SMOOTHING: f64 = 45.0;

impl Seed {
    /// The replicas that the formula gives at a smoothed share `s`, with `n` replicas of which `r` are ready.
    #[must_use]
    pub fn formula(&self, s: f64, n: f64, r: f64) -> f64 {
        let credit = if 0.0 < r && r < n { r / n } else { 1.0 };
        if s > self.up_at {
            n + (n * (s * credit / self.up_at - 1.0)).ceil()
        } else if s < self.down_at {
            n - (n * (1.0 - s / self.down_at)).floor()
        } else {
            n
        }
    }

    /// The policy, under promises.
    #[must_use]
    pub fn policy(self, promised: Promised) -> impl Policy {
        let quantile = Quantile { of: 0.9, signal: self.signal, values: self.values, window: 60.0 };
        let asked = move |view: &View<'_>| {
            let s = view.metrics.saturation(quantile, promised, CLAMP, SMOOTHING, view.now);
            Some(self.formula(s, f64::from(view.replicas), f64::from(view.ready)).max(0.0))
        };
        let mut behavior = seed_behavior();
        if self.values == Values::Exact {
            behavior.up.tolerance = Measurement::ZERO;
            behavior.down.tolerance = Measurement::ZERO;
        }
        let metric = Metric::new("the share of the promise", Per::Replica(1.0), asked);
        SeedLaw { quantile, hpa: Hpa::new(self.name(), vec![metric], behavior) }
    }

    fn name(&self) -> String {
        let signal = match self.signal {
            Signal::Predicted => "",
            Signal::Measured => " measured",
        };
        let values = match self.values {
            Values::Exact => " exact",
            Values::Buckets => "",
        };
        format!("seed {}/{}{values}{signal}", self.up_at, self.down_at)
    }
}

struct SeedLaw {
    quantile: Quantile,
    hpa: Hpa,
}

impl Policy for SeedLaw {
    fn name(&self) -> String {
        self.hpa.name()
    }

    fn period(&self) -> f64 {
        self.hpa.period()
    }

    fn decide(&mut self, view: &View<'_>) -> Verdict {
        // The rules turn what is missing into 0, so the autoscaler behind them never knows.
        let on_missing = view.metrics.latencies(self.quantile, view.now).is_none();
        Verdict { on_missing, ..self.hpa.decide(view) }
    }
}

/// The guide's: up by the larger of 100 % and 4 pods within 60 s, to the smallest proposal of 30 s; down by one pod within 120 s, to
/// the largest of 180 s.
pub(super) fn seed_behavior() -> Behavior {
    Behavior {
        up: rules(30, &[(PolicyLimit::Percent(100), 60), (PolicyLimit::Pods(4), 60)]),
        down: rules(180, &[(PolicyLimit::Pods(1), 120)]),
    }
}
