//! The same with something changed: what policies were not made for.

use anyhow::{Context, Result};
use llmscaler_engine::{Costs, Profile, Replicas};
use llmscaler_simulator::Scenario;
use llmscaler_simulator::metrics::Histograms;
use llmscaler_simulator::scenario::Warmup;

use super::runs::{Row, Told, rows};
use super::stages::Stage;

/// The policies that are looked at.
pub const POLICIES: [&str; 3] = ["headroom:0.99", "seed-exact", "in-flight:32"];

/// Something that is changed.
type Change = fn(&mut Scenario, &mut Told);

/// What is changed, and the workloads on which it is.
const CHANGES: [(&str, &[&str], Change); 16] = [
    ("nothing", &MAIN, |_, _| {}),
    ("warm-up of 30 s", &MAIN, |scenario, _| scenario.fleet.warmup = Warmup::fixed(30.0, 11.0)),
    ("warm-up of 135 s", &MAIN, |scenario, _| scenario.fleet.warmup = Warmup::PLAIN),
    ("warm-up of 300 s", &MAIN, |scenario, _| scenario.fleet.warmup = Warmup::fixed(300.0, 11.0)),
    ("5 % of each metric missing", &["ramp", "conv60", "code60", "rday"], |scenario, _| scenario.pipeline.missing = 0.05),
    ("20 % of each metric missing", &MAIN, |scenario, _| scenario.pipeline.missing = 0.2),
    ("start at the minimum", &["conv60", "code60"], |scenario, _| scenario.workload.start = scenario.workload.bounds.min.get()),
    ("profile work x0.4", &["ramp", "conv60", "code60", "rday"], |_, told| told.costs = times(told.costs, 0.4)),
    ("profile work x0.6", &["ramp", "conv60", "code60", "rday", "short"], |_, told| told.costs = times(told.costs, 0.6)),
    ("profile work x1.5", &["ramp", "conv60", "code60", "rday", "short"], |_, told| told.costs = times(told.costs, 1.5)),
    ("profile work x2.5", &["ramp", "conv60", "code60", "rday"], |_, told| told.costs = times(told.costs, 2.5)),
    ("no profile, 70B on 4 GPUs", &MAIN, |scenario, told| engine("llama-3-70b-h100-tp4", scenario, told)),
    ("no profile, 8B on 1 GPU", &MAIN, |scenario, told| engine("llama-3.1-8b-h100", scenario, told)),
    ("low maximum", &["ramp", "ramp-closed", "code60"], |scenario, _| {
        let low = match scenario.workload.name.as_str() {
            "ramp" => 6,
            "ramp-closed" => 4,
            _ => 8,
        };
        scenario.workload.bounds.max = Replicas::new(low);
        scenario.workload.start = scenario.workload.start.min(low);
    }),
    ("real histograms", &MAIN, |scenario, _| scenario.pipeline.histograms = Histograms::Real),
    ("no gateway", &MAIN, |scenario, _| scenario.pipeline.gateway = false),
];

const MAIN: [&str; 3] = ["ramp", "conv60", "code60"];

/// A profile whose requests cost so many times what they do; its shortest step is right, as anybody can measure that.
fn times(costs: Costs, by: f64) -> Costs {
    Costs {
        prompt_token: costs.prompt_token * by,
        attention: costs.attention * by,
        sequence: costs.sequence * by,
        kv_token: costs.kv_token * by,
        ..costs
    }
}

/// Another engine than the stand-in that policies are told of.
fn engine(name: &str, scenario: &mut Scenario, told: &mut Told) {
    if let Some(profile) = Profile::named(name) {
        scenario.profile = profile.clone();
        told.profile_given = false;
    }
}

/// What came of a change on a workload.
pub struct Changed {
    pub what: &'static str,
    pub workload: &'static str,
    pub rows: Vec<Row>,
}

/// Every change on every workload of it that there is.
pub fn run(stages: &[Stage], seeds: &[u64]) -> Result<Vec<Changed>> {
    let policies = POLICIES.map(str::to_owned);
    let mut changed = Vec::new();
    for (what, workloads, change) in CHANGES {
        for workload in workloads {
            let Some(stage) = stages.iter().find(|stage| stage.name() == *workload) else { continue };
            let (mut scenario, mut told) = (stage.scenario.clone(), Told::truly(&stage.scenario));
            change(&mut scenario, &mut told);
            changed.push(Changed { what, workload, rows: rows(&scenario, told, &policies, seeds)? });
        }
    }
    Ok(changed)
}

/// Headroom's objective for what is looked at besides the policies.
pub const OURS: &str = POLICIES[0];

/// Headroom with the metrics of a cluster beside ideal ones: ideal, real, ideal without a gateway, real without one.
pub fn metrics(stage: &Stage, seeds: &[u64]) -> Result<[Row; 4]> {
    let row = |histograms, gateway| {
        let mut scenario = stage.scenario.clone();
        (scenario.pipeline.histograms, scenario.pipeline.gateway) = (histograms, gateway);
        let rows = rows(&scenario, Told::truly(&scenario), &[OURS.to_owned()], seeds)?;
        rows.into_iter().next().context("a policy has no row")
    };
    Ok([row(Histograms::Ideal, true)?, row(Histograms::Real, true)?, row(Histograms::Ideal, false)?, row(Histograms::Real, false)?])
}
