//! Up, down, and standing still.

use std::time::Duration;

use llmscaler_e2e::{ControlPlane, Operator, deployment};
use serde_json::json;

use crate::scaler::on_load;

const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_fleet_follows_its_load() {
    let Some(plane) = ControlPlane::shared().await else { return };
    plane.apply_file("config/crd/bases/autoscaling.modelsphere.dev_llmscalers.yaml").await;
    let ns = plane.namespace("follows").await;
    let operator = Operator::launch(&plane).start().await;
    ns.create(&deployment("fleet", 2)).await;
    let exporter = ns.exporter();
    exporter.set("load", &[], 2.0);
    exporter.scraped().await;
    ns.apply(&on_load(&ns, json!({}))).await;
    ns.wait_for(&ns.deployments(), "fleet", "4 replicas", SOON, |fleet| fleet["spec"]["replicas"] == 4).await;
    println!("{}", operator.log_tail(40));
    let scaler = ns.wait_for(&ns.scalers(), "fleet", "status", SOON, |s| s["status"]["desiredReplicas"].is_i64()).await;
    println!("{}", serde_json::to_string_pretty(&scaler).unwrap());
}
