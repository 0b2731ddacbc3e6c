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

criterion_group!(benches, bench);
criterion_main!(benches);
