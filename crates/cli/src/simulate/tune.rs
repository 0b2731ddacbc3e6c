//! Searches a policy's settings on one workload, for a score on another.

use clap::ValueEnum;
use llmscaler_simulator::Scenario;
use llmscaler_simulator::outcome::Outcome;
use llmscaler_simulator::report::{Candidate, Point, Summary, Tuning};

use super::contest::{Contest, Entry};
use super::fleet::Told;
use crate::failure::Failure;

/// A policy with settings to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tunable {
    /// Its objective
    Headroom,
    /// Its two marks
    Band,
    /// Its requests in flight a replica
    InFlight,
    /// Its share of the KV cache
    HpaKv,
}

const OBJECTIVES: [f64; 8] = [0.9, 0.95, 0.97, 0.98, 0.985, 0.99, 0.995, 0.999];

/// Pairs from early to late, with the lower mark at its usual distance of 0.73 times, and further below.
const MARKS: [(f64, f64); 12] = [
    (0.3, 0.22),
    (0.35, 0.25),
    (0.4, 0.29),
    (0.4, 0.2),
    (0.45, 0.33),
    (0.5, 0.36),
    (0.55, 0.4),
    (0.55, 0.25),
    (0.6, 0.44),
    (0.7, 0.5),
    (0.7, 0.35),
    (0.8, 0.6),
];

const IN_FLIGHT: [f64; 13] = [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 40.0, 48.0, 64.0];

const KV: [f64; 8] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8];

impl Tunable {
    fn name(self) -> &'static str {
        match self {
            Self::Headroom => "headroom",
            Self::Band => "band",
            Self::InFlight => "in-flight",
            Self::HpaKv => "hpa-kv",
        }
    }

    /// Everything that is tried, as policies are written.
    fn settings(self) -> Vec<String> {
        let one = |values: &[f64]| values.iter().map(|value| format!("{}:{value}", self.name())).collect();
        match self {
            Self::Headroom => one(&OBJECTIVES),
            Self::Band => MARKS.iter().map(|(up, down)| format!("band:{up},{down}")).collect(),
            Self::InFlight => one(&IN_FLIGHT),
            Self::HpaKv => one(&KV),
        }
    }

    /// The part of the resource that has these settings; of our own laws only.
    fn spec(self, chosen: &str, scenario: &Scenario, told: Told) -> Option<String> {
        let (_, settings) = chosen.split_once(':')?;
        let promised = scenario.workload.promised;
        let slo = format!("spec:\n  slo:\n    ttft: {}s\n    tpot: {}ms\n", promised.ttft, (promised.tpot * 1e6).round() / 1e3);
        match self {
            Self::Headroom => {
                let profile = if told.given { format!("    profile: {}\n", told.profile.name) } else { String::new() };
                Some(format!("{slo}    strategy: Headroom\n{profile}    objective: \"{settings}\"\n"))
            }
            Self::Band => {
                let (up, down) = settings.split_once(',')?;
                Some(format!("{slo}    strategy: Band\n    scaleUpAt: \"{up}\"\n    scaleDownAt: \"{down}\"\n{BEHAVIOR}"))
            }
            Self::InFlight | Self::HpaKv => None,
        }
    }
}

/// The pace that the band is simulated with: that of llm-d's guide.
const BEHAVIOR: &str = "  behavior:
    scaleUp:
      stabilizationWindowSeconds: 30
      policies: [{type: Percent, value: 100, periodSeconds: 60}, {type: Pods, value: 4, periodSeconds: 60}]
    scaleDown:
      stabilizationWindowSeconds: 180
      policies: [{type: Pods, value: 1, periodSeconds: 120}]
";

/// Tries all settings on one scenario; the best is to be scored on another.
pub fn search(
    tunable: Tunable,
    on: &Scenario,
    seeds: &[u64],
    (scored, scoring_seeds): (&Scenario, &[u64]),
    contest: &mut Contest,
) -> Result<(Tuning, Entry), Failure> {
    let settings = tunable.settings();
    let entries: Vec<Entry> = settings.iter().map(|text| Entry::named(text, on, contest.told())).collect::<Result<_, _>>()?;
    let (runs, _) = contest.run(on, &entries, seeds)?;
    let candidates: Vec<Candidate> = runs.iter().map(|(_, outcomes)| candidate(outcomes)).collect();
    let chosen = best(&candidates, contest.objective()).unwrap_or_default();
    let text = settings.get(chosen).cloned().unwrap_or_default();
    let tuning = Tuning {
        policy: tunable.name().to_owned(),
        tuned_on: on.workload.name.clone(),
        tuning_seeds: seeds.to_vec(),
        scored_on: scored.workload.name.clone(),
        scoring_seeds: scoring_seeds.to_vec(),
        chosen: candidates.get(chosen).map(|candidate| candidate.name.clone()).unwrap_or_default(),
        candidates,
        spec: tunable.spec(&text, scored, contest.told()),
    };
    Ok((tuning, Entry::named(&text, scored, contest.told())?))
}

fn candidate(outcomes: &[Outcome]) -> Candidate {
    let summary = Summary::of(outcomes);
    let name = outcomes.first().map(|outcome| outcome.policy.clone()).unwrap_or_default();
    Candidate { name, point: Point { attainment: summary.attainment.mean, gpu_hours: summary.gpu_hours.mean } }
}

/// The cheapest that meets the objective, or else the one that attains the most; the first of equals.
fn best(candidates: &[Candidate], objective: f64) -> Option<usize> {
    let points = || candidates.iter().map(|candidate| candidate.point).enumerate();
    let meeting = points().filter(|(_, point)| point.attainment >= objective);
    let cheapest = meeting.min_by(|(_, one), (_, other)| one.gpu_hours.total_cmp(&other.gpu_hours));
    let nearest = || points().reduce(|best, next| if next.1.attainment > best.1.attainment { next } else { best });
    cheapest.or_else(nearest).map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(points: &[(f64, f64)]) -> Vec<Candidate> {
        let candidate = |(attainment, gpu_hours): &(f64, f64)| Candidate {
            name: String::new(),
            point: Point { attainment: *attainment, gpu_hours: *gpu_hours },
        };
        points.iter().map(candidate).collect()
    }

    #[test]
    fn the_cheapest_that_meets_the_objective_is_the_best() {
        assert_eq!(best(&candidates(&[(0.98, 5.0), (0.995, 7.0), (0.992, 6.0)]), 0.99), Some(2));
        assert_eq!(best(&candidates(&[(0.98, 5.0), (0.97, 7.0), (0.985, 9.0)]), 0.99), Some(2));
        assert_eq!(best(&[], 0.99), None);
    }
}
