//! The headroom strategy: what its inputs may be, and what they do.

use serde_json::{Value, json};

use crate::running::{decide, left, merged, refused, scaler};

/// Two to twenty replicas that are promised 3 s and 100 ms, changed by `slo`.
fn headroom(slo: Value) -> Value {
    scaler(json!({
        "metrics": [],
        "minReplicas": 2,
        "maxReplicas": 20,
        "preset": {"name": "llm-d-EPP", "matchLabels": {"service": "pool-a-epp"}},
        "slo": merged(json!({"strategy": "Headroom", "ttft": "3s", "tpot": "100ms"}), slo),
    }))
}

/// What is measured of `rate` requests a second, of 1000 prompt and 200 output tokens each, on a fleet that keeps up.
fn traffic(rate: f64) -> Value {
    let tokens = 1000.0 * rate;
    json!({
        "lambda15": rate, "lambda30": rate, "lambda60": rate, "pi15": tokens, "pi30": tokens, "pi60": tokens,
        "c2": 1.0, "hist": [[512, 20.0 * rate], [1024, 20.0 * rate], [2048, 20.0 * rate]],
        "done": 120.0 * rate, "otok": 24_000.0 * rate, "o50": 150,
        "wait": 0, "kv_cap": 640_000, "kv": 1300.0 * rate, "run": 4.0 * rate, "s": 0.3, "t_w": 100,
    })
}

fn tick(at: u32, replicas: u32, reading: Value) -> Value {
    json!({"at": at, "target": {"replicas": replicas}, "readings": {"slo": reading}})
}

/// The size that a fleet is left with after each of these readings, 15 s apart.
fn sizes(slo: Value, replicas: u32, readings: impl IntoIterator<Item = Value>) -> Vec<u64> {
    let ticks: Vec<Value> = readings.into_iter().zip(0..).map(|(reading, n)| json!({"at": 15 * n, "readings": {"slo": reading}})).collect();
    let workload = json!({"replicas": replicas, "warmupSeconds": 100});
    decide(&json!({"scaler": headroom(slo), "workload": workload, "ticks": ticks})).iter().map(left).collect()
}

#[test]
fn whatever_is_missing_is_no_reason_to_shrink() {
    for reading in [
        json!({}),
        json!({"s": 0.01}),
        json!({"unknown": "no such host"}),
        json!({"ttft": 0.01, "tpot": 0.001}),
        json!({"lambda60": 0.1}),
        json!({"wait": 0, "run": 0, "late_ttft": 0, "late_ttft_n": 100}),
    ] {
        assert_eq!(sizes(json!({}), 5, [reading.clone()]), [5], "{reading}");
    }
    let nothing_at_all = json!({"scaler": headroom(json!({})), "ticks": [{"at": 0, "target": {"replicas": 5}}]});
    assert!(decide(&nothing_at_all)[0]["write"].is_null());
}

#[test]
fn the_saturation_alone_decides_once_arrivals_have_been_unknown_for_long() {
    for reading in [
        json!({"ttft": 2.4, "tpot": 0.07}),
        json!({"saturation": 0.8}),
        json!({"value": 0.8}),
        json!({"s": 0.8, "wait": 3}),
        json!({"response": {"body": r#"{"status":"success","data":{"resultType":"scalar","result":[0,"0.8"]}}"#}}),
    ] {
        let ticks: Vec<Value> = (0..22).map(|n| tick(15 * n, 5, reading.clone())).collect();
        let answers = decide(&json!({"scaler": headroom(json!({})), "ticks": ticks}));
        assert!(answers[..20].iter().all(|answer| answer["write"].is_null()), "{reading}");
        let shown = &answers[21]["readings"][0];
        assert_eq!((&shown["state"], &shown["replicas"]), (&json!("Value"), &json!(8)), "5 x 0.8 / 0.55, up: {reading}: {shown}");
        assert!((shown["value"].as_f64().unwrap() - 0.8).abs() < 1e-9, "{reading}: {shown}");
        assert_eq!(answers[21]["memory"].get("saturation"), None, "nothing is averaged");
    }
}

#[test]
fn inputs_that_make_no_sense_are_refused() {
    let at = |scaler: &Value, reading: Value| refused(&json!({"scaler": scaler, "ticks": [tick(0, 5, reading)]}));
    let scaler = headroom(json!({}));
    for (reading, field, words) in [
        (json!({"lambda_60": 1}), "lambda_60", "did you mean lambda60?"),
        (json!({"lateTtft": 1}), "lateTtft", "did you mean late_ttft?"),
        (json!({"lambda60": "NaN"}), "lambda60", "write a finite number of at least 0"),
        (json!({"pi60": -1}), "pi60", "write a finite number of at least 0"),
        (json!({"wait": "many"}), "wait", "write a finite number of at least 0, without quotes"),
        (json!({"late_ttft": 2, "late_ttft_n": 1}), "late_ttft", "write a share from 0 to 1"),
        (json!({"hist": [[64]]}), "hist[0]", "write [upper, count]"),
        (json!({"t_w": -5}), "t_w", "a number of seconds, 0 or more"),
    ] {
        let (found, error) = at(&scaler, reading.clone());
        assert_eq!(found, format!("ticks[0].readings.slo.{field}"), "{reading}");
        assert!(error.contains(words), "{reading}: {error}");
    }
    let (field, error) = at(&scaler, json!({"lambda60": 1, "ttft": 1}));
    assert_eq!(field, "ticks[0].readings.slo");
    assert!(error.contains("write it as s beside"), "{error}");
    let band = crate::running::scaler(json!({"metrics": [], "slo": {"saturationQuery": "s"}}));
    let (field, _) = at(&band, json!({"lambda60": 1}));
    assert_eq!(field, "ticks[0].readings.slo.lambda60", "the band measures no traffic");
}

#[test]
fn a_scaler_that_cannot_have_headroom_is_refused() {
    for (slo, field) in [
        (json!({"objective": "1"}), "spec.slo.objective"),
        (json!({"profile": "qwen3-32b"}), "spec.slo.profile"),
        (json!({"tpot": null}), "spec.slo"),
        (json!({"strategy": "Band", "objective": "0.99"}), "spec.slo"),
    ] {
        let (found, _) = refused(&json!({"scaler": headroom(slo.clone()), "ticks": [tick(0, 5, json!({}))]}));
        assert_eq!(found, field, "{slo}");
    }
}

#[test]
fn more_that_arrives_takes_more_replicas_although_every_latency_is_good() {
    let last = |rate: f64| *sizes(json!({}), 2, (0..8).map(|_| traffic(rate))).last().unwrap();
    let counts = [1.0, 30.0, 60.0, 120.0].map(last);
    assert!(counts[0] == 2 && counts.windows(2).all(|pair| pair[0] < pair[1]), "{counts:?}");
}

#[test]
fn the_objective_and_the_profile_are_heeded() {
    let needed = |slo: Value| {
        let answer = decide(&json!({"scaler": headroom(slo), "ticks": [tick(0, 5, traffic(60.0))]})).remove(0);
        answer["readings"][0]["value"].as_f64().unwrap()
    };
    let plain = needed(json!({}));
    assert!(needed(json!({"objective": "0.5"})) < plain && needed(json!({"objective": "0.9995"})) > plain);
    assert!(needed(json!({"profile": "llama-3.1-8b-h100"})) < plain, "a smaller model takes fewer");
    assert_eq!(needed(json!({"profile": "qwen3-32b-h100-tp2"})), plain, "what stands in where none is named");
}

#[test]
fn the_account_and_the_conditions_are_those_of_the_law() {
    let answer = decide(&json!({"scaler": headroom(json!({})), "ticks": [tick(0, 2, traffic(8.0))]})).remove(0);
    let shown = &answer["readings"][0];
    assert_eq!(shown["state"], "Value");
    assert!(shown["message"].as_str().unwrap().contains("load "), "{shown}");
    let kinds: Vec<&str> = answer["conditions"].as_array().unwrap().iter().map(|condition| condition["type"].as_str().unwrap()).collect();
    assert_eq!(kinds[5..], ["ModelOff", "AtMax", "TargetUnreachable", "ColdHistory", "SignalMissing"]);
    let status = |kind: &str| answer["conditions"].as_array().unwrap().iter().find(|one| one["type"] == kind).unwrap()["status"].clone();
    assert_eq!((status("ColdHistory"), status("SignalMissing")), (json!("True"), json!("False")));
}

#[test]
fn a_run_can_be_cut_anywhere_and_go_on_from_its_memory() {
    let load = |n: u32| traffic(if (20..40).contains(&n) { 9.0 } else { 3.0 });
    let ticks: Vec<Value> = (0..80).map(|n| tick(15 * n, 6, load(n))).collect();
    let scaler = headroom(json!({}));
    let whole = decide(&json!({"scaler": scaler, "ticks": ticks}));
    let first = decide(&json!({"scaler": scaler, "ticks": ticks[..30]}));
    let rest = decide(&json!({"scaler": scaler, "memory": first[29]["memory"], "ticks": ticks[30..]}));
    assert_eq!((&whole[..30], &whole[30..]), (&first[..], &rest[..]));
    let (field, error) = refused(&json!({"scaler": scaler, "memory": {"headroom": {"hold": 3}}, "ticks": [tick(0, 5, json!({}))]}));
    assert_eq!(field, "memory.headroom");
    assert!(error.contains("copy memory.headroom of an answer as a whole"), "{error}");
}

#[test]
fn a_longer_warm_up_looks_further_ahead() {
    // The load doubles within two and a half minutes, again and again.
    let load = |n: u32| traffic(2.0 + 4.0 * f64::from(n % 20) / 10.0);
    let last = |warmup: u32| {
        let reading = |n: u32| {
            let mut reading = load(n);
            reading["t_w"] = json!(warmup);
            reading
        };
        let ticks: Vec<Value> = (0..121).map(|n| tick(15 * n, 6, reading(n))).collect();
        decide(&json!({"scaler": headroom(json!({})), "ticks": ticks}))[120]["readings"][0]["value"].as_f64().unwrap()
    };
    let (short, long) = (last(15), last(200));
    assert!(long > short, "{short} {long}");
}

#[test]
fn an_idle_pool_says_what_keeps_its_size() {
    let idle = json!({"lambda60": 0, "pi60": 0, "wait": 0, "run": 0});
    let answers = decide(&json!({"scaler": headroom(json!({})), "ticks": [tick(0, 5, traffic(60.0)), tick(15, 5, idle)]}));
    let shown = &answers[1]["readings"][0];
    assert_eq!((&shown["state"], &shown["replicas"]), (&json!("Idle"), &json!(5)), "{shown}");
    assert!(shown["message"].as_str().unwrap().starts_with("held at 5 for 285 s more"), "{shown}");
}
