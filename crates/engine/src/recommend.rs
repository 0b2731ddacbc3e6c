//! Stage *recommend*: each source proposes a count, and the largest known proposal wins.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::decide::Step;
use crate::headroom::Asked;
use crate::saturation::smooth;
use crate::wording::counted;
use crate::{
    Band, Behavior, Condition, Law, Measurement, Memory, Observation, Reading, ReadingState, ReadingTrace, Reason, Replicas,
    SaturationSample, Source, Spec, Target, Time, Workload,
};

/// Room for rounding noise at the ends of the tolerance band, relative.
const BAND_NOISE: f64 = 1e-9;

/// What the stage hands on.
pub(crate) struct Recommended {
    pub step: Step,
    pub readings: Vec<ReadingTrace>,
    pub activity: Activity,
    /// Those of [`Law::Headroom`].
    pub conditions: Vec<Condition>,
}

/// Whether there is work for the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Activity {
    /// Some source is active.
    Active,
    /// Every source is known, and none is active.
    Inactive,
    /// No known source is active, and some source is unknown.
    Unknown,
}

/// Reads every source and takes the largest known proposal. Notes in `memory` which sources failed, how saturated the pool is,
/// and what the headroom law learns.
pub(crate) fn recommend(spec: &Spec, seen: &Observation, memory: &mut Memory, now: Time) -> Recommended {
    let current = seen.workload.replicas;
    let mut readings = Vec::with_capacity(spec.sources.len());
    let mut largest: Option<(Replicas, usize)> = None;
    let mut conditions = vec![];
    let (mut any_active, mut any_unknown, mut required_unknown, mut too_long) = (false, false, None, None);

    for (index, source) in spec.sources.iter().enumerate() {
        let mut state = match seen.readings.get(index) {
            Some(Reading::Value(value)) => ReadingState::Value(*value),
            Some(Reading::Idle) => ReadingState::Idle,
            Some(Reading::Unknown(why)) => ReadingState::Unknown(why.clone()),
            None => ReadingState::Unknown("there is no reading for it".to_owned()),
        };
        if let Law::Band(band) = source.law {
            state = settle(band, state, &mut memory.saturation, spec.sync_period, now);
        }
        let (proposal, account, activity) = match source.law {
            Law::Headroom(law) => {
                let asked = law.tick(seen, seen.readings.get(index), spec.bounds, &mut memory.headroom, now);
                Asked { state, conditions, .. } = asked;
                (asked.replicas, asked.account, asked.activity)
            }
            law => {
                let proposal = propose(source, &state, &seen.workload, spec.behavior.as_ref());
                let account = match (law, &state) {
                    (Law::Band(band), ReadingState::Value(value)) => {
                        Some(band.account(*value, seen.workload.replicas, seen.workload.ready))
                    }
                    _ => None,
                };
                (proposal, account, activity(source, &state))
            }
        };
        any_active |= activity == Activity::Active;
        any_unknown |= activity == Activity::Unknown;
        match proposal {
            Some(count) => {
                memory.failures.remove(&source.name);
                if largest.is_none_or(|(best, _)| count > best) {
                    largest = Some((count, index));
                }
            }
            None => {
                let row = count_failure(&mut memory.failures, &source.name);
                any_unknown = true;
                if source.required {
                    required_unknown.get_or_insert(index);
                }
                if spec.fallback.is_some_and(|fallback| row > fallback.failure_threshold) {
                    too_long.get_or_insert(index);
                }
            }
        }
        let target = source.law.target().map(Target::get);
        readings.push(ReadingTrace { name: source.name.clone(), state, target, replicas: proposal, account });
    }
    memory.failures.retain(|name, _| spec.sources.iter().any(|source| &source.name == name));

    let mut step = match largest {
        Some((count, index)) => Step::new(count, Reason::ValidMetricFound, winner(spec, &readings, index, seen)),
        None => Step::new(current, Reason::FailedGetMetrics, nothing_known(&readings, current)),
    };
    if let Some(index) = required_unknown
        && step.out < current
    {
        step = Step::new(
            current,
            Reason::RequiredMetricUnknown,
            format!("{} is required and unknown, so the fleet keeps its {}", readings[index].name, counted(current.get(), "replica")),
        );
    }
    if let (Some(index), Some(fallback)) = (too_long, spec.fallback)
        && step.out < fallback.replicas
    {
        let (name, count) = (&readings[index].name, fallback.replicas);
        step = Step::new(
            count,
            Reason::FallbackReplicas,
            format!(
                "{name} has been unknown for more than {}, so at least the fallback of {count} is asked for",
                counted(fallback.failure_threshold, "sync")
            ),
        );
    }
    let activity = match (any_active, any_unknown) {
        (true, _) => Activity::Active,
        (false, true) => Activity::Unknown,
        (false, false) => Activity::Inactive,
    };
    Recommended { step, readings, activity, conditions }
}

/// What a band compares with its marks: the reading clamped and, where it smooths, averaged with those before it.
fn settle(band: Band, state: ReadingState, samples: &mut Vec<SaturationSample>, sync_period: Duration, now: Time) -> ReadingState {
    let clamped = match &state {
        ReadingState::Value(value) => band.clamped(*value),
        ReadingState::Idle => Measurement::ZERO,
        ReadingState::Unknown(_) => return state,
    };
    let value = band.smoothing().map_or(clamped, |window| smooth(samples, clamped, window, sync_period, now));
    if state == ReadingState::Idle { state } else { ReadingState::Value(value) }
}

/// Adds one to the row of failures of `name`, without a new string when there is an entry.
fn count_failure(failures: &mut BTreeMap<String, u32>, name: &str) -> u32 {
    match failures.get_mut(name) {
        Some(row) => {
            *row = row.saturating_add(1);
            *row
        }
        None => {
            failures.insert(name.to_owned(), 1);
            1
        }
    }
}

/// The count that one source asks for; `None` while it is unknown.
fn propose(source: &Source, state: &ReadingState, workload: &Workload, behavior: Option<&Behavior>) -> Option<Replicas> {
    let value = match state {
        ReadingState::Unknown(_) => return None,
        ReadingState::Idle => return Some(Replicas::ZERO),
        ReadingState::Value(value) => *value,
    };
    let (saturation, value) = (value, value.get());
    let within = |ratio: f64| workload.replicas > Replicas::ZERO && behavior.is_some_and(|rules| rules.tolerates(ratio));
    Some(match source.law {
        Law::Ratio { target } => {
            let (ratio, base) = (value / target.get(), baseline(workload));
            if within(ratio) { base } else { Replicas::ceil(base.as_f64() * ratio) }
        }
        Law::Average { target } => {
            let ratio = value / (target.get() * workload.replicas.as_f64());
            if within(ratio) { workload.replicas } else { Replicas::ceil(value / target.get()) }
        }
        Law::Band(band) => band.replicas(saturation, workload.replicas, workload.ready),
        // Asked already, with more than a reading.
        Law::Headroom(_) => return None,
        Law::Absolute => Replicas::ceil(value),
    })
}

/// The replicas that a figure per replica was measured on: those that are ready, and one when none is.
fn baseline(workload: &Workload) -> Replicas {
    workload.ready.max(Replicas::ONE)
}

impl Behavior {
    /// Whether a metric that is so many times its target asks for nothing: both ends of the tolerance belong to it, and rounding noise
    /// keeps no ratio out.
    #[must_use]
    pub fn tolerates(&self, ratio: f64) -> bool {
        let (low, high) = (1.0 - self.down.tolerance.get(), 1.0 + self.up.tolerance.get());
        (low - BAND_NOISE..=high + BAND_NOISE).contains(&ratio)
    }
}

/// Whether one source has work for the fleet, of a law that its reading tells.
fn activity(source: &Source, state: &ReadingState) -> Activity {
    let active = match (state, source.law) {
        (ReadingState::Unknown(_), _) => return Activity::Unknown,
        (ReadingState::Idle, _) => false,
        (ReadingState::Value(count), Law::Absolute) => count.get() > 0.0,
        // Only a pool that is proved idle has no latency.
        (ReadingState::Value(_), Law::Band(_)) => true,
        (ReadingState::Value(value), _) => source.activation.exceeded_by(*value),
    };
    if active { Activity::Active } else { Activity::Inactive }
}

fn winner(spec: &Spec, readings: &[ReadingTrace], index: usize, seen: &Observation) -> String {
    let (source, reading) = (&spec.sources[index], &readings[index]);
    let (name, count) = (&reading.name, reading.replicas.unwrap_or_default());
    let mut said = match (&reading.state, source.law) {
        (ReadingState::Value(value), Law::Ratio { target }) => {
            format!("{name} {} against {} over {} asks for {count}", shown(*value), target.get(), base_in_words(&seen.workload))
        }
        (ReadingState::Value(value), Law::Average { target }) => {
            format!("{name} {} at {} a replica asks for {count}", shown(*value), target.get())
        }
        (ReadingState::Value(_), Law::Band(_)) | (_, Law::Headroom(_)) => {
            format!("{name}: {}", reading.account.as_deref().unwrap_or_default())
        }
        (ReadingState::Value(_), Law::Absolute) => format!("{name} asks for {count}"),
        _ => format!("{name} is idle"),
    };
    let unknown: Vec<&str> = readings.iter().filter(|r| r.replicas.is_none()).map(|r| r.name.as_str()).collect();
    if !unknown.is_empty() {
        said.push_str("; unknown: ");
        said.push_str(&unknown.join(", "));
    }
    said
}

fn base_in_words(workload: &Workload) -> String {
    match workload.ready.get() {
        0 => "a base of 1, none being ready,".to_owned(),
        n => counted(n, "ready replica"),
    }
}

/// A value as people read it: with four significant digits, and as a power of ten where zeros would only be counted.
pub(crate) fn shown(value: Measurement) -> String {
    let rounded = rounded(value);
    if rounded == 0.0 || (1e-9..1e15).contains(&rounded.abs()) { rounded.to_string() } else { format!("{rounded:e}") }
}

fn rounded(value: Measurement) -> f64 {
    let value = value.get();
    if value == 0.0 {
        return 0.0;
    }
    let scale = 10f64.powi(3 - value.abs().log10().floor() as i32);
    let rounded = (value * scale).round() / scale;
    if rounded.is_finite() { rounded } else { value }
}

fn nothing_known(readings: &[ReadingTrace], current: Replicas) -> String {
    let kept = counted(current.get(), "replica");
    match readings {
        [] => format!("there is no source of recommendations, so the fleet keeps its {kept}"),
        [ReadingTrace { name, state: ReadingState::Unknown(why), .. }] => {
            format!("{name} is unknown, so the fleet keeps its {kept}: {why}")
        }
        _ => {
            let names: Vec<&str> = readings.iter().map(|r| r.name.as_str()).collect();
            let why = readings.iter().find_map(|r| match &r.state {
                ReadingState::Unknown(why) => Some(why.as_str()),
                _ => None,
            });
            format!("{} are all unknown, so the fleet keeps its {kept}; the first: {}", names.join(", "), why.unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_replica_is_kept_as_one() {
        for (current, kept) in [(0, "keeps its 0 replicas"), (1, "keeps its 1 replica"), (2, "keeps its 2 replicas")] {
            let said = nothing_known(&[], Replicas::new(current));
            assert!(said.ends_with(kept), "{said}");
        }
    }

    #[test]
    fn values_are_shown_with_four_digits() {
        for (value, text) in [(0.812_345, 0.8123), (1234.56, 1235.0), (0.0, 0.0), (1e300, 1e300), (5e-324, 5e-324)] {
            let rounded = rounded(Measurement::new(value).unwrap());
            assert!((rounded - text).abs() <= text * 1e-3, "{value}: {rounded}");
        }
        let shown = |value| shown(Measurement::new(value).unwrap());
        for (value, text) in [(0.0, "0"), (0.812_345, "0.8123"), (1234.56, "1235"), (98_765.0, "98770"), (2.5e-9, "0.0000000025")] {
            assert_eq!(shown(value), text);
        }
        assert_eq!([1e14, 1e15, 1e-9, 2.5e-10].map(shown), ["100000000000000", "1e15", "0.000000001", "2.5e-10"], "zeros are not counted");
        assert!([1e300, 5e-324].map(shown).iter().all(|text| text.len() < 24));
    }
}
