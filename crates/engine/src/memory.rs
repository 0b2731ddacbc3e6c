//! What is carried from one decision to the next.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::saturation;
use crate::{HeadroomState, Law, Replicas, SaturationSample, Spec, Time};

/// What is carried from one decision to the next: a plain value, handed in and out.
///
/// The default is a memory that knows nothing, as after a restart. It never makes the engine shrink earlier.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Memory {
    /// [`crate::Workload::identity`] of the workload that all of this belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// The bounded count of each sync, oldest first. `None` when nothing is known; an empty list is a known, empty history.
    pub recommendations: Option<Vec<Recommendation>>,
    /// Writes that were made, oldest first.
    pub scale_events: Vec<ScaleEvent>,
    /// When a source was last active.
    pub last_active_at: Option<Time>,
    /// Syncs in a row in which a source was unknown, by source; a source that is known has no entry.
    pub failures: BTreeMap<String, u32>,
    /// Saturation at earlier syncs, clamped, oldest first. Kept only for a [`Law::Band`] that smooths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub saturation: Vec<SaturationSample>,
    /// What [`Law::Headroom`] has learned. Kept only for that law.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headroom: Option<Box<HeadroomState>>,
}

/// The bounded count of one sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recommendation {
    /// When.
    pub at: Time,
    /// How many.
    pub replicas: Replicas,
}

/// One write that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScaleEvent {
    /// When.
    pub at: Time,
    /// The new count less the old one.
    pub change: i32,
}

impl Memory {
    /// Notes a write that was made. Call it only once the write has succeeded.
    ///
    /// With document A's scale-down window a downward write starts the window again from the count written.
    pub fn record_write(&mut self, spec: &Spec, now: Time, from: Replicas, to: Replicas) {
        self.scale_events.push(ScaleEvent { at: now, change: to.change_from(from) });
        if to < from && spec.behavior.is_none() && !spec.scale_down.window.is_zero() {
            self.recommendations = Some(vec![Recommendation { at: now, replicas: to }]);
        }
    }

    /// This memory as far as it belongs to the workload `identity`, sorted by time.
    pub(crate) fn of_workload(&self, identity: Option<&String>) -> Self {
        let other = matches!((&self.workload, identity), (Some(mine), Some(theirs)) if mine != theirs);
        let mut memory = if other { Self::default() } else { self.clone() };
        memory.workload = identity.cloned().or(memory.workload);
        if let Some(recommendations) = &mut memory.recommendations {
            // A stable sort of what is sorted already costs one pass.
            recommendations.sort_by_key(|entry| entry.at);
        }
        memory.scale_events.sort_by_key(|event| event.at);
        memory.saturation.sort_by_key(|sample| sample.at);
        memory
    }

    /// Forgets what no rule of `spec` can look back to any more.
    pub(crate) fn prune(&mut self, spec: &Spec, now: Time) {
        let (window, period) = match &spec.behavior {
            None => (spec.scale_down.window, Duration::ZERO),
            Some(behavior) => {
                let periods = behavior.up.policies.iter().chain(&behavior.down.policies).map(|policy| policy.period);
                (behavior.up.window.max(behavior.down.window), periods.max().unwrap_or_default())
            }
        };
        if let Some(recommendations) = &mut self.recommendations {
            recommendations.retain(|entry| now.since(entry.at) < window || entry.at == now);
        }
        // Events are kept for the longest period that a policy may have, so that a behavior added later finds them.
        let period = period.max(LONGEST_POLICY_PERIOD);
        self.scale_events.retain(|event| now.since(event.at) < period);
        let smoothing = spec.sources.iter().find_map(|source| match source.law {
            Law::Band(band) => band.smoothing(),
            _ => None,
        });
        saturation::prune(&mut self.saturation, smoothing.unwrap_or_default(), now);
        if spec.headroom().is_none() {
            self.headroom = None;
        }
    }
}

/// autoscaling/v2 allows no longer `periodSeconds`.
const LONGEST_POLICY_PERIOD: Duration = Duration::from_secs(1800);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{spec, window};
    use crate::{Behavior, Measurement, Policy, PolicyLimit, ScalingRules, SelectPolicy};

    #[test]
    fn only_a_downward_write_under_the_window_of_scale_down_starts_it_again() {
        let rules = ScalingRules { window: Duration::ZERO, select: SelectPolicy::Max, policies: vec![], tolerance: Measurement::ZERO };
        let behavior = Behavior { up: rules.clone(), down: rules };
        let at = |seconds: i64| Time::from_millis(seconds * 1000);
        let asked = |seconds, replicas| Recommendation { at: at(seconds), replicas: Replicas::new(replicas) };
        let before = [asked(0, 8), asked(45, 5)];
        let again = [asked(60, 6)];
        for (seconds, behavior, from, expected, why) in [
            (300, None, 8, &again[..], "down"),
            (300, None, 6, &before, "no change"),
            (300, None, 4, &before, "up: what was needed before still is"),
            (0, None, 8, &before, "there is no window"),
            (300, Some(&behavior), 8, &before, "autoscaling/v2 never starts a window again"),
            (300, Some(&behavior), 4, &before, "in neither direction"),
        ] {
            let spec = Spec { scale_down: window(seconds, 0), behavior: behavior.cloned(), ..spec(&[1.0]) };
            let mut memory = Memory { recommendations: Some(before.to_vec()), ..Memory::default() };
            memory.record_write(&spec, at(60), Replicas::new(from), Replicas::new(6));
            assert_eq!(memory.recommendations.as_deref(), Some(expected), "{why}");
            assert_eq!(memory.scale_events, [ScaleEvent { at: at(60), change: 6_i32.saturating_sub_unsigned(from) }], "{why}");
        }
    }

    #[test]
    fn what_no_rule_looks_back_to_is_forgotten() {
        let at = |seconds: i64| Time::from_millis(seconds * 1000);
        let rules = |window, period| ScalingRules {
            window: Duration::from_secs(window),
            select: SelectPolicy::Max,
            policies: vec![Policy { limit: PolicyLimit::Pods(1), period: Duration::from_secs(period) }],
            tolerance: Measurement::ZERO,
        };
        let ages = [2000, 1800, 1799, 300, 299, 120, 119, 0];
        let behavior = |up, down| Some(Behavior { up: rules(up, 60), down: rules(down, 60) });
        for (seconds, behavior, kept) in [
            (0, None, &[0][..]),
            (120, None, &[119, 0]),
            (120, behavior(300, 60), &[299, 120, 119, 0]),
            (3600, behavior(60, 120), &[119, 0]),
        ] {
            let spec = Spec { scale_down: window(seconds, 0), behavior, ..spec(&[1.0]) };
            let mut memory = Memory {
                recommendations: Some(ages.map(|age| Recommendation { at: at(-age), replicas: Replicas::ONE }).to_vec()),
                scale_events: ages.map(|age| ScaleEvent { at: at(-age), change: 1 }).to_vec(),
                ..Memory::default()
            };
            memory.prune(&spec, at(0));
            let recommendations = memory.recommendations.unwrap_or_default();
            assert_eq!(recommendations.iter().map(|entry| -entry.at.as_millis() / 1000).collect::<Vec<_>>(), kept);
            // A behavior that is yet to come may look back to these.
            assert_eq!(memory.scale_events.iter().map(|event| -event.at.as_millis() / 1000).collect::<Vec<_>>(), ages[2..]);
        }
    }
}
