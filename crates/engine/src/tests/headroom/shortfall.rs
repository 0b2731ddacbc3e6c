//! Arrivals that what finishes contradicts.

use super::*;

/// `arriving` requests are counted per second, and `finishing` finish.
fn counted(arriving: f64, finishing: f64) -> Traffic {
    let amount = |x| Measurement::new(x).unwrap();
    let finished = Finished { requests: amount(120.0 * finishing), output_tokens: amount(48_000.0 * finishing) };
    Traffic { finished: Some(finished), running: known(120.0), ..requests(arriving) }
}

/// Half an hour at 60/s: eight replicas.
fn busy() -> Pool {
    let mut pool = Pool::new(headroom(), 8);
    for _ in 0..120 {
        pool.tick(counted(60.0, 60.0));
    }
    assert_eq!(pool.fleet.workload.replicas.get(), 8);
    pool
}

fn missing(decision: &Decision) -> (bool, Reason, &str) {
    let found = decision.conditions.iter().find(|condition| condition.kind == ConditionType::SignalMissing).unwrap();
    (found.status, found.reason, &found.message)
}

#[test]
fn after_300_s_the_saturation_decides_and_it_is_told() {
    for (arriving, shown) in [(0.0, "0.0"), (9.0, "9.0")] {
        let mut pool = busy();
        let full = Reading::from_number(2.0);
        for tick in 0..20 {
            let decision = pool.see(Some(counted(arriving, 60.0)), full.clone());
            assert_ne!(missing(&decision).1, Reason::ArrivalsUnknown, "{}", 15 * tick);
            assert!(account(&decision).contains(": load "), "planned at {} s: {}", 15 * tick, account(&decision));
        }
        let before = pool.fleet.workload.replicas;
        let decision = pool.see(Some(counted(arriving, 60.0)), full.clone());
        let seen = format!("60.0 requests a second finish, and {shown} arrive, for 300 s: arrivals are not all counted");
        let expected = format!("{seen}, thus unknown, so saturation 2.00 decides: {} (was {before})", decision.recommended);
        assert_eq!(account(&decision), expected);
        assert!(decision.recommended > before, "{decision:?}");
        let (status, reason, message) = missing(&decision);
        assert_eq!((status, reason), (true, Reason::ArrivalsUnknown));
        assert!(message.starts_with(&format!("{seen}. The saturation of the pool decides until they are: send all")), "{message}");
    }
}

#[test]
fn nothing_shrinks_while_the_saturation_is_unknown_or_within_the_band() {
    for (reading, told) in [(unknown(), "and so is the saturation of the pool: "), (Reading::Idle, "and nothing tells the saturation")] {
        let mut pool = busy();
        for _ in 0..20 {
            pool.tick(counted(0.0, 60.0));
        }
        pool.fleet.workload = workload(8, 8);
        for tick in 0..120 {
            let decision = pool.see(Some(counted(0.0, 60.0)), if tick % 2 == 0 { reading.clone() } else { Reading::from_number(0.5) });
            assert_eq!((decision.recommended.get(), decision.write), (8, None), "{tick}");
            if tick % 2 == 0 {
                let ReadingState::Unknown(why) = &decision.readings[0].state else { panic!("{:?}", decision.readings) };
                assert!(why.contains(": arrivals are not all counted, thus unknown, ") && why.contains(told), "{why}");
            }
        }
    }
}

#[test]
fn a_pool_whose_requests_finish_is_not_idle() {
    let mut pool = Pool::new(Spec { bounds: bounds(0, 40), cooldown: Duration::from_secs(600), ..headroom() }, 8);
    for _ in 0..100 {
        pool.tick(counted(60.0, 60.0));
    }
    let still = Traffic { running: known(0.0), ..counted(0.0, 60.0) };
    for _ in 0..20 {
        pool.tick(still.clone());
    }
    for _ in 0..100 {
        let decision = pool.tick(still.clone());
        assert_eq!(decision.stages[1].reason, Reason::ActivityUnknown, "the gauges miss what is short");
        assert!(decision.replicas.get() > 0);
    }
}

#[test]
fn it_survives_being_written_down() {
    let mut pool = busy();
    for _ in 0..20 {
        pool.tick(counted(0.0, 60.0));
        let written = serde_json::to_string(&pool.fleet.memory).unwrap();
        pool.fleet.memory = serde_json::from_str(&written).unwrap();
    }
    assert_eq!(missing(&pool.tick(counted(0.0, 60.0))).1, Reason::ArrivalsUnknown);
}

#[test]
fn counters_that_are_right_for_60_s_are_believed_again() {
    let mut pool = busy();
    for _ in 0..40 {
        pool.tick(counted(9.0, 60.0));
    }
    let reasons: Vec<_> = (0..6).map(|_| missing(&pool.tick(counted(60.0, 60.0))).1).collect();
    assert_eq!(reasons.iter().filter(|reason| **reason == Reason::ArrivalsUnknown).count(), 4, "{reasons:?}");
    let decision = pool.tick(counted(60.0, 60.0));
    assert!(account(&decision).contains(": load 5.0 "), "{}", account(&decision));
}

#[test]
fn arrivals_that_go_missing_are_told_as_missing() {
    let mut pool = busy();
    for _ in 0..30 {
        pool.tick(counted(9.0, 60.0));
    }
    let decision = pool.see(None, Reading::from_number(0.5));
    assert!(account(&decision).starts_with("requests per second and prompt tokens per second unknown for 0 s, so saturation"));
    assert!(missing(&decision).2.starts_with("unknown: requests per second for 0 s"), "{:?}", missing(&decision));
}

#[test]
fn an_idle_pool_that_finishes_nothing_is_idle_as_ever() {
    let mut pool = busy();
    for tick in 0..120 {
        let decision = pool.tick(Traffic { running: known(0.0), ..counted(0.0, 0.0) });
        assert_eq!(decision.readings[0].state, ReadingState::Idle, "{tick}");
        assert_ne!(missing(&decision).1, Reason::ArrivalsUnknown, "{tick}");
    }
    assert_eq!(pool.fleet.workload.replicas.get(), 2, "the minimum");
}
