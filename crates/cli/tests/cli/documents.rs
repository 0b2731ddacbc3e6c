//! The document that `decide` reads and the answer that it prints.

use serde_json::{Value, json};

use crate::running::{custom, decide, decide_text, left, merged, metric, once, refused, refused_text, scaler, texts, tick};

const EXAMPLE: &str = r#"
scaler:
  apiVersion: autoscaling.modelsphere.dev/v1alpha1
  kind: LLMScaler
  metadata: {name: chat, namespace: serving}
  spec:
    targetRef: {apiVersion: apps/v1, kind: Deployment, name: chat}
    serverAddress: http://prometheus.monitoring.svc:9090
    minReplicas: 1
    maxReplicas: 10
    metrics:
      - {name: kv, query: avg(vllm:kv_cache_usage_perc), target: "0.8"}
      - {name: queue, query: avg(vllm:num_requests_waiting), target: "5"}
memory:
  recommendations: [{at: -60, replicas: 5}]
  scaleEvents: [{at: -20, change: 2}]
  lastActiveAt: -400
  failures: {kv: 2}
ticks:
  - at: 0
    target: {replicas: 4, readyReplicas: 4, statusReplicas: 4, updatedReplicas: 4, terminatingReplicas: 0, generation: 1, observedGeneration: 1,
             pods: [{name: a, ageSeconds: 500, ready: true, terminating: false, unschedulable: false, unreadySeconds: 0, deletionCost: 0}]}
    readings:
      kv: {value: 0.9}
      queue: {response: {status: 200, body: '{"status":"success","data":{"result":[{"value":[1,"3.5"]}]}}'}}
    deletionCosts: {a: 12.5}
"#;

#[test]
fn every_field_of_a_document() {
    let answers = decide_text(EXAMPLE);
    assert_eq!(answers.len(), 1);
    let answer = &answers[0];
    let head = ["at", "replicas", "ready", "recommended", "desired", "write"].map(|key| answer[key].as_u64().unwrap());
    assert_eq!(head, [0, 4, 4, 5, 5, 5]);
    assert_eq!(answer["readings"][0], json!({"name": "kv", "state": "Value", "value": 0.9, "target": 0.8, "replicas": 5}));
    assert_eq!(answer["readings"][1]["replicas"], 3);
    assert_eq!(answer["nextSyncSeconds"], 15);
    assert_eq!(answer["memory"]["scaleEvents"], json!([{"at": -20, "change": 2}, {"at": 0, "change": 1}]));
    assert_eq!(answer["memory"]["lastActiveAt"], 0);
    assert_eq!(answer["memory"]["failures"], json!({}));
}

#[test]
fn the_answer_has_its_fields_in_order() {
    let (out, _, _) = texts(&crate::running::run(&["decide", "-"], EXAMPLE));
    let order = [
        "at",
        "replicas",
        "ready",
        "recommended",
        "desired",
        "write",
        "reason",
        "message",
        "victims",
        "stages",
        "readings",
        "conditions",
        "nextSyncSeconds",
        "memory",
    ];
    // The last of each key is the one of the answer itself only for those that nothing below has, so walk forward.
    let mut from = 0;
    for key in order {
        let found = out[from..].find(&format!("\"{key}\":"));
        from += found.unwrap_or_else(|| panic!("{key} is not where it should be in {out}"));
    }
    assert!(out.starts_with("{\"at\":0,\"replicas\":4,\"ready\":4,\"recommended\":5,\"desired\":5,\"write\":5,\"reason\":"), "{out}");
    let conditions: Vec<String> =
        decide_text(EXAMPLE)[0]["conditions"].as_array().unwrap().iter().map(|condition| condition["type"].to_string()).collect();
    assert_eq!(conditions.len(), 5, "{conditions:?}");
}

#[test]
fn json_is_read_as_well() {
    let yaml: Value = serde_saphyr::from_str(EXAMPLE).unwrap();
    assert_eq!(decide(&yaml), decide_text(EXAMPLE));
}

#[test]
fn an_unknown_reading_has_a_message_and_no_value() {
    for reading in [json!({"unknown": "connection refused"}), json!({"value": "NaN"}), json!({"value": "-Inf"}), json!({"value": -1})] {
        let answer = once(scaler(json!({})), tick(0, 4, 4, json!({"m": reading})));
        let said = &answer["readings"][0];
        assert_eq!((said["state"].as_str(), said.get("value"), said.get("replicas")), (Some("Unknown"), None, None));
        assert!(said["message"].as_str().is_some_and(|message| !message.is_empty()));
        assert_eq!(answer["write"], Value::Null);
    }
    let answer = once(scaler(json!({})), tick(0, 4, 4, json!({})));
    assert_eq!(answer["readings"][0]["state"], "Unknown", "no reading at all");
}

#[test]
fn an_idle_reading_asks_for_nothing() {
    let answer = once(scaler(json!({})), tick(0, 4, 4, json!({"m": {"idle": true}})));
    assert_eq!(answer["readings"][0], json!({"name": "m", "state": "Idle", "target": 1, "replicas": 0}));
    assert_eq!(left(&answer), 1);
}

#[test]
fn a_metric_goes_by_its_name_or_its_index() {
    let metrics = |names: &[&str]| json!({"metrics": names.iter().map(|name| metric(name, "1")).collect::<Vec<_>>()});
    for (names, readings, states) in [
        (&["a", "b"][..], json!({"a": {"value": 1}, "1": {"idle": true}}), ["Value", "Idle"]),
        (&["", "b"], json!({"0": {"value": 1}, "b": {"idle": true}}), ["Value", "Idle"]),
        (&["a", "a"], json!({"0": {"value": 1}, "1": {"idle": true}}), ["Value", "Idle"]),
        (&["slo", "decision"], json!({"0": {"value": 1}, "1": {"idle": true}}), ["Value", "Idle"]),
    ] {
        let answer = once(scaler(metrics(names)), tick(0, 1, 1, readings));
        let said: Vec<&str> = answer["readings"].as_array().unwrap().iter().map(|r| r["state"].as_str().unwrap()).collect();
        assert_eq!(said, states, "{names:?}");
    }
    let document = |readings| json!({"scaler": scaler(metrics(&["queue", "running"])), "ticks": [tick(0, 1, 1, readings)]});
    let (field, error) = refused(&document(json!({"queu": {"value": 1}})));
    assert_eq!(field, "ticks[0].readings.queu");
    assert!(error.contains("did you mean queue?") && error.contains("queue, running"), "{error}");
    assert_eq!(refused(&document(json!({"2": {"value": 1}}))).0, "ticks[0].readings.2");
    let (field, error) = refused(&document(json!({"queue": {"value": 1}, "0": {"value": 1}})));
    assert!(field.starts_with("ticks[0].readings.") && error.contains("two readings"), "{field}: {error}");
}

#[test]
fn any_form_of_reading_may_stand_under_any_key() {
    for (reading, expected) in [(json!({"value": 7}), 7), (json!({"idle": true}), 1), (json!({"unknown": "down"}), 4)] {
        assert_eq!(left(&once(custom(json!({})), tick(0, 4, 4, json!({"decision": reading})))), expected, "{reading}");
    }
    let (_, error) = refused(&json!({"scaler": custom(json!({})), "ticks": [tick(0, 4, 4, json!({"m": {"value": 7}}))]}));
    assert!(error.contains("decision"), "{error}");
}

#[test]
fn the_memory_of_an_answer_is_accepted_as_it_is() {
    let scaler = scaler(
        json!({"scaleDown": {"stabilizationWindowSeconds": 60, "maxStepReplicas": 1}, "metrics": [metric("m", "1"), metric("n", "1")]}),
    );
    let ticks: Vec<Value> = (0..12_u32)
        .map(|index| {
            let readings = json!({"m": {"value": f64::from(index * 5 % 7) / 4.0}, "n": {"unknown": "down"}});
            tick(index * 15, 6, 6, readings)
        })
        .collect();
    let whole = decide(&json!({"scaler": scaler, "ticks": ticks}));
    let mut memory = json!({});
    for (tick, expected) in ticks.iter().zip(&whole) {
        let answer = decide(&json!({"scaler": scaler, "memory": memory, "ticks": [tick]})).pop().unwrap();
        assert_eq!(&answer, expected);
        memory = answer["memory"].clone();
        for key in ["recommendations", "scaleEvents", "lastActiveAt", "failures"] {
            assert!(!memory[key].is_null(), "{key}");
        }
    }
    assert_eq!(memory["failures"], json!({"n": 12}));
}

#[test]
fn memory_lists_come_in_any_order_and_go_out_oldest_first() {
    let spec = json!({"scaleDown": {"stabilizationWindowSeconds": 300}});
    let memory = json!({"recommendations": [{"at": -10, "replicas": 3}, {"at": -60, "replicas": 6}], "scaleEvents": [{"at": -5, "change": 1}, {"at": -50, "change": -1}]});
    let answer =
        decide(&json!({"scaler": scaler(spec), "memory": memory, "ticks": [tick(0, 8, 8, json!({"m": {"value": 0.1}}))]})).pop().unwrap();
    assert_eq!(answer["desired"], 6);
    let memory = &answer["memory"];
    assert_eq!(memory["recommendations"], json!([{"at": 0, "replicas": 6}]), "a downward write starts the window again");
    assert_eq!(memory["scaleEvents"], json!([{"at": -50, "change": -1}, {"at": -5, "change": 1}, {"at": 0, "change": -2}]));
}

#[test]
fn victims_by_sample_and_newest_first_without() {
    let pods: Vec<Value> =
        [("a", 500), ("b", 400), ("c", 300)].iter().map(|(name, age)| json!({"name": name, "ageSeconds": age})).collect();
    let tick = json!({"at": 0, "target": {"replicas": 3, "pods": pods}, "readings": {"m": {"value": 0.1}}});
    let costs = |costs: Value| merged(tick.clone(), json!({"deletionCosts": costs}));
    for (tick, expected) in [
        (tick.clone(), json!(["c", "b"])),
        (costs(json!({"a": 1, "b": 3, "c": 2})), json!(["a", "c"])),
        (costs(json!({"a": "NaN", "b": 3, "c": 2})), json!(["c", "b"])),
        (costs(json!({})), json!(["c", "b"])),
    ] {
        assert_eq!(once(scaler(json!({})), tick)["victims"], expected);
    }
    let none = scaler(json!({"scaleDown": {"behavior": "None"}}));
    assert_eq!(once(none, tick.clone())["victims"], json!([]));
    let asked = merged(costs(json!({"a": 1, "b": 3, "c": 2})), json!({"readings": {"decision": {"value": 1}}}));
    assert_eq!(once(custom(json!({})), asked)["victims"], json!(["c", "b"]), "a decision server ranks no pods");
}

#[test]
fn scalers_are_refused_as_the_api_server_would() {
    for (spec, field) in [
        (json!({"minReplicas": 5, "maxReplicas": 2}), "spec.minReplicas"),
        (json!({"minReplicas": -1}), "spec.minReplicas"),
        (json!({"metrics": []}), "spec.metrics"),
        (json!({"metrics": [metric("m", "80%")]}), "spec.metrics[0].target"),
        (json!({"metrics": [{"name": "m", "query": "q", "target": 0.8}]}), "spec.metrics[0].target"),
        (json!({"metricProvider": "Custom"}), "spec.customProvider"),
        (json!({"metricProvider": "Graphite"}), "spec.metricProvider"),
        (json!({"maxReplica": 3}), "spec.maxReplica"),
        (json!({"serverAddress": "prometheus:9090"}), "spec.serverAddress"),
        (json!({"behavior": {"scaleDown": {"stabilizationWindowSeconds": 3601}}}), "spec.behavior.scaleDown.stabilizationWindowSeconds"),
        (json!({"fallback": {"failureThreshold": -1, "replicas": 1}}), "spec.fallback.failureThreshold"),
    ] {
        let (found, error) = refused(&json!({"scaler": scaler(spec.clone()), "ticks": [tick(0, 1, 1, json!({}))]}));
        assert_eq!(found, field, "{spec}: {error}");
        assert!(!error.is_empty());
    }
}

#[test]
fn documents_are_refused_with_the_place_and_a_sentence() {
    let good = json!({"scaler": scaler(json!({})), "ticks": [tick(0, 1, 1, json!({}))]});
    for (change, field, sentence) in [
        (json!({"ticks": []}), "ticks", "is empty"),
        (json!({"ticks": null}), "ticks", "is missing"),
        (json!({"scaler": null}), "scaler", "is missing"),
        (json!({"tick": []}), "tick", "did you mean ticks?"),
        (json!({"ticks": [{"at": 0}]}), "ticks[0]", "workload"),
        (json!({"ticks": [{"target": {"replicas": 1}}]}), "ticks[0].at", "is missing"),
        (json!({"ticks": [tick(5, 1, 1, json!({})), tick(4, 1, 1, json!({}))]}), "ticks[1].at", "order of time"),
        (json!({"ticks": [tick(0, 1, 1, json!({"m": {}}))]}), "ticks[0].readings.m", "exactly one"),
        (json!({"ticks": [tick(0, 1, 1, json!({"m": {"value": 1, "idle": true}}))]}), "ticks[0].readings.m", "exactly one"),
        (json!({"ticks": [tick(0, 1, 1, json!({"m": {"valu": 1}}))]}), "ticks[0].readings.m.valu", "did you mean value?"),
        (json!({"ticks": [tick(0, 1, 1, json!({"m": {"idle": false}}))]}), "ticks[0].readings.m.idle", "idle: true"),
        (json!({"ticks": [{"at": 0, "target": {"replica": 1}}]}), "ticks[0].target.replica", "did you mean replicas?"),
        (json!({"ticks": [{"at": 0, "target": {"replicas": 2_147_483_648_u64}}]}), "ticks[0].target.replicas", "2147483647"),
        (json!({"ticks": [{"at": 1e300, "target": {"replicas": 1}}]}), "ticks[0].at", "seconds"),
        (json!({"memory": {"recommendation": []}}), "memory.recommendation", "did you mean recommendations?"),
        (json!({"memory": {"scaleEvents": [{"at": 0, "change": -2_147_483_648_i64}]}}), "memory.scaleEvents[0].change", "whole number"),
        (json!({"workload": {"replicas": 1, "warmupSeconds": -1}}), "workload.warmupSeconds", "0 or more"),
    ] {
        let (found, error) = refused(&merged(good.clone(), change.clone()));
        assert_eq!(found, field, "{change}: {error}");
        assert!(error.contains(sentence), "{change}: {error}");
    }
    for (text, sentence) in
        [("", "is empty"), ("[]", "is a list"), ("a: [1", "line 1"), ("a: 1\na: 2", "duplicate"), ("a: 1\n---\na: 2", "multiple")]
    {
        let (field, error) = refused_text(text);
        assert!(field.is_empty() && error.contains(sentence), "{text:?}: {error}");
    }
}

#[test]
fn yaml_is_read_without_surprises() {
    let reading = |text: &str| EXAMPLE.replace("kv: {value: 0.9}", &format!("kv: {{{text}}}"));
    for (text, sentence) in
        [("value: 0755", "leading zeros"), ("value: 1_000", "underscores"), ("value: on", "plain number"), ("idle: yes", "true or false")]
    {
        let (_, error) = refused_text(&reading(text));
        assert!(error.contains(sentence), "{text}: {error}");
    }
    for (text, state) in [
        ("value: .nan", "Unknown"),
        ("value: -.inf", "Unknown"),
        ("value: 1e400", "Unknown"),
        ("value: 1e300", "Value"),
        ("value: 99999999999999999999999", "Value"),
    ] {
        assert_eq!(decide_text(&reading(text))[0]["readings"][0]["state"], state, "{text}");
    }
    assert_eq!(decide_text(&EXAMPLE.replace("kv: {value", "0: {value"))[0]["readings"][0]["value"], 0.9, "an index may be a number");
}

#[test]
fn extreme_numbers_are_answered() {
    let most = i64::from(i32::MAX);
    let bounds = json!({"minReplicas": 0, "maxReplicas": most, "behavior": {"scaleUp": {"policies": [{"type": "Percent", "value": most, "periodSeconds": 1800}]}}});
    let memory = json!({
        "recommendations": [{"at": -9e12, "replicas": most}, {"at": 9e12, "replicas": 0}],
        "scaleEvents": [{"at": 0, "change": most}, {"at": 0, "change": -most}],
        "lastActiveAt": 9e12,
        "failures": {"m": u32::MAX, "gone": 1},
    });
    for value in [json!(0), json!(5e-324), json!(1.797e308), json!("Inf"), json!("NaN")] {
        for replicas in [0, 1, most] {
            for (at, ready) in [(-9e12, 0), (0.0, most), (9e12, replicas)] {
                let target = json!({"replicas": replicas, "readyReplicas": ready, "terminatingReplicas": 0, "generation": i64::MAX, "observedGeneration": 0});
                let tick = json!({"at": at, "target": target, "readings": {"m": {"value": value}}});
                let answer = decide(&json!({"scaler": scaler(bounds.clone()), "memory": memory, "ticks": [tick]})).pop().unwrap();
                assert_eq!(answer["stages"].as_array().unwrap().len(), 7);
            }
        }
    }
}
