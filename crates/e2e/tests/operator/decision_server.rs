//! Fleets whose size a decision server says: `metricProvider: Custom`.

use llmscaler_e2e::ApiServer::{Real, Sandbox};
use llmscaler_e2e::{ApiServer, DecisionServer};
use rstest::rstest;
use serde_json::json;

use crate::fleet::{Fleet, condition};

#[rstest]
#[tokio::test]
async fn a_decision_moves_the_fleet_up_to_zero_and_back(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "decides", 1).await else { return };
    let server = DecisionServer::start().await;
    server.decide("", "fleet", 5);
    fleet.scale_on_decisions(&server, json!({"minReplicas": 0})).await;
    fleet.is_serving(5).await;
    let status = fleet.status("5 decided", |status| status["metrics"][0]["value"] == "5").await;
    assert_eq!([&status["metrics"][0]["name"], &status["metrics"][0]["state"]], ["decision", "Value"]);
    // An absolute count: the five ready replicas do not multiply it.
    fleet.keeps_size(5).await;
    server.decide("", "fleet", 0);
    fleet.is_serving(0).await;
    server.decide("", "fleet", 3);
    fleet.is_serving(3).await;
}

#[rstest]
#[tokio::test]
async fn the_bounds_hold_for_decisions_too(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "clamps", 3).await else { return };
    let server = DecisionServer::start().await;
    server.decide("", "fleet", 2_000_000_000);
    fleet.scale_on_decisions(&server, json!({"minReplicas": 2, "maxReplicas": 4})).await;
    fleet.is_serving(4).await;
    fleet.condition("ScalingLimited", "True", "TooManyReplicas").await;
    server.decide("", "fleet", 0);
    fleet.is_serving(2).await;
    let low = fleet.condition("ScalingLimited", "True", "TooFewReplicas").await;
    assert!(low.contains("minReplicas"), "{low}");
}

#[rstest]
#[tokio::test]
async fn a_question_carries_the_service_and_the_headers_to_the_path(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "headers", 1).await else { return };
    let server = DecisionServer::start().await;
    server.decide("prod", "qwen 3/32b", 2);
    fleet
        .scale_on_decisions(
            &server,
            json!({
                "serverHeaders": {"Authorization": "Bearer s3cret", "X-Scope-OrgID": "team-a"},
                "customProvider": {"serviceId": "qwen 3/32b", "namespace": "prod", "path": "/api/decisions"},
            }),
        )
        .await;
    fleet.has_size(2).await;
    let requests = server.requests();
    let asked = requests.last().unwrap();
    assert_eq!([&asked.method, &asked.path], ["GET", "/api/decisions"]);
    assert!(["serviceId=qwen+3%2F32b", "serviceId=qwen%203%2F32b"].contains(&asked.query.as_str()), "{}", asked.query);
    assert_eq!(asked.headers["authorization"], "Bearer s3cret");
    assert_eq!(asked.headers["x-scope-orgid"], "team-a");
    let status = fleet.status("reported", |status| status["decision"].is_object()).await;
    assert!(!status.to_string().contains("s3cret"), "a secret in the status: {status}");
}

#[rstest]
#[tokio::test]
async fn a_decision_for_another_service_or_in_another_schema_moves_nothing(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "matches", 2).await else { return };
    let server = DecisionServer::start().await;
    fleet.scale_on_decisions(&server, json!({})).await;

    let decision = |service: &str, replicas: serde_json::Value| json!({"namespace": "", "serviceId": service, "replicas": replicas});
    let reply = |version: &str, decisions: &[serde_json::Value]| {
        json!({"apiVersion": format!("llmscaling.inference.x-k8s.io/{version}"), "decisions": decisions}).to_string()
    };
    let active = json!({"active": 7});
    for (answer, words) in [
        (reply("v1alpha1", &[decision("another", active.clone())]), r#"no decision for serviceId "fleet""#),
        (reply("v1alpha1", &[decision("fleet", active.clone()), decision("fleet", active.clone())]), "2 decisions match"),
        (reply("v1alpha1", &[decision("fleet", json!({}))]), "no active count"),
        (reply("v1alpha1", &[decision("fleet", json!({"active": -1}))]), "out of range"),
        (reply("v2", &[decision("fleet", active)]), "unsupported schema"),
    ] {
        server.answer(200, answer);
        let held = |status: &serde_json::Value| {
            let active = condition(status, "ScalingActive");
            active["status"] == "False" && active["message"].as_str().is_some_and(|message| message.contains(words))
        };
        let status = fleet.status(&format!("held: {words}"), held).await;
        assert_eq!([&status["replicas"], &status["desiredReplicas"]], [2, 2], "{words}: {status}");
    }
    server.decide("", "fleet", 3);
    fleet.has_size(3).await;
}
