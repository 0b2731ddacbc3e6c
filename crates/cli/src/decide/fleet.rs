//! A fleet that follows what is written: the target of ticks that show none.

use std::collections::VecDeque;
use std::time::Duration;

use llmscaler_engine::{Pod, Replicas, Time, Workload};

/// Most starting pods that are handed to the engine one by one. It counts those that have been starting for too long; a fleet
/// with more of them than this only waits for them, as it does for pods that nobody has listed.
const MOST_LISTED: u32 = 10_000;

/// Replicas that become ready after a warm-up and go at once.
#[derive(Clone, Debug)]
pub struct Fleet {
    warmup: Duration,
    /// Whether a replica has been through it.
    warmed_up: bool,
    ready: Replicas,
    /// Replicas that are warming up, by when they were created, oldest first.
    starting: VecDeque<(Time, u32)>,
}

impl Fleet {
    /// A fleet of ready replicas.
    pub fn ready(replicas: Replicas, warmup: Duration) -> Self {
        Self { warmup, warmed_up: false, ready: replicas, starting: VecDeque::new() }
    }

    /// Goes on from a target that was shown: what was not ready then starts its warm-up then.
    pub fn follow(&mut self, shown: &Workload, now: Time) {
        self.ready = shown.ready.min(shown.replicas);
        self.starting.clear();
        self.start(shown.replicas.minus(self.ready.get()).get(), now);
    }

    /// Replicas in all.
    pub fn replicas(&self) -> Replicas {
        self.starting.iter().fold(self.ready, |sum, (_, count)| sum.plus(*count))
    }

    /// The fleet as a target at `now`.
    pub fn at(&mut self, now: Time) -> Workload {
        while let Some((_, count)) = self.starting.pop_front_if(|(created, _)| now.since(*created) >= self.warmup) {
            self.ready = self.ready.plus(count);
            self.warmed_up = true;
        }
        Workload {
            replicas: self.replicas(),
            ready: self.ready,
            pods: self.starting_pods(now),
            warmup: Some(self.warmup).filter(|_| self.warmed_up),
            ..Workload::default()
        }
    }

    /// Takes a write as made. Those that are not ready go first, the newest of them foremost.
    pub fn resize(&mut self, to: Replicas, now: Time) {
        let from = self.replicas();
        if to >= from {
            return self.start(to.minus(from.get()).get(), now);
        }
        let mut leaving = from.minus(to.get()).get();
        while let Some((_, count)) = self.starting.back_mut() {
            if *count > leaving {
                *count -= leaving;
                return;
            }
            leaving -= *count;
            self.starting.pop_back();
        }
        self.ready = self.ready.minus(leaving);
    }

    fn start(&mut self, count: u32, now: Time) {
        if count > 0 {
            self.starting.push_back((now, count));
        }
    }

    fn starting_pods(&self, now: Time) -> Vec<Pod> {
        if self.starting.iter().fold(0_u32, |sum, (_, count)| sum.saturating_add(*count)) > MOST_LISTED {
            return Vec::new();
        }
        let pod = |created: Time| Pod {
            name: String::new(),
            age: now.since(created),
            ready: false,
            unready_for: now.since(created),
            terminating: false,
            unschedulable: false,
            deletion_cost: 0,
            ordinal: None,
            current: true,
        };
        self.starting.iter().flat_map(|(created, count)| (0..*count).map(|_| pod(*created))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(fleet: &mut Fleet, seconds: i64) -> (u32, u32) {
        let workload = fleet.at(Time::from_millis(seconds * 1000));
        (workload.replicas.get(), workload.ready.get())
    }

    fn write(fleet: &mut Fleet, seconds: i64, to: u32) {
        fleet.resize(Replicas::new(to), Time::from_millis(seconds * 1000));
    }

    fn fleet(replicas: u32) -> Fleet {
        Fleet::ready(Replicas::new(replicas), Duration::from_secs(100))
    }

    #[test]
    fn cohorts_become_ready_one_after_the_other() {
        let mut fleet = fleet(2);
        write(&mut fleet, 0, 3);
        write(&mut fleet, 50, 5);
        let sizes = [50, 99, 100, 149, 150].map(|at| seen(&mut fleet, at));
        assert_eq!(sizes, [(5, 2), (5, 2), (5, 3), (5, 3), (5, 5)]);
    }

    #[test]
    fn the_warm_up_is_known_once_a_replica_was_seen_to_have_one() {
        let mut fleet = fleet(2);
        write(&mut fleet, 0, 3);
        let known = [0, 99, 100, 115].map(|at| fleet.at(Time::from_millis(at * 1000)).warmup);
        assert_eq!(known, [None, None, Some(Duration::from_secs(100)), Some(Duration::from_secs(100))]);
    }

    #[test]
    fn the_newest_that_are_not_ready_go_first() {
        let mut fleet = fleet(2);
        write(&mut fleet, 0, 4);
        write(&mut fleet, 50, 6);
        write(&mut fleet, 60, 3);
        assert_eq!([60, 100].map(|at| seen(&mut fleet, at)), [(3, 2), (3, 3)]);
        write(&mut fleet, 100, 1);
        assert_eq!(seen(&mut fleet, 100), (1, 1));
        write(&mut fleet, 100, 0);
        assert_eq!(seen(&mut fleet, 100), (0, 0));
    }

    #[test]
    fn what_is_shown_is_followed() {
        let mut fleet = fleet(2);
        let shown = Workload { replicas: Replicas::new(7), ready: Replicas::new(4), ..Workload::default() };
        fleet.follow(&shown, Time::from_millis(30_000));
        assert_eq!([30, 129, 130].map(|at| seen(&mut fleet, at)), [(7, 4), (7, 4), (7, 7)]);
    }

    #[test]
    fn the_largest_fleet_is_no_trouble() {
        let mut fleet = fleet(0);
        write(&mut fleet, 0, u32::MAX);
        assert_eq!(seen(&mut fleet, 1), (i32::MAX as u32, 0));
        assert_eq!(seen(&mut fleet, 100), (i32::MAX as u32, i32::MAX as u32));
    }
}
