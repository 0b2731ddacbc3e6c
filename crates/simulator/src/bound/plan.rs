//! Numbers of replicas over time.

/// Numbers of replicas over time, as they are asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// From each of these times on so many; ascending, the first at 0, all at multiples of [`Plan::GRAIN`].
    steps: Vec<(f64, u32)>,
}

impl Plan {
    /// Seconds between two times at which a plan can change.
    pub const GRAIN: f64 = 15.0;

    /// Always the same.
    #[must_use]
    pub fn steady(replicas: u32) -> Self {
        Self { steps: vec![(0.0, replicas)] }
    }

    /// One number after the other, each for `bin` seconds, the last one for ever. Without numbers there is no replica.
    #[must_use]
    pub(super) fn binned(bin: f64, replicas: impl IntoIterator<Item = u32>) -> Self {
        let mut steps: Vec<_> = replicas.into_iter().enumerate().map(|(place, replicas)| (place as f64 * bin, replicas)).collect();
        steps.dedup_by_key(|(_, replicas)| *replicas);
        if steps.is_empty() { Self::steady(0) } else { Self { steps } }
    }

    /// The steps: from each of these times on so many.
    #[must_use]
    pub fn steps(&self) -> &[(f64, u32)] {
        &self.steps
    }

    /// The number at a time.
    #[must_use]
    pub fn at(&self, time: f64) -> u32 {
        let after = self.steps.partition_point(|(from, _)| *from <= time);
        self.steps[after.saturating_sub(1)].1
    }

    /// Replica-seconds from 0 to `end`.
    #[must_use]
    pub fn replica_seconds(&self, end: f64) -> f64 {
        let ends = self.steps.iter().skip(1).map(|(from, _)| *from).chain([end]);
        self.steps.iter().zip(ends).map(|((from, replicas), until)| (until.min(end) - from).max(0.0) * f64::from(*replicas)).sum()
    }

    /// The plan with one replica less from `from` to `until`, but not less than `min`; `None` where that changes nothing.
    pub(super) fn with_less(&self, from: f64, until: f64, min: u32) -> Option<Self> {
        let inside = |time: f64| (from..until).contains(&time);
        let less = |(at, replicas): (f64, u32)| (at, if inside(at) && replicas > min { replicas - 1 } else { replicas });
        let mut steps: Vec<_> = self.steps.iter().copied().chain([(from, self.at(from)), (until, self.at(until))]).collect();
        steps.sort_by(|one, other| one.0.total_cmp(&other.0));
        steps.dedup_by_key(|(at, _)| *at);
        let mut steps: Vec<_> = steps.into_iter().map(less).collect();
        steps.dedup_by_key(|(_, replicas)| *replicas);
        let changed = Self { steps };
        (changed != *self).then_some(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_holds_until_its_next_step() {
        let plan = Plan::binned(60.0, [3, 3, 5, 2]);
        assert_eq!(plan.steps(), [(0.0, 3), (120.0, 5), (180.0, 2)]);
        assert_eq!([0.0, 119.0, 120.0, 179.9, 180.0, 1e9].map(|time| plan.at(time)), [3, 3, 5, 5, 2, 2]);
        assert_eq!(plan.replica_seconds(240.0), 3.0 * 120.0 + 5.0 * 60.0 + 2.0 * 60.0);
        assert_eq!(plan.replica_seconds(130.0), 3.0 * 120.0 + 5.0 * 10.0);
    }

    #[test]
    fn less_for_a_while_is_less_for_that_while_only() {
        let plan = Plan::binned(60.0, [3, 3, 5, 2]);
        let less = plan.with_less(90.0, 195.0, 2).unwrap();
        assert_eq!(less.steps(), [(0.0, 3), (90.0, 2), (120.0, 4), (180.0, 2)]);
        assert_eq!(plan.with_less(180.0, 300.0, 2), None);
        assert_eq!(Plan::steady(4).with_less(15.0, 30.0, 0).unwrap().steps(), [(0.0, 4), (15.0, 3), (30.0, 4)]);
    }
}
