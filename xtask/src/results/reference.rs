//! The tables that the headroom law was specified with, and whether ours agree.

use anyhow::{Context, Result};
use llmscaler_simulator::report::Spread;

const TABLES: &str = include_str!("reference.csv");
const ROBUSTNESS: &str = include_str!("robustness.csv");

/// What differs by no more is noise: in shares, and as a share of the cost.
const NOISE: (f64, f64) = (0.003, 0.03);

/// A figure of the tables, with its range where it is stated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stated {
    pub mean: f64,
    range: Option<(f64, f64)>,
}

impl Stated {
    /// Whether ours is the same but for noise or the chance of seeds: `noise` is absolute.
    fn agrees(self, ours: Spread, noise: f64) -> bool {
        let (low, high) = self.range.unwrap_or((self.mean, self.mean));
        (ours.mean - self.mean).abs() <= noise || (ours.min <= high && low <= ours.max)
    }
}

/// A policy on a workload, as stated.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    pub workload: &'static str,
    /// As on the command line.
    pub policy: &'static str,
    /// A share.
    pub attainment: Stated,
    pub gpu_hours: Stated,
    pub events: Option<f64>,
}

impl Reference {
    /// Whether attainment and cost agree.
    pub fn agrees(&self, attainment: Spread, gpu_hours: Spread) -> (bool, bool) {
        (self.attainment.agrees(attainment, NOISE.0), self.gpu_hours.agrees(gpu_hours, NOISE.1 * self.gpu_hours.mean))
    }
}

/// The main tables.
pub fn tables() -> Result<Vec<Reference>> {
    lines(TABLES).map(|line| reference(&line).with_context(|| line.join(";"))).collect()
}

/// A policy where something was changed: what, the workload, the policy, its attainment as a share and its GPU-hours.
pub type Changed = (&'static str, &'static str, &'static str, f64, f64);

/// The tables of what was changed.
pub fn robustness() -> Result<Vec<Changed>> {
    let changed = |line: Vec<&'static str>| match line[..] {
        [what, workload, policy, attainment, gpu_hours] => Some((what, workload, policy, number(attainment)? / 100.0, number(gpu_hours)?)),
        _ => None,
    };
    lines(ROBUSTNESS).map(|line| changed(line.clone()).with_context(|| line.join(";"))).collect()
}

fn lines(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(';').collect())
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok()
}

fn reference(line: &[&'static str]) -> Option<Reference> {
    let [workload, policy, attainment, least, most, gpu_hours, fewest, greatest, events] = *line else { return None };
    let stated = |mean: &str, low: &str, high: &str, unit: f64| {
        let range = number(low).zip(number(high)).map(|(low, high)| (low * unit, high * unit));
        Some(Stated { mean: number(mean)? * unit, range })
    };
    Some(Reference {
        workload,
        policy,
        attainment: stated(attainment, least, most, 0.01)?,
        gpu_hours: stated(gpu_hours, fewest, greatest, 1.0)?,
        events: number(events),
    })
}

#[cfg(test)]
mod tests {
    use llmscaler_simulator::Workload;
    use llmscaler_simulator::workload::TRACES;

    use super::*;

    #[test]
    fn every_line_can_be_read_and_is_of_a_workload() {
        let known = |name: &str| Workload::named(name).is_some() || TRACES.iter().any(|preset| preset.name == name);
        let (tables, robustness) = (tables().unwrap(), robustness().unwrap());
        assert!(tables.len() > 100 && robustness.len() > 60);
        assert!(tables.iter().all(|row| known(row.workload) && row.attainment.mean <= 1.0));
        assert!(robustness.iter().all(|row| known(row.1) && row.3 <= 1.0));
    }

    #[test]
    fn figures_agree_within_noise_or_the_seeds() {
        let stated = Stated { mean: 0.99, range: Some((0.98, 0.991)) };
        let ours = |min, max| Spread { mean: f64::midpoint(min, max), min, max };
        assert!(stated.agrees(ours(0.9905, 0.996), 0.001) && stated.agrees(ours(0.992, 0.994), 0.0031));
        assert!(!stated.agrees(ours(0.992, 0.998), 0.003));
        let alone = Stated { range: None, ..stated };
        assert!(alone.agrees(ours(0.97, 0.995), 0.0) && !alone.agrees(ours(0.97, 0.98), 0.003));
    }
}
