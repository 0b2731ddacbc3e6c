use llmscaler_engine::Profile;
use proptest::prelude::*;

use super::*;

fn costs() -> Costs {
    Profile::named(Profile::DEFAULT).unwrap().costs
}

fn request(at: f64, prompt: u32, output: u32) -> Request {
    Request { at, prompt, output, reusable_prefix: 0 }
}

/// Answers by number of request, and the replica after the last.
fn run(costs: Costs, requests: &[(Request, u32)]) -> (Vec<Served>, Effects, Replica) {
    let mut replica = Replica::new(costs, 0.0);
    let mut effects = Effects::default();
    for (number, (request, cached)) in requests.iter().enumerate() {
        while replica.due() < request.at {
            replica.advance(replica.due(), &mut effects);
        }
        replica.accept(request.at, Job { request: *request, cached: *cached, user: Some(number as u32) });
    }
    while replica.due() < f64::INFINITY {
        replica.advance(replica.due(), &mut effects);
    }
    let mut served = effects.finished.clone();
    served.sort_by_key(|(_, user)| *user);
    (served.into_iter().map(|(served, _)| served).collect(), effects, replica)
}

fn alone(costs: Costs, prompt: u32, output: u32) -> Served {
    run(costs, &[(request(3.0, prompt, output), 0)]).0[0]
}

/// Simulation.md 2.2: the fit against what was published.
#[test]
fn an_idle_replica_is_as_fast_as_published() {
    let ttft = alone(costs(), 8192, 2).ttft;
    assert!((ttft - 0.508).abs() < 0.001, "32B, 8192 tokens: {ttft}");
    let tpot = alone(Profile::named("llama-3.1-8b-h100").unwrap().costs, 128, 128).tpot.unwrap();
    assert!((tpot - 0.0069).abs() < 0.0001, "8B on an H100: {tpot}");
    let served = alone(Profile::named("llama-3.1-8b-a100-40").unwrap().costs, 1024, 128);
    assert!((128.0 / (served.finished - served.arrived - TRANSPORT) - 74.0).abs() < 1.0, "8B on an A100: {served:?}");
    let tpot = alone(Profile::named("llama-3-70b-h100-tp4").unwrap().costs, 480, 300).tpot.unwrap();
    assert!((tpot - 0.0165).abs() < 0.0002, "70B: {tpot}");
}

#[test]
fn one_token_has_no_time_per_token() {
    let served = alone(costs(), 100, 1);
    assert_eq!(served.tpot, None);
    assert!((served.finished - served.arrived - served.ttft).abs() < 1e-9);
}

#[test]
fn cached_tokens_are_not_processed_but_read() {
    let cost = costs();
    let all = [(request(0.0, 8000, 2), 0)];
    let cached = [(request(0.0, 8000, 2), 6000)];
    let (all, cached) = (run(cost, &all).0[0], run(cost, &cached).0[0]);
    let saved = cost.prompt_token * 6000.0 + cost.attention * 6000.0 * 6000.0 / 2.0;
    assert!((all.ttft - cached.ttft - saved).abs() < 1e-9);
    assert!((all.tpot.unwrap() - cached.tpot.unwrap()).abs() < 1e-12);
}

#[test]
fn meters_count_every_token_once() {
    let requests: Vec<_> = (0..200).map(|i| (request(f64::from(i) * 0.7, 4000, 1000), 100)).collect();
    let (served, effects, mut replica) = run(costs(), &requests);
    assert_eq!(served.len(), 200);
    assert_eq!(effects.first_tokens.len(), 200);
    replica.read_meters(1e9);
    let meters = replica.meters();
    assert_eq!((meters.finished, meters.output_tokens), (200, 200_000));
    assert_eq!((meters.prompt_tokens, meters.cached_tokens), (200 * 3900, 200 * 100));
    assert_eq!((meters.ttft.count(), meters.inter_token.count(), meters.request_tpot.count()), (200, 199_800, 200));
    let waited: f64 = served.iter().map(|served| served.finished - served.arrived - served.ttft).sum();
    assert!((meters.inter_token.sum() / waited - 1.0).abs() < 1e-9, "{} {waited}", meters.inter_token.sum());
    assert_eq!((meters.running, meters.waiting, meters.kv_tokens), (0, 0, 0));
    assert_eq!(replica.in_flight(), 0);
}

#[test]
fn reading_the_meters_within_a_leap_changes_nothing() {
    let requests = [(request(0.0, 500, 2000), 0)];
    let (served, ..) = run(costs(), &requests);
    let mut replica = Replica::new(costs(), 0.0);
    let mut effects = Effects::default();
    replica.accept(0.0, Job { request: requests[0].0, cached: 0, user: None });
    let mut tokens = 0;
    let mut now = 0.0;
    while replica.due() < f64::INFINITY {
        now += 0.37;
        while replica.due() <= now {
            replica.advance(replica.due(), &mut effects);
        }
        replica.read_meters(now);
        let meters = replica.meters();
        assert!(meters.output_tokens >= tokens && meters.output_tokens <= tokens + 27, "at {now}");
        tokens = meters.output_tokens;
        if meters.running == 1 && tokens > 0 {
            assert_eq!(meters.kv_tokens, 500 + tokens - 1);
        }
    }
    assert_eq!(tokens, 2000);
    assert_eq!(effects.finished[0].0, served[0]);
}

#[test]
fn forecasts_are_right_while_load_is_steady() {
    let mut replica = Replica::new(costs(), 0.0);
    let mut effects = Effects::default();
    let mut forecasts = Vec::new();
    for i in 0..400 {
        let at = f64::from(i) / 1.2;
        while replica.due() < at {
            replica.advance(replica.due(), &mut effects);
        }
        replica.accept(at, Job { request: request(at, 4000, 1000), cached: 0, user: Some(i) });
        forecasts.push(replica.forecast(at, 4000));
    }
    while replica.due() < f64::INFINITY {
        replica.advance(replica.due(), &mut effects);
    }
    let steady: Vec<_> = effects.finished.iter().filter(|(served, _)| (120.0..280.0).contains(&served.arrived)).collect();
    assert!(steady.len() > 150);
    for (served, user) in steady {
        let forecast = forecasts[user.unwrap() as usize];
        assert!((forecast.ttft / served.ttft - 1.0).abs() < 0.1, "{forecast:?} {served:?}");
        assert!((forecast.tpot / served.tpot.unwrap() - 1.0).abs() < 0.07, "{forecast:?} {served:?}");
    }
}

fn arrivals() -> impl Strategy<Value = Vec<(Request, u32)>> {
    let one = (0.0..1.0f64, 1u32..3000, 1u32..400, 0.0..0.9f64);
    (prop::collection::vec(one, 1..120), 0.02..2.0f64).prop_map(|(drawn, pace)| {
        let mut at = 0.0;
        let each = drawn.into_iter().map(|(gap, prompt, output, cached)| {
            at += gap * gap * pace;
            (request(at, prompt, output), if cached > 0.6 { (f64::from(prompt - 1) * cached) as u32 } else { 0 })
        });
        each.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn leaps_come_out_where_single_steps_do(
        requests in arrivals(),
        kv_tokens in 3600u32..20_000,
        max_sequences in 1u32..60,
        max_batched_tokens in 64u32..4000,
        prompt_token in 1e-5..1e-3f64,
    ) {
        let costs = Costs { kv_tokens, max_sequences, max_batched_tokens, prompt_token, ..costs() };
        let (expected, preemptions) = reference::run(&costs, &requests);
        let (served, effects, mut replica) = run(costs, &requests);
        prop_assert_eq!(served.len(), requests.len());
        prop_assert_eq!(effects.first_tokens.len(), requests.len());
        replica.read_meters(1e9);
        prop_assert_eq!(replica.meters().preemptions, preemptions);
        prop_assert_eq!(effects.recomputed > 0, preemptions > 0);
        for (number, ttft, tpot, finished) in expected {
            let ours = served[number];
            prop_assert!((ours.ttft - ttft).abs() < 1e-6, "TTFT of {}: {} and {}", number, ours.ttft, ttft);
            prop_assert!((ours.finished - finished).abs() < 1e-6, "end of {}: {} and {}", number, ours.finished, finished);
            prop_assert_eq!(ours.tpot.is_some(), tpot.is_some());
            prop_assert!((ours.tpot.unwrap_or(0.0) - tpot.unwrap_or(0.0)).abs() < 1e-6);
        }
        prop_assert_eq!(replica.load().prefill, 0);
        replica.read_meters(1e9);
    let meters = replica.meters();
        prop_assert_eq!((meters.kv_tokens, meters.running, meters.waiting), (0, 0, 0));
    }
}
