//! What can be had for how much.

use serde::Serialize;

use super::{Contender, Kind};

/// What is possible with foresight.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Bound {
    /// GPU-hours that just hold the closed form's need at every moment, starts included; mean over the seeds. Queueing is left out.
    pub fluid_gpu_hours: Option<f64>,
    /// What a clairvoyant reached in the simulation, the cheapest first: each attains more than the one before.
    pub clairvoyant: Vec<Point>,
}

/// An attainment and its price, as means over the seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Point {
    /// The share of requests in time, 0 to 1.
    pub attainment: f64,
    /// What it costs.
    pub gpu_hours: f64,
}

impl Bound {
    /// From everything that was tried with foresight, of which only the front is kept.
    #[must_use]
    pub fn new(fluid_gpu_hours: Option<f64>, mut tried: Vec<Point>) -> Self {
        tried.sort_by(|one, other| one.gpu_hours.total_cmp(&other.gpu_hours).then(other.attainment.total_cmp(&one.attainment)));
        let mut clairvoyant: Vec<Point> = Vec::new();
        for point in tried {
            if clairvoyant.last().is_none_or(|best| point.attainment > best.attainment) {
                clairvoyant.push(point);
            }
        }
        Self { fluid_gpu_hours, clairvoyant }
    }

    /// Of several seeds: at each attainment that every one of them reached, the mean of what it costs. What only some reach is left out.
    #[must_use]
    pub fn mean(seeds: &[Self]) -> Self {
        let mean = |values: Option<Vec<f64>>| {
            values.filter(|values| !values.is_empty()).map(|values| values.iter().sum::<f64>() / values.len() as f64)
        };
        let fluid = mean(seeds.iter().map(|seed| seed.fluid_gpu_hours).collect());
        let attained = seeds.iter().flat_map(|seed| &seed.clairvoyant).map(|point| point.attainment);
        let points = attained.filter_map(|attainment| {
            let prices = seeds.iter().map(|seed| seed.price(attainment)).collect();
            mean(prices).map(|gpu_hours| Point { attainment, gpu_hours })
        });
        Self::new(fluid, points.collect())
    }

    /// GPU-hours of a clairvoyant that attains as much, between two points of its front in proportion; `None` where it does not.
    #[must_use]
    pub fn price(&self, attainment: f64) -> Option<f64> {
        let next = self.clairvoyant.iter().position(|point| point.attainment >= attainment)?;
        let upper = self.clairvoyant[next];
        let Some(lower) = next.checked_sub(1).map(|before| self.clairvoyant[before]) else { return Some(upper.gpu_hours) };
        let part = (attainment - lower.attainment) / (upper.attainment - lower.attainment);
        Some(lower.gpu_hours + (upper.gpu_hours - lower.gpu_hours) * part)
    }

    /// The most that a clairvoyant attained.
    #[must_use]
    pub fn best(&self) -> Option<Point> {
        self.clairvoyant.last().copied()
    }
}

/// Marks those that no other policy without foresight beats.
pub fn mark(policies: &mut [Contender]) {
    let points: Vec<Option<Point>> = policies.iter().map(|policy| (policy.kind != Kind::Clairvoyant).then(|| point(policy))).collect();
    for (index, policy) in policies.iter_mut().enumerate() {
        policy.on_front = points[index].is_some_and(|own| !points.iter().flatten().any(|other| beats(*other, own)));
    }
}

/// Where a policy is.
pub fn point(policy: &Contender) -> Point {
    Point { attainment: policy.summary.attainment.mean, gpu_hours: policy.summary.gpu_hours.mean }
}

fn beats(one: Point, other: Point) -> bool {
    let better = one.attainment > other.attainment || one.gpu_hours < other.gpu_hours;
    one.attainment >= other.attainment && one.gpu_hours <= other.gpu_hours && better
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(attainment: f64, gpu_hours: f64) -> Point {
        Point { attainment, gpu_hours }
    }

    #[test]
    fn only_the_front_of_a_clairvoyant_counts() {
        let bound = Bound::new(None, vec![point(0.99, 8.0), point(0.90, 6.0), point(0.89, 7.0), point(0.98, 8.0), point(1.0, 9.0)]);
        assert_eq!(bound.clairvoyant, [point(0.90, 6.0), point(0.99, 8.0), point(1.0, 9.0)]);
    }

    #[test]
    fn the_price_lies_between_two_points() {
        let bound = Bound::new(None, vec![point(0.90, 6.0), point(1.0, 8.0)]);
        assert_eq!(bound.price(0.5), Some(6.0));
        assert!((bound.price(0.95).unwrap() - 7.0).abs() < 1e-9);
        assert_eq!(bound.price(1.0), Some(8.0));
        assert_eq!(Bound::new(None, vec![point(0.9, 6.0)]).price(0.91), None);
        assert_eq!(Bound::default().price(0.1), None);
    }

    #[test]
    fn the_mean_of_seeds_is_where_all_of_them_are() {
        let one = Bound::new(Some(5.0), vec![point(0.9, 6.0), point(1.0, 8.0)]);
        let other = Bound::new(Some(7.0), vec![point(0.95, 8.0)]);
        let mean = Bound::mean(&[one.clone(), other]);
        assert_eq!(mean.fluid_gpu_hours, Some(6.0));
        assert_eq!(mean.clairvoyant, [point(0.9, 7.0), point(0.95, 7.5)]);
        assert_eq!(Bound::mean(std::slice::from_ref(&one)), one);
        assert_eq!(Bound::mean(&[]), Bound::default());
    }

    #[test]
    fn equals_do_not_beat_each_other() {
        assert!(!beats(point(0.9, 5.0), point(0.9, 5.0)));
        assert!(beats(point(0.9, 4.0), point(0.9, 5.0)));
        assert!(!beats(point(0.8, 4.0), point(0.9, 5.0)));
    }
}
