//! Up, down, and standing still.

use std::time::{Duration, Instant};

use axum::http;
use llmscaler_e2e::ApiServer::{Real, Sandbox};
use llmscaler_e2e::{ApiServer, DecisionServer};
use rstest::rstest;
use serde_json::{Value, json};

use crate::fleet::{Fleet, condition};

#[rstest]
#[tokio::test]
async fn a_fleet_follows_its_load_up_and_down_and_the_status_says_so(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "follows", 2).await else { return };
    let sizes = fleet.sizes().await;
    fleet.load(2.0).await;
    // Twice the load that each of them should carry, whatever their number: the maximum ends it.
    fleet.scale_on_load(json!({"minReplicas": 2, "maxReplicas": 4})).await;
    fleet.is_serving(4).await;
    let status = fleet.status("4 ready", |status| status["currentReplicas"] == 4).await;
    assert_eq!([&status["replicas"], &status["desiredReplicas"]], [4, 4]);
    assert_eq!(status["observedGeneration"], 1);
    assert_eq!(status["metrics"][0]["state"], "Value");
    assert_eq!([&status["metrics"][0]["value"], &status["metrics"][0]["target"]], ["2", "1"]);
    assert!(status["lastScaleTime"].is_string() && status["lastActiveTime"].is_string(), "{status}");
    for (kind, expected) in [("ScalingActive", "True"), ("AbleToScale", "True"), ("Ready", "True"), ("ScalingLimited", "True")] {
        assert_eq!(condition(&status, kind)["status"], expected, "{kind}: {status}");
    }
    let stages: Vec<_> = status["decision"]["stages"].as_array().unwrap().iter().map(|stage| stage["stage"].as_str().unwrap()).collect();
    assert_eq!(stages, ["recommend", "activate", "bound", "stabilise", "pace", "guard", "write"]);

    fleet.load(0.25).await;
    fleet.is_serving(2).await;
    fleet.status("2 ready", |status| status["currentReplicas"] == 2 && status["desiredReplicas"] == 2).await;
    sizes.were(&[2, 4, 2]).await;

    let notes = fleet.notes("SuccessfulRescale", 2).await;
    assert!(notes[0].contains("up from 2 to 4") && notes[0].contains("load 2 against 1 over 2 ready replicas"), "{}", notes[0]);
    assert!(notes[1].contains("down from 4 to 2") && notes[1].contains("minReplicas"), "{}", notes[1]);
}

#[rstest]
#[tokio::test]
async fn the_operator_owns_the_size_of_its_target_and_nothing_else_of_it(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "owns", 1).await else { return };
    let server = DecisionServer::start().await;
    server.decide("", "fleet", 3);
    fleet.scale_on_decisions(&server, json!({})).await;
    let target = fleet.has_size(3).await;
    let ours: Vec<&Value> =
        target["metadata"]["managedFields"].as_array().unwrap().iter().filter(|entry| entry["manager"] == "llmscaler").collect();
    let [ours] = ours[..] else { panic!("one entry is llmscaler's: {target}") };
    assert_eq!(ours["operation"], "Apply");
    assert_eq!(ours["subresource"], "scale");
    assert_eq!(ours["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}));
}

#[rstest]
#[tokio::test]
async fn kubectl_get_shows_the_bounds_the_sizes_and_whether_all_is_well(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "columns", 2).await else { return };
    let server = DecisionServer::start().await;
    server.decide("", "fleet", 2);
    fleet.scale_on_decisions(&server, json!({"maxReplicas": 7})).await;
    fleet.condition("Ready", "True", "ValidMetricFound").await;
    let url = format!("/apis/autoscaling.modelsphere.dev/v1alpha1/namespaces/{}/llmscalers/fleet", fleet.ns().name());
    let request = http::Request::get(url).header("accept", "application/json;as=Table;g=meta.k8s.io;v=v1").body(Vec::new()).unwrap();
    let table: Value = fleet.ns().client().request(request).await.unwrap();
    let columns: Vec<_> = table["columnDefinitions"].as_array().unwrap().iter().map(|column| column["name"].as_str().unwrap()).collect();
    assert_eq!(columns, ["Name", "MinReplicas", "MaxReplicas", "CurrentReplicas", "DesiredReplicas", "Ready", "Age"]);
    assert_eq!(table["rows"][0]["cells"].as_array().unwrap()[..6], [json!("fleet"), json!(1), json!(7), json!(2), json!(2), json!("True")]);
}

#[rstest]
#[tokio::test]
async fn an_idle_fleet_goes_to_zero_and_its_load_wakes_it(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "zero", 2).await else { return };
    fleet.load(0.0).await;
    fleet.scale_on_load(json!({"minReplicas": 0, "maxReplicas": 3})).await;
    fleet.is_serving(0).await;
    fleet.condition("ScalingActive", "True", "ValidMetricFound").await;
    fleet.keeps_size(0).await;
    // From zero, a load of 2.5 against 1 is measured as one replica's: 3.
    fleet.load(2.5).await;
    fleet.is_serving(3).await;
}

#[rstest]
#[tokio::test]
async fn a_step_cap_walks_the_fleet_down_and_the_status_tells_the_destination(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "steps", 10).await else { return };
    let server = DecisionServer::start().await;
    server.decide("", "fleet", 10);
    fleet.scale_on_decisions(&server, json!({"scaleDown": {"maxStepReplicas": 2}})).await;
    fleet.status("10 wanted", |status| status["desiredReplicas"] == 10).await;
    let sizes = fleet.sizes().await;
    server.decide("", "fleet", 5);
    let eight = fleet.status("on its way by way of 8", |status| status["replicas"] == 8).await;
    assert_eq!(eight["desiredReplicas"], 5, "{eight}");
    assert_eq!(condition(&eight, "ScalingLimited")["reason"], "ScaleDownLimit");
    fleet.is_serving(5).await;
    sizes.were(&[10, 8, 6, 5]).await;
}

#[rstest]
#[tokio::test]
async fn a_stabilization_window_holds_the_peak_and_then_lets_the_fleet_shrink(#[values(Real, Sandbox)] on: ApiServer) {
    const WINDOW: Duration = Duration::from_secs(5);
    let Some(fleet) = Fleet::start(on, "window", 1).await else { return };
    let server = DecisionServer::start().await;
    server.decide("", "fleet", 6);
    fleet.scale_on_decisions(&server, json!({"scaleDown": {"stabilizationWindowSeconds": WINDOW.as_secs()}})).await;
    fleet.is_serving(6).await;
    let sizes = fleet.sizes().await;
    // The last sync that recorded the peak comes after this one.
    let before = Instant::now();
    fleet.status("6 ready", |status| status["currentReplicas"] == 6).await;
    server.decide("", "fleet", 2);
    let held = fleet.status("held", |status| status["decision"]["reason"] == "ScaleDownStabilized").await;
    assert_eq!(held["desiredReplicas"], 6, "{held}");
    fleet.has_size(2).await;
    sizes.were(&[6, 2]).await;
    let held_for = sizes.since().duration_since(before);
    assert!(held_for >= WINDOW, "the peak held for {held_for:?} only");
}

#[rstest]
#[tokio::test]
async fn a_maximum_of_zero_pins_the_fleet_at_zero(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "pinned", 2).await else { return };
    let server = DecisionServer::start().await;
    server.decide("", "fleet", 5);
    fleet.scale_on_decisions(&server, json!({"minReplicas": 0, "maxReplicas": 0})).await;
    fleet.is_serving(0).await;
    fleet.condition("ScalingActive", "False", "ScalingDisabled").await;
    fleet.keeps_size(0).await;
}
