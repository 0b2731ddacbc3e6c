//! A fleet that follows what is written.

use serde_json::{Value, json};

use crate::running::{custom, decide, refused};

/// (spec, ready) at each tick, for the counts that a decision server asks for.
fn sizes(workload: Value, spec: Value, asked: &[(u32, u32)]) -> Vec<(u64, u64)> {
    let ticks: Vec<Value> = asked.iter().map(|(at, count)| json!({"at": at, "readings": {"decision": {"value": count}}})).collect();
    let answers = decide(&json!({"scaler": custom(spec), "workload": workload, "ticks": ticks}));
    answers.iter().map(|answer| (answer["replicas"].as_u64().unwrap(), answer["ready"].as_u64().unwrap())).collect()
}

#[test]
fn new_replicas_are_ready_after_the_warm_up() {
    let seen = sizes(json!({"replicas": 2, "warmupSeconds": 100}), json!({}), &[(0, 4), (15, 6), (99, 6), (100, 6), (114, 6), (115, 6)]);
    assert_eq!(seen, [(2, 2), (4, 2), (6, 2), (6, 4), (6, 4), (6, 6)]);
}

#[test]
fn without_a_warm_up_they_are_ready_at_the_next_tick() {
    assert_eq!(sizes(json!({"replicas": 2}), json!({}), &[(0, 4), (15, 1), (30, 1)]), [(2, 2), (4, 4), (1, 1)]);
}

#[test]
fn a_fleet_that_warms_up_does_not_shrink() {
    let seen = sizes(json!({"replicas": 2, "warmupSeconds": 60}), json!({}), &[(0, 4), (15, 1), (60, 1), (75, 1)]);
    assert_eq!(seen, [(2, 2), (4, 2), (4, 4), (1, 1)]);
}

#[test]
fn what_never_gets_ready_is_removable_after_its_grace() {
    let seen = sizes(json!({"replicas": 2, "warmupSeconds": 9000}), json!({}), &[(0, 4), (600, 1), (601, 1), (616, 1), (631, 1)]);
    assert_eq!(seen, [(2, 2), (4, 2), (4, 2), (2, 2), (1, 1)]);
}

#[test]
fn the_step_cap_walks_the_fleet_down() {
    let spec = json!({"scaleDown": {"maxStepReplicas": 2}, "maxReplicas": 20});
    assert_eq!(
        sizes(json!({"replicas": 10}), spec, &[(0, 1), (15, 1), (30, 1), (45, 1), (60, 1), (75, 1)]),
        [(10, 10), (8, 8), (6, 6), (4, 4), (2, 2), (1, 1)]
    );
}

#[test]
fn recommend_mode_leaves_the_fleet_alone() {
    assert_eq!(sizes(json!({"replicas": 2}), json!({"mode": "Recommend"}), &[(0, 4), (15, 1)]), [(2, 2), (2, 2)]);
}

#[test]
fn a_target_that_is_shown_is_followed_from_there() {
    let asked = json!({"decision": {"value": 7}});
    let ticks = json!([
        {"at": 0, "readings": asked},
        {"at": 15, "target": {"replicas": 6, "readyReplicas": 3}, "readings": asked},
        {"at": 30, "readings": asked},
        {"at": 75, "readings": asked},
    ]);
    let answers = decide(&json!({"scaler": custom(json!({})), "workload": {"replicas": 2, "warmupSeconds": 60}, "ticks": ticks}));
    let seen: Vec<_> = answers.iter().map(|a| (a["replicas"].as_u64().unwrap(), a["ready"].as_u64().unwrap())).collect();
    assert_eq!(seen, [(2, 2), (6, 3), (7, 3), (7, 7)]);
}

#[test]
fn a_shown_target_does_not_follow() {
    let tick = |at: u32| json!({"at": at, "target": {"replicas": 2}, "readings": {"decision": {"value": 4}}});
    let answers = decide(&json!({"scaler": custom(json!({})), "ticks": [tick(0), tick(15)]}));
    assert!(answers.iter().all(|answer| answer["replicas"] == 2 && answer["write"] == 4));
}

#[test]
fn there_must_be_a_fleet() {
    let ticks = json!([{"at": 0, "target": {"replicas": 2}}, {"at": 15}]);
    let (field, error) = refused(&json!({"scaler": custom(json!({})), "ticks": ticks}));
    assert_eq!(field, "ticks[1]");
    assert!(error.contains("target: {replicas: …}") && error.contains("workload: {replicas: …}"), "{error}");
}

#[test]
fn the_pods_of_a_followed_fleet_have_no_names() {
    let ticks = json!([{"at": 0, "readings": {"decision": {"value": 1}}}]);
    let answer = decide(&json!({"scaler": custom(json!({})), "workload": {"replicas": 3}, "ticks": ticks})).pop().unwrap();
    assert_eq!((answer["write"].as_u64(), &answer["victims"]), (Some(1), &json!([])));
}
