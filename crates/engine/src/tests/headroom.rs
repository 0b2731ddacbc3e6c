//! The headroom law as one source of whole decisions.

use super::*;
use crate::{Reason, Stage};

mod activity;
mod caution;
mod conditions;
mod edits;
mod properties;
mod shortfall;

/// A step of 10 ms (a), 50 µs per prompt token (b), 2 ns per prompt token and token before it (e), 20 µs per sequence and step (c), 50 ns
/// per token in the cache and step (d), 350 000 tokens: figures that are easy to reckon with.
pub(super) const COSTS: Costs = Costs {
    overhead: 0.004,
    weights: 0.006,
    prompt_token: 5e-5,
    attention: 2e-9,
    sequence: 2e-5,
    kv_token: 5e-8,
    kv_tokens: 350_000,
    max_sequences: 256,
    max_batched_tokens: 8192,
};

/// 1 s and 50 ms for 99 %.
pub(crate) fn law() -> Headroom {
    let target = |x| Target::new(x).unwrap();
    Headroom { ttft: target(1.0), tpot: target(0.05), objective: Objective::new(0.99).unwrap(), costs: COSTS, profile_is_given: true }
}

/// That law within 2 to 40 replicas.
pub(crate) fn headroom() -> Spec {
    let mut spec = spec(&[1.0]);
    spec.sources[0] = Source { name: "slo".to_owned(), law: Law::Headroom(law()), ..spec.sources[0].clone() };
    spec.bounds = bounds(2, 40);
    spec
}

pub(super) fn known(x: f64) -> Option<Measurement> {
    Some(Measurement::new(x).unwrap())
}

/// So many requests per second, of 1000 tokens each; outputs of 400 with a median of 300. 12 per second are a load of 1.008.
pub(super) fn requests(rate: f64) -> Traffic {
    let rates = |rate| Rates { over_60s: known(rate), ..Rates::default() };
    let finished = Finished { requests: Measurement::new(1.0).unwrap(), output_tokens: Measurement::new(400.0).unwrap() };
    Traffic {
        arrivals: rates(rate),
        prompt_tokens: rates(1000.0 * rate),
        finished: Some(finished),
        median_output: known(300.0),
        waiting: known(0.0),
        running: known(0.0),
        ..Traffic::default()
    }
}

/// A pool that is looked at every 15 s, and whose every write is made and settles before the next sync.
pub(super) struct Pool {
    pub fleet: Fleet,
    pub at: i64,
}

impl Pool {
    pub(super) fn new(spec: Spec, replicas: u32) -> Self {
        Self { fleet: Fleet::new(spec, replicas, replicas), at: 0 }
    }

    pub(super) fn see(&mut self, traffic: Option<Traffic>, reading: Reading) -> Decision {
        let seen = Observation { workload: self.fleet.workload.clone(), readings: vec![reading], traffic: traffic.map(Box::new) };
        let decision = decide(&self.fleet.spec, &seen, &self.fleet.memory, Time::from_millis(self.at * 1000));
        self.fleet.memory = decision.memory.clone();
        if let Some(count) = decision.write {
            self.fleet.memory.record_write(&self.fleet.spec, Time::from_millis(self.at * 1000), decision.replicas, count);
            self.fleet.workload = workload(count.get(), count.get());
        }
        self.at += 15;
        decision
    }

    pub(super) fn tick(&mut self, traffic: Traffic) -> Decision {
        self.see(Some(traffic), unknown())
    }

    /// What is recommended at each tick of so many seconds.
    pub(super) fn run(&mut self, seconds: i64, rate: f64) -> Vec<u32> {
        (0..seconds / 15).map(|_| self.tick(requests(rate)).recommended.get()).collect()
    }
}

fn account(decision: &Decision) -> &str {
    decision.readings[0].account.as_deref().unwrap_or_default()
}

/// D = 60 × 0.084 = 5.04; x = (5.04 + 2.0537 √(5.04 × 0.11619 ÷ 15)) ÷ 0.8 = 6.807.
#[test]
fn the_ask_and_the_sentence() {
    let decision = Pool::new(headroom(), 4).tick(requests(60.0));
    let said = "desired 7 (was 4): load 5.0 + noise 0.4 (z 2.1) at 0.80 busy = 6.8; + growth 0.0 (9 of 10 past warm-ups) = 6.8; \
                limit TPOT; hold 600 s; profile x1.00";
    assert_eq!(account(&decision), said);
    assert_eq!((decision.recommended, decision.write), (Replicas::new(7), Some(Replicas::new(7))));
    assert_eq!(decision.stages[0].message, format!("slo: {said}"));
    assert!(matches!(decision.readings[0].state, ReadingState::Value(x) if (x.get() - 6.807).abs() < 1e-3), "{:?}", decision.readings);
    assert_eq!(decision.readings[0].target, None);
}

#[test]
fn nothing_shrinks_in_the_first_five_minutes() {
    let mut pool = Pool::new(headroom(), 12);
    assert!(pool.run(300, 60.0).iter().all(|count| *count == 12));
    assert_eq!(pool.at, 300);
    let decision = pool.tick(requests(60.0));
    assert_eq!(decision.recommended, Replicas::new(8), "6.807 and half a replica of dead band");
    assert!(account(&decision).starts_with("held at 8 by the dead band of half a replica: load 5.0"), "{}", account(&decision));
}

#[test]
fn the_start_says_how_long_it_holds() {
    let mut pool = Pool::new(headroom(), 12);
    pool.run(60, 60.0);
    let decision = pool.tick(requests(60.0));
    assert!(account(&decision).starts_with("held at 12 for 240 s more, as nothing shrinks in the first 300 s: "), "{}", account(&decision));
}

/// Five minutes at 60/s (need 8 with the dead band), then 12/s (x = 1.73, so 3 with it): no hold of less than 450 s before 900 s, and then
/// the cheapest over the past, 60 s, as nothing came back.
#[test]
fn a_young_history_holds_for_450_s() {
    let mut pool = Pool::new(headroom(), 8);
    pool.run(300, 60.0);
    let falling = pool.run(1200, 12.0);
    let first = falling.iter().position(|count| *count < 8).unwrap();
    // The load fell at 300 s. 31 values, three of them cut off: the fourth newest of the high ones, at 240 s, leaves the window at 705 s.
    assert_eq!((first, falling[first]), ((705 - 300) / 15, 3));
    let mut old = Pool::new(headroom(), 8);
    old.run(1200, 60.0);
    let falling = old.run(300, 12.0);
    // Five values at 60 s, none cut off: the last high one, at 1185 s, leaves the window at 1260 s.
    assert_eq!(falling.iter().position(|count| *count < 8), Some((1260 - 1200) / 15));
}

#[test]
fn a_larger_need_is_asked_for_at_once_and_growth_is_remembered() {
    let mut pool = Pool::new(headroom(), 8);
    pool.run(1200, 12.0);
    assert_eq!(pool.tick(requests(60.0)).recommended.get(), 7);
    pool.run(300, 60.0);
    pool.run(1200, 12.0);
    let decision = pool.tick(requests(12.0));
    assert!(account(&decision).contains("+ growth 0.0"), "1200 s later it has left the history: {}", account(&decision));
    pool.run(180, 60.0);
    // H = 9: of 71 cases and eight quiet ones nine rose from 1.26 to 6.3, and element 71 of 79 is the second of them.
    let decision = pool.tick(requests(12.0));
    assert!(account(&decision).contains("+ growth 5.0"), "{}", account(&decision));
}

/// z is learned at the end of a tick, for the next one: the fifth in which the fleet is as planned learns first.
#[test]
fn z_counts_from_the_next_tick_on() {
    let late = Late { share: Measurement::new(0.5).unwrap(), of: Measurement::new(900.0).unwrap() };
    let mut pool = Pool::new(headroom(), 7);
    let mut shown = vec![];
    for _ in 0..7 {
        let decision = pool.tick(Traffic { late_ttft: Some(late), late_tpot: Some(late), ..requests(60.0) });
        let account = account(&decision);
        let from = account.find("(z ").unwrap() + 3;
        shown.push(account[from..from + 3].to_owned());
    }
    // stable is 0, 1, 2, 3, 4: 2.0537 + 3 × (0.1 − 0.005) = 2.3387, and once more.
    assert_eq!(shown, ["2.1", "2.1", "2.1", "2.1", "2.1", "2.3", "2.6"]);
}

/// 0.8 s serve 12 870 tokens: 3 % of the prompts are longer, and 3 % of the requests are late for no fault of the fleet.
#[test]
fn prompts_that_no_replica_serves_in_time_do_not_raise_z() {
    let lengths = [(8192.0, 97.0), (65_536.0, 3.0)].map(|(upper, count)| Bucket { upper, count }).to_vec();
    let late = |share| Some(Late { share: Measurement::new(share).unwrap(), of: Measurement::new(900.0).unwrap() });
    let z_after = |prompt_lengths: Option<Vec<Bucket>>| {
        let mut pool = Pool::new(headroom(), 7);
        let mut last = String::new();
        for _ in 0..40 {
            let traffic = Traffic { late_ttft: late(0.03), late_tpot: late(0.0), prompt_lengths: prompt_lengths.clone(), ..requests(60.0) };
            last = account(&pool.tick(traffic)).to_owned();
        }
        last[last.find("(z ").unwrap() + 3..][..3].parse::<f64>().unwrap()
    };
    // 35 ticks have taught: 3 × 0.005 each is taken off; without lengths 3 × 0.025 are added.
    assert!((z_after(Some(lengths)) - (2.05 - 35.0 * 0.015)).abs() < 0.06);
    assert!(z_after(None) > 3.0);
}

#[test]
fn a_fleet_at_its_maximum_teaches_nothing() {
    let late = Late { share: Measurement::new(0.5).unwrap(), of: Measurement::new(900.0).unwrap() };
    let mut pool = Pool::new(Spec { bounds: bounds(2, 7), ..headroom() }, 7);
    for _ in 0..20 {
        let decision = pool.tick(Traffic { late_ttft: Some(late), late_tpot: Some(late), ..requests(60.0) });
        assert!(account(&decision).contains("(z 2.1)"));
    }
}

#[test]
fn without_arrivals_the_fleet_is_held_for_20_ticks_and_then_goes_by_saturation() {
    let mut pool = Pool::new(headroom(), 12);
    pool.run(1200, 60.0);
    assert_eq!(pool.fleet.workload.replicas.get(), 8);
    for tick in 0..20 {
        let decision = pool.see(None, Reading::from_number(0.9));
        assert_eq!((decision.recommended.get(), decision.write), (8, None));
        let ReadingState::Unknown(why) = &decision.readings[0].state else { panic!("{:?}", decision.readings) };
        let seconds = 15 * tick;
        assert!(why.starts_with(&format!("requests per second and prompt tokens per second unknown for {seconds} s: ")), "{why}");
    }
    let decision = pool.see(None, Reading::from_number(0.9));
    assert_eq!(decision.recommended.get(), 14, "⌈8 × 0.9 ÷ 0.55⌉");
    assert_eq!(
        account(&decision),
        "requests per second and prompt tokens per second unknown for 300 s, so saturation 0.90 decides: 14 (was 8)"
    );
    assert_eq!(pool.see(None, Reading::from_number(0.1)).recommended.get(), 13, "down by one");
    assert_eq!(pool.see(None, Reading::from_number(0.1)).recommended.get(), 12);
    assert_eq!(pool.see(None, unknown()).recommended.get(), 12, "nothing is known at all");
    let half = Traffic { prompt_tokens: Rates::default(), ..requests(60.0) };
    let decision = pool.see(Some(half), unknown());
    let ReadingState::Unknown(why) = &decision.readings[0].state else { panic!("{:?}", decision.readings) };
    assert!(why.starts_with("prompt tokens per second unknown for 360 s, and so is the saturation of the pool: "), "{why}");
    assert_eq!(pool.tick(requests(60.0)).recommended.get(), 8, "back to the plan");
    assert_eq!(pool.see(None, Reading::from_number(0.9)).recommended.get(), 8, "and the 20 ticks begin anew");
}

#[test]
fn an_outage_repeats_the_last_need() {
    let mut pool = Pool::new(headroom(), 8);
    pool.run(1200, 60.0);
    for _ in 0..10 {
        pool.see(None, unknown());
    }
    // 60 s: five values of 8 that the outage has repeated.
    let falling = pool.run(150, 12.0);
    assert_eq!(falling.iter().position(|count| *count < 8), Some(4));
}

#[test]
fn before_the_first_request_the_fleet_keeps_its_size() {
    let mut pool = Pool::new(headroom(), 9);
    for _ in 0..100 {
        let decision = pool.tick(Traffic { running: None, ..requests(0.0) });
        assert_eq!(decision.recommended.get(), 9);
        assert_eq!(decision.readings[0].state, ReadingState::Value(Measurement::ZERO), "what runs is unknown");
        assert_eq!(account(&decision), "held at 9: no request has been seen yet");
    }
    assert_eq!(pool.see(None, Reading::Idle).recommended.get(), 9, "also when proved idle");
}

#[test]
fn an_idle_pool_shrinks_by_the_law_and_goes_to_zero_by_the_cooldown() {
    let mut pool = Pool::new(Spec { bounds: bounds(0, 40), cooldown: Duration::from_secs(300), ..headroom() }, 8);
    pool.run(1200, 60.0);
    let decision = pool.tick(requests(0.0));
    assert_eq!((decision.recommended.get(), &decision.readings[0].state), (8, &ReadingState::Idle), "the hold goes on");
    assert_eq!(decision.stages[1].reason, Reason::CooldownActive);
    assert!(decision.stages[0].message.starts_with("slo: held at 8 by the need 15 s ago"), "{}", decision.stages[0].message);
    let sizes: Vec<u32> = (0..25).map(|_| pool.tick(requests(0.0)).write.map_or(99, Replicas::get)).filter(|size| *size < 99).collect();
    assert_eq!(sizes, [1, 0]);
    let decision = pool.tick(requests(60.0));
    assert_eq!((decision.recommended.get(), decision.write), (7, Some(Replicas::new(7))), "and wakes with what is needed");
}

#[test]
fn queries_that_fail_do_not_let_an_idle_pool_go() {
    let mut pool = Pool::new(Spec { bounds: bounds(0, 40), ..headroom() }, 8);
    pool.run(1200, 60.0);
    for _ in 0..40 {
        let decision = pool.tick(Traffic { waiting: None, ..requests(0.0) });
        assert!(pool.fleet.workload.replicas.get() >= 1, "{decision:?}");
    }
}

#[test]
fn it_grows_by_100_percent_or_8_pods_in_half_a_minute() {
    for (from, expected) in [(2, 10), (8, 16), (12, 24)] {
        let decision = Pool::new(headroom(), from).tick(requests(330.0));
        assert_eq!((decision.desired.get(), decision.write.map(Replicas::get)), (36, Some(expected)), "from {from}");
        let pace = decision.stages.iter().find(|trace| trace.stage == Stage::Pace).unwrap();
        assert_eq!(pace.reason, Reason::ScaleUpLimit);
        assert!(pace.message.contains(&format!("100 % and 8 pods within 30 s, so {expected} comes before 36")), "{}", pace.message);
    }
    let mut pool = Pool::new(headroom(), 4);
    let sizes: Vec<u32> = (0..5).map(|_| pool.tick(requests(330.0))).map(|d| d.write.map_or(0, Replicas::get)).collect();
    assert_eq!(sizes[..4], [12, 0, 24, 0], "12 at once, and the next step 30 s later");
}

#[test]
fn behavior_replaces_the_limit() {
    let rules = |window| ScalingRules {
        window: Duration::from_secs(window),
        select: SelectPolicy::Max,
        policies: vec![],
        tolerance: Measurement::ZERO,
    };
    let spec = Spec { behavior: Some(Behavior { up: rules(0), down: rules(0) }), ..headroom() };
    assert_eq!(Pool::new(spec, 2).tick(requests(330.0)).write, Some(Replicas::new(36)));
}

#[test]
fn what_was_learned_belongs_to_the_workload_and_to_the_law() {
    let mut pool = Pool::new(headroom(), 8);
    pool.run(1200, 60.0);
    let asked = |pool: &Pool, identity: &str| {
        let workload = Workload { identity: Some(identity.to_owned()), ..workload(12, 12) };
        let seen = Observation { workload, readings: vec![unknown()], traffic: Some(Box::new(requests(60.0))) };
        decide(&pool.fleet.spec, &seen, &pool.fleet.memory, Time::from_millis(pool.at * 1000))
    };
    pool.fleet.memory.workload = Some("a".to_owned());
    assert_eq!(asked(&pool, "a").recommended.get(), 8);
    assert_eq!(asked(&pool, "b").recommended.get(), 12, "another workload starts anew");
    let band = Law::Band(Band::new(Target::new(0.55).unwrap(), Target::new(0.4).unwrap(), Target::new(2.0).unwrap(), None).unwrap());
    pool.fleet.spec.sources[0].law = band;
    pool.see(None, Reading::from_number(0.5));
    assert_eq!(pool.fleet.memory.headroom, None);
}

/// A burst of three ticks among those at 12/s. T_w 100 s, H = 9: nine of 79 cases rose, which is more than a tenth. T_w 30 s, H = 4: four
/// of 84, which is less.
#[test]
fn the_warm_up_of_the_workload_counts() {
    for (warmup, expected) in [(None, "+ growth 5.0"), (Some(Duration::from_secs(30)), "+ growth 0.0")] {
        let mut pool = Pool::new(headroom(), 8);
        pool.run(1500, 12.0);
        for rate in [60.0; 3].into_iter().chain([12.0; 20]) {
            pool.fleet.workload.warmup = warmup;
            pool.tick(requests(rate));
        }
        let decision = pool.tick(requests(12.0));
        assert!(account(&decision).contains(expected), "{warmup:?}: {}", account(&decision));
    }
}
