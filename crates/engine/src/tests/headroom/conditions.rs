//! The law's five conditions.

use super::*;

const OF_LAW: [ConditionType; 5] = ConditionType::OF_HEADROOM;

fn said(decision: &Decision, kind: ConditionType) -> (bool, Reason, String) {
    let found = decision.conditions.iter().find(|condition| condition.kind == kind).unwrap();
    (found.status, found.reason, found.message.clone())
}

fn code(decision: &Decision, kind: ConditionType) -> (bool, Reason) {
    let (status, reason, _) = said(decision, kind);
    (status, reason)
}

/// All that the law can read, at so many requests per second.
fn complete(rate: f64) -> Traffic {
    let late = Some(Late { share: Measurement::ZERO, of: Measurement::ZERO });
    Traffic {
        prompt_variation: known(1.0),
        prompt_lengths: Some(vec![Bucket { upper: 1024.0, count: 10.0 }]),
        inter_token: Some(InterToken { mean: Measurement::new(0.02).unwrap(), count: Measurement::ZERO }),
        kv_capacity: known(350_000.0),
        kv_used: known(0.0),
        late_ttft: late,
        late_tpot: late,
        ..requests(rate)
    }
}

#[test]
fn they_are_always_there_with_the_law_and_never_without() {
    let kinds = |decision: &Decision| decision.conditions.iter().map(|condition| condition.kind).skip(5).collect::<Vec<_>>();
    let mut pool = Pool::new(headroom(), 8);
    assert_eq!(kinds(&pool.see(None, unknown())), OF_LAW);
    assert_eq!(kinds(&pool.tick(requests(0.0))), OF_LAW);
    assert_eq!(kinds(&pool.tick(requests(60.0))), OF_LAW);
    assert_eq!(kinds(&Fleet::running(spec(&[1.0]), 4, 4).decide(0, &[unknown()])), []);
}

#[test]
fn all_is_well_with_a_fleet_that_has_run_for_long() {
    let mut pool = Pool::new(headroom(), 8);
    let mut last = None;
    for _ in 0..80 {
        last = Some(pool.tick(complete(60.0)));
    }
    let reasons: Vec<_> = OF_LAW.iter().map(|kind| code(last.as_ref().unwrap(), *kind)).collect();
    let expected = [Reason::ProfileFits, Reason::DemandWithinMax, Reason::TargetReachable, Reason::HistoryLongEnough, Reason::InputsKnown];
    assert_eq!(reasons, expected.map(|reason| (false, reason)));
}

#[test]
fn a_history_is_cold_for_15_minutes() {
    let mut pool = Pool::new(headroom(), 8);
    for tick in 0..62 {
        let cold = code(&pool.tick(requests(60.0)), ConditionType::ColdHistory);
        let expected = if tick < 60 { (true, Reason::HistoryShort) } else { (false, Reason::HistoryLongEnough) };
        assert_eq!(cold, expected, "{tick}");
    }
}

#[test]
fn three_ticks_above_the_maximum_are_told() {
    let mut pool = Pool::new(Spec { bounds: bounds(2, 6), ..headroom() }, 6);
    let above: Vec<bool> =
        [60.0, 60.0, 12.0, 60.0, 60.0, 60.0, 60.0].map(|rate| code(&pool.tick(requests(rate)), ConditionType::AtMax).0).to_vec();
    assert_eq!(above, [false, false, false, false, false, true, true]);
    let (_, reason, message) = said(&pool.tick(requests(60.0)), ConditionType::AtMax);
    assert_eq!(reason, Reason::DemandAboveMax);
    assert!(message.starts_with("more than maxReplicas 6 has been needed for 5 syncs: raise it"), "{message}");
}

/// Five replicas whose steps take 20 ms instead of 10 are busy for half of their time, where 1.008 ÷ 5 = 0.2016 is planned: eta goes to
/// 2.48. Then the load is 5.04 ÷ 5 = 1.008 and they are busy for a fifth: to 0.2.
#[test]
fn a_profile_that_is_far_off_is_told() {
    let mut pool = Pool::new(Spec { bounds: bounds(5, 5), ..headroom() }, 5);
    let gaps = |mean| Some(InterToken { mean: Measurement::new(mean).unwrap(), count: Measurement::new(900.0).unwrap() });
    let mut told = vec![];
    for _ in 0..60 {
        told.push(code(&pool.tick(Traffic { inter_token: gaps(0.02), ..requests(12.0) }), ConditionType::ModelOff));
    }
    assert_eq!(told[0], (false, Reason::ProfileFits));
    assert_eq!(told[59], (true, Reason::ProfileTooFast));
    for _ in 0..400 {
        told.push(code(&pool.tick(Traffic { inter_token: gaps(0.0125), ..requests(60.0) }), ConditionType::ModelOff));
    }
    assert_eq!(*told.last().unwrap(), (true, Reason::ProfileTooSlow));
}

/// 1 s serves 15 311 tokens. Of 100 prompts 98 are up to 8192, 2 up to 32 768: F(8192) = 0.02 = F(16 384), so V = 0.02.
#[test]
fn prompts_that_are_too_long_are_told_with_the_best_share() {
    let buckets = |long| [(8192.0, 100.0 - long), (32_768.0, long)].map(|(upper, count)| Bucket { upper, count }).to_vec();
    let told = |long| {
        said(
            &Pool::new(headroom(), 8).tick(Traffic { prompt_lengths: Some(buckets(long)), ..requests(60.0) }),
            ConditionType::TargetUnreachable,
        )
    };
    let (status, reason, message) = told(2.0);
    assert_eq!((status, reason), (true, Reason::PromptsTooLong));
    assert!(
        message
            .starts_with("the prompts of 2.00 % take longer than 1 s even on an idle replica, so at best 98.00 % are in time and not 99 %"),
        "{message}"
    );
    let (status, reason, message) = told(0.5);
    assert_eq!((status, reason), (false, Reason::TargetReachable));
    assert_eq!(message, "by their prompts 99.50 % can be in time, and 99 % are asked for");
}

#[test]
fn a_time_per_token_below_the_engines_own_is_told() {
    let mut spec = headroom();
    let Law::Headroom(law) = spec.sources[0].law else { panic!() };
    spec.sources[0].law = Law::Headroom(Headroom { tpot: Target::new(0.0104).unwrap(), ..law });
    let (status, reason, message) = said(&Pool::new(spec, 8).tick(requests(1.0)), ConditionType::TargetUnreachable);
    assert_eq!((status, reason), (true, Reason::StepsTooSlow));
    assert!(message.starts_with("even the shortest step takes 10.0 ms of the 10.4 ms that tpot allows"), "{message}");
}

#[test]
fn lateness_that_no_fleet_cures_is_told() {
    let late = Some(Late { share: Measurement::new(0.5).unwrap(), of: Measurement::new(900.0).unwrap() });
    let mut pool = Pool::new(headroom(), 7);
    let mut told = vec![];
    for _ in 0..200 {
        told.push(code(&pool.tick(Traffic { late_ttft: late, late_tpot: late, ..requests(60.0) }), ConditionType::TargetUnreachable));
    }
    assert_eq!((told[10].0, told[199]), (false, (true, Reason::LateAtAnySize)));
}

#[test]
fn what_is_missing_is_told_with_since_when() {
    let kind = ConditionType::SignalMissing;
    let mut pool = Pool::new(headroom(), 8);
    assert_eq!(code(&pool.tick(complete(60.0)), kind), (false, Reason::InputsKnown));
    pool.see(None, unknown());
    let (status, reason, message) = said(&pool.see(None, unknown()), kind);
    assert_eq!((status, reason), (true, Reason::ArrivalsUnknown));
    assert!(
        message.starts_with("unknown: requests per second for 15 s, prompt tokens per second for 15 s. The fleet is held"),
        "{message}"
    );
    assert_eq!(code(&pool.tick(complete(60.0)), kind), (false, Reason::InputsKnown));
    for _ in 0..20 {
        let without = Traffic { kv_used: None, waiting: None, ..complete(60.0) };
        assert_eq!(code(&pool.tick(without), kind), (false, Reason::InputsKnown), "for a while");
    }
    let (status, reason, message) = said(&pool.tick(Traffic { kv_used: None, ..complete(60.0) }), kind);
    assert_eq!((status, reason), (true, Reason::InputsUnknown));
    assert!(message.starts_with("unknown: KV cache in use and running requests for 300 s. The law goes on"), "{message}");
}

#[test]
fn a_kept_decision_that_is_looked_at_again_keeps_them() {
    let mut pool = Pool::new(headroom(), 8);
    pool.run(1200, 60.0);
    let busy = Workload { rollout: Rollout::InProgress("a new template".to_owned()), ..workload(8, 8) };
    pool.fleet.workload = busy;
    let kept = pool.tick(requests(330.0));
    assert!(kept.deferred());
    let again = reconsider(&pool.fleet.spec, &kept, &workload(8, 8)).unwrap();
    assert_eq!(again.write, Some(Replicas::new(16)));
    assert_eq!(again.conditions[5..], kept.conditions[5..]);
    assert_eq!(again.memory, kept.memory, "nothing is learned twice");
}
