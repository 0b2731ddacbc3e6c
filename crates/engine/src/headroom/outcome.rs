//! Step 6: the safety margin z, learned from requests that were late.

use serde::{Deserialize, Serialize};

use super::inputs::Inputs;
use super::numbers::{same, within};
use super::work::Serving;
use crate::{Headroom, Objective};

/// The largest z: beyond it replicas are no cure.
pub(super) const MOST_Z: f64 = 8.0;
/// Ticks that a fleet must have been as planned before lateness says anything of the plan.
const SETTLED: u32 = 4;
/// Requests that a tick must have for its share of late ones to mean something.
const FEWEST: f64 = 20.0;
/// How fast the usual number of requests, and the usual share of late ones, are learned.
const GAIN: f64 = 0.01;
/// No tick counts for more than this many usual ones.
const HEAVIEST_TICK: f64 = 2.0;
/// By how much a share of late requests moves z: 10 % of one tick by 0.3.
const Z_GAIN: f64 = 3.0;
/// No tick is taken to be later than this: a tick in which all is late says no more of z.
const LATEST: f64 = 0.1;
/// Of the lateness that was seen no more than this many times is excused: a profile that is too slow must excuse none that is not there.
const MOST_EXCUSED: f64 = 1.5;
/// Above this share of the plan the fleet was too small, whatever z is.
const ABOVE_PLAN: f64 = 1.05;
/// Below this share of the plan timely ticks do not lower z, but are set against late ones that come.
const BELOW_PLAN: f64 = 0.6;
/// So much of timeliness is kept at most: five ticks of 10 % late.
const MOST_CREDIT: f64 = 0.5;

/// What requests are late against.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Promise {
    ttft: f64,
    tpot: f64,
    objective: f64,
}

impl Promise {
    fn of(law: &Headroom) -> Self {
        Self { ttft: law.ttft.get(), tpot: law.tpot.get(), objective: law.objective.get() }
    }

    fn is(&self, other: &Self) -> bool {
        same(self.ttft, other.ttft) && same(self.tpot, other.tpot) && same(self.objective, other.objective)
    }

    /// Whether whoever keeps this one keeps the other.
    fn implies(&self, other: &Self) -> bool {
        self.ttft <= other.ttft && self.tpot <= other.tpot && self.objective >= other.objective
    }
}

/// What was learned from late requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Outcome {
    /// z: standard deviations of work that the plan has room for, 0 to 8.
    pub z: f64,
    /// navg: requests of a usual tick.
    #[serde(skip_serializing_if = "Option::is_none")]
    usual: Option<f64>,
    /// seen: share of requests whose first token is usually late.
    #[serde(skip_serializing_if = "Option::is_none")]
    seen: Option<f64>,
    /// debt, −0.5 to 0: what timely ticks below plan are set against.
    debt: f64,
    /// What all of this but navg was learned under.
    promise: Promise,
}

impl Outcome {
    pub(super) fn new(law: &Headroom) -> Self {
        Self { z: law.objective.first_margin(), usual: None, seen: None, debt: 0.0, promise: Promise::of(law) }
    }

    /// Forgets what was learned under another promise: what was late against that one says little of this one, and z begins where the
    /// objective sets it. A harder promise keeps a larger z, as what was late against the easier one is late against it, too.
    pub(super) fn promised(&mut self, law: &Headroom) {
        let new = Self::new(law);
        if !new.promise.is(&self.promise) {
            let z = if new.promise.implies(&self.promise) { new.z.max(self.z) } else { new.z };
            *self = Self { z, usual: self.usual, ..new };
        }
    }

    /// Learns from one tick, in which x0 = `planned` and a share `unreachable` (v) of the prompts was too long for any fleet.
    /// `clipped` is a fleet at its maximum, which says nothing of the plan.
    pub(super) fn learn(
        &mut self,
        inputs: &Inputs<'_>,
        fleet: Serving,
        planned: f64,
        unreachable: f64,
        objective: Objective,
        clipped: bool,
    ) {
        let (Some((late_ttft, of_ttft)), Some((late_tpot, of_tpot))) = (inputs.late_ttft, inputs.late_tpot) else { return };
        let requests = of_ttft.max(of_tpot);
        if fleet.stable < SETTLED || requests < FEWEST || clipped {
            return;
        }
        let usual = self.usual.map_or(requests, |usual| usual + GAIN * (requests - usual));
        self.usual = Some(usual);
        let weight = (requests / usual).min(HEAVIEST_TICK);
        let seen = self.seen.unwrap_or(unreachable);
        let seen = seen + GAIN * weight * (late_ttft - seen);
        self.seen = Some(seen);

        let excused = unreachable.min(MOST_EXCUSED * seen);
        let step = weight * ((late_ttft - excused + late_tpot).min(LATEST) - objective.tolerated());
        let used = planned / fleet.shared_by();
        if used < BELOW_PLAN {
            self.debt = (self.debt + step).max(-MOST_CREDIT);
            self.z = within(self.z + Z_GAIN * self.debt.max(0.0), 0.0, MOST_Z);
            self.debt = self.debt.min(0.0);
        } else if used <= ABOVE_PLAN {
            self.z = within(self.z + Z_GAIN * step, 0.0, MOST_Z);
        }
    }

    /// Makes what was written by hand fit for use.
    pub(super) fn tidy(&mut self) {
        self.z = within(self.z, 0.0, MOST_Z);
        self.usual = self.usual.map(|usual| within(usual, 1.0, 1e12));
        self.seen = self.seen.map(|seen| within(seen, 0.0, 1.0));
        self.debt = within(self.debt, -MOST_CREDIT, 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;
    use crate::tests::headroom::law;

    fn objective() -> Objective {
        Objective::new(0.99).unwrap()
    }

    fn late(ttft: f64, tpot: f64, of: f64) -> Inputs<'static> {
        Inputs { late_ttft: Some((ttft, of)), late_tpot: Some((tpot, of)), ..Inputs::default() }
    }

    /// Four replicas that have been as planned for long.
    fn learn(outcome: &mut Outcome, inputs: &Inputs<'_>, planned: f64, unreachable: f64) {
        outcome.learn(inputs, Serving { ready: 4.0, stable: 4 }, planned, unreachable, objective(), false);
    }

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
    }

    fn at(z: f64) -> Outcome {
        Outcome { z, ..Outcome::new(&law()) }
    }

    #[test]
    fn another_promise_begins_anew_with_the_usual_number_of_requests() {
        let learned = Outcome { z: 5.0, usual: Some(100.0), seen: Some(0.04), debt: -0.3, ..at(5.0) };
        let mut same = learned;
        same.promised(&law());
        assert_eq!(same, learned);
        let tighter = Headroom { tpot: Target::new(0.04).unwrap(), ..law() };
        let looser = Headroom { objective: Objective::new(0.98).unwrap(), ..law() };
        for (law, z) in [(tighter, 5.0), (looser, 1.750_686_071_3)] {
            let mut outcome = learned;
            outcome.promised(&law);
            assert!((outcome.z - z).abs() < 1e-6, "{}", outcome.z);
            assert_eq!(outcome, Outcome { z: outcome.z, usual: Some(100.0), ..Outcome::new(&law) });
        }
    }

    #[test]
    fn late_requests_at_plan_raise_z_and_timely_ones_lower_it() {
        for (ttft, tpot, planned, expected) in [
            (0.02, 0.01, 4.0, 2.0 + 3.0 * 0.025), // 0.03 − 0.005
            (0.5, 0.5, 4.0, 2.0 + 3.0 * 0.095),   // no more than 0.1
            (0.0, 0.0, 4.0, 2.0 - 3.0 * 0.005),
            (0.0, 0.0, 4.2, 2.0 - 3.0 * 0.005), // 1.05 of the plan
            (0.5, 0.5, 4.3, 2.0),               // more than the plan
            (0.0, 0.0, 2.3, 2.0),               // less than 0.6 of it
        ] {
            let mut outcome = at(2.0);
            learn(&mut outcome, &late(ttft, tpot, 100.0), planned, 0.0);
            close(outcome.z, expected);
        }
    }

    #[test]
    fn below_plan_timely_ticks_are_set_against_late_ones() {
        let mut outcome = at(2.0);
        for _ in 0..3 {
            learn(&mut outcome, &late(0.0, 0.0, 100.0), 2.0, 0.0);
        }
        close(outcome.debt, -0.015);
        learn(&mut outcome, &late(0.01, 0.0, 100.0), 2.0, 0.0); // 0.01 − 0.005: still −0.01
        close(outcome.debt, -0.01);
        close(outcome.z, 2.0);
        learn(&mut outcome, &late(0.03, 0.0, 100.0), 2.0, 0.0); // −0.01 + 0.025
        close(outcome.debt, 0.0);
        close(outcome.z, 2.0 + 3.0 * 0.015);
        outcome.debt = -0.499;
        learn(&mut outcome, &late(0.0, 0.0, 100.0), 2.0, 0.0);
        close(outcome.debt, -0.5);
    }

    #[test]
    fn what_no_fleet_could_serve_in_time_is_excused_as_far_as_it_is_seen() {
        // seen starts at v = 0.04 and moves by 0.01 to 0.0401 (0.05 late): v itself is excused. 0.05 − 0.04 − 0.005 = 0.005.
        let mut outcome = at(2.0);
        learn(&mut outcome, &late(0.05, 0.0, 100.0), 4.0, 0.04);
        close(outcome.seen.unwrap(), 0.0401);
        close(outcome.z, 2.0 + 3.0 * 0.005);
        // A usual share of 0.01: 0.01 + 0.01 × (0.02 − 0.01) = 0.0101, so 0.01515 is excused of 0.2. 0.02 − 0.01515 − 0.005.
        let mut outcome = Outcome { seen: Some(0.01), ..at(2.0) };
        learn(&mut outcome, &late(0.02, 0.0, 100.0), 4.0, 0.2);
        close(outcome.z, 2.0 + 3.0 * (0.02 - 0.015_15 - 0.005));
    }

    #[test]
    fn a_busier_tick_weighs_more() {
        // navg = 100 + 0.01 × (150 − 100) = 100.5; m = 150 ÷ 100.5.
        let mut outcome = Outcome { usual: Some(100.0), ..at(2.0) };
        learn(&mut outcome, &late(0.0, 0.0, 150.0), 4.0, 0.0);
        close(outcome.z, 2.0 - 3.0 * 0.005 * 150.0 / 100.5);
        // navg = 109; m = min(2, 1000 ÷ 109).
        let mut outcome = Outcome { usual: Some(100.0), ..at(2.0) };
        learn(&mut outcome, &late(0.0, 0.0, 1000.0), 4.0, 0.0);
        close(outcome.z, 2.0 - 3.0 * 0.005 * 2.0);
    }

    #[test]
    fn what_says_nothing_of_the_plan_is_not_learned() {
        let all_late = late(0.5, 0.5, 100.0);
        let untouched = |inputs: Inputs<'_>, stable, clipped| {
            let mut outcome = at(2.0);
            outcome.learn(&inputs, Serving { ready: 4.0, stable }, 4.0, 0.0, objective(), clipped);
            outcome == at(2.0)
        };
        assert!(!untouched(all_late, 4, false));
        assert!(untouched(all_late, 3, false), "the fleet has just changed");
        assert!(untouched(all_late, 4, true), "there is no larger fleet");
        assert!(untouched(late(0.5, 0.5, 19.0), 4, false), "too few requests");
        assert!(untouched(Inputs { late_tpot: None, ..all_late }, 4, false), "half of the story");
        let ttft_alone = Inputs { late_tpot: Some((0.0, 0.0)), ..late(0.5, 0.5, 20.0) };
        assert!(!untouched(ttft_alone, 4, false), "the larger count matters");
    }

    #[test]
    fn z_stays_between_0_and_8() {
        let mut outcome = at(7.9);
        learn(&mut outcome, &late(0.9, 0.9, 100.0), 4.0, 0.0);
        assert_eq!(outcome.z, 8.0);
        let mut outcome = at(0.01);
        learn(&mut outcome, &late(0.0, 0.0, 100.0), 4.0, 0.0);
        assert_eq!(outcome.z, 0.0);
    }
}
