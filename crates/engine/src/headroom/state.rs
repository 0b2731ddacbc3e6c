//! What the law remembers from one tick to the next.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::TICK;
use super::answer::LastTick;
use super::growth::Growth;
use super::hold::Hold;
use super::missing::Missing;
use super::numbers::within;
use super::outcome::Outcome;
use super::plan::YOUNG;
use super::shape::Shape;
use super::shortfall::Shortfall;
use super::work::{Calibration, Serving};
use crate::{Headroom, Replicas, Time, Workload};

/// Seconds from the creation of a pod to its readiness until one was seen.
const UNSEEN_WARMUP: f64 = 100.0;
/// The longest warm-up that is believed, in seconds; the rings, and with them the work of a tick, grow with it.
const LONGEST_WARMUP: f64 = 3600.0;

/// What the headroom law remembers, opaque to everybody else: the shape of requests, what was learned of the engine and of late
/// requests, the loads and needs of the last hours, and the last answer. Losing it costs five cautious minutes; a restart never shrinks a
/// fleet earlier.
///
/// It has some 600 numbers, and fewer than 3000 at any warm-up. Any values are fit to be read: what lies out of range counts as
/// the nearest that does not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeadroomState {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_tick: Option<LastTick>,
    /// Age: seconds that were planned with, up to [`YOUNG`]. What was missing has taught nothing, so no time passes meanwhile.
    known: f64,
    /// last_n: replicas at the last tick.
    pub(super) last_replicas: Replicas,
    /// Ticks in a row in which as many replicas were ready as asked for, and as many asked for as before.
    stable: u32,
    /// T_w in seconds; `None` until one was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    warmup: Option<f64>,
    pub(super) shape: Shape,
    pub(super) calibration: Calibration,
    pub(super) growth: Growth,
    pub(super) outcome: Outcome,
    pub(super) hold: Hold,
    /// Ticks in a row that needed more than the maximum; `None` while it is not known what is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) above_max: Option<u32>,
    pub(super) missing: Missing,
    /// More finishes than can arrive; `None` while it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shortfall: Option<Shortfall>,
}

impl HeadroomState {
    /// A state that knows nothing.
    pub(super) fn new(law: &Headroom) -> Self {
        Self {
            last_tick: None,
            known: 0.0,
            last_replicas: Replicas::ZERO,
            stable: 0,
            warmup: None,
            shape: Shape::default(),
            calibration: Calibration::default(),
            growth: Growth::default(),
            outcome: Outcome::new(law),
            hold: Hold::default(),
            above_max: None,
            missing: Missing::default(),
            shortfall: None,
        }
    }

    /// Step 0: notes how the fleet is.
    pub(super) fn note(&mut self, workload: &Workload) -> Serving {
        let asked = workload.replicas;
        // More than asked for, as in a rollout that surges, is not as planned either.
        let as_planned = workload.ready == asked && asked == self.last_replicas;
        self.stable = if as_planned { self.stable.saturating_add(1) } else { 0 };
        self.last_replicas = asked;
        if let Some(warmup) = workload.warmup {
            self.warmup = Some(within(warmup.as_secs_f64(), 0.0, LONGEST_WARMUP));
        }
        Serving { ready: workload.ready.min(asked).as_f64(), stable: self.stable }
    }

    /// T_w in seconds.
    pub(super) fn warmup(&self) -> f64 {
        self.warmup.unwrap_or(UNSEEN_WARMUP)
    }

    /// Counts a tick that has something to plan with: the time since the last one, up to a tick's. The first such tick has none.
    pub(super) fn grow_older(&mut self, now: Time) {
        if !self.hold.is_empty() {
            self.known = (self.known + self.passed(now)).min(YOUNG.as_secs_f64());
        }
    }

    /// Seconds since the last tick, up to a tick's: what happened meanwhile was not seen for longer.
    pub(super) fn passed(&self, now: Time) -> f64 {
        self.last_tick.as_ref().map_or(0.0, |last| now.since(last.at).as_secs_f64().min(TICK))
    }

    /// What proves that arrivals are not all counted.
    pub(super) fn proved_shortfall(&self) -> Option<&Shortfall> {
        self.shortfall.as_ref().filter(|shortfall| shortfall.is_proved())
    }

    /// How long a time has been planned with, up to [`YOUNG`].
    pub(super) fn age(&self) -> Duration {
        Duration::from_secs_f64(self.known)
    }

    /// Makes what was written by hand fit for use.
    pub(super) fn tidy(&mut self, now: Time) {
        // A tick that is yet to come is on another clock.
        if self.last_tick.as_ref().is_some_and(|last| last.at > now) {
            self.last_tick = None;
        }
        self.known = within(self.known, 0.0, YOUNG.as_secs_f64());
        self.warmup = self.warmup.map(|warmup| within(warmup, 0.0, LONGEST_WARMUP));
        self.shape.tidy();
        self.calibration.tidy();
        self.growth.tidy();
        self.outcome.tidy();
        self.hold.tidy();
        self.missing.tidy(now);
        if let Some(shortfall) = &mut self.shortfall {
            shortfall.tidy();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::Answer;
    use super::*;
    use crate::recommend::Activity;
    use crate::tests::headroom::law;

    fn fleet(replicas: u32, ready: u32) -> Workload {
        Workload { replicas: Replicas::new(replicas), ready: Replicas::new(ready), ..Workload::default() }
    }

    fn state() -> HeadroomState {
        HeadroomState::new(&law())
    }

    #[test]
    fn stable_is_as_planned_for_some_time() {
        let mut state = state();
        let stable: Vec<u32> = [(4, 4), (4, 4), (4, 5), (4, 3), (4, 4), (5, 5), (5, 5), (0, 0), (0, 0)]
            .into_iter()
            .map(|(replicas, ready)| state.note(&fleet(replicas, ready)).stable)
            .collect();
        assert_eq!(stable, [0, 1, 0, 0, 1, 0, 1, 0, 1], "a fifth of a rollout serves as well");
    }

    #[test]
    fn the_last_warm_up_counts() {
        let mut state = state();
        assert_eq!(state.warmup(), 100.0);
        state.note(&Workload { warmup: Some(Duration::from_secs(42)), ..fleet(1, 1) });
        state.note(&fleet(1, 1));
        assert_eq!(state.warmup(), 42.0);
        state.note(&Workload { warmup: Some(Duration::MAX), ..fleet(1, 1) });
        assert_eq!(state.warmup(), 3600.0);
    }

    #[test]
    fn a_planned_tick_adds_the_time_since_the_last_one_but_no_more_than_a_ticks() {
        let mut state = state();
        let mut age_at = |millis| {
            state.tidy(Time::from_millis(millis));
            state.grow_older(Time::from_millis(millis));
            let at = Time::from_millis(millis);
            state.last_tick = Some(LastTick { at, activity: Activity::Unknown, answer: Answer::Unknown(String::new()) });
            state.hold.add(Replicas::ONE, 100.0);
            state.age().as_secs()
        };
        assert_eq!([0, 15_000, 25_000, 85_000, 5000, 20_000].map(&mut age_at), [0, 15, 25, 40, 40, 55], "a clock set back gives nothing");
        for tick in 3..100 {
            age_at(15_000 * tick);
        }
        assert_eq!(age_at(1_500_000), 900);
    }
}
