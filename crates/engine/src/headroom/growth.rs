//! Step 5: how much the load rises while a replica starts.

use serde::{Deserialize, Serialize};

use super::TICK;
use super::numbers::within;
use crate::Replicas;

/// The history is never shorter than this, in seconds.
const SHORTEST_HISTORY: f64 = 1200.0;
/// The history is as long as so many warm-ups: of ten one sees how many had a rise.
const WARM_UPS: f64 = 10.0;
/// A rise is noticed so many seconds after it began.
const DETECTION: f64 = 30.0;
/// Only what was at least this share of the present load is like it: at low load all history counts, at the peak only peaks do.
const SIMILAR: f64 = 0.7;
/// Cases without growth that are taken to have been seen, so that two or three cases decide nothing.
const QUIET_CASES: usize = 8;
/// Room for rounding noise below a whole number: 1 − 10 × (1 − 0.99) is 0.8999999999999999, and nine tenths of 30 are 27.
const ROUNDING: f64 = 1e-9;

/// The loads of late, in busy replicas.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Growth {
    /// load[], the oldest first, one for each tick.
    load: Vec<f64>,
}

impl Growth {
    /// Adds a tick's `load`, and answers g: by how much the load rose during one warm-up in all but a share 1 − `quantile` of the
    /// past cases at a load like this one.
    pub(super) fn add(&mut self, load: f64, warmup: f64, quantile: f64) -> f64 {
        let load = within(load, 0.0, Replicas::MAX.as_f64());
        self.push(load, warmup);
        self.quantile(load, warmup, quantile)
    }

    /// Adds a tick whose load is unknown: the last one stands.
    pub(super) fn repeat(&mut self, warmup: f64) {
        if let Some(&last) = self.load.last() {
            self.push(last, warmup);
        }
    }

    fn push(&mut self, load: f64, warmup: f64) {
        self.load.push(load);
        let most = ((WARM_UPS * warmup).max(SHORTEST_HISTORY) / TICK).ceil() as usize;
        self.load.drain(..self.load.len().saturating_sub(most));
    }

    fn quantile(&self, present: f64, warmup: f64, quantile: f64) -> f64 {
        let horizon = ((warmup + DETECTION) / TICK).ceil() as usize;
        let peaks = maxima(&self.load, horizon + 1);
        let mut rises: Vec<f64> =
            self.load.iter().zip(&peaks).filter(|(load, _)| **load >= SIMILAR * present).map(|(load, peak)| peak - load).collect();
        rises.resize(rises.len() + QUIET_CASES, 0.0);
        let at = element(quantile, rises.len());
        *rises.select_nth_unstable_by(at, f64::total_cmp).1
    }

    /// Makes what was written by hand fit for use.
    pub(super) fn tidy(&mut self) {
        for load in &mut self.load {
            *load = within(*load, 0.0, Replicas::MAX.as_f64());
        }
    }
}

/// Which of so many sorted samples the share `quantile` of them lies below, counted from 0.
fn element(quantile: f64, samples: usize) -> usize {
    ((quantile * samples as f64 + ROUNDING).floor() as usize).min(samples.saturating_sub(1))
}

/// The maximum of each whole window of so many values, by doubling: windows of 2, 4, 8, … until two of them cover one.
fn maxima(values: &[f64], window: usize) -> Vec<f64> {
    let Some(windows) = (values.len() + 1).checked_sub(window) else { return vec![] };
    let (mut maxima, mut size) = (values.to_vec(), 1);
    while 2 * size <= window {
        maxima = larger(&maxima, &maxima[size..]);
        size *= 2;
    }
    maxima = larger(&maxima, &maxima[window - size..]);
    maxima.truncate(windows);
    maxima
}

/// The larger one at each place, as far as both go.
fn larger(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| if a > b { *a } else { *b }).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Objective;

    /// T_w 60 s: H = 90 ÷ 15 = 6.
    #[test]
    fn growth_by_hand() {
        let mut growth = Growth::default();
        for _ in 0..6 {
            assert_eq!(growth.add(4.0, 60.0, 0.9), 0.0, "no tick has six after it");
        }
        // One case, from 4 to 6, among eight quiet ones: element floor(0.9 × 9) = 8 of 9.
        assert_eq!(growth.add(6.0, 60.0, 0.9), 0.0, "4 is less than 0.7 of 6, so the case does not count");
        assert_eq!(growth.add(5.0, 60.0, 0.9), 2.0, "two cases of 2; 4 is more than 0.7 of 5: element floor(0.9 × 10) = 9");
        assert_eq!(growth.add(5.0, 60.0, 0.5), 0.0, "half of the cases had none");
    }

    #[test]
    fn the_horizon_is_a_warm_up_and_the_time_to_notice() {
        // T_w 100 s: 130 ÷ 15 → 9 ticks. The rise comes 9 ticks after the first one.
        let loads = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.4];
        let mut growth = Growth { load: loads[..9].to_vec() };
        assert!((growth.add(1.4, 100.0, 0.95) - 0.4).abs() < 1e-12);
        let mut short = Growth { load: loads[..8].to_vec() };
        assert_eq!(short.add(1.4, 100.0, 0.95), 0.0);
    }

    #[test]
    fn the_history_is_bounded() {
        let mut growth = Growth::default();
        for i in 0..500 {
            growth.add(f64::from(i), 100.0, 0.9);
        }
        assert_eq!((growth.load.len(), growth.load[0]), (80, 420.0));
        for _ in 0..500 {
            growth.repeat(480.0);
        }
        assert_eq!((growth.load.len(), growth.load[0]), (320, 499.0));
        let mut none = Growth::default();
        none.repeat(100.0);
        assert_eq!(none, Growth::default(), "nothing to repeat");
    }

    #[test]
    fn a_whole_number_of_cases_is_that_number() {
        for (objective, samples) in [(0.99, 30), (0.99, 50), (0.99, 60), (0.99, 70), (0.98, 10), (0.98, 15), (0.98, 25)] {
            let quantile = Objective::new(objective).unwrap().growth_quantile();
            let tenths = if objective == 0.99 { 9 } else { 8 };
            assert_eq!(element(quantile, samples), tenths * samples / 10, "{objective} of {samples}");
        }
        assert_eq!(element(0.98, 10), 9);
    }

    fn naive(load: &[f64], warmup: f64, quantile: f64) -> f64 {
        let (horizon, present) = (((warmup + 30.0) / 15.0).ceil() as usize, load[load.len() - 1]);
        let mut samples = vec![0.0; 8];
        for i in 0..load.len() {
            if i + horizon < load.len() && load[i] >= 0.7 * present {
                samples.push(load[i..=i + horizon].iter().copied().fold(0.0, f64::max) - load[i]);
            }
        }
        samples.sort_by(f64::total_cmp);
        samples[(quantile * samples.len() as f64).floor() as usize]
    }

    proptest! {
        #[test]
        fn growth_is_the_one_by_brute_force(
            load in prop::collection::vec(0.0_f64..10.0, 1..200), warmup in 0.0_f64..1200.0, quantile in 0.5_f64..0.98
        ) {
            let mut growth = Growth { load: load[..load.len() - 1].to_vec() };
            let found = growth.add(load[load.len() - 1], warmup, quantile);
            prop_assert_eq!(found, naive(&growth.load, warmup, quantile));
        }
    }
}
