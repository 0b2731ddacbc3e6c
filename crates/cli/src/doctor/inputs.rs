//! What the headroom law has to know, and what it costs where it is not known.

use llmscaler_signals::TrafficQueries;

use super::finding::Finding;
use super::source::{Answer, NoAnswer};

const CHECK: &str = "inputs";

/// Arrivals that nobody tells.
const HELD: &str = "the fleet keeps its size for 20 syncs; then its saturation alone decides";

/// One input: its name for people, its query, and what the law does without it.
struct Input {
    name: &'static str,
    query: fn(&TrafficQueries) -> Option<&String>,
    cost: &'static str,
    /// Whether the law is not itself without it.
    vital: bool,
}

const fn input(name: &'static str, query: fn(&TrafficQueries) -> Option<&String>, cost: &'static str) -> Input {
    Input { name, query, cost, vital: false }
}

const INPUTS: [Input; 16] = [
    Input { name: "requests per second over 60 s", query: |all| all.arrivals_60s.as_ref(), cost: HELD, vital: true },
    input("requests per second over 30 s", |all| all.arrivals_30s.as_ref(), "a rise is seen later"),
    input("requests per second over 15 s", |all| all.arrivals_15s.as_ref(), "a rise is seen later"),
    Input { name: "mean prompt", query: |all| all.mean_prompt.as_ref(), cost: HELD, vital: true },
    input("prompt lengths", |all| all.prompt_lengths.as_ref(), "all prompts are taken for equal to what was last seen"),
    input("finished requests", |all| all.finished.as_ref(), "the mean output stays as last seen, 200 tokens at first"),
    input("output tokens", |all| all.output_tokens.as_ref(), "the mean output stays as last seen, 200 tokens at first"),
    input("output lengths", |all| all.output_lengths.as_ref(), "the median output is taken for 0.6 of the mean"),
    input("time between tokens", |all| all.inter_token.as_ref(), "the profile is not corrected by what is measured"),
    input("gaps between tokens", |all| all.inter_tokens.as_ref(), "the profile is not corrected by what is measured"),
    input("waiting requests", |all| all.waiting.as_ref(), "no queue is worked off"),
    input("running requests", |all| all.running.as_ref(), "a request is taken to hold its prompt and half of its output"),
    input("KV cache in use", |all| all.kv_usage.as_ref(), "a request is taken to hold its prompt and half of its output"),
    input("KV cache of a replica", |all| all.kv_capacity.as_ref(), "that of the profile stands in; without one the cache sets no limit"),
    input("TTFT of each request", |all| all.ttft.as_ref(), "nothing is learned from requests that were late"),
    input("TPOT of each request", |all| all.tpot.as_ref(), "nothing is learned from requests that were late"),
];

/// The inputs by name, each with its query, where the software states it.
pub fn queries(all: &TrafficQueries) -> Vec<(&'static str, Option<String>)> {
    INPUTS.iter().map(|input| (input.name, (input.query)(all).cloned())).collect()
}

/// What the law gets of its inputs, and what it does without the rest.
pub fn check(answers: &[(&'static str, Option<Answer>)]) -> Vec<Finding> {
    // That nobody answers is told of the source.
    let outside = |answer: &Option<Answer>| matches!(answer, Some(Err(NoAnswer::Unreached(_) | NoAnswer::Refused(_))));
    if answers.is_empty() || answers.iter().all(|(_, answer)| outside(answer) || answer.is_none()) {
        return vec![];
    }
    let missing = |input: &&Input| {
        let answer = answers.iter().find(|(name, _)| *name == input.name).and_then(|(_, answer)| answer.as_ref());
        !matches!(answer, Some(Ok(series)) if !series.is_empty())
    };
    let missing: Vec<&Input> = INPUTS.iter().filter(missing).collect();
    let known = INPUTS.len() - missing.len();
    let mut findings = vec![Finding::ok(CHECK, format!("Headroom gets {known} of its {} inputs", INPUTS.len()))];
    let advice = "docs/presets.md says which metric each one comes from, and what has to be switched on";
    findings.extend(missing.iter().filter(|input| input.vital).map(|input| {
        let found = format!("Headroom does not get the {}: {}", input.name, input.cost);
        Finding::warning(CHECK, found, advice)
    }));
    // What costs the same is one finding.
    let mut minor: Vec<(&str, Vec<&str>)> = vec![];
    for input in missing.iter().filter(|input| !input.vital) {
        match minor.iter_mut().find(|(cost, _)| *cost == input.cost) {
            Some((_, names)) => names.push(input.name),
            None => minor.push((input.cost, vec![input.name])),
        }
    }
    let notes = minor
        .into_iter()
        .map(|(cost, names)| Finding::note(CHECK, format!("Headroom does not get the {}: {cost}", names.join(", ")), advice));
    findings.extend(notes);
    findings
}

#[cfg(test)]
mod tests {
    use llmscaler_signals::preset::{Preset, Scope};
    use llmscaler_signals::prometheus::Series;

    use super::*;
    use crate::doctor::finding::Severity;

    fn answered(without: &[&str]) -> Vec<Finding> {
        let one = || Ok(vec![Series { labels: [].into(), value: f64::NAN }]);
        let answers: Vec<_> = INPUTS
            .iter()
            .map(|input| (input.name, Some(if without.contains(&input.name) { Err(NoAnswer::Empty) } else { one() })))
            .collect();
        check(&answers)
    }

    #[test]
    fn an_input_that_has_nothing_to_count_at_present_is_there() {
        assert_eq!(answered(&[]), [Finding::ok(CHECK, "Headroom gets 16 of its 16 inputs")]);
    }

    #[test]
    fn what_is_missing_is_told_with_its_cost_and_once_for_each_cost() {
        let found = answered(&["mean prompt", "TTFT of each request", "TPOT of each request"]);
        assert_eq!(found.iter().map(|finding| finding.severity).collect::<Vec<_>>(), [Severity::Ok, Severity::Warning, Severity::Note]);
        assert!(found[1].found.contains("keeps its size for 20 syncs"));
        assert!(found[2].found.contains("TTFT of each request, TPOT of each request: nothing is learned"), "{found:?}");
    }

    #[test]
    fn nobody_is_blamed_for_a_source_that_is_away() {
        let lost = Some(Err(NoAnswer::Unreached("x".to_owned())));
        let answers: Vec<_> = INPUTS.iter().map(|input| (input.name, lost.clone())).collect();
        assert_eq!(check(&answers), []);
        assert_eq!(check(&[]), []);
    }

    #[test]
    fn vllm_states_every_input() {
        let preset = Preset::named("vLLM").unwrap();
        let queries = queries(&preset.traffic_queries(&Scope::new("serving", [("model_name", "m")])).unwrap());
        assert!(queries.iter().all(|(_, query)| query.is_some()), "{queries:?}");
    }
}
