//! Requests that come whether or not earlier ones are answered.

use rand_distr::{Distribution, Exp1};

use super::curve::{Curve, Noise};
use super::lengths::Lengths;
use crate::{Request, random};

/// Poisson arrivals along a curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Open {
    /// Mean requests per second over time.
    pub curve: Curve,
    /// How the rate wanders about the curve.
    pub noise: Option<Noise>,
    /// Requests that come at the same instant, at least 1; the curve counts requests, not batches.
    pub batch: u32,
    /// Their lengths.
    pub lengths: Lengths,
}

impl Open {
    pub(super) fn requests(&self, seed: u64) -> Vec<Request> {
        let curve = self.curve.levels(seed);
        let levels = self.noise.map_or_else(|| curve.clone(), |noise| noise.over(&curve, seed));
        let mut random = random::stream(seed, "arrival times");
        let mut lengths = self.lengths.draw(seed);
        let mut requests = Vec::new();
        let mut from = 0.0;
        // What is left to the next arrival of a process of rate 1, along which time runs at the rate of the curve.
        let mut left: f64 = Exp1.sample(&mut random);
        for level in levels {
            let rate = level.rate / f64::from(self.batch);
            while left < (level.until - from) * rate {
                from += left / rate;
                let batch = lengths.by_ref().take(self.batch as usize);
                requests.extend(batch.map(|(prompt, output)| Request { at: from, prompt, output, reusable_prefix: 0 }));
                left = Exp1.sample(&mut random);
            }
            left -= (level.until - from) * rate;
            from = level.until;
        }
        requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Length, Step};

    fn one_token() -> Lengths {
        Lengths { prompt: Length::Fixed(1), output: Length::Fixed(1) }
    }

    fn steady(rate: f64, seconds: f64) -> Open {
        Open { curve: Curve::Steps(vec![Step { rate, seconds }]), noise: None, batch: 1, lengths: one_token() }
    }

    /// Variance over mean of the counts in intervals of `seconds`: 1 for Poisson arrivals.
    fn dispersion(requests: &[Request], seconds: f64, intervals: usize) -> f64 {
        let mut counts = vec![0.0; intervals];
        for request in requests {
            counts[(request.at / seconds) as usize] += 1.0;
        }
        let mean = counts.iter().sum::<f64>() / intervals as f64;
        counts.iter().map(|count| (count - mean) * (count - mean)).sum::<f64>() / intervals as f64 / mean
    }

    #[test]
    fn arrivals_are_poisson_and_in_order() {
        let requests = steady(20.0, 10_000.0).requests(1);
        assert!(requests.is_sorted_by(|earlier, later| earlier.at <= later.at));
        assert!((requests.len() as f64 / 200_000.0 - 1.0).abs() < 0.01, "{}", requests.len());
        let dispersion = dispersion(&requests, 10.0, 1000);
        assert!((dispersion - 1.0).abs() < 0.15, "{dispersion}");
        assert!(requests.iter().all(|request| request.at < 10_000.0));
    }

    #[test]
    fn batches_keep_the_rate_and_come_at_one_instant() {
        let requests = Open { batch: 4, ..steady(20.0, 10_000.0) }.requests(1);
        assert!((requests.len() as f64 / 200_000.0 - 1.0).abs() < 0.02, "{}", requests.len());
        assert!(requests.chunks(4).all(|batch| batch.len() == 4 && batch.iter().all(|request| request.at == batch[0].at)));
    }

    #[test]
    fn noise_keeps_the_mean_and_spreads_the_counts() {
        let noise = Some(Noise { sd: 0.35, correlation: 60.0 });
        let requests = Open { noise, ..steady(20.0, 100_000.0) }.requests(1);
        assert!((requests.len() as f64 / 2_000_000.0 - 1.0).abs() < 0.03, "{}", requests.len());
        // The counts of 10 s have the variance of the rate on top of their own: 200 (exp(0.35²) − 1) = 26, less what 10 s average out.
        let dispersion = dispersion(&requests, 10.0, 10_000);
        assert!((20.0..30.0).contains(&dispersion), "{dispersion}");
    }

    #[test]
    fn silence_and_bursts_have_the_lengths_that_were_asked_for() {
        let curve = Curve::OnOff { low: 0.0, high: 10.0, on: 20.0, off: 60.0, seconds: 400_000.0 };
        let requests = Open { curve, ..steady(0.0, 0.0) }.requests(1);
        assert!((requests.len() as f64 / 1_000_000.0 - 1.0).abs() < 0.05, "{}", requests.len());
        assert_eq!(requests[0].at.total_cmp(&0.0), std::cmp::Ordering::Greater);
    }

    #[test]
    fn a_line_and_a_sine_have_their_means_in_each_half() {
        let share = |curve: Curve| {
            let requests = Open { curve, ..steady(0.0, 0.0) }.requests(1);
            let early = requests.iter().filter(|request| request.at < 5000.0).count();
            (requests.len() as f64, early as f64 / requests.len() as f64)
        };
        let (count, early) = share(Curve::Ramp { from: 10.0, to: 30.0, seconds: 10_000.0 });
        assert!((count / 200_000.0 - 1.0).abs() < 0.01 && (early - 0.375).abs() < 0.005, "{count} {early}");
        let (count, early) = share(Curve::Swell { low: 10.0, high: 30.0, period: 20_000.0, power: 1.0, seconds: 10_000.0 });
        // From the trough to the crest: the first half is below the mean of 20 by 10 × 2/π.
        assert!(
            (count / 200_000.0 - 1.0).abs() < 0.01 && (early - 0.5 * (1.0 - 1.0 / std::f64::consts::PI)).abs() < 0.005,
            "{count} {early}"
        );
    }

    #[test]
    fn a_power_makes_the_lows_longer() {
        let curve = Curve::Swell { low: 10.0, high: 30.0, period: 10_000.0, power: 2.0, seconds: 10_000.0 };
        let count = Open { curve, ..steady(0.0, 0.0) }.requests(1).len() as f64;
        // The mean of ((1 − cos)/2)² is 3/8.
        assert!((count / 175_000.0 - 1.0).abs() < 0.01, "{count}");
    }

    #[test]
    fn lengths_do_not_move_arrivals() {
        let longer = Lengths { prompt: Length::LogNormal { median: 100.0, sigma: 1.0, max: 1000 }, ..one_token() };
        let (one, other) = (steady(5.0, 100.0).requests(7), Open { lengths: longer, ..steady(5.0, 100.0) }.requests(7));
        assert!(one.iter().map(|request| request.at).eq(other.iter().map(|request| request.at)));
    }
}
