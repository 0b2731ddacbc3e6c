//! Properties of the law under whatever is measured and remembered.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;

use super::*;

/// What a metric may show, sane or not.
fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => 0.0..100.0_f64,
        2 => (-308.0..308.0_f64).prop_map(|power| 10f64.powf(power)),
        1 => select(vec![0.0, 1.0, f64::MIN_POSITIVE, 5e-324, f64::MAX]),
    ]
}

fn any_measurement() -> impl Strategy<Value = Option<Measurement>> {
    prop::option::weighted(0.85, any_number().prop_map(|x| Measurement::new(x).unwrap()))
}

fn any_rates() -> impl Strategy<Value = Rates> {
    (any_measurement(), any_measurement(), any_measurement()).prop_map(|(over_15s, over_30s, over_60s)| Rates {
        over_15s,
        over_30s,
        over_60s,
    })
}

fn any_buckets() -> impl Strategy<Value = Option<Vec<Bucket>>> {
    let number = || prop_oneof![6 => any_number(), 1 => select(vec![f64::INFINITY, f64::NAN, -1.0])];
    let bucket = (number(), number()).prop_map(|(upper, count)| Bucket { upper, count });
    prop::option::of(prop::collection::vec(bucket, 0..80))
}

prop_compose! {
    fn any_traffic()(
        (arrivals, prompt_tokens, prompt_lengths) in (any_rates(), any_rates(), any_buckets()),
        numbers in prop::collection::vec(any_measurement(), 14),
    ) -> Traffic {
        let pair = |at: usize| numbers[at].zip(numbers[at + 1]);
        Traffic {
            arrivals, prompt_tokens, prompt_lengths,
            prompt_variation: numbers[0],
            finished: pair(1).map(|(requests, output_tokens)| Finished { requests, output_tokens }),
            median_output: numbers[3],
            inter_token: pair(4).map(|(mean, count)| InterToken { mean, count }),
            waiting: numbers[6], kv_capacity: numbers[7], kv_used: numbers[8], running: numbers[9],
            late_ttft: pair(10).map(|(share, of)| Late { share, of }),
            late_tpot: pair(12).map(|(share, of)| Late { share, of }),
        }
    }
}

prop_compose! {
    fn any_spec()(
        (ttft, tpot, objective) in (select(vec![1e-6, 0.5, 1e6]), select(vec![1e-6, 0.05, 1e6]), select(vec![0.5, 0.99, 0.999_999])),
        given in any::<bool>(), costs in prop::collection::vec(select(vec![0.0, 1e-5, 0.01, 1e300, f64::NAN, -1.0]), 6),
        sane in any::<bool>(), (min, max) in (0..12u32, 0..12u32), sizes in (any::<u32>(), any::<u32>()),
    ) -> Spec {
        let target = |x| Target::new(x).unwrap();
        let wild = Costs {
            overhead: costs[0], weights: costs[1], prompt_token: costs[2], attention: costs[3], sequence: costs[4], kv_token: costs[5],
            kv_tokens: sizes.0, max_sequences: sizes.1, max_batched_tokens: 1,
        };
        let law = Headroom {
            ttft: target(ttft), tpot: target(tpot), objective: Objective::new(objective).unwrap(),
            costs: if sane { COSTS } else { wild }, profile_is_given: given,
        };
        let mut spec = headroom();
        spec.sources[0].law = Law::Headroom(law);
        spec.bounds = bounds(min, max);
        spec
    }
}

fn any_reading() -> impl Strategy<Value = Reading> {
    prop_oneof![any_number().prop_map(Reading::from_number), Just(Reading::Idle), Just(unknown())]
}

fn any_fleet() -> impl Strategy<Value = Workload> {
    (0..20u32, 0..25u32, prop::option::of(select(vec![0, 1, 100, 600, u64::MAX])))
        .prop_map(|(n, r, warmup)| Workload { warmup: warmup.map(Duration::from_secs), ..workload(n, r) })
}

type Tick = (Workload, Option<Traffic>, Reading);

fn any_ticks(most: usize) -> impl Strategy<Value = Vec<Tick>> {
    prop::collection::vec((any_fleet(), prop::option::weighted(0.9, any_traffic()), any_reading()), 1..most)
}

fn see(spec: &Spec, (workload, traffic, reading): &Tick, memory: &Memory, at: i64) -> Decision {
    let seen = Observation { workload: workload.clone(), readings: vec![reading.clone()], traffic: traffic.clone().map(Box::new) };
    decide(spec, &seen, memory, Time::from_millis(at * 1000))
}

/// Puts numbers of `wild` in the place of those that are written with a fraction, and `whole` for some others.
fn distort(value: &mut Value, wild: &mut impl Iterator<Item = f64>, whole: u32) {
    match value {
        Value::Number(number) if number.is_f64() => *value = Value::from(wild.next().unwrap()),
        Value::Number(number) if number.as_u64().is_some_and(|x| x > 3 && x < 1000) => *value = Value::from(whole % 256),
        Value::Array(list) => list.iter_mut().for_each(|value| distort(value, wild, whole)),
        Value::Object(map) => map.values_mut().for_each(|value| distort(value, wild, whole)),
        _ => {}
    }
}

fn sound(spec: &Spec, decision: &Decision) -> Result<(), TestCaseError> {
    if let Some(count) = decision.readings[0].replicas {
        prop_assert_eq!(count, spec.bounds.clamp(count), "{:?}", decision.readings);
    }
    prop_assert_eq!(decision.conditions.len(), 10);
    let text = serde_json::to_string(&decision.memory).unwrap();
    prop_assert!(
        !text.contains("null") || decision.memory.recommendations.is_none() || decision.memory.last_active_at.is_none(),
        "{}",
        text
    );
    prop_assert_eq!(&serde_json::from_str::<Memory>(&text).unwrap(), &decision.memory);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn whatever_is_measured_there_is_a_proposal_within_the_bounds_and_a_memory_to_write(spec in any_spec(), ticks in any_ticks(16)) {
        let mut memory = Memory::default();
        for (index, tick) in ticks.iter().enumerate() {
            let decision = see(&spec, tick, &memory, 15 * index as i64);
            sound(&spec, &decision)?;
            memory = decision.memory;
        }
    }

    #[test]
    fn whatever_is_remembered_too(
        spec in any_spec(), ticks in any_ticks(12), wild in prop::collection::vec(prop_oneof![any_number(), any_number().prop_map(|x| -x)], 1..40),
        whole in any::<u32>(), at in select(vec![-1_000_000_000_i64, 0, 1_000_000_000])
    ) {
        let mut memory = Memory::default();
        for (index, tick) in ticks.iter().enumerate() {
            memory = see(&spec, tick, &memory, 15 * index as i64).memory;
        }
        let mut written = serde_json::to_value(&memory.headroom).unwrap();
        distort(&mut written, &mut wild.iter().copied().cycle(), whole);
        memory.headroom = serde_json::from_value(written).unwrap();
        sound(&spec, &see(&spec, &ticks[0], &memory, at))?;
    }

    /// With one memory, in which no growth was seen, and while nothing calibrates: what a rise was like at another load, and what an
    /// engine that is less busy than planned says of its profile, may lower the need.
    #[test]
    fn more_load_never_gives_fewer_replicas(
        before in prop::collection::vec(1.0_f64..80.0, 0..5), rate in 0.1_f64..80.0, prompt in 1.0_f64..20_000.0, more in 1.0_f64..10.0,
        shorter in prop::collection::vec(0.0_f64..3.0, 2), waiting in 0.0_f64..200.0, n in 0..30u32
    ) {
        let mut pool = Pool::new(headroom(), 4);
        for rate in before {
            pool.tick(requests(rate));
        }
        let traffic = |rate: f64| {
            let rates = |x: f64| Rates { over_15s: known(x * shorter[0]), over_30s: known(x * shorter[1]), over_60s: known(x) };
            Traffic { arrivals: rates(rate), prompt_tokens: rates(rate * prompt), waiting: known(waiting), ..requests(rate) }
        };
        let asked = |rate: f64| see(&pool.fleet.spec, &(workload(n, n), Some(traffic(rate)), unknown()), &pool.fleet.memory, pool.at);
        prop_assert!(asked(rate * more).recommended >= asked(rate).recommended);
    }

    /// A memory that is lost holds the fleet for five minutes.
    #[test]
    fn a_restart_never_shrinks_earlier(
        rates in prop::collection::vec(0.0_f64..80.0, 1..100), n in 2..40u32, after in prop::collection::vec(0.0_f64..80.0, 19)
    ) {
        let mut pool = Pool::new(headroom(), n);
        for rate in rates {
            pool.tick(requests(rate));
        }
        pool.fleet.memory = Memory::default();
        for rate in after {
            let before = pool.fleet.workload.replicas;
            pool.tick(requests(rate));
            prop_assert!(pool.fleet.workload.replicas >= before);
        }
    }

    /// Unknown is never zero: while arrivals are unknown nothing shrinks for 20 ticks, and by no more than one at a time afterwards.
    #[test]
    fn an_outage_shrinks_nothing_at_first_and_little_later(n in 2..40u32, s in 0.0_f64..3.0, ticks in 1..60_usize) {
        let mut pool = Pool::new(headroom(), n);
        for tick in 0..ticks {
            let before = pool.fleet.workload.replicas;
            let after = pool.see(None, Reading::from_number(s)).recommended;
            prop_assert!(after >= before.minus(u32::from(tick >= 20)));
        }
    }
}
