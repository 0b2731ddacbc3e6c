//! How long pods take to start, as the operator sees it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fleet::{SOON, operator_of};
use crate::scaler::on_decisions;
use crate::steered::{settles_at, without_operator};
use llmscaler_e2e::ApiServer::{Real, Sandbox};
use llmscaler_e2e::{ApiServer, deployment};
use rstest::rstest;

/// From a pod's node to its readiness.
const WARM_UP: Duration = Duration::from_secs(4);

#[rstest]
#[tokio::test]
async fn pods_that_were_seen_to_start_tell_the_warm_up_and_it_outlives_the_operator(#[values(Real, Sandbox)] on: ApiServer) {
    let Some((ns, server)) = without_operator(on, "warm-up").await else { return };
    ns.kubelet().ready_after(WARM_UP);
    ns.create(&deployment("fleet", 1)).await;
    settles_at(&ns, "fleet", 1).await;
    server.decide(ns.name(), "fleet", 1);
    let operator = operator_of(&ns).await;
    ns.apply(&on_decisions(&ns, &server, json!({}))).await;
    let decided = |scaler: &Value| scaler["status"]["desiredReplicas"] == 1;
    let scaler = ns.wait_for(&ns.scalers(), "fleet", "decided", SOON, decided).await;
    assert!(scaler["status"].get("warmup").is_none(), "nobody saw how the first pod started: {scaler}");

    server.decide(ns.name(), "fleet", 3);
    let learned = |scaler: &Value| scaler["status"]["warmup"]["samples"] == 2;
    let scaler = ns.wait_for(&ns.scalers(), "fleet", "two pods seen", SOON, learned).await;
    let seconds = scaler["status"]["warmup"]["seconds"].as_u64().unwrap();
    assert!((3..=8).contains(&seconds), "{scaler}");

    operator.kill();
    let _operator = operator_of(&ns).await;
    server.decide(ns.name(), "fleet", 4);
    let learned = |scaler: &Value| scaler["status"]["warmup"]["samples"] == 3;
    ns.wait_for(&ns.scalers(), "fleet", "a third pod seen", SOON, learned).await;
}
