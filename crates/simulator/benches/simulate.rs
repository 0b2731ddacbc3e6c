//! How fast virtual time goes: requests with short answers at a fixed fleet, and the ramp of 40 minutes with all that belongs to a run.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use llmscaler_engine::Profile;
use llmscaler_simulator::metrics::PipelineSettings;
use llmscaler_simulator::policy::Fixed;
use llmscaler_simulator::scenario::FleetSettings;
use llmscaler_simulator::workload::{Curve, Length, Lengths, Open, Shape, Step};
use llmscaler_simulator::{Arrivals, Scenario, Simulation, Workload};

const REPLICAS: u32 = 8;

fn scenario(workload: Workload) -> Option<Scenario> {
    let profile = Profile::named(Profile::DEFAULT)?.clone();
    Some(Scenario { workload, profile, fleet: FleetSettings::default(), pipeline: PipelineSettings::default() })
}

/// A quarter of an hour at 15 requests per second and replica, of 373 tokens in and 53 out on average: some 60 % busy.
fn short_answers() -> Option<Scenario> {
    let lengths = Lengths { prompt: Length::log_normal(373.0, 300.0, 8000), output: Length::log_normal(53.0, 40.0, 1000) };
    let curve = Curve::Steps(vec![Step { rate: 15.0 * f64::from(REPLICAS), seconds: 900.0 }]);
    let shape = Shape::Open(Open { curve, noise: None, batch: 1, lengths });
    scenario(Workload { name: "short answers".to_owned(), start: REPLICAS, shape, ..Workload::named("ramp")? })
}

fn bench(c: &mut Criterion) {
    let (Some(short), Some(ramp)) = (short_answers(), Workload::named("ramp").and_then(scenario)) else { return };
    let Arrivals::Open(requests) = short.workload.arrivals(1) else { return };
    let mut group = c.benchmark_group("simulate");
    group.sample_size(20).warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(5));

    group.throughput(Throughput::Elements(requests.len() as u64));
    group.bench_function("requests, short answers, 8 replicas", |b| {
        b.iter_batched(
            || Simulation::new(&short, Arrivals::Open(requests.clone()), 1),
            |mut simulation| {
                for seconds in (0..1000).step_by(5) {
                    simulation.run_until(f64::from(seconds));
                    simulation.happenings().for_each(|happening| {
                        black_box(happening);
                    });
                }
                simulation
            },
            BatchSize::LargeInput,
        );
    });
    group.bench_function("run, short answers, 8 replicas", |b| b.iter(|| short.run(&mut Fixed(REPLICAS), black_box(1))));

    group.throughput(Throughput::Elements(1));
    group.bench_function("ramp of 40 minutes", |b| b.iter(|| ramp.run(&mut Fixed(REPLICAS), black_box(1))));
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
