use std::fmt::Write as _;

use llmscaler_engine::Reading;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::decision::read_count;

fn reply(decisions: Value) -> Vec<u8> {
    json!({"apiVersion": SCHEMA, "decisions": decisions}).to_string().into_bytes()
}

fn decision(namespace: &str, service_id: &str, active: impl Into<Value>) -> Value {
    json!({"namespace": namespace, "serviceId": service_id, "replicas": {"active": active.into()}})
}

fn why(reading: Reading) -> String {
    match reading {
        Reading::Unknown(why) => why,
        known => panic!("{known:?}"),
    }
}

#[test]
fn exactly_one_matching_decision_is_a_count() {
    let cases = [
        ("a count", None, json!([decision("modelforge", "svc", 15)]), 15.0),
        ("zero is a decision", None, json!([decision("modelforge", "svc", 0)]), 0.0),
        ("the largest count", None, json!([decision("", "svc", 2_147_483_647)]), 2_147_483_647.0),
        ("chosen by namespace", Some("modelforge"), json!([decision("staging", "svc", 2), decision("modelforge", "svc", 7)]), 7.0),
        ("an empty namespace is none", Some(""), json!([decision("modelforge", "svc", 7)]), 7.0),
        ("case matters", None, json!([decision("", "SVC", 2), decision("", "svc", 7)]), 7.0),
        (
            "other services may be malformed",
            None,
            json!([
                null, 7, [], {}, {"serviceId": 7}, {"serviceId": "svc2"}, decision("", "svc-3", 2.5), decision("", "svc-4", "many"),
                decision("", "svc", 7), {"serviceId": "svc-5", "replicas": "none"},
            ]),
            7.0,
        ),
        (
            "so may those of the same service elsewhere",
            Some("modelforge"),
            json!([{"serviceId": "svc"}, {"serviceId": "svc", "namespace": 7}, decision("staging", "svc", -1), decision("modelforge", "svc", 7)]),
            7.0,
        ),
        (
            "unknown members do not matter",
            None,
            json!([{"serviceId": "svc", "replicas": {"active": 7, "standby": "x"}, "reason": {}}]),
            7.0,
        ),
    ];
    for (name, namespace, decisions, expected) in cases {
        assert_eq!(read_count("svc", namespace, 200, &reply(decisions)), Reading::from_number(expected), "{name}");
    }
    let trailing = [reply(json!([decision("", "svc", 3)])), b"\n\0trailing".to_vec()].concat();
    assert_eq!(read_count("svc", None, 200, &trailing), Reading::from_number(3.0));
}

/// Name, namespace asked for, status, body, and what the reason must contain.
type Case = (&'static str, Option<&'static str>, u16, Vec<u8>, &'static str);

#[test]
fn everything_else_is_unknown_with_a_reason() {
    let twice = json!([decision("staging", "svc", 2), decision("modelforge", "svc", 7)]);
    let plain = |text: &str| text.as_bytes().to_vec();
    let cases: Vec<Case> = vec![
        ("no active count", None, 200, reply(json!([{"serviceId": "svc", "replicas": {}}])), "no active count"),
        ("no replicas", None, 200, reply(json!([{"serviceId": "svc"}])), "no active count"),
        ("active is null", None, 200, reply(json!([decision("", "svc", Value::Null)])), "no active count"),
        ("negative", None, 200, reply(json!([decision("", "svc", -1)])), "out of range"),
        ("one too many", None, 200, reply(json!([decision("", "svc", 2_147_483_648_u64)])), "out of range"),
        ("over 32 bits", None, 200, reply(json!([decision("", "svc", 4_294_967_296_u64)])), "out of range"),
        (
            "over 64 bits",
            None,
            200,
            plain(&String::from_utf8(reply(json!([decision("", "svc", 1)]))).unwrap().replace(":1}", ":99999999999999999999}")),
            "out of range",
        ),
        ("a fraction", None, 200, reply(json!([decision("", "svc", 2.5)])), "not a whole JSON number"),
        ("a float", None, 200, reply(json!([decision("", "svc", 3.0)])), "not a whole JSON number"),
        ("a text", None, 200, reply(json!([decision("", "svc", "3")])), "not a whole JSON number"),
        ("a later schema", None, 200, plain(r#"{"apiVersion":"llmscaling.inference.x-k8s.io/v2","decisions":[]}"#), "unsupported schema"),
        ("no schema", None, 200, plain(r#"{"decisions":[{"serviceId":"svc","replicas":{"active":3}}]}"#), "unsupported schema"),
        ("no decisions", None, 200, reply(json!([])), "no decision for serviceId \"svc\""),
        ("no list", None, 200, plain(&format!(r#"{{"apiVersion":"{SCHEMA}"}}"#)), "no decision for serviceId \"svc\""),
        ("decisions is an object", None, 200, reply(json!({"svc": 3})), "not a list"),
        ("another service", None, 200, reply(json!([decision("modelforge", "other", 9)])), "no decision for serviceId \"svc\""),
        ("another namespace", Some("modelforge"), 200, reply(json!([decision("staging", "svc", 2)])), "in namespace \"modelforge\""),
        ("two namespaces", None, 200, reply(twice.clone()), "2 decisions match"),
        ("two namespaces, none asked for", Some(""), 200, reply(twice), "2 decisions match"),
        (
            "twice the same",
            Some("a"),
            200,
            reply(json!([decision("a", "svc", 2), {"serviceId": "svc", "namespace": "a"}])),
            "2 decisions match",
        ),
        ("a page", None, 200, plain("<html><body>It works!</body></html>"), "decode"),
        ("nothing", None, 200, plain(""), "decode"),
        ("a list", None, 200, plain("[]"), "decode"),
        ("not ready, with a valid decision", None, 503, reply(json!([decision("", "svc", 3)])), "status 503"),
        ("not ready", None, 503, plain("{\"status\":\"not_ready\",\"reason\":\"no tick yet\"}\r\n"), "status 503"),
        ("not found", None, 404, plain(""), "status 404"),
        ("created", None, 201, reply(json!([decision("", "svc", 3)])), "status 201"),
    ];
    let mut reasons = String::new();
    for (name, namespace, status, body, expected) in cases {
        let reason = why(read_count("svc", namespace, status, &body));
        assert!(reason.contains(expected), "{name}: {reason}");
        writeln!(reasons, "{name}\n    {reason}").unwrap();
    }
    insta::assert_snapshot!("reasons", reasons);
}

#[test]
fn quotes_are_bounded_and_harmless() {
    let long = "\u{1b}[2J".to_owned() + &"é".repeat(3000);
    for (status, body) in [
        (500, long.clone().into_bytes()),
        (200, long.clone().into_bytes()),
        (200, reply(json!([{"serviceId": long, "replicas": {"active": long}}]))),
        (200, json!({"apiVersion": long}).to_string().into_bytes()),
    ] {
        let reason = why(read_count(&long, Some(&long), status, &body));
        assert!(reason.len() < 2048 && !reason.chars().any(char::is_control), "{reason}");
    }
}

fn entry() -> impl Strategy<Value = Value> {
    let text = || prop::sample::select(vec!["svc", "other", "chat", ""]).prop_map(Value::from);
    let odd =
        prop_oneof![Just(Value::Null), any::<i64>().prop_map(Value::from), any::<f64>().prop_map(Value::from), ".*".prop_map(Value::from)];
    let active = prop_oneof![(0..40_i64).prop_map(Value::from), odd.clone()];
    let member = prop_oneof![4 => text(), 1 => odd];
    (member.clone(), member, active).prop_map(
        |(namespace, service_id, active)| json!({"namespace": namespace, "serviceId": service_id, "replicas": {"active": active}}),
    )
}

proptest! {
    #[test]
    fn never_panics_on_bytes(status: u16, body in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(read_count("svc", None, status, &body).is_unknown());
    }

    #[test]
    fn a_count_is_that_of_the_only_match(entries in prop::collection::vec(entry(), 0..5), namespace in prop::option::of(Just("chat"))) {
        let matching: Vec<&Value> = entries
            .iter()
            .filter(|entry| entry["serviceId"] == "svc" && namespace.is_none_or(|namespace| entry["namespace"] == namespace))
            .collect();
        match read_count("svc", namespace, 200, &reply(Value::from(entries.clone()))) {
            Reading::Value(count) => {
                prop_assert_eq!(matching.len(), 1);
                prop_assert_eq!(matching[0]["replicas"]["active"].as_i64().map(|active| active as f64), Some(count.get()));
                prop_assert!((0.0..=f64::from(LARGEST_COUNT)).contains(&count.get()));
            }
            Reading::Idle => prop_assert!(false, "a count of 0 is a value"),
            Reading::Unknown(why) => prop_assert!(why.len() < 2048 && !why.chars().any(char::is_control), "{}", why),
        }
    }
}
