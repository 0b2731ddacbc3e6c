//! What wakes a fleet of zero, and what lets one go to zero.

use super::*;

/// A fleet that may be at zero.
fn pool(replicas: u32) -> Pool {
    Pool::new(Spec { bounds: bounds(0, 40), ..headroom() }, replicas)
}

/// One that was scaled to zero after a busy time.
fn asleep() -> Pool {
    let mut pool = pool(8);
    pool.run(1200, 60.0);
    pool.fleet.workload = workload(0, 0);
    pool
}

fn woken(decision: &Decision) -> (u32, Reason) {
    (decision.out_of(Stage::Activate).get(), decision.stages[1].reason)
}

#[test]
fn what_is_unknown_does_not_wake_a_fleet_of_zero() {
    for traffic in [
        Traffic { running: None, ..requests(0.0) },
        Traffic { waiting: None, ..requests(0.0) },
        Traffic { waiting: None, running: None, ..requests(0.0) },
        Traffic { waiting: known(0.0), ..Traffic::default() },
    ] {
        for mut pool in [pool(0), asleep()] {
            assert_eq!(woken(&pool.tick(traffic.clone())), (0, Reason::ActivityUnknown), "{traffic:?}");
        }
    }
}

#[test]
fn whatever_is_known_to_arrive_wait_or_run_wakes_it() {
    let arrivals = Traffic { prompt_tokens: Rates::default(), waiting: None, running: None, ..requests(2.0) };
    let waiting = Traffic { waiting: known(3.0), ..Traffic::default() };
    let running = Traffic { running: known(1.0), ..Traffic::default() };
    for traffic in [arrivals, waiting, running, Traffic { running: None, ..requests(2.0) }] {
        for mut pool in [pool(0), asleep()] {
            assert_eq!(woken(&pool.tick(traffic.clone())), (1, Reason::Active), "{traffic:?}");
        }
    }
}

#[test]
fn a_fleet_of_zero_that_is_proved_idle_sleeps_on() {
    for mut pool in [pool(0), asleep()] {
        assert_eq!(woken(&pool.tick(requests(0.0))), (0, Reason::Idle));
        assert_eq!(woken(&pool.see(None, Reading::Idle)), (0, Reason::Idle));
    }
}

/// Latencies of the last minute say nothing of what is there now.
#[test]
fn saturation_neither_wakes_a_fleet_nor_lets_it_go() {
    for (replicas, saturation) in [(0, 0.9), (1, 0.0)] {
        let mut pool = pool(1);
        pool.run(1200, 0.5);
        pool.fleet.workload = workload(replicas, replicas);
        for _ in 0..40 {
            let decision = pool.see(None, Reading::from_number(saturation));
            assert_eq!(woken(&decision), (replicas, Reason::ActivityUnknown));
        }
    }
}
