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
fn the_saturation_alone_is_shown_as_it_was_read() {
    for (reading, value) in [
        (json!({"ttft": 1.5, "tpot": 0.07}), 0.7),
        (json!({"saturation": 0.7}), 0.7),
        (json!({"value": 0.7}), 0.7),
        (json!({"s": 0.7}), 0.7),
        (json!({"response": {"body": r#"{"status":"success","data":{"resultType":"scalar","result":[0,"0.7"]}}"#}}), 0.7),
    ] {
        let answer = decide(&json!({"scaler": headroom(json!({})), "ticks": [tick(0, 5, reading.clone())]})).remove(0);
        let shown = &answer["readings"][0];
        assert_eq!(shown["state"], "Value", "{reading}: {shown}");
        assert!((shown["value"].as_f64().unwrap() - value).abs() < 1e-9, "{reading}: {shown}");
        assert_eq!(answer["memory"].get("saturation"), None, "nothing is averaged");
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
        (json!({"wait": "many"}), "wait", "a plain number"),
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
fn a_calm_load_leaves_the_fleet_within_its_bounds() {
    let readings: Vec<Value> = (0..8).map(|_| traffic(1.0)).collect();
    assert!(sizes(json!({}), 3, readings).iter().all(|size| (2..=20).contains(size)));
}
