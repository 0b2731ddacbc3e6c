//! Which pods a downward write should remove.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use crate::{Pod, Replicas, Spec, VictimOrder, Victims, Warmth, Workload};

/// The mark of a victim is at most this.
const HIGHEST_MARK: i32 = -100;

/// The pods that the workload's controller should delete when the count falls to `write`.
///
/// Only pods of the newest revision that are not shutting down already. First those that serve nobody (no node, then not
/// ready), then the coldest by sample; the newest first where there are no samples for every pod that serves.
pub(crate) fn choose(spec: &Spec, workload: &Workload, write: Replicas) -> Victims {
    if spec.scale_down.victims == VictimOrder::Workload {
        return Victims::default();
    }
    let mut pods: Vec<&Pod> = workload.live_pods().filter(|pod| pod.current).collect();
    let leaving = pods.len().saturating_sub(write.get() as usize);
    let samples = samples(&pods, &workload.warmth);
    pods.sort_by(|a, b| order(a, b, samples));
    let (victims, survivors) = pods.split_at(leaving);
    if victims.is_empty() {
        return Victims::default();
    }
    let lowest = survivors.iter().map(|pod| pod.deletion_cost).min();
    let mark = lowest.map_or(HIGHEST_MARK, |cost| HIGHEST_MARK.min(cost.saturating_sub(1)));
    Victims { names: victims.iter().map(|pod| pod.name.clone()).collect(), mark }
}

/// The samples, if every pod that serves has one: a partial answer would make the unmeasured look coldest or warmest.
fn samples<'a>(pods: &[&Pod], warmth: &'a Warmth) -> Option<&'a BTreeMap<String, f64>> {
    match warmth {
        Warmth::Samples(samples) if pods.iter().all(|pod| !pod.ready || samples.contains_key(&pod.name)) => Some(samples),
        _ => None,
    }
}

fn order(a: &Pod, b: &Pod, samples: Option<&BTreeMap<String, f64>>) -> Ordering {
    let rank = |pod: &Pod| (!pod.unschedulable, pod.ready);
    let sample = |pod: &Pod| samples.and_then(|samples| samples.get(&pod.name)).copied().unwrap_or(f64::NEG_INFINITY);
    rank(a)
        .cmp(&rank(b))
        .then_with(|| sample(a).total_cmp(&sample(b)))
        .then_with(|| a.age.cmp(&b.age))
        // Names make the order the same on every run; the highest ordinal or suffix first, like the newest.
        .then_with(|| Reverse(&a.name).cmp(&Reverse(&b.name)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::tests::{pods, spec, workload};

    fn fleet(warmth: Warmth) -> Workload {
        // a is the oldest, d the newest.
        Workload { pods: pods(&["a", "b", "c", "d"]), warmth, ..workload(4, 4) }
    }

    fn names(workload: &Workload, write: u32) -> Vec<String> {
        choose(&spec(&[1.0]), workload, Replicas::new(write)).names
    }

    fn samples(pairs: &[(&str, f64)]) -> Warmth {
        Warmth::Samples(pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect())
    }

    #[test]
    fn newest_first_without_samples() {
        assert_eq!(names(&fleet(Warmth::NotAsked), 2), ["d", "c"]);
        assert_eq!(names(&fleet(Warmth::Unknown("refused".into())), 3), ["d"]);
        assert_eq!(names(&fleet(Warmth::NotAsked), 4), [""; 0]);
        assert_eq!(names(&fleet(Warmth::NotAsked), 0), ["d", "c", "b", "a"]);
    }

    #[test]
    fn coldest_first_with_samples_of_all() {
        let all = [("a", 3.0), ("b", 1.0), ("c", 2.0), ("d", 4.0), ("stranger", 0.0)];
        assert_eq!(names(&fleet(samples(&all)), 2), ["b", "c"]);
        assert_eq!(names(&fleet(samples(&all[..3])), 2), ["d", "c"], "a partial answer falls back to newest first");
    }

    #[test]
    fn pods_that_serve_nobody_go_first_and_need_no_sample() {
        let mut fleet = fleet(samples(&[("c", 2.0), ("d", 1.0)]));
        fleet.pods[0].unschedulable = true;
        fleet.pods[0].ready = false;
        fleet.pods[1].ready = false;
        assert_eq!(names(&fleet, 1), ["a", "b", "d"]);
    }

    #[test]
    fn only_live_pods_of_the_newest_revision() {
        let mut fleet = fleet(Warmth::NotAsked);
        fleet.pods[3].terminating = true;
        fleet.pods[2].current = false;
        assert_eq!(names(&fleet, 1), ["b"]);
    }

    #[test]
    fn the_mark_is_below_every_survivor() {
        let mut fleet = fleet(Warmth::NotAsked);
        let mark = |fleet: &Workload| choose(&spec(&[1.0]), fleet, Replicas::new(3)).mark;
        assert_eq!(mark(&fleet), -100);
        fleet.pods[0].deletion_cost = -500;
        assert_eq!(mark(&fleet), -501);
        fleet.pods[0].deletion_cost = i32::MIN;
        assert_eq!(mark(&fleet), i32::MIN);
        fleet.pods[0].age = Duration::ZERO;
        assert_eq!(mark(&fleet), -100, "its own cost is that of a victim now");
    }

    #[test]
    fn the_workload_may_choose_itself() {
        let mut spec = spec(&[1.0]);
        spec.scale_down.victims = VictimOrder::Workload;
        assert_eq!(choose(&spec, &fleet(Warmth::NotAsked), Replicas::new(2)), Victims::default());
    }
}
