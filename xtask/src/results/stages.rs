//! The workloads, and who takes part in each.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use llmscaler_engine::Profile;
use llmscaler_simulator::metrics::PipelineSettings;
use llmscaler_simulator::scenario::FleetSettings;
use llmscaler_simulator::workload::{Replay, Setting, TRACES, Trace};
use llmscaler_simulator::{Scenario, Workload};

/// A workload with what it is run with.
#[derive(Clone, Debug)]
pub struct Stage {
    pub scenario: Scenario,
    /// The policies that take part; the smallest fixed fleet that does as well joins them.
    pub policies: Vec<String>,
    /// How many of the seeds foresight looks at.
    pub foreseen: usize,
}

impl Stage {
    /// The name of its workload.
    pub fn name(&self) -> &str {
        &self.scenario.workload.name
    }

    /// What a target of requests in flight has to be here to be a peer.
    pub fn in_flight(&self) -> &'static str {
        if is_long(self.name()) { "in-flight:4" } else { "in-flight:32" }
    }
}

const COMMON: [&str; 18] = [
    "headroom:0.98",
    "headroom:0.99",
    "headroom:0.995",
    "band",
    "ratio",
    "seed",
    "seed-exact",
    "seed-measured",
    "seed-exact:0.45,0.33",
    "seed-exact:0.7,0.5",
    "in-flight:16",
    "in-flight:24",
    "in-flight:32",
    "keda",
    "keda-saturation",
    "hpa-kv",
    "kpa:45",
    "wva",
];

/// Prompts of 12,000 tokens and more, of which a replica holds a few at a time.
fn is_long(name: &str) -> bool {
    ["lday", "lramp", "moon"].contains(&name)
}

fn policies(name: &str) -> Vec<String> {
    let more: &[&str] = match name {
        "moon" => &["in-flight:2", "in-flight:3", "in-flight:4", "in-flight:8", "keda:1,4", "kpa:6", "static:20", "static:30"],
        _ if is_long(name) => &["in-flight:2", "in-flight:3", "in-flight:4", "in-flight:8", "keda:1,4", "kpa:6"],
        "rday" | "rburst" => &["in-flight:48"],
        "code10" => &["static:30", "static:45"],
        _ => &[],
    };
    COMMON.iter().chain(more).map(|text| (*text).to_owned()).collect()
}

/// A front takes some fifty runs, and each point that is refined some forty more.
fn foreseen(name: &str) -> usize {
    match name {
        "day" | "rday" | "lday" => 1,
        _ => 3,
    }
}

/// The built-in workloads, and those of traces where their folder is given.
pub fn stages(traces: Option<&Path>, quick: bool) -> Result<Vec<Stage>> {
    let built_in = Workload::names().filter_map(Workload::named);
    let mut workloads: Vec<Workload> = built_in.filter(|workload| !quick || workload.span() < 7200.0).collect();
    for preset in traces.map(|_| TRACES).into_iter().flatten().filter(|preset| !quick || preset.name != "day") {
        let file = traces.unwrap_or(Path::new("")).join(format!("{}.csv", preset.trace));
        let csv = File::open(&file).with_context(|| format!("opening {}", file.display()))?;
        let trace = Trace::read(preset.trace, csv)?;
        let setting = Setting::of_trace(preset.trace).with_context(|| format!("{} has no setting", preset.trace))?;
        workloads.push(Workload::from_trace(Replay::new(trace, preset.multiply, preset.shift)?, setting));
    }
    workloads.into_iter().map(stage).collect()
}

fn stage(workload: Workload) -> Result<Stage> {
    let profile = Profile::named(Profile::DEFAULT).context("the default profile is missing")?.clone();
    let (policies, foreseen) = (policies(&workload.name), foreseen(&workload.name));
    let scenario = Scenario { workload, profile, fleet: FleetSettings::default(), pipeline: PipelineSettings::default() };
    Ok(Stage { scenario, policies, foreseen })
}
