//! What the scaler itself reports, and whether anybody looks after it.

use jiff::{SignedDuration, Timestamp};
use llmscaler_api::{LLMScaler, MetricState, Mode, Provider, Scaler};

use super::finding::{Finding, Severity};
use crate::advice::{self, Weight};
use crate::prose::lasting;

const CHECK: &str = "status";
/// By when an operator that runs has looked at an edit.
const PATIENCE: SignedDuration = SignedDuration::from_secs(60);

/// The status of a scaler in words.
pub fn check(scaler: &LLMScaler, now: Timestamp) -> Vec<Finding> {
    let Some(status) = &scaler.status else { return vec![unattended(scaler, now)] };
    if status.observed_generation != scaler.metadata.generation {
        return vec![unattended(scaler, now)];
    }
    let mut findings = vec![];
    let ready_reason = status.conditions.iter().find(|condition| condition.type_ == "Ready").map(|ready| ready.reason.as_str());
    for condition in &status.conditions {
        let Some((weight, advice)) = advice::on(&condition.type_, &condition.status, &condition.reason) else { continue };
        // The sum says nothing of its own unless nothing was decided.
        let summed = condition.type_ == "Ready"
            && status.conditions.iter().any(|other| other.type_ != "Ready" && Some(other.reason.as_str()) == ready_reason);
        if summed {
            continue;
        }
        let since = lasting(condition.last_transition_time.0, now);
        let found = format!("{} is {} {since}, {}: {}", condition.type_, condition.status, condition.reason, condition.message);
        findings.push(Finding::new(severity(weight), CHECK, found, advice));
    }
    let known = status.metrics.iter().any(|metric| metric.state != MetricState::Unknown);
    for metric in status.metrics.iter().filter(|metric| metric.state == MetricState::Unknown && known) {
        let why = metric.message.as_deref().unwrap_or("nobody says why");
        let found = format!("to the operator metric {} is unknown: {why}", metric.name);
        findings.push(Finding::warning(CHECK, found, "it does not count until it is known; the fleet follows the others"));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(CHECK, "the operator looks after it, and reports nothing wrong"));
    }
    findings
}

fn severity(weight: Weight) -> Severity {
    match weight {
        Weight::Note => Severity::Note,
        Weight::Warning => Severity::Warning,
        Weight::Problem => Severity::Problem,
    }
}

/// Nobody has looked at the object as it is now.
fn unattended(scaler: &LLMScaler, now: Timestamp) -> Finding {
    let edited = edited(scaler);
    let fresh = edited.is_some_and(|edited| now.duration_since(edited) < PATIENCE);
    let since = edited.map_or_else(String::new, |edited| format!(" {}", lasting(edited, now)));
    if fresh {
        return Finding::note(CHECK, "it was edited a moment ago, and the operator has not looked at it yet", "ask again in a minute");
    }
    Finding::problem(
        CHECK,
        format!("no operator has looked at it as it is now{since}"),
        "see that the operator runs, watches this namespace (--watch-namespace), and may read LLMScalers and patch their status",
    )
}

/// When the object was last edited, other than in its status.
fn edited(scaler: &LLMScaler) -> Option<Timestamp> {
    let entries = scaler.metadata.managed_fields.iter().flatten();
    let edits = entries.filter(|entry| entry.subresource.is_none()).filter_map(|entry| entry.time.as_ref());
    let created = scaler.metadata.creation_timestamp.as_ref();
    edits.chain(created).map(|time| time.0).max()
}

/// What is valid and yet may surprise.
pub fn check_spec(scaler: &LLMScaler, parsed: &Scaler) -> Vec<Finding> {
    const CHECK: &str = "spec";
    let mut findings = vec![];
    if scaler.spec.mode == Mode::Recommend {
        findings.push(Finding::note(CHECK, "mode is Recommend: the size is shown and not written", "set mode: Auto to have it scaled"));
    }
    let wakes = match &parsed.provider {
        Provider::Scrape { scrape, .. } => scrape.router.is_some(),
        Provider::Prometheus(_) | Provider::DecisionServer(_) => true,
    };
    if scaler.spec.min_replicas == 0 && scaler.spec.max_replicas > 0 && !wakes {
        let found = "minReplicas is 0, and at zero there is no pod whose page could tell of requests: it would not wake";
        findings.push(Finding::warning(
            CHECK,
            found,
            "set scrape.eppService, so that the router tells of requests that wait, or minReplicas: 1",
        ));
    }
    if !scaler.spec.server_headers.is_empty() && scaler.spec.server_headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")) {
        let found = "serverHeaders has the value of Authorization in plain sight of all who may read the scaler";
        findings.push(Finding::note(CHECK, found, "put it into a Secret, and name that in serverHeadersFrom"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::doctor::tests::object;

    fn checked(status: Value) -> Vec<Finding> {
        let mut scaler = object(json!({}));
        scaler["metadata"] = json!({"name": "x", "namespace": "serving", "generation": 2, "creationTimestamp": "2026-01-01T00:00:00Z"});
        scaler["status"] = status;
        check(&serde_json::from_value(scaler).unwrap(), "2026-01-01T00:10:00Z".parse().unwrap())
    }

    fn condition(kind: &str, status: &str, reason: &str) -> Value {
        json!({"type": kind, "status": status, "reason": reason, "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"})
    }

    #[test]
    fn an_object_that_nobody_has_looked_at_is_a_problem() {
        let found = checked(json!({}));
        assert_eq!(
            (found[0].severity, found[0].found.as_str()),
            (Severity::Problem, "no operator has looked at it as it is now for 10 minutes")
        );
        assert_eq!(checked(json!({"observedGeneration": 1}))[0].severity, Severity::Problem);
        assert_eq!(checked(json!({"observedGeneration": 2}))[0].severity, Severity::Ok);
    }

    #[test]
    fn each_condition_that_is_not_well_is_told_once() {
        let invalid = json!([condition("Ready", "False", "InvalidSpec"), condition("AbleToScale", "False", "InvalidSpec")]);
        let found = checked(json!({"observedGeneration": 2, "conditions": invalid}));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].found, "AbleToScale is False for 10 minutes, InvalidSpec: m");
        let waits = json!([condition("Ready", "True", "ValidMetricFound"), condition("AbleToScale", "False", "NotSettled")]);
        let found = checked(json!({"observedGeneration": 2, "conditions": waits}));
        assert_eq!(found.iter().map(|finding| finding.severity).collect::<Vec<_>>(), [Severity::Note]);
    }

    #[test]
    fn one_unknown_metric_of_two_is_a_warning_of_its_own() {
        let metrics = json!([{"name": "a", "state": "Value", "value": "1"}, {"name": "b", "state": "Unknown", "message": "no data"}]);
        let found = checked(json!({"observedGeneration": 2, "metrics": metrics}));
        assert_eq!(found.len(), 1);
        assert!(found[0].severity == Severity::Warning && found[0].found.ends_with("metric b is unknown: no data"), "{found:?}");
    }

    #[test]
    fn what_may_surprise_is_told() {
        let of = |more: Value| {
            let object: LLMScaler = serde_json::from_value(object(more)).unwrap();
            let parsed = object.parse().unwrap();
            check_spec(&object, &parsed).into_iter().map(|finding| finding.severity).collect::<Vec<_>>()
        };
        assert_eq!(of(json!({})), []);
        assert_eq!(of(json!({"mode": "Recommend"})), [Severity::Note]);
        assert_eq!(of(json!({"serverHeaders": {"authorization": "x"}})), [Severity::Note]);
        let scrape = json!({"metricProvider": "Scrape", "serverAddress": null, "minReplicas": 0, "preset": {"name": "vLLM"},
            "metrics": [{"signal": "queuedRequests", "target": "5"}]});
        assert_eq!(of(scrape), [Severity::Warning]);
    }
}
