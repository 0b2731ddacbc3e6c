use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use kube::core::error_boundary::InvalidObject;
use llmscaler_engine::{Memory, Observation, Reading, Workload, decide};

use super::*;
use crate::fake_api;

fn scaler(status: serde_json::Value) -> LLMScaler {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "fleet"});
    let spec = json!({"targetRef": target, "minReplicas": 1, "maxReplicas": 2});
    serde_json::from_value(json!({"metadata": {"name": "fleet", "namespace": "serving"}, "spec": spec, "status": status})).unwrap()
}

/// A decision on what a query says, of a scaler with such a target.
fn decided() -> Decision {
    let mut spec = scaler(json!({})).spec;
    spec.slo = serde_json::from_value(json!({"saturationQuery": "s"})).unwrap();
    spec.server_address = Some("http://prometheus:9090".to_owned());
    let spec = LLMScaler::new("fleet", spec).parse().unwrap().spec;
    let seen = Observation { workload: Workload::default(), readings: vec![Reading::from_number(0.5)], traffic: None };
    decide(&spec, &seen, &Memory::default(), Time::default())
}

fn conclusion(decision: &Decision, warmup: Option<WarmupStatus>) -> Conclusion<'_> {
    Conclusion { decision, written: None, warmup, scoped: None }
}

/// An API server that counts events and keeps the statuses that it takes.
struct Heard {
    events: AtomicUsize,
    statuses: Mutex<Vec<serde_json::Value>>,
    refuses: AtomicBool,
}

fn heard() -> (Arc<Heard>, Context) {
    let heard = Arc::new(Heard { events: AtomicUsize::new(0), statuses: Mutex::default(), refuses: AtomicBool::new(false) });
    let server = heard.clone();
    let client = fake_api::client(move |asked| {
        if asked.path.contains("/events") {
            server.events.fetch_add(1, Ordering::Relaxed);
            return Some((201, asked.body));
        }
        if asked.method == "GET" {
            return Some((200, json!({"metadata": {"name": "fleet"}, "status": {}})));
        }
        if server.refuses.load(Ordering::Relaxed) {
            return fake_api::refusal(500, "InternalError", "etcdserver: request timed out");
        }
        server.statuses.lock().unwrap().push(asked.body["status"].clone());
        Some((200, json!({"metadata": {"name": "fleet"}, "spec": scaler(json!({})).spec})))
    });
    (heard, fake_api::context(client))
}

fn conditions(status: &serde_json::Value) -> Vec<[&str; 3]> {
    let all = status["conditions"].as_array().unwrap();
    all.iter().map(|condition| ["type", "status", "reason"].map(|key| condition[key].as_str().unwrap())).collect()
}

#[tokio::test]
async fn what_was_said_is_not_said_again_because_the_status_could_not_be_written() {
    let (heard, context) = heard();
    heard.refuses.store(true, Ordering::Relaxed);
    let scaler = scaler(json!({}));
    let mut reporter = Reporter::new(&scaler);
    for _ in 0..5 {
        reporter.trouble(&context, &scaler, Trouble::FailedGetScale, "pods is forbidden").await;
    }
    assert_eq!(heard.events.load(Ordering::Relaxed), 1);
    heard.refuses.store(false, Ordering::Relaxed);
    for _ in 0..2 {
        reporter.trouble(&context, &scaler, Trouble::FailedGetScale, "pods is forbidden").await;
    }
    assert_eq!((heard.events.load(Ordering::Relaxed), heard.statuses.lock().unwrap().len()), (1, 1), "written once it can be");
}

#[tokio::test]
async fn what_nothing_is_said_of_any_more_leaves_the_status() {
    let (heard, context) = heard();
    let old =
        json!({"type": "ModelOff", "status": "True", "reason": "ModelOff", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let scaler = scaler(json!({"conditions": [old], "warmup": {"seconds": 90, "samples": 1}}));
    let decision = decided();
    let warmup = Some(WarmupStatus { seconds: 135, samples: 2 });
    Reporter::new(&scaler).decision(&context, &scaler, conclusion(&decision, warmup)).await;
    let statuses = heard.statuses.lock().unwrap();
    let kinds: Vec<&str> = conditions(&statuses[0]).iter().map(|[kind, ..]| *kind).collect();
    assert_eq!(kinds, ["ScalingActive", "AbleToScale", "ScalingLimited", "CapacityAvailable", "TargetOwned", "Ready"]);
    assert_eq!(statuses[0]["warmup"], json!({"seconds": 135, "samples": 2}));
}

#[tokio::test]
async fn the_metrics_have_the_conditions_of_the_status() {
    let (_, context) = heard();
    let scaler = scaler(json!({}));
    let decision = decided();
    let holds = |kind: &str| {
        let of_kind = format!(r#"llmscaler_condition{{namespace="serving",name="fleet",type="{kind}"}} "#);
        context.metrics.encode().lines().find_map(|line| line.strip_prefix(&of_kind).map(ToOwned::to_owned))
    };
    let reflected = |kind, status| Said { kind, status, reason: "R".into(), message: String::new() };
    let mut reporter = Reporter::new(&scaler);
    reporter.reflection = Some(Reflection {
        desired: None,
        conditions: vec![reflected("HPAInStep", Some(false)), reflected("AbleToScale", None)],
        trouble: Some(("APIServiceFailed".to_owned(), String::new())),
    });
    reporter.decision(&context, &scaler, conclusion(&decision, None)).await;
    let (yes, no) = (Some("1".to_owned()), Some("0".to_owned()));
    assert_eq!((holds("HPAInStep"), holds("Ready"), holds("ScalingActive")), (no.clone(), no.clone(), yes.clone()));
    assert_eq!(holds("AbleToScale"), None, "unknown is not false");
    reporter.reflection = None;
    reporter.decision(&context, &scaler, conclusion(&decision, None)).await;
    assert_eq!((holds("HPAInStep"), holds("Ready")), (None, yes.clone()));
    reporter.trouble(&context, &scaler, Trouble::TargetMissing, "there is no Deployment fleet").await;
    assert_eq!((holds("Ready"), holds("AbleToScale"), holds("ScalingActive")), (no.clone(), no, yes));
    let errors = r#"llmscaler_sync_errors_total{namespace="serving",name="fleet",kind="TargetMissing"} 1"#;
    assert!(context.metrics.encode().lines().any(|line| line == errors));
}

#[tokio::test]
async fn nothing_holds_on_an_object_that_cannot_be_used() {
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": "ValidMetricFound", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let (heard, context) = heard();
    let scaler = scaler(json!({"conditions": [condition("ScalingActive"), condition("AbleToScale"), condition("Ready")]}));
    Reporter::new(&scaler).trouble(&context, &scaler, Trouble::InvalidSpec, "spec.metrics: write one").await;
    unreadable(&context, &InvalidObject { error: "expected a number".to_owned(), metadata: scaler.metadata.clone() }).await;
    let statuses = heard.statuses.lock().unwrap();
    for status in statuses.iter() {
        let invalid = |kind| [kind, "False", "InvalidSpec"];
        assert_eq!(conditions(status), [invalid("ScalingActive"), invalid("AbleToScale"), invalid("Ready")]);
    }
    assert_eq!((statuses.len(), heard.events.load(Ordering::Relaxed)), (2, 2), "one event each is enough");
}

#[test]
fn a_restart_takes_the_fleet_for_active_as_long_as_it_may_have_been() {
    let reporter = Reporter::new(&scaler(json!({"lastActiveTime": "2026-01-01T00:00:10Z"})));
    let at = |text: &str| Clock::time_of(text.parse().unwrap());
    let last = |now: &str| reporter.last_active(at(now)).unwrap();
    assert_eq!(last("2026-01-01T00:00:20Z"), at("2026-01-01T00:00:20Z"), "not in the future");
    assert_eq!(last("2026-01-01T00:05:00Z"), at("2026-01-01T00:00:39.999Z"));
    // The next status that is written for this alone.
    assert!(Clock::timestamp_of(last("2026-01-01T00:05:00Z")) < "2026-01-01T00:00:40Z".parse().unwrap());
    assert_eq!(Reporter::new(&scaler(json!({}))).last_active(at("2026-01-01T00:05:00Z")), None);
}

#[test]
fn who_took_back_sizes_is_known_after_a_restart_unless_the_scaler_was_edited() {
    let taker = |status: &str, reason: &str, message: &str, generation: i64| {
        let condition = json!({"type": "TargetOwned", "status": status, "reason": reason, "message": message,
            "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let mut scaler = scaler(json!({"conditions": [condition]}));
        scaler.metadata.generation = Some(2);
        Reporter::new(&scaler).taker().map(|taker| taker.manager)
    };
    let message = "helm keeps setting spec.replicas of Deployment fleet back; take replicas out of the chart's template";
    assert_eq!(taker("False", "TargetOwned", message, 2).as_deref(), Some("helm"));
    assert_eq!(taker("False", "TargetOwned", message, 1), None);
    assert_eq!(taker("False", "TargetOwned", "LLMScaler two scales Deployment fleet too; delete one of them", 2), None);
    assert_eq!(taker("False", "RecommendOnly", message, 2), None);
    assert_eq!(taker("True", "OnlyOwner", message, 2), None);
}
