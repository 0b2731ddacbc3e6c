//! What the law says of itself as conditions.

use super::TICK;
use super::demand::LEAST_SHARE;
use super::hold::YOUNG_HOLD;
use super::missing::{PATIENCE, Signal};
use super::outcome::MOST_Z;
use super::plan::{NO_SHRINKING, YOUNG};
use super::state::HeadroomState;
use super::work::Model;
use crate::{Bounds, Condition, ConditionType, Headroom, Reason, Time};

/// Between these corrections the profile fits.
const FITTING: std::ops::RangeInclusive<f64> = 0.5..=2.0;
/// Ticks in a row above the maximum that are more than a spike.
const SOME_TICKS: u32 = 3;
/// Seconds that an input may be missing before anybody is told; arrivals may not be missing at all.
const OVERLOOKED: u64 = 300;

/// The conditions of the law, always the same five.
pub(super) fn conditions(law: &Headroom, model: &Model, state: &HeadroomState, bounds: Bounds, now: Time) -> Vec<Condition> {
    vec![
        model_off(model, state),
        at_max(state, bounds),
        target_unreachable(law, model, state),
        cold_history(state),
        signal_missing(state, now),
    ]
}

fn condition(kind: ConditionType, status: bool, reason: Reason, message: String) -> Condition {
    Condition { kind, status, reason, message }
}

fn model_off(model: &Model, state: &HeadroomState) -> Condition {
    let kind = ConditionType::ModelOff;
    let eta = state.calibration.eta(model);
    if eta < *FITTING.start() {
        let message = format!(
            "requests cost x{eta:.2} of what the profile says: name one that is measured on this engine, as an idle fleet \
             cannot correct it and stays too large"
        );
        condition(kind, true, Reason::ProfileTooSlow, message)
    } else if eta > *FITTING.end() {
        let message = format!(
            "requests cost x{eta:.2} of what the profile says: name one that is measured on this engine, as the fleet is too small \
             until the error is learned anew after a restart"
        );
        condition(kind, true, Reason::ProfileTooFast, message)
    } else {
        condition(kind, false, Reason::ProfileFits, format!("requests cost x{eta:.2} of what the profile says"))
    }
}

fn at_max(state: &HeadroomState, bounds: Bounds) -> Condition {
    let (kind, max) = (ConditionType::AtMax, bounds.max);
    let Some(ticks) = state.above_max else {
        return condition(kind, false, Reason::DemandWithinMax, "what is needed is not known".to_owned());
    };
    if ticks >= SOME_TICKS {
        let message = format!(
            "more than maxReplicas {max} has been needed for {ticks} syncs: raise it if the load is real, as requests are as late as it lets them be"
        );
        condition(kind, true, Reason::DemandAboveMax, message)
    } else {
        condition(kind, false, Reason::DemandWithinMax, format!("what is needed fits into maxReplicas {max}"))
    }
}

fn target_unreachable(law: &Headroom, model: &Model, state: &HeadroomState) -> Condition {
    let kind = ConditionType::TargetUnreachable;
    let (eta, step) = (state.calibration.eta(model), state.calibration.shortest_step(model));
    let (ttft, tpot) = (law.ttft.get(), law.tpot.get());
    // V(S_ttft).
    let too_long = state.shape.lengths.longer_than(model.longest_within(ttft, eta));
    let (best, asked) = (100.0 * (1.0 - too_long), 100.0 * law.objective.get());
    if too_long > 1.0 - law.objective.get() {
        let message = format!(
            "the prompts of {:.2} % take longer than {ttft} s even on an idle replica, so at best {best:.2} % are in time and not {asked} %: \
             raise ttft, lower objective, or serve such prompts apart",
            100.0 * too_long
        );
        condition(kind, true, Reason::PromptsTooLong, message)
    } else if 1.0 - step / tpot <= LEAST_SHARE {
        let message = format!(
            "even the shortest step takes {:.1} ms of the {:.1} ms that tpot allows, so no fleet keeps it: raise tpot, or serve a faster engine",
            1000.0 * step,
            1000.0 * tpot
        );
        condition(kind, true, Reason::StepsTooSlow, message)
    } else if state.outcome.z >= MOST_Z {
        let message = format!(
            "more replicas have not made requests timely, though by their prompts {best:.2} % could be: look for a cause that replicas do \
             not cure, raise ttft or tpot, or lower objective"
        );
        condition(kind, true, Reason::LateAtAnySize, message)
    } else {
        condition(kind, false, Reason::TargetReachable, format!("by their prompts {best:.2} % can be in time, and {asked} % are asked for"))
    }
}

fn cold_history(state: &HeadroomState) -> Condition {
    let (kind, age) = (ConditionType::ColdHistory, state.age());
    if age < YOUNG {
        let (age, none, hold, young) = (age.as_secs(), NO_SHRINKING.as_secs(), f64::from(YOUNG_HOLD) * TICK, YOUNG.as_secs());
        let message = format!(
            "the history is {age} s long: nothing shrinks before {none} s, and what was needed holds for {hold} s or more before {young} s"
        );
        condition(kind, true, Reason::HistoryShort, message)
    } else {
        condition(kind, false, Reason::HistoryLongEnough, format!("the history is longer than {} s", YOUNG.as_secs()))
    }
}

fn signal_missing(state: &HeadroomState, now: Time) -> Condition {
    let kind = ConditionType::SignalMissing;
    let list = |missing: &[(Signal, u64)]| {
        let each: Vec<String> = missing.iter().map(|(signal, seconds)| format!("{} for {seconds} s", signal.name())).collect();
        each.join(", ")
    };
    let aged = |(signal, since): (Signal, Time)| (signal, now.since(since).as_secs());
    let needed: Vec<_> = state.missing.needed().map(aged).collect();
    let useful: Vec<_> = state.missing.useful().map(aged).filter(|(_, seconds)| *seconds >= OVERLOOKED).collect();
    if !needed.is_empty() {
        let message = format!(
            "unknown: {}. The fleet is held for {PATIENCE} syncs, then the saturation of the pool decides: see why in status.metrics, and check the \
             gateway's metrics",
            list(&needed)
        );
        condition(kind, true, Reason::ArrivalsUnknown, message)
    } else if let Some(shortfall) = state.proved_shortfall() {
        let message = format!(
            "{}. The saturation of the pool decides until they are: send all clients through the gateway that counts them, and see that its \
             counter moves and covers every model that the pool serves",
            shortfall.text()
        );
        condition(kind, true, Reason::ArrivalsUnknown, message)
    } else if !useful.is_empty() {
        let message = format!("unknown: {}. The law goes on with what it learned last: check the engine's metrics", list(&useful));
        condition(kind, true, Reason::InputsUnknown, message)
    } else {
        condition(kind, false, Reason::InputsKnown, "no input has been missing for long".to_owned())
    }
}
