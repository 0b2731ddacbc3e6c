//! Policies at work, on all cores, in an order that does not depend on them.

use anyhow::{Context, Result};
use llmscaler_engine::{Costs, Replicas};
use llmscaler_simulator::Scenario;
use llmscaler_simulator::bound::{Foresight, Reached};
use llmscaler_simulator::outcome::Outcome;
use llmscaler_simulator::policy::{Fixed, Setting, named};
use llmscaler_simulator::report::{Bound, Kind, Point, Summary};
use rayon::prelude::*;

/// Runs in which foresight may try to do with less.
const THINNINGS: usize = 24;

/// What policies are told of the engine.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// What its steps cost.
    pub costs: Costs,
    /// Whether that is its profile, or only what stands in where none is named.
    pub profile_given: bool,
}

impl Told {
    /// The truth.
    pub fn truly(scenario: &Scenario) -> Self {
        Self { costs: scenario.profile.costs, profile_given: true }
    }
}

/// A policy with what came of its runs.
#[derive(Clone, Debug)]
pub struct Row {
    /// How it is written on the command line.
    pub text: String,
    /// Whose it is.
    pub kind: Kind,
    /// One by seed, without the course.
    pub runs: Vec<Outcome>,
    /// Mean and range over the seeds.
    pub summary: Summary,
}

impl Row {
    /// Its name.
    pub fn name(&self) -> &str {
        self.runs.first().map_or(&self.text, |run| &run.policy)
    }

    /// How many times what foresight pays for as much with the same seed, on average; `None` where it never got that far.
    pub fn times(&self, bounds: &[Bound]) -> Option<f64> {
        let priced = |(run, bound): (&Outcome, &Bound)| bound.price(run.attainment).map(|price| run.gpu_hours / price);
        let times: Option<Vec<f64>> = self.runs.iter().zip(bounds).map(priced).collect();
        times.filter(|times| !times.is_empty()).map(|times| times.iter().sum::<f64>() / times.len() as f64)
    }
}

/// Every policy with every seed.
pub fn rows(scenario: &Scenario, told: Told, policies: &[String], seeds: &[u64]) -> Result<Vec<Row>> {
    let pairs: Vec<(&String, u64)> = policies.iter().flat_map(|text| seeds.iter().map(move |seed| (text, *seed))).collect();
    let outcomes: Vec<Outcome> =
        pairs.par_iter().with_max_len(1).map(|(text, seed)| run(scenario, told, text, *seed)).collect::<Result<_>>()?;
    let row =
        |(text, runs): (&String, &[Outcome])| Row { text: text.clone(), kind: kind(text), runs: runs.to_vec(), summary: Summary::of(runs) };
    Ok(policies.iter().zip(outcomes.chunks(seeds.len().max(1))).map(row).collect())
}

fn kind(text: &str) -> Kind {
    match text.split(':').next() {
        Some("headroom" | "band" | "ratio") => Kind::Ours,
        Some("static") => Kind::Fixed,
        _ => Kind::Peer,
    }
}

fn run(scenario: &Scenario, told: Told, text: &str, seed: u64) -> Result<Outcome> {
    let mut outcome = if let Some(count) = text.strip_prefix("static:") {
        let count = count.parse().with_context(|| format!("{text} has no size"))?;
        // A fleet that has its size from the start, whatever the bounds are.
        let mut scenario = scenario.clone();
        let bounds = &mut scenario.workload.bounds;
        (bounds.min, bounds.max) = (Replicas::new(count), Replicas::new(count));
        scenario.workload.start = count;
        scenario.run(&mut Fixed(count), seed)
    } else {
        let workload = &scenario.workload;
        let Told { costs, profile_given } = told;
        let setting = Setting { promised: workload.promised, bounds: workload.bounds, costs, profile_given };
        scenario.run(named(text, &setting)?.as_mut(), seed)
    };
    // Thousands of runs are held; their courses are for the page of a single comparison.
    outcome.timeline.clear();
    outcome.decisions.clear();
    Ok(outcome)
}

/// The smallest fixed fleet that keeps the promises for `share` of the requests, as long as there is one that the bounds allow.
pub fn smallest_fixed(scenario: &Scenario, share: f64, seeds: &[u64]) -> Result<Option<Row>> {
    let told = Told::truly(scenario);
    let fixed = |count: u32| rows(scenario, told, &[format!("static:{count}")], seeds).map(|rows| rows.into_iter().next());
    let enough = |row: &Option<Row>| row.as_ref().is_some_and(|row| row.summary.attainment.mean >= share);
    let (mut few, mut many) = (0, scenario.workload.bounds.max.get());
    let mut best = fixed(many)?;
    if !enough(&best) {
        return Ok(None);
    }
    while few + 1 < many {
        let middle = u32::midpoint(few, many);
        let row = fixed(middle)?;
        if enough(&row) {
            (many, best) = (middle, row);
        } else {
            few = middle;
        }
    }
    Ok(best)
}

/// What foresight reaches with one seed: its front, refined at `targets`.
pub fn foresee(scenario: &Scenario, seed: u64, targets: &[f64]) -> Vec<Point> {
    let foresight = Foresight::new(scenario, seed);
    let front = foresight.front();
    let refined: Vec<Reached> = targets.iter().filter_map(|target| foresight.cheapest(&front, *target, THINNINGS)).collect();
    let point = |reached: &Reached| Point { attainment: reached.outcome.attainment, gpu_hours: reached.outcome.gpu_hours };
    front.iter().chain(&refined).map(point).collect()
}

/// The fronts of foresight by seed, given what it reached with each. Whoever knows everything can also do what was done, so the runs of
/// `rows` count too.
pub fn bounds(foreseen: &[Vec<Point>], rows: &[Row]) -> Vec<Bound> {
    let of_seed = |(place, points): (usize, &Vec<Point>)| {
        let runs = rows.iter().filter_map(|row| row.runs.get(place));
        let followed = runs.map(|run| Point { attainment: run.attainment, gpu_hours: run.gpu_hours });
        Bound::new(None, points.iter().copied().chain(followed).collect())
    };
    foreseen.iter().enumerate().map(of_seed).collect()
}
