//! Care with what is not known: a short history, an outage, a look that comes too early.

use super::*;

fn status(decision: &Decision, kind: ConditionType) -> bool {
    decision.conditions.iter().find(|condition| condition.kind == kind).unwrap().status
}

#[test]
fn only_known_arrivals_make_the_first_five_minutes_pass() {
    let mut pool = Pool::new(headroom(), 20);
    pool.tick(requests(12.0));
    for _ in 0..20 {
        pool.see(None, unknown());
    }
    for tick in 1..20 {
        assert_eq!(pool.tick(requests(12.0)).recommended.get(), 20, "{tick}");
    }
    assert_eq!(pool.tick(requests(12.0)).recommended.get(), 3, "300 s are known");
}

#[test]
fn a_history_with_gaps_is_cold_for_longer() {
    let mut pool = Pool::new(headroom(), 8);
    for tick in 0..61 {
        assert!(status(&pool.see(None, unknown()), ConditionType::ColdHistory));
        let cold = status(&pool.tick(requests(60.0)), ConditionType::ColdHistory);
        assert_eq!(cold, tick < 60, "{tick}");
    }
}

#[test]
fn a_history_of_which_nothing_is_known_is_cold() {
    for traffic in [None, Some(requests(0.0))] {
        let mut pool = Pool::new(headroom(), 8);
        for _ in 0..100 {
            assert!(status(&pool.see(traffic.clone(), unknown()), ConditionType::ColdHistory), "{traffic:?}");
        }
    }
}

#[test]
fn a_clock_that_was_set_back_gives_no_credit() {
    let mut pool = Pool::new(headroom(), 20);
    pool.run(150, 12.0);
    pool.at = -1_000_000;
    let sizes = pool.run(300, 12.0);
    // Ten ticks, of which nine passed some time; the eleventh has none.
    assert_eq!(sizes.iter().position(|size| *size < 20), Some(11));
}

#[test]
fn an_early_look_answers_the_last_plan_and_learns_nothing() {
    let late = Some(Late { share: Measurement::new(0.5).unwrap(), of: Measurement::new(900.0).unwrap() });
    let mut pool = Pool::new(headroom(), 8);
    pool.run(1200, 60.0);
    let whole = pool.tick(requests(60.0));
    let learned = pool.fleet.memory.headroom.clone();
    for seconds in 1..8 {
        pool.at = 1200 + seconds;
        let early = pool.tick(Traffic { late_ttft: late, late_tpot: late, ..requests(330.0) });
        assert_eq!(early.recommended.get(), 8, "{seconds}");
        assert_eq!(early.readings[0].state, whole.readings[0].state);
        assert!(account(&early).starts_with(&format!("asks for 8 by the plan of {seconds} s ago: held at 8 by")), "{}", account(&early));
        assert_eq!(pool.fleet.memory.headroom, learned, "{seconds}");
    }
    pool.at = 1208;
    assert_eq!(pool.tick(requests(330.0)).recommended.get(), 36, "more than half a tick later");
}

#[test]
fn an_early_look_keeps_to_the_bounds_and_does_not_undo_a_growth_by_hand() {
    let mut pool = Pool::new(headroom(), 8);
    pool.run(1215, 60.0);
    let again = |pool: &Pool, spec: Spec, replicas: u32| {
        let seen = Observation { workload: workload(replicas, replicas), readings: vec![unknown()], traffic: None };
        decide(&spec, &seen, &pool.fleet.memory, Time::from_millis(1_203_000)).recommended.get()
    };
    assert_eq!(again(&pool, headroom(), 8), 8);
    assert_eq!(again(&pool, Spec { bounds: bounds(2, 6), ..headroom() }, 8), 6);
    assert_eq!(again(&pool, Spec { bounds: bounds(10, 12), ..headroom() }, 8), 10);
    assert_eq!(again(&pool, headroom(), 20), 20, "the plan was not made for 20");
    assert_eq!(again(&pool, headroom(), 4), 8);
}

#[test]
fn an_unknown_tick_is_unknown_again() {
    let mut pool = Pool::new(headroom(), 8);
    pool.run(1200, 60.0);
    pool.see(None, unknown());
    pool.at = 1201;
    let early = pool.tick(requests(60.0));
    assert!(matches!(early.readings[0].state, ReadingState::Unknown(_)), "{:?}", early.readings);
}

/// A minute of syncs 1 s apart in the fallback, as edits and retries bring them.
#[test]
fn many_looks_do_not_hasten_the_fallback() {
    let mut pool = Pool::new(headroom(), 12);
    pool.run(1200, 90.0);
    let size = pool.fleet.workload.replicas.get();
    for _ in 0..60 {
        assert_eq!(pool.see(None, Reading::from_number(0.1)).recommended.get(), size);
        pool.at -= 14;
    }
    pool.at = 1260;
    // Eight seconds apart each look is a whole tick, and there are more than 20 before the 300 s have passed.
    while pool.at < 1500 {
        assert_eq!(pool.see(None, Reading::from_number(0.1)).recommended.get(), size, "{}", pool.at);
        pool.at -= 7;
    }
    let before = pool.at;
    for _ in 0..16 {
        pool.see(None, Reading::from_number(0.1));
        pool.at -= 14;
    }
    assert_eq!((pool.at - before, pool.fleet.workload.replicas.get()), (16, size - 2), "one for each tick of 8 s");
}

#[test]
fn the_fallback_shrinks_by_what_is_measured_after_five_minutes_and_one_at_a_time() {
    for known_ticks in [0, 1, 20] {
        let mut pool = Pool::new(headroom(), 12);
        pool.run(15 * known_ticks, 60.0);
        for _ in 0..20 {
            assert_eq!(pool.see(None, Reading::from_number(0.1)).recommended.get(), 12, "{known_ticks}");
        }
        let counts: Vec<u32> = (0..3).map(|_| pool.see(None, Reading::from_number(0.1)).recommended.get()).collect();
        assert_eq!(counts, [11, 10, 9], "{known_ticks}");
        assert_eq!(pool.see(None, unknown()).recommended.get(), 9, "what is unknown shrinks nothing");
        assert!(pool.see(None, Reading::from_number(0.9)).recommended.get() > 9, "it may grow");
    }
}

#[test]
fn an_outage_ends_what_is_told_of_the_maximum() {
    let mut pool = Pool::new(Spec { bounds: bounds(2, 6), ..headroom() }, 6);
    for _ in 0..3 {
        pool.tick(requests(60.0));
    }
    assert!(status(&pool.tick(requests(60.0)), ConditionType::AtMax));
    let outage = pool.see(None, unknown());
    let told = outage.conditions.iter().find(|condition| condition.kind == ConditionType::AtMax).unwrap();
    assert_eq!((told.status, told.message.as_str()), (false, "what is needed is not known"));
    let above: Vec<bool> = (0..3).map(|_| status(&pool.tick(requests(60.0)), ConditionType::AtMax)).collect();
    assert_eq!(above, [false, false, true], "and three syncs are counted anew");
}
