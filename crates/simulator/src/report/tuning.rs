//! Settings that were searched for.

use serde::Serialize;

use super::Point;

/// A search of one policy's settings: on one workload and seeds, of which the best was scored once on others.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tuning {
    /// The policy whose settings were searched.
    pub policy: String,
    /// The workload on which settings were searched.
    pub tuned_on: String,
    /// The seeds of the search.
    pub tuning_seeds: Vec<u64>,
    /// The workload on which the best was scored.
    pub scored_on: String,
    /// The seeds of the score.
    pub scoring_seeds: Vec<u64>,
    /// Everything that was tried, in the order of trying.
    pub candidates: Vec<Candidate>,
    /// The best one: the cheapest that meets the objective where it was tuned, or else the one that attains the most there.
    pub chosen: String,
    /// The spec that has these settings, in YAML; of our own laws only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<String>,
}

/// Settings that were tried.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// The policy with them.
    pub name: String,
    /// What came of it where it was tuned.
    #[serde(flatten)]
    pub point: Point,
}

impl Tuning {
    /// What was tuned and what was scored, in a sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Self { policy, tuned_on, tuning_seeds, scored_on, scoring_seeds, candidates, chosen, .. } = self;
        let seeds = |seeds: &[u64]| seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        let (tuning, scoring, tried) = (seeds(tuning_seeds), seeds(scoring_seeds), candidates.len());
        format!(
            "Tuned: {policy} on {tuned_on}, seeds {tuning}, {tried} settings; {chosen} was the best there. \
             Scored once: all figures above are of {scored_on}, seeds {scoring}."
        )
    }
}
