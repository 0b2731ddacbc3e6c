use llmscaler_engine::{Bounds, Profile, Reading, Replicas};

use super::hpa::default_behavior;
use super::*;
use crate::metrics::{Metrics, PipelineSettings, PodMeters, Signal, Values};
use crate::{EngineMeters, GatewayMeters, Promised};

const PROMISED: Promised = Promised { ttft: 3.0, tpot: 0.1 };

fn metrics(missing: f64) -> Metrics {
    let costs = Profile::named(Profile::DEFAULT).unwrap().costs;
    Metrics::new(PipelineSettings { missing, ..PipelineSettings::default() }, &costs, 1)
}

/// What is held back, and on each pod what runs, what waits and the tokens in its KV cache.
fn seen(queued: u32, pods: &[(u32, u32, u64)]) -> Metrics {
    let mut metrics = metrics(0.0);
    let in_flight = pods.iter().map(|(running, waiting, _)| running + waiting).sum();
    let engines: Vec<EngineMeters> =
        pods.iter().map(|&(running, waiting, kv_tokens)| EngineMeters { running, waiting, kv_tokens, ..EngineMeters::default() }).collect();
    let engines: Vec<PodMeters<'_>> = (0..).zip(&engines).map(|(id, meters)| PodMeters { id, serving: true, meters }).collect();
    metrics.scrape(0.0, &GatewayMeters { queued, in_flight, ..GatewayMeters::default() }, &engines);
    metrics
}

fn view(metrics: &Metrics, now: f64, replicas: u32, ready: u32) -> View<'_> {
    let bounds = Bounds { min: Replicas::new(1), max: Replicas::new(20) };
    View { now, bounds, replicas, ready, pods: &[], warmup: None, metrics }
}

fn setting() -> Setting {
    let bounds = Bounds { min: Replicas::new(1), max: Replicas::new(20) };
    Setting { promised: PROMISED, bounds, costs: Profile::named(Profile::DEFAULT).unwrap().costs, profile_given: true }
}

/// The guide's formula, its branch upwards without our floor at n.
#[test]
fn the_seed_law_is_the_published_formula() {
    for (s, n, r, expected, why) in [
        (0.62, 8.0, 8.0, 10.0, "⌈8 × 0.62 ÷ 0.55⌉"),
        (0.6, 8.0, 4.0, 5.0, "the credit turns an excess into a deficit"),
        (1.2, 8.0, 4.0, 9.0, "⌈4 × 1.2 ÷ 0.55⌉"),
        (0.6, 8.0, 0.0, 9.0, "no credit when none is ready"),
        (0.55, 8.0, 8.0, 8.0, "within the band"),
        (0.38, 8.0, 8.0, 8.0, "less than one to spare: the pool holds by its buckets"),
        (0.38, 21.0, 21.0, 20.0, "from 20 on it does not"),
        (0.34, 8.0, 8.0, 7.0, "one to spare"),
        (0.29, 4.0, 4.0, 3.0, "one of four to spare"),
        (0.0, 8.0, 8.0, 0.0, "nothing seen"),
        (2.0, 3.0, 3.0, 11.0, "most that is asked for at once"),
        (2.0, 0.0, 0.0, 0.0, "it cannot wake a fleet of zero"),
    ] {
        assert_eq!(Seed::default().formula(s, n, r), expected, "{s} with {r}/{n}: {why}");
    }
}

#[test]
fn the_seed_law_takes_what_is_missing_for_no_load() {
    let mut metrics = metrics(1.0);
    metrics.scrape(0.0, &GatewayMeters::default(), &[]);
    let mut policy = Seed::default().policy(PROMISED);
    let verdicts: Vec<Verdict> = (0..=12).map(|tick| policy.decide(&view(&metrics, f64::from(tick) * 15.0, 8, 8))).collect();
    assert!(verdicts.iter().all(|verdict| verdict.on_missing));
    assert_eq!(verdicts.iter().map(|verdict| verdict.write).collect::<Vec<_>>()[11..], [None, Some(7)], "after 180 s, by one pod");
}

/// Rows of the metric calculator of the HPA, by hand: `Value` over the ready pods, `AverageValue` regardless of them, and 10 % of
/// tolerance about either, ends included.
#[test]
fn the_proposals_of_the_hpa() {
    for (target, value, replicas, ready, expected) in [
        (Per::Pool(10.0), 20.0, 3, 3, Some(6)),
        (Per::Pool(10.0), 20.0, 4, 2, None),
        (Per::Pool(10.0), 11.0, 5, 3, None),
        (Per::Pool(10.0), 11.1, 5, 5, Some(6)),
        (Per::Replica(2.0), 8.6, 4, 1, None),
        (Per::Replica(2.0), 8.9, 4, 1, Some(5)),
        (Per::Replica(2.0), 8.8, 4, 4, None),
        (Per::Replica(1.0), 12.0, 11, 11, None),
        (Per::Replica(1.0), 13.0, 11, 11, Some(13)),
        (Per::Replica(1.0), 100.0, 3, 3, Some(7)),
    ] {
        let metrics = seen(0, &[]);
        let mut hpa = Hpa::new("x", vec![Metric::new("x", target, move |_| Some(value))], default_behavior());
        let write = hpa.decide(&view(&metrics, 0.0, replicas, ready)).write;
        assert_eq!(write, expected, "{target:?} {value} with {ready}/{replicas}");
    }
}

#[test]
fn a_failed_metric_forbids_shrinking_and_permits_growing() {
    let metrics = seen(0, &[]);
    let decide = |known: f64, replicas| {
        let known = Metric::new("known", Per::Replica(1.0), move |_| Some(known));
        let failed = Metric::new("failed", Per::Replica(1.0), |_| None);
        let mut hpa = Hpa::new("x", vec![failed, known], default_behavior());
        // Past the window of 300 s, which begins with the present size.
        hpa.decide(&view(&metrics, 0.0, replicas, replicas));
        hpa.decide(&view(&metrics, 400.0, replicas, replicas))
    };
    let (shrink, grow) = (decide(2.0, 5), decide(7.0, 5));
    assert_eq!((shrink.write, shrink.on_missing), (None, true));
    assert_eq!((grow.write, grow.on_missing), (Some(7), true));
}

#[test]
fn the_hpa_moves_into_its_bounds_whatever_the_metrics() {
    let metrics = metrics(1.0);
    let mut hpa = Hpa::kv(0.8);
    assert_eq!(hpa.decide(&view(&metrics, 0.0, 25, 25)).write, Some(20));
    assert_eq!(hpa.decide(&view(&metrics, 15.0, 0, 0)).write, None, "scaled to zero by hand is left alone");
}

#[test]
fn the_hpa_waits_for_nothing() {
    // Two pods at 0.9 of their KV cache: 2 × 0.9 ÷ 0.8 = 2.25, while two of four are starting.
    let metrics = seen(0, &[(1, 0, 315_000), (1, 0, 315_000)]);
    let mut hpa = Hpa::kv(0.8);
    assert_eq!(hpa.decide(&view(&metrics, 0.0, 4, 2)).write, None, "the window begins with the present size");
    assert_eq!(hpa.decide(&view(&metrics, 0.0, 4, 2)).write, None);
    assert_eq!(hpa.decide(&View { now: 300.0, ..view(&metrics, 300.0, 4, 2) }).write, Some(3));
}

#[test]
fn in_flight_counts_all_that_is_in_flight() {
    // 40 held back and 100 with pods at 32 a replica: 4.375.
    let metrics = seen(40, &[(60, 40, 0)]);
    let mut policy = in_flight(32.0);
    assert_eq!(policy.decide(&view(&metrics, 0.0, 3, 3)).write, None, "for 30 s the smallest proposal counts");
    assert_eq!(policy.decide(&view(&metrics, 15.0, 3, 3)).write, None);
    assert_eq!(policy.decide(&view(&metrics, 30.0, 3, 3)).write, Some(5));
}

#[test]
fn keda_takes_the_larger_of_the_two() {
    for (queued, running, expected) in [(0, 64, Some(4)), (5, 64, Some(5)), (0, 33, None), (40, 0, Some(6))] {
        let metrics = seen(queued, &[(running, 0, 0)]);
        assert_eq!(Keda::queue(1.0, 16.0).decide(&view(&metrics, 0.0, 3, 3)).write, expected, "{queued} and {running}");
    }
}

#[test]
fn the_saturation_of_a_pool_asks_for_two_at_most() {
    let full = seen(0, &[(1, 0, 350_000); 6]);
    assert_eq!(Keda::saturation(0.7, 16.0).decide(&view(&full, 0.0, 1, 1)).write, Some(2), "1.25 ÷ 0.7 = 1.8");
}

#[test]
fn keda_goes_to_zero_after_the_cooldown_and_wakes_with_one() {
    let (idle, busy) = (seen(0, &[(0, 0, 0)]), seen(1, &[]));
    let to_zero = |metrics, now, replicas| View {
        bounds: Bounds { min: Replicas::ZERO, max: Replicas::new(8) },
        ..view(metrics, now, replicas, replicas)
    };
    let mut keda = Keda::queue(1.0, 16.0);
    assert_eq!(keda.decide(&to_zero(&idle, 0.0, 5)).write, None);
    assert_eq!(keda.decide(&to_zero(&idle, 285.0, 5)).write, None);
    assert_eq!(keda.decide(&to_zero(&idle, 300.0, 5)).write, Some(0), "from any size");
    assert_eq!(keda.decide(&to_zero(&idle, 315.0, 0)).write, None);
    assert_eq!(keda.decide(&to_zero(&busy, 330.0, 0)).write, Some(1));
    let unknown = metrics(1.0);
    assert_eq!(keda.decide(&to_zero(&unknown, 900.0, 1)).write, None, "what is missing is not idle");
}

/// In flight so many at each 5 s, until a time.
fn flights(counts: &[u32], until: f64) -> Metrics {
    let mut metrics = metrics(0.0);
    for (step, in_flight) in (0_u32..).zip(counts).take_while(|(step, _)| f64::from(*step) * 5.0 <= until) {
        metrics.scrape(f64::from(step) * 5.0, &GatewayMeters { in_flight: *in_flight, ..GatewayMeters::default() }, &[]);
    }
    metrics
}

#[test]
fn kpa_panics_at_twice_the_pods_and_shrinks_only_when_calm() {
    let mut counts = vec![10; 13];
    counts.extend([100; 2]);
    counts.extend([10; 40]);
    let mut kpa = Kpa::new(10.0);
    let mut ask = |now, ready| {
        let metrics = flights(&counts, now);
        let verdict = kpa.decide(&view(&metrics, now, ready, ready));
        verdict.write.unwrap_or(ready)
    };
    assert_eq!(ask(60.0, 1), 1, "calm");
    // Over 6 s (65 s: 10 and 100), 55 in flight want 6, which is at least twice the one pod.
    assert_eq!(ask(65.0, 1), 6);
    assert_eq!(ask(70.0, 1), 10, "100 in flight");
    assert_eq!(ask(90.0, 10), 10, "no way down in panic");
    assert_eq!(ask(130.0, 10), 10, "60 s have not passed since");
    // The stable mean of 10 wants 1, but no fewer than half at once.
    assert_eq!(ask(132.0, 10), 5);
    assert_eq!(ask(134.0, 5), 2);
}

#[test]
fn kpa_begins_in_panic_over_a_fleet_of_several() {
    let metrics = flights(&[0; 40], 120.0);
    let mut kpa = Kpa::new(10.0);
    assert_eq!(kpa.decide(&view(&metrics, 60.0, 8, 8)).write, None);
    assert_eq!(kpa.decide(&view(&metrics, 120.0, 8, 8)).write, None);
    assert_eq!(kpa.decide(&view(&metrics, 122.0, 8, 8)).write, Some(4));
}

#[test]
fn wva_moves_by_one_and_not_while_pods_start() {
    for (pods, replicas, expected, why) in [
        (&[(1, 0, 252_000), (1, 0, 252_000)][..], 2, Some(3), "0.72 used leaves less than 0.10 below 0.80"),
        (&[(1, 0, 252_000), (1, 0, 252_000)], 3, None, "a third is starting"),
        (&[(1, 3, 35_000), (1, 3, 35_000)], 2, Some(3), "two more may wait"),
        (&[(1, 6, 35_000), (1, 0, 35_000)], 2, None, "the saturated one does not count, and one alone is not shed"),
        (&[(1, 6, 35_000)], 1, Some(2), "all are saturated"),
        (&[(1, 0, 70_000), (1, 0, 70_000)], 2, Some(1), "one would carry 0.4"),
        (&[(1, 0, 140_000), (1, 0, 140_000)], 2, None, "one would carry 0.8"),
        (&[], 2, None, "no replica is known"),
    ] {
        let metrics = seen(0, pods);
        let ready = u32::try_from(pods.len()).unwrap();
        assert_eq!(Wva.decide(&view(&metrics, 0.0, replicas, ready)).write, expected, "{why}");
    }
}

fn pod(id: u64, created: f64, ready_since: Option<f64>, kv_usage: f64) -> PodView {
    PodView { id, created, ready_since, terminating: false, unschedulable: false, kv_usage }
}

#[test]
fn ours_names_the_coldest_pods() {
    let metrics = seen(0, &[(1, 0, 35_000), (1, 0, 3500), (1, 0, 70_000)]);
    let pods = [pod(4, 0.0, Some(100.0), 0.10), pod(7, 0.0, Some(100.0), 0.01), pod(9, 50.0, Some(150.0), 0.20)];
    let mut ratio = named("ratio:0.8", &setting()).unwrap();
    let mut verdict = Verdict::default();
    for now in [200.0, 380.0] {
        verdict = ratio.decide(&View { pods: &pods, ..view(&metrics, now, 3, 3) });
    }
    assert_eq!((verdict.write, verdict.victims.as_slice()), (Some(2), &[7][..]), "{}", verdict.why);
}

#[test]
fn what_sources_read() {
    // Held back 4; two pods with 10 and 20 running, 6 and 0 waiting, half and a tenth of 350,000 tokens in use.
    let (metrics, gone) = (seen(4, &[(10, 6, 175_000), (20, 0, 35_000)]), metrics(1.0));
    for (measure, expected) in [
        (Measure::Total(Gauge::Queued), 4.0),
        (Measure::Total(Gauge::Waiting), 10.0),
        (Measure::Total(Gauge::InFlight), 40.0),
        (Measure::PerReplica(Gauge::Running), 15.0),
        (Measure::PerReplica(Gauge::KvTokens), 105_000.0),
        (Measure::KvUsage, 0.3),
    ] {
        let Reading::Value(value) = measure.read(&view(&metrics, 0.0, 3, 2)) else { panic!("{measure:?}") };
        assert!((value.get() - expected).abs() < 1e-9, "{measure:?}: {value}");
        assert!(measure.read(&view(&gone, 0.0, 3, 2)).is_unknown(), "{measure:?}");
    }
}

#[test]
fn ours_keeps_its_size_when_nothing_is_known() {
    let unknown = metrics(1.0);
    for name in ["ratio:0.8", "band", "headroom", "headroom:0.98"] {
        let mut policy = named(name, &setting()).unwrap();
        for tick in 0..60 {
            let verdict = policy.decide(&view(&unknown, f64::from(tick) * 15.0, 6, 6));
            assert_eq!((verdict.write, verdict.on_missing), (None, true), "{name} at tick {tick}: {}", verdict.why);
        }
    }
}

#[test]
fn the_operators_band_reads_an_idle_pool_as_idle() {
    let mut band = named("band", &setting()).unwrap();
    // From the second scrape on it is known that there was nothing.
    let idle = |now| flights(&[0; 100], now);
    let verdicts: Vec<Verdict> = (1..=20).map(|tick| f64::from(tick) * 15.0).map(|now| band.decide(&view(&idle(now), now, 3, 3))).collect();
    assert!(verdicts.iter().all(|verdict| !verdict.on_missing), "{verdicts:?}");
    assert!(verdicts.iter().any(|verdict| verdict.write == Some(2)), "down by one pod after 180 s");
}

/// 50 requests of 4,000 tokens per second ask for more than ten replicas of a fleet of two.
#[test]
fn the_operators_headroom_has_the_pace_that_it_has_in_a_cluster() {
    let mut metrics = metrics(0.0);
    for at in (0..=60).step_by(5) {
        let mut gateway = GatewayMeters { arrivals: 50 * at, prompt_tokens: 200_000 * at, ..GatewayMeters::default() };
        gateway.prompt_length_ideal.observe(4000.0, 50 * at);
        metrics.scrape(at as f64, &gateway, &[]);
    }
    let verdict = named("headroom", &setting()).unwrap().decide(&view(&metrics, 60.0, 2, 2));
    assert_eq!(verdict.write, Some(10));
    assert!(verdict.why.contains("the headroom law adds no more than"), "{}", verdict.why);
}

#[test]
fn policies_by_name() {
    for (text, name) in [
        ("static:8", "static 8"),
        ("in-flight:32", "in-flight 32"),
        ("keda", "keda 1/16"),
        ("keda-saturation", "keda-saturation 0.7/16"),
        ("hpa-kv:0.5", "hpa-kv 0.5"),
        ("seed", "seed 0.55/0.4"),
        ("seed-exact:0.45,0.33", "seed 0.45/0.33 exact"),
        ("seed-measured", "seed 0.55/0.4 measured"),
        ("kpa:45", "kpa 45"),
        ("wva", "wva"),
        ("band", "band 0.55/0.4"),
        ("headroom", "headroom 0.99"),
        ("headroom:0.98", "headroom 0.98"),
    ] {
        assert_eq!(named(text, &setting()).map(|policy| policy.name()), Ok(name.to_owned()));
    }
}

#[test]
fn what_is_no_policy_is_told_what_to_write() {
    let error = |text: &str| named(text, &setting()).err().unwrap().to_string();
    assert_eq!(error("headrom"), "there is no policy \"headrom\"");
    for (text, problem) in [
        ("static", "it takes one number, and 0 are given"),
        ("static:2.5", "REPLICAS must be a whole number of 1 to 100000"),
        ("static:-1", "\"-1\" is no number above 0"),
        ("static:0", "\"0\" is no number above 0"),
        ("kpa:x", "\"x\" is no number above 0"),
        ("in-flight:0", "\"0\" is no number above 0"),
        ("seed:0.4,0.55", "UP comes first and must be above DOWN, and 0.4 is not above 0.55"),
        ("band:0.4,0.55", "UP comes first and must be above DOWN, and 0.4 is not above 0.55"),
        ("band:0.5", "it takes two numbers, and 1 is given"),
        ("band:3,1", "UP must be at most 2, and is 3"),
        ("headroom:1", "OBJECTIVE must be at least 0.5 and below 1, and is 1"),
        ("wva:3", "it takes no settings"),
        ("in-flight:1,2", "it takes one number, and 2 are given"),
    ] {
        assert!(error(text).starts_with(&format!("{text}: {problem}; write it as ")), "{text}: {}", error(text));
    }
}

#[test]
fn the_seed_law_says_which_signal_it_has() {
    let name = |signal, values| Seed { signal, values, ..Seed::default() }.policy(PROMISED).name();
    assert_eq!(name(Signal::Measured, Values::Exact), "seed 0.55/0.4 exact measured");
    assert_eq!(name(Signal::Predicted, Values::Buckets), "seed 0.55/0.4");
}
