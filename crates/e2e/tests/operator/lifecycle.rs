//! Scalers and targets that come and go.

use std::time::{Duration, Instant};

use kube::api::DeleteParams;
use llmscaler_e2e::ApiServer::{Real, Sandbox};
use llmscaler_e2e::{ApiServer, deployment, eventually};
use rstest::rstest;
use serde_json::{Value, json};

use crate::fleet::{A_FEW_SYNCS, SOON, condition};
use crate::steered::Steered;

#[rstest]
#[tokio::test]
async fn a_missing_target_is_named_and_picked_up_as_soon_as_it_exists(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(test) = Steered::start(on, "missing").await else { return };
    test.ask(3);
    test.scale(json!({"retryPeriodSeconds": 600})).await;
    let missing = |scaler: &Value| {
        let ready = condition(&scaler["status"], "Ready");
        ready["status"] == "False"
            && ready["message"].as_str().is_some_and(|message| message.contains("there is no Deployment fleet in namespace"))
    };
    test.ns.wait_for(&test.ns.scalers(), "fleet", "without its target", SOON, missing).await;

    test.ns.create(&deployment("fleet", 1)).await;
    let created = Instant::now();
    test.settles_at(3).await;
    assert!(created.elapsed() < Duration::from_secs(15), "{:?}", created.elapsed());
    let ready = |scaler: &Value| condition(&scaler["status"], "Ready")["status"] == "True";
    test.ns.wait_for(&test.ns.scalers(), "fleet", "ready", SOON, ready).await;
}

#[rstest]
#[tokio::test]
async fn a_deleted_target_is_missed_and_its_successor_picked_up(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(test) = Steered::start(on, "successor").await else { return };
    test.ask(3);
    test.ns.create(&deployment("fleet", 1)).await;
    test.scale(json!({"retryPeriodSeconds": 600})).await;
    test.settles_at(3).await;
    test.ns.deployments().delete("fleet", &DeleteParams::background()).await.unwrap();
    let ready = |status: &'static str| move |scaler: &Value| condition(&scaler["status"], "Ready")["status"] == status;
    test.ns.wait_for(&test.ns.scalers(), "fleet", "without its target", SOON, ready("False")).await;
    test.ns.create(&deployment("fleet", 1)).await;
    test.settles_at(3).await;
    test.ns.wait_for(&test.ns.scalers(), "fleet", "ready", SOON, ready("True")).await;
}

#[rstest]
#[tokio::test]
async fn a_deleted_scaler_leaves_its_target_as_it_is_and_asks_no_more(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(test) = Steered::start(on, "deleted").await else { return };
    test.ask(3);
    test.ns.create(&deployment("fleet", 1)).await;
    test.scale(json!({})).await;
    let before = test.settles_at(3).await;
    test.ns.scalers().delete("fleet", &DeleteParams::default()).await.unwrap();
    test.ns.wait_for(&test.ns.scalers(), "fleet", "gone", SOON, Value::is_null).await;

    test.ask(5);
    let asked = || test.server.requests().len();
    eventually("quiet for a period", SOON, || async {
        let before = asked();
        tokio::time::sleep(Duration::from_millis(1500)).await;
        if asked() == before { Ok(()) } else { Err("still asking") }
    })
    .await;
    let quiet = asked();
    let same = |fleet: &Value| {
        fleet["metadata"]["generation"] == before["metadata"]["generation"] && fleet["metadata"]["uid"] == before["metadata"]["uid"]
    };
    test.ns.stays(&test.ns.deployments(), "fleet", "as it was", A_FEW_SYNCS, same).await;
    assert_eq!(asked(), quiet);
    assert_eq!(before["spec"]["replicas"], 3);
}

#[rstest]
#[tokio::test]
async fn an_operator_at_work_is_healthy_and_ready(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(test) = Steered::start(on, "health").await else { return };
    test.ask(2);
    test.ns.create(&deployment("fleet", 1)).await;
    test.scale(json!({})).await;
    test.settles_at(2).await;
    for probe in ["/healthz", "/readyz"] {
        assert_eq!(test.operator.probe(probe).await, Some(200), "{probe}");
    }
}
