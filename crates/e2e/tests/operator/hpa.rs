//! Scaling by a generated HPA, through the real aggregation layer and by the real HPA controller.

use std::time::Duration;

use llmscaler_e2e::{ADMIN_TOKEN, DecisionServer, Relay};
use serde_json::{Value, json};

use crate::dual::grows_from_zero_to_five;
use crate::epp::{self, Epp};
use crate::fleet::{SOON, condition};
use crate::hpa_plane::{self, HpaFleet};
use crate::scaler::merge;

/// A tenth of the guide's cooldown and of its window for scaling down.
const COOLDOWN: Duration = Duration::from_secs(30);
const WINDOW: Duration = Duration::from_secs(30);

/// The guide's object, by an HPA: one queued request a replica, sixteen running ones, and zero when there are neither for a while.
async fn scale(started: &HpaFleet, more: Value) {
    let mut spec = json!({
        "actuation": "HorizontalPodAutoscaler",
        "minReplicas": 0,
        "maxReplicas": 8,
        "preset": epp::preset(),
        "metrics": [
            {"name": "queue", "signal": "queuedRequests", "target": "1", "metricType": "AverageValue"},
            {"name": "running", "signal": "runningRequests", "target": "16", "metricType": "AverageValue"},
        ],
        "idle": {"cooldownSeconds": COOLDOWN.as_secs()},
        "behavior": {
            "scaleUp": {"stabilizationWindowSeconds": 0, "policies": [{"type": "Percent", "value": 900, "periodSeconds": 2}], "tolerance": "0"},
            "scaleDown": {
                "stabilizationWindowSeconds": WINDOW.as_secs(),
                "policies": [{"type": "Percent", "value": 100, "periodSeconds": 2}],
                "tolerance": "0",
            },
        },
    });
    merge(&mut spec, more);
    started.fleet.scale_on_load(spec).await;
}

#[tokio::test]
async fn the_guides_object_goes_from_zero_to_one_to_many_and_back() {
    let Some(started) = hpa_plane::start("hpa-dual", 0).await else { return };
    let fleet = &started.fleet;
    let epp = Epp::start(fleet.ns().exporter());
    fleet.ns().exporter().scraped().await;
    scale(&started, json!({})).await;
    fleet.condition("HPAInStep", "True", "InStep").await;
    let hpa = started.hpa_condition("ScalingActive", "False", "ScalingDisabled").await;
    let owner = &hpa["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["name"], &owner["controller"]), (&json!("LLMScaler"), &json!("fleet"), &json!(true)));
    assert_eq!((&hpa["spec"]["minReplicas"], &hpa["spec"]["maxReplicas"]), (&json!(1), &json!(8)));
    assert_eq!(hpa["spec"]["behavior"]["scaleDown"]["tolerance"], "0");
    fleet.condition("Ready", "True", "ValidMetricFound").await;
    let sizes = fleet.sizes().await;

    // The first replica is the operator's part, the rest up to the last one the HPA's.
    grows_from_zero_to_five(fleet, &epp).await;
    started.hpa_condition("ScalingActive", "True", "ValidMetricFound").await;
    let status = fleet.status("headed for five", |status| status["desiredReplicas"] == 5).await;
    let active = condition(&status, "ScalingActive");
    assert!(active["message"].as_str().unwrap().starts_with("the HPA: "), "{status}");
    let list = started.read(ADMIN_TOKEN, "llmscaler-fleet-running", "scaler%3Dfleet").await.unwrap();
    assert_eq!((&list["items"][0]["value"], &list["items"][0]["metricLabels"]), (&json!("70"), &json!({"scaler": "fleet"})), "{list}");

    epp.load(2, 0);
    let patience = 2 * (WINDOW + COOLDOWN);
    let is = |size: i32| move |fleet: &Value| fleet["spec"]["replicas"] == size;
    fleet.ns().wait_for(&fleet.ns().deployments(), "fleet", "down to 1", patience, is(1)).await;
    let down = *sizes.steps().last().unwrap();
    assert!(down >= WINDOW - Duration::from_secs(3), "the HPA's window, {down:?}");
    epp.load(0, 0);
    fleet.ns().wait_for(&fleet.ns().deployments(), "fleet", "down to 0", patience, is(0)).await;
    sizes.were(&[0, 1, 3, 5, 1, 0]).await;
    fleet.keeps_size(0).await;
}

#[tokio::test]
async fn nobody_reads_metrics_but_whom_the_cluster_lets() {
    let Some(started) = hpa_plane::start("hpa-readers", 1).await else { return };
    let fleet = &started.fleet;
    let server = DecisionServer::start().await;
    server.decide(fleet.ns().name(), "fleet", 2);
    fleet.scale_on_decisions(&server, json!({"actuation": "HorizontalPodAutoscaler"})).await;
    fleet.is_serving(2).await;

    let (metric, of_fleet) = ("llmscaler-fleet-decision", "scaler%3Dfleet");
    let read = started.read(ADMIN_TOKEN, metric, of_fleet).await.unwrap();
    assert_eq!(read["items"][0]["value"], "2");
    assert_eq!(started.read(ADMIN_TOKEN, metric, "scaler%3Dother").await.unwrap()["items"], json!([]));
    assert_eq!(started.read(ADMIN_TOKEN, "llmscaler-fleet-other", of_fleet).await, Err(404));
    let plane = fleet.ns().plane();
    let stranger = plane.service_account(fleet.ns().name(), "stranger").await;
    assert_eq!(started.read(&stranger, metric, of_fleet).await, Err(403));

    // Past the API server there is no way in: without its certificate, its headers say nothing.
    let client = reqwest::Client::builder().danger_accept_invalid_certs(true).build().unwrap();
    let url = format!("https://127.0.0.1:{}/apis/external.metrics.k8s.io/v1beta1", started.port);
    let request = client.get(url).header("X-Remote-User", "admin").header("X-Remote-Group", "system:masters");
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 401);
    assert!(answer.text().await.unwrap().contains("the API server's aggregator alone"));
}

#[tokio::test]
async fn neither_a_dead_prometheus_nor_a_new_operator_shrinks_the_fleet() {
    let Some(started) = hpa_plane::start("hpa-outage", 3).await else { return };
    let relay = Relay::to(started.fleet.ns().plane().prometheus().url()).await;
    let epp = Epp::start(started.fleet.ns().exporter());
    epp.load(40, 0);
    started.fleet.ns().exporter().scraped().await;
    let eager =
        json!({"scaleDown": {"stabilizationWindowSeconds": 0, "policies": [{"type": "Percent", "value": 100, "periodSeconds": 2}]}});
    scale(&started, json!({"serverAddress": relay.url(), "behavior": eager, "idle": {"cooldownSeconds": 0}})).await;
    started.hpa_condition("ScalingActive", "True", "ValidMetricFound").await;
    let sizes = started.fleet.sizes().await;

    relay.cut();
    // What nobody can see does not count.
    epp.load(0, 0);
    started.hpa_condition("ScalingActive", "False", "FailedGetExternalMetric").await;
    let status = started.fleet.status("not ready", |status| condition(status, "Ready")["status"] == "False").await;
    assert_eq!(condition(&status, "ScalingActive")["reason"], "FailedGetMetrics", "{status}");
    started.fleet.keeps_size(3).await;
    epp.load(40, 0);
    started.fleet.ns().exporter().scraped().await;
    relay.restore().await;
    started.hpa_condition("ScalingActive", "True", "ValidMetricFound").await;

    let port = started.port;
    let launch = hpa_plane::launch(started.fleet.ns(), port).await;
    started.fleet.restart(launch).await;
    started.fleet.keeps_size(3).await;
    started.hpa_condition("ScalingActive", "True", "ValidMetricFound").await;
    sizes.were(&[3]).await;
    epp.load(90, 0);
    started.fleet.is_serving(6).await;
    epp.load(2, 0);
    started.fleet.is_serving(1).await;
    sizes.were(&[3, 6, 1]).await;
}

#[tokio::test]
async fn a_count_is_passed_through_to_the_last_replica_and_steps_are_as_without_an_hpa() {
    let Some(started) = hpa_plane::start("hpa-count", 20).await else { return };
    let fleet = &started.fleet;
    let server = DecisionServer::start().await;
    let ask = |replicas| server.decide(fleet.ns().name(), "fleet", replicas);
    ask(20);
    let paced =
        json!({"actuation": "HorizontalPodAutoscaler", "maxReplicas": 30, "scaleDown": {"maxStepReplicas": 4}, "syncPeriodSeconds": 2});
    fleet.scale_on_decisions(&server, paced).await;
    started.hpa_condition("ScalingActive", "True", "ValidMetricFound").await;
    let sizes = fleet.sizes().await;
    // Five per cent, which an HPA tolerates unless it is told not to.
    ask(21);
    fleet.is_serving(21).await;
    ask(30);
    fleet.is_serving(30).await;
    ask(20);
    fleet.is_serving(20).await;
    let seen = sizes.seen();
    assert!(seen.starts_with(&[20, 21, 30, 26]) && seen.ends_with(&[20]), "{seen:?}");
    assert!(seen[2..].windows(2).all(|pair| pair[0] - pair[1] <= 4), "{seen:?}");

    // A fallback only ever raises, here too.
    fleet.edit(json!({"fallback": {"failureThreshold": 1, "replicas": 24}})).await;
    server.answer(503, "busy");
    fleet.is_serving(24).await;
    fleet.edit(json!({"fallback": {"failureThreshold": 1, "replicas": 5}})).await;
    started.hpa("with the fallback", |hpa| hpa["spec"]["metrics"][1]["external"]["metric"]["name"] == "llmscaler-fleet-fallback").await;
    fleet.keeps_size(24).await;
}

#[tokio::test]
async fn a_slow_source_keeps_no_hpa_waiting() {
    let Some(started) = hpa_plane::start("hpa-slow", 2).await else { return };
    let fleet = &started.fleet;
    let server = DecisionServer::start().await;
    server.decide(fleet.ns().name(), "fleet", 2);
    fleet.scale_on_decisions(&server, json!({"actuation": "HorizontalPodAutoscaler", "syncPeriodSeconds": 5})).await;
    started.hpa_condition("ScalingActive", "True", "ValidMetricFound").await;
    let asked = server.requests().len();
    server.hang();
    fleet.ns().wait_for(&fleet.ns().scalers(), "fleet", "asking", SOON, |_| server.requests().len() > asked).await;
    // The source does not answer, and the last reading is served at once.
    let before = std::time::Instant::now();
    let read = started.read(ADMIN_TOKEN, "llmscaler-fleet-decision", "").await.unwrap();
    assert_eq!(read["items"][0]["value"], "2");
    assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
    started.hpa_condition("ScalingActive", "False", "FailedGetExternalMetric").await;
    fleet.keeps_size(2).await;
}
