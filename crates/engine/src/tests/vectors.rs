//! What the Go operator of this API answers, with the departures that the compatibility page explains, and cases of the design.

use super::*;
use crate::{Reason, Rollout};

/// One sync of a settled fleet.
fn once(mut spec: Spec, min_max: (u32, u32), replicas: u32, ready: u32, readings: &[Reading]) -> u32 {
    spec.bounds = bounds(min_max.0, min_max.1);
    Fleet::running(spec, replicas, ready).sync(0, readings)
}

fn value(number: f64) -> Reading {
    Reading::from_number(number)
}

#[test]
fn ratio() {
    for (name, min_max, replicas, ready, reading, target, expected) in [
        ("scale up", (1, 5), 1, 1, 0.85, 0.5, 2),
        ("idle", (1, 5), 5, 5, 0.0, 0.5, 1),
        ("idle at min 0", (0, 5), 2, 2, 0.0, 0.5, 0),
        ("wake", (0, 5), 0, 0, 0.85, 0.5, 2),
        ("stay at zero", (0, 5), 0, 0, 0.0, 0.5, 0),
        ("up while unsettled", (1, 5), 3, 2, 0.85, 0.5, 4),
        ("min above max: max wins", (5, 2), 3, 3, 1.0, 1.0, 2),
        ("negative is unknown", (1, 5), 4, 4, -3.0, 1.0, 4),
        ("huge saturates", (1, 5), 4, 4, 1e12, 0.5, 5),
        ("none ready, load", (0, 12), 2, 0, 0.85, 0.5, 2),
        ("none ready, idle", (1, 12), 4, 0, 0.0, 0.5, 4),
        ("two pods pending", (1, 10), 10, 8, 0.1, 1.0, 10),
        ("starting pods", (1, 10), 10, 4, 0.9, 1.0, 10),
        ("max 0", (0, 0), 3, 3, 2.0, 1.0, 0),
        ("no tolerance band", (1, 10), 4, 4, 0.81, 0.8, 5),
        ("the default provider", (1, 20), 4, 4, 1.6, 0.8, 8),
    ] {
        assert_eq!(once(spec(&[target]), min_max, replicas, ready, &[value(reading)]), expected, "{name}");
    }
}

#[test]
fn several_metrics() {
    assert_eq!(once(spec(&[2.0, 1.0]), (1, 10), 4, 4, &[value(f64::NAN), value(0.5)]), 2, "NaN beside a value");
    assert_eq!(once(spec(&[2.0, 1.0]), (1, 10), 4, 4, &[value(f64::NAN), unknown()]), 4, "NaN beside a failure");
    assert_eq!(once(spec(&[1.0, 1.0]), (1, 10), 4, 4, &[value(2.0), value(0.5)]), 8, "the largest wins");
    assert_eq!(once(spec(&[1.0, 1.0]), (0, 10), 4, 4, &[value(0.0), unknown()]), 1, "an unknown one keeps the last replica");
    assert_eq!(once(spec(&[1.0, 1.0]), (0, 10), 0, 0, &[value(0.0), unknown()]), 0, "an unknown one does not wake");
}

#[test]
fn all_unknown_holds_within_the_bounds() {
    for (min_max, replicas, expected) in [((1, 5), 9, 5), ((1, 5), 0, 1), ((1, 5), 3, 3), ((0, 5), 0, 0), ((4, 5), 3, 4)] {
        assert_eq!(once(spec(&[1.0]), min_max, replicas, replicas, &[unknown()]), expected, "{replicas} in {min_max:?}");
        assert_eq!(once(spec(&[1.0]), min_max, replicas, replicas, &[]), expected, "no reading at all");
    }
}

#[test]
fn decision_server() {
    for (min_max, replicas, reading, expected) in [
        ((1, 20), 8, value(15.0), 15),
        ((1, 5), 8, value(15.0), 5),
        ((2, 20), 8, value(0.0), 2),
        ((0, 20), 8, value(0.0), 0),
        ((0, 20), 0, value(3.0), 3),
        ((1, 20), 8, unknown(), 8),
        ((1, 20), 1, value(4.0), 4),
    ] {
        assert_eq!(once(absolute(), min_max, replicas, replicas, std::slice::from_ref(&reading)), expected, "{reading:?} in {min_max:?}");
    }
}

#[test]
fn step_cap() {
    for (current, desired, cap, expected) in [(10, 1, 0, 1), (10, 1, 2, 8), (10, 9, 2, 9), (10, 8, 2, 8), (2, 10, 1, 10), (5, 5, 1, 5)] {
        let spec = Spec { scale_down: window(0, cap), ..absolute() };
        assert_eq!(once(spec, (1, 10), current, current, &[value(f64::from(desired))]), expected, "{current} to {desired} by {cap}");
    }
    let mut fleet = Fleet::running(Spec { scale_down: window(0, 2), ..spec(&[0.5]) }, 5, 5);
    let decision = fleet.decide(0, &[value(0.0)]);
    assert_eq!((decision.desired.get(), decision.write.map(Replicas::get)), (1, Some(3)), "the status shows the destination");
    assert_eq!([fleet.sync_value(0, 0.0), fleet.sync_value(15, 0.0), fleet.sync_value(30, 0.0)], [3, 1, 1]);
}

#[test]
fn the_step_cap_paces_the_walk_down_to_the_maximum() {
    let mut fleet = Fleet::running(Spec { scale_down: window(0, 2), bounds: bounds(1, 4), ..spec(&[1.0]) }, 10, 10);
    assert_eq!([fleet.sync_value(0, 1.0), fleet.sync_value(15, 1.0), fleet.sync_value(30, 1.0)], [8, 6, 4]);
}

#[test]
fn the_window_holds_the_highest_recommendation() {
    let mut fleet = Fleet::running(Spec { scale_down: window(60, 0), bounds: bounds(0, 10), ..absolute() }, 5, 5);
    assert_eq!([(0, 5.0), (10, 1.0), (59, 1.0)].map(|(at, count)| fleet.sync_value(at, count)), [5, 5, 5]);
    assert_eq!(fleet.sync_value(60, 1.0), 1, "an entry counts while it is younger than the window");
    assert_eq!(fleet.sync_value(61, 9.0), 9, "up is immediate");
}

#[test]
fn the_window_starts_again_after_a_downward_write() {
    let spec = Spec { scale_down: window(300, 0), ..absolute() };
    let mut fleet = Fleet::running(spec, 8, 8);
    assert_eq!([fleet.sync_value(0, 8.0), fleet.sync_value(299, 6.0), fleet.sync_value(301, 6.0)], [8, 8, 6]);
    assert_eq!([311, 400, 600].map(|at| fleet.sync_value(at, 1.0)), [6, 6, 6]);
    assert_eq!(fleet.sync_value(601, 1.0), 1, "at the age of the window the pin is gone");
    assert_eq!(fleet.sync_value(710, 9.0), 9);
}

#[test]
fn the_pin_and_the_step_cap() {
    let mut fleet = Fleet::running(Spec { scale_down: window(300, 2), ..spec(&[0.5]) }, 5, 5);
    assert_eq!([fleet.sync_value(0, 0.0), fleet.sync_value(15, 0.0)], [3, 3]);
}

#[test]
fn a_restart_waits_a_full_window() {
    let mut fleet = Fleet::new(Spec { scale_down: window(300, 2), ..spec(&[1.0]) }, 8, 8);
    assert_eq!([0, 15, 299].map(|at| fleet.sync_value(at, 0.0)), [8, 8, 8]);
    assert_eq!(fleet.sync_value(300, 0.0), 6);
    assert_eq!([fleet.sync_value(599, 0.0), fleet.sync_value(600, 0.0)], [6, 4]);
}

#[test]
fn another_workload_starts_without_history() {
    let mut fleet = Fleet::running(Spec { scale_down: window(300, 0), ..absolute() }, 8, 8);
    fleet.workload.identity = Some("first".to_owned());
    fleet.sync_value(0, 8.0);
    fleet.workload = Workload { identity: Some("second".to_owned()), ..workload(2, 2) };
    let decision = fleet.decide(15, &[value(1.0)]);
    assert_eq!(decision.desired.get(), 2, "its own size counts, not the 8 of the other");
    assert_eq!(decision.memory.workload.as_deref(), Some("second"));
}

#[test]
fn an_outage_counts_as_wanting_the_current_size() {
    let mut fleet = Fleet::running(Spec { scale_down: window(180, 0), ..spec(&[1.0]) }, 5, 5);
    fleet.sync_value(0, 1.0);
    fleet.sync_value(15, 0.0);
    fleet.sync(100, &[unknown()]);
    assert_eq!([fleet.sync_value(115, 0.0), fleet.sync_value(180, 0.0), fleet.sync_value(279, 0.0)], [5, 5, 5]);
    assert_eq!(fleet.sync_value(280, 0.0), 1);
}

#[test]
fn a_window_never_raises_above_what_is_asked_for_now() {
    let mut fleet = Fleet::running(Spec { scale_down: window(300, 2), ..spec(&[1.0]) }, 8, 8);
    assert_eq!(fleet.sync_value(0, 0.0), 6);
    fleet.workload = workload(2, 2);
    assert_eq!(fleet.sync_value(15, 0.0), 2, "a shrink by hand is not undone by the pin");

    let mut fleet = Fleet::running(Spec { scale_down: window(180, 0), ..spec(&[1.0]) }, 3, 3);
    fleet.workload.rollout = Rollout::InProgress("2 of 3".to_owned());
    assert_eq!(fleet.sync_value(0, 3.0), 3);
    fleet.workload.rollout = Rollout::Settled;
    assert_eq!(fleet.sync_value(60, 0.5), 3, "a peak that a guard kept back is not written later");
}

#[test]
fn lowering_the_maximum_acts_at_once() {
    let mut fleet = Fleet::running(Spec { scale_down: window(180, 0), ..spec(&[1.0]) }, 10, 10);
    assert_eq!(fleet.sync_value(0, 1.0), 10);
    fleet.spec.bounds = bounds(1, 4);
    assert_eq!(fleet.sync_value(15, 1.0), 4);
}

#[test]
fn rollout_guard_holds_both_directions_until_it_has_failed() {
    for (rollout, up, down) in [
        (Rollout::InProgress("1 of 4".to_owned()), 4, 4),
        (Rollout::Stalled("no progress for 600 s".to_owned()), 8, 1),
        (Rollout::Settled, 8, 1),
    ] {
        for (reading, expected) in [(2.0, up), (0.1, down)] {
            let mut fleet = Fleet::running(spec(&[1.0]), 4, 4);
            fleet.workload.rollout = rollout.clone();
            assert_eq!(fleet.sync_value(0, reading), expected, "{rollout:?}");
        }
    }
}

#[test]
fn settle_guard() {
    let with = |ready: u32, terminating: u32, max: u32, pods: Vec<Pod>| {
        let mut fleet = Fleet::running(Spec { bounds: bounds(1, max), ..spec(&[1.0]) }, 10, ready);
        fleet.workload = Workload { terminating, pods, ..fleet.workload };
        let decision = fleet.decide(0, &[value(0.1)]);
        (decision.write.map(Replicas::get), decision.reason)
    };
    assert_eq!(with(10, 0, 10, vec![]), (Some(1), Reason::SuccessfulRescale));
    assert_eq!(with(10, 2, 10, vec![]), (None, Reason::NotSettled), "draining pods");
    assert_eq!(with(8, 0, 10, unready(2, 600)), (None, Reason::NotSettled), "a replica may take 600 s to start");
    assert_eq!(with(8, 0, 10, unready(2, 601)), (Some(8), Reason::SuccessfulRescale), "a stuck surplus is removable, and nothing else");
    assert_eq!(with(7, 0, 10, unready(2, 601)), (None, Reason::NotSettled), "a third pod is still starting");
    assert_eq!(with(8, 1, 10, unready(2, 601)), (None, Reason::NotSettled), "stuck, and draining besides");
    assert_eq!(with(8, 0, 4, unready(2, 5)), (Some(4), Reason::SuccessfulRescale), "never held above the maximum");
    assert_eq!(with(8, 0, 4, unready(2, 601)), (Some(4), Reason::SuccessfulRescale), "not by a surplus that is stuck either");
    assert_eq!(with(12, 0, 10, vec![]), (None, Reason::NotSettled), "pods of an earlier, larger size");
}

#[test]
fn the_settle_guard_tells_one_as_one() {
    let why = |replicas: u32, ready: u32, terminating: u32| {
        let mut fleet = Fleet::running(Spec { bounds: bounds(0, 10), ..spec(&[1.0]) }, replicas, ready);
        fleet.workload = Workload { terminating, ..fleet.workload };
        fleet.decide(0, &[Reading::Idle]).message
    };
    for (replicas, ready, terminating, words) in [
        (1, 0, 0, "0 of 1 replica is ready"),
        (4, 1, 0, "1 of 4 replicas is ready"),
        (4, 3, 0, "3 of 4 replicas are ready"),
        (4, 6, 0, "6 replicas are ready, 2 more than it should have"),
        (4, 4, 1, "1 pod is still shutting down"),
        (4, 4, 2, "2 pods are still shutting down"),
    ] {
        let why = why(replicas, ready, terminating);
        assert!(why.ends_with(words), "{why}");
    }
}

#[test]
fn a_stuck_replica_that_would_not_go_first_is_waited_for() {
    let with = |stuck: usize| {
        let mut fleet = Fleet::running(spec(&[1.0]), 4, 3);
        fleet.workload.pods = pods(&["v-0", "v-1", "v-2", "v-3"]);
        for (ordinal, pod) in (0..).zip(&mut fleet.workload.pods) {
            pod.ordinal = Some(ordinal);
        }
        (fleet.workload.pods[stuck].ready, fleet.workload.pods[stuck].unready_for) = (false, Duration::from_secs(900));
        fleet.sync_value(0, 0.5)
    };
    assert_eq!(with(3), 3, "v-3 goes first");
    assert_eq!(with(0), 4, "the size 3 would remove v-3, which serves");
}

#[test]
fn settled_later() {
    let mut fleet = Fleet::running(spec(&[0.5]), 5, 3);
    assert_eq!(fleet.sync_value(0, 0.0), 5);
    fleet.workload.ready = Replicas::new(5);
    assert_eq!(fleet.sync_value(15, 0.0), 1);
}

#[test]
fn capacity_guard_holds_growth_only() {
    let mut fleet = Fleet::running(spec(&[1.0]), 4, 3);
    fleet.workload.pods = unready(1, 30);
    fleet.workload.pods[0].unschedulable = true;
    let decision = fleet.decide(0, &[value(2.0)]);
    assert_eq!((decision.write, decision.reason), (None, Reason::Unschedulable));
    let capacity = decision.conditions.iter().find(|c| c.kind == ConditionType::CapacityAvailable).unwrap();
    assert!(!capacity.status && capacity.message.contains("u0"), "{capacity:?}");
    fleet.workload.pods[0].terminating = true;
    assert_eq!(fleet.decide(0, &[value(2.0)]).write, Some(Replicas::new(6)), "a pod that is going does not count");
}

#[test]
fn another_owner_and_recommend_mode_hold_every_write() {
    for reading in [0.1, 3.0] {
        let mut fleet = Fleet::running(spec(&[1.0]), 3, 3);
        fleet.workload.other_owner = Some("HPA fleet writes it too".to_owned());
        assert_eq!(fleet.decide(0, &[value(reading)]).reason, Reason::TargetOwned);
        fleet.workload.other_owner = None;
        fleet.spec.mode = Mode::Recommend;
        let decision = fleet.decide(0, &[value(reading)]);
        assert_eq!((decision.write, decision.reason), (None, Reason::RecommendOnly));
    }
}

#[test]
fn who_only_recommends_beside_another_owner_says_where_they_differ() {
    let mut fleet = Fleet::running(spec(&[1.0]), 3, 3);
    (fleet.spec.mode, fleet.workload.other_owner) = (Mode::Recommend, Some("HPA fleet scales it too".to_owned()));
    let decision = fleet.decide(0, &[value(2.0)]);
    let message = "mode Recommend: 6 in place of 3 is shown and not written, and HPA fleet scales it too";
    assert_eq!((decision.write, decision.reason, decision.message.as_str()), (None, Reason::RecommendOnly, message));
    let owned = decision.conditions.iter().find(|c| c.kind == ConditionType::TargetOwned).unwrap();
    assert_eq!((owned.status, owned.reason), (false, Reason::RecommendOnly));
    // Of one mind.
    assert_eq!(fleet.decide(15, &[value(1.0)]).reason, Reason::DesiredWithinRange);
}

#[test]
fn required_and_fallback_only_raise() {
    let mut fleet = Fleet::running(spec(&[1.0, 1.0]), 4, 4);
    fleet.spec.sources[1].required = true;
    assert_eq!(fleet.decide(0, &[value(0.1), unknown()]).recommended.get(), 4);
    assert_eq!(fleet.decide(0, &[value(2.0), unknown()]).recommended.get(), 8);

    let mut fleet = Fleet::running(spec(&[1.0]), 4, 4);
    fleet.spec.fallback = Some(Fallback { failure_threshold: 2, replicas: Replicas::new(6) });
    assert_eq!([0, 15, 30].map(|at| fleet.sync(at, &[unknown()])), [4, 4, 6]);
    fleet.workload = workload(9, 9);
    assert_eq!(fleet.sync(45, &[unknown()]), 9, "it never lowers");
    assert_eq!(fleet.memory.failures["m0"], 4);
    fleet.sync_value(60, 1.0);
    assert!(fleet.memory.failures.is_empty());
}

#[test]
fn activation_is_exceeded_not_reached() {
    let at = |activation: f64, reading: f64| {
        let mut fleet = Fleet::running(Spec { bounds: bounds(0, 10), ..spec(&[1.0]) }, 1, 1);
        fleet.spec.sources[0].activation = Activation::new(activation).unwrap();
        fleet.sync_value(0, reading)
    };
    assert_eq!([at(0.0, 0.0), at(0.0, 0.1), at(5.0, 5.0), at(5.0, 5.1), at(-1.0, 0.0)], [0, 1, 0, 6, 1]);
}

#[test]
fn cooldown_starts_at_first_sight_and_at_each_activity() {
    let mut fleet = Fleet::running(Spec { cooldown: Duration::from_secs(300), bounds: bounds(0, 10), ..spec(&[1.0]) }, 3, 3);
    assert_eq!([0, 299].map(|at| fleet.sync_value(at, 0.0)), [1, 1], "first sight counts as activity");
    assert_eq!(fleet.sync_value(299, 0.1), 1);
    assert_eq!([598, 599].map(|at| fleet.sync_value(at, 0.0)), [1, 0]);
}

#[test]
fn reconsidering_a_deferred_write_keeps_its_count_and_records_nothing() {
    let mut fleet = Fleet::running(Spec { scale_down: window(300, 2), ..spec(&[1.0]) }, 6, 5);
    let deferred = fleet.decide(0, &[value(0.1)]);
    assert_eq!((deferred.write, deferred.deferred()), (None, true));
    assert_eq!(reconsider(&fleet.spec, &deferred, &fleet.workload).and_then(|d| d.write), None, "still not settled");

    fleet.workload.ready = Replicas::new(6);
    let released = reconsider(&fleet.spec, &deferred, &fleet.workload).unwrap();
    assert_eq!(released.write, Some(Replicas::new(4)));
    assert_eq!(released.memory, deferred.memory);
    assert!(reconsider(&fleet.spec, &released, &fleet.workload).is_none(), "what is not kept back is not written again");

    fleet.workload.replicas = Replicas::new(7);
    assert!(reconsider(&fleet.spec, &deferred, &fleet.workload).is_none(), "somebody else changed the size");
}

#[test]
fn seven_stages_always_appear_and_join() {
    let fleet = Fleet::new(spec(&[1.0]), 4, 4);
    for reading in [value(0.0), value(1.0), value(9.0), unknown(), Reading::Idle] {
        let decision = fleet.decide(0, &[reading]);
        let names: Vec<String> =
            decision.stages.iter().map(|s| serde_json::to_value(s.stage).unwrap().as_str().unwrap().to_owned()).collect();
        assert_eq!(names, ["recommend", "activate", "bound", "stabilise", "pace", "guard", "write"]);
        assert!(decision.stages.windows(2).all(|pair| pair[0].out == pair[1].count_in));
        assert!(decision.stages.iter().all(|s| !s.message.is_empty()));
    }
}
