//! What the first stage asks for, and what it says of it.

use super::*;
use crate::Reason;

fn number(value: f64) -> Reading {
    Reading::from_number(value)
}

/// The first stage of a fleet of four.
fn first(spec: Spec, ready: u32, readings: &[Reading]) -> StageTrace {
    Fleet::running(spec, 4, ready).decide(0, readings).stages.swap_remove(0)
}

#[test]
fn it_says_which_figure_asks_for_the_count() {
    let average = |targets: &[f64]| {
        let mut spec = spec(targets);
        for source in &mut spec.sources {
            source.law = Law::Average { target: source.law.target().unwrap() };
        }
        spec
    };
    for (spec, ready, readings, count, message) in [
        (spec(&[0.8]), 4, vec![number(0.9)], 5, "m0 0.9 against 0.8 over 4 ready replicas asks for 5"),
        (spec(&[0.8]), 1, vec![number(1.6)], 2, "m0 1.6 against 0.8 over 1 ready replica asks for 2"),
        (spec(&[0.8]), 0, vec![number(1.6)], 2, "m0 1.6 against 0.8 over a base of 1, none being ready, asks for 2"),
        (average(&[5.0]), 4, vec![number(28.0)], 6, "m0 28 at 5 a replica asks for 6"),
        (absolute(), 4, vec![number(14.2)], 15, "decision asks for 15"),
        (spec(&[0.8]), 4, vec![Reading::Idle], 0, "m0 is idle"),
        (absolute(), 4, vec![Reading::Idle], 0, "decision is idle"),
        (average(&[5.0, 5.0]), 4, vec![number(28.0), number(31.0)], 7, "m1 31 at 5 a replica asks for 7"),
        // Of two that ask for as many the first one speaks.
        (average(&[5.0, 5.0]), 4, vec![number(28.0), number(29.0)], 6, "m0 28 at 5 a replica asks for 6"),
        (average(&[5.0, 5.0]), 4, vec![unknown(), number(28.0)], 6, "m1 28 at 5 a replica asks for 6; unknown: m0"),
        (average(&[5.0, 5.0, 5.0]), 4, vec![unknown(), number(28.0)], 6, "m1 28 at 5 a replica asks for 6; unknown: m0, m2"),
    ] {
        let stage = first(spec, ready, &readings);
        assert_eq!((stage.out.get(), stage.reason, stage.message.as_str()), (count, Reason::ValidMetricFound, message));
    }
}

#[test]
fn where_nothing_is_known_it_says_why() {
    for (sources, readings, message) in [
        (0, vec![], "there is no source of recommendations, so the fleet keeps its 4 replicas"),
        (1, vec![unknown()], "m0 is unknown, so the fleet keeps its 4 replicas: connection refused"),
        (1, vec![], "m0 is unknown, so the fleet keeps its 4 replicas: there is no reading for it"),
        (
            2,
            vec![Reading::unknown(" "), unknown()],
            "m0, m1 are all unknown, so the fleet keeps its 4 replicas; the first: no reason was given",
        ),
    ] {
        let stage = first(spec(&[0.8].repeat(sources)), 4, &readings);
        assert_eq!((stage.out.get(), stage.reason, stage.message.as_str()), (4, Reason::FailedGetMetrics, message));
    }
}

#[test]
fn a_required_source_is_the_reason_only_where_it_keeps_the_count() {
    for (value, expected) in
        [(0.6, (4, Reason::RequiredMetricUnknown)), (0.8, (4, Reason::ValidMetricFound)), (0.9, (5, Reason::ValidMetricFound))]
    {
        let mut spec = spec(&[0.8, 0.8]);
        spec.sources[1].required = true;
        let stage = first(spec, 4, &[number(value), unknown()]);
        assert_eq!((stage.out.get(), stage.reason), expected, "{}", stage.message);
        let kept = "m1 is required and unknown, so the fleet keeps its 4 replicas";
        assert_eq!(stage.message == kept, stage.reason == Reason::RequiredMetricUnknown, "{}", stage.message);
    }
}

#[test]
fn the_fallback_is_the_reason_only_where_it_raises_the_count() {
    for (fallback, threshold, failed_before, expected, message) in [
        (5, 3, 3, (5, Reason::FallbackReplicas), "m0 has been unknown for more than 3 syncs, so at least the fallback of 5 is asked for"),
        (5, 1, 7, (5, Reason::FallbackReplicas), "m0 has been unknown for more than 1 sync, so at least the fallback of 5 is asked for"),
        (5, 3, 2, (4, Reason::FailedGetMetrics), "m0 is unknown, so the fleet keeps its 4 replicas: connection refused"),
        (4, 3, 3, (4, Reason::FailedGetMetrics), "m0 is unknown, so the fleet keeps its 4 replicas: connection refused"),
        (3, 3, 3, (4, Reason::FailedGetMetrics), "m0 is unknown, so the fleet keeps its 4 replicas: connection refused"),
    ] {
        let mut fleet = Fleet::running(spec(&[0.8]), 4, 4);
        fleet.spec.fallback = Some(Fallback { failure_threshold: threshold, replicas: Replicas::new(fallback) });
        fleet.memory.failures = [("m0".to_owned(), failed_before), ("renamed".to_owned(), 9)].into();
        let decision = fleet.decide(0, &[unknown()]);
        let stage = &decision.stages[0];
        assert_eq!((stage.out.get(), stage.reason), expected, "{fallback} after {failed_before} of {threshold}");
        assert_eq!(stage.message, message);
        assert_eq!(decision.memory.failures, [("m0".to_owned(), failed_before + 1)].into(), "only of sources that there are");
    }
}
