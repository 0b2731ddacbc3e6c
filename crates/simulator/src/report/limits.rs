//! What the fleet may be, and what is said where that decides.

use super::figures::short_percent;
use super::{Contender, Kind, Setting};
use crate::outcome::Sample;

/// From this share of failing starts on they are the reason that replicas are missing; below it, it is the time that a start takes.
const MANY_FAILURES: f64 = 0.1;

impl Setting {
    /// Most replicas that can serve at once: the given most, or as many as there are GPUs for.
    pub(super) fn room(&self) -> u32 {
        let for_gpus = self.gpus.map(|gpus| gpus / self.gpus_per_replica.max(1));
        for_gpus.map_or(self.max, |replicas| replicas.min(self.max))
    }

    /// The size of the fleet and of a replica: `3 to 8 replicas of 2 GPUs`.
    pub(super) fn size(&self) -> String {
        format!("{} to {} of {}", self.min, of(self.max, "replica"), of(self.gpus_per_replica, "GPU"))
    }

    /// What holds for the fleet beyond its size, where anything is given.
    pub(super) fn conditions(&self) -> Vec<String> {
        let gpus = self.gpus.map(|gpus| format!("{} in all", of(gpus, "GPU")));
        let drain = self.drain_seconds.map(|seconds| format!("a pod that leaves is cut off after {seconds} s"));
        let hits = (self.prefix_hits > 0.0)
            .then(|| format!("{} % of a reusable prefix is still cached where it was served", short_percent(self.prefix_hits)));
        [gpus, drain, hits].into_iter().flatten().collect()
    }
}

/// `1 GPU`, `2 GPUs`.
pub fn of(count: u32, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// That nothing can be served, since no replica finds its GPUs.
pub fn no_room(setting: &Setting) -> Option<String> {
    let gpus = setting.gpus.filter(|gpus| *gpus < setting.gpus_per_replica)?;
    Some(format!(
        "No replica fits into {}, since each takes {}: nothing was served, whatever the policy. Give it more GPUs, or another engine.",
        of(gpus, "GPU"),
        setting.gpus_per_replica
    ))
}

/// Who had fewer or more replicas than the others may have.
pub fn outside(setting: &Setting, real: &[&Contender]) -> Option<String> {
    let is_outside = |sample: &Sample| !(setting.min..=setting.max).contains(&sample.replicas);
    let outside = real.iter().filter(|policy| policy.runs.iter().flat_map(|run| &run.timeline).any(is_outside));
    let names: Vec<&str> = outside.map(|policy| policy.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "{} had a size outside the {} to {} that are given, which no other policy may have: compare within the same bounds.",
            super::conclusions::list(&names),
            setting.min,
            of(setting.max, "replica")
        )
    })
}

/// What kept the fleet from serving most of what was late, where that is neither the policy nor the time that a start takes.
pub fn held_back(setting: &Setting, best: &Contender) -> Option<String> {
    // A fleet of fixed size is as large as it is told to be.
    if best.kind == Kind::Fixed {
        return None;
    }
    let late: u64 = best.runs.iter().flat_map(|run| &run.timeline).map(|sample| sample.late).sum();
    let most = |held: &dyn Fn(&Sample) -> bool| {
        let held: u64 = best.runs.iter().flat_map(|run| &run.timeline).filter(|sample| held(sample)).map(|sample| sample.late).sum();
        (held * 2 > late).then(|| format!("{:.0} % of its late requests came while", 100.0 * held as f64 / late as f64))
    };
    let room = setting.room();
    if let Some(most) = most(&|sample| sample.ready >= room) {
        return Some(match setting.gpus {
            Some(gpus) if room < setting.max => {
                format!("{most} the {} had no room for more than {}.", of(gpus, "GPU"), of(room, "replica"))
            }
            _ => format!("{most} it was at the maximum of {room}: raise that, or promise less."),
        });
    }
    let failing = setting.start_failures >= MANY_FAILURES;
    most(&|sample| failing && sample.ready < sample.replicas).map(|most| {
        format!(
            "{most} fewer replicas were ready than it had asked for, and {} % of the starts fail: asking for more does not help before that \
             is mended.",
            short_percent(setting.start_failures)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::example::{outcome, setting};
    use super::super::{Bound, Comparison, Kind, Point, Setting};

    /// What is concluded of one policy that had always so many replicas asked for and ready, and late requests all the time.
    fn said(setting: Setting, kind: Kind, (replicas, ready): (u32, u32)) -> Vec<String> {
        let mut run = outcome("x", 1, 0.5, 8.0);
        for sample in &mut run.timeline {
            (sample.replicas, sample.ready, sample.late, sample.need) = (replicas, ready, 3, 9.0);
        }
        let bound = Bound::new(None, vec![Point { attainment: 0.5, gpu_hours: 7.0 }]);
        Comparison::new(setting, vec![(kind, vec![run])], bound, Vec::new()).conclusions
    }

    fn says(said: &[String], words: &str) -> bool {
        said.iter().any(|sentence| sentence.contains(words))
    }

    #[test]
    fn what_no_replica_fits_into_is_the_answer() {
        let said = said(Setting { gpus: Some(1), ..setting() }, Kind::Ours, (3, 0));
        assert!(said.len() == 1 && said[0].starts_with("No replica fits into 1 GPU, since each takes 2"), "{said:#?}");
    }

    #[test]
    fn the_maximum_is_to_blame_only_where_all_of_it_serves() {
        assert!(says(&said(setting(), Kind::Ours, (8, 8)), "100 % of its late requests came while it was at the maximum of 8: raise that"));
        assert!(!says(&said(setting(), Kind::Ours, (8, 1)), "maximum"));
        assert!(!says(&said(setting(), Kind::Fixed, (8, 8)), "maximum"), "a larger maximum leaves a fixed fleet as it is");
    }

    #[test]
    fn starts_that_fail_are_to_blame_and_not_the_maximum() {
        let said = said(Setting { start_failures: 1.0, ..setting() }, Kind::Ours, (8, 1));
        assert!(says(&said, "fewer replicas were ready than it had asked for, and 100 % of the starts fail"), "{said:#?}");
        assert!(!says(&said, "maximum") && !says(&said, "load comes and goes"), "{said:#?}");
    }

    #[test]
    fn gpus_that_are_all_taken_are_to_blame() {
        let said = said(Setting { gpus: Some(9), ..setting() }, Kind::Ours, (8, 4));
        assert!(says(&said, "the 9 GPUs had no room for more than 4 replicas"), "{said:#?}");
    }

    #[test]
    fn a_size_outside_the_bounds_is_pointed_out() {
        for (size, outside) in [(9, true), (2, true), (8, false), (3, false)] {
            let said = said(setting(), Kind::Fixed, (size, size));
            assert_eq!(says(&said, "x had a size outside the 3 to 8 replicas that are given"), outside, "{size}: {said:#?}");
        }
    }

    #[test]
    fn conditions_are_said_where_they_are_given() {
        assert_eq!(setting().conditions(), Vec::<String>::new());
        let given = Setting { gpus: Some(1), drain_seconds: Some(5.0), prefix_hits: 0.5, gpus_per_replica: 1, ..setting() };
        assert_eq!(
            given.conditions(),
            ["1 GPU in all", "a pod that leaves is cut off after 5 s", "50 % of a reusable prefix is still cached where it was served"]
        );
        assert_eq!(given.size(), "3 to 8 replicas of 1 GPU");
    }
}
