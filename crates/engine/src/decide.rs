//! The walk through the seven stages.

use crate::activate::activate;
use crate::bound::bound;
use crate::conditions::conditions;
use crate::guard::guard;
use crate::pace::pace;
use crate::recommend::{Activity, recommend};
use crate::stabilise::stabilise;
use crate::victims;
use crate::{
    Condition, ConditionType, Decision, Memory, Observation, ReadingTrace, Reason, Replicas, Spec, Stage, StageTrace, Time, Victims,
    Workload,
};

/// What one stage makes of the count.
pub(crate) struct Step {
    pub out: Replicas,
    pub reason: Reason,
    pub message: String,
}

impl Step {
    pub(crate) fn new(out: Replicas, reason: Reason, message: impl Into<String>) -> Self {
        Self { out, reason, message: message.into() }
    }
}

/// Decides how many replicas the workload should have.
///
/// Total and pure: it has an answer for every input, and the same one each time. What is wrong with the input is in the answer.
/// [`Decision::memory`] is to be handed in at the next call, after [`Memory::record_write`] if a write was made.
#[must_use]
pub fn decide(spec: &Spec, seen: &Observation, memory: &Memory, now: Time) -> Decision {
    let workload = &seen.workload;
    let current = workload.replicas;
    let mut memory = memory.of_workload(workload.identity.as_ref());
    let mut trace = Trace::start(current);

    let recommended = recommend(spec, seen, &mut memory, now);
    trace.add(Stage::Recommend, recommended.step);

    let last_active = match (recommended.activity, memory.last_active_at) {
        (Activity::Active, _) | (_, None) => now,
        (_, Some(at)) => at,
    };
    memory.last_active_at = Some(last_active);
    trace.add(Stage::Activate, activate(spec, current, trace.count, recommended.activity, last_active, now));

    trace.add(Stage::Bound, bound(spec.bounds, trace.count));

    memory.prune(spec, now);
    trace.add(Stage::Stabilise, stabilise(spec, current, trace.count, &mut memory.recommendations, now));
    trace.add(Stage::Pace, pace(spec, current, trace.count, &memory.scale_events, now));

    finish(spec, workload, trace, recommended.readings, recommended.conditions, memory)
}

/// Looks again at a decision whose write a guard had kept back, with the workload as it is now.
///
/// Only *guard* and *write* are walked again: no source is read, nothing is recorded, and the count stays the one of that
/// decision. `None` when there is nothing kept back, or when the workload is another one or has another size by now.
#[must_use]
pub fn reconsider(spec: &Spec, deferred: &Decision, workload: &Workload) -> Option<Decision> {
    let same = deferred.memory.workload == workload.identity && deferred.replicas == workload.replicas;
    if !deferred.deferred() || !same {
        return None;
    }
    let stages = deferred.stages.iter().filter(|trace| !matches!(trace.stage, Stage::Guard | Stage::Write)).cloned().collect();
    let trace = Trace { stages, count: deferred.out_of(Stage::Pace) };
    let of_law = deferred.conditions.iter().filter(|condition| ConditionType::OF_HEADROOM.contains(&condition.kind)).cloned().collect();
    Some(finish(spec, workload, trace, deferred.readings.clone(), of_law, deferred.memory.clone()))
}

fn finish(
    spec: &Spec,
    workload: &Workload,
    mut trace: Trace,
    readings: Vec<ReadingTrace>,
    of_law: Vec<Condition>,
    memory: Memory,
) -> Decision {
    let current = workload.replicas;
    trace.add(Stage::Guard, guard(spec, workload, trace.count));

    let write = (trace.count != current).then_some(trace.count);
    let victims = match write {
        Some(count) if count < current => victims::choose(spec, workload, count),
        _ => Victims::default(),
    };
    let step = match write {
        Some(count) => Step::new(count, Reason::SuccessfulRescale, format!("{} from {current} to {count}", direction(current, count))),
        None => Step::new(current, Reason::NoChange, format!("the fleet stays at {current}")),
    };
    trace.add(Stage::Write, step);

    let (reason, message) = outcome(&trace.stages, current);
    let out_of = |which| trace.stages.iter().find(|t| t.stage == which).map_or(current, |t| t.out);
    Decision {
        replicas: current,
        ready: workload.ready,
        recommended: out_of(Stage::Recommend),
        desired: out_of(Stage::Stabilise),
        write,
        victims,
        reason,
        message,
        conditions: conditions(spec, workload, &readings, &trace.stages, of_law),
        stages: trace.stages,
        readings,
        memory,
    }
}

fn direction(from: Replicas, to: Replicas) -> &'static str {
    if to > from { "up" } else { "down" }
}

/// Why the decision ended as it did: the guard that holds, else the write, else the last stage that changed the count.
fn outcome(stages: &[StageTrace], current: Replicas) -> (Reason, String) {
    let find = |which| stages.iter().find(|trace| trace.stage == which);
    let (Some(guard), Some(write), Some(recommend)) = (find(Stage::Guard), find(Stage::Write), find(Stage::Recommend)) else {
        return (Reason::NoChange, String::new());
    };
    let because = |trace: &StageTrace| (trace.reason, trace.message.clone());
    let last_change = stages.iter().rev().find(|trace| trace.stage != Stage::Recommend && trace.out != trace.count_in);
    match (write.reason, guard.reason) {
        (Reason::SuccessfulRescale, _) => {
            // What was measured and the stage that settled the count explain it; first what asks for a change at all.
            let why = match last_change {
                Some(trace) if recommend.out == current => format!("{}; {}", trace.message, recommend.message),
                Some(trace) => format!("{}; {}", recommend.message, trace.message),
                None => recommend.message.clone(),
            };
            (Reason::SuccessfulRescale, format!("{}: {why}", write.message))
        }
        (_, Reason::NoChange) => match last_change {
            Some(trace) => because(trace),
            None if recommend.reason == Reason::ValidMetricFound => {
                (Reason::DesiredWithinRange, format!("the fleet stays at {current}: {}", recommend.message))
            }
            None => because(recommend),
        },
        _ => because(guard),
    }
}

/// The trace so far, and the count that the last stage left.
struct Trace {
    stages: Vec<StageTrace>,
    count: Replicas,
}

impl Trace {
    fn start(count: Replicas) -> Self {
        Self { stages: Vec::with_capacity(7), count }
    }

    fn add(&mut self, stage: Stage, step: Step) {
        self.stages.push(StageTrace { stage, count_in: self.count, out: step.out, reason: step.reason, message: step.message });
        self.count = step.out;
    }
}
