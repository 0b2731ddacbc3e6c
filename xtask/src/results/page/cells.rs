//! How figures stand in the cells of tables.

use llmscaler_simulator::report::figures::{coarse_percent, percent, range, three};
use llmscaler_simulator::report::{Point, Spread};

use crate::results::runs::Row;

/// `99.98 at 8.70`.
pub fn at(point: Point) -> String {
    format!("{} at {}", percent(point.attainment), three(point.gpu_hours))
}

/// The mean place of a row over all seeds.
pub fn mean(row: &Row) -> Point {
    Point { attainment: row.summary.attainment.mean, gpu_hours: row.summary.gpu_hours.mean }
}

/// `99.98 (99.9-100)`.
pub fn share(spread: Spread) -> String {
    spaced(percent(spread.mean), range(spread, coarse_percent))
}

/// `8.70 (8.61-8.78)`.
pub fn hours(spread: Spread) -> String {
    spaced(three(spread.mean), range(spread, three))
}

fn spaced(mean: String, range: String) -> String {
    if range.is_empty() { mean } else { format!("{mean} {range}") }
}

/// By how many points and how many per cent of the cost one differs from another: `-0.25, +37 %`.
pub fn differences(one: Point, other: Point) -> String {
    format!("{:+.2}, {:+.0} %", (one.attainment - other.attainment) * 100.0, (one.gpu_hours / other.gpu_hours - 1.0) * 100.0)
}

/// How a policy compares with ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As much in time or more, for no more.
    Better,
    /// Ours has as much in time or more, for no more.
    Beaten,
    /// The same, as far as anybody can tell.
    Equal,
    /// More for more, or less for less.
    Neither,
}

/// How `other` compares with `ours`. A twentieth of a point and half a per cent of the cost are no difference.
pub fn verdict(ours: Point, other: Point) -> Verdict {
    let beats = |one: Point, other: Point| one.attainment >= other.attainment && one.gpu_hours <= other.gpu_hours;
    let equal = (ours.attainment - other.attainment).abs() <= 0.0005 && (ours.gpu_hours / other.gpu_hours - 1.0).abs() <= 0.005;
    match () {
        () if equal => Verdict::Equal,
        () if beats(other, ours) => Verdict::Better,
        () if beats(ours, other) => Verdict::Beaten,
        () => Verdict::Neither,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_more_for_less_is_better() {
        let point = |attainment, gpu_hours| Point { attainment, gpu_hours };
        let ours = point(0.99, 10.0);
        assert_eq!(verdict(ours, point(0.991, 9.0)), Verdict::Better);
        assert_eq!(verdict(ours, point(0.99, 11.0)), Verdict::Beaten);
        assert_eq!(verdict(ours, point(0.9903, 10.04)), Verdict::Equal);
        assert_eq!(verdict(ours, point(0.995, 11.0)), Verdict::Neither);
        assert_eq!(differences(point(0.9875, 13.7), ours), "-0.25, +37 %");
    }
}
