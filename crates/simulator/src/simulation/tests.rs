use llmscaler_engine::Profile;
use proptest::prelude::*;

use super::*;
use crate::ClosedLoop;
use crate::metrics::PipelineSettings;
use crate::scenario::{FleetSettings, Router, Warmup};
use crate::workload::Workload;

fn scenario(start: u32, fleet: FleetSettings) -> Scenario {
    let workload = Workload { start, ..Workload::named("ramp").unwrap() };
    let profile = Profile::named(Profile::DEFAULT).unwrap().clone();
    Scenario { workload, profile, fleet, pipeline: PipelineSettings::default() }
}

fn request(at: f64, prompt: u32, output: u32) -> Request {
    Request { at, prompt, output, reusable_prefix: 0 }
}

fn open(requests: impl IntoIterator<Item = Request>) -> Arrivals {
    Arrivals::Open(requests.into_iter().collect())
}

/// Requests by what became of them.
#[derive(Debug, Default)]
struct Books {
    arrived: u64,
    served: u64,
    lost: u64,
    pods: u64,
    recomputed: u64,
}

impl Books {
    fn take(&mut self, simulation: &mut Simulation) {
        let now = simulation.now();
        for happening in simulation.happenings() {
            match happening {
                Happening::Arrived(_) => self.arrived += 1,
                Happening::Served(served) => {
                    assert!(served.ttft > 0.05 && served.finished >= served.arrived + served.ttft - 1e-9, "{served:?}");
                    self.served += 1;
                }
                Happening::Lost(arrived) => {
                    assert!(arrived <= now);
                    self.lost += 1;
                }
                Happening::Recomputed(tokens) => self.recomputed += tokens,
                Happening::Pod(life) => {
                    assert!(life.created <= life.gone && life.gone <= now, "{life:?}");
                    self.pods += 1;
                }
            }
        }
    }
}

/// As resizing would do it, but pod by pod: the same requests come to the same end.
#[test]
fn pods_that_are_made_and_removed_one_by_one_are_those_of_a_resize() {
    let requests: Vec<Request> = (0..400).map(|n| request(f64::from(n) * 0.4, 2000, 300)).collect();
    let (first, rest) = requests.split_at(150);
    let mut resized = Simulation::new(&scenario(2, FleetSettings::default()), open(requests.clone()), 1);
    let mut by_hand = Simulation::new(&scenario(2, FleetSettings::default()), open(first.iter().copied()), 1);
    by_hand.send(rest.iter().copied());
    for simulation in [&mut resized, &mut by_hand] {
        simulation.run_until(20.0);
    }
    resized.resize(3, &[]);
    assert_eq!(by_hand.add(), 2);
    for simulation in [&mut resized, &mut by_hand] {
        simulation.run_until(130.0);
        assert_eq!((simulation.replicas(), simulation.ready()), (3, 3));
    }
    resized.resize(2, &[0]);
    by_hand.remove(0);
    by_hand.remove(0);
    assert_eq!(by_hand.pod(0).map(|pod| pod.terminating), Some(true));
    for simulation in [&mut resized, &mut by_hand] {
        simulation.run_until(1000.0);
    }
    assert_eq!((by_hand.pod(0), by_hand.replicas(), by_hand.pods().len()), (None, 2, 2));
    let (one, other): (Vec<_>, Vec<_>) = (resized.happenings().collect(), by_hand.happenings().collect());
    assert!(one.len() > 800);
    assert_eq!(one, other);
}

#[test]
fn a_killed_pod_loses_what_it_has_and_nothing_else() {
    let requests = (0..40).map(|n| request(f64::from(n) * 0.5, 2000, 2000));
    let mut simulation = Simulation::new(&scenario(2, FleetSettings::default()), open(requests), 1);
    simulation.run_until(30.0);
    let held = simulation.engine_meters(1).map(|meters| meters.running + meters.waiting).unwrap();
    simulation.kill(1);
    simulation.kill(1);
    assert_eq!((simulation.replicas(), simulation.ready(), simulation.pods().len()), (1, 1, 1));
    let mut books = Books::default();
    simulation.run_until(1000.0);
    books.take(&mut simulation);
    assert!(held > 0 && books.lost == u64::from(held), "{held} {books:?}");
    assert_eq!((books.arrived, books.served + books.lost), (40, 40));
}

#[test]
fn a_pod_is_ready_after_its_warm_up_and_gone_after_its_last_answer() {
    let mut simulation =
        Simulation::new(&scenario(0, FleetSettings::default()), open([request(10.0, 100, 50), request(120.0, 100, 5000)]), 1);
    simulation.run_until(20.0);
    assert_eq!((simulation.gateway_meters().queued, simulation.ready()), (1, 0));
    simulation.resize(1, &[]);
    simulation.run_until(119.9);
    assert_eq!((simulation.ready(), simulation.warmup()), (0, None));
    simulation.run_until(120.5);
    assert_eq!((simulation.ready(), simulation.warmup()), (1, Some(100.0)));
    assert_eq!((simulation.gateway_meters().queued, simulation.gateway_meters().in_flight), (0, 2));
    simulation.resize(0, &[]);
    simulation.run_until(150.0);
    assert!(simulation.pods()[0].terminating);
    assert_eq!((simulation.ready(), simulation.gateway_meters().in_flight), (0, 1));
    simulation.run_until(300.0);
    assert!(simulation.pods().is_empty() && simulation.is_over());
    let mut books = Books::default();
    books.take(&mut simulation);
    assert_eq!((books.arrived, books.served, books.lost, books.pods), (2, 2, 0, 1));
}

#[test]
fn what_a_pod_has_not_finished_at_the_drain_limit_is_lost() {
    let fleet = FleetSettings { drain_limit: 30.0, ..FleetSettings::default() };
    let mut simulation = Simulation::new(&scenario(1, fleet), open([request(0.0, 100, 20_000), request(0.0, 100, 10)]), 1);
    simulation.run_until(10.0);
    simulation.resize(0, &[]);
    simulation.run_until(39.9);
    assert_eq!(simulation.pods().len(), 1);
    simulation.run_until(40.0);
    assert!(simulation.pods().is_empty() && simulation.is_over());
    let lives: Vec<_> =
        simulation.happenings().filter_map(|happening| if let Happening::Pod(life) = happening { Some(life) } else { None }).collect();
    assert_eq!(lives, [PodLife { created: 0.0, ready: Some(0.0), leaving: Some(10.0), gone: 40.0 }]);
}

#[test]
fn named_victims_go_first_then_pods_that_are_not_ready_then_the_newest() {
    let mut simulation = Simulation::new(&scenario(4, FleetSettings::default()), open([]), 1);
    let ids = |simulation: &Simulation| simulation.pods().iter().map(|pod| pod.id).collect::<Vec<_>>();
    simulation.resize(6, &[]);
    simulation.resize(5, &[1, 99]);
    assert_eq!(ids(&simulation), [0, 2, 3, 4, 5]);
    simulation.resize(2, &[]);
    assert_eq!(ids(&simulation), [0, 2]);
}

#[test]
fn pods_without_gpus_wait_for_some() {
    let fleet = FleetSettings { gpu_limit: Some(5), ..FleetSettings::default() };
    let mut simulation = Simulation::new(&scenario(2, fleet), open([]), 1);
    simulation.resize(3, &[]);
    simulation.run_until(500.0);
    assert_eq!((simulation.ready(), simulation.pods()[2].unschedulable), (2, true));
    simulation.resize(2, &[0]);
    simulation.run_until(599.0);
    assert_eq!((simulation.ready(), simulation.pods()[1].unschedulable), (1, false));
    simulation.run_until(600.0);
    assert_eq!(simulation.ready(), 2);
    assert_eq!(simulation.lives().last().map(|life| life.created), Some(500.0), "no GPU, no bill");
}

#[test]
fn pods_that_load_together_take_longer() {
    let warmup = Warmup { median: 100.0, sigma: 0.0, load: 20.0, loading_at_once: 2 };
    let mut simulation = Simulation::new(&scenario(0, FleetSettings { warmup, ..FleetSettings::default() }), open([]), 1);
    simulation.resize(6, &[]);
    simulation.run_until(139.9);
    assert_eq!(simulation.ready(), 0);
    simulation.run_until(140.0);
    assert_eq!((simulation.ready(), simulation.warmup()), (6, Some(140.0)));
}

#[test]
fn requests_longer_than_the_cache_are_refused() {
    let mut simulation = Simulation::new(&scenario(1, FleetSettings::default()), open([request(1.0, 346_000, 501)]), 1);
    simulation.run_until(2.0);
    let mut books = Books::default();
    books.take(&mut simulation);
    assert_eq!((books.arrived, books.lost, simulation.is_over()), (1, 1, true));
}

/// Simulation.md 2.1: on traffic with shared prefixes the choice of the replica decides on what a fleet can take.
#[test]
fn affinity_saves_prefills_and_leaving_replicas_cost_some() {
    let prefill = |router| {
        let fleet = FleetSettings { router, prefix_hits: 1.0, ..FleetSettings::default() };
        let requests = (0..2000).map(|i| Request { reusable_prefix: 3500, ..request(f64::from(i) * 0.2, 4000, 50) });
        let mut simulation = Simulation::new(&scenario(8, fleet), open(requests), 1);
        simulation.run_until(200.0);
        simulation.resize(6, &[]);
        simulation.run_until(1000.0);
        let mut books = Books::default();
        books.take(&mut simulation);
        assert_eq!(books.served, 2000);
        assert!(books.recomputed > 0);
        simulation.engines().map(|(_, meters)| meters.cached_tokens as f64).sum::<f64>() / (2000.0 * 3500.0)
    };
    let (affine, turns) = (prefill(Router::PrefixAffine), prefill(Router::RoundRobin));
    assert!(affine > 3.0 * turns && (0.08..0.2).contains(&turns), "{affine} {turns}");
}

#[test]
fn users_wait_for_their_answers() {
    let closed = ClosedLoop { users: vec![(0.0, 20), (300.0, 5)], think: 2.0, lengths: vec![(1000, 100)], until: 600.0 };
    let mut simulation = Simulation::new(&scenario(1, FleetSettings::default()), Arrivals::Closed(closed), 3);
    for second in 0..600 {
        simulation.run_until(f64::from(second));
        let users = if second < 310 { 20 } else { 5 };
        assert!(simulation.gateway_meters().in_flight <= users);
    }
    simulation.run_until(700.0);
    assert!(simulation.is_over());
    let finished = simulation.gateway_meters().finished;
    assert!((1800..2600).contains(&finished), "{finished}");
}

prop_compose! {
    fn fleets()(
        sigma in 0.0..0.4f64,
        router in prop::sample::select(vec![Router::LeastLoaded, Router::RoundRobin, Router::PrefixAffine]),
        drain_limit in prop::sample::select(vec![0.0, 1.0, 20.0, f64::INFINITY]),
        gpu_limit in prop::option::of(0u32..12),
        start_failure in 0.0..0.5f64,
        prefix_hits in prop::sample::select(vec![0.0, 0.7]),
    ) -> FleetSettings {
        let warmup = Warmup { median: 20.0, sigma, load: 5.0, loading_at_once: 1 };
        FleetSettings { warmup, router, drain_limit, gpu_limit, start_failure, prefix_hits }
    }
}

fn traffic() -> impl Strategy<Value = Arrivals> {
    let drawn = prop::collection::vec((0.0..3.0f64, 1u32..9000, 1u32..800, 0.0..1.0f64), 1..150);
    let opened = drawn.prop_map(|drawn| {
        let mut at = 0.0;
        let requests = drawn.into_iter().map(|(gap, prompt, output, prefix)| {
            at += gap;
            Request { at, prompt, output, reusable_prefix: (f64::from(prompt - 1) * prefix) as u32 }
        });
        Arrivals::Open(requests.collect())
    });
    let closed = (1u32..40, 0u32..40).prop_map(|(first, then)| {
        Arrivals::Closed(ClosedLoop {
            users: vec![(0.0, first), (100.0, then)],
            think: 1.0,
            lengths: vec![(3000, 200), (10, 1)],
            until: 200.0,
        })
    });
    prop_oneof![3 => opened, 1 => closed]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_request_is_served_or_lost_and_every_pod_goes(
        fleet in fleets(),
        arrivals in traffic(),
        start in 0u32..5,
        resizes in prop::collection::vec((0.0..30.0f64, 0u32..7, prop::collection::vec(0u64..10, 0..3)), 0..30),
        seed in 0u64..1000,
    ) {
        let scenario = scenario(start, fleet);
        let mut books = Books::default();
        let mut simulation = Simulation::new(&scenario, arrivals, seed);
        for (pause, replicas, victims) in resizes {
            simulation.run_until(simulation.now() + pause);
            simulation.resize(replicas, &victims);
            books.take(&mut simulation);
            let meters = simulation.gateway_meters();
            let here = u64::from(meters.queued) + u64::from(meters.in_flight);
            prop_assert_eq!(books.arrived, books.served + books.lost + here);
            prop_assert_eq!(meters.arrivals, books.arrived);
            prop_assert_eq!(simulation.pods().iter().filter(|pod| !pod.terminating).count(), replicas as usize);
            if let Some(limit) = fleet.gpu_limit {
                let used = simulation.pods().iter().filter(|pod| !pod.unschedulable).count() as u32;
                prop_assert!(used * scenario.profile.gpus <= limit);
            }
        }
        simulation.run_until(simulation.now() + 4000.0);
        simulation.resize(0, &[]);
        simulation.run_until(simulation.now() + 4000.0);
        books.take(&mut simulation);
        let queued = u64::from(simulation.gateway_meters().queued);
        prop_assert_eq!(books.arrived, books.served + books.lost + queued);
        prop_assert_eq!(simulation.gateway_meters().in_flight, 0);
        prop_assert!(simulation.pods().is_empty());
    }
}
