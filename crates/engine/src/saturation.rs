//! How saturated the pool is: its latency as a share of what was promised, and the mean of that over time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Measurement, Reading, Target, Time};

/// One latency as it was read, and what was promised; both in the same unit.
#[derive(Clone, Copy, Debug)]
pub struct Latency<'a> {
    /// The quantile that was read.
    pub reading: &'a Reading,
    /// What it may be.
    pub target: Target,
}

/// The saturation of a pool by its time to first token and its time per output token: the larger share of what was promised. A
/// latency that nothing was promised for is `None` and does not count.
///
/// Idle takes both to be idle. Where one is unknown, the other alone may tell that the pool is saturated, which takes a share above
/// `up_at`, but never that it is not: the unknown one may be the larger.
///
/// ```
/// use llmscaler_engine::{Latency, Reading, Target, saturation};
///
/// let seconds = |x| Target::new(x).expect("above 0");
/// let (ttft, tpot) = (Reading::from_number(1.2), Reading::from_number(0.05));
/// let ttft = Latency { reading: &ttft, target: seconds(3.0) };
/// let tpot = Latency { reading: &tpot, target: seconds(0.1) };
/// assert_eq!(saturation(Some(ttft), Some(tpot), seconds(0.55)), Reading::from_number(0.5));
/// ```
#[must_use]
pub fn saturation(ttft: Option<Latency<'_>>, tpot: Option<Latency<'_>>, up_at: Target) -> Reading {
    match (ttft.map(share), tpot.map(share)) {
        (None, None) => Reading::unknown("no latency was promised, so there is nothing to compare with"),
        (Some(only), None) | (None, Some(only)) => only,
        (Some(ttft), Some(tpot)) => worse(ttft, tpot, up_at),
    }
}

fn share(latency: Latency<'_>) -> Reading {
    match latency.reading {
        // A tiny target would make an infinity of a latency, which is no measurement; the clamp comes later anyway.
        Reading::Value(value) => Reading::from_number((value.get() / latency.target.get()).min(f64::MAX)),
        other => other.clone(),
    }
}

fn worse(ttft: Reading, tpot: Reading, up_at: Target) -> Reading {
    match (ttft, tpot) {
        (Reading::Value(ttft), Reading::Value(tpot)) => Reading::Value(if ttft > tpot { ttft } else { tpot }),
        (Reading::Value(known), Reading::Unknown(_)) | (Reading::Unknown(_), Reading::Value(known)) if known.get() > up_at.get() => {
            Reading::Value(known)
        }
        (Reading::Unknown(why), Reading::Unknown(other)) if why != other => Reading::Unknown(format!("{why}; {other}")),
        (unknown @ Reading::Unknown(_), _) | (_, unknown @ Reading::Unknown(_)) => unknown,
        (value @ Reading::Value(_), Reading::Idle) | (Reading::Idle, value @ Reading::Value(_)) => value,
        (Reading::Idle, Reading::Idle) => Reading::Idle,
    }
}

/// Saturation at one sync, after the clamp.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SaturationSample {
    /// When.
    pub at: Time,
    /// In multiples of what was promised.
    pub value: Measurement,
}

/// Adds `value` to the samples, which are in the order of time, and answers their mean over (`now` − `window`, `now`].
///
/// A sample stands for the time since the one before it, but for no more than one sync period: nobody knows what happened in a
/// longer gap. The first one stands for one period.
pub(crate) fn smooth(
    samples: &mut Vec<SaturationSample>,
    value: Measurement,
    window: Duration,
    sync_period: Duration,
    now: Time,
) -> Measurement {
    prune(samples, window, now);
    samples.push(SaturationSample { at: now, value });
    let (mut sum, mut time, mut before) = (0.0, 0.0, None);
    for sample in samples.iter() {
        let gap = before.map_or(sync_period, |before| sample.at.since(before).min(sync_period));
        // What of the gap lies within the window.
        let weight = gap.min(window.saturating_sub(now.since(sample.at))).as_secs_f64();
        sum += weight * sample.value.get();
        time += weight;
        before = Some(sample.at);
    }
    // Only a sync period of 0 leaves no time at all.
    Measurement::new(sum / time).unwrap_or(value)
}

/// Forgets the samples that no mean over `window` reaches any more, and any that lie in the future.
pub(crate) fn prune(samples: &mut Vec<SaturationSample>, window: Duration, now: Time) {
    samples.retain(|sample| sample.at <= now && now.since(sample.at) < window);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(x: f64) -> Reading {
        Reading::from_number(x)
    }

    fn unknown(why: &str) -> Reading {
        Reading::unknown(why)
    }

    /// With the guide's promises: 3 s to the first token and 100 ms for each one after it.
    fn of(ttft: &Reading, tpot: &Reading) -> Reading {
        let target = |x| Target::new(x).unwrap();
        let latency = |reading, x| Some(Latency { reading, target: target(x) });
        saturation(latency(ttft, 3.0), latency(tpot, 0.1), target(0.55))
    }

    #[test]
    fn the_larger_share_counts() {
        assert_eq!(of(&value(1.5), &value(0.02)), value(0.5));
        assert_eq!(of(&value(0.3), &value(0.0625)), value(0.625));
        assert_eq!(of(&value(90.0), &value(0.02)), value(30.0), "the clamp comes later");
        assert_eq!(of(&value(0.0), &value(0.0)), value(0.0), "a latency of 0 is a measurement");
    }

    #[test]
    fn idle_takes_both() {
        assert_eq!(of(&Reading::Idle, &Reading::Idle), Reading::Idle);
        assert_eq!(of(&Reading::Idle, &value(0.05)), value(0.5), "one of one token each has no time per output token");
        assert_eq!(of(&value(1.5), &Reading::Idle), value(0.5));
        assert_eq!(of(&Reading::Idle, &unknown("no series")), unknown("no series"));
    }

    #[test]
    fn an_unknown_latency_may_grow_the_fleet_and_never_shrink_it() {
        let why = unknown("no series");
        assert_eq!(of(&value(1.8), &why), value(0.6));
        assert_eq!(of(&why, &value(0.0625)), value(0.625));
        // A promise of one second makes the share exact.
        let latency = |reading| Some(Latency { reading, target: Target::new(1.0).unwrap() });
        let up_at = Target::new(0.55).unwrap();
        assert_eq!(saturation(latency(&value(0.55)), latency(&why), up_at), why, "at the upper mark it is still within the band");
        assert_eq!(of(&value(0.3), &why), why);
        assert_eq!(of(&why, &why), why);
        assert_eq!(of(&unknown("a"), &unknown("b")), unknown("a; b"));
    }

    #[test]
    fn what_was_not_promised_does_not_count() {
        let target = |x| Target::new(x).unwrap();
        for reading in [value(3.0), Reading::Idle, unknown("no series")] {
            let latency = Some(Latency { reading: &reading, target: target(1.0) });
            assert_eq!(saturation(latency, None, target(0.55)), reading);
            assert_eq!(saturation(None, latency, target(0.55)), reading);
        }
        assert!(saturation(None, None, target(0.55)).is_unknown());
    }

    #[test]
    fn the_smallest_promise_and_the_largest_latency() {
        let (most, least) = (value(f64::MAX), Target::new(f64::MIN_POSITIVE).unwrap());
        let latency = Some(Latency { reading: &most, target: least });
        assert_eq!(saturation(latency, None, least), value(f64::MAX));
    }

    /// The mean at each of these syncs, in seconds, at one sync every 15 s and over 45 s.
    fn means(syncs: &[(i64, f64)]) -> Vec<f64> {
        let mut samples = Vec::new();
        let mean = |(at, value): &(i64, f64)| {
            let (window, period, now) = (Duration::from_secs(45), Duration::from_secs(15), Time::from_millis(at * 1000));
            smooth(&mut samples, Measurement::new(*value).unwrap(), window, period, now).get()
        };
        syncs.iter().map(mean).collect()
    }

    fn assert_close(actual: &[f64], expected: &[f64]) {
        assert!(
            actual.len() == expected.len() && actual.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9),
            "{actual:?} {expected:?}"
        );
    }

    #[test]
    fn at_a_steady_pace_it_is_the_mean_of_the_last_three() {
        assert_close(&means(&[(0, 0.2), (15, 0.4), (30, 0.9), (45, 0.5), (60, 0.1)]), &[0.2, 0.3, 0.5, 0.6, 0.5]);
    }

    #[test]
    fn a_gap_weighs_one_period_and_is_no_zero() {
        // Two syncs were unknown: what stands at 45 s stands for 15 s of the 45, and what stands at 0 s has just aged out.
        assert_close(&means(&[(0, 2.0), (45, 0.5)]), &[2.0, 0.5]);
        assert_close(&means(&[(0, 2.0), (30, 0.5)]), &[2.0, 1.25]);
    }

    #[test]
    fn samples_weigh_the_time_since_the_one_before_and_are_cut_at_the_window() {
        // 5 s of 1.0 and 15 s of 0.4.
        assert_close(&means(&[(0, 0.4), (5, 1.0)]), &[0.4, (15.0 * 0.4 + 5.0) / 20.0]);
        // At 40 s the sample of 0 s still reaches 5 s into the window.
        assert_close(&means(&[(0, 1.0), (15, 0.4), (40, 0.4)])[2..], &[(5.0 + 15.0 * 0.4 + 15.0 * 0.4) / 35.0]);
        // A second look at the same moment adds no time.
        assert_close(&means(&[(0, 1.0), (0, 0.0)]), &[1.0, 1.0]);
    }

    #[test]
    fn what_lies_ahead_is_dropped() {
        let at = |seconds: i64, x| SaturationSample { at: Time::from_millis(seconds * 1000), value: Measurement::new(x).unwrap() };
        let mut samples = vec![at(-45, 1.0), at(-44, 1.0), at(0, 1.0), at(5, 1.0)];
        prune(&mut samples, Duration::from_secs(45), Time::default());
        assert_eq!(samples, [at(-44, 1.0), at(0, 1.0)]);
        prune(&mut samples, Duration::ZERO, Time::default());
        assert_eq!(samples, []);
    }

    proptest! {
        #[test]
        fn a_mean_lies_among_its_samples(
            gaps in prop::collection::vec(0..60_000_i64, 1..20), values in prop::collection::vec(0.0..2.0_f64, 20),
            window in 1..120_u64, period in 0..60_u64,
        ) {
            let (mut samples, mut now) = (Vec::new(), 0);
            for (gap, value) in gaps.iter().zip(values) {
                now += gap;
                let value = Measurement::new(value).unwrap();
                let mean = smooth(&mut samples, value, Duration::from_secs(window), Duration::from_secs(period), Time::from_millis(now));
                let among = |order: fn(f64, f64) -> f64| samples.iter().map(|sample| sample.value.get()).reduce(order).unwrap();
                prop_assert!(mean.get() >= among(f64::min) - 1e-12 && mean.get() <= among(f64::max) + 1e-12);
            }
        }

        /// Whoever writes the rule down as an integral of what was known gets the same.
        #[test]
        fn the_mean_is_that_of_the_time_covered(gaps in prop::collection::vec(0..40_i64, 1..12), values in prop::collection::vec(0.0..2.0_f64, 12)) {
            let mut at = 0;
            let syncs: Vec<(i64, f64)> = gaps.iter().zip(values).map(|(gap, value)| { at += gap; (at, value) }).collect();
            let means = means(&syncs);
            for (index, (now, _)) in syncs.iter().enumerate() {
                let covers = |second: i64| {
                    let covered = |i: &usize| {
                        let (end, begin) = (syncs[*i].0, if *i == 0 { syncs[0].0 - 15 } else { syncs[i - 1].0.max(syncs[*i].0 - 15) });
                        begin < second && second <= end
                    };
                    (0..=index).find(covered).map(|i| syncs[i].1)
                };
                let known: Vec<f64> = (now - 44..=*now).filter_map(covers).collect();
                let expected = known.iter().sum::<f64>() / known.len() as f64;
                prop_assert!((means[index] - expected).abs() < 1e-9, "{} {} {:?}", means[index], expected, syncs);
            }
        }
    }
}
