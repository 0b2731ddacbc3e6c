//! `llmscaler simulate`: policies against each other in virtual time.

mod contest;
mod fleet;
mod list;
mod scaler;
mod traffic;
mod tune;

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};
use llmscaler_simulator::Scenario;
use llmscaler_simulator::metrics::Histograms;
use llmscaler_simulator::report::{Comparison, Setting, page, table};

use self::contest::{Contest, Entry};
use self::fleet::{FleetArguments, Told};
use self::traffic::TrafficArguments;
use crate::failure::Failure;

/// The arguments of `simulate`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new(traffic::TRACES).args(["trace", "tune_on"]).multiple(true))]
pub struct SimulateArguments {
    #[command(flatten)]
    traffic: TrafficArguments,
    #[command(flatten)]
    fleet: FleetArguments,
    /// A policy, such as headroom:0.99 or in-flight:32; --list tells them all. Several are held against each other
    #[arg(long = "policy", value_name = "NAME[:SETTINGS]", help_heading = "Policies", num_args = 1..)]
    policies: Vec<String>,
    /// An LLMScaler in YAML or JSON whose metrics are signals of a preset, or an SLO
    #[arg(long = "scaler", value_name = "FILE", help_heading = "Policies", num_args = 1..)]
    scalers: Vec<PathBuf>,
    /// Seeds: how many (5 is 1 to 5), a range (21-25) or a list (3,8,13)
    #[arg(long, value_name = "SEEDS", default_value = "5", help_heading = "Policies", value_parser = Seeds::parse, allow_hyphen_values = true)]
    seeds: Seeds,
    /// Share of the requests that should keep both promises
    #[arg(long, value_name = "SHARE", default_value_t = 0.99, help_heading = "Policies", value_parser = share, allow_hyphen_values = true)]
    objective: f64,
    /// Search the settings of headroom, band, in-flight or hpa-kv, and score the best once with the seeds above
    #[arg(long = "tune", value_name = "POLICY", help_heading = "Tuning", num_args = 1..)]
    tune: Vec<tune::Tunable>,
    /// The workload to search on, a name or a trace file; the same as is scored on unless given
    #[arg(long, value_name = "NAME|FILE", help_heading = "Tuning", requires = "tune")]
    tune_on: Option<String>,
    /// The seeds to search with; none of those to score with
    #[arg(long, value_name = "SEEDS", default_value = "101-103", help_heading = "Tuning", requires = "tune", value_parser = Seeds::parse, allow_hyphen_values = true)]
    tune_seeds: Seeds,
    /// How the comparison is printed
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help_heading = "Output")]
    output: Format,
    /// Write it to this file as well, as a page with pictures
    #[arg(long, value_name = "FILE.html", help_heading = "Output")]
    report: Option<PathBuf>,
    /// Runs at once; as many as there are cores unless given
    #[arg(long, value_name = "COUNT", help_heading = "Output", value_parser = clap::value_parser!(u16).range(1..), allow_hyphen_values = true)]
    threads: Option<u16>,
    /// Print the workloads, policies, engines and warm-ups that have a name, and end
    #[arg(long, help_heading = "Output")]
    list: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table and conclusions for people
    Text,
    /// One JSON object
    Json,
}

/// Runs every policy with every seed and prints what came of it.
pub fn run(arguments: &SimulateArguments, out: &mut impl Write) -> Result<(), Failure> {
    if arguments.list {
        return list::write(out).map_err(Failure::Output);
    }
    let comparison = compare(arguments)?;
    if let Some(file) = &arguments.report {
        std::fs::write(file, page(&comparison)).map_err(|cause| Failure::Unwritable { file: file.display().to_string(), cause })?;
    }
    let text = match arguments.output {
        Format::Text => Ok(table(&comparison)),
        Format::Json => serde_json::to_string(&comparison).map(|text| text + "\n").map_err(io::Error::other),
    };
    text.and_then(|text| out.write_all(text.as_bytes())).map_err(Failure::Output)
}

fn compare(arguments: &SimulateArguments) -> Result<Comparison, Failure> {
    let workload = arguments.traffic.workload()?;
    let scenario = arguments.fleet.scenario(workload)?;
    let seeds = &arguments.seeds.0;
    let told = arguments.fleet.told()?;
    let mut entries = entries(arguments, &scenario, told)?;
    let mut contest = Contest::new(arguments.threads, arguments.objective, told);
    let mut tunings = Vec::new();
    for tunable in &arguments.tune {
        let on = match &arguments.tune_on {
            Some(name) => arguments.fleet.scenario(arguments.traffic.other(name)?)?,
            None => scenario.clone(),
        };
        let tune_seeds = &arguments.tune_seeds.0;
        if on.workload == scenario.workload && tune_seeds.iter().any(|seed| seeds.contains(seed)) {
            return Err(Failure::Simulation(
                "--tune-seeds has seeds of --seeds, so the score would be of what was searched; give seeds apart, such as 101-103"
                    .to_owned(),
            ));
        }
        let (tuning, best) = tune::search(*tunable, &on, tune_seeds, (&scenario, seeds), &mut contest)?;
        tunings.push(tuning);
        entries.retain(|entry| !entry.is(&best));
        entries.push(best);
    }
    let (runs, bound) = contest.run(&scenario, &entries, seeds)?;
    Ok(Comparison::new(setting(arguments, &scenario, told), runs, bound, tunings))
}

/// What is compared where nothing is named: our laws, the peers that people run, a fixed fleet, and foresight.
const USUAL: [&str; 7] = ["headroom", "seed", "in-flight:32", "keda", "hpa-kv", "static:peak", "clairvoyant"];

fn entries(arguments: &SimulateArguments, scenario: &Scenario, told: Told) -> Result<Vec<Entry>, Failure> {
    let named: Vec<&str> = arguments.policies.iter().map(String::as_str).collect();
    let names = if named.is_empty() { USUAL.to_vec() } else { named };
    let mut entries: Vec<Entry> = names.into_iter().map(|name| Entry::named(name, scenario, told)).collect::<Result<_, _>>()?;
    for file in &arguments.scalers {
        entries.push(Entry::scaler(scaler::read(file, &arguments.fleet)?));
    }
    Ok(entries)
}

fn setting(arguments: &SimulateArguments, scenario: &Scenario, told: Told) -> Setting {
    let Scenario { workload, profile, fleet, pipeline } = scenario;
    let histograms = match (pipeline.histograms, pipeline.gateway) {
        (Histograms::Ideal, true) => "ideal: exact at the moment of the question, prompt tokens counted as they arrive",
        (Histograms::Ideal, false) => "ideal: exact at the moment of the question, prompt tokens counted when they have been computed",
        (Histograms::Real, _) => {
            "real: scraped every 5 s, in the buckets of vLLM and the router; prompt tokens are arrivals x the mean prompt of the last minute"
        }
    };
    let gateway = if pipeline.gateway { "" } else { "; no gateway counts arrivals" };
    let missing = if pipeline.missing > 0.0 {
        format!("; each group missing at {} % of the moments", pipeline.missing * 100.0)
    } else {
        String::new()
    };
    Setting {
        command: command(std::env::args().skip(1)),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        workload: workload.name.clone(),
        description: workload.shape.to_string(),
        profile: profile.name.clone(),
        profile_title: format!("{}{}", profile.title, told.in_words(profile)),
        profile_fit: profile.fit.clone(),
        gpus_per_replica: profile.gpus,
        gpus: fleet.gpu_limit,
        drain_seconds: Some(fleet.drain_limit).filter(|seconds| seconds.is_finite()),
        start_failures: fleet.start_failure,
        prefix_hits: fleet.prefix_hits,
        warmup: arguments.fleet.warmup_in_words(fleet.warmup),
        warmup_seconds: fleet.warmup.median,
        router: fleet::router_in_words(fleet.router).to_owned(),
        metrics: format!("{histograms}{gateway}{missing}"),
        promised: workload.promised,
        min: workload.bounds.min.get(),
        max: workload.bounds.max.get(),
        start: workload.start,
        seeds: arguments.seeds.0.clone(),
        objective: arguments.objective,
    }
}

/// The command line as a shell takes it, without the path to the program.
fn command(arguments: impl Iterator<Item = String>) -> String {
    let plain = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_=:.,/@+".contains(c));
    let quoted = arguments.map(|text| if plain(&text) { text } else { format!("'{}'", text.replace('\'', r"'\''")) });
    std::iter::once("llmscaler".to_owned()).chain(quoted).collect::<Vec<_>>().join(" ")
}

/// Seeds, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seeds(Vec<u64>);

impl Seeds {
    fn parse(text: &str) -> Result<Self, String> {
        const MOST: u64 = 1000;
        let wrong = || "write how many, such as 5, a range, such as 21-25, or a list, such as 3,8,13; a thousand at most".to_owned();
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong());
        let seeds = if let Some((first, last)) = text.split_once('-') {
            let (first, last) = (number(first)?, number(last)?);
            if last < first || last - first >= MOST {
                return Err(wrong());
            }
            (first..=last).collect()
        } else if text.contains(',') {
            let mut seeds = text.split(',').map(number).collect::<Result<Vec<_>, _>>()?;
            seeds.sort_unstable();
            seeds.dedup();
            seeds
        } else {
            (1..=number(text).ok().filter(|count| *count <= MOST).ok_or_else(wrong)?).collect::<Vec<_>>()
        };
        if seeds.is_empty() { Err(wrong()) } else { Ok(Self(seeds)) }
    }
}

fn share(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| "write a share of 0 to 1, such as 0.99".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_count_a_range_or_a_list() {
        let seeds = |text| Seeds::parse(text).map(|seeds| seeds.0);
        assert_eq!(seeds("3"), Ok(vec![1, 2, 3]));
        assert_eq!(seeds("21-23"), Ok(vec![21, 22, 23]));
        assert_eq!(seeds("8,3,8"), Ok(vec![3, 8]));
        for wrong in ["", "0", "5-3", "a", "1-100000", "-1", "1,x", "2000"] {
            assert!(seeds(wrong).unwrap_err().contains("such as"), "{wrong}");
        }
    }

    #[test]
    fn the_command_line_can_be_pasted_into_a_shell() {
        let arguments = ["simulate", "--workload", "ramp", "--trace", "my trace's.csv"].map(str::to_owned);
        assert_eq!(command(arguments.into_iter()), r"llmscaler simulate --workload ramp --trace 'my trace'\''s.csv'");
    }

    #[test]
    fn shares_are_shares() {
        assert_eq!(share("0.99"), Ok(0.99));
        assert!(share("99").is_err() && share("NaN").is_err() && share("x").is_err());
    }
}
