//! Whatever a server answers: no panic, and no count but that of the one decision about the service.

#![no_main]

use libfuzzer_sys::fuzz_target;
use llmscaler_engine::Reading;
use llmscaler_signals::decision::{SCHEMA, read_count};
use serde_json::Value;

fuzz_target!(|body: &[u8]| {
    assert!(read_count("svc", None, 503, body).is_unknown());

    let anywhere = read_count("svc", None, 200, body);
    let in_chat = read_count("svc", Some("chat"), 200, body);
    for (reading, namespace) in [(anywhere, None), (in_chat, Some("chat"))] {
        match reading {
            Reading::Value(count) => assert_eq!(only_match(body, namespace), Some(count.get())),
            Reading::Idle => panic!("a count of 0 is a value"),
            Reading::Unknown(why) => assert!(why.len() < 2048 && !why.chars().any(char::is_control), "{why:?}"),
        }
    }
});

/// The rule once more, written another way.
fn only_match(body: &[u8], namespace: Option<&str>) -> Option<f64> {
    let document: Value = serde_json::Deserializer::from_slice(body).into_iter().next()?.ok()?;
    assert_eq!(document["apiVersion"], SCHEMA);
    let mut matching = document["decisions"]
        .as_array()?
        .iter()
        .filter(|decision| decision["serviceId"] == "svc" && namespace.is_none_or(|namespace| decision["namespace"] == namespace));
    let active = matching.next()?["replicas"]["active"].as_i64()?;
    assert!(matching.next().is_none() && (0..=i64::from(i32::MAX)).contains(&active));
    Some(active as f64)
}
