//! Arrivals that cannot be right, as more requests finish.

use serde::{Deserialize, Serialize};

use super::inputs::Inputs;
use super::numbers::within;
use super::work::COMPLETIONS;

/// More than so many times of what arrives cannot finish for long.
const TIMES: f64 = 1.5;
/// Nor so many requests per second beyond that: a few completions are no rate.
const BEYOND: f64 = 0.5;
/// So many seconds it can: after a fall requests run on, and a queue is worked off.
const CAN_LAST: f64 = 300.0;
/// A tick in which completions fall by more than this share of what they would if nothing finished any more adds nothing: only their window
/// lags.
const LAGS: f64 = 0.5;
/// After so many seconds without it arrivals are believed again: by then their own window holds nothing else.
const RIGHT_FOR: f64 = 60.0;

/// More finishes than can arrive.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Shortfall {
    /// Requests that finish per second, when more did last.
    finishing: f64,
    /// λ60 then.
    arriving: f64,
    /// For how many seconds it has been seen.
    seconds: f64,
    /// For how many seconds it has not been seen any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    right: Option<f64>,
}

impl Shortfall {
    /// What this tick, `passed` seconds after the last one, makes of the one `before`. Where either rate is unknown nothing is learned.
    pub(super) fn next(before: Option<Self>, inputs: &Inputs<'_>, passed: f64) -> Option<Self> {
        let (Some((done, _)), Some(arriving)) = (inputs.finished, inputs.rate) else { return before };
        let finishing = done / COMPLETIONS;
        if finishing > TIMES * arriving + BEYOND {
            let seconds = before.map_or(0.0, |before| {
                let lags = finishing < before.finishing * (1.0 - LAGS * passed / COMPLETIONS);
                before.seconds + if lags { 0.0 } else { passed }
            });
            return Some(Self { finishing, arriving, seconds, right: None });
        }
        let proved = before.filter(Self::is_proved)?;
        let right = proved.right.map_or(0.0, |right| right + passed);
        (right < RIGHT_FOR).then_some(Self { right: Some(right), ..proved })
    }

    /// Whether it has lasted for longer than sound counters can explain.
    pub(super) fn is_proved(&self) -> bool {
        self.seconds >= CAN_LAST
    }

    /// What was seen, and what it means.
    pub(super) fn text(&self) -> String {
        let Self { finishing, arriving, seconds, .. } = self;
        format!("{finishing:.1} requests a second finish, and {arriving:.1} arrive, for {seconds:.0} s: arrivals are not all counted")
    }

    /// Makes what was written by hand fit for use.
    pub(super) fn tidy(&mut self) {
        for number in [&mut self.finishing, &mut self.arriving, &mut self.seconds].into_iter().chain(&mut self.right) {
            *number = within(*number, 0.0, 1e12);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many requests finished in 120 s, and so many arrive per second.
    fn rates(done: f64, arriving: f64) -> Inputs<'static> {
        Inputs { finished: Some((done, 0.0)), rate: Some(arriving), ..Inputs::default() }
    }

    fn after(ticks: &[(Inputs<'_>, f64)]) -> Option<Shortfall> {
        ticks.iter().fold(None, |before, (inputs, passed)| Shortfall::next(before, inputs, *passed))
    }

    fn is_proved(ticks: &[(Inputs<'_>, f64)]) -> bool {
        after(ticks).is_some_and(|shortfall| shortfall.is_proved())
    }

    #[test]
    fn what_counts_as_more() {
        for (done, arriving, more, why) in [
            (10_800.0, 0.0, true, "the counter stands still"),
            (10_800.0, 9.0, true, "it sees a tenth"),
            (10_800.0, 90.0, false, "it sees all"),
            (10_800.0, 60.0, false, "90 is less than 1.5 × 60 + 0.5"),
            (10_800.0, 59.66, true, "and more than 1.5 × 59.66 + 0.5"),
            (60.0, 0.0, false, "0.5/s"),
            (61.0, 0.0, true, "more than 0.5/s"),
            (0.0, 0.0, false, "idle"),
        ] {
            assert_eq!(after(&[(rates(done, arriving), 15.0)]).is_some(), more, "{why}");
        }
    }

    #[test]
    fn it_takes_300_s_without_a_break() {
        let more = rates(10_800.0, 9.0);
        // The first tick begins it, whatever passed before.
        let begun = [(more, 15.0); 20];
        assert!(!is_proved(&begun), "285 s");
        assert!(!is_proved(&[&begun[..], &[(more, 14.0)]].concat()), "299 s");
        assert!(is_proved(&[&begun[..], &[(more, 15.0)]].concat()), "300 s");
        assert_eq!(after(&[&begun[..], &[(rates(1080.0, 9.0), 15.0)]].concat()), None, "a break");
    }

    /// What is counted at each tick of so many seconds, where 90/s arrive until 120 s, and `rate` finish from then `until` another time.
    fn falling(rate: f64, until: f64, seconds: u32) -> Vec<(Inputs<'static>, f64)> {
        let overlap = |from: f64, to: f64, low: f64, high: f64| (to.min(high) - from.max(low)).max(0.0);
        let tick = |at: f64| {
            let done = 90.0 * overlap(at - 120.0, at, 0.0, 120.0) + rate * overlap(at - 120.0, at, 120.0, until);
            (rates(done, 90.0 * overlap(at - 60.0, at, 0.0, 120.0) / 60.0), 15.0)
        };
        (8..seconds / 15).map(|tick_of| tick(15.0 * f64::from(tick_of))).collect()
    }

    #[test]
    fn a_queue_that_is_worked_off_for_four_minutes_after_the_last_arrival_proves_nothing() {
        for (rate, until) in [(90.0, 121.0), (90.0, 360.0), (45.0, 360.0), (180.0, 360.0), (3.0, 360.0)] {
            let ticks = falling(rate, until, 900);
            assert!((0..ticks.len()).all(|end| !is_proved(&ticks[..end])), "{rate}/s until {until} s");
            assert_eq!(after(&ticks), None, "{rate}/s until {until} s");
        }
        assert!(is_proved(&falling(90.0, 600.0, 480)), "360 s are too long");
    }

    #[test]
    fn what_is_unknown_teaches_nothing() {
        let (more, right) = (rates(10_800.0, 9.0), rates(1080.0, 9.0));
        for unknown in [Inputs { finished: None, ..right }, Inputs { rate: None, ..right }] {
            assert_eq!(after(&[(unknown, 15.0)]), None);
            let proved = [[(more, 15.0); 21], [(unknown, 15.0); 21]].concat();
            assert_eq!(after(&proved), after(&proved[..21]));
            assert!(!is_proved(&[&proved[2..], &[(more, 15.0)]].concat()), "285 s were seen");
        }
    }

    #[test]
    fn it_ends_after_60_s_without() {
        let (more, right) = (rates(10_800.0, 9.0), rates(10_800.0, 90.0));
        let then = |more: &[(Inputs<'static>, f64)], ticks: usize| [more, &vec![(right, 15.0); ticks]].concat();
        let proved = [(more, 15.0); 21];
        assert!(is_proved(&then(&proved, 4)), "45 s");
        assert_eq!(after(&then(&proved, 5)), None, "60 s");
        let again = [then(&proved, 4), vec![(more, 15.0)]].concat();
        assert!(is_proved(&then(&again, 4)), "the 60 s begin anew");
    }

    #[test]
    fn it_says_what_was_seen() {
        let said = after(&[(rates(10_800.0, 9.0), 15.0); 22]).map(|shortfall| shortfall.text());
        assert_eq!(said.as_deref(), Some("90.0 requests a second finish, and 9.0 arrive, for 315 s: arrivals are not all counted"));
    }
}
