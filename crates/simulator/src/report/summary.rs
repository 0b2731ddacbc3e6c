//! Several seeds in one.

use serde::Serialize;

use crate::outcome::Outcome;

/// The mean of a figure over the seeds, and its range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The mean; null in JSON where a seed has no such figure, or an infinite one.
    pub mean: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Of these values; NaN of none.
    #[must_use]
    pub fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let count = values.clone().count() as f64;
        Self {
            mean: values.clone().sum::<f64>() / count,
            min: values.clone().fold(f64::NAN, f64::min),
            max: values.fold(f64::NAN, f64::max),
        }
    }
}

/// The figures of an [`Outcome`] over several seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)] // each is the figure of that name in Outcome
pub struct Summary {
    pub offered: Spread,
    /// Those that were not answered to their end.
    pub unfinished: Spread,
    pub killed: Spread,
    pub attainment: Spread,
    pub ttft_attainment: Spread,
    pub tpot_attainment: Spread,
    pub ttft_p50: Spread,
    pub ttft_p90: Spread,
    pub ttft_p99: Spread,
    pub tpot_p50: Spread,
    pub tpot_p90: Spread,
    pub tpot_p99: Spread,
    pub worst_five_minutes: Spread,
    pub minutes_over: Spread,
    pub goodput: Spread,
    pub gpu_hours: Spread,
    pub warmup_gpu_hours: Spread,
    pub drain_gpu_hours: Spread,
    pub average_replicas: Spread,
    pub average_replicas_under_load: Spread,
    pub scale_events: Spread,
    pub reversals: Spread,
    pub pods_started: Spread,
    pub short_lived_pods: Spread,
    pub under: Spread,
    pub over: Spread,
    pub recomputed_tokens: Spread,
    pub decisions_on_missing: Spread,
}

impl Summary {
    /// Of runs that differ in nothing but the seed.
    #[must_use]
    pub fn of(runs: &[Outcome]) -> Self {
        let of = |figure: fn(&Outcome) -> f64| Spread::of(runs.iter().map(figure));
        Self {
            offered: of(|run| run.offered as f64),
            unfinished: of(|run| run.offered.saturating_sub(run.finished) as f64),
            killed: of(|run| run.killed as f64),
            attainment: of(|run| run.attainment),
            ttft_attainment: of(|run| run.ttft_attainment),
            tpot_attainment: of(|run| run.tpot_attainment),
            ttft_p50: of(|run| run.ttft.p50),
            ttft_p90: of(|run| run.ttft.p90),
            ttft_p99: of(|run| run.ttft.p99),
            tpot_p50: of(|run| run.tpot.p50),
            tpot_p90: of(|run| run.tpot.p90),
            tpot_p99: of(|run| run.tpot.p99),
            worst_five_minutes: of(|run| run.worst_five_minutes),
            minutes_over: of(|run| f64::from(run.minutes_over)),
            goodput: of(|run| run.goodput),
            gpu_hours: of(|run| run.gpu_hours),
            warmup_gpu_hours: of(|run| run.warmup_gpu_hours),
            drain_gpu_hours: of(|run| run.drain_gpu_hours),
            average_replicas: of(|run| run.average_replicas),
            average_replicas_under_load: of(|run| run.average_replicas_under_load),
            scale_events: of(|run| f64::from(run.scale_events)),
            reversals: of(|run| f64::from(run.reversals)),
            pods_started: of(|run| f64::from(run.pods_started)),
            short_lived_pods: of(|run| f64::from(run.short_lived_pods)),
            under: of(|run| run.under),
            over: of(|run| run.over),
            recomputed_tokens: of(|run| run.recomputed_tokens as f64),
            decisions_on_missing: of(|run| f64::from(run.decisions_on_missing)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_the_mean_and_the_range() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0].into_iter()), Spread { mean: 2.0, min: 1.0, max: 3.0 });
        assert!(Spread::of([].into_iter()).mean.is_nan());
    }

    #[test]
    fn what_one_seed_does_not_know_the_mean_does_not() {
        let spread = Spread::of([1.0, f64::NAN].into_iter());
        assert!(spread.mean.is_nan());
        assert_eq!((spread.min, spread.max), (1.0, 1.0));
    }
}
