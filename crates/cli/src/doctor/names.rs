//! Which of a preset's metrics are there, and under which of their names.

use std::collections::BTreeSet;

use llmscaler_api::{Ask, Scaler};
use llmscaler_engine::Law;
use llmscaler_signals::TRAFFIC_SIGNALS;
use llmscaler_signals::preset::{Kind, Preset, Row, Signal};

use super::finding::Finding;

const CHECK: &str = "preset";

/// The names that were seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Names {
    /// On series of the scaler's namespace, or on the pages of its pods.
    pub here: BTreeSet<String>,
    /// On series anywhere.
    pub anywhere: BTreeSet<String>,
}

/// The signals that a scaler reads through its preset.
pub fn signals(scaler: &Scaler) -> BTreeSet<Signal> {
    let mut all = BTreeSet::new();
    for (ask, source) in scaler.asks.iter().zip(&scaler.spec.sources) {
        match ask {
            Ask::Signal { signal, .. } => all.extend(signal.as_str().parse::<Signal>().ok()),
            Ask::Slo(slo) => {
                let queried = |latency: &Option<llmscaler_api::LatencyAsk>| latency.as_ref().is_none_or(|latency| latency.query.is_some());
                all.extend([Signal::Ttft].into_iter().filter(|_| !queried(&slo.ttft)));
                all.extend([Signal::Tpot].into_iter().filter(|_| !queried(&slo.tpot)));
                all.extend([Signal::RunningRequests, Signal::QueuedRequests]);
                if matches!(source.law, Law::Headroom(_)) {
                    all.extend(TRAFFIC_SIGNALS);
                }
            }
            Ask::Query(_) | Ask::Decision { .. } => {}
        }
    }
    all
}

/// The rows of a preset for these signals.
pub fn rows<'a>(preset: &'a Preset, signals: &'a BTreeSet<Signal>) -> impl Iterator<Item = &'a Row> {
    preset.rows().iter().filter(|row| signals.contains(&row.signal))
}

/// The name of the series of a metric.
pub fn series(row: &Row, name: &str) -> String {
    if row.kind == Kind::Histogram { format!("{name}_bucket") } else { name.to_owned() }
}

/// PromQL of the names that are there, among those of the rows.
pub fn query<'a>(rows: impl Iterator<Item = &'a Row>, namespace: Option<&str>) -> Option<String> {
    let names: BTreeSet<String> = rows.flat_map(|row| row.metrics.iter().map(move |metric| series(row, &metric.name))).collect();
    let names: Vec<String> = names.into_iter().collect();
    let within = namespace.map_or_else(String::new, |namespace| format!(", namespace={namespace:?}"));
    (!names.is_empty()).then(|| format!("count by (__name__) ({{__name__=~\"{}\"{within}}})", names.join("|")))
}

/// What is there and what is not. `place` says where it was looked for.
pub fn check(preset: &Preset, signals: &BTreeSet<Signal>, seen: &Names, place: &str) -> Vec<Finding> {
    let (mut there, mut missing) = (vec![], vec![]);
    for row in rows(preset, signals) {
        let names: Vec<&str> =
            row.metrics.iter().map(|metric| metric.name.as_str()).filter(|name| seen.here.contains(&series(row, name))).collect();
        if names.is_empty() { missing.push(row) } else { there.push(names.join(" and ")) }
    }
    if there.is_empty() && missing.is_empty() {
        return vec![];
    }
    if there.is_empty() {
        return vec![nothing(preset, seen, place)];
    }
    there.sort_unstable();
    there.dedup();
    let mut findings = vec![Finding::ok(CHECK, format!("{}, seen {place}: {}", preset.software(), there.join(", ")))];
    findings.extend(of_missing(&missing, place));
    findings
}

fn nothing(preset: &Preset, seen: &Names, place: &str) -> Finding {
    let software = preset.software();
    if seen.anywhere.is_empty() {
        return Finding::problem(
            CHECK,
            format!("no metric of {software} that this scaler reads was seen {place}"),
            "check that preset.name is what serves here, and that its metrics are scraped (a PodMonitor or ServiceMonitor, with Prometheus)",
        );
    }
    Finding::problem(
        CHECK,
        format!("metrics of {software} are there, but none {place}"),
        "the label namespace is missing, or has another value: have the scrape add it (relabelling in the PodMonitor or ServiceMonitor)",
    )
}

/// One finding for all that want the same.
fn of_missing(rows: &[&Row], place: &str) -> Vec<Finding> {
    let mut by_need: Vec<(Option<&str>, Vec<String>)> = vec![];
    for row in rows {
        let names: Vec<&str> = row.metrics.iter().map(|metric| metric.name.as_str()).collect();
        let said = format!("{} (no {})", row.signal, names.join(" nor "));
        match by_need.iter_mut().find(|(need, _)| *need == row.needs.as_deref()) {
            Some((_, all)) => all.push(said),
            None => by_need.push((row.needs.as_deref(), vec![said])),
        }
    }
    let findings = by_need.into_iter().map(|(need, all)| {
        let advice = match need {
            Some(need) => format!("it needs {need}"),
            None => {
                "a series may begin with the first request; if it stays away, the version may be older than the preset knows".to_owned()
            }
        };
        Finding::note(CHECK, format!("not seen {place}: {}", all.join(", ")), advice)
    });
    findings.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::doctor::finding::Severity;
    use crate::doctor::tests::scaler;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn checked(here: &[&str], anywhere: &[&str]) -> Vec<Finding> {
        let signals = [Signal::QueuedRequests, Signal::KvCacheUsage].into();
        let seen = Names { here: names(here), anywhere: names(anywhere) };
        check(Preset::named("vLLM").unwrap(), &signals, &seen, "in namespace serving")
    }

    #[test]
    fn the_name_that_is_there_is_told_and_what_is_missing() {
        let found = checked(&["vllm:num_requests_waiting", "vllm:gpu_cache_usage_perc"], &[]);
        assert_eq!(found.len(), 1);
        assert!(found[0].found.ends_with("vllm:gpu_cache_usage_perc, vllm:num_requests_waiting"), "{found:?}");
        let found = checked(&["vllm:num_requests_waiting"], &[]);
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].severity, Severity::Note);
        assert_eq!(
            found[1].found,
            "not seen in namespace serving: kvCacheUsage (no vllm:kv_cache_usage_perc nor vllm:gpu_cache_usage_perc)"
        );
    }

    #[test]
    fn no_name_at_all_is_a_problem_and_the_namespace_is_suspected_first() {
        assert!(checked(&[], &["vllm:num_requests_waiting"])[0].advice.as_ref().unwrap().contains("label namespace"));
        assert!(checked(&[], &[])[0].advice.as_ref().unwrap().contains("preset.name"));
    }

    #[test]
    fn only_what_the_scaler_reads_is_looked_for() {
        let slo = scaler(json!({"preset": {"name": "vLLM", "matchLabels": {"model_name": "m"}}, "metrics": null,
            "slo": {"ttft": "3s", "tpot": "100ms", "tpotQuery": "x"}}));
        assert_eq!(signals(&slo), [Signal::Ttft, Signal::RunningRequests, Signal::QueuedRequests].into());
        let preset = Preset::named("vLLM").unwrap();
        let query = query(rows(preset, &[Signal::Ttft, Signal::QueuedRequests].into()), Some("serving")).unwrap();
        assert_eq!(
            query,
            "count by (__name__) ({__name__=~\"vllm:num_requests_waiting|vllm:time_to_first_token_seconds_bucket\", namespace=\"serving\"})"
        );
    }
}
