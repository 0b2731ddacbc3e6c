//! One tick of the law.

use std::time::Duration;

use super::account::{Account, Kept};
use super::answer::{Answer, LastTick};
use super::conditions::conditions;
use super::demand::{Demand, Scene};
use super::hold::YOUNG_HOLD;
use super::inputs::{Arrivals, Inputs};
use super::missing::by_saturation;
use super::shortfall::Shortfall;
use super::state::HeadroomState;
use super::work::{Model, Serving};
use crate::recommend::Activity;
use crate::{Bounds, Condition, Headroom, Observation, Reading, ReadingState, Replicas, Time};

/// While no more than this has been planned with nothing shrinks: what was needed before is not known.
pub(super) const NO_SHRINKING: Duration = Duration::from_secs(300);
/// While no more than this has been planned with the history is too short to choose a hold by.
pub(super) const YOUNG: Duration = Duration::from_secs(900);
/// Half a replica is kept on the way down, so that a need that trembles around a whole number moves nothing.
const DEAD_BAND: f64 = 0.5;
/// Of the promised time to first token a prompt may take this much and is still taken to be reachable.
const REACHABLE: f64 = 0.8;

/// What the law says at one tick.
pub(crate) struct Asked {
    pub state: ReadingState,
    /// `None` while nothing is known.
    pub replicas: Option<Replicas>,
    pub account: Option<String>,
    /// Whether there is work, which is not known whenever a size is.
    pub activity: Activity,
    pub conditions: Vec<Condition>,
}

impl Headroom {
    /// One tick: 15 s after the last one. A look that comes sooner, after an edit of the scaler or a sync that failed, is none: it is
    /// answered as the last tick was.
    pub(crate) fn tick(
        &self,
        seen: &Observation,
        reading: Option<&Reading>,
        bounds: Bounds,
        memory: &mut Option<Box<HeadroomState>>,
        now: Time,
    ) -> Asked {
        let state = memory.get_or_insert_with(|| Box::new(HeadroomState::new(self)));
        state.tidy(now);
        let model = Model::of(self);
        state.calibration.belongs_to(&model);
        state.outcome.promised(self);
        let (answer, activity) = match state.last_tick.as_ref().filter(|last| last.is_fresh(now)) {
            Some(last) => (last.again(seen.workload.replicas, state.last_replicas, bounds, now), last.activity),
            None => self.whole_tick(state, &model, seen, reading, bounds, now),
        };
        let (reading, replicas, account) = answer.told(activity);
        Asked { state: reading, replicas, account, activity, conditions: conditions(self, &model, state, bounds, now) }
    }

    /// Learns from what is seen, and answers.
    fn whole_tick(
        &self,
        state: &mut HeadroomState,
        model: &Model,
        seen: &Observation,
        reading: Option<&Reading>,
        bounds: Bounds,
        now: Time,
    ) -> (Answer, Activity) {
        let fleet = state.note(&seen.workload);
        let mut inputs = Inputs::of(seen.traffic.as_deref(), reading);
        state.missing.note(&inputs, now);
        state.shortfall = Shortfall::next(state.shortfall, &inputs, state.passed(now));
        if state.proved_shortfall().is_some() {
            inputs.forget_arrivals();
        }
        state.shape.learn_outputs(&inputs);
        if let Some(arrivals) = inputs.arrivals {
            state.shape.learn_prompts(arrivals, &inputs);
        }
        let answer = match inputs.arrivals {
            None => without_arrivals(state, seen, reading, bounds, now),
            Some(_) if state.shape.prompt.is_none() => before_the_first_request(state, seen, bounds),
            Some(arrivals) => self.plan(state, model, seen.workload.replicas, fleet, &inputs, arrivals, bounds, now),
        };
        let activity = inputs.activity();
        state.last_tick = Some(LastTick { at: now, activity, answer: answer.clone() });
        (answer, activity)
    }

    /// Steps 2 to 7.
    #[allow(clippy::too_many_arguments)] // one tick needs all of them, and a struct of them would be used once
    fn plan(
        &self,
        state: &mut HeadroomState,
        model: &Model,
        current: Replicas,
        fleet: Serving,
        inputs: &Inputs<'_>,
        arrivals: Arrivals,
        bounds: Bounds,
        now: Time,
    ) -> Answer {
        state.grow_older(now);
        let warmup = state.warmup();
        let work = state.calibration.learn(model, &state.shape, inputs, arrivals, fleet);
        let z = state.outcome.z;
        let scene = Scene { work, median: state.shape.median_output(), variation: state.shape.variation, ready: fleet.ready };
        let demand = Demand::of(self, model, &scene, arrivals, inputs, z);
        let quantile = self.objective.growth_quantile();
        let growth = state.growth.add(demand.load / demand.share, warmup, quantile);
        let needed = demand.replicas + growth;
        let above = needed > bounds.max.as_f64();
        state.above_max = Some(if above { state.above_max.unwrap_or_default().saturating_add(1) } else { 0 });

        // What is learned here counts from the next tick on.
        let too_long = state.shape.lengths.longer_than(model.longest_within(REACHABLE * self.ttft.get(), work.eta));
        let clipped = fleet.ready >= bounds.max.as_f64();
        state.outcome.learn(inputs, fleet, demand.replicas, too_long, self.objective, clipped);

        let need = bounds.clamp(Replicas::ceil(needed));
        state.hold.add(bounds.clamp(Replicas::ceil(needed + DEAD_BAND)), warmup);
        let age = state.age();
        let ticks = state.hold.ticks(if age < YOUNG { YOUNG_HOLD } else { 0 });
        let (desired, kept) = if age < NO_SHRINKING {
            (need.max(current), Kept::Start(NO_SHRINKING.saturating_sub(age)))
        } else {
            let held = state.hold.held(ticks).min(current);
            (need.max(held), Kept::Need(state.hold.why(held, ticks)))
        };
        let desired = bounds.clamp(desired);
        let account = Account { desired, current, need, needed, demand, z, growth, quantile, hold: ticks, eta: work.eta, bounds };
        Answer::Known { value: needed, replicas: desired, account: account.text(kept) }
    }
}

/// Arrivals are unknown: the fleet is held for 20 ticks and for as long as they last, and then the saturation of the pool decides. Where
/// what finishes has contradicted them it has been as long.
fn without_arrivals(state: &mut HeadroomState, seen: &Observation, reading: Option<&Reading>, bounds: Bounds, now: Time) -> Answer {
    nothing_planned(state);
    let shortfall = state.proved_shortfall();
    let missing: Vec<&str> = state.missing.needed().map(|(signal, _)| signal.name()).collect();
    let since = state.missing.needed().map(|(_, since)| now.since(since).as_secs()).max().unwrap_or_default();
    let missing = match shortfall {
        Some(shortfall) if missing.is_empty() => format!("{}, thus unknown", shortfall.text()),
        _ => format!("{} unknown for {since} s", missing.join(" and ")),
    };
    if shortfall.is_none() && !state.missing.is_long(now) {
        return Answer::Unknown(format!("{missing}: the law cannot plan without, so it asks for no change"));
    }
    match reading {
        Some(Reading::Value(saturation)) => {
            let count = bounds.clamp(by_saturation(*saturation, &seen.workload));
            let account = format!("{missing}, so saturation {:.2} decides: {count} (was {})", saturation.get(), seen.workload.replicas);
            Answer::Known { value: saturation.get(), replicas: count, account }
        }
        Some(Reading::Unknown(why)) => Answer::Unknown(format!("{missing}, and so is the saturation of the pool: {why}")),
        _ => Answer::Unknown(format!("{missing}, and nothing tells the saturation of the pool")),
    }
}

/// No request was ever seen: nothing tells what one costs, and the fleet is held.
fn before_the_first_request(state: &mut HeadroomState, seen: &Observation, bounds: Bounds) -> Answer {
    nothing_planned(state);
    let held = bounds.clamp(seen.workload.replicas);
    Answer::Known { value: 0.0, replicas: held, account: format!("held at {held}: no request has been seen yet") }
}

/// The rings repeat their last entry, and what was above the maximum may be so no more.
fn nothing_planned(state: &mut HeadroomState) {
    let warmup = state.warmup();
    state.growth.repeat(warmup);
    state.hold.repeat();
    state.above_max = None;
}
