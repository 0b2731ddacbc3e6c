//! What conditions come of which decision.

use super::*;
use crate::{Reason, Rollout};
use ConditionType::{AbleToScale, CapacityAvailable, ScalingActive, ScalingLimited, TargetOwned};

type Told = (bool, Reason, String);

fn told(decision: &Decision, kind: ConditionType) -> Told {
    let found: Vec<&Condition> = decision.conditions.iter().filter(|condition| condition.kind == kind).collect();
    assert_eq!(found.len(), 1, "{kind:?}");
    (found[0].status, found[0].reason, found[0].message.clone())
}

/// A settled fleet of `replicas` that reads `value` of a target of 0.8.
fn sync(spec: Spec, replicas: u32, value: f64) -> Decision {
    Fleet::running(spec, replicas, replicas).decide(0, &[Reading::from_number(value)])
}

fn kv() -> Spec {
    spec(&[0.8])
}

#[test]
fn a_quiet_fleet_has_all_five_and_only_the_limit_is_false() {
    let conditions: Vec<(ConditionType, bool, Reason)> =
        sync(kv(), 4, 0.8).conditions.iter().map(|condition| (condition.kind, condition.status, condition.reason)).collect();
    let expected = [
        (ScalingActive, true, Reason::ValidMetricFound),
        (AbleToScale, true, Reason::ReadyForNewScale),
        (ScalingLimited, false, Reason::DesiredWithinRange),
        (CapacityAvailable, true, Reason::CapacityFound),
        (TargetOwned, true, Reason::OnlyOwner),
    ];
    assert_eq!(conditions, expected);
}

#[test]
fn scaling_is_active_while_a_source_is_known() {
    let value = || Reading::from_number(0.9);
    let refused = || Reading::unknown("connection refused");
    for (max, readings, status, reason, message) in [
        (10, vec![value()], true, Reason::ValidMetricFound, "m0 0.9 against 0.8 over 4 ready replicas asks for 5"),
        (10, vec![Reading::Idle], true, Reason::ValidMetricFound, "m0 is idle"),
        (10, vec![value(), refused()], true, Reason::ValidMetricFound, "m1 is unknown: connection refused"),
        (
            10,
            vec![refused(), Reading::Idle, Reading::unknown("no series")],
            true,
            Reason::ValidMetricFound,
            "m0 is unknown: connection refused; m2 is unknown: no series",
        ),
        (10, vec![refused()], false, Reason::FailedGetMetrics, "m0 is unknown, so the fleet keeps its 4 replicas: connection refused"),
        (
            10,
            vec![refused(), Reading::unknown("no series")],
            false,
            Reason::FailedGetMetrics,
            "m0, m1 are all unknown, so the fleet keeps its 4 replicas; the first: connection refused",
        ),
        (0, vec![value()], false, Reason::ScalingDisabled, "maxReplicas 0 pins the target at zero"),
        (0, vec![refused()], false, Reason::ScalingDisabled, "maxReplicas 0 pins the target at zero"),
    ] {
        let spec = Spec { bounds: bounds(0, max), ..spec(&[0.8].repeat(readings.len())) };
        let decision = Fleet::running(spec, 4, 4).decide(0, &readings);
        assert_eq!(told(&decision, ScalingActive), (status, reason, message.to_owned()));
    }
}

#[test]
fn able_to_scale_is_false_while_a_write_waits() {
    let guarded = |change: fn(&mut Fleet), value| {
        let mut fleet = Fleet::running(kv(), 4, 4);
        change(&mut fleet);
        fleet.decide(0, &[Reading::from_number(value)])
    };
    let rolls = |fleet: &mut Fleet| fleet.workload.rollout = Rollout::InProgress("1 of 4 replicas is on the newest template".to_owned());
    let starts = |fleet: &mut Fleet| fleet.workload.ready = Replicas::new(3);
    let no_node = |fleet: &mut Fleet| {
        fleet.workload.pods = unready(1, 30);
        fleet.workload.pods[0].unschedulable = true;
    };
    let owned = |fleet: &mut Fleet| fleet.workload.other_owner = Some("HPA fleet writes it too".to_owned());
    let shows = |fleet: &mut Fleet| fleet.spec.mode = Mode::Recommend;
    for (decision, reason, message) in [
        (
            guarded(rolls, 0.9),
            Reason::RolloutInProgress,
            "5 waits for the rollout of the target to finish: 1 of 4 replicas is on the newest template",
        ),
        (guarded(starts, 0.1), Reason::NotSettled, "1 waits until the fleet is settled: 3 of 4 replicas are ready"),
        (guarded(no_node, 0.9), Reason::Unschedulable, "no more is asked for while pod u0 finds no node"),
        (guarded(owned, 0.9), Reason::TargetOwned, "the target is left alone: HPA fleet writes it too"),
        (guarded(shows, 0.9), Reason::RecommendOnly, "mode Recommend: 5 in place of 4 is shown and not written"),
    ] {
        assert_eq!(told(&decision, AbleToScale), (false, reason, message.to_owned()));
        assert_eq!((decision.write, decision.deferred()), (None, true));
    }
    // Where nothing is to be written, nothing waits. Three that are ready ask for four at 1.0.
    let changes: [fn(&mut Fleet); 5] = [rolls, starts, no_node, owned, shows];
    for (change, value) in changes.into_iter().zip([0.8, 1.0, 0.8, 0.8, 0.8]) {
        let expected = (true, Reason::ReadyForNewScale, "no window holds the count".to_owned());
        assert_eq!(told(&guarded(change, value), AbleToScale), expected);
    }
}

#[test]
fn able_to_scale_is_true_while_nothing_or_a_window_keeps_the_count() {
    let restarted = Fleet::new(Spec { scale_down: window(120, 2), ..kv() }, 6, 6);
    let held = "1 would do, but 6 was needed within the last 120 s, so the fleet does not go below 6";
    for (decision, reason, message) in [
        (sync(kv(), 4, 0.9), Reason::SuccessfulRescale, "up from 4 to 5"),
        (sync(kv(), 4, 0.6), Reason::SuccessfulRescale, "down from 4 to 3"),
        (sync(kv(), 4, 0.8), Reason::ReadyForNewScale, "no window holds the count"),
        (restarted.decide(0, &[Reading::from_number(0.1)]), Reason::ScaleDownStabilized, held),
    ] {
        assert_eq!(told(&decision, AbleToScale), (true, reason, message.to_owned()));
    }
    // Two that are stuck may go, and the others not yet: a write is made, and the reason tells why it is not all of it.
    let mut stuck = Fleet::running(kv(), 10, 8);
    stuck.workload.pods = unready(2, 601);
    let decision = stuck.decide(0, &[Reading::from_number(0.1)]);
    let partly = "1 is asked for, but the fleet keeps 8 until it is settled: 8 of 10 replicas are ready";
    assert_eq!(told(&decision, AbleToScale), (true, Reason::NotSettled, partly.to_owned()));
    assert_eq!((decision.write, decision.deferred()), (Some(Replicas::new(8)), true));
}

#[test]
fn scaling_is_limited_by_what_changes_the_count() {
    let open = ScalingRules { window: Duration::ZERO, select: SelectPolicy::Max, policies: vec![], tolerance: Measurement::ZERO };
    let closed = ScalingRules { select: SelectPolicy::Disabled, ..open.clone() };
    let shut = Spec { behavior: Some(Behavior { up: closed, down: open }), ..kv() };
    let capped = Spec { scale_down: window(0, 2), ..kv() };
    let step = "maxStepReplicas 2 removes no more than that at once, so 4 comes before 1";
    for (spec, replicas, value, reason, message) in [
        (kv(), 4, 2.4, Reason::TooManyReplicas, "12 is above maxReplicas 10"),
        (kv(), 4, 0.0, Reason::TooFewReplicas, "0 is below minReplicas 1"),
        (capped.clone(), 6, 0.1, Reason::ScaleDownLimit, step),
        (shut, 4, 0.9, Reason::ScalingDisabled, "scaleUp is Disabled"),
    ] {
        assert_eq!(told(&sync(spec, replicas, value), ScalingLimited), (true, reason, message.to_owned()));
    }
    let free = (false, Reason::DesiredWithinRange, "neither a bound nor a policy changes what is asked for".to_owned());
    // A window is no limit, and neither is a guard.
    let windowed = Spec { scale_down: window(120, 0), ..kv() };
    assert_eq!(told(&Fleet::new(windowed, 6, 6).decide(0, &[Reading::from_number(0.1)]), ScalingLimited), free);
    let unsettled = Fleet::running(kv(), 6, 5);
    assert_eq!(told(&unsettled.decide(0, &[Reading::from_number(0.1)]), ScalingLimited), free);
    assert_eq!(told(&sync(capped, 6, 0.5), ScalingLimited), free, "two fewer are allowed");
}

#[test]
fn capacity_is_missing_while_pods_that_stay_find_no_node() {
    let with = |pending: usize, leaving: usize| {
        let mut fleet = Fleet::running(kv(), 4, 4);
        fleet.workload.pods = unready(4, 30);
        for (index, pod) in fleet.workload.pods.iter_mut().enumerate() {
            (pod.unschedulable, pod.terminating) = (index < pending, index < leaving);
        }
        // Whatever is asked for, and also where nothing is.
        let [up, same, down] = [0.9, 0.8, 0.1].map(|value| told(&fleet.decide(0, &[Reading::from_number(value)]), CapacityAvailable));
        assert!(up == same && same == down);
        same
    };
    let found = || (true, Reason::CapacityFound, "no pod of the target waits for a node".to_owned());
    let missing = |message: &str| (false, Reason::Unschedulable, message.to_owned());
    for (pending, leaving, expected) in [
        (0, 0, found()),
        (1, 0, missing("pod u0 finds no node")),
        (2, 0, missing("pod u0 and 1 more find no node")),
        (2, 1, missing("pod u1 finds no node")),
        (1, 1, found()),
    ] {
        assert_eq!(with(pending, leaving), expected, "{pending} pending, the first {leaving} of them leaving");
    }
}

#[test]
fn a_target_is_owned_by_this_scaler_alone() {
    let rival = "HPA fleet writes it too";
    let alone = "nobody else is known to write the target's spec.replicas";
    for (mode, owner, status, reason, message) in [
        (Mode::Auto, None, true, Reason::OnlyOwner, alone),
        (Mode::Recommend, None, true, Reason::OnlyOwner, alone),
        (Mode::Auto, Some(rival), false, Reason::TargetOwned, rival),
        (Mode::Recommend, Some(rival), false, Reason::RecommendOnly, rival),
    ] {
        let mut fleet = Fleet::running(Spec { mode, ..kv() }, 4, 4);
        fleet.workload.other_owner = owner.map(str::to_owned);
        for value in [0.1, 0.8, 0.9] {
            let decision = fleet.decide(0, &[Reading::from_number(value)]);
            assert_eq!(told(&decision, TargetOwned), (status, reason, message.to_owned()), "{mode:?} at {value}");
        }
    }
}
