//! The rules of autoscaling/v2 that `behavior` brings: windows, policies, tolerance; and totals of a pool, which they are mostly used with.

use super::*;
use crate::Reason;
use PolicyLimit::{Percent, Pods};

/// Rules that allow anything at once.
fn free() -> ScalingRules {
    ScalingRules { window: Duration::ZERO, select: SelectPolicy::Max, policies: vec![], tolerance: Measurement::ZERO }
}

fn policies(list: &[(PolicyLimit, u64)]) -> Vec<Policy> {
    list.iter().map(|(limit, seconds)| Policy { limit: *limit, period: Duration::from_secs(*seconds) }).collect()
}

/// A fleet of 0 to 1000 that is told its count, under these rules.
fn told(up: ScalingRules, down: ScalingRules, replicas: u32) -> Fleet {
    Fleet::running(Spec { bounds: bounds(0, 1000), behavior: Some(Behavior { up, down }), ..absolute() }, replicas, replicas)
}

/// The size after one sync of a fleet of `replicas` that is told `desired` under one direction's policies.
fn once(rules: ScalingRules, replicas: u32, desired: u32, events: &[(i64, i32)]) -> u32 {
    let mut fleet = told(rules.clone(), rules, replicas);
    fleet.memory.scale_events =
        events.iter().map(|(at, change)| ScaleEvent { at: Time::from_millis(at * 1000), change: *change }).collect();
    fleet.sync_value(0, f64::from(desired))
}

#[test]
fn the_selected_policy_limits_the_step() {
    let both = policies(&[(Pods(4), 60), (Percent(50), 60)]);
    for (select, replicas, desired, expected) in [
        // Four pods are more than half of 3, and less than half of 20.
        (SelectPolicy::Max, 3, 100, 7),
        (SelectPolicy::Min, 3, 100, 5),
        (SelectPolicy::Max, 20, 100, 30),
        (SelectPolicy::Min, 20, 100, 24),
        (SelectPolicy::Max, 20, 0, 10),
        (SelectPolicy::Min, 20, 0, 16),
        (SelectPolicy::Max, 6, 0, 2),
        (SelectPolicy::Min, 6, 0, 3),
        (SelectPolicy::Disabled, 20, 100, 20),
        (SelectPolicy::Disabled, 20, 0, 20),
        // What is within the limit is taken as it is.
        (SelectPolicy::Min, 20, 23, 23),
        (SelectPolicy::Min, 20, 17, 17),
    ] {
        let rules = ScalingRules { select, policies: both.clone(), ..free() };
        assert_eq!(once(rules, replicas, desired, &[]), expected, "{select:?}: {replicas} to {desired}");
    }
}

#[test]
fn without_a_policy_nothing_limits_the_step() {
    assert_eq!((once(free(), 5, 1000, &[]), once(free(), 1000, 1, &[])), (1000, 1));
}

#[test]
fn percentages_round_away_from_the_present_count() {
    let per_cent = |percent| ScalingRules { policies: policies(&[(Percent(percent), 60)]), ..free() };
    for (percent, replicas, up, down) in [(10, 7, 8, 6), (50, 3, 5, 1), (100, 3, 6, 0), (1, 1, 2, 0), (300, 2, 8, 0)] {
        assert_eq!(once(per_cent(percent), replicas, 1000, &[]), up, "{replicas} + {percent} %");
        assert_eq!(once(per_cent(percent), replicas, 0, &[]), down, "{replicas} - {percent} %");
    }
}

#[test]
fn writes_within_the_period_count_against_the_policy() {
    let pods = ScalingRules { policies: policies(&[(Pods(4), 60)]), ..free() };
    for (events, up, down, why) in [
        (&[][..], 14, 6, "nothing yet"),
        (&[(-10, 3)], 11, 3, "three of four were added; they may all be taken back"),
        (&[(-10, -3)], 17, 9, "three of four were removed"),
        (&[(-10, 4)], 10, 2, "the four are used up"),
        (&[(-10, 6)], 10, 0, "more than the four, as under an earlier rule, is not taken back"),
        (&[(-40, 2), (-10, 1)], 11, 3, "they add up"),
        (&[(-40, 2), (-10, -2)], 14, 6, "and cancel out"),
        (&[(-60, 4)], 14, 6, "a write counts while it is younger than the period"),
        (&[(-59, 4)], 10, 2, "a second earlier it still does"),
    ] {
        assert_eq!((once(pods.clone(), 10, 1000, events), once(pods.clone(), 10, 0, events)), (up, down), "{why}");
    }
}

#[test]
fn each_policy_has_a_period_of_its_own() {
    let rules = ScalingRules { select: SelectPolicy::Min, policies: policies(&[(Pods(4), 15), (Pods(10), 600)]), ..free() };
    assert_eq!(once(rules.clone(), 10, 1000, &[(-100, 4), (-50, 4)]), 12, "2 of the 10 in ten minutes are left");
    assert_eq!(once(rules, 10, 1000, &[(-100, 4), (-10, 4)]), 10, "and none of the 4 in 15 s");
}

#[test]
fn a_percentage_is_of_the_count_at_the_start_of_the_period() {
    let rules = ScalingRules { policies: policies(&[(Percent(100), 60)]), ..free() };
    assert_eq!(once(rules.clone(), 12, 1000, &[(-30, 4)]), 16, "8 doubled");
    assert_eq!(once(ScalingRules { policies: policies(&[(Percent(50), 60)]), ..free() }, 12, 0, &[(-30, -4)]), 8, "half of 16");
}

#[test]
fn one_replica_wakes_a_fleet_whatever_the_policy() {
    for limit in [Percent(100), Pods(1)] {
        let rules = ScalingRules { policies: policies(&[(limit, 60)]), ..free() };
        assert_eq!(once(rules.clone(), 0, 5, &[(-10, 1), (-5, -1)]), 1);
        assert_eq!(once(ScalingRules { select: SelectPolicy::Disabled, ..rules }, 0, 5, &[]), 0, "but a closed direction");
    }
}

#[test]
fn policies_pace_a_fleet_over_time() {
    let one_in_two_minutes = ScalingRules { policies: policies(&[(Pods(1), 120)]), ..free() };
    let burst = ScalingRules { policies: policies(&[(Percent(100), 60), (Pods(4), 60)]), ..free() };
    let mut fleet = told(burst, one_in_two_minutes, 3);
    assert_eq!([0, 15, 45, 60, 75].map(|at| fleet.sync_value(at, 40.0)), [7, 7, 7, 14, 14]);
    assert_eq!([120, 135].map(|at| fleet.sync_value(at, 40.0)), [28, 28]);
    let mut fleet = told(free(), ScalingRules { policies: policies(&[(Pods(1), 120)]), ..free() }, 5);
    assert_eq!([0, 15, 105, 120, 239, 240].map(|at| fleet.sync_value(at, 0.0)), [4, 4, 4, 3, 3, 2]);
}

#[test]
fn the_up_window_takes_the_least_that_was_asked_for_within_it() {
    let mut fleet = told(ScalingRules { window: Duration::from_secs(30), ..free() }, free(), 3);
    assert_eq!(fleet.sync_value(0, 3.0), 3);
    assert_eq!([15, 29].map(|at| fleet.sync_value(at, 8.0)), [3, 3], "3 was enough less than 30 s ago");
    assert_eq!(fleet.sync_value(30, 6.0), 6, "now 8 was, and 6 is");
    assert_eq!(fleet.sync_value(45, 2.0), 2, "shrinking has no window here");
}

#[test]
fn the_down_window_takes_the_most_that_was_asked_for_within_it() {
    let mut fleet = told(free(), ScalingRules { window: Duration::from_secs(180), ..free() }, 8);
    assert_eq!(fleet.sync_value(0, 8.0), 8);
    assert_eq!([15, 60, 179].map(|at| fleet.sync_value(at, 3.0)), [8, 8, 8]);
    assert_eq!(fleet.sync_value(180, 2.0), 3, "8 has aged out, 3 was needed 1 s ago");
    assert_eq!(fleet.sync_value(359, 2.0), 2, "the window does not start again with the write");
    assert_eq!(fleet.sync_value(360, 9.0), 9, "growing has no window here");
}

#[test]
fn both_windows_hold_a_fleet_between_what_was_enough_and_what_was_needed() {
    let window = |seconds| ScalingRules { window: Duration::from_secs(seconds), ..free() };
    for (asked, replicas, now, expected, why) in [
        (&[(-60, 3), (-30, 9)][..], 5, 6, 5, "neither: 3 was enough, 9 was needed"),
        (&[(-60, 7), (-30, 9)], 5, 8, 7, "7 at least, ever since"),
        (&[(-60, 3), (-30, 4)], 5, 2, 4, "4 at most, ever since"),
        (&[(-150, 3), (-30, 9)], 5, 8, 8, "what is older than the up window counts for down alone"),
        (&[(-150, 9), (-30, 3)], 5, 2, 5, "and does"),
    ] {
        let mut fleet = told(window(100), window(200), replicas);
        let at = |seconds: i64| Time::from_millis(seconds * 1000);
        fleet.memory.recommendations =
            Some(asked.iter().map(|(s, count)| Recommendation { at: at(*s), replicas: Replicas::new(*count) }).collect());
        assert_eq!(fleet.sync_value(0, f64::from(now)), expected, "{why}");
    }
}

#[test]
fn what_is_recorded_is_what_was_asked_for_not_what_came_of_it() {
    let slow = ScalingRules { policies: policies(&[(Pods(1), 60)]), window: Duration::from_secs(100), ..free() };
    let mut fleet = told(slow, free(), 3);
    assert_eq!(fleet.sync_value(0, 50.0), 4, "the policy lets one in");
    assert_eq!(fleet.sync_value(60, 50.0), 5, "a minute ago 50 was asked for, not 4, so the window lets the next one in");
}

#[test]
fn a_behavior_replaces_the_window_of_scale_down_and_its_restart() {
    let mut fleet = told(free(), ScalingRules { window: Duration::from_secs(60), ..free() }, 8);
    fleet.spec.scale_down = window(3600, 0);
    assert_eq!([0, 59].map(|at| fleet.sync_value(at, 8.0)), [8, 8]);
    assert_eq!([60, 118, 119].map(|at| fleet.sync_value(at, 2.0)), [8, 8, 2]);
}

#[test]
fn the_step_cap_comes_after_the_policies() {
    let mut fleet = told(free(), ScalingRules { policies: policies(&[(Pods(4), 60)]), ..free() }, 10);
    fleet.spec.scale_down = window(0, 3);
    assert_eq!([0, 15, 30, 60].map(|at| fleet.sync_value(at, 0.0)), [7, 6, 6, 3], "3 by the cap, 1 by the policy, and again");
}

#[test]
fn no_policy_keeps_a_fleet_outside_of_its_bounds() {
    let closed = ScalingRules { select: SelectPolicy::Disabled, ..free() };
    let mut fleet = told(closed.clone(), closed, 20);
    fleet.spec.bounds = bounds(3, 10);
    assert_eq!(fleet.sync_value(0, 20.0), 10);
    fleet.workload = workload(1, 1);
    assert_eq!(fleet.sync_value(15, 1.0), 3);
}

#[test]
fn scale_events_are_kept_for_a_behavior_that_is_yet_to_come() {
    let mut fleet = Fleet::running(Spec { bounds: bounds(0, 1000), ..absolute() }, 10, 10);
    assert_eq!(fleet.sync_value(0, 14.0), 14);
    let limited = ScalingRules { policies: policies(&[(Pods(4), 60)]), ..free() };
    fleet.spec.behavior = Some(Behavior { up: limited.clone(), down: limited });
    assert_eq!([30, 60].map(|at| fleet.sync_value(at, 30.0)), [14, 18]);
}

fn tolerant(mut spec: Spec, up: f64, down: f64) -> Spec {
    let rules = |tolerance| ScalingRules { tolerance: Measurement::new(tolerance).unwrap(), ..free() };
    spec.behavior = Some(Behavior { up: rules(up), down: rules(down) });
    spec.bounds = bounds(0, 100);
    spec
}

fn average(target: f64) -> Spec {
    let mut spec = spec(&[target]);
    spec.sources[0].law = Law::Average { target: Target::new(target).unwrap() };
    spec.bounds = bounds(0, 100);
    spec
}

#[test]
fn within_the_tolerance_a_ratio_asks_for_what_it_was_measured_on() {
    for (value, expected) in [(0.9, 10), (1.0, 10), (1.1, 10), (0.89, 9), (1.11, 12), (0.5, 5)] {
        assert_eq!(Fleet::running(tolerant(spec(&[1.0]), 0.1, 0.1), 10, 10).sync_value(0, value), expected, "{value}, ends included");
    }
    // 0.33 ÷ 0.3 is a hair above 1.1 in binary.
    assert_eq!(Fleet::running(tolerant(spec(&[0.3]), 0.1, 0.1), 10, 10).sync_value(0, 0.33), 10);
    let fleet = Fleet::running(tolerant(spec(&[1.0]), 0.1, 0.1), 10, 6);
    assert_eq!(fleet.decide(0, &[Reading::from_number(1.05)]).recommended.get(), 6, "the ready ones");
}

#[test]
fn within_the_tolerance_a_total_asks_for_the_present_size() {
    for (total, expected) in [(90.0, 10), (100.0, 10), (110.0, 10), (89.0, 9), (111.0, 12), (0.0, 0)] {
        assert_eq!(Fleet::running(tolerant(average(10.0), 0.1, 0.1), 10, 10).sync_value(0, total), expected, "{total}, ends included");
    }
}

#[test]
fn each_side_has_its_own_tolerance() {
    for (value, expected) in [(1.5, 10), (1.51, 16), (0.99, 10), (0.89, 9)] {
        assert_eq!(Fleet::running(tolerant(spec(&[1.0]), 0.5, 0.05), 10, 10).sync_value(0, value), expected, "{value}");
    }
    assert_eq!(Fleet::running(tolerant(spec(&[1.0]), 0.0, 0.0), 10, 10).sync_value(0, 1.01), 11, "0 is none");
}

#[test]
fn a_fleet_of_none_has_no_tolerance() {
    assert_eq!(Fleet::running(tolerant(spec(&[1.0]), 0.5, 0.5), 0, 0).sync_value(0, 1.05), 2);
    assert_eq!(Fleet::running(tolerant(average(10.0), 0.5, 0.5), 0, 0).sync_value(0, 1.0), 1);
}

#[test]
fn without_a_behavior_there_is_no_tolerance() {
    assert_eq!(Fleet::running(Spec { bounds: bounds(0, 100), ..spec(&[1.0]) }, 10, 10).sync_value(0, 1.01), 11);
    assert_eq!(Fleet::running(average(10.0), 10, 10).sync_value(0, 101.0), 11);
}

#[test]
fn a_total_is_shared_out_whatever_the_present_size() {
    for (total, replicas, ready, expected) in
        [(45.0, 1, 1, 5), (45.0, 50, 2, 5), (50.0, 3, 0, 5), (0.1, 4, 4, 1), (0.0, 4, 4, 0), (51.0, 4, 4, 6)]
    {
        let decision = Fleet::running(average(10.0), replicas, ready).decide(0, &[Reading::from_number(total)]);
        assert_eq!(decision.recommended.get(), expected, "{total} over {replicas}, {ready} ready");
    }
}

#[test]
fn of_several_metrics_the_largest_count_wins_each_by_its_own_type() {
    let mut both = spec(&[16.0, 1.0]);
    both.bounds = bounds(1, 100);
    for source in &mut both.sources {
        source.law = Law::Average { target: source.law.target().unwrap() };
    }
    for (running, queued, expected) in [(40.0, 0.0, 3), (40.0, 5.0, 5), (0.0, 0.0, 1), (160.0, 5.0, 10)] {
        let seen = [running, queued].map(Reading::from_number);
        assert_eq!(Fleet::running(both.clone(), 2, 2).sync(0, &seen), expected, "{running} running, {queued} queued");
    }
    assert_eq!(Fleet::running(both.clone(), 2, 2).sync(0, &[unknown(), Reading::from_number(5.0)]), 5, "the known one may grow it");
}

#[test]
fn the_reason_says_which_rule_holds() {
    let reason = |mut fleet: Fleet, asked: f64| {
        fleet.sync_value(0, 10.0);
        fleet.decide(15, &[Reading::from_number(asked)]).reason
    };
    let windows = || ScalingRules { window: Duration::from_secs(60), ..free() };
    let closed = || ScalingRules { select: SelectPolicy::Disabled, ..free() };
    assert_eq!(reason(told(windows(), free(), 10), 20.0), Reason::ScaleUpStabilized);
    assert_eq!(reason(told(free(), windows(), 10), 2.0), Reason::ScaleDownStabilized);
    assert_eq!(reason(told(closed(), free(), 10), 20.0), Reason::ScalingDisabled);
    let spent = ScalingRules { policies: policies(&[(Pods(1), 60)]), ..free() };
    let mut fleet = told(spent, free(), 9);
    fleet.sync_value(0, 10.0);
    let decision = fleet.decide(15, &[Reading::from_number(20.0)]);
    assert_eq!((decision.write, decision.reason), (None, Reason::ScaleUpLimit));
}
