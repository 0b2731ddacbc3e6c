//! An operator that is killed, and the one that comes after it.

use std::time::{Duration, Instant};

use llmscaler_e2e::ApiServer::{Real, Sandbox};
use llmscaler_e2e::{ApiServer, deployment};
use rstest::rstest;
use serde_json::{Value, json};

use crate::fleet::{SOON, condition, operator_of};
use crate::scaler::on_decisions;
use crate::steered::{settles_at, without_operator};

const WINDOW: Duration = Duration::from_secs(8);

#[rstest]
#[tokio::test]
async fn an_operator_killed_within_a_window_is_followed_by_one_that_does_not_shrink_the_fleet_early(
    #[values(Real, Sandbox)] on: ApiServer,
) {
    let Some((ns, server)) = without_operator(on, "restart").await else { return };
    let operator = operator_of(&ns).await;
    let ask = |replicas| server.decide(ns.name(), "fleet", replicas);
    ask(4);
    ns.create(&deployment("fleet", 4)).await;
    settles_at(&ns, "fleet", 4).await;
    let window = json!({"scaleDown": {"stabilizationWindowSeconds": WINDOW.as_secs()}});
    ns.apply(&on_decisions(&ns, &server, window)).await;
    ns.wait_for(&ns.scalers(), "fleet", "decided", SOON, |scaler| scaler["status"]["desiredReplicas"] == 4).await;

    ask(1);
    let held = |scaler: &Value| condition(&scaler["status"], "AbleToScale")["reason"] == "ScaleDownStabilized";
    ns.wait_for(&ns.scalers(), "fleet", "held by the window", SOON, held).await;
    operator.kill();
    let restarted = Instant::now();
    let _operator = operator_of(&ns).await;
    let whole = WINDOW.saturating_sub(restarted.elapsed() + Duration::from_millis(500));
    ns.stays(&ns.deployments(), "fleet", "at 4", whole, |fleet| fleet["spec"]["replicas"] == 4).await;
    settles_at(&ns, "fleet", 1).await;
    assert!(restarted.elapsed() >= WINDOW, "{:?}", restarted.elapsed());
}
