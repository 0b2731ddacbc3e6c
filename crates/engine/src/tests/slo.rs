//! Document B's band as one source of a whole decision.

use super::*;
use crate::{Reason, Stage};

fn mark(x: f64) -> Target {
    Target::new(x).unwrap()
}

/// The guide's band over 3 to 8 replicas; `smoothing` in seconds.
fn guide(smoothing: u64) -> Spec {
    let mut spec = spec(&[1.0]);
    let law = Law::Band(Band::new(mark(0.55), mark(0.40), mark(2.0), Some(Duration::from_secs(smoothing))).unwrap());
    spec.sources[0] = Source { name: "slo".to_owned(), law, ..spec.sources[0].clone() };
    spec.bounds = bounds(3, 8);
    spec
}

fn asked(fleet: &Fleet, at: i64, reading: Reading) -> (u32, String) {
    let decision = fleet.decide(at, &[reading]);
    (decision.recommended.get(), decision.stages[0].message.clone())
}

#[test]
fn the_ask_and_the_sentence() {
    let fleet = Fleet::running(guide(0), 8, 4);
    assert_eq!(
        asked(&fleet, 0, Reading::from_number(0.6)),
        (8, "slo: saturation 0.6 is above 0.55: a fleet of 8 is enough, credit 4/8 for pods that are starting".to_owned())
    );
    let fleet = Fleet::running(guide(45), 4, 4);
    assert_eq!(
        asked(&fleet, 0, Reading::from_number(0.62)),
        (5, "slo: saturation 0.62 (smoothed over 45 s) is above 0.55: a fleet of 4 should be 5".to_owned())
    );
    assert_eq!(asked(&fleet, 0, Reading::Idle), (0, "slo is idle".to_owned()));
}

#[test]
fn the_trace_carries_what_is_compared() {
    let mut fleet = Fleet::running(guide(45), 4, 4);
    fleet.sync_value(0, 0.5);
    let decision = fleet.decide(15, &[Reading::from_number(90.0)]);
    let trace = &decision.readings[0];
    assert_eq!(trace.state, ReadingState::Value(Measurement::new(1.25).unwrap()), "the mean of 0.5 and of 90 clamped at 2");
    assert_eq!((trace.target, trace.replicas), (Some(0.55), Some(Replicas::new(10))));
    assert!(trace.account.as_ref().is_some_and(|account| decision.stages[0].message.contains(account)));
}

#[test]
fn samples_are_stored_clamped_and_pruned() {
    let mut fleet = Fleet::running(guide(45), 4, 4);
    for at in [0, 15, 30, 45] {
        fleet.sync_value(at, 50.0);
    }
    let kept: Vec<_> = fleet.memory.saturation.iter().map(|sample| (sample.at.as_millis() / 1000, sample.value.get())).collect();
    assert_eq!(kept, [(15, 2.0), (30, 2.0), (45, 2.0)]);
    fleet.sync(90, &[unknown()]);
    assert_eq!(fleet.memory.saturation, [], "also while nothing is known");
    fleet.sync_value(105, 0.5);
    assert_eq!(fleet.memory.saturation.len(), 1);
    fleet.spec = guide(0);
    fleet.sync_value(120, 0.5);
    assert_eq!(fleet.memory.saturation, [], "nobody reads them any more");
}

#[test]
fn an_outage_is_no_zero() {
    let mut fleet = Fleet::running(guide(45), 8, 8);
    for at in [0, 15, 30] {
        fleet.sync_value(at, 0.5);
    }
    for at in [45, 60, 75, 90] {
        let decision = fleet.decide(at, &[unknown()]);
        assert_eq!((decision.recommended.get(), decision.write), (8, None));
        fleet.memory = decision.memory;
    }
    assert_eq!(asked(&fleet, 105, Reading::from_number(0.45)).0, 8, "0.45 alone, not the mean of it and of nothing");
}

#[test]
fn idle_asks_for_none_and_counts_as_no_latency() {
    let mut fleet = Fleet::running(guide(45), 8, 8);
    fleet.spec.scale_down = window(600, 0);
    fleet.sync_value(0, 0.6);
    fleet.sync(15, &[Reading::Idle]);
    assert_eq!(fleet.memory.saturation.last().map(|sample| sample.value), Some(Measurement::ZERO));
    let decision = fleet.decide(30, &[Reading::from_number(0.6)]);
    assert_eq!(decision.readings[0].state, ReadingState::Value(Measurement::new(0.4).unwrap()), "two of three");
}

#[test]
fn only_a_pool_that_is_proved_idle_goes_to_zero() {
    let at_min_0 = |replicas, reading| {
        let mut fleet = Fleet::running(Spec { bounds: bounds(0, 8), ..guide(0) }, replicas, replicas);
        fleet.sync(0, &[reading])
    };
    assert_eq!(at_min_0(3, Reading::Idle), 0);
    assert_eq!(at_min_0(3, Reading::from_number(0.0)), 1, "a latency of 0 is still traffic");
    assert_eq!(at_min_0(3, unknown()), 3);
    assert_eq!(at_min_0(0, Reading::from_number(0.9)), 1, "whoever has a latency is served");
    assert_eq!(at_min_0(0, Reading::Idle), 0);
    assert_eq!(at_min_0(0, unknown()), 0);
}

#[test]
fn it_stands_beside_other_sources() {
    let mut spec = guide(0);
    let queue = Source { name: "queue".to_owned(), law: Law::Average { target: mark(1.0) }, ..spec.sources[0].clone() };
    spec.sources.insert(0, queue);
    let asks = |queue, slo| Fleet::running(spec.clone(), 4, 4).decide(0, &[queue, slo]).recommended.get();
    assert_eq!(asks(Reading::from_number(7.0), Reading::from_number(0.62)), 7);
    assert_eq!(asks(Reading::from_number(0.0), Reading::from_number(0.62)), 5);
    assert_eq!(asks(unknown(), Reading::from_number(0.3)), 3);
    assert_eq!(asks(Reading::from_number(0.0), unknown()), 0, "as any unknown one, unless it is required");
    spec.sources[1].required = true;
    let decision = Fleet::running(spec, 4, 4).decide(0, &[Reading::from_number(0.0), unknown()]);
    assert_eq!((decision.recommended.get(), decision.stages[0].reason), (4, Reason::RequiredMetricUnknown));
}

#[test]
fn tolerance_belongs_to_the_other_laws() {
    let mut spec = guide(0);
    let rules =
        ScalingRules { window: Duration::ZERO, select: SelectPolicy::Max, policies: vec![], tolerance: Measurement::new(0.5).unwrap() };
    spec.behavior = Some(Behavior { up: rules.clone(), down: rules });
    assert_eq!(asked(&Fleet::running(spec, 4, 4), 0, Reading::from_number(0.56)).0, 5, "the band is its own");
}

#[test]
fn a_fleet_that_starts_is_not_asked_to_race_to_its_maximum() {
    // 3 replicas at 1.1 need 6. While three of the six start, the three that serve still read 1.1.
    let mut fleet = Fleet::running(Spec { bounds: bounds(3, 100), ..guide(0) }, 3, 3);
    assert_eq!(fleet.sync_value(0, 1.1), 6);
    fleet.workload.ready = Replicas::new(3);
    for at in [15, 30, 45, 60, 75] {
        let decision = fleet.decide(at, &[Reading::from_number(1.1)]);
        assert_eq!((decision.write, decision.out_of(Stage::Recommend).get()), (None, 6), "at {at} s");
        fleet.memory = decision.memory;
    }
    assert_eq!(fleet.sync_value(90, 1.3), 8, "a load that still grows is answered: 3 × 1.3 ÷ 0.55");
}
