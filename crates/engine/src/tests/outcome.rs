//! Why a decision ended as it did, in a code and a sentence, and what else a write brings.

use super::*;
use crate::{Reason, Rollout};

fn number(value: f64) -> Reading {
    Reading::from_number(value)
}

#[test]
fn the_guard_that_holds_then_the_write_then_the_last_change_explains_the_outcome() {
    let settled = |spec: Spec, replicas, readings: &[Reading]| Fleet::running(spec, replicas, replicas).decide(0, readings);
    let restarted = |spec: Spec, replicas, value| Fleet::new(spec, replicas, replicas).decide(0, &[number(value)]);
    let required = || {
        let mut spec = spec(&[0.8, 0.8]);
        spec.sources[1].required = true;
        spec
    };
    let rolling = || {
        let mut fleet = Fleet::running(spec(&[0.8]), 4, 4);
        fleet.workload.rollout = Rollout::InProgress("1 of 4 replicas is on the newest template".to_owned());
        fleet.decide(0, &[number(2.4)])
    };
    let partly = || {
        let mut fleet = Fleet::running(spec(&[0.8]), 10, 8);
        fleet.workload.pods = unready(2, 601);
        fleet.decide(0, &[number(0.1)])
    };
    for (decision, reason, message) in [
        // A write says from what to what, what was measured, and the last stage that changed the count.
        (
            settled(spec(&[0.8]), 4, &[number(0.9)]),
            Reason::SuccessfulRescale,
            "up from 4 to 5: m0 0.9 against 0.8 over 4 ready replicas asks for 5",
        ),
        (
            settled(spec(&[0.8]), 4, &[number(2.4)]),
            Reason::SuccessfulRescale,
            "up from 4 to 10: m0 2.4 against 0.8 over 4 ready replicas asks for 12; 12 is above maxReplicas 10",
        ),
        (
            settled(Spec { scale_down: window(0, 2), ..spec(&[0.8]) }, 6, &[number(0.0)]),
            Reason::SuccessfulRescale,
            "down from 6 to 4: m0 0 against 0.8 over 6 ready replicas asks for 0; \
             maxStepReplicas 2 removes no more than that at once, so 4 comes before 1",
        ),
        (
            partly(),
            Reason::SuccessfulRescale,
            "down from 10 to 8: m0 0.1 against 0.8 over 8 ready replicas asks for 1; \
             1 is asked for, but the fleet keeps 8 until it is settled: 8 of 10 replicas are ready",
        ),
        // A guard speaks before the bound that changed the count on the way.
        (
            rolling(),
            Reason::RolloutInProgress,
            "10 waits for the rollout of the target to finish: 1 of 4 replicas is on the newest template",
        ),
        // Nothing is to be written: the last stage that changed the count, here after the bound raised it to 1.
        (
            restarted(Spec { scale_down: window(120, 2), ..spec(&[0.8]) }, 6, 0.0),
            Reason::ScaleDownStabilized,
            "1 would do, but 6 was needed within the last 120 s, so the fleet does not go below 6",
        ),
        (settled(spec(&[0.8]), 10, &[number(0.9)]), Reason::TooManyReplicas, "12 is above maxReplicas 10"),
        // No stage changed it: what was measured.
        (
            settled(spec(&[0.8]), 4, &[number(0.8)]),
            Reason::DesiredWithinRange,
            "the fleet stays at 4: m0 0.8 against 0.8 over 4 ready replicas asks for 4",
        ),
        (
            settled(spec(&[0.8]), 4, &[unknown()]),
            Reason::FailedGetMetrics,
            "m0 is unknown, so the fleet keeps its 4 replicas: connection refused",
        ),
        (
            settled(required(), 4, &[number(0.1), unknown()]),
            Reason::RequiredMetricUnknown,
            "m1 is required and unknown, so the fleet keeps its 4 replicas",
        ),
    ] {
        assert_eq!((decision.reason, decision.message.as_str()), (reason, message));
    }
}

#[test]
fn the_last_stage_says_what_is_written() {
    for (value, write, reason, message) in [
        (0.9, Some(5), Reason::SuccessfulRescale, "up from 4 to 5"),
        (0.6, Some(3), Reason::SuccessfulRescale, "down from 4 to 3"),
        (0.8, None, Reason::NoChange, "the fleet stays at 4"),
    ] {
        let decision = Fleet::running(spec(&[0.8]), 4, 4).decide(0, &[number(value)]);
        let last = decision.stages.last().unwrap();
        assert_eq!((decision.write.map(Replicas::get), last.reason, last.message.as_str()), (write, reason, message));
    }
}

#[test]
fn only_a_downward_write_names_pods_to_remove() {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    // Six pods of a fleet of four, as while a surge of it ends.
    let mut fleet = Fleet::running(spec(&[0.8]), 4, 4);
    fleet.workload.pods = pods(&["a", "b", "c", "d", "e", "f"]);
    for (value, size, victims) in [(0.9, 5, &[][..]), (0.8, 4, &[]), (0.6, 3, &["f", "e", "d"])] {
        let decision = fleet.decide(0, &[number(value)]);
        assert_eq!((decision.write.unwrap_or(decision.replicas).get(), decision.victims.names), (size, owned(victims)));
    }
}

#[test]
fn a_bound_that_raises_what_is_unknown_is_told_first() {
    let decision = Fleet::running(spec(&[0.8]), 0, 0).decide(0, &[unknown()]);
    let message = "up from 0 to 1: 0 is below minReplicas 1; m0 is unknown, so the fleet keeps its 0 replicas: connection refused";
    assert_eq!((decision.write.map(Replicas::get), decision.message.as_str()), (Some(1), message));
}
