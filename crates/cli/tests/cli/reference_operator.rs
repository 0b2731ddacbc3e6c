//! What the Go operator of this API answers, and where ours differs. `docs/compatibility.md` names these tests.

use serde_json::{Value, json};

use crate::running::{bounds, custom, decide, left, merged, metric, once, refused, samples, scaler, tick};

/// A scaler with one metric of this target.
fn ratio(target: &str, min: u32, max: u32) -> Value {
    scaler(merged(bounds(min, max), json!({"metrics": [metric("m", target)]})))
}

/// What one value of the metric leaves of a fleet.
fn after(scaler: Value, replicas: u32, ready: u32, value: f64) -> u64 {
    left(&once(scaler, tick(0, replicas, ready, json!({"m": {"value": value}}))))
}

/// The reading of a raw answer.
fn read(scaler: &Value, source: &str, status: u16, body: &str) -> (String, String, Option<f64>) {
    let response = json!({"response": {"status": status, "body": body}});
    let answer = once(scaler.clone(), tick(0, 8, 8, json!({source: response})));
    let said = &answer["readings"][0];
    let text = |key: &str| said[key].as_str().unwrap_or_default().to_owned();
    (text("state"), text("message"), said["value"].as_f64())
}

/// A sync at `at` of a fleet of ten with that memory; a decision server asks for `count`, and nothing is written.
fn stabilised(window: u32, syncs: &[(u32, u32)]) -> Vec<u64> {
    let scaler = custom(json!({"mode": "Recommend", "scaleDown": {"stabilizationWindowSeconds": window}, "minReplicas": 0}));
    let ticks: Vec<Value> = syncs.iter().map(|(at, count)| tick(*at, 5, 5, json!({"decision": {"value": count}}))).collect();
    let answers = decide(&json!({"scaler": scaler, "memory": {"recommendations": []}, "ticks": ticks}));
    answers.iter().map(|answer| answer["desired"].as_u64().unwrap()).collect()
}

#[test]
fn targets() {
    for text in ["5", "0.8", "  2.5 ", ".5", "+0.8", "1e-3"] {
        once(ratio(text, 1, 5), tick(0, 1, 1, json!({})));
    }
    for text in ["80%", "80 %", "0", "-1", "NaN", "+Inf", "abc", "", "1_000", "1e400"] {
        let (field, error) = refused(&json!({"scaler": ratio(text, 1, 5), "ticks": [tick(0, 1, 1, json!({}))]}));
        assert_eq!(field, "spec.metrics[0].target", "{text}: {error}");
    }
}

#[test]
fn one_series_and_no_other_number() {
    let scaler = ratio("1", 1, 100);
    assert_eq!(read(&scaler, "m", 200, &samples(&["1.5"])).2, Some(1.5));
    let (state, message, _) = read(&scaler, "m", 200, &samples(&[]));
    assert!(state == "Unknown" && message.contains("no data"), "{message}");
    let series = |backend: &str, value: &str| json!({"metric": {"model": "qwen", "backend": backend}, "value": [1, value]});
    let two = json!({"status": "success", "data": {"result": [series("10.0.0.2:8000", "9"), series("10.0.0.1:8000", "1")]}});
    let (state, message, _) = read(&scaler, "m", 200, &two.to_string());
    assert_eq!(state, "Unknown");
    let labels = ["{backend=\"10.0.0.1:8000\", model=\"qwen\"}", "{backend=\"10.0.0.2:8000\", model=\"qwen\"}"];
    for part in ["2 series", labels[0], labels[1], "avg("] {
        assert!(message.contains(part), "{part} is missing in {message}");
    }
    let malformed = json!({"status": "success", "data": {"result": [{"value": [1, "x"]}, {"value": [1, "4"]}]}});
    assert_eq!(read(&scaler, "m", 200, &malformed.to_string()).2, Some(4.0), "what is malformed is dropped before counting");
}

#[test]
fn values_that_are_not_finite_hold() {
    for value in ["NaN", "+Inf", "-Inf"] {
        let response = json!({"response": {"body": samples(&[value])}});
        let answer = once(ratio("2", 0, 10), tick(0, 4, 4, json!({"m": response})));
        assert_eq!((answer["readings"][0]["state"].as_str(), left(&answer)), (Some("Unknown"), 4), "{value}");
    }
}

#[test]
fn from_zero() {
    assert_eq!(after(ratio("0.5", 0, 5), 0, 0, 0.85), 2);
    assert_eq!(after(ratio("0.5", 0, 5), 0, 0, 0.0), 0);
}

#[test]
fn the_step_cap() {
    for (current, desired, cap, expected) in [(10, 1, 0, 1), (10, 1, 2, 8), (10, 9, 2, 9), (10, 8, 2, 8), (2, 10, 1, 10), (5, 5, 1, 5)] {
        let scaler = custom(json!({"scaleDown": {"maxStepReplicas": cap}}));
        let answer = once(scaler, tick(0, current, current, json!({"decision": {"value": desired}})));
        assert_eq!(left(&answer), expected, "{current} to {desired} by {cap}");
    }
}

#[test]
fn the_window() {
    assert_eq!(stabilised(60, &[(0, 5), (10, 1), (61, 1), (61, 9)]), [5, 5, 1, 9]);
    assert_eq!(stabilised(300, &[(0, 8), (301, 1)]), [8, 1]);
    assert_eq!(stabilised(0, &[(0, 6), (1, 1)]), [6, 1], "no window");
}

#[test]
fn the_window_starts_again_after_a_downward_write() {
    let scaler = custom(json!({"scaleDown": {"stabilizationWindowSeconds": 300, "maxStepReplicas": 2}}));
    let asked = [(0, 8), (301, 1), (311, 1), (400, 1), (600, 1), (601, 1), (710, 9)];
    let ticks: Vec<Value> = asked.iter().map(|(at, count)| json!({"at": at, "readings": {"decision": {"value": count}}})).collect();
    let answers = decide(&json!({"scaler": scaler, "workload": {"replicas": 8}, "memory": {"recommendations": []}, "ticks": ticks}));
    let seen: Vec<_> = answers.iter().map(|answer| (answer["desired"].as_u64().unwrap(), left(answer))).collect();
    assert_eq!(seen, [(8, 8), (1, 6), (6, 6), (6, 6), (6, 6), (1, 4), (9, 9)]);
}

#[test]
fn replies_of_a_decision_server() {
    const SCHEMA: &str = "llmscaling.inference.x-k8s.io/v1alpha1";
    let decision =
        |namespace: &str, service: &str, count: i64| json!({"namespace": namespace, "serviceId": service, "replicas": {"active": count}});
    let reply = |decisions: Value| json!({"apiVersion": SCHEMA, "decisions": decisions}).to_string();
    let in_namespace = |namespace: &str| custom(json!({"maxReplicas": 20, "customProvider": {"serviceId": "svc", "namespace": namespace}}));

    for (namespace, decisions, count) in [
        ("", json!([decision("modelforge", "svc", 15)]), 15.0),
        ("", json!([decision("modelforge", "svc", 0)]), 0.0),
        ("modelforge", json!([decision("staging", "svc", 2), decision("modelforge", "svc", 7)]), 7.0),
        // One that is malformed is the affair of its own service; the Go operator refuses the whole reply.
        ("", json!([decision("", "svc", 3), {"serviceId": "other", "replicas": {"active": "many"}}]), 3.0),
    ] {
        assert_eq!(read(&in_namespace(namespace), "decision", 200, &reply(decisions.clone())).2, Some(count), "{decisions}");
    }
    for (namespace, body, words) in [
        ("", reply(json!([{"serviceId": "svc", "replicas": {}}])), "no active count"),
        ("", reply(json!([decision("", "svc", -1)])), "out of range"),
        ("", reply(json!([decision("", "svc", 4_294_967_296)])), "out of range"),
        (
            "",
            json!({"apiVersion": "llmscaling.inference.x-k8s.io/v2", "decisions": [decision("", "svc", 1)]}).to_string(),
            "unsupported schema",
        ),
        ("", json!({"decisions": [decision("", "svc", 1)]}).to_string(), "unsupported schema"),
        ("", reply(json!([])), "svc"),
        ("", reply(json!([decision("modelforge", "other", 9)])), "no decision for serviceId \"svc\""),
        ("", reply(json!([decision("staging", "svc", 2), decision("modelforge", "svc", 7)])), "2 decisions match"),
        ("modelforge", reply(json!([decision("staging", "svc", 2)])), "modelforge"),
        ("", "<html>sign in</html>".to_owned(), "decode"),
    ] {
        let (state, message, _) = read(&in_namespace(namespace), "decision", 200, &body);
        assert!(state == "Unknown" && message.contains(words), "{words} is missing in {message}");
    }
    let (state, message, _) = read(&in_namespace(""), "decision", 503, &reply(json!([decision("", "svc", 5)])));
    assert!(state == "Unknown" && message.contains("503"), "{message}");
    for spec in [json!({"serverAddress": ""}), json!({"customProvider": {"serviceId": ""}})] {
        let (field, _) = refused(&json!({"scaler": custom(spec), "ticks": [tick(0, 1, 1, json!({}))]}));
        assert!(["spec.serverAddress", "spec.customProvider.serviceId"].contains(&field.as_str()), "{field}");
    }
}

#[test]
fn decisions_go_through_the_bounds() {
    for (reading, min, max, expected) in [
        (json!({"value": 15}), 1, 20, 15),
        (json!({"value": 15}), 1, 5, 5),
        (json!({"value": 0}), 2, 20, 2),
        (json!({"response": {"body": "{\"apiVersion\":\"v2\"}"}}), 1, 20, 8),
        (json!({"unknown": "connection refused"}), 1, 20, 8),
    ] {
        let answer = once(custom(bounds(min, max)), tick(0, 8, 8, json!({"decision": reading})));
        assert_eq!(left(&answer), expected, "{reading} in {min}..{max}");
    }
    assert_eq!(after(ratio("0.8", 1, 20), 4, 4, 1.6), 8, "the default provider is Prometheus");
}

#[test]
fn whole_syncs() {
    for (name, min, replicas, ready, value, target, expected) in [
        ("scale up", 1, 1, 1, 0.85, json!({}), 2),
        ("rolling out", 1, 1, 1, 0.85, json!({"updatedReplicas": 0}), 1),
        ("spec not yet observed", 1, 1, 1, 0.85, json!({"generation": 2, "observedGeneration": 1}), 1),
        ("older pods remain", 1, 1, 1, 0.85, json!({"statusReplicas": 2, "updatedReplicas": 1}), 1),
        ("idle", 1, 5, 5, 0.0, json!({}), 1),
        ("idle, min 0", 0, 2, 2, 0.0, json!({}), 0),
        ("wake", 0, 0, 0, 0.85, json!({}), 2),
        ("not settled", 1, 5, 3, 0.0, json!({}), 5),
        ("settled", 1, 5, 5, 0.0, json!({}), 1),
        ("up while unsettled", 1, 3, 2, 0.85, json!({"terminatingReplicas": 1}), 4),
    ] {
        let shown = merged(json!({"replicas": replicas, "readyReplicas": ready}), target);
        let answer = once(ratio("0.5", min, 5), json!({"at": 0, "target": shown, "readings": {"m": {"value": value}}}));
        assert_eq!(left(&answer), expected, "{name}");
    }
    assert_eq!(left(&once(custom(json!({})), tick(0, 1, 1, json!({"decision": {"value": 4}})))), 4);
    assert_eq!(left(&once(custom(json!({})), tick(0, 3, 3, json!({"decision": {"unknown": "down"}})))), 3);
}

#[test]
fn the_pin_and_the_step_cap_over_two_syncs() {
    let walk = |scale_down: Value| {
        let spec = merged(bounds(1, 5), json!({"metrics": [metric("m", "0.5")], "scaleDown": scale_down}));
        let ticks: Vec<Value> = [0, 15].iter().map(|at| json!({"at": at, "readings": {"m": {"value": 0}}})).collect();
        let document = json!({"scaler": scaler(spec), "workload": {"replicas": 5}, "memory": {"recommendations": []}, "ticks": ticks});
        decide(&document).iter().map(|answer| (answer["desired"].as_u64().unwrap(), left(answer))).collect::<Vec<_>>()
    };
    assert_eq!(walk(json!({"maxStepReplicas": 2, "stabilizationWindowSeconds": 300})), [(1, 3), (3, 3)]);
    assert_eq!(walk(json!({"maxStepReplicas": 2})), [(1, 3), (1, 1)], "the status shows the destination");
}

#[test]
fn held_is_held_within_the_bounds() {
    for (replicas, expected) in [(9, 5), (0, 1), (3, 3)] {
        let answer = once(ratio("1", 1, 5), tick(0, replicas, replicas, json!({"m": {"unknown": "down"}})));
        assert_eq!(left(&answer), expected);
    }
    assert_eq!(after(ratio("1", 0, 0), 3, 3, 2.0), 0, "maxReplicas 0 pins at zero");
}

#[test]
fn unknown_beside_known() {
    let two = scaler(json!({"metrics": [metric("a", "2"), metric("b", "1")]}));
    let readings = json!({"a": {"value": "NaN"}, "b": {"value": 0.5}});
    assert_eq!(left(&once(two.clone(), tick(0, 4, 4, readings))), 2);
    let readings = json!({"a": {"value": "NaN"}, "b": {"unknown": "down"}});
    assert_eq!(left(&once(two, tick(0, 4, 4, readings))), 4);
}

#[test]
fn an_outage_counts_as_wanting_the_current_size() {
    let scaler = scaler(json!({"scaleDown": {"stabilizationWindowSeconds": 180}}));
    let value = |value: f64| json!({"m": {"value": value}});
    let seen = [
        (0, value(1.0)),
        (15, value(0.0)),
        (100, json!({"m": {"unknown": "down"}})),
        (180, value(0.0)),
        (279, value(0.0)),
        (280, value(0.0)),
    ];
    let ticks: Vec<Value> = seen.iter().map(|(at, readings)| tick(*at, 5, 5, readings.clone())).collect();
    let sizes: Vec<u64> = decide(&json!({"scaler": scaler, "ticks": ticks})).iter().map(left).collect();
    assert_eq!(sizes, [5, 5, 5, 5, 5, 1]);
}

// From here on: where ours differs on purpose.

#[test]
fn differs_min_above_max_is_refused() {
    let (field, error) = refused(&json!({"scaler": ratio("1", 5, 2), "ticks": [tick(0, 3, 3, json!({}))]}));
    assert_eq!(field, "spec.minReplicas");
    assert!(error.contains("maxReplicas"), "{error}");
}

#[test]
fn differs_a_negative_value_is_unknown() {
    assert_eq!(after(ratio("1", 1, 5), 4, 4, -3.0), 4, "Go: 1");
}

#[test]
fn differs_a_huge_value_saturates() {
    assert_eq!(after(ratio("0.5", 1, 5), 4, 4, 1e12), 5, "Go on amd64: 1");
}

#[test]
fn differs_none_ready_is_none_ready() {
    let answer = once(ratio("0.5", 0, 12), tick(0, 2, 0, json!({"m": {"value": 0.85}})));
    assert_eq!((left(&answer), answer["ready"].as_u64()), (2, Some(0)), "Go: 4, and currentReplicas 2");
    assert_eq!(after(ratio("0.5", 1, 12), 4, 0, 0.0), 4, "Go: 1, its settle guard being blind");
}

#[test]
fn differs_a_cold_start_does_not_run_away() {
    let ticks: Vec<Value> = (0..4).map(|index| json!({"at": index * 15, "readings": {"m": {"value": 0.85}}})).collect();
    let document = json!({"scaler": ratio("0.5", 0, 12), "workload": {"replicas": 0, "warmupSeconds": 300}, "ticks": ticks});
    let sizes: Vec<u64> = decide(&document).iter().map(left).collect();
    assert_eq!(sizes, [2, 2, 2, 2], "Go: 2, 4, 7, 12");
}

#[test]
fn differs_a_stuck_surplus_does_not_block_forever() {
    let shrink = |max: u32, unready_for: u32| {
        let pods: Vec<Value> =
            (0..10).map(|index| json!({"name": format!("p{index}"), "ageSeconds": 900, "ready": index < 8, "unreadySeconds": if index < 8 { 0 } else { unready_for }})).collect();
        let target = json!({"replicas": 10, "pods": pods});
        let answer = once(ratio("1", 1, max), json!({"at": 0, "target": target, "readings": {"m": {"value": 0.1}}}));
        (left(&answer), answer["victims"].as_array().unwrap().len())
    };
    assert_eq!(shrink(10, 600), (10, 0), "a replica may take ten minutes");
    assert_eq!(shrink(10, 601), (8, 2), "Go: deferred as long as they are there");
    assert_eq!(shrink(4, 5).0, 4, "Go: stays at 10, above the maximum");
    let starting = once(ratio("1", 1, 10), tick(0, 10, 4, json!({"m": {"value": 0.9}})));
    assert_eq!((left(&starting), starting["desired"].as_u64()), (10, Some(4)), "as in Go");
}

#[test]
fn differs_draining_pods_are_waited_for() {
    let draining = |terminating: u32| {
        let target = json!({"replicas": 5, "terminatingReplicas": terminating});
        left(&once(ratio("0.5", 1, 5), json!({"at": 0, "target": target, "readings": {"m": {"value": 0}}})))
    };
    assert_eq!([draining(2), draining(0)], [5, 1], "Go with its switch off: 1 and 1");
    let pods = json!([{"name": "a"}, {"name": "b"}, {"name": "gone", "terminating": true}]);
    let answer = once(ratio("0.5", 1, 5), json!({"at": 0, "target": {"replicas": 2, "pods": pods}, "readings": {"m": {"value": 0}}}));
    assert_eq!((left(&answer), answer["reason"].as_str()), (2, Some("NotSettled")));
}

#[test]
fn differs_a_failed_rollout_is_not_waited_for() {
    let shown = |gave_up: bool| {
        let target = json!({"replicas": 2, "updatedReplicas": 1, "statusReplicas": 3, "progressDeadlineExceeded": gave_up});
        left(&once(ratio("1", 1, 10), json!({"at": 0, "target": target, "readings": {"m": {"value": 2}}})))
    };
    assert_eq!([shown(false), shown(true)], [2, 4], "Go: 2 and 2");
}

#[test]
fn differs_a_stateful_set_has_a_rollout_guard() {
    let target = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "chat"});
    let scaler = scaler(json!({"targetRef": target}));
    let tick = json!({"at": 0, "target": {"replicas": 2, "updatedReplicas": 1}, "readings": {"m": {"value": 2}}});
    let answer = once(scaler, tick);
    assert_eq!((left(&answer), answer["reason"].as_str()), (2, Some("RolloutInProgress")), "Go: 4");
}

#[test]
fn differs_a_lower_maximum_acts_at_once() {
    let scaled = |max: u32| ratio("1", 1, max);
    let window = |scaler: Value| {
        let mut scaler = scaler;
        scaler["spec"]["scaleDown"] = json!({"stabilizationWindowSeconds": 180});
        scaler
    };
    let readings = json!({"m": {"value": 1}});
    let before = once(window(scaled(10)), tick(0, 10, 10, readings.clone()));
    let document = json!({"scaler": window(scaled(4)), "memory": before["memory"], "ticks": [tick(15, 10, 10, readings)]});
    assert_eq!((left(&before), left(&decide(&document)[0])), (10, 4), "Go: 10 until the window has passed");
}

#[test]
fn differs_a_window_never_raises() {
    let spec = json!({"scaleDown": {"stabilizationWindowSeconds": 180}});
    let rolling = json!({"at": 0, "target": {"replicas": 3, "updatedReplicas": 1}, "readings": {"m": {"value": 3}}});
    let answers = decide(&json!({"scaler": scaler(spec), "ticks": [rolling, tick(60, 3, 3, json!({"m": {"value": 0.5}}))]}));
    assert_eq!(answers.iter().map(left).collect::<Vec<_>>(), [3, 3], "Go: the peak of 9 is written at 60 s");

    let pinned = json!({"recommendations": [{"at": -10, "replicas": 6}]});
    let spec = json!({"scaleDown": {"stabilizationWindowSeconds": 300}});
    let answer =
        decide(&json!({"scaler": scaler(spec), "memory": pinned, "ticks": [tick(0, 2, 2, json!({"m": {"value": 0}}))]})).pop().unwrap();
    assert_eq!(left(&answer), 2, "Go: a shrink by hand is undone, 6");
}

#[test]
fn differs_a_restart_never_shrinks_early() {
    let scaler = scaler(json!({"scaleDown": {"stabilizationWindowSeconds": 300, "maxStepReplicas": 2}}));
    let ticks: Vec<Value> = [0, 15, 299, 300, 599, 600].iter().map(|at| json!({"at": at, "readings": {"m": {"value": 0}}})).collect();
    let sizes: Vec<u64> = decide(&json!({"scaler": scaler, "workload": {"replicas": 8}, "ticks": ticks})).iter().map(left).collect();
    assert_eq!(sizes, [8, 8, 8, 6, 6, 4], "Go: 6 at once, 4 at 300 s");
}

#[test]
fn differs_rounding_noise_changes_nothing() {
    for (ready, value, target, exact) in
        [(3, 0.2, "0.2", 3), (3, 0.1, "0.3", 1), (3, 0.8, "0.1", 24), (2, 1.05, "0.3", 7), (2, 1.05, "0.7", 3)]
    {
        assert_eq!(after(ratio(target, 1, 100), ready, ready, value), exact, "{ready} x {value} / {target}");
    }
    assert_eq!(after(ratio("0.8", 1, 10), 4, 4, 0.81), 5, "as in Go, there is no tolerance unless behavior is there");
}

#[test]
fn differs_victims_are_chosen_among_the_pods_that_stay_and_serve() {
    let pods = json!([
        {"name": "old", "ageSeconds": 900},
        {"name": "new", "ageSeconds": 30},
        {"name": "broken", "ageSeconds": 700, "ready": false, "unreadySeconds": 700},
        {"name": "pending", "ageSeconds": 800, "unschedulable": true},
    ]);
    let tick = json!({"at": 0, "target": {"replicas": 4, "pods": pods}, "readings": {"m": {"value": 0.1}}});
    let answer = once(ratio("1", 1, 10), tick);
    assert_eq!((left(&answer), &answer["victims"]), (2, &json!(["pending", "broken"])), "Go marks the newest, whatever their state");
}
