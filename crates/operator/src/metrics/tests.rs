use std::time::Duration;

use llmscaler_engine::{
    Activation, Bounds, Law, Memory, Mode, Observation, Reading, Replicas, ScaleDown, Source, Spec, Target, Time, VictimOrder, Workload,
    decide,
};

use super::*;

const BOUNDS: Bounds = Bounds { min: Replicas::ONE, max: Replicas::new(10) };

pub(super) fn spec() -> Spec {
    let source = |name: &str| Source {
        name: name.to_owned(),
        law: Law::Ratio { target: Target::new(0.8).unwrap() },
        activation: Activation::ANY_LOAD,
        required: false,
    };
    Spec {
        bounds: BOUNDS,
        sources: vec![source("kv"), source("queue \"a\"")],
        sync_period: Duration::from_secs(15),
        scale_down: ScaleDown { window: Duration::ZERO, max_step: None, victims: VictimOrder::ColdestFirst },
        behavior: None,
        cooldown: Duration::ZERO,
        fallback: None,
        mode: Mode::Auto,
    }
}

pub(super) fn decision(kv: Reading) -> Decision {
    let workload = Workload { replicas: Replicas::new(4), ready: Replicas::new(4), ..Workload::default() };
    let seen = Observation { workload, readings: vec![kv, Reading::Idle], traffic: None };
    decide(&spec(), &seen, &Memory::default(), Time::default())
}

fn has(text: &str, line: &str) -> bool {
    text.lines().any(|found| found == line)
}

#[test]
fn a_decision_sets_the_gauges_and_is_counted() {
    let metrics = Metrics::new();
    metrics.decision("serving", "pool-a", &spec(), &decision(Reading::from_number(0.9)));
    metrics.decision("serving", "pool-a", &spec(), &decision(Reading::from_number(0.9)));
    let text = metrics.encode();
    for line in [
        "# TYPE llmscaler_spec_replicas gauge",
        r#"llmscaler_spec_replicas{namespace="serving",name="pool-a"} 4"#,
        r#"llmscaler_ready_replicas{namespace="serving",name="pool-a"} 4"#,
        r#"llmscaler_recommended_replicas{namespace="serving",name="pool-a"} 5"#,
        r#"llmscaler_desired_replicas{namespace="serving",name="pool-a"} 5"#,
        r#"llmscaler_replicas_difference{namespace="serving",name="pool-a"} 1"#,
        r#"llmscaler_min_replicas{namespace="serving",name="pool-a"} 1"#,
        r#"llmscaler_max_replicas{namespace="serving",name="pool-a"} 10"#,
        r#"llmscaler_recommend_only{namespace="serving",name="pool-a"} 0"#,
        r#"llmscaler_reading{namespace="serving",name="pool-a",metric="kv"} 0.9"#,
        r#"llmscaler_reading_target{namespace="serving",name="pool-a",metric="kv"} 0.8"#,
        r#"llmscaler_reading_replicas{namespace="serving",name="pool-a",metric="kv"} 5"#,
        r#"llmscaler_reading_known{namespace="serving",name="pool-a",metric="kv"} 1"#,
        r#"llmscaler_reading_known{namespace="serving",name="pool-a",metric="queue \"a\""} 1"#,
        r#"llmscaler_condition{namespace="serving",name="pool-a",type="ScalingActive"} 1"#,
        r#"llmscaler_condition{namespace="serving",name="pool-a",type="ScalingLimited"} 0"#,
        "# TYPE llmscaler_decisions_total counter",
        r#"llmscaler_decisions_total{namespace="serving",name="pool-a",reason="SuccessfulRescale"} 2"#,
    ] {
        assert!(has(&text, line), "{line}\n{text}");
    }
    assert!(text.contains(r#"llmscaler_reading{namespace="serving",name="pool-a",metric="queue \"a\""} 0.0"#), "{text}");
}

#[test]
fn who_only_recommends_says_so() {
    let metrics = Metrics::new();
    let spec = Spec { mode: Mode::Recommend, ..spec() };
    metrics.decision("serving", "pool-a", &spec, &decision(Reading::from_number(0.9)));
    assert!(has(&metrics.encode(), r#"llmscaler_recommend_only{namespace="serving",name="pool-a"} 1"#));
}

#[test]
fn conditions_are_those_of_the_status() {
    let metrics = Metrics::new();
    let told = || {
        let text = metrics.encode();
        let of_condition =
            text.lines().filter_map(|line| line.strip_prefix(r#"llmscaler_condition{namespace="serving",name="pool-a",type=""#));
        of_condition.map(|rest| rest.replace("\"}", "")).collect::<Vec<_>>()
    };
    let all = [("ScalingActive", Some(false)), ("HPAInStep", Some(true)), ("QueriesScoped", None), ("Ready", Some(false))];
    metrics.conditions("serving", "pool-a", all);
    assert_eq!(told(), ["ScalingActive 0", "HPAInStep 1", "Ready 0"]);
    // Until the status follows, what the decision says is news, and the rest goes on to hold.
    metrics.decision("serving", "pool-a", &spec(), &decision(Reading::from_number(0.9)));
    assert!(["ScalingActive 1", "HPAInStep 1", "Ready 0"].iter().all(|line| told().iter().any(|told| told == line)), "{:?}", told());
    metrics.conditions("serving", "pool-a", [("ScalingActive", Some(true)), ("Ready", Some(true))]);
    metrics.broken("serving", "pool-a", &["AbleToScale", "Ready"]);
    assert_eq!(told(), ["ScalingActive 1", "Ready 0", "AbleToScale 0"]);
}

#[test]
fn a_first_write_is_an_increase() {
    let metrics = Metrics::new();
    metrics.decision("serving", "pool-a", &spec(), &decision(Reading::from_number(0.9)));
    let text = metrics.encode();
    for outcome in WriteOutcome::ALL {
        let line = format!(r#"llmscaler_writes_total{{namespace="serving",name="pool-a",outcome="{}"}} 0"#, outcome.as_str());
        assert!(has(&text, &line), "{line}\n{text}");
    }
}

#[test]
fn an_unknown_reading_has_no_value() {
    let metrics = Metrics::new();
    metrics.decision("serving", "pool-a", &spec(), &decision(Reading::from_number(0.9)));
    metrics.decision("serving", "pool-a", &spec(), &decision(Reading::unknown("connection refused")));
    let text = metrics.encode();
    for series in ["llmscaler_reading", "llmscaler_reading_replicas"] {
        assert!(!text.contains(&format!(r#"{series}{{namespace="serving",name="pool-a",metric="kv"}}"#)), "{text}");
    }
    assert!(has(&text, r#"llmscaler_reading_known{namespace="serving",name="pool-a",metric="kv"} 0"#), "{text}");
}

#[test]
fn forget_removes_every_series_of_one_scaler_and_no_other() {
    let metrics = Metrics::new();
    for name in ["pool-a", "pool-b"] {
        metrics.decision("serving", name, &spec(), &decision(Reading::from_number(0.9)));
        metrics.write("serving", name, WriteOutcome::NotLeader);
        metrics.write("serving", name, WriteOutcome::Ok);
        metrics.source("serving", name, 0.2, false);
        metrics.sync_error("serving", name, "target_unreadable");
    }
    let both = metrics.encode();
    for line in [
        r#"llmscaler_writes_total{namespace="serving",name="pool-a",outcome="not_leader"} 1"#,
        r#"llmscaler_writes_total{namespace="serving",name="pool-a",outcome="ok"} 1"#,
        r#"llmscaler_source_failures_total{namespace="serving",name="pool-a"} 1"#,
        r#"llmscaler_sync_errors_total{namespace="serving",name="pool-a",kind="target_unreadable"} 1"#,
    ] {
        assert!(has(&both, line), "{line}\n{both}");
    }
    metrics.forget("serving", "pool-a");
    metrics.forget("serving", "never-seen");
    let one = metrics.encode();
    assert!(!one.contains("pool-a"), "{one}");
    let series = |text: &str, name: &str| text.lines().filter(|line| line.contains(name)).count();
    assert_eq!(series(&one, "pool-b"), series(&both, "pool-a"));
}

#[test]
fn who_no_longer_leads_tells_of_no_scaler() {
    let metrics = Metrics::new();
    metrics.leader(true);
    metrics.scalers(1);
    metrics.decision("serving", "pool-a", &spec(), &decision(Reading::from_number(0.9)));
    assert!(metrics.encode().contains("pool-a"));
    metrics.leader(false);
    let text = metrics.encode();
    assert!(!text.contains("pool-a"), "{text}");
    assert!(has(&text, "llmscaler_leader 0") && has(&text, "llmscaler_scalers 0"), "{text}");
}

#[test]
fn a_watch_that_fails_is_told_until_it_ends() {
    let metrics = Metrics::new();
    let (pods, fleets) = (Watched::new("pods", "serving"), Watched::new("deployments", "serving"));
    metrics.watch(&pods, true);
    metrics.watch(&fleets, false);
    let text = metrics.encode();
    assert!(has(&text, r#"llmscaler_watch_failing{resource="pods",namespace="serving"} 1"#), "{text}");
    assert!(has(&text, r#"llmscaler_watch_failing{resource="deployments",namespace="serving"} 0"#), "{text}");
    metrics.forget_watch(&pods);
    assert!(!metrics.encode().contains("pods"));
}

#[test]
fn the_process_tells_of_itself() {
    let metrics = Metrics::new();
    metrics.sync(Duration::from_millis(20), Duration::from_millis(300));
    metrics.source("serving", "pool-a", 0.03, true);
    metrics.leader(true);
    metrics.scalers(3);
    let text = metrics.encode();
    for line in [
        r#"llmscaler_sync_lateness_seconds_bucket{le="0.05"} 1"#,
        "llmscaler_sync_seconds_count 1",
        "llmscaler_source_seconds_count 1",
        r#"llmscaler_source_failures_total{namespace="serving",name="pool-a"} 0"#,
        "llmscaler_leader 1",
        "llmscaler_scalers 3",
    ] {
        assert!(has(&text, line), "{line}\n{text}");
    }
    assert!(text.contains("llmscaler_build_info{version=\""), "{text}");
    if cfg!(target_os = "linux") {
        let resident = text.lines().find_map(|line| line.strip_prefix("process_resident_memory_bytes ")).unwrap();
        assert!(resident.parse::<f64>().unwrap() > 1e6, "{resident}");
        assert!(text.contains("\nprocess_cpu_seconds_total "), "{text}");
    }
}

#[test]
fn many_scalers_are_counted_at_once_without_loss() {
    let metrics = Metrics::new();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let metrics = metrics.clone();
            scope.spawn(move || {
                for i in 0..1000 {
                    metrics.write("serving", "shared", WriteOutcome::Ok);
                    metrics.write(&format!("ns-{thread}"), &format!("pool-{i}"), WriteOutcome::Ok);
                }
            });
        }
    });
    let text = metrics.encode();
    assert!(has(&text, r#"llmscaler_writes_total{namespace="serving",name="shared",outcome="ok"} 4000"#));
    assert_eq!(text.lines().filter(|line| line.starts_with("llmscaler_writes_total{")).count(), 4001 * WriteOutcome::ALL.len());
}
