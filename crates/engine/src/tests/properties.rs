//! Properties of every decision.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::Rollout;

fn any_law() -> impl Strategy<Value = Law> {
    prop_oneof![
        select(vec![0.1, 0.5, 0.8, 5.0]).prop_map(|t| Law::Ratio { target: Target::new(t).unwrap() }),
        select(vec![0.1, 1.0, 5.0]).prop_map(|t| Law::Average { target: Target::new(t).unwrap() }),
        Just(Law::Absolute),
    ]
}

fn any_band() -> impl Strategy<Value = Law> {
    let mark = |x| Target::new(x).unwrap();
    (select(vec![0.55, 5.0]), select(vec![0.1, 0.4]), select(vec![5.0, 18.0]), select(vec![0, 45, 100]))
        .prop_map(move |(up, down, clamp, smoothing)| (mark(up), mark(down), mark(clamp), Duration::from_secs(smoothing)))
        .prop_map(|(up, down, clamp, smoothing)| Law::Band(Band::new(up, down, clamp, Some(smoothing)).unwrap()))
}

/// The one source of a spec that may have a past of its own.
fn any_slo() -> impl Strategy<Value = Law> {
    prop_oneof![3 => any_band(), 1 => Just(super::headroom::headroom().sources[0].law)]
}

fn smooths(spec: &Spec) -> bool {
    spec.sources.iter().any(|source| matches!(source.law, Law::Band(band) if band.smoothing().is_some()))
}

fn any_rules() -> impl Strategy<Value = ScalingRules> {
    let limit = prop_oneof![(1..6u32).prop_map(PolicyLimit::Pods), (1..200u32).prop_map(PolicyLimit::Percent)];
    let policy = (limit, 1..200u64).prop_map(|(limit, period)| Policy { limit, period: Duration::from_secs(period) });
    let policies = prop::collection::vec(policy, 1..3);
    (0..300u64, select(vec![SelectPolicy::Max, SelectPolicy::Min, SelectPolicy::Disabled]), policies, select(vec![0.0, 0.1, 0.5])).prop_map(
        |(window, select, policies, tolerance)| ScalingRules {
            window: Duration::from_secs(window),
            select,
            policies,
            tolerance: Measurement::new(tolerance).unwrap(),
        },
    )
}

prop_compose! {
    fn any_spec()(
        laws in prop::collection::vec((any_law(), any::<bool>(), select(vec![0.0, 3.0, -1.0])), 1..4),
        (slo, alone) in (prop::option::of(any_slo()), prop::bool::weighted(0.2)),
        (min, span) in (0..6u32, 0..10u32),
        (window, step, cooldown) in (select(vec![0, 60, 300]), 0..4u32, select(vec![0, 300])),
        behavior in prop::option::of((any_rules(), any_rules()).prop_map(|(up, down)| Behavior { up, down })),
        fallback in prop::option::of((0..3u32, 0..8u32)),
        mode in select(vec![Mode::Auto, Mode::Auto, Mode::Recommend]),
    ) -> Spec {
        let source = |(index, (law, required, activation)): (usize, (Law, bool, f64))| Source {
            name: format!("m{index}"), law, required, activation: Activation::new(activation).unwrap(),
        };
        Spec {
            bounds: bounds(min, min + span),
            sources: laws.into_iter().filter(|_| !alone || slo.is_none()).chain(slo.map(|slo| (slo, false, 0.0))).enumerate().map(source).collect(),
            scale_down: super::window(window, step),
            cooldown: Duration::from_secs(cooldown),
            fallback: fallback.map(|(failure_threshold, replicas)| Fallback { failure_threshold, replicas: Replicas::new(replicas) }),
            behavior,
            mode,
            ..spec(&[1.0])
        }
    }
}

fn any_reading() -> impl Strategy<Value = Reading> {
    prop_oneof![
        6 => (0..400u32).prop_map(|v| Reading::from_number(f64::from(v) / 20.0)),
        1 => Just(Reading::Idle),
        2 => Just(unknown()),
        1 => select(vec![f64::NAN, f64::INFINITY, -1.0, 1e300, f64::MIN_POSITIVE]).prop_map(Reading::from_number),
    ]
}

prop_compose! {
    fn any_pod()(age in 0..2000u64, share in 0..=10u64, flags in any::<[bool; 4]>(), cost in select(vec![0, 0, 5, -200, i32::MIN]), ordinal in prop::option::weighted(0.2, 0..6u32)) -> Pod {
        let [ready, terminating, unschedulable, current] = flags;
        Pod {
            name: format!("p{age}-{share}"), age: Duration::from_secs(age), ready,
            unready_for: if ready { Duration::ZERO } else { Duration::from_secs(age * share / 10) },
            terminating, unschedulable: unschedulable && !ready, deletion_cost: cost, ordinal, current,
        }
    }
}

prop_compose! {
    fn any_workload()(
        replicas in 0..15u32, missing in select(vec![0, 0, 0, 1, 3, 20]), terminating in select(vec![0, 0, 0, 2]),
        rollout in select(vec![Rollout::Settled, Rollout::Settled, Rollout::InProgress("x".into()), Rollout::Stalled("x".into())]),
        pods in prop_oneof![Just(vec![]), prop::collection::vec(any_pod(), 0..8)],
        owned in prop::bool::weighted(0.1),
    ) -> Workload {
        Workload {
            terminating, rollout, pods, other_owner: owned.then(|| "an HPA".to_owned()),
            ..workload(replicas, u32::saturating_sub(replicas, missing))
        }
    }
}

prop_compose! {
    fn any_memory()(
        recommendations in prop::option::of(prop::collection::vec((-400..0i64, 0..15u32), 0..6)),
        events in prop::collection::vec((-400..0i64, -5..6i32), 0..5),
        last_active_at in prop::option::of(-600..0i64),
        failures in 0..4u32,
        saturation in prop::collection::vec((-150..=0i64, 0..400u32), 0..8),
    ) -> Memory {
        let at = |seconds: i64| Time::from_millis(seconds * 1000);
        Memory {
            workload: None,
            recommendations: recommendations.map(|list| list.into_iter().map(|(s, n)| Recommendation { at: at(s), replicas: Replicas::new(n) }).collect()),
            scale_events: events.into_iter().map(|(s, change)| ScaleEvent { at: at(s), change }).collect(),
            last_active_at: last_active_at.map(at),
            failures: [("m0".to_owned(), failures)].into(),
            saturation: saturation.into_iter().map(|(s, v)| SaturationSample { at: at(s), value: Measurement::new(f64::from(v) / 20.0).unwrap() }).collect(),
            headroom: None,
        }
    }
}

fn readings() -> impl Strategy<Value = Vec<Reading>> {
    prop::collection::vec(any_reading(), 4)
}

fn run(spec: &Spec, workload: &Workload, readings: &[Reading], memory: &Memory) -> Decision {
    decide(spec, &Observation { workload: workload.clone(), readings: readings.to_vec(), traffic: None }, memory, Time::default())
}

fn quiet(replicas: u32) -> Workload {
    workload(replicas, replicas)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_write_is_within_the_bounds_or_a_capped_step_towards_them(
        spec in any_spec(), workload in any_workload(), readings in readings(), memory in any_memory()
    ) {
        let decision = run(&spec, &workload, &readings, &memory);
        if let Some(write) = decision.write {
            let (current, bounds) = (workload.replicas, spec.bounds);
            prop_assert_ne!(write, current);
            let within = write >= bounds.min && write <= bounds.max;
            let on_the_way_down = current > bounds.max && write < current && write >= bounds.min;
            let paced = spec.scale_down.max_step.is_some() || decision.out_of(Stage::Guard) != decision.out_of(Stage::Pace);
            prop_assert!(within || (on_the_way_down && paced), "{decision:?}");
        }
    }

    #[test]
    fn a_capped_step_is_no_larger_than_the_cap(spec in any_spec(), workload in any_workload(), readings in readings(), memory in any_memory()) {
        let decision = run(&spec, &workload, &readings, &memory);
        if let (Some(write), Some(cap)) = (decision.write, spec.scale_down.max_step) {
            prop_assert!(write >= workload.replicas.minus(cap.get()));
        }
    }

    #[test]
    fn unknown_readings_never_shrink_below_what_the_known_ask(
        spec in any_spec(), replicas in 0..15u32, readings in readings(), memory in any_memory()
    ) {
        // The same sync without the unknown sources asks for no more than with them.
        let all = run(&spec, &quiet(replicas), &readings, &memory);
        let known: Vec<usize> = (0..spec.sources.len()).filter(|i| !readings[*i].is_unknown()).collect();
        let only = Spec { sources: known.iter().map(|i| spec.sources[*i].clone()).collect(), ..spec.clone() };
        let some: Vec<Reading> = known.iter().map(|i| readings[*i].clone()).collect();
        if !known.is_empty() {
            let without = run(&only, &quiet(replicas), &some, &memory);
            // The headroom law brings a limit to the step as well.
            let paced = spec.headroom().is_some() && spec.behavior.is_none();
            let size = |decision: &Decision| if paced { decision.desired } else { decision.write.unwrap_or(decision.replicas) };
            let (with, without) = (size(&all), size(&without));
            prop_assert!(with >= without, "{with} with the unknown, {without} without");
        }
    }

    #[test]
    fn all_unknown_moves_a_fleet_only_to_its_bounds_or_up_to_its_fallback(
        spec in any_spec(), replicas in 0..15u32, memory in any_memory()
    ) {
        let decision = run(&spec, &quiet(replicas), &vec![unknown(); 4], &memory);
        if let Some(write) = decision.write {
            let current = Replicas::new(replicas);
            if write < current {
                prop_assert!(current > spec.bounds.max, "{decision:?}");
            } else {
                prop_assert!(current < spec.bounds.min || spec.fallback.is_some(), "{decision:?}");
            }
        }
    }

    #[test]
    fn more_load_never_gives_fewer_replicas(
        spec in any_spec(), workload in any_workload(), low in prop::collection::vec(0..400u32, 4), more in prop::collection::vec(0..200u32, 4),
        memory in any_memory()
    ) {
        let reading = |value: u32| Reading::from_number(f64::from(value) / 20.0);
        let before: Vec<Reading> = low.iter().map(|v| reading(*v)).collect();
        let after: Vec<Reading> = low.iter().zip(&more).map(|(v, m)| reading(v + m)).collect();
        let (before, after) = (run(&spec, &workload, &before, &memory), run(&spec, &workload, &after, &memory));
        prop_assert!(after.recommended >= before.recommended);
        prop_assert!(after.desired >= before.desired);
        prop_assert!(after.write.unwrap_or(after.replicas) >= before.write.unwrap_or(before.replicas));
    }

    #[test]
    fn no_write_while_a_guard_holds(spec in any_spec(), workload in any_workload(), readings in readings(), memory in any_memory()) {
        let decision = run(&spec, &workload, &readings, &memory);
        if let Some(write) = decision.write {
            prop_assert!(!matches!(workload.rollout, Rollout::InProgress(_)));
            prop_assert!(workload.other_owner.is_none());
            prop_assert_eq!(spec.mode, Mode::Auto);
            if write > workload.replicas {
                prop_assert!(!workload.pods.iter().any(|pod| pod.unschedulable && !pod.terminating));
            } else if workload.replicas <= spec.bounds.max {
                let stuck = workload.pods.iter().any(|pod| !pod.ready && pod.unready_for > Duration::from_secs(600));
                prop_assert!(stuck || (workload.ready == workload.replicas && workload.terminating == 0));
                prop_assert!(write >= workload.ready || workload.ready == workload.replicas, "a serving replica goes from a settled fleet only");
            }
        }
    }

    #[test]
    fn a_restart_never_shrinks_earlier(spec in any_spec(), workload in any_workload(), readings in readings(), memory in any_memory()) {
        let same = Memory { scale_events: vec![], ..memory };
        let lost = run(&spec, &workload, &readings, &Memory::default());
        let kept = run(&spec, &workload, &readings, &same);
        // Without a window nothing is remembered that could be lost.
        let window = spec.behavior.as_ref().map_or(spec.scale_down.window, |behavior| behavior.down.window);
        if !window.is_zero() && workload.replicas <= spec.bounds.max {
            prop_assert!(lost.write.unwrap_or(workload.replicas) >= workload.replicas, "{lost:?}");
        } else if spec.behavior.is_none() && workload.replicas <= spec.bounds.max && spec.fallback.is_none() && !smooths(&spec) {
            prop_assert!(lost.write.unwrap_or(workload.replicas) >= kept.write.unwrap_or(workload.replicas).min(workload.replicas));
        }
    }

    #[test]
    fn victims_are_pods_that_may_go_and_as_many_as_leave(
        spec in any_spec(), workload in any_workload(), readings in readings(), memory in any_memory()
    ) {
        let decision = run(&spec, &workload, &readings, &memory);
        let Some(write) = decision.write.filter(|write| *write < workload.replicas) else {
            prop_assert!(decision.victims.names.is_empty());
            return Ok(());
        };
        let candidates: Vec<&Pod> = workload.pods.iter().filter(|pod| pod.current && !pod.terminating).collect();
        prop_assert_eq!(decision.victims.names.len(), candidates.len().saturating_sub(write.get() as usize));
        prop_assert!(decision.victims.names.iter().all(|name| candidates.iter().any(|pod| &pod.name == name)));
        prop_assert!(decision.victims.names.is_empty() || decision.victims.mark <= -100);
    }

    #[test]
    fn memory_survives_the_round_trip(memory in any_memory(), spec in any_spec(), workload in any_workload(), readings in readings()) {
        let decision = run(&spec, &workload, &readings, &memory);
        let text = serde_json::to_string(&decision.memory).unwrap();
        prop_assert_eq!(serde_json::from_str::<Memory>(&text).unwrap(), decision.memory);
    }

    #[test]
    fn reconsidering_at_once_changes_nothing(spec in any_spec(), workload in any_workload(), readings in readings(), memory in any_memory()) {
        let decision = run(&spec, &workload, &readings, &memory);
        if let Some(again) = reconsider(&spec, &decision, &workload) {
            prop_assert_eq!(again, decision);
        } else {
            prop_assert!(!decision.deferred());
        }
    }
}
