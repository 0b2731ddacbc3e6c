//! T: how long the prompts of late have been.

use serde::{Deserialize, Serialize};

use super::numbers::within;
use crate::Bucket;

/// What a tick leaves of the weights: half of them are from the last 17 minutes.
const KEPT: f64 = 0.99;
/// Most buckets that are kept; a histogram of powers of two has 22, vLLM's about as many.
const MOST_BUCKETS: usize = 64;
/// The heaviest that a bucket becomes.
const HEAVIEST: f64 = 1e15;

/// Prompts by length in tokens, the older the lighter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lengths {
    /// Upper bound and weight, the shortest first.
    buckets: Vec<(f64, f64)>,
    /// Weight of what is above the last bound.
    beyond: f64,
}

impl Lengths {
    /// T = 0.99 T + hist.
    pub(super) fn add(&mut self, histogram: &[Bucket]) {
        for (_, weight) in &mut self.buckets {
            *weight *= KEPT;
        }
        self.beyond *= KEPT;
        for bucket in histogram.iter().filter(|bucket| bucket.upper > 0.0) {
            let count = within(bucket.count, 0.0, HEAVIEST);
            if bucket.upper.is_infinite() {
                self.beyond += count;
                continue;
            }
            match self.buckets.binary_search_by(|(upper, _)| upper.total_cmp(&bucket.upper)) {
                Ok(at) => self.buckets[at].1 += count,
                Err(at) => self.buckets.insert(at, (bucket.upper, count)),
            }
        }
        // An engine with other bounds leaves its predecessor's behind, which fade: the lightest go first.
        while self.buckets.len() > MOST_BUCKETS {
            let lightest = (0..self.buckets.len()).min_by(|&a, &b| self.buckets[a].1.total_cmp(&self.buckets[b].1));
            lightest.map(|at| self.buckets.remove(at));
        }
    }

    /// The share of prompts that are longer than `length` tokens: V, for length = p*. 0 when none was seen.
    ///
    /// Between two bounds l < `length` ≤ u the share falls as a power of the length: F(l)^(1 − y) F(u)^y with
    /// y = ln(length ÷ l) ÷ ln(u ÷ l), where F is the share above a bound; in a straight line to 0 where F(u) is 0. Where all bounds
    /// are powers of two, l and u are powers of two also where buckets between them are left out.
    pub(super) fn longer_than(&self, length: f64) -> f64 {
        let total = self.weight_above(0.0);
        if total <= 0.0 || length.is_nan() {
            return 0.0;
        }
        let (lower, upper) = self.around(length.max(0.0));
        let above = |bound: f64| if bound.is_finite() { self.weight_above(bound) / total } else { 0.0 };
        let y = match (lower > 0.0, upper.is_finite()) {
            (true, true) => (length / lower).ln() / (upper / lower).ln(),
            (false, true) => length / upper,
            // Nobody knows how long those beyond the last bound are: too long.
            (_, false) => 0.0,
        };
        let (y, at_lower, at_upper) = (within(y, 0.0, 1.0), above(lower), above(upper));
        let share = if at_upper > 0.0 { at_lower.powf(1.0 - y) * at_upper.powf(y) } else { at_lower * (1.0 - y) };
        within(share, 0.0, 1.0)
    }

    /// The bounds on both sides of `length`: below it, and at it or above.
    fn around(&self, length: f64) -> (f64, f64) {
        // Without a fraction after its leading one.
        let power_of_two = |x: f64| x.is_normal() && x.to_bits().trailing_zeros() >= f64::MANTISSA_DIGITS - 1;
        if length > 0.0 && length.is_finite() && self.buckets.iter().all(|(upper, _)| power_of_two(*upper)) {
            let upper = length.log2().ceil().exp2();
            return (upper / 2.0, upper);
        }
        let at = self.buckets.partition_point(|(upper, _)| *upper < length);
        let lower = at.checked_sub(1).map_or(0.0, |below| self.buckets[below].0);
        (lower, self.buckets.get(at).map_or(f64::INFINITY, |(upper, _)| *upper))
    }

    /// Weight of the buckets above `bound`.
    fn weight_above(&self, bound: f64) -> f64 {
        self.beyond + self.buckets.iter().filter(|(upper, _)| *upper > bound).map(|(_, weight)| weight).sum::<f64>()
    }

    /// Makes what was written by hand fit for use.
    pub(super) fn tidy(&mut self) {
        self.buckets.retain(|(upper, _)| upper.is_finite() && *upper > 0.0);
        self.buckets.truncate(MOST_BUCKETS);
        if !self.buckets.is_sorted_by(|a, b| a.0 < b.0) {
            self.buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
            self.buckets.dedup_by_key(|(upper, _)| *upper);
        }
        for (_, weight) in &mut self.buckets {
            *weight = within(*weight, 0.0, HEAVIEST);
        }
        self.beyond = within(self.beyond, 0.0, HEAVIEST);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lengths(buckets: &[(f64, f64)]) -> Lengths {
        let mut lengths = Lengths::default();
        lengths.add(&buckets.iter().map(|&(upper, count)| Bucket { upper, count }).collect::<Vec<_>>());
        lengths
    }

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
    }

    #[test]
    fn weights_fade() {
        let mut two = lengths(&[(1024.0, 10.0)]);
        two.add(&[Bucket { upper: 2048.0, count: 1.0 }, Bucket { upper: f64::INFINITY, count: 3.0 }]);
        assert_eq!(two, Lengths { buckets: vec![(1024.0, 9.9), (2048.0, 1.0)], beyond: 3.0 });
    }

    #[test]
    fn nothing_seen_is_nothing_too_long() {
        close(Lengths::default().longer_than(100.0), 0.0);
        close(lengths(&[(1024.0, 0.0)]).longer_than(100.0), 0.0);
    }

    /// 60 up to 1024, 30 up to 2048, 10 up to 8192: F(1024) = 0.4, F(2048) = F(4096) = 0.1, F(8192) = 0.
    #[test]
    fn powers_of_two_by_hand() {
        let seen = lengths(&[(1024.0, 60.0), (2048.0, 30.0), (8192.0, 10.0)]);
        // 1448.15… is √2 × 1024: y = 1/2, √(0.4 × 0.1) = 0.2.
        close(seen.longer_than(1024.0 * 2f64.sqrt()), 0.2);
        close(seen.longer_than(2048.0), 0.1);
        close(seen.longer_than(3000.0), 0.1); // 4096 counts although it is left out
        close(seen.longer_than(4096.0 * 2f64.sqrt()), 0.05); // straight to 0
        close(seen.longer_than(8192.0), 0.0);
        close(seen.longer_than(1e6), 0.0);
        // F(512) = 1, F(1024) = 0.4: 512 × 2^¼ gives 0.4^¼ = 0.795270728767…
        close(seen.longer_than(512.0 * 2f64.powf(0.25)), 0.795_270_728_767_050_7);
        close(seen.longer_than(0.0), 1.0);
    }

    /// vLLM's 1-2-5: F(2000) = 0.25, F(5000) = 0.04.
    #[test]
    fn other_bounds_by_hand() {
        let seen = lengths(&[(1000.0, 50.0), (2000.0, 25.0), (5000.0, 21.0), (10_000.0, 4.0)]);
        // The geometric middle of 2000 and 5000: √(0.25 × 0.04) = 0.1.
        close(seen.longer_than(1e7_f64.sqrt()), 0.1);
        close(seen.longer_than(5000.0), 0.04);
        close(seen.longer_than(5000.0 * 2f64.sqrt()), 0.02);
        close(seen.longer_than(500.0), 0.5_f64.sqrt()); // from F(0) = 1 to F(1000) = 0.5, half of the way
    }

    #[test]
    fn what_is_beyond_every_bound_is_longer() {
        let seen = lengths(&[(1000.0, 5.0), (3000.0, 3.0), (f64::INFINITY, 2.0)]);
        close(seen.longer_than(1e6), 0.2);
        close(seen.longer_than(f64::INFINITY), 0.2);
        close(lengths(&[(1024.0, 5.0), (f64::INFINITY, 5.0)]).longer_than(1e6), 0.5);
    }

    #[test]
    fn no_more_than_so_many_buckets() {
        let mut seen = lengths(&[(3.0, 5.0)]);
        for i in 0..200 {
            seen.add(&[Bucket { upper: f64::from(i) + 10.5, count: 1.0 }]);
        }
        assert_eq!(seen.buckets.len(), MOST_BUCKETS);
        assert_eq!(seen.buckets.last().map(|last| last.0), Some(209.5), "the newest is among them");
    }

    proptest! {
        /// The formula once more over every power of two.
        #[test]
        fn sparse_powers_of_two_are_as_full_ones(counts in prop::collection::vec(0_u32..20, 22), length in 1.5_f64..4e6) {
            prop_assume!(counts.iter().any(|count| *count > 0));
            let full: Vec<(f64, f64)> = counts.iter().enumerate().map(|(i, &count)| (2f64.powi(i as i32), f64::from(count))).collect();
            let sparse: Vec<(f64, f64)> = full.iter().copied().filter(|(_, count)| *count > 0.0).collect();
            let total: f64 = full.iter().map(|(_, count)| count).sum();
            let share = |u: f64| full.iter().filter(|(upper, _)| *upper > u).map(|(_, count)| count).sum::<f64>() / total;
            let mut u = 1.0;
            while 2.0 * u < length {
                u *= 2.0;
            }
            let y = (length / u).log2();
            let naive = if share(2.0 * u) == 0.0 { share(u) * (1.0 - y) } else { share(u).powf(1.0 - y) * share(2.0 * u).powf(y) };
            prop_assert!((lengths(&full).longer_than(length) - naive).abs() < 1e-9);
            prop_assert!((lengths(&sparse).longer_than(length) - naive).abs() < 1e-9);
        }

        #[test]
        fn a_longer_length_is_exceeded_by_no_more(
            counts in prop::collection::vec((0_u32..6, 0_u32..20), 0..8), a in 0.0_f64..1e5, b in 0.0_f64..1e5
        ) {
            let seen = lengths(&counts.iter().map(|&(i, count)| ([1.0, 5.0, 8.0, 64.0, 3e4, f64::INFINITY][i as usize], f64::from(count))).collect::<Vec<_>>());
            prop_assert!(seen.longer_than(a.max(b)) <= seen.longer_than(a.min(b)) + 1e-12);
        }
    }
}
