use llmscaler_api::LLMScaler;
use serde_json::{Value, json};

use super::*;

fn scaler(spec: Value, status: Value) -> LLMScaler {
    let mut whole = json!({
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "vllm"},
        "serverAddress": "http://prometheus:9090",
        "minReplicas": 1,
        "maxReplicas": 10,
        "metrics": [
            {"name": "kv", "query": "avg(kv)", "target": "0.8"},
            {"name": "queue", "query": "sum(queue)", "target": "5", "metricType": "AverageValue"},
        ],
    });
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let object = json!({"apiVersion": "autoscaling.modelsphere.dev/v1alpha1", "kind": "LLMScaler", "spec": whole, "status": status,
        "metadata": {"name": "vllm", "namespace": "serving", "generation": 3}});
    serde_json::from_value(object).unwrap()
}

fn stage(name: &str, count_in: i32, out: i32, reason: &str, message: &str) -> Value {
    json!({"stage": name, "in": count_in, "out": out, "reason": reason, "message": message})
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": 3})
}

/// Of a fleet of 4 that a rollout keeps from growing to 5.
fn waiting() -> LLMScaler {
    let stages = json!([
        stage("recommend", 4, 5, "ValidMetricFound", "kv 0.9 against 0.8 over 4 ready replicas asks for 5"),
        stage("activate", 5, 5, "Active", "kv is active"),
        stage("bound", 5, 5, "DesiredWithinRange", "5 is within 1 to 10"),
        stage("guard", 5, 4, "RolloutInProgress", "5 waits for the rollout of the target to finish: 1 of 4 updated"),
        stage("write", 4, 4, "NoChange", "the fleet stays at 4"),
    ]);
    scaler(
        json!({}),
        json!({
            "observedGeneration": 3, "replicas": 4, "currentReplicas": 4, "desiredReplicas": 5,
            "lastScaleTime": "2026-01-01T00:00:00Z",
            "metrics": [
                {"name": "kv", "state": "Value", "value": "0.9", "target": "0.8", "replicas": 5},
                {"name": "queue", "state": "Unknown", "message": "query `sum(queue)`: no data"},
            ],
            "decision": {"reason": "RolloutInProgress", "message": "5 waits for the rollout", "stages": stages},
            "conditions": [
                condition("Ready", "True", "ValidMetricFound", "kv is known"),
                condition("AbleToScale", "False", "RolloutInProgress", "5 waits for the rollout of the target to finish"),
                condition("ScalingActive", "True", "ValidMetricFound", "kv is known; queue is unknown"),
            ],
        }),
    )
}

fn text(scaler: &LLMScaler, columns: usize) -> String {
    let mut out = vec![];
    let now = "2026-01-01T00:05:00Z".parse().unwrap();
    print::write(&mut out, &Account::of(scaler), now, columns).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_decision_in_words() {
    assert_eq!(
        text(&waiting(), 100),
        "\
serving/vllm scales Deployment vllm, 1 to 10 replicas
  now 4 replicas, 4 ready, 5 wanted, changed 5 minutes ago, Ready for 5 minutes

Metrics
  kv     0.9 against 0.8, 13 % above: asks for 5 replicas
  queue  unknown: query `sum(queue)`: no data

Decision
  RolloutInProgress: 5 waits for the rollout
  recommend  4 → 5     ValidMetricFound: kv 0.9 against 0.8 over 4 ready replicas asks for 5
  guard      5 → 4     RolloutInProgress: 5 waits for the rollout of the target to finish: 1 of 4
                       updated
  unchanged by activate, bound, write

To know
  AbleToScale is False for 5 minutes, RolloutInProgress: 5 waits for the rollout of the target to
  finish
    → wait for the rollout; kubectl rollout status tells how far it is

Next
  5 is written when the rollout is over.
"
    );
}

#[test]
fn a_narrow_terminal_gets_narrow_lines() {
    let text = text(&waiting(), 50);
    let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(widest <= 50, "{text}");
}

#[test]
fn a_total_is_told_by_replica_and_idleness_as_proof() {
    let metrics = json!([
        {"name": "queue", "state": "Value", "value": "23", "target": "5", "replicas": 5},
        {"name": "kv", "state": "Idle", "replicas": 0},
        {"name": "slo", "state": "Value", "value": "0.5", "target": "0.55", "message": "saturation 0.5 is in the band"},
        {"name": "slo", "state": "Idle", "replicas": 8, "message": "held at 8 by the need 15 s ago, for 45 s more: load 0.0"},
    ]);
    let account = Account::of(&scaler(json!({}), json!({"metrics": metrics})));
    let words: Vec<&str> = account.metrics.iter().map(|metric| metric.words.as_str()).collect();
    assert_eq!(
        words,
        [
            "23 in total, at 5 a replica: asks for 5 replicas",
            "idle, there is proof of no traffic: asks for 0 replicas",
            "saturation 0.5 is in the band",
            "idle, there is proof of no traffic: held at 8 by the need 15 s ago, for 45 s more: load 0.0"
        ]
    );
}

#[test]
fn what_comes_next_depends_on_what_holds_the_count() {
    let next = |status: Value| Account::of(&scaler(json!({"syncPeriodSeconds": 0}), status)).next;
    let able = |reason: &str| {
        let stages = [stage("stabilise", 7, 7, "ReadyForNewScale", ""), stage("guard", 6, 4, reason, "")];
        json!({"observedGeneration": 3, "replicas": 4, "desiredReplicas": 7, "decision": {"reason": reason, "message": "", "stages": stages},
            "conditions": [condition("AbleToScale", "False", reason, "")]})
    };
    let settled = |ready: i32, stages: Value| {
        json!({"observedGeneration": 3, "replicas": 4, "currentReplicas": ready, "desiredReplicas": 4, "warmup": {"seconds": 95, "samples": 2},
            "decision": {"reason": "x", "message": "", "stages": stages}})
    };
    let held = |message: &str| {
        let mut status = settled(4, json!([stage("recommend", 4, 4, "ValidMetricFound", "")]));
        status["metrics"] = json!([
            {"name": "other", "state": "Value", "value": "2", "replicas": 3, "message": "held at 3 for 9 s more: it does not decide"},
            {"name": "slo", "state": "Value", "value": "2.5", "replicas": 4, "message": message},
        ]);
        status
    };
    for (status, words) in [
        (json!({}), "Nothing was reported yet"),
        (json!({"observedGeneration": 2}), "an earlier edit"),
        (able("RolloutInProgress"), "6 is written when the rollout is over"),
        (able("NotSettled"), "6 is written when the pods have settled"),
        (able("Unschedulable"), "found nodes"),
        (able("TargetOwned"), "somebody else scales"),
        (able("RecommendOnly"), "would write 6"),
        (able("FailedGetScale"), "tries again every 10 s"),
        (able("InvalidSpec"), "until the object is edited"),
        (
            json!({"observedGeneration": 3, "conditions": [condition("ScalingActive", "False", "FailedGetMetrics", "")]}),
            "keeps its size until a metric is known",
        ),
        (json!({"observedGeneration": 3, "conditions": [condition("TargetOwned", "False", "TargetOwned", "")]}), "somebody else scales"),
        (json!({"observedGeneration": 3, "replicas": 9, "desiredReplicas": 4}), "The way to 4 replicas is taken in steps"),
        (settled(1, json!([])), "3 of 4 replicas are yet to become ready; a pod takes about 95 s"),
        (settled(4, json!([stage("stabilise", 2, 4, "ScaleDownStabilized", "")])), "the count goes to 2"),
        (settled(4, json!([])), "It stays so until a metric moves; the next look is within 15 s."),
        (held("held at 4 by the need 45 s ago, for 255 s more: load 2.0"), "It is held at 4 by the need 45 s ago, for 255 s more; after"),
        (
            held("held at 4 for 60 s more, as nothing shrinks: load 2.0"),
            "It is held at 4 for 60 s more, as nothing shrinks; after that it goes",
        ),
        (held("asks for 4 by the plan of 3 s ago: held at 4 for 60 s more: load"), "It is held at 4 for 60 s more; after that"),
        (held("held at 4 by the dead band of half a replica: load 2.0"), "It stays so until a metric moves"),
        (held("held at 4: no request has been seen yet"), "It stays so until a metric moves"),
    ] {
        let next = next(status);
        assert!(next.contains(words), "{next} has no {words:?}");
    }
}

#[test]
fn many_scalers_have_a_line_each() {
    let invalid = scaler(json!({}), json!({"conditions": [condition("Ready", "False", "InvalidSpec", "spec.metrics: x")]}));
    let accounts = [Account::of(&waiting()), Account::of(&invalid)];
    let mut out = vec![];
    print::table(&mut out, &accounts, "2026-01-01T00:05:00Z".parse().unwrap()).unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("SCALER        TARGET           BOUNDS  NOW  READY  WANTED  CHANGED"), "{text}");
    assert!(lines[1].contains("1-10    4    4      5       5 minutes ago  RolloutInProgress"), "{text}");
    assert!(lines[2].contains("never") && lines[2].ends_with("not ready: InvalidSpec"), "{text}");
    // What an object without a Ready of its own conditions cannot say otherwise is not left out.
    assert_eq!(accounts[1].states.len(), 1);
}
