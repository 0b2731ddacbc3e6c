//! Whether a pod that is removed has the time to finish what it has begun.

use llmscaler_engine::{Bucket, histogram_quantile};
use serde_json::Value;

use super::finding::Finding;
use super::workload::pod_template;

const CHECK: &str = "drain";

/// What Kubernetes gives a pod that says nothing else, in seconds.
const USUAL_GRACE: i64 = 30;
/// Of a hundred answers, the one that has to be finished is the longest but one.
const LONG_ANSWER: f64 = 0.99;

/// How long an answer may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Output tokens of a long answer.
    pub tokens: f64,
    /// Promised seconds for the first token, and for each one after it.
    pub ttft: f64,
    pub tpot: f64,
}

impl Budget {
    /// From the output lengths that were observed, cumulative, and the promises.
    pub fn new(lengths: &[Bucket], ttft: f64, tpot: f64) -> Option<Self> {
        let tokens = histogram_quantile(LONG_ANSWER, lengths.iter().copied());
        (tokens.is_finite() && tokens > 0.0).then_some(Self { tokens, ttft, tpot })
    }

    /// Seconds.
    fn whole(self) -> f64 {
        self.ttft + self.tpot * self.tokens
    }
}

/// The grace period of the target's pods against the longest answers, where these are known.
pub fn check(object: &Value, budget: Option<Budget>) -> Vec<Finding> {
    let Some(pod) = pod_template(object).and_then(|template| template.get("spec")) else { return vec![] };
    let grace = pod["terminationGracePeriodSeconds"].as_i64().unwrap_or(USUAL_GRACE);
    let mut findings = vec![of_grace(grace, budget)];
    findings.extend(of_hook(pod));
    findings
}

fn of_grace(grace: i64, budget: Option<Budget>) -> Finding {
    let raise = |seconds: f64| format!("set terminationGracePeriodSeconds of the pod template to at least {seconds:.0}");
    match budget {
        Some(budget) if budget.whole() > grace as f64 => {
            let Budget { tokens, ttft, tpot } = budget;
            let found = format!(
                "a pod has {grace} s to finish, and a long answer takes {:.0} s as promised: {tokens:.0} tokens at {tpot} s after {ttft} s; \
                 a scale-down cuts it off",
                budget.whole()
            );
            Finding::warning(CHECK, found, raise(budget.whole() * 1.2))
        }
        Some(budget) => {
            Finding::ok(CHECK, format!("a pod has {grace} s to finish; a long answer takes {:.0} s as promised", budget.whole()))
        }
        None if grace <= USUAL_GRACE => Finding::warning(
            CHECK,
            format!("a pod has {grace} s to finish what it has begun, and answers of LLMs often take longer; a scale-down cuts them off"),
            "set terminationGracePeriodSeconds of the pod template to the longest answer's time: most output tokens × time per token",
        ),
        None => Finding::ok(CHECK, format!("a pod has {grace} s to finish what it has begun")),
    }
}

/// A pod that ends is still sent requests for a moment.
fn of_hook(pod: &Value) -> Option<Finding> {
    let containers = pod["containers"].as_array()?;
    let hooked = containers.iter().any(|container| container.pointer("/lifecycle/preStop").is_some());
    (!hooked).then(|| {
        Finding::note(
            CHECK,
            "no container has a preStop hook, so a pod stops taking requests before its router knows",
            "unless the server itself goes on for some seconds after SIGTERM, add lifecycle.preStop.sleep.seconds: 10",
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::doctor::finding::Severity;

    fn target(grace: Value, container: Value) -> Value {
        let mut spec = json!({"containers": [container]});
        if !grace.is_null() {
            spec["terminationGracePeriodSeconds"] = grace;
        }
        json!({"spec": {"template": {"spec": spec}}})
    }

    fn severities(grace: Value, budget: Option<Budget>) -> Vec<Severity> {
        let hook = json!({"lifecycle": {"preStop": {"sleep": {"seconds": 10}}}});
        check(&target(grace, hook), budget).into_iter().map(|finding| finding.severity).collect()
    }

    #[test]
    fn a_grace_period_covers_a_long_answer_or_not() {
        let budget = |tokens| Some(Budget { tokens, ttft: 3.0, tpot: 0.1 });
        assert_eq!(severities(json!(300), budget(2000.0)), [Severity::Ok]);
        assert_eq!(severities(json!(120), budget(2000.0)), [Severity::Warning]);
        assert_eq!(severities(json!(null), budget(100.0)), [Severity::Ok], "13 s of 30");
        assert_eq!(severities(json!(null), None), [Severity::Warning]);
        assert_eq!(severities(json!(300), None), [Severity::Ok]);
        let short = &check(&target(json!(120), json!({})), budget(2000.0));
        assert!(short[0].advice.as_ref().unwrap().ends_with("at least 244"), "{short:?}");
        assert_eq!(short[1].severity, Severity::Note, "no hook");
    }

    #[test]
    fn a_leader_has_a_template_of_its_own() {
        let spec = json!({"spec": {"containers": [], "terminationGracePeriodSeconds": 10}});
        let group = json!({"spec": {"leaderWorkerTemplate": {"workerTemplate": {}, "leaderTemplate": spec}}});
        assert_eq!(check(&group, None)[0].severity, Severity::Warning);
        assert_eq!(check(&json!({"spec": {}}), None), []);
    }

    #[test]
    fn a_long_answer_is_the_longest_but_one_of_a_hundred() {
        let buckets = [(1000.0, 50.0), (2000.0, 100.0), (f64::INFINITY, 100.0)].map(|(upper, count)| Bucket { upper, count });
        let budget = Budget::new(&buckets, 3.0, 0.1).unwrap();
        assert!((budget.tokens - 1980.0).abs() < 1e-6);
        assert_eq!(Budget::new(&[], 3.0, 0.1), None);
    }
}
