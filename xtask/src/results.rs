//! The page of results: every policy on every workload, by one command.

mod changes;
mod page;
mod reference;
mod runs;
mod stages;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use llmscaler_simulator::report::{Bound, Comparison, Point, Setting, drawing};
use rayon::prelude::*;

use self::changes::Changed;
use self::runs::{Row, Told, bounds, foresee, rows, smallest_fixed};
use self::stages::{Stage, stages};

/// The share of requests to be in time, in pictures and where foresight looks.
const OBJECTIVE: f64 = 0.99;

/// The policy that the others are held against.
const OURS: &str = changes::OURS;

/// The seeds of the closer look at the ramp.
const RAMP_SEEDS: std::ops::RangeInclusive<u64> = 1..=25;

/// What the page is made of.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The folder of the public traces, `<name>.csv`; without it the page has the built-in workloads alone
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// The seeds, a range
    #[arg(long, value_name = "FIRST-LAST", default_value = "1-5", value_parser = seeds)]
    seeds: Seeds,
    /// Two seeds and the short workloads, into target/results, to see whether all works
    #[arg(long)]
    quick: bool,
}

/// Seeds from one to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seeds {
    first: u64,
    last: u64,
}

fn seeds(text: &str) -> Result<Seeds, String> {
    let wrong = || "write a range of at most a hundred seeds, such as 1-5".to_owned();
    let (first, last) = text.split_once('-').ok_or_else(wrong)?;
    let (first, last) = (first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?);
    if first <= last && last - first < 100 { Ok(Seeds { first, last }) } else { Err(wrong()) }
}

/// A workload with what came of it.
struct Played {
    stage: Stage,
    rows: Vec<Row>,
    /// What foresight reached, by seed, with the first of the seeds.
    bounds: Vec<Bound>,
    /// The smallest fixed fleet that has as many in time as ours.
    fixed: Option<Row>,
}

/// All that the page shows.
struct Results {
    seeds: Vec<u64>,
    with_traces: bool,
    played: Vec<Played>,
    /// Objectives on the ramp with the seeds of [`RAMP_SEEDS`].
    ramp: Vec<Row>,
    changed_seeds: Vec<u64>,
    changed: Vec<Changed>,
    metrics: Vec<(String, [Row; 4])>,
}

/// Runs everything and writes the page and its pictures below `root`.
pub fn write(arguments: &Arguments, root: &Path) -> Result<()> {
    let Seeds { first, last } = arguments.seeds;
    let seeds: Vec<u64> = if arguments.quick { (first..=last).take(2).collect() } else { (first..=last).collect() };
    let stages = stages(arguments.traces.as_deref(), arguments.quick)?;
    let changed_seeds: Vec<u64> = seeds.iter().copied().take(3).collect();
    let played = play(&stages, &seeds)?;
    tell("the ramp, closely")?;
    let ramp = stages.iter().find(|stage| stage.name() == "ramp").context("there is no ramp")?;
    let objectives = ["headroom:0.98", "headroom:0.99", "headroom:0.995"].map(str::to_owned);
    let close = rows(&ramp.scenario, Told::truly(&ramp.scenario), &objectives, &RAMP_SEEDS.collect::<Vec<_>>())?;
    tell("metrics of a cluster")?;
    let looked_at = stages.iter().filter(|stage| ["ramp", "rday", "conv60", "code60"].contains(&stage.name()));
    let metrics = looked_at.map(|stage| Ok((stage.name().to_owned(), changes::metrics(stage, &seeds)?))).collect::<Result<_>>()?;
    tell("what is changed")?;
    let changed = changes::run(&stages, &changed_seeds)?;
    let results = Results { seeds, with_traces: arguments.traces.is_some(), played, ramp: close, changed_seeds, changed, metrics };

    let folder = if arguments.quick { root.join("target/results") } else { root.join("docs") };
    let pictures = folder.join("pictures");
    std::fs::create_dir_all(&pictures).with_context(|| format!("creating {}", pictures.display()))?;
    for played in &results.played {
        let file = pictures.join(format!("{}.svg", played.stage.name()));
        std::fs::write(&file, picture(played, &results.seeds)).with_context(|| format!("writing {}", file.display()))?;
    }
    let file = folder.join("results.md");
    std::fs::write(&file, page::write(&results)?).with_context(|| format!("writing {}", file.display()))
}

fn play(stages: &[Stage], seeds: &[u64]) -> Result<Vec<Played>> {
    let mut all = Vec::new();
    for stage in stages {
        tell(stage.name())?;
        let mut of_stage = rows(&stage.scenario, Told::truly(&stage.scenario), &stage.policies, seeds)?;
        let ours = of_stage.iter().find(|row| row.text == OURS).context("headroom does not take part")?;
        let fixed = smallest_fixed(&stage.scenario, ours.summary.attainment.mean, seeds)?;
        of_stage.extend(fixed.clone().filter(|fixed| of_stage.iter().all(|row| row.text != fixed.text)));
        all.push((of_stage, fixed));
    }
    tell("foresight")?;
    let looks = |(place, stage): (usize, &Stage)| (0..stage.foreseen.min(seeds.len())).map(|seed| (place, seed)).collect::<Vec<_>>();
    let mut tasks: Vec<(usize, usize)> = stages.iter().enumerate().flat_map(looks).collect();
    // The long ones first, lest one core works on while the others are done.
    tasks.sort_by(|one, other| stages[other.0].scenario.workload.span().total_cmp(&stages[one.0].scenario.workload.span()));
    let look = |(place, seed): &(usize, usize)| {
        let ours = all[*place].0.iter().find(|row| row.text == OURS).map(|row| row.runs[*seed].attainment);
        let targets: Vec<f64> = ours.into_iter().chain([OBJECTIVE]).collect();
        ((*place, *seed), foresee(&stages[*place].scenario, seeds[*seed], &targets))
    };
    let mut foreseen: Vec<((usize, usize), Vec<Point>)> = tasks.par_iter().with_max_len(1).map(look).collect();
    foreseen.sort_by_key(|(task, _)| *task);
    let mut played = Vec::new();
    for (place, (stage, (rows, fixed))) in stages.iter().zip(all).enumerate() {
        let points: Vec<Vec<Point>> = foreseen.iter().filter(|(task, _)| task.0 == place).map(|(_, points)| points.clone()).collect();
        played.push(Played { stage: stage.clone(), bounds: bounds(&points, &rows), fixed, rows });
    }
    Ok(played)
}

/// Those that a picture has room for.
const DRAWN: [&str; 13] = [
    "headroom:0.98",
    "headroom:0.99",
    "headroom:0.995",
    "seed",
    "seed-exact",
    "in-flight:2",
    "in-flight:4",
    "in-flight:8",
    "in-flight:16",
    "in-flight:32",
    "keda",
    "hpa-kv",
    "wva",
];

fn picture(played: &Played, seeds: &[u64]) -> String {
    let Stage { scenario, .. } = &played.stage;
    let drawn = |row: &&Row| row.text.starts_with("static") || DRAWN.contains(&row.text.as_str());
    let runs = played.rows.iter().filter(drawn).map(|row| (row.kind, row.runs.clone())).collect();
    let dearest = played.rows.iter().filter(drawn).map(|row| row.summary.gpu_hours.max).fold(0.0, f64::max);
    let mut bound = Bound::mean(&played.bounds);
    // What foresight buys beyond everybody else would squeeze the rest of the picture.
    bound.clairvoyant.retain(|point| point.gpu_hours <= dearest);
    let setting = Setting {
        command: String::new(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        workload: scenario.workload.name.clone(),
        description: scenario.workload.describe(),
        profile: scenario.profile.name.clone(),
        profile_title: scenario.profile.title.clone(),
        profile_fit: scenario.profile.fit.clone(),
        gpus_per_replica: scenario.profile.gpus,
        gpus: scenario.fleet.gpu_limit,
        drain_seconds: Some(scenario.fleet.drain_limit).filter(|seconds| seconds.is_finite()),
        start_failures: scenario.fleet.start_failure,
        prefix_hits: scenario.fleet.prefix_hits,
        warmup: String::new(),
        warmup_seconds: scenario.fleet.warmup.median,
        router: String::new(),
        metrics: String::new(),
        promised: scenario.workload.promised,
        min: scenario.workload.bounds.min.get(),
        max: scenario.workload.bounds.max.get(),
        start: scenario.workload.start,
        seeds: seeds.to_vec(),
        objective: OBJECTIVE,
    };
    drawing(&Comparison::new(setting, runs, bound, Vec::new()))
}

/// Tells whoever waits how far it is.
fn tell(what: &str) -> Result<()> {
    Ok(writeln!(std::io::stderr(), "results: {what}")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_range() {
        assert_eq!(seeds("21-25"), Ok(Seeds { first: 21, last: 25 }));
        assert!(["", "5", "5-1", "a-b", "1-1000"].iter().all(|wrong| seeds(wrong).is_err()));
    }
}
