//! Quantiles of latencies, and the saturation that recording rules make of them.

use llmscaler_engine::histogram_quantile;

use super::history::SAME_MOMENT;
use super::window::Window;
use super::{Group, Metrics};
use crate::{Counts, Promised, Samples};

/// Whose latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Those that the gateway predicted when it routed requests: they show what has yet to come. Without a gateway nobody predicts, and
    /// they are those that requests had.
    Predicted,
    /// Those that requests had.
    Measured,
}

/// How a quantile is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// From the values one by one, as no cluster can.
    Exact,
    /// From the buckets of a histogram.
    Buckets,
}

/// A quantile of the two latencies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantile {
    /// Which quantile, 0 to 1.
    pub of: f64,
    /// Whose latencies.
    pub signal: Signal,
    /// How it is found.
    pub values: Values,
    /// Over how many seconds.
    pub window: f64,
}

impl Metrics {
    /// The quantile of the times to first token and of the times per output token, in seconds, at `now`. Either is NaN where there
    /// was no such latency, as it is in Prometheus; `None` where the group is missing.
    #[must_use]
    pub fn latencies(&self, quantile: Quantile, now: f64) -> Option<Promised> {
        let signal = if self.settings.gateway { quantile.signal } else { Signal::Measured };
        let quantile = Quantile { signal, ..quantile };
        let group = match quantile.signal {
            Signal::Measured => Group::Latency,
            Signal::Predicted => Group::Prediction,
        };
        if self.misses(group, now) {
            return None;
        }
        let [ttft, tpot] = match quantile.values {
            Values::Exact => self.exact(quantile, now),
            Values::Buckets => self.bucketed(quantile, group, now),
        };
        Some(Promised { ttft, tpot })
    }

    fn exact(&self, quantile: Quantile, now: f64) -> [f64; 2] {
        let latest = &self.latest;
        let samples = match quantile.signal {
            Signal::Measured => [&latest.ttft, &latest.tpot],
            Signal::Predicted => [&latest.predicted_ttft, &latest.predicted_tpot],
        };
        let until = self.history.newest(self.horizon(now)).map_or(f64::NEG_INFINITY, |scraped| scraped.at);
        samples.map(|samples| quantile_of(samples, quantile.of, now - quantile.window, until))
    }

    fn bucketed(&self, quantile: Quantile, group: Group, now: f64) -> [f64; 2] {
        let Some(window) = self.window(group, now, quantile.window) else { return [f64::NAN; 2] };
        let counts = match quantile.signal {
            Signal::Measured => measured(&window, !self.settings.gateway),
            Signal::Predicted => {
                [window.gateway_observed(|meters| &meters.predicted_ttft), window.gateway_observed(|meters| &meters.predicted_tpot)]
            }
        };
        counts.map(|counts| histogram_quantile(quantile.of, counts.cumulative()))
    }

    /// The larger share that a quantile has of what was promised, as the recording rules of llm-d's SLO guide find it: NaN is 0
    /// ("or vector(0)"), and so is a missing group, for which the rules have no series either; predictions that are missing give
    /// way to measurements. Not more than `clamp`, and the mean of the evaluations of the last `smoothing` seconds.
    #[must_use]
    pub fn saturation(&self, quantile: Quantile, promised: Promised, clamp: f64, smoothing: f64, now: f64) -> f64 {
        let interval = self.settings.rule_interval;
        let last = ((now + SAME_MOMENT) / interval).floor() * interval;
        let times = (0..).map(|back| last - f64::from(back) * interval);
        let evaluations: Vec<f64> = times
            .take_while(|at| *at > now - smoothing + SAME_MOMENT && *at >= 0.0)
            .map(|at| self.share_of_promised(quantile, promised, at).min(clamp))
            .collect();
        if evaluations.is_empty() { 0.0 } else { evaluations.iter().sum::<f64>() / evaluations.len() as f64 }
    }

    fn share_of_promised(&self, quantile: Quantile, promised: Promised, at: f64) -> f64 {
        let (asked, measured) = (self.latencies(quantile, at), Quantile { signal: Signal::Measured, ..quantile });
        let fallback = || self.latencies(measured, at);
        let either = |of: fn(&Promised) -> f64| {
            let known = |found: Option<Promised>| found.map(|found| of(&found)).filter(|value| *value >= 0.0);
            known(asked).or_else(|| known(fallback())).unwrap_or(0.0)
        };
        (either(|found| found.ttft) / promised.ttft).max(either(|found| found.tpot) / promised.tpot)
    }
}

/// Times to first token and mean times per output token of requests, as the engines observed them or as the gateway did.
pub(super) fn measured(window: &Window<'_>, by_engines: bool) -> [Counts; 2] {
    if by_engines {
        [window.engines_observed(|meters| &meters.ttft), window.engines_observed(|meters| &meters.request_tpot)]
    } else {
        [window.gateway_observed(|meters| &meters.ttft), window.gateway_observed(|meters| &meters.tpot)]
    }
}

/// The smallest value that is at least as large as the share `of` of all in (`after`, `until`]; NaN of none.
fn quantile_of(samples: &Samples, of: f64, after: f64, until: f64) -> f64 {
    let mut values: Vec<f64> = samples.within(after, until).collect();
    if values.is_empty() {
        return f64::NAN;
    }
    let rank = ((of * values.len() as f64).ceil() as usize).clamp(1, values.len()) - 1;
    *values.select_nth_unstable_by(rank, f64::total_cmp).1
}
