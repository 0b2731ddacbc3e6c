//! `decide` with five metrics and a full history: a window and a policy period of an hour and half an hour at one sync every 15 s.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use llmscaler_engine::*;

fn rules(window: u64) -> ScalingRules {
    let policy = |limit| Policy { limit, period: Duration::from_secs(1800) };
    ScalingRules {
        window: Duration::from_secs(window),
        select: SelectPolicy::Max,
        policies: vec![policy(PolicyLimit::Pods(4)), policy(PolicyLimit::Percent(100))],
        tolerance: Measurement::ZERO,
    }
}

fn spec(behavior: Option<Behavior>) -> Option<Spec> {
    let source = |index: u8| {
        let target = Target::new(0.8)?;
        Some(Source { name: format!("m{index}"), law: Law::Ratio { target }, activation: Activation::ANY_LOAD, required: false })
    };
    Some(Spec {
        bounds: Bounds { min: Replicas::new(1), max: Replicas::new(100) },
        sources: (0..5).map(source).collect::<Option<_>>()?,
        sync_period: Duration::from_secs(15),
        scale_down: ScaleDown { window: Duration::from_secs(3600), max_step: None, victims: VictimOrder::ColdestFirst },
        behavior,
        cooldown: Duration::from_secs(300),
        fallback: None,
        mode: Mode::Auto,
    })
}

/// The last of the sources as document B's band over 45 s.
fn with_band(mut spec: Spec) -> Option<Spec> {
    let band = Band::new(Target::new(0.55)?, Target::new(0.40)?, Target::new(2.0)?, Some(Duration::from_secs(45)))?;
    spec.sources.last_mut()?.law = Law::Band(band);
    Some(spec)
}

fn bench(c: &mut Criterion) {
    let recommendations =
        (0..240).map(|i| Recommendation { at: Time::from_millis(-15_000 * (240 - i)), replicas: Replicas::new(8) }).collect();
    let scale_events = (0..120).map(|i| ScaleEvent { at: Time::from_millis(-15_000 * (120 - i)), change: if i % 2 == 0 { 1 } else { -1 } });
    let saturation = [-45, -30, -15].map(|at| SaturationSample { at: Time::from_millis(at * 1000), value: Measurement::ZERO }).to_vec();
    let memory = Memory { recommendations: Some(recommendations), scale_events: scale_events.collect(), saturation, ..Memory::default() };
    let workload = Workload { replicas: Replicas::new(8), ready: Replicas::new(8), ..Workload::default() };
    let readings = [0.75, 0.9, 0.2, 0.0, 0.81].map(Reading::from_number).to_vec();
    let seen = Observation { workload, readings, traffic: None };

    let behavior = || Some(Behavior { up: rules(0), down: rules(3600) });
    for (name, spec) in
        [("window", spec(None)), ("behavior", spec(behavior())), ("behavior and a band", spec(behavior()).and_then(with_band))]
    {
        let Some(spec) = spec else { return };
        c.bench_function(&format!("decide/5 metrics, full history, {name}"), |b| {
            b.iter(|| decide(black_box(&spec), black_box(&seen), black_box(&memory), Time::default()));
        });
    }
}

/// The headroom law alone, for 2 to 60 replicas.
fn headroom_spec() -> Option<Spec> {
    let law = Law::Headroom(Headroom {
        ttft: Target::new(2.0)?,
        tpot: Target::new(0.1)?,
        objective: Objective::new(0.99)?,
        costs: Profile::named(Profile::DEFAULT)?.costs,
        profile_is_given: true,
    });
    let mut spec = spec(None)?;
    spec.sources.truncate(1);
    spec.sources.first_mut()?.law = law;
    spec.scale_down.window = Duration::ZERO;
    spec.bounds = Bounds { min: Replicas::new(2), max: Replicas::new(60) };
    Some(spec)
}

/// A swell of an hour under bursts of some minutes, as the metrics of a pool show it; the same at each run.
fn traffic(tick: u32) -> Traffic {
    let known = |x: f64| Measurement::new(x);
    let wave = |ticks: f64| (f64::from(tick) * std::f64::consts::TAU / ticks).sin();
    let rate = 12.0 + 8.0 * wave(240.0) + 3.0 * wave(17.0) + 1.5 * wave(3.7);
    let rates = |rate: f64| Rates { over_15s: known(1.1 * rate), over_30s: known(rate), over_60s: known(0.95 * rate) };
    let lengths = (0..22).map(|power| Bucket { upper: 2f64.powi(power), count: f64::from(22 - power.abs_diff(10)) }).collect();
    let late = |share: f64| known(share).zip(known(15.0 * rate)).map(|(share, of)| Late { share, of });
    Traffic {
        arrivals: rates(rate),
        prompt_tokens: rates(1000.0 * rate),
        prompt_variation: known(2.0),
        prompt_lengths: Some(lengths),
        finished: known(120.0 * rate).zip(known(24_000.0 * rate)).map(|(requests, output_tokens)| Finished { requests, output_tokens }),
        median_output: known(150.0),
        inter_token: known(0.025).zip(known(9000.0)).map(|(mean, count)| InterToken { mean, count }),
        waiting: known(0.0),
        kv_capacity: known(350_000.0),
        kv_used: known(8000.0 * rate),
        running: known(5.0 * rate),
        late_ttft: late(0.004),
        late_tpot: late(0.002),
    }
}

fn bench_headroom(c: &mut Criterion) {
    let Some(spec) = headroom_spec() else { return };
    for (warmup, ticks, name) in [
        (100, 482, "full rings"),
        (100, 483, "full rings, hold chosen"),
        (480, 482, "full rings, warm-up 480 s"),
        (480, 483, "full rings, warm-up 480 s, hold chosen"),
        (3600, 2483, "full rings, warm-up 3600 s, hold chosen"),
    ] {
        let mut workload = Workload {
            replicas: Replicas::new(8),
            ready: Replicas::new(8),
            warmup: Some(Duration::from_secs(warmup)),
            ..Workload::default()
        };
        let see = |workload: &Workload, tick| Observation {
            workload: workload.clone(),
            readings: vec![Reading::from_number(0.5)],
            traffic: Some(Box::new(traffic(tick))),
        };
        let at = |tick: u32| Time::from_millis(15_000 * i64::from(tick));
        let mut memory = Memory::default();
        for tick in 0..ticks {
            let decision = decide(&spec, &see(&workload, tick), &memory, at(tick));
            memory = decision.memory;
            workload.replicas = decision.write.unwrap_or(workload.replicas);
            workload.ready = workload.replicas;
        }
        let seen = see(&workload, ticks);
        c.bench_function(&format!("decide/headroom, {name}"), |b| {
            b.iter(|| decide(black_box(&spec), black_box(&seen), black_box(&memory), at(ticks)));
        });
    }
}

criterion_group!(benches, bench, bench_headroom);
criterion_main!(benches);
