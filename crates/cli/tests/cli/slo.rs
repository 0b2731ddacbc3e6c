//! A promised latency: its readings, what is remembered of them, and the schedule of document B's guide in virtual time.

use serde_json::{Value, json};

use crate::running::{decide, refused, scaler};

/// The guide's object: 3 s and 100 ms, 3 to 8 replicas.
fn guide(more: Value) -> Value {
    let mut spec = json!({
        "metrics": [],
        "minReplicas": 3,
        "maxReplicas": 8,
        "preset": {"name": "llm-d-EPP", "matchLabels": {"service": "pool-a-epp"}},
        "slo": {"ttft": "3s", "tpot": "100ms"},
    });
    for (name, value) in more.as_object().unwrap() {
        spec[name] = value.clone();
    }
    scaler(spec)
}

/// What a fleet is asked to be, and its reading, after one tick.
fn asked(scaler: &Value, replicas: u32, ready: u32, reading: Value, memory: Value) -> (u64, Value) {
    let tick = json!({"at": 0, "target": {"replicas": replicas, "readyReplicas": ready}, "readings": {"slo": reading}});
    let answer = decide(&json!({"scaler": scaler, "memory": memory, "ticks": [tick]})).remove(0);
    let reading = answer["readings"].as_array().unwrap().last().unwrap().clone();
    (answer["recommended"].as_u64().unwrap(), reading)
}

#[test]
fn latencies_become_a_count() {
    for (reading, replicas, ready, expected, why) in [
        (json!({"ttft": 1.2, "tpot": 0.05}), 4, 4, 4, "0.5 is within the band"),
        (json!({"ttft": 1.86, "tpot": 0.05}), 8, 8, 10, "TTFT at 0.62"),
        (json!({"ttft": 0.3, "tpot": 0.062}), 8, 8, 10, "TPOT at 0.62"),
        (json!({"ttft": 90, "tpot": 0.05}), 4, 4, 15, "no more than the clamp, 4 x 2 / 0.55"),
        (json!({"ttft": 1.8, "tpot": 0.05}), 8, 4, 8, "0.6 on half of the fleet: what is starting will do, and nothing goes"),
        (json!({"ttft": 1.8, "tpot": 0.05}), 8, 0, 9, "none is ready to share it"),
        (json!({"ttft": 0.3, "tpot": 0.038}), 4, 4, 4, "0.38 leaves no whole replica to spare"),
        (json!({"ttft": 0.3, "tpot": 0.038}), 8, 8, 8, "nor of eight"),
        (json!({"ttft": 0.3, "tpot": 0.038}), 8, 4, 8, "and has no credit"),
        (json!({"ttft": 0.3, "tpot": 0.035}), 8, 8, 7, "0.35 does"),
        (json!({"ttft": 0.0, "tpot": 0.0}), 8, 8, 0, "no latency at all"),
        (json!({"idle": true}), 8, 8, 0, "nothing is asked"),
        (json!({"unknown": "connection refused"}), 6, 6, 6, "unknown holds"),
        (json!({"ttft": 1.8, "tpot": "NaN"}), 4, 4, 5, "one above the mark may grow the fleet"),
        (json!({"ttft": 0.3, "tpot": "NaN"}), 4, 4, 4, "but one below it shrinks nothing"),
        (json!({"ttft": 0.3}), 4, 4, 4, "nor does one alone"),
        (json!({"ttft": "NaN", "tpot": "NaN"}), 4, 4, 4, "NaN is not proved to be idle"),
        (json!({"saturation": 0.62}), 8, 8, 10, "the saturation itself"),
        (json!({"saturation": 5}), 4, 4, 15, "clamped"),
        (json!({"saturation": -1}), 4, 4, 4, "no saturation is negative"),
        (json!({"value": 0.62}), 8, 8, 10, "a plain number is the saturation"),
        (
            json!({"response": {"body": r#"{"status":"success","data":{"resultType":"scalar","result":[0,"0.62"]}}"#}}),
            8,
            8,
            10,
            "an answer",
        ),
        (json!({"response": {"status": 503, "body": ""}}), 4, 4, 4, "no answer"),
    ] {
        assert_eq!(
            asked(&guide(json!({})), replicas, ready, reading.clone(), json!({})).0,
            expected,
            "{reading} {ready}/{replicas}: {why}"
        );
    }
}

#[test]
fn only_what_was_promised_counts() {
    let ttft = guide(json!({"slo": {"ttft": "3s"}}));
    assert_eq!(asked(&ttft, 4, 4, json!({"ttft": 1.2, "tpot": 9.9}), json!({})).0, 4);
    assert_eq!(asked(&ttft, 4, 4, json!({"ttft": 1.2}), json!({})).0, 4);
    let tpot = guide(json!({"slo": {"tpot": "1m"}}));
    assert_eq!(asked(&tpot, 4, 4, json!({"tpot": 120}), json!({})).0, 15);
}

#[test]
fn the_answer_shows_what_is_compared_and_why() {
    let memory = json!({"saturation": [{"at": -30, "value": 0.5}, {"at": -15, "value": 0.76}]});
    let (count, reading) = asked(&guide(json!({})), 4, 4, json!({"ttft": 1.8, "tpot": 0.05}), memory);
    assert_eq!(count, 5);
    assert!((reading["value"].as_f64().unwrap() - 0.62).abs() < 1e-9, "the mean of 0.5, 0.76 and 0.6: {reading}");
    assert_eq!((&reading["state"], &reading["target"], &reading["replicas"]), (&json!("Value"), &json!(0.55), &json!(5)));
    assert_eq!(reading["message"], "saturation 0.62 (smoothed over 45 s) is above 0.55: a fleet of 4 should be 5");
    let (_, reading) = asked(&guide(json!({})), 4, 4, json!({"ttft": 0.3, "tpot": "NaN"}), json!({}));
    assert!(reading["message"].as_str().unwrap().contains("NaN") && reading.get("value").is_none(), "{reading}");
}

#[test]
fn latencies_are_averaged_and_a_saturation_is_not() {
    let memory = json!({"saturation": [{"at": -15, "value": 2}, {"at": -30, "value": 2}]});
    let value = |reading: Value, slo: Value| asked(&guide(json!({"slo": slo})), 4, 4, reading, memory.clone()).1["value"].as_f64().unwrap();
    let both = json!({"ttft": "3s", "tpot": "100ms"});
    assert!((value(json!({"ttft": 1.5, "tpot": 0.01}), both.clone()) - 1.5).abs() < 1e-9);
    assert!((value(json!({"saturation": 0.5}), both.clone()) - 0.5).abs() < 1e-9);
    assert!((value(json!({"ttft": 1.5, "tpot": 0.01}), json!({"ttft": "3s", "tpot": "100ms", "smoothing": "0s"})) - 0.5).abs() < 1e-9);
    assert!((value(json!({"ttft": 1.5, "tpot": 0.01}), json!({"ttft": "3s", "tpot": "100ms", "smoothing": "30s"})) - 1.25).abs() < 1e-9);
    assert!((value(json!({"saturation": 0.5}), json!({"saturationQuery": "s"})) - 0.5).abs() < 1e-9);
}

#[test]
fn samples_are_carried_clamped_in_order_and_no_longer_than_they_count() {
    let tick = |at: i64, reading: Value| json!({"at": at, "target": {"replicas": 8}, "readings": {"slo": reading}});
    let memory = json!({"saturation": [{"at": -15, "value": 0.5}, {"at": -45, "value": 0.5}, {"at": -30, "value": 0.4}]});
    let document = json!({"scaler": guide(json!({})), "memory": memory, "ticks": [
        tick(0, json!({"ttft": 90, "tpot": 0.01})),
        tick(15, json!({"unknown": "timeout"})),
        tick(20, json!({"saturation": 0.1})),
        tick(30, json!({"idle": true})),
    ]});
    let kept: Vec<Value> = decide(&document).iter().map(|answer| answer["memory"]["saturation"].clone()).collect();
    let sample = |at: i64, value: f64| json!({"at": at, "value": value});
    assert_eq!(kept[0], json!([sample(-30, 0.4), sample(-15, 0.5), sample(0, 2.0)]));
    assert_eq!(kept[1], json!([sample(-15, 0.5), sample(0, 2.0)]), "unknown is no sample");
    assert_eq!(kept[2], kept[1], "nor is what was averaged already");
    assert_eq!(kept[3], json!([sample(0, 2.0), sample(30, 0.0)]), "idle is one of 0");
    let without = decide(&json!({"scaler": scaler(json!({})), "memory": memory, "ticks": [{"at": 0, "target": {"replicas": 1}}]}));
    assert_eq!(without[0]["memory"].get("saturation"), None, "a scaler without an SLO remembers none");
}

#[test]
fn an_outage_lowers_no_mean() {
    let tick = |at: i64, reading: Value| json!({"at": at, "target": {"replicas": 8}, "readings": {"slo": reading}});
    let busy = || json!({"ttft": 1.5, "tpot": 0.05});
    let out = || json!({"unknown": "no such host"});
    let ticks: Vec<Value> = [busy(), busy(), busy(), out(), out(), out(), out(), busy()]
        .into_iter()
        .enumerate()
        .map(|(index, reading)| tick(index as i64 * 15, reading))
        .collect();
    let answers = decide(&json!({"scaler": guide(json!({})), "ticks": ticks}));
    assert!(answers.iter().all(|answer| answer["write"].is_null() && answer["recommended"] == 8));
    assert_eq!(answers[7]["readings"][0]["value"], 0.5);
}

#[test]
fn it_goes_by_its_name_alone_and_stands_beside_metrics() {
    let metric = json!({"name": "queue", "signal": "queuedRequests", "target": "1", "metricType": "AverageValue"});
    let scaler = guide(json!({"metrics": [metric]}));
    let readings = json!({"0": {"value": 6}, "slo": {"ttft": 1.86, "tpot": 0.05}});
    let answer = decide(&json!({"scaler": scaler, "ticks": [{"at": 0, "target": {"replicas": 4}, "readings": readings}]})).remove(0);
    let names: Vec<&str> = answer["readings"].as_array().unwrap().iter().map(|reading| reading["name"].as_str().unwrap()).collect();
    assert_eq!((names, answer["recommended"].as_u64()), (vec!["queue", "slo"], Some(6)));
    let readings = json!({"1": {"value": 6}});
    let (field, _) = refused(&json!({"scaler": scaler, "ticks": [{"at": 0, "target": {"replicas": 4}, "readings": readings}]}));
    assert_eq!(field, "ticks[0].readings.1");
}

#[test]
fn readings_that_make_no_sense_are_refused() {
    let at = |scaler: Value, readings: Value| {
        refused(&json!({"scaler": scaler, "ticks": [{"at": 0, "target": {"replicas": 4}, "readings": readings}]}))
    };
    for (reading, words) in [
        (json!({"ttft": 1, "saturation": 1}), "write ttft and tpot, or exactly one of"),
        (json!({"ttft": 1, "idle": true}), "write ttft and tpot, or exactly one of"),
        (json!({}), "write ttft and tpot, or exactly one of"),
        (json!({"ttft": "fast"}), "a plain number"),
        (json!({"p90": 1}), "the fields here are ttft, tpot, saturation"),
    ] {
        let (field, error) = at(guide(json!({})), json!({"slo": reading}));
        assert!(field.starts_with("ticks[0].readings.slo") && error.contains(words), "{reading}: {field}: {error}");
    }
    let (_, error) = at(guide(json!({"slo": {"saturationQuery": "s"}})), json!({"slo": {"ttft": 1}}));
    assert!(error.contains("promises neither ttft nor tpot"), "{error}");
    let (field, _) = at(scaler(json!({})), json!({"m": {"ttft": 1}}));
    assert_eq!(field, "ticks[0].readings.m.ttft");
    let (_, error) = at(scaler(json!({})), json!({"slo": {"ttft": 1}}));
    assert!(error.contains("the scaler has no spec.slo"), "{error}");
    let memory = json!({"saturation": [{"at": 0, "value": -1}]});
    let (field, _) = refused(&json!({"scaler": guide(json!({})), "memory": memory, "ticks": [{"at": 0, "target": {"replicas": 4}}]}));
    assert_eq!(field, "memory.saturation[0].value");
}

/// Time and count of each write of the guide's object over a load that is calm, breaks the promise, is served, and goes.
fn writes(documented: bool) -> Vec<(i64, u64)> {
    // Documented seconds, or a tenth of them: then every length of time is, and so is the pace of the syncs.
    let scale = |seconds: f64| if documented { seconds } else { seconds / 10.0 };
    let behavior = json!({
        "scaleUp": {"stabilizationWindowSeconds": scale(30.0) as i64, "selectPolicy": "Max", "policies": [
            {"type": "Percent", "value": 100, "periodSeconds": scale(60.0) as i64}, {"type": "Pods", "value": 4, "periodSeconds": scale(60.0) as i64},
        ]},
        "scaleDown": {"stabilizationWindowSeconds": scale(180.0) as i64, "policies": [
            {"type": "Pods", "value": 1, "periodSeconds": scale(120.0) as i64},
        ]},
    });
    let smoothing = if documented { "45s" } else { "4500ms" };
    let load = |at: i64| match at {
        0..60 => json!({"ttft": 1.35, "tpot": 0.03}),
        60..180 => json!({"ttft": 6, "tpot": 0.06}),
        180..300 => json!({"ttft": 1.5, "tpot": 0.04}),
        _ => json!({"ttft": 0.3, "tpot": 0.01}),
    };
    let ticks: Vec<Value> = (0..80).map(|i| json!({"at": scale(15.0 * i as f64), "readings": {"slo": load(15 * i)}})).collect();
    let slo = json!({"ttft": "3s", "tpot": "100ms", "smoothing": smoothing});
    // A sync period is whole seconds, so that a tenth of 15 s weighs each sample by the time since the one before it.
    let period = if documented { 15 } else { 2 };
    let scaler = guide(json!({"behavior": behavior, "slo": slo, "syncPeriodSeconds": period}));
    let workload = json!({"replicas": 3, "warmupSeconds": scale(100.0)});
    let answers = decide(&json!({"scaler": scaler, "workload": workload, "ticks": ticks}));
    let at = |answer: &Value| (answer["at"].as_f64().unwrap() * if documented { 1.0 } else { 10.0 }).round() as i64;
    answers.iter().filter_map(|answer| Some((at(answer), answer["write"].as_u64()?))).collect()
}

#[test]
fn the_guides_fleet_grows_fast_and_drains_on_its_schedule() {
    let expected = [
        // The mean is 1.48 after two syncs, and 30 s ago 3 were enough: 6 of the 15 s before.
        (75, 6),
        // Then max(100 %, 4) of the 3 of a minute ago allow 7, and a minute after the first step the eighth.
        (90, 7),
        (135, 8),
        // 8 were needed at 300 s, when the mean had only begun to fall; then one goes every two minutes.
        (480, 7),
        (600, 6),
        (720, 5),
        (840, 4),
        (960, 3),
    ];
    assert_eq!(writes(true), expected);
    assert_eq!(writes(false), expected, "the same in a tenth of the time");
}
