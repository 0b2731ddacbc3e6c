//! Policies held against each other: over several seeds, as a table, as JSON, and as a page.

mod conclusions;
pub mod figures;
mod front;
mod html;
mod limits;
mod summary;
mod table;
mod tuning;

#[cfg(test)]
mod example;

use serde::Serialize;

pub use front::{Bound, Point};
pub use html::{drawing, page};
pub use summary::{Spread, Summary};
pub use table::table;
pub use tuning::{Candidate, Tuning};

use crate::Promised;
use crate::outcome::Outcome;

/// Policies on the same workload, fleet and seeds, and what is possible there at all.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// What was simulated.
    pub setting: Setting,
    /// The policies, the cheapest first.
    pub policies: Vec<Contender>,
    /// What is possible with foresight.
    pub bound: Bound,
    /// How settings were searched for, where they were.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tunings: Vec<Tuning>,
    /// What to conclude, in sentences; the first is the answer.
    pub conclusions: Vec<String>,
}

/// What was simulated.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Setting {
    /// The command line that does it again.
    pub command: String,
    /// The version of this program.
    pub version: String,
    /// The workload's name.
    pub workload: String,
    /// The workload, in a sentence.
    pub description: String,
    /// The name of the engine's profile.
    pub profile: String,
    /// What the profile is of.
    pub profile_title: String,
    /// How well the profile fits what was published.
    pub profile_fit: String,
    /// GPUs of one replica.
    pub gpus_per_replica: u32,
    /// GPUs that there are; null where there is no limit.
    pub gpus: Option<u32>,
    /// Most seconds that a leaving pod has to finish its requests; null where there is no limit.
    pub drain_seconds: Option<f64>,
    /// Share of the pods that never become ready, 0 to 1.
    pub start_failures: f64,
    /// Share of a reusable prefix that the replica which has served it still has cached, 0 to 1.
    pub prefix_hits: f64,
    /// Pods become ready so late, in words.
    pub warmup: String,
    /// The same in seconds, on average.
    pub warmup_seconds: f64,
    /// How requests find their replica, in words.
    pub router: String,
    /// How metrics reach the policies, in words.
    pub metrics: String,
    /// The latencies that were promised.
    pub promised: Promised,
    /// Fewest replicas.
    pub min: u32,
    /// Most replicas.
    pub max: u32,
    /// Replicas at the start, ready.
    pub start: u32,
    /// The seeds; each policy runs once with each.
    pub seeds: Vec<u64>,
    /// The share of requests that should keep both promises, 0 to 1.
    pub objective: f64,
}

/// A policy with what came of its runs.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Contender {
    /// The policy, with the settings that tell it from others of its kind.
    pub name: String,
    /// Whose policy it is.
    pub kind: Kind,
    /// Whether no other policy without foresight attains as much for less, or more for as much, on average.
    pub on_front: bool,
    /// Whether the attainment is at least the objective, on average.
    pub meets_objective: bool,
    /// GPU-hours as a multiple of what a clairvoyant pays for the same attainment; null where it does not get that far, and of
    /// the clairvoyant itself.
    pub times_clairvoyant: Option<f64>,
    /// Mean and range over the seeds.
    pub summary: Summary,
    /// One by seed, in the order of the seeds.
    pub runs: Vec<Outcome>,
}

/// Whose policy it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// What this operator does.
    Ours,
    /// What another autoscaler does.
    Peer,
    /// A fleet of fixed size.
    Fixed,
    /// It knows what will come: no policy to run, but a measure for the others.
    Clairvoyant,
}

impl Comparison {
    /// Holds the policies against each other. `runs` has each policy's outcomes in the order of `setting.seeds`, at least one.
    #[must_use]
    pub fn new(setting: Setting, runs: Vec<(Kind, Vec<Outcome>)>, bound: Bound, tunings: Vec<Tuning>) -> Self {
        let mut policies: Vec<Contender> = runs
            .into_iter()
            .filter_map(|(kind, runs)| {
                let summary = Summary::of(&runs);
                Some(Contender {
                    name: runs.first()?.policy.clone(),
                    kind,
                    on_front: false,
                    meets_objective: summary.attainment.mean >= setting.objective,
                    times_clairvoyant: bound
                        .price(summary.attainment.mean)
                        // Of what costs nothing nothing is a multiple.
                        .filter(|price| kind != Kind::Clairvoyant && *price > 0.0)
                        .map(|price| summary.gpu_hours.mean / price),
                    summary,
                    runs,
                })
            })
            .collect();
        policies.sort_by(|one, other| one.summary.gpu_hours.mean.total_cmp(&other.summary.gpu_hours.mean));
        front::mark(&mut policies);
        let conclusions = conclusions::draw(&setting, &policies, &bound);
        Self { setting, policies, bound, tunings, conclusions }
    }
}
