//! What survives an edit of the promise or of the profile.

use super::*;

fn law_of(spec: &Spec) -> Headroom {
    let Law::Headroom(law) = spec.sources[0].law else { panic!("{:?}", spec.sources) };
    law
}

fn edit(pool: &mut Pool, change: impl FnOnce(Headroom) -> Headroom) {
    pool.fleet.spec.sources[0].law = Law::Headroom(change(law_of(&pool.fleet.spec)));
}

fn shown(decision: &Decision, before: &str, characters: usize) -> String {
    let account = account(decision);
    account[account.find(before).unwrap() + before.len()..][..characters].to_owned()
}

fn costlier(costs: Costs, by: f64) -> Costs {
    let Costs { prompt_token, attention, sequence, kv_token, .. } = costs;
    Costs { prompt_token: by * prompt_token, attention: by * attention, sequence: by * sequence, kv_token: by * kv_token, ..costs }
}

/// Five replicas that are busy for half of their time where 0.2016 is planned: requests cost 2.48 times what the profile says.
#[test]
fn the_correction_of_a_profile_ends_with_it() {
    let gaps = Some(InterToken { mean: Measurement::new(0.02).unwrap(), count: Measurement::new(900.0).unwrap() });
    let mut pool = Pool::new(Spec { bounds: bounds(5, 5), ..headroom() }, 5);
    let mut sync = |change: fn(Headroom) -> Headroom| {
        edit(&mut pool, change);
        shown(&pool.tick(Traffic { inter_token: gaps, ..requests(12.0) }), "profile x", 4)
    };
    for _ in 0..100 {
        sync(|law| law);
    }
    assert_eq!(sync(|law| law), "2.20");
    assert_eq!(sync(|law| Headroom { objective: Objective::new(0.98).unwrap(), ..law }), "2.20", "the engine is the same");
    assert_eq!(sync(|law| Headroom { costs: Costs { max_sequences: 99, ..law.costs }, ..law }), "2.20", "no cost has changed");
    assert_eq!(sync(|law| Headroom { costs: costlier(law.costs, 2.48), ..law }), "1.00", "the profile is right by now");
}

/// z is 2.05 at first, and 0.285 more with each late tick after the fifth.
#[test]
fn the_margin_begins_anew_with_another_promise_unless_that_is_harder() {
    let target = |x| Target::new(x).unwrap();
    let objective = |x| Objective::new(x).unwrap();
    let edits: [(&str, &dyn Fn(Headroom) -> Headroom); 7] = [
        ("3.2", &|law| law),
        ("3.2", &|law| Headroom { costs: costlier(law.costs, 1.1), ..law }),
        ("1.8", &|law| Headroom { objective: objective(0.98), ..law }),
        ("2.1", &|law| Headroom { ttft: target(2.0), ..law }),
        ("2.1", &|law| Headroom { ttft: target(0.5), tpot: target(0.06), ..law }),
        ("3.2", &|law| Headroom { objective: objective(0.995), ..law }),
        ("3.2", &|law| Headroom { tpot: target(0.04), ..law }),
    ];
    for (expected, change) in edits {
        let late = Some(Late { share: Measurement::new(0.5).unwrap(), of: Measurement::new(900.0).unwrap() });
        let mut pool = Pool::new(headroom(), 7);
        for _ in 0..12 {
            pool.fleet.workload = workload(7, 7);
            pool.tick(Traffic { late_ttft: late, late_tpot: late, ..requests(60.0) });
        }
        edit(&mut pool, change);
        let decision = pool.tick(requests(60.0));
        assert_eq!(shown(&decision, "(z ", 3), expected, "{:?}", law_of(&pool.fleet.spec));
    }
}
