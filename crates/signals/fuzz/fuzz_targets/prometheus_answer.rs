//! Whatever a server answers: no panic, no number without a sample of it, no reason that could harm a terminal or fill a log.

#![no_main]

use libfuzzer_sys::fuzz_target;
use llmscaler_engine::Reading;
use llmscaler_signals::prometheus::{read_number, read_pods, read_series, read_value};
use serde_json::Value;

const QUERY: &str = "avg(vllm:kv_cache_usage_perc)";

fuzz_target!(|body: &[u8]| {
    assert!(read_value(QUERY, 503, body).is_unknown());

    let series = read_series(QUERY, 200, body);
    match read_value(QUERY, 200, body) {
        Reading::Value(value) => {
            assert!(value.get().is_finite() && value.get() >= 0.0);
            assert_eq!(document(body)["status"], "success");
            let series = series.as_ref().expect("a value has a series");
            assert_eq!(series.len(), 1);
            assert_eq!(series[0].value, value.get());
        }
        Reading::Idle => panic!("one query proves no idleness"),
        Reading::Unknown(why) => {
            assert!(why.starts_with("query `avg(vllm:kv_cache_usage_perc)`: "));
            assert!(why.len() < 2048 && !why.chars().any(char::is_control), "{why:?}");
        }
    }
    // A number that is no measurement still is exactly one series.
    assert_eq!(read_number(QUERY, 200, body).is_ok(), series.as_ref().is_ok_and(|series| series.len() == 1));

    if let Ok(pods) = read_pods(QUERY, "chat", 200, body) {
        let series = series.expect("pods have series");
        assert!(!pods.is_empty());
        for (pod, sample) in pods {
            assert!(!pod.is_empty() && sample.is_finite());
            let of_pod = series.iter().filter(|series| series.labels.get("pod") == Some(&pod));
            assert!(of_pod.clone().any(|series| series.value == sample));
            assert!(of_pod.clone().any(|series| series.labels.get("namespace").is_none_or(|name| name.is_empty() || name == "chat")));
        }
    }
});

fn document(body: &[u8]) -> Value {
    serde_json::Deserializer::from_slice(body).into_iter().next().expect("not empty").expect("JSON")
}
