use llmscaler_engine::{Measurement, Profile};

use super::*;
use crate::Promised;

const PROMISED: Promised = Promised { ttft: 3.0, tpot: 0.1 };
const P90: Quantile = Quantile { of: 0.9, signal: Signal::Predicted, values: Values::Buckets, window: 60.0 };

fn metrics(settings: PipelineSettings) -> Metrics {
    Metrics::new(settings, &Profile::named(Profile::DEFAULT).unwrap().costs, 1)
}

fn ideal() -> Metrics {
    metrics(PipelineSettings::default())
}

fn real() -> Metrics {
    metrics(PipelineSettings { histograms: Histograms::Real, ..PipelineSettings::default() })
}

/// Scrapes every 5 s from 0 to `until` a gateway at which requests arrive at so many per second, as many being held back as seconds
/// have passed.
fn steady(mut metrics: Metrics, until: u32, per_second: u64) -> Metrics {
    for at in (0..=until).step_by(5) {
        let gateway = GatewayMeters { arrivals: u64::from(at) * per_second, queued: at, ..GatewayMeters::default() };
        metrics.scrape(f64::from(at), &gateway, &[]);
    }
    metrics
}

/// Pods that take requests.
fn pods<'a>(meters: &[(u64, &'a EngineMeters)]) -> Vec<PodMeters<'a>> {
    meters.iter().map(|&(id, meters)| PodMeters { id, serving: true, meters }).collect()
}

fn arrivals(metrics: &Metrics, now: f64) -> [Option<f64>; 3] {
    let rates = metrics.traffic(PROMISED, now).arrivals;
    [rates.over_15s, rates.over_30s, rates.over_60s].map(|rate| rate.map(Measurement::get))
}

#[test]
fn an_ideal_question_is_answered_as_of_its_moment() {
    let metrics = steady(ideal(), 60, 2);
    assert_eq!(arrivals(&metrics, 60.0), [Some(2.0); 3]);
    assert_eq!(metrics.queued(60.0), Some(60.0));
    assert_eq!(arrivals(&steady(ideal(), 20, 2), 20.0), [Some(2.0); 3], "over the time there has been");
    assert_eq!(arrivals(&steady(ideal(), 0, 2), 0.0), [None; 3], "one scrape is no rate");
}

#[test]
fn a_real_question_is_answered_from_the_scrape_before_it() {
    let metrics = steady(real(), 60, 2);
    assert_eq!(metrics.queued(60.0), Some(55.0));
    // Twelve scrapes from 0 to 55 saw 110 arrivals, which Prometheus extrapolates to the whole minute.
    assert!((arrivals(&metrics, 60.0)[2].unwrap() - 2.0).abs() < 1e-12);
    // Four scrapes from 0 to 15 saw 30; a counter that began at 0 is not extrapolated back, and 40 of a minute's 60 arrivals are all.
    let found = arrivals(&steady(real(), 20, 2), 20.0)[2].unwrap();
    assert!((found - 40.0 / 60.0).abs() < 1e-12, "{found}");
    assert_eq!(steady(real(), 0, 2).queued(0.0), None, "nothing has been scraped before");
}

#[test]
fn counters_of_pods_add_up_though_pods_come_and_go() {
    let mut metrics = ideal();
    let engine = |finished, tokens| EngineMeters { finished, output_tokens: tokens, ..EngineMeters::default() };
    let gateway = GatewayMeters::default();
    metrics.scrape(0.0, &gateway, &pods(&[(1, &engine(10, 0))]));
    metrics.scrape(5.0, &gateway, &pods(&[(1, &engine(20, 0)), (2, &engine(3, 0))]));
    metrics.scrape(10.0, &gateway, &pods(&[(2, &engine(7, 0))]));
    let window = metrics.window(Group::Outputs, 10.0, 60.0).unwrap();
    assert_eq!(window.engines_grew(|engine| engine.finished), 10 + 3 + 4);
}

#[test]
fn without_a_gateway_arrivals_are_what_was_finished_and_what_is_more_in_flight() {
    let mut metrics = metrics(PipelineSettings { gateway: false, ..PipelineSettings::default() });
    let engine = |finished, running, waiting| EngineMeters { finished, running, waiting, ..EngineMeters::default() };
    metrics.scrape(0.0, &GatewayMeters::default(), &pods(&[(1, &engine(0, 4, 0))]));
    metrics.scrape(10.0, &GatewayMeters { queued: 9, arrivals: 99, ..GatewayMeters::default() }, &pods(&[(1, &engine(12, 6, 6))]));
    assert_eq!(arrivals(&metrics, 10.0), [Some(2.0); 3]);
    assert_eq!((metrics.queued(10.0), metrics.waiting(10.0), metrics.in_flight(10.0)), (None, Some(6.0), Some(12.0)));
}

#[test]
fn gauges_of_pods() {
    let mut metrics = ideal();
    let engine = |running, waiting, kv_tokens| EngineMeters { running, waiting, kv_tokens, ..EngineMeters::default() };
    let gateway = GatewayMeters { queued: 2, in_flight: 30, ..GatewayMeters::default() };
    metrics.scrape(0.0, &gateway, &pods(&[(1, &engine(9, 7, 315_000)), (2, &engine(1, 0, 0))]));
    metrics.scrape(5.0, &gateway, &pods(&[(1, &engine(10, 4, 175_000)), (3, &engine(20, 0, 35_000))]));
    assert_eq!(metrics.running(5.0), Some(30.0));
    assert_eq!(metrics.waiting(5.0), Some(6.0));
    assert_eq!(metrics.with_pods(5.0), Some(30.0));
    assert_eq!(metrics.in_flight_mean(5.0, 60.0), Some(32.0));
    assert_eq!(metrics.kv_used(5.0), Some(210_000.0));
    assert!((metrics.kv_usage(5.0).unwrap() - 0.3).abs() < 1e-12, "half and a tenth of 350,000");
    assert!((metrics.pool_saturation(5.0).unwrap() - (0.8 + 0.125) / 2.0).abs() < 1e-12, "4 ÷ 5, and 0.1 ÷ 0.8");
    let peaks = metrics.pod_peaks(5.0, 60.0).unwrap();
    assert_eq!(peaks, [PodPeak { id: 1, kv_usage: 0.9, waiting: 7 }, PodPeak { id: 3, kv_usage: 0.1, waiting: 0 }], "2 has gone");
}

#[test]
fn what_drains_is_in_flight_and_counts_but_is_not_the_pool() {
    let mut metrics = metrics(PipelineSettings { gateway: false, ..PipelineSettings::default() });
    let drains = |finished| EngineMeters { running: 4, kv_tokens: 350_000, finished, ..EngineMeters::default() };
    let serves = EngineMeters { running: 6, kv_tokens: 35_000, ..EngineMeters::default() };
    for (at, finished) in [(0.0, 0), (10.0, 20)] {
        let drains = PodMeters { id: 1, serving: false, meters: &drains(finished) };
        metrics.scrape(at, &GatewayMeters::default(), &[drains, PodMeters { id: 2, serving: true, meters: &serves }]);
    }
    assert_eq!((metrics.running(10.0), metrics.kv_usage(10.0), metrics.in_flight(10.0)), (Some(6.0), Some(0.1), Some(10.0)));
    assert_eq!(arrivals(&metrics, 10.0), [Some(2.0); 3]);
    assert_eq!(metrics.pod_peaks(10.0, 60.0).unwrap().len(), 1);
}

#[test]
fn no_pod_has_no_usage_and_counts_as_saturated() {
    let mut metrics = ideal();
    metrics.scrape(0.0, &GatewayMeters::default(), &[]);
    assert_eq!((metrics.kv_usage(0.0), metrics.pool_saturation(0.0), metrics.running(0.0)), (None, Some(1.0), Some(0.0)));
}

#[test]
fn what_is_missing_is_none_and_each_group_goes_missing_by_itself() {
    let all = steady(metrics(PipelineSettings { missing: 1.0, ..PipelineSettings::default() }), 60, 2);
    assert_eq!((all.queued(60.0), all.in_flight(60.0), all.latencies(P90, 60.0)), (None, None, None));
    let traffic = all.traffic(PROMISED, 60.0);
    assert_eq!((traffic.arrivals.over_60s, traffic.waiting, traffic.late_ttft, traffic.inter_token), (None, None, None, None));

    let some = metrics(PipelineSettings { missing: 0.05, ..PipelineSettings::default() });
    let ticks: Vec<f64> = (0..20_000).map(|tick| f64::from(tick) * 15.0).collect();
    let share = |missing: &dyn Fn(f64) -> bool| ticks.iter().filter(|at| missing(**at)).count() as f64 / ticks.len() as f64;
    let (one, other) = (share(&|at| some.misses(Group::Arrivals, at)), share(&|at| some.misses(Group::Running, at)));
    let both = share(&|at| some.misses(Group::Arrivals, at) && some.misses(Group::Running, at));
    assert!((one - 0.05).abs() < 0.005 && (other - 0.05).abs() < 0.005 && both < 0.005, "{one} {other} {both}");
}

/// A pool whose every TPOT is predicted in (20, 40] ms and whose TTFTs are predicted at these seconds.
fn predicted(ttfts: &[f64]) -> Metrics {
    let mut metrics = ideal();
    metrics.scrape(0.0, &GatewayMeters::default(), &[]);
    let mut gateway = GatewayMeters::default();
    for (at, ttft) in (1..).map(f64::from).zip(ttfts) {
        gateway.latest.predicted_ttft.add(at, *ttft);
        gateway.latest.predicted_tpot.add(at, 0.025);
        gateway.predicted_ttft.observe(*ttft, 1);
        gateway.predicted_tpot.observe(0.025, 1);
    }
    metrics.scrape(15.0, &gateway, &[]);
    metrics
}

#[test]
fn a_quantile_of_values_and_of_buckets() {
    let metrics = predicted(&[0.3, 0.1, 0.9, 0.2, 0.4, 0.8, 0.7, 0.5, 0.6, 1.0]);
    let exact = metrics.latencies(Quantile { values: Values::Exact, ..P90 }, 15.0).unwrap();
    assert_eq!((exact.ttft, exact.tpot), (0.9, 0.025));
    let bucketed = metrics.latencies(P90, 15.0).unwrap();
    assert!((bucketed.tpot - 0.038).abs() < 1e-12, "whatever the true value: {}", bucketed.tpot);
    let measured = metrics.latencies(Quantile { signal: Signal::Measured, ..P90 }, 15.0).unwrap();
    assert!(measured.ttft.is_nan() && measured.tpot.is_nan(), "nothing was measured");
    let alone = Metrics { settings: PipelineSettings { gateway: false, ..PipelineSettings::default() }, ..metrics.clone() };
    assert!(alone.latencies(P90, 15.0).unwrap().tpot.is_nan(), "nobody predicts");
    let none = metrics.latencies(Quantile { values: Values::Exact, ..P90 }, 100.0).unwrap();
    assert!(none.ttft.is_nan(), "all are older than a minute");
}

#[test]
fn the_rules_clamp_average_and_read_nothing_as_zero() {
    let metrics = predicted(&[12.0; 10]);
    // At 15 s it is clamped at 2; at 0 s there was nothing, which "or vector(0)" makes 0.
    assert!((metrics.saturation(P90, PROMISED, 2.0, 45.0, 15.0) - 1.0).abs() < 1e-12);
    assert!((metrics.saturation(P90, PROMISED, 2.0, 15.0, 15.0) - 2.0).abs() < 1e-12);
    assert!((metrics.saturation(P90, PROMISED, 2.0, 45.0, 29.9) - 1.0).abs() < 1e-12, "the rules stand until the next evaluation");
    assert!((predicted(&[0.1; 10]).saturation(P90, PROMISED, 2.0, 15.0, 15.0) - 0.38).abs() < 1e-12, "of TPOT");
    let missing = metrics_missing_all(&metrics);
    assert_eq!(missing.saturation(P90, PROMISED, 2.0, 45.0, 15.0), 0.0);
}

fn metrics_missing_all(metrics: &Metrics) -> Metrics {
    let mut missing = metrics.clone();
    missing.settings.missing = 1.0;
    missing
}

#[test]
fn rules_fall_back_to_what_was_measured() {
    let mut metrics = ideal();
    metrics.scrape(0.0, &GatewayMeters::default(), &[]);
    let mut gateway = GatewayMeters::default();
    gateway.ttft.observe(1.5, 10);
    metrics.scrape(15.0, &gateway, &[]);
    // All in (1.25, 1.5]: 1.475 s of 3 s.
    assert!((metrics.saturation(P90, PROMISED, 2.0, 15.0, 15.0) - 1.475 / 3.0).abs() < 1e-12);
}

#[test]
fn traffic_of_an_ideal_pipeline() {
    let mut metrics = ideal();
    let engine = EngineMeters::default();
    metrics.scrape(0.0, &GatewayMeters::default(), &pods(&[(1, &engine)]));
    let mut gateway = GatewayMeters { arrivals: 30, prompt_tokens: 9000, finished: 20, output_tokens: 1800, ..GatewayMeters::default() };
    gateway.prompt_length_ideal.observe(200.0, 10);
    gateway.prompt_length_ideal.observe(400.0, 20);
    gateway.output_length.observe(90.0, 20);
    gateway.ttft.observe(3.5, 4);
    gateway.ttft.observe(0.5, 16);
    gateway.tpot.observe(0.03, 20);
    let mut engine = EngineMeters { running: 7, waiting: 1, kv_tokens: 5000, cached_tokens: 1500, ..engine };
    engine.inter_token.observe(0.02, 300);
    engine.inter_token.observe(0.05, 100);
    metrics.scrape(15.0, &gateway, &pods(&[(1, &engine)]));
    let traffic = metrics.traffic(PROMISED, 15.0);
    let close = |found: Option<Measurement>, expected: f64| {
        let found = found.unwrap().get();
        assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
    };
    close(traffic.arrivals.over_15s, 2.0);
    close(traffic.prompt_tokens.over_60s, 500.0);
    // Ten of 192 and twenty of 384: mean 320, variance 8192.
    close(traffic.prompt_variation, 8192.0 / (320.0 * 320.0));
    let counted: Vec<(f64, f64)> = traffic.prompt_lengths.unwrap().iter().filter(|b| b.count > 0.0).map(|b| (b.upper, b.count)).collect();
    assert_eq!(counted, [(256.0, 10.0), (512.0, 20.0)]);
    let finished = traffic.finished.unwrap();
    assert_eq!((finished.requests.get(), finished.output_tokens.get()), (20.0, 1800.0));
    close(traffic.median_output, 96.0);
    close(traffic.inter_token.map(|gaps| gaps.mean), 0.0275);
    close(traffic.inter_token.map(|gaps| gaps.count), 400.0);
    close(traffic.waiting, 1.0);
    close(traffic.running, 7.0);
    close(traffic.kv_used, 5000.0);
    close(traffic.kv_capacity, 350_000.0);
    // All of the bucket (3, 4] is above 3.
    close(traffic.late_ttft.map(|late| late.share), 0.2);
    close(traffic.late_ttft.map(|late| late.of), 20.0);
    close(traffic.late_tpot.map(|late| late.share), 0.0);
}

#[test]
fn traffic_of_a_real_pipeline_is_what_engines_observe() {
    let mut metrics = real();
    metrics.scrape(0.0, &GatewayMeters::default(), &pods(&[(1, &EngineMeters::default())]));
    let (mut gateway, mut engine) = (GatewayMeters { arrivals: 30, ..GatewayMeters::default() }, EngineMeters::default());
    gateway.prompt_length_ideal.observe(400.0, 20);
    gateway.ttft.observe(3.5, 4);
    engine.prompt_length.observe(400.0, 3);
    engine.ttft.observe(0.5, 5);
    metrics.scrape(5.0, &gateway, &pods(&[(1, &engine)]));
    let traffic = metrics.traffic(PROMISED, 10.0);
    let counted: Vec<(f64, f64)> = traffic.prompt_lengths.unwrap().iter().filter(|b| b.count > 0.0).map(|b| (b.upper, b.count)).collect();
    assert_eq!(counted, [(500.0, 3.0)]);
    assert_eq!(traffic.late_ttft.map(|late| (late.share.get(), late.of.get())), Some((0.0, 5.0)));
}

/// Prompts of 1,000 tokens, and then longer ones, of which a cluster sees nothing until they have been computed.
#[test]
fn prompt_tokens_are_exact_where_inputs_are_ideal_and_follow_the_mean_prompt_where_they_are_real() {
    for (mut metrics, expected) in [
        (ideal(), [Some(8000.0), Some(5000.0), Some(3500.0)]),
        // Two arrive per second all the while, as 1,000 tokens each were computed.
        (real(), [Some(2000.0); 3]),
    ] {
        for at in (0..=65).step_by(5) {
            let arrivals = 2 * at;
            let longer = 2 * u64::saturating_sub(at, 45);
            let gateway = GatewayMeters { arrivals, prompt_tokens: 1000 * arrivals + 3000 * longer, ..GatewayMeters::default() };
            let mut engine = EngineMeters { prompt_tokens: 1000 * arrivals, cached_tokens: 0, ..EngineMeters::default() };
            engine.ttft.observe(0.2, arrivals);
            metrics.scrape(at as f64, &gateway, &pods(&[(1, &engine)]));
        }
        let now = if metrics.settings.histograms == Histograms::Ideal { 60.0 } else { 65.0 };
        let tokens = metrics.traffic(PROMISED, now).prompt_tokens;
        let found = [tokens.over_15s, tokens.over_30s, tokens.over_60s].map(|rate| rate.map(Measurement::get));
        for (found, expected) in found.into_iter().zip(expected) {
            assert!((found.unwrap() - expected.unwrap()).abs() < 1e-9, "{found:?}, not {expected:?}");
        }
    }
}

#[test]
fn without_a_computed_prompt_real_tokens_are_unknown_but_for_none_and_an_old_mean_stands_in() {
    let tokens = |metrics: &Metrics, now| metrics.traffic(PROMISED, now).prompt_tokens.over_60s.map(Measurement::get);
    assert_eq!(tokens(&steady(real(), 60, 2), 60.0), None, "what arrives may be of any length");
    assert_eq!(tokens(&steady(real(), 60, 0), 60.0), Some(0.0));
    assert!(tokens(&steady(ideal(), 60, 2), 60.0).is_some());
    let mut metrics = real();
    let mut engine = EngineMeters { prompt_tokens: 5000, cached_tokens: 2000, ..EngineMeters::default() };
    engine.ttft.observe(0.2, 10);
    for at in (0..=60).step_by(5) {
        let gateway = GatewayMeters { arrivals: 2 * at, ..GatewayMeters::default() };
        metrics.scrape(at as f64, &gateway, &pods(&[(1, &engine)]));
    }
    assert!((tokens(&metrics, 60.0).unwrap() - 2.0 * 500.0).abs() < 1e-9, "{:?}", tokens(&metrics, 60.0));
}

#[test]
fn none_of_none_was_late_in_either_pipeline() {
    for metrics in [steady(ideal(), 60, 2), steady(real(), 60, 2)] {
        let traffic = metrics.traffic(PROMISED, 60.0);
        for late in [traffic.late_ttft, traffic.late_tpot] {
            assert_eq!(late.map(|late| (late.share.get(), late.of.get())), Some((0.0, 0.0)));
        }
    }
}

#[test]
fn history_is_bounded() {
    let metrics = steady(ideal(), 3600, 1);
    assert_eq!(metrics.history.between(f64::NEG_INFINITY, f64::INFINITY).len(), 31);
}
