use std::fmt::Write as _;

use llmscaler_engine::Reading;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::prometheus::{read_buckets, read_number, read_pods, read_series, read_value};

const QUERY: &str = r#"avg(vllm:num_requests_waiting{namespace="chat"})"#;

fn success(result_type: &str, result: Value) -> Vec<u8> {
    json!({"status": "success", "data": {"resultType": result_type, "result": result}}).to_string().into_bytes()
}

fn one(value: &str) -> Vec<u8> {
    success("vector", json!([{"metric": {}, "value": [1435781451.781, value]}]))
}

fn read(body: &[u8]) -> Reading {
    read_value(QUERY, 200, body)
}

fn why(reading: Reading) -> String {
    match reading {
        Reading::Unknown(why) => why,
        known => panic!("{known:?}"),
    }
}

#[test]
fn one_well_formed_sample_or_scalar_is_a_value() {
    let cases: &[(&str, f64, &str)] = &[
        (
            "a labelled series (KEDA PR017)",
            12.0,
            r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{"pod":"a"},"value":[1435781451.781,"12"]}]}}"#,
        ),
        (
            "warnings do not matter (KEDA PR027)",
            7.0,
            r#"{"status":"success","warnings":["store unreachable"],"data":{"resultType":"vector","result":[{"metric":{},"value":[1,"7"]}]}}"#,
        ),
        ("no metric and no resultType, as the chart's mock", 10.0, r#"{"status":"success","data":{"result":[{"value":[0,"10"]}]}}"#),
        ("zero is a measurement", 0.0, r#"{"status":"success","data":{"result":[{"metric":{},"value":[1,"0"]}]}}"#),
        ("a scalar", 3.5, r#"{"status":"success","data":{"resultType":"scalar","result":[1435781451.781,"3.5"]}}"#),
        ("a scalar without resultType", 3.5, r#"{"status":"success","data":{"result":[1435781451.781,"3.5"]}}"#),
        (
            "malformed entries are dropped before counting",
            5.0,
            r#"{"status":"success","data":{"result":[{"value":[1]},{"value":[1,2]},{"value":[1,null]},{"value":[1,"x"]},{"value":[1,"1e400"]},
               {"value":[1,"2",3]},{"value":"2"},{"metric":{}},null,7,"x",[],{"value":[1,"5"]}]}}"#,
        ),
        ("a metric that is no object", 5.0, r#"{"status":"success","data":{"result":[{"metric":[1],"value":[1,"5"]}]}}"#),
        ("any time", 5.0, r#"{"status":"success","data":{"result":[{"value":["yesterday","5"]}]}}"#),
        ("an exponent", 1500.0, r#"{"status":"success","data":{"result":[{"value":[1,"1.5e3"]}]}}"#),
        ("bytes after the document", 5.0, "{\"status\":\"success\",\"data\":{\"result\":[{\"value\":[1,\"5\"]}]}}\ntrailing"),
        ("minus zero", 0.0, r#"{"status":"success","data":{"result":[{"value":[1,"-0"]}]}}"#),
    ];
    for (name, expected, body) in cases {
        assert_eq!(read(body.as_bytes()), Reading::from_number(*expected), "{name}");
    }
}

#[test]
fn everything_else_is_unknown_with_a_reason() {
    let plain = |text: &str| text.as_bytes().to_vec();
    let labelled = |labels: Value, value: &str| json!({"metric": labels, "value": [1, value]});
    let two = json!([
        labelled(json!({"model": "qwen", "backend": "10.0.0.2:8000"}), "9"),
        labelled(json!({"model": "qwen", "backend": "10.0.0.1:8000"}), "1"),
    ]);
    let many: Vec<Value> = (0..500).map(|i| labelled(json!({"pod": format!("pod-{i:03}")}), "1")).collect();
    let cases: Vec<(&str, u16, Vec<u8>)> = vec![
        ("no status (KEDA PR001)", 200, plain("{}")),
        ("no status but a value (KEDA PR028)", 200, plain(r#"{"data":{"result":[{"value":[1,"5"]}]}}"#)),
        ("empty vector (KEDA PR002, PR018)", 200, success("vector", json!([]))),
        ("two series (KEDA PR020)", 200, success("vector", two)),
        ("500 series", 200, success("vector", Value::from(many))),
        ("an endless label", 200, success("vector", json!([labelled(json!({"l": "x".repeat(5000)}), "1"), labelled(json!({}), "2")]))),
        ("status error with HTTP 200 (KEDA PR025)", 200, plain(r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#)),
        ("status error with a value", 200, plain(r#"{"status":"error","error":"partial","data":{"result":[{"value":[1,"5"]}]}}"#)),
        ("a sample that is null (KEDA PR028)", 200, success("vector", json!([{"value": [1, null]}]))),
        ("a sample that is a JSON number (KEDA PR039)", 200, success("vector", json!([{"value": [1, 2]}]))),
        ("HTTP 204 (KEDA PR034)", 204, plain("")),
        ("HTTP 299 (KEDA PR035)", 299, one("5")),
        (
            "a refused query",
            400,
            plain(r#"{"status":"error","errorType":"bad_data","error":"1:5: parse error:\nunexpected character: '\u001b'"}"#),
        ),
        ("no credentials", 401, plain("Unauthorized\n")),
        ("another service", 404, plain("<html><body>not found</body></html>")),
        ("an overloaded server", 503, plain("upstream connect error \u{1b}[31m")),
        ("a redirect without a location", 302, plain("")),
        ("a valid body with status 500", 500, one("5")),
        ("a login page", 200, plain("<!doctype html><title>Sign in</title>")),
        ("nothing", 200, plain("")),
        ("half a document", 200, plain(r#"{"status":"success","data":{"resu"#)),
        ("a list", 200, plain("[]")),
        ("no data", 200, plain(r#"{"status":"success"}"#)),
        ("no result", 200, plain(r#"{"status":"success","data":{"result":null}}"#)),
        ("a matrix", 200, success("matrix", json!([{"metric": {}, "values": [[1, "5"]]}]))),
        ("an empty matrix", 200, success("matrix", json!([]))),
        ("a matrix without resultType", 200, plain(r#"{"status":"success","data":{"result":[{"values":[[1,"5"]]}]}}"#)),
        ("a string", 200, success("string", json!([1, "5"]))),
        ("a scalar that is none", 200, success("scalar", json!([1, "many"]))),
        ("a native histogram", 200, success("vector", json!([{"metric": {}, "histogram": [1, {"count": "5", "sum": "3"}]}]))),
        ("NaN (KEDA KQ)", 200, one("NaN")),
        ("+Inf (KEDA KQ006)", 200, one("+Inf")),
        ("-Inf", 200, one("-Inf")),
        ("negative (KEDA KQ008)", 200, one("-9.3e15")),
        ("a scalar NaN", 200, success("scalar", json!([1, "NaN"]))),
    ];
    let mut reasons = String::new();
    for (name, status, body) in cases {
        let reason = why(read_value(QUERY, status, &body));
        assert!(reason.starts_with(&format!("query `{QUERY}`: ")), "{name}: {reason}");
        writeln!(reasons, "{name}\n    {}", reason.trim_start_matches(&format!("query `{QUERY}`: "))).unwrap();
    }
    insta::assert_snapshot!("reasons", reasons);
}

#[test]
fn several_series_are_named_in_an_order_that_does_not_depend_on_the_answer() {
    let series = |backend: &str| json!({"metric": {"model": "qwen", "backend": backend}, "value": [1, "1"]});
    let there = why(read(&success("vector", json!([series("10.0.0.1:8000"), series("10.0.0.2:8000")]))));
    let back = why(read(&success("vector", json!([series("10.0.0.2:8000"), series("10.0.0.1:8000")]))));
    assert_eq!(there, back);
    assert!(there.contains("2 series"), "{there}");
    assert!(
        there.contains(r#"{backend="10.0.0.1:8000", model="qwen"} and {backend="10.0.0.2:8000", model="qwen"}"#)
            && there.contains("avg(...)"),
        "{there}"
    );
}

#[test]
fn quotes_are_bounded_and_harmless() {
    let error = format!("\u{1b}[2J{}", "é".repeat(2000));
    let body = json!({"status": "error", "errorType": "execution", "error": error}).to_string();
    for status in [200, 422] {
        let reason = why(read_value(&"x".repeat(9000), status, body.as_bytes()));
        assert!(reason.len() < 1024 + 256 + 200, "{}", reason.len());
        assert!(!reason.chars().any(char::is_control) && reason.contains("é…"), "{reason}");
    }
}

#[test]
fn numbers_keep_what_readings_refuse() {
    assert!(read_number(QUERY, 200, &one("NaN")).unwrap().is_nan());
    assert_eq!(read_number(QUERY, 200, &one("-1")).unwrap(), -1.0);
    assert_eq!(read_number(QUERY, 200, &one("+Inf")).unwrap(), f64::INFINITY);
}

#[test]
fn series_come_with_their_labels() {
    let body =
        success("vector", json!([{"metric": {"le": "0.5", "odd": 1}, "value": [1, "2"]}, {"metric": {"le": "+Inf"}, "value": [1, "7"]}]));
    let series = read_series(QUERY, 200, &body).unwrap();
    assert_eq!(series.iter().map(ToString::to_string).collect::<Vec<_>>(), [r#"{le="0.5"}"#, r#"{le="+Inf"}"#]);
    assert_eq!(series.iter().map(|series| series.value).collect::<Vec<_>>(), [2.0, 7.0]);
    assert_eq!(read_series(QUERY, 200, &success("scalar", json!([1, "3"]))).unwrap()[0].value, 3.0);
    assert!(read_series(QUERY, 200, &success("vector", json!([]))).is_err());
}

fn pod_samples(entries: &[(Value, &str)]) -> Result<BTreeMap<String, f64>, String> {
    let entries: Vec<Value> = entries.iter().map(|(labels, value)| json!({"metric": labels, "value": [1, value]})).collect();
    read_pods(QUERY, "chat", 200, &success("vector", Value::from(entries))).map_err(|error| error.to_string())
}

#[test]
fn pods_keep_their_finite_samples() {
    let samples = pod_samples(&[
        (json!({"pod": "a"}), "12.5"),
        (json!({"pod": "b", "namespace": "chat"}), "-3"),
        (json!({"pod": "c", "namespace": "staging"}), "1"),
        (json!({"pod": "d", "namespace": ""}), "4"),
        (json!({"pod": "e"}), "NaN"),
        (json!({"pod": "f"}), "+Inf"),
        (json!({"pod": ""}), "5"),
        (json!({"instance": "10.0.0.1:8000"}), "6"),
    ]);
    assert_eq!(samples.unwrap(), BTreeMap::from([("a".into(), 12.5), ("b".into(), -3.0), ("d".into(), 4.0)]));
}

#[test]
fn of_several_samples_of_a_pod_the_warmest_counts() {
    for order in [["1", "9", "5"], ["9", "5", "1"], ["NaN", "9", "1"]] {
        let samples = pod_samples(&order.map(|value| (json!({"pod": "a", "engine": value}), value)));
        assert_eq!(samples.unwrap(), BTreeMap::from([("a".into(), 9.0)]), "{order:?}");
    }
}

#[test]
fn no_usable_pod_is_an_error() {
    for (entries, expected) in [
        (vec![], "no data"),
        (vec![(json!({"instance": "x"}), "1")], "none of the 1 series has a pod label"),
        (vec![(json!({"pod": "a", "namespace": "staging"}), "1")], "belongs to namespace \"chat\""),
        (vec![(json!({"pod": "a"}), "NaN")], "NaN or infinite"),
    ] {
        let error = pod_samples(&entries).unwrap_err();
        assert!(error.contains(expected) && error.contains(QUERY), "{error}");
    }
    let scalar = read_pods(QUERY, "chat", 200, &success("scalar", json!([1, "3"]))).unwrap_err();
    assert!(scalar.to_string().contains("one series per pod"), "{scalar}");
    assert!(read_pods(QUERY, "chat", 503, &one("1")).is_err());
}

fn bucket_counts(result: Value) -> Result<Vec<(f64, f64)>, String> {
    let read = read_buckets("q", 200, &success("vector", result)).map_err(|why| why.cause().to_string());
    read.map(|buckets| buckets.into_iter().map(|bucket| (bucket.upper, bucket.count)).collect())
}

#[test]
fn buckets_come_lowest_first_and_the_malformed_are_dropped() {
    let found = bucket_counts(json!([
        {"metric": {"le": "+Inf"}, "value": [1, "9"]},
        {"metric": {"le": "10.0"}, "value": [1, "7.5"]},
        {"metric": {"le": "2"}, "value": [1, "0"]},
        {"metric": {"le": "2.0"}, "value": [1, "3"]},
        {"metric": {"le": "ten"}, "value": [1, "1"]},
        {"metric": {"le": "NaN"}, "value": [1, "1"]},
        {"metric": {"pod": "a"}, "value": [1, "1"]},
        {"metric": {"le": "5"}, "value": [1, 4]},
        {"metric": {"le": "5"}},
    ]));
    assert_eq!(found, Ok(vec![(2.0, 0.0), (2.0, 3.0), (10.0, 7.5), (f64::INFINITY, 9.0)]));
}

#[test]
fn what_is_no_histogram_is_an_error() {
    let with = |le: &str, value: &str| json!([{"metric": {"le": le}, "value": [1, value]}, {"metric": {"le": "+Inf"}, "value": [1, "9"]}]);
    let mut said: Vec<String> = [with("1", "NaN"), with("1", "-1"), with("1", "+Inf"), with("+Inf", "9"), json!([])]
        .into_iter()
        .chain([json!([{"metric": {"le": "1"}, "value": [1, "2"]}]), json!([{"metric": {}, "value": [1, "2"]}])])
        .map(|result| bucket_counts(result).unwrap_err())
        .collect();
    let scalar = read_buckets("q", 200, &success("scalar", json!([1, "2"]))).unwrap_err();
    said.push(scalar.cause().to_string());
    said.push(read_buckets("q", 200, br#"{"status":"error","error":"timeout"}"#).unwrap_err().cause().to_string());
    insta::assert_snapshot!(said.join("\n"));
}

fn json_value() -> impl Strategy<Value = Value> {
    let words = ["success", "error", "vector", "matrix", "scalar", "string", "NaN", "+Inf", "-1", "1.5", "1e400", "0x1p3", "a", "chat", ""];
    let keys =
        ["status", "data", "result", "resultType", "metric", "value", "values", "histogram", "pod", "namespace", "errorType", "error"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(words.to_vec()).prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(prop::sample::select(keys.to_vec()), inner, 0..5)
                .prop_map(|members| members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Value>()),
        ]
    })
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let types = ["vector", "matrix", "scalar", "string", "", "streams"];
    let sample =
        (json_value(), "(-?[0-9]{1,3}(\\.[0-9])?|NaN|\\+Inf|x)").prop_map(|(labels, value)| json!({"metric": labels, "value": [1, value]}));
    let result = prop_oneof![json_value(), prop::collection::vec(prop_oneof![sample, json_value()], 0..4).prop_map(Value::from)];
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        json_value().prop_map(|value| value.to_string().into_bytes()),
        (prop::sample::select(types.to_vec()), result).prop_map(|(result_type, result)| success(result_type, result)),
    ]
}

proptest! {
    #[test]
    fn never_panics_and_holds_its_promises(status in prop_oneof![9 => Just(200_u16), 1 => any::<u16>()], body in body(), query in ".*") {
        match read_value(&query, status, &body) {
            Reading::Value(value) => {
                prop_assert!(value.get().is_finite() && value.get() >= 0.0);
                prop_assert_eq!(status, 200);
                prop_assert_eq!(read_series(&query, status, &body).unwrap().len(), 1);
            }
            Reading::Idle => prop_assert!(false, "one query proves no idleness"),
            Reading::Unknown(why) => {
                prop_assert!(why.len() < 2048, "{}", why.len());
                prop_assert!(!why.chars().any(char::is_control), "{}", why);
            }
        }
        if let Ok(samples) = read_pods(&query, "chat", status, &body) {
            prop_assert!(!samples.is_empty());
            prop_assert!(samples.iter().all(|(pod, sample)| !pod.is_empty() && sample.is_finite()));
        }
    }
}
