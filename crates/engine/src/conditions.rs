//! The conditions that follow from a decision.

use crate::guard::unschedulable;
use crate::{Condition, ConditionType, Mode, ReadingState, ReadingTrace, Reason, Replicas, Spec, Stage, StageTrace, Workload};

/// The conditions that follow from the trace of one decision, before those `of_law`.
pub(crate) fn conditions(
    spec: &Spec,
    workload: &Workload,
    readings: &[ReadingTrace],
    stages: &[StageTrace],
    of_law: Vec<Condition>,
) -> Vec<Condition> {
    let mut conditions = vec![
        scaling_active(spec, readings, stages),
        able_to_scale(stages),
        scaling_limited(stages),
        capacity_available(workload),
        target_owned(spec, workload),
    ];
    conditions.extend(of_law);
    conditions
}

fn stage(stages: &[StageTrace], which: Stage) -> Option<&StageTrace> {
    stages.iter().find(|trace| trace.stage == which)
}

fn condition(kind: ConditionType, status: bool, reason: Reason, message: impl Into<String>) -> Condition {
    Condition { kind, status, reason, message: message.into() }
}

fn scaling_active(spec: &Spec, readings: &[ReadingTrace], stages: &[StageTrace]) -> Condition {
    let kind = ConditionType::ScalingActive;
    if spec.bounds.max == Replicas::ZERO {
        return condition(kind, false, Reason::ScalingDisabled, "maxReplicas 0 pins the target at zero");
    }
    let recommend = stage(stages, Stage::Recommend);
    let message = recommend.map(|trace| trace.message.clone()).unwrap_or_default();
    if readings.iter().all(|reading| reading.replicas.is_none()) {
        return condition(kind, false, Reason::FailedGetMetrics, message);
    }
    let unknown: Vec<String> = readings
        .iter()
        .filter_map(|reading| match &reading.state {
            ReadingState::Unknown(why) => Some(format!("{} is unknown: {why}", reading.name)),
            _ => None,
        })
        .collect();
    let message = if unknown.is_empty() { message } else { unknown.join("; ") };
    condition(kind, true, Reason::ValidMetricFound, message)
}

fn able_to_scale(stages: &[StageTrace]) -> Condition {
    let kind = ConditionType::AbleToScale;
    let (Some(guard), Some(write), Some(stabilise)) =
        (stage(stages, Stage::Guard), stage(stages, Stage::Write), stage(stages, Stage::Stabilise))
    else {
        return condition(kind, true, Reason::ReadyForNewScale, "");
    };
    match guard.reason {
        Reason::Settled => condition(kind, true, Reason::SuccessfulRescale, write.message.clone()),
        Reason::NoChange => condition(kind, true, stabilise.reason, stabilise.message.clone()),
        held => condition(kind, guard.out != guard.count_in && write.reason == Reason::SuccessfulRescale, held, guard.message.clone()),
    }
}

fn scaling_limited(stages: &[StageTrace]) -> Condition {
    let kind = ConditionType::ScalingLimited;
    let limited =
        [Stage::Pace, Stage::Bound].into_iter().filter_map(|which| stage(stages, which)).find(|trace| trace.out != trace.count_in);
    match limited {
        Some(trace) => condition(kind, true, trace.reason, trace.message.clone()),
        None => condition(kind, false, Reason::DesiredWithinRange, "neither a bound nor a policy changes what is asked for"),
    }
}

fn capacity_available(workload: &Workload) -> Condition {
    let kind = ConditionType::CapacityAvailable;
    match unschedulable(workload) {
        Some(waiting) => condition(kind, false, Reason::Unschedulable, waiting),
        None => condition(kind, true, Reason::CapacityFound, "no pod of the target waits for a node"),
    }
}

fn target_owned(spec: &Spec, workload: &Workload) -> Condition {
    let kind = ConditionType::TargetOwned;
    match &workload.other_owner {
        Some(owner) if spec.mode == Mode::Recommend => condition(kind, false, Reason::RecommendOnly, owner.clone()),
        Some(owner) => condition(kind, false, Reason::TargetOwned, owner.clone()),
        None => condition(kind, true, Reason::OnlyOwner, "nobody else is known to write the target's spec.replicas"),
    }
}
