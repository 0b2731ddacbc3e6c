//! Scales and marks of pictures.

/// Maps a range of values to a range of pixels.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Scale {
    /// `from` falls on `start` and `to` on `end`.
    pub fn new((from, to): (f64, f64), (start, end): (f64, f64)) -> Self {
        // A range without width would divide by 0.
        Self { from, to: if to > from { to } else { from + 1.0 }, start, end }
    }

    /// Where a value falls; what is outside falls on the nearer end.
    pub fn at(self, value: f64) -> f64 {
        let part = ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0);
        self.start + (self.end - self.start) * part
    }
}

/// Round numbers from about `from` to about `to`, `most` of them at most; the first is at most `from`, the last at least `to`.
pub fn ticks(from: f64, to: f64, most: usize) -> Vec<f64> {
    let width = (to - from).max(1e-9);
    let decade = 10_f64.powf((width / most.max(1) as f64).log10().floor());
    // The last is ten times the first, which is wide enough but for what the ends are rounded to.
    for factor in [1.0, 2.0, 5.0, 10.0, 20.0] {
        let step = decade * factor;
        let (first, last) = ((from / step).floor(), (to / step).ceil());
        if last - first <= most as f64 {
            return (first as i64..=last as i64).map(|tick| tick as f64 * step).collect();
        }
    }
    vec![from, to]
}

/// Times for an axis of so many seconds, with their labels.
pub fn times(seconds: f64, most: usize) -> Vec<(f64, String)> {
    const STEPS: [u32; 14] = [15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400];
    let step = STEPS.iter().find(|step| seconds / f64::from(**step) <= most as f64).copied().unwrap_or(7 * 86_400);
    let label = |at: u32| match step {
        short if short < 60 => format!("{at} s"),
        _ if seconds <= 3.0 * 3600.0 => format!("{} min", at / 60),
        _ => format!("{} h", f64::from(at) / 3600.0),
    };
    (0..=(seconds / f64::from(step)) as u32).map(|tick| (f64::from(tick * step), label(tick * step))).collect()
}

/// A number on an axis: no places that say nothing.
pub fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A line through points, broken where a value is unknown.
pub fn line(points: impl Iterator<Item = (f64, Option<f64>)>) -> String {
    let (mut path, mut drawn) = (String::new(), false);
    for (x, y) in points {
        if let Some(y) = y {
            path.push_str(&format!("{}{x:.1} {y:.1}", if drawn { "L" } else { "M" }));
        }
        drawn = y.is_some();
    }
    path
}

/// Steps: each level lasts from the x before to its own.
pub fn steps(start: f64, levels: impl Iterator<Item = (f64, f64)>) -> String {
    let (mut path, mut last) = (String::new(), None);
    for (x, y) in levels {
        match last {
            None => path.push_str(&format!("M{start:.1} {y:.1}")),
            Some(level) if level != y => path.push_str(&format!("V{y:.1}")),
            Some(_) => {}
        }
        path.push_str(&format!("H{x:.1}"));
        last = Some(y);
    }
    path
}

/// The area between steps and a base line.
pub fn area(start: f64, base: f64, levels: impl Iterator<Item = (f64, f64)>) -> String {
    let body = steps(start, levels);
    if body.is_empty() { body } else { format!("{body}V{base:.1}H{start:.1}Z") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_maps_and_bounds() {
        let scale = Scale::new((0.0, 10.0), (100.0, 0.0));
        assert_eq!([0.0, 5.0, 10.0, 20.0, -1.0].map(|value| scale.at(value)), [100.0, 50.0, 0.0, 0.0, 100.0]);
        assert_eq!(Scale::new((3.0, 3.0), (0.0, 10.0)).at(3.0), 0.0);
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(0.0, 8.0, 5), [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(ticks(6.9, 12.2, 6), [6.0, 8.0, 10.0, 12.0, 14.0]);
        for (from, to) in [(0.0, 0.3), (12.0, 87.0), (140.0, 640.0)] {
            let ticks = ticks(from, to, 6);
            assert!(ticks.len() <= 7 && ticks[0] <= from && *ticks.last().unwrap() >= to, "{ticks:?}");
        }
    }

    #[test]
    fn times_fit_the_run() {
        let labels = |seconds, most| times(seconds, most).into_iter().map(|(_, label)| label).collect::<Vec<_>>();
        assert_eq!(labels(2790.0, 6), ["0 min", "10 min", "20 min", "30 min", "40 min"]);
        assert_eq!(labels(87_000.0, 5), ["0 h", "6 h", "12 h", "18 h", "24 h"]);
    }

    #[test]
    fn a_line_breaks_where_nothing_is_known() {
        let points = [(0.0, Some(1.0)), (1.0, Some(2.0)), (2.0, None), (3.0, Some(4.0))];
        assert_eq!(line(points.into_iter()), "M0.0 1.0L1.0 2.0M3.0 4.0");
    }

    #[test]
    fn steps_last_until_their_end() {
        let levels = [(10.0, 5.0), (20.0, 5.0), (30.0, 1.0)];
        assert_eq!(steps(0.0, levels.into_iter()), "M0.0 5.0H10.0H20.0V1.0H30.0");
        assert_eq!(area(0.0, 9.0, levels.into_iter()), "M0.0 5.0H10.0H20.0V1.0H30.0V9.0H0.0Z");
    }
}
