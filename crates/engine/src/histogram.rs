//! What a classic histogram tells of the observations that it counted.
//!
//! The quantile is Prometheus' (`promql/quantile.go`, version 3); the rest follows from the same reading of a bucket: its
//! observations lie evenly between its bounds.

/// One bucket of a cumulative histogram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// The largest value that it counts, `le`.
    pub upper: f64,
    /// How many observations are at most `upper`: a count, or a rate of them.
    pub count: f64,
}

/// Differences between neighbours that are smaller than this, relative to their sum, come from rounding and are removed.
const SMALL_DELTA: f64 = 1e-12;

/// The `quantile` (0 to 1) of a histogram, in the unit of its bounds; the order of the buckets does not matter.
///
/// Inside a bucket the observations are taken to lie evenly; the lowest one begins at 0 when its bound is above 0. Of the bucket
/// without end its lower bound is given. It is NaN when there is no observation, when there are fewer than two buckets, and when
/// the bucket without end (`le="+Inf"`) is missing; below 0 it is −Inf, above 1 +Inf.
///
/// ```
/// use llmscaler_engine::{Bucket, histogram_quantile};
/// let buckets = [(0.02, 0.0), (0.04, 10.0), (f64::INFINITY, 10.0)].map(|(upper, count)| Bucket { upper, count });
/// assert!((histogram_quantile(0.9, buckets) - 0.038).abs() < 1e-12);
/// ```
#[must_use]
pub fn histogram_quantile(quantile: f64, buckets: impl IntoIterator<Item = Bucket>) -> f64 {
    match quantile {
        q if q.is_nan() => return f64::NAN,
        q if q < 0.0 => return f64::NEG_INFINITY,
        q if q > 1.0 => return f64::INFINITY,
        _ => {}
    }
    let buckets = monotonic(coalesced(buckets));
    let [.., below, last] = buckets.as_slice() else { return f64::NAN };
    if last.upper != f64::INFINITY || last.count == 0.0 {
        return f64::NAN;
    }
    let rank = quantile * last.count;
    let found = buckets.partition_point(|bucket| bucket.count < rank).min(buckets.len() - 1);
    let bucket = buckets[found];
    match found.checked_sub(1).map(|before| buckets[before]) {
        _ if found == buckets.len() - 1 => below.upper,
        None if bucket.upper <= 0.0 => bucket.upper,
        None => bucket.upper * (rank / bucket.count),
        Some(before) => before.upper + (bucket.upper - before.upper) * ((rank - before.count) / (bucket.count - before.count)),
    }
}

/// The share of the observations that are above `limit`, 0 to 1; `None` without an observation, and without the bucket without end.
///
/// Of the bucket that holds `limit` the part above it counts, in proportion. All of the bucket without end counts: its observations
/// may be just above its lower bound, and a promise is broken sooner than one thinks.
///
/// ```
/// use llmscaler_engine::{Bucket, share_above};
/// let buckets = [(2.0, 6.0), (4.0, 8.0), (f64::INFINITY, 10.0)].map(|(upper, count)| Bucket { upper, count });
/// assert_eq!(share_above(3.0, buckets), Some(0.3)); // half of the two in (2, 4], and the two beyond
/// ```
#[must_use]
pub fn share_above(limit: f64, buckets: impl IntoIterator<Item = Bucket>) -> Option<f64> {
    let buckets = monotonic(coalesced(buckets));
    let last = buckets.last().filter(|last| last.upper == f64::INFINITY && last.count > 0.0)?;
    let found = buckets.partition_point(|bucket| bucket.upper < limit).min(buckets.len() - 1);
    let (bucket, below) = (buckets[found], found.checked_sub(1).map(|before| buckets[before]));
    let (from, before) = below.map_or((bucket.upper.min(0.0), 0.0), |below| (below.upper, below.count));
    let part = match bucket.upper - from {
        width if width.is_finite() && width > 0.0 => ((bucket.upper - limit) / width).clamp(0.0, 1.0),
        _ if bucket.upper.is_finite() => 0.0,
        _ => 1.0,
    };
    Some(((last.count - bucket.count + part * (bucket.count - before)) / last.count).clamp(0.0, 1.0))
}

/// The squared coefficient of variation (variance ÷ mean²) of observations of sizes above 0, each taken to be in the middle of its
/// bucket; those of the bucket without end at its lower bound. `None` without an observation above 0.
#[must_use]
pub fn squared_variation(buckets: impl IntoIterator<Item = Bucket>) -> Option<f64> {
    let (mut count, mut sum, mut squares, mut from, mut before) = (0.0, 0.0, 0.0, 0.0_f64, 0.0);
    for bucket in monotonic(coalesced(buckets)) {
        let middle = if bucket.upper.is_finite() { (from + bucket.upper) / 2.0 } else { from };
        let here = bucket.count - before;
        count += here;
        sum += here * middle;
        squares += here * middle * middle;
        (from, before) = (bucket.upper, bucket.count);
    }
    let mean = sum / count;
    (count > 0.0 && mean > 0.0).then(|| (squares / count / (mean * mean) - 1.0).max(0.0))
}

/// By bound, lowest first, with the counts of equal bounds added.
fn coalesced(buckets: impl IntoIterator<Item = Bucket>) -> Vec<Bucket> {
    let mut buckets: Vec<Bucket> = buckets.into_iter().collect();
    buckets.sort_by(|a, b| a.upper.total_cmp(&b.upper));
    buckets.dedup_by(|next, kept| {
        let same = next.upper == kept.upper;
        if same {
            kept.count += next.count;
        }
        same
    });
    buckets
}

/// Without decreases: buckets of pods that were not read at the same moment, or rounding, may bring some.
fn monotonic(mut buckets: Vec<Bucket>) -> Vec<Bucket> {
    let Some(mut highest) = buckets.first().map(|bucket| bucket.count) else { return buckets };
    for bucket in &mut buckets {
        if bucket.count < highest || nearly_equal(highest, bucket.count) {
            bucket.count = highest;
        }
        highest = bucket.count;
    }
    buckets
}

/// Prometheus' `almost.Equal`, without the cases of NaN.
fn nearly_equal(a: f64, b: f64) -> bool {
    let (sum, difference) = (a.abs() + b.abs(), (a - b).abs());
    match a == b {
        true => true,
        false if a == 0.0 || b == 0.0 || sum < f64::MIN_POSITIVE => difference < SMALL_DELTA * f64::MIN_POSITIVE,
        false => difference / sum.min(f64::MAX) < SMALL_DELTA,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const INF: f64 = f64::INFINITY;

    fn quantile(q: f64, buckets: &[(f64, f64)]) -> f64 {
        histogram_quantile(q, buckets.iter().map(|&(upper, count)| Bucket { upper, count }))
    }

    /// Each row by hand from the rules of Prometheus' documentation of `histogram_quantile`.
    #[test]
    fn agrees_with_the_documented_rules() {
        let plain = [(0.1, 10.0), (0.5, 20.0), (1.0, 40.0), (INF, 50.0)];
        for (q, buckets, expected) in [
            (0.1, &plain[..], 0.05),
            (0.2, &plain, 0.1),
            (0.3, &plain, 0.3),
            (0.4, &plain, 0.5),
            (0.5, &plain, 0.625),
            (0.8, &plain, 1.0),
            (0.9, &plain, 1.0),
            (1.0, &plain, 1.0),
            (0.0, &plain, 0.0),
            // Every TPOT within one bucket of the EPP: 0.038, whatever the true value.
            (0.9, &[(0.01, 0.0), (0.02, 0.0), (0.04, 7.3), (0.06, 7.3), (INF, 7.3)], 0.038),
            // The lowest bucket begins at 0 only when its bound is above 0.
            (0.5, &[(0.0, 10.0), (1.0, 10.0), (INF, 10.0)], 0.0),
            (0.5, &[(-1.0, 10.0), (1.0, 10.0), (INF, 10.0)], -1.0),
            (0.75, &[(-1.0, 5.0), (1.0, 10.0), (INF, 10.0)], 0.0),
            // A decrease is raised to the count before it.
            (0.5, &[(1.0, 4.0), (2.0, 3.0), (3.0, 8.0), (INF, 8.0)], 1.0),
            (0.75, &[(1.0, 4.0), (2.0, 3.0), (3.0, 8.0), (INF, 8.0)], 2.5),
            (0.5, &[(1.0, 10.0), (INF, 4.0)], 0.5),
            // Order does not matter; equal bounds add up.
            (0.5, &[(INF, 20.0), (2.0, 10.0), (1.0, 0.0), (2.0, 10.0)], 1.5),
            // Everything beyond the highest bound.
            (0.5, &[(1.0, 0.0), (2.0, 0.0), (INF, 5.0)], 2.0),
            (-0.1, &plain, f64::NEG_INFINITY),
            (1.1, &plain, INF),
        ] {
            let found = quantile(q, buckets);
            assert!(found == expected || (found - expected).abs() < 1e-12, "{q} of {buckets:?}: {found}, not {expected}");
        }
    }

    fn histogram(buckets: &[(f64, f64)]) -> impl Iterator<Item = Bucket> {
        buckets.iter().map(|&(upper, count)| Bucket { upper, count })
    }

    #[test]
    fn what_is_above_a_limit() {
        let plain = [(1.0, 4.0), (2.0, 4.0), (4.0, 8.0), (INF, 10.0)];
        for (limit, expected) in [(0.0, 1.0), (0.5, 0.8), (1.0, 0.6), (1.5, 0.6), (2.0, 0.6), (3.0, 0.4), (4.0, 0.2), (5.0, 0.2)] {
            let found = share_above(limit, histogram(&plain)).unwrap();
            assert!((found - expected).abs() < 1e-12, "{limit}: {found}, not {expected}");
        }
        for none in [&[][..], &[(1.0, 3.0)], &[(1.0, 0.0), (INF, 0.0)]] {
            assert_eq!(share_above(1.0, histogram(none)), None, "{none:?}");
        }
    }

    #[test]
    fn variation_takes_the_middle_of_each_bucket() {
        assert_eq!(squared_variation(histogram(&[(1.0, 0.0), (2.0, 5.0), (INF, 5.0)])), Some(0.0), "all of one size");
        // Ten of 1.5 and ten of 6: mean 3.75, variance 5.0625.
        let found = squared_variation(histogram(&[(1.0, 0.0), (2.0, 10.0), (4.0, 10.0), (8.0, 20.0), (INF, 20.0)])).unwrap();
        assert!((found - 5.0625 / 14.0625).abs() < 1e-12, "{found}");
        assert_eq!(squared_variation(histogram(&[(1.0, 0.0), (INF, 0.0)])), None);
        assert_eq!(squared_variation(histogram(&[])), None);
    }

    #[test]
    fn no_observation_is_nan() {
        for (q, buckets) in [
            (0.9, &[][..]),
            (0.9, &[(INF, 3.0)]),
            (0.9, &[(1.0, 0.0), (INF, 0.0)]),
            (0.9, &[(1.0, 3.0), (2.0, 3.0)]),
            (0.9, &[(INF, 1.0), (INF, 2.0)]),
            (f64::NAN, &[(1.0, 3.0), (INF, 3.0)]),
            // Prometheus divides 0 by 0 here.
            (0.0, &[(1.0, 0.0), (INF, 3.0)]),
        ] {
            assert!(quantile(q, buckets).is_nan(), "{q} of {buckets:?}");
        }
    }

    #[test]
    fn rounding_noise_is_no_decrease_and_no_increase() {
        let count = 1e6;
        let noisy = [(1.0, count), (2.0, count * (1.0 - 1e-13)), (3.0, count * (1.0 + 1e-13)), (INF, count)];
        assert_eq!(quantile(1.0, &noisy), 1.0);
    }

    /// The rule once more, the slow way, for histograms that are well-formed.
    fn by_walking(q: f64, bounds: &[f64], each: &[u32]) -> f64 {
        let total: u32 = each.iter().sum();
        let rank = q * f64::from(total);
        let (mut below, mut from) = (0.0, 0.0);
        for (&bound, &here) in bounds.iter().zip(each) {
            if below + f64::from(here) >= rank {
                return from + (bound - from) * ((rank - below) / f64::from(here));
            }
            (below, from) = (below + f64::from(here), bound);
        }
        from
    }

    proptest! {
        #[test]
        fn agrees_with_walking(each in prop::collection::vec(0_u32..50, 3..12), q in 0.01_f64..=1.0) {
            prop_assume!(each.iter().sum::<u32>() > 0);
            let bounds: Vec<f64> = (1..each.len()).map(|i| i as f64 * 0.5).collect();
            let mut sum = 0.0;
            let buckets: Vec<_> = bounds.iter().copied().chain([INF]).zip(&each).map(|(bound, &here)| {
                sum += f64::from(here);
                (bound, sum)
            }).collect();
            let (found, expected) = (quantile(q, &buckets), by_walking(q, &bounds, &each));
            prop_assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }

        #[test]
        fn never_panics(q in any::<f64>(), buckets in prop::collection::vec((any::<f64>(), any::<f64>()), 0..8)) {
            let _ = quantile(q, &buckets);
        }

        #[test]
        fn grows_with_the_quantile(each in prop::collection::vec(0_u32..50, 3..12), a in 0.01_f64..1.0, b in 0.01_f64..1.0) {
            let mut sum = 0.0;
            let buckets: Vec<_> = each.iter().enumerate().map(|(i, &here)| {
                sum += f64::from(here);
                (if i + 1 == each.len() { INF } else { i as f64 }, sum)
            }).collect();
            let (low, high) = (quantile(a.min(b), &buckets), quantile(a.max(b), &buckets));
            prop_assert!(low.is_nan() || low <= high + 1e-9);
        }
    }
}
