//! `rate` over a window, as Prometheus computes it (`extrapolatedRate` in `promql/functions.go`, version 3).

use std::time::Duration;

use llmscaler_engine::Time;

/// A counter at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) at: Time,
    pub(super) value: f64,
}

/// The rate per second over (now − window, now] of a counter, from points in that window, oldest first. `None` from fewer than two.
///
/// A value below the one before it is a reset: the counter went on from 0. The increase between the first and the last point is
/// extrapolated to the ends of the window, except that an end that is further off than 1.1 mean distances of points is taken to be
/// beyond the series, which then begins or ends half such a distance away; and never below the moment at which the counter was 0.
///
/// This is the arithmetic of Prometheus and not a simpler quotient, so that a threshold that was found with one provider means the
/// same with the other.
pub(super) fn rate(points: &[Point], window: Duration, now: Time) -> Option<f64> {
    let [first, .., last] = points else { return None };
    let increase = increase(points);

    let sampled = last.at.since(first.at).as_secs_f64();
    let between = sampled / (points.len() - 1) as f64;
    let threshold = between * 1.1;
    let to_end_of_series = |gap: f64| if gap >= threshold { between / 2.0 } else { gap };

    let since_start = window.as_secs_f64() - now.since(first.at).as_secs_f64();
    let mut to_start = to_end_of_series(since_start);
    if increase > 0.0 && first.value >= 0.0 {
        to_start = to_start.min(sampled * (first.value / increase));
    }
    let to_end = to_end_of_series(now.since(last.at).as_secs_f64());

    let factor = if sampled == 0.0 { 1.0 } else { (sampled + to_start + to_end) / sampled };
    Some(increase * factor / window.as_secs_f64())
}

/// What the counter went up by from the first point to the last, resets made good.
fn increase(points: &[Point]) -> f64 {
    let [first, .., last] = points else { return 0.0 };
    let lost: f64 = points.windows(2).filter(|pair| pair[1].value < pair[0].value).map(|pair| pair[0].value).sum();
    last.value - first.value + lost
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WINDOW: Duration = Duration::from_secs(60);

    fn points(given: &[(f64, f64)]) -> Vec<Point> {
        given.iter().map(|&(at, value)| Point { at: Time::from_seconds(at), value }).collect()
    }

    /// Each row by hand from the comments in Prometheus' own source.
    #[test]
    fn agrees_with_the_documented_rules() {
        for (given, now, expected) in [
            // Both ends are within 1.1 distances: all the way. 30 in 45 s is 40 in 60 s.
            (&[(15.0, 1000.0), (30.0, 1010.0), (45.0, 1020.0), (60.0, 1030.0)][..], 60.0, Some(40.0 / 60.0)),
            // The end of the window lies between two scrapes.
            (&[(15.0, 1000.0), (30.0, 1010.0), (45.0, 1020.0), (60.0, 1030.0)], 70.0, Some(30.0 * (60.0 / 45.0) / 60.0)),
            // A series that begins in the window: half a distance before its first point.
            (&[(45.0, 1000.0), (60.0, 1010.0)], 60.0, Some(10.0 * (22.5 / 15.0) / 60.0)),
            // … but not before the counter was 0: 3 at a slope of 10 in 15 s is 4.5 s.
            (&[(45.0, 3.0), (60.0, 13.0)], 60.0, Some(10.0 * (19.5 / 15.0) / 60.0)),
            (&[(45.0, 0.0), (60.0, 10.0)], 60.0, Some(10.0 / 60.0)),
            // A series that ended: half a distance after its last point.
            (&[(15.0, 1000.0), (30.0, 1010.0)], 60.0, Some(10.0 * (37.5 / 15.0) / 60.0)),
            // A reset: 100 → 20 is a restart and 20 more.
            (&[(15.0, 90.0), (30.0, 100.0), (45.0, 20.0), (60.0, 30.0)], 60.0, Some(40.0 * (60.0 / 45.0) / 60.0)),
            // Two resets.
            (&[(15.0, 90.0), (30.0, 10.0), (45.0, 20.0), (60.0, 5.0)], 60.0, Some(25.0 * (60.0 / 45.0) / 60.0)),
            // Nothing happens.
            (&[(15.0, 7.0), (30.0, 7.0), (45.0, 7.0), (60.0, 7.0)], 60.0, Some(0.0)),
            // One point, or none, has no rate.
            (&[(60.0, 7.0)], 60.0, None),
            (&[], 60.0, None),
        ] {
            let found = rate(&points(given), WINDOW, Time::from_seconds(now));
            let equal = match (found, expected) {
                (Some(found), Some(expected)) => (found - expected).abs() < 1e-12,
                (found, expected) => found == expected,
            };
            assert!(equal, "{given:?} at {now}: {found:?}, not {expected:?}");
        }
    }

    proptest! {
        /// A pod that restarts is never seen as work undone.
        #[test]
        fn a_rate_is_never_negative(values in prop::collection::vec(0.0_f64..1e9, 2..12)) {
            let given: Vec<_> = values.iter().enumerate().map(|(i, &value)| (i as f64 * 5.0 + 1.0, value)).collect();
            let found = rate(&points(&given), WINDOW, Time::from_seconds(60.0)).unwrap();
            prop_assert!(found >= 0.0 && found.is_finite());
        }

        /// Where the points cover the window and nothing restarts, the rate is the slope.
        #[test]
        fn a_steady_slope_is_found(slope in 0.0_f64..1e4, period in 1_u32..=20, offset in 0.0_f64..1.0) {
            let (period, start) = (f64::from(period), 1e6);
            let now = 1000.0;
            let mut given = Vec::new();
            let mut at = now - period * offset;
            while at > now - 60.0 {
                given.insert(0, (at, start + slope * at));
                at -= period;
            }
            prop_assume!(given.len() >= 2);
            let found = rate(&points(&given), WINDOW, Time::from_seconds(now)).unwrap();
            prop_assert!((found - slope).abs() <= slope * 2e-3 + 1e-6, "{found} {slope}");
        }

        #[test]
        fn never_panics(given in prop::collection::vec((any::<i64>(), any::<f64>()), 0..6), now in any::<i64>()) {
            let points: Vec<_> = given.iter().map(|&(at, value)| Point { at: Time::from_millis(at), value }).collect();
            let _ = rate(&points, WINDOW, Time::from_millis(now));
        }
    }
}
