use llmscaler_engine::{Finished, Measurement, Memory, Observation, Rates, Reading, Time, Traffic, Workload, decide};
use serde_json::{Value, json};

use super::*;

fn object(more: Value) -> LLMScaler {
    let mut spec = json!({
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "vllm"},
        "serverAddress": "http://prometheus:9090",
        "minReplicas": 0,
        "maxReplicas": 8,
        "actuation": "HorizontalPodAutoscaler",
        "metrics": [
            {"name": "queue", "query": "q", "target": "1", "metricType": "AverageValue"},
            {"query": "kv", "target": "0.8"},
        ],
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let metadata = json!({"name": "pool", "namespace": "serving", "uid": "7", "generation": 1});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

fn built(more: Value, tolerance: bool) -> Value {
    let object = object(more);
    serde_json::to_value(build(&object, &object.parse().unwrap(), tolerance)).unwrap()
}

fn custom() -> Value {
    json!({"metricProvider": "Custom", "customProvider": {"serviceId": "pool"}, "metrics": []})
}

#[test]
fn the_whole_hpa_without_behavior() {
    let external = |name: &str, target: Value| {
        let metric = json!({"name": name, "selector": {"matchLabels": {"scaler": "pool"}}});
        json!({"type": "External", "external": {"metric": metric, "target": target}})
    };
    let rules = |window: i32, pods: i32| {
        let policies = json!([{"type": "Pods", "value": pods, "periodSeconds": 15}]);
        json!({"stabilizationWindowSeconds": window, "selectPolicy": "Max", "policies": policies, "tolerance": "0"})
    };
    let owner =
        json!({"apiVersion": "autoscaling.modelsphere.dev/v1alpha1", "kind": "LLMScaler", "name": "pool", "uid": "7", "controller": true});
    let expected = json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {
            "name": "llmscaler-pool",
            "namespace": "serving",
            "labels": {"app.kubernetes.io/managed-by": "llmscaler", "autoscaling.modelsphere.dev/scaler": "pool"},
            "ownerReferences": [owner],
        },
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "vllm"},
            "minReplicas": 1,
            "maxReplicas": 8,
            "metrics": [
                external("llmscaler-pool-queue", json!({"type": "AverageValue", "averageValue": "1"})),
                external("llmscaler-pool-1", json!({"type": "Value", "value": "800m"})),
            ],
            "behavior": {"scaleUp": rules(0, 8), "scaleDown": rules(180, 2)},
        },
    });
    let damped = json!({"scaleDown": {"stabilizationWindowSeconds": 180, "maxStepReplicas": 2}});
    assert_eq!(built(damped, true), expected);
}

#[test]
fn without_a_step_cap_one_period_may_remove_all() {
    let hpa = built(json!({"minReplicas": 3, "syncPeriodSeconds": 30}), true);
    assert_eq!(hpa["spec"]["minReplicas"], 3);
    assert_eq!(hpa["spec"]["behavior"]["scaleDown"]["policies"], json!([{"type": "Pods", "value": 8, "periodSeconds": 30}]));
    assert_eq!(hpa["spec"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"], 0);
}

#[test]
fn behavior_is_copied_with_its_defaults() {
    let down = json!({"selectPolicy": "Min", "policies": [{"type": "Percent", "value": 10, "periodSeconds": 60}], "tolerance": "0.05"});
    let hpa = built(json!({"behavior": {"scaleDown": down}}), true);
    let up = json!({
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}],
        "tolerance": "100m",
    });
    let mut down = down;
    (down["tolerance"], down["stabilizationWindowSeconds"]) = (json!("50m"), json!(300));
    assert_eq!(hpa["spec"]["behavior"], json!({"scaleUp": up, "scaleDown": down}));
}

#[test]
fn a_count_is_passed_through_exactly_whatever_behavior_tolerates() {
    let mut more = custom();
    more["behavior"] = json!({});
    more["fallback"] = json!({"replicas": 6});
    let hpa = built(more.clone(), true);
    let names: Vec<_> = hpa["spec"]["metrics"].as_array().unwrap().iter().map(|metric| &metric["external"]["metric"]["name"]).collect();
    assert_eq!(names, ["llmscaler-pool-decision", "llmscaler-pool-fallback"]);
    assert_eq!(hpa["spec"]["metrics"][0]["external"]["target"], json!({"type": "AverageValue", "averageValue": "1"}));
    for direction in ["scaleUp", "scaleDown"] {
        assert_eq!(hpa["spec"]["behavior"][direction]["tolerance"], "0");
    }
    let older = built(more, false);
    assert!(older["spec"]["behavior"]["scaleUp"].get("tolerance").is_none());
}

#[test]
fn what_is_lost_without_tolerance_is_said_only_where_something_is() {
    let lost = |more: Value| lost_without_tolerance(&object(more).parse().unwrap().spec);
    assert_eq!(lost(json!({"behavior": {}})), None);
    assert!(lost(json!({"behavior": {"scaleUp": {"tolerance": "0.02"}}})).unwrap().contains("0.02 upwards and 0.1 downwards"));
    assert!(lost(json!({})).is_some());
    let mut count = custom();
    count["behavior"] = json!({});
    assert!(lost(count).is_some());
}

#[test]
fn metrics_are_called_so_that_no_two_are_the_same() {
    for (index, source, name) in [
        (0, "queue", "llmscaler-pool-queue"),
        (1, "KV_cache.usage-2", "llmscaler-pool-KV_cache.usage-2"),
        (2, "a b", "llmscaler-pool-2"),
        (3, "a/b", "llmscaler-pool-3"),
        (4, "fallback", "llmscaler-pool-4"),
        (5, "0", "llmscaler-pool-5"),
        (6, "ä", "llmscaler-pool-6"),
    ] {
        assert_eq!(metric_name("pool", index, source), name, "{source}");
    }
}

#[test]
fn a_name_that_is_too_long_for_a_label_is_replaced_by_the_uid() {
    let mut long = object(json!({}));
    long.metadata.name = Some("n".repeat(64));
    assert_eq!((label_of(&long).as_str(), label_of(&object(json!({}))).as_str()), ("7", "pool"));
}

/// What the HPA is fed with after one sync with these readings, with four replicas of which all are ready.
fn fed_with(more: Value, readings: Vec<Reading>, syncs: usize) -> Vec<Result<String, ()>> {
    let spec = object(more).parse().unwrap().spec;
    let workload = Workload { replicas: Replicas::new(4), ready: Replicas::new(4), ..Workload::default() };
    let seen = Observation { workload, readings, traffic: None };
    let mut memory = Memory::default();
    let mut decision = decide(&spec, &seen, &memory, Time::default());
    for _ in 1..syncs {
        memory = decision.memory;
        decision = decide(&spec, &seen, &memory, Time::default());
    }
    let fed: Vec<_> = fed("pool", &spec).into_iter().map(|metric| metric.name).collect();
    let values = values("pool", &spec, &decision);
    assert_eq!(values.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), fed, "what is asked for is what is served");
    values.into_iter().map(|(_, value)| value.map(|value| value.to_string()).map_err(|_| ())).collect()
}

#[test]
fn values_are_what_was_read_and_counts_are_what_was_decided() {
    let text = |text: &str| Ok(text.to_owned());
    let two = |queue: Reading, kv: Reading| fed_with(json!({}), vec![queue, kv], 1);
    assert_eq!(two(Reading::from_number(7.25), Reading::Idle), [text("7250m"), text("0")]);
    assert_eq!(two(Reading::unknown("no answer"), Reading::from_number(f64::NAN)), [Err(()), Err(())], "unknown is never zero");
    let band = json!({"metrics": [], "slo": {"saturationQuery": "s", "smoothing": "0s"}});
    assert_eq!(fed_with(band.clone(), vec![Reading::from_number(1.1)], 1), [text("8")], "four replicas at twice the mark of 0.55");
    assert_eq!(fed_with(band, vec![Reading::unknown("no answer")], 1), [Err(())]);
    assert_eq!(fed_with(custom(), vec![Reading::from_number(15.0)], 1), [text("15")]);
}

#[test]
fn the_fallback_is_a_floor_that_is_there_only_when_it_holds() {
    let mut more = custom();
    more["fallback"] = json!({"failureThreshold": 1, "replicas": 6});
    let unknown = vec![Reading::unknown("no answer")];
    let after = |syncs| fed_with(more.clone(), unknown.clone(), syncs);
    assert_eq!(after(1), [Err(()), Ok("0".to_owned())]);
    assert_eq!(after(2), [Err(()), Ok("6".to_owned())]);
    assert_eq!(fed_with(more, vec![Reading::from_number(3.0)], 1), [Ok("3".to_owned()), Ok("0".to_owned())]);
}

/// So many requests a second, of 1000 prompt tokens each.
fn arriving(rate: f64) -> Traffic {
    let known = |x| Measurement::new(x);
    let rates = |rate| Rates { over_60s: known(rate), ..Rates::default() };
    let finished = Finished { requests: known(1.0).unwrap(), output_tokens: known(400.0).unwrap() };
    Traffic {
        arrivals: rates(rate),
        prompt_tokens: rates(1000.0 * rate),
        finished: Some(finished),
        median_output: known(300.0),
        waiting: known(0.0),
        running: known(0.0),
        ..Traffic::default()
    }
}

#[test]
fn the_count_of_the_headroom_law_is_passed_through_and_floors_stand_beside_it() {
    let queue = json!({"name": "queue", "query": "q", "target": "1", "metricType": "AverageValue", "required": true});
    let slo = json!({"strategy": "Headroom", "ttft": "3s", "tpot": "100ms"});
    let preset = json!({"name": "llm-d-EPP", "matchLabels": {"service": "epp"}});
    let floor = json!({"failureThreshold": 1, "replicas": 7});
    let more = json!({"maxReplicas": 40, "metrics": [queue], "preset": preset, "slo": slo, "fallback": floor});
    let hpa = built(more.clone(), true);
    let fed: Vec<_> = hpa["spec"]["metrics"].as_array().unwrap().iter().map(|metric| metric["external"]["target"].clone()).collect();
    assert_eq!(fed, vec![json!({"type": "AverageValue", "averageValue": "1"}); 3]);
    for direction in ["scaleUp", "scaleDown"] {
        assert_eq!(hpa["spec"]["behavior"][direction]["tolerance"], "0", "to the last replica");
    }

    let spec = object(more).parse().unwrap().spec;
    let workload = Workload { replicas: Replicas::new(4), ready: Replicas::new(4), ..Workload::default() };
    let (mut memory, mut now) = (Memory::default(), Time::default());
    let mut sync = |queue: Reading, traffic: Option<Traffic>| {
        let readings = vec![queue, Reading::unknown("no latency")];
        let seen = Observation { workload: workload.clone(), readings, traffic: traffic.map(Box::new) };
        let decision = decide(&spec, &seen, &memory, now);
        now = now.after(Duration::from_secs(15));
        let values = values("pool", &spec, &decision).into_iter().map(|(_, value)| value.map(|value| value.to_string()).map_err(|_| ()));
        let (values, recommended) = (values.collect::<Vec<_>>(), decision.recommended.to_string());
        memory = decision.memory;
        (values, recommended)
    };
    // What is promised is not read, and the law goes by what arrives.
    let (values, recommended) = sync(Reading::from_number(0.0), Some(arriving(100.0)));
    assert!(recommended.parse::<u32>().unwrap() > 4, "{recommended}");
    assert_eq!(values, [Ok("0".to_owned()), Ok(recommended), Ok("0".to_owned())]);
    // Nothing shrinks before the law has seen enough.
    for _ in 0..100 {
        sync(Reading::from_number(0.0), Some(arriving(1.0)));
    }
    // A required metric that is unknown is an error, on which the HPA does not shrink; the law's count stays what it is.
    let (values, recommended) = sync(Reading::unknown("no answer"), Some(arriving(1.0)));
    let count = values[1].clone().unwrap();
    assert_eq!((&values[0], recommended.as_str()), (&Err(()), "4"), "held at what there is");
    assert!(count.parse::<u32>().unwrap() < 4, "{count}");
    // From the second sync in a row on the floor holds.
    let (values, _) = sync(Reading::unknown("no answer"), None);
    assert_eq!(values, [Err(()), Err(()), Ok("7".to_owned())]);
}
