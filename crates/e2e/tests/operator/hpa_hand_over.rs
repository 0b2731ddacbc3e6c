//! How a fleet comes to an HPA, and leaves it: without an orphan, a gap or a change of size.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use kube::api::DeleteParams;
use llmscaler_e2e::{ControlPlane, DecisionServer};
use serde_json::{Value, json};

use crate::doctor::findings;
use crate::fleet::{Fleet, SOON, condition};
use crate::hpa_plane::{self, API_SERVICE};
use crate::told::llmscaler;

/// What the doctor finds, among other things.
async fn says(fleet: &Fleet, severity: &str, check: &str, words: &str) {
    let account = format!("{}/llmscaler", fleet.ns().name());
    let told = llmscaler(fleet.ns(), &["doctor", "fleet", "-o", "json", "--operator-account", &account]).await;
    let all = findings(&told, fleet.ns(), "fleet");
    assert!(all.iter().any(|(as_, about, text)| as_ == severity && about == check && text.contains(words)), "{words}: {all:#?}");
    // The HPA is the scaler's own, and what its controller writes is its scaler's doing.
    assert!(all.iter().all(|(severity, check, _)| check != "owner" || severity == "ok" || severity == "note"), "{all:#?}");
}

#[tokio::test]
async fn changing_hands_and_deleting_change_no_size_and_leave_no_orphan() {
    let Some(started) = hpa_plane::start("hpa-hands", 3).await else { return };
    let fleet = &started.fleet;
    let ns = fleet.ns();
    let server = DecisionServer::start().await;
    let ask = |replicas| server.decide(ns.name(), "fleet", replicas);
    ask(3);
    fleet.scale_on_decisions(&server, json!({})).await;
    fleet.condition("Ready", "True", "ValidMetricFound").await;
    let sizes = fleet.sizes().await;
    let gone = |hpa: &Value| hpa.is_null();

    fleet.edit(json!({"actuation": "HorizontalPodAutoscaler"})).await;
    started.hpa_condition("ScalingActive", "True", "ValidMetricFound").await;
    fleet.keeps_size(3).await;
    says(fleet, "ok", "hpa", "serves the cluster's external metrics, and the API server reaches it").await;
    says(fleet, "ok", "rights", "may do all that this scaler takes").await;
    // What somebody changes is put right, and what somebody deletes comes back.
    ns.patch(&started.hpas(), "llmscaler-fleet", &json!({"spec": {"maxReplicas": 77}})).await;
    let hpa = started.hpa("put right", |hpa| hpa["spec"]["maxReplicas"] == 10).await;
    started.hpas().delete("llmscaler-fleet", &DeleteParams::default()).await.unwrap();
    started.hpa("back", |back| back["metadata"]["uid"] != hpa["metadata"]["uid"]).await;
    ask(4);
    fleet.is_serving(4).await;

    fleet.edit(json!({"actuation": "Direct"})).await;
    ns.wait_for(&started.hpas(), "llmscaler-fleet", "removed", SOON, gone).await;
    fleet.keeps_size(4).await;
    let status = fleet.status("without the HPA's condition", |status| condition(status, "HPAInStep").is_null()).await;
    assert_eq!(condition(&status, "Ready")["status"], "True", "{status}");
    ask(5);
    fleet.is_serving(5).await;

    // Somebody else's HPA by that name is nobody's to change.
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"});
    let metrics = json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]);
    let theirs = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "llmscaler-fleet"},
        "spec": {"scaleTargetRef": target, "maxReplicas": 3, "metrics": metrics}});
    ns.apply(&theirs.to_string()).await;
    fleet.edit(json!({"actuation": "HorizontalPodAutoscaler"})).await;
    fleet.condition("HPAInStep", "False", "NameTaken").await;
    started.hpa("untouched", |hpa| hpa["spec"]["maxReplicas"] == 3).await;
    started.hpas().delete("llmscaler-fleet", &DeleteParams::default()).await.unwrap();
    fleet.condition("HPAInStep", "True", "InStep").await;

    ns.scalers().delete("fleet", &DeleteParams::default()).await.unwrap();
    ns.wait_for(&started.hpas(), "llmscaler-fleet", "collected", SOON, gone).await;
    ns.stays::<Deployment>(&ns.deployments(), "fleet", "at 5", std::time::Duration::from_secs(5), |fleet| fleet["spec"]["replicas"] == 5)
        .await;
    sizes.were(&[3, 4, 5]).await;
}

#[tokio::test]
async fn an_api_that_is_somebody_elses_is_left_alone_until_it_is_free() {
    let Some(plane) = ControlPlane::start().await else { return };
    let theirs = json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": API_SERVICE},
        "spec": {
            "group": "external.metrics.k8s.io",
            "version": "v1beta1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": true,
            "service": {"namespace": "default", "name": "keda-metrics-apiserver"},
        },
    });
    plane.apply(&theirs.to_string()).await;
    let api: Api<APIService> = Api::all(plane.client());
    let before = api.get(API_SERVICE).await.unwrap();
    let started = hpa_plane::start_on(&plane, "hpa-foreign", 2).await;
    let fleet = &started.fleet;
    let server = DecisionServer::start().await;
    server.decide(fleet.ns().name(), "fleet", 4);
    fleet.scale_on_decisions(&server, json!({"actuation": "HorizontalPodAutoscaler"})).await;

    let why = fleet.condition("HPAInStep", "False", "APIServiceOwned").await;
    assert!(why.contains("keda-metrics-apiserver") && why.contains("left alone"), "{why}");
    fleet.condition("Ready", "False", "APIServiceOwned").await;
    fleet.keeps_size(2).await;
    assert!(started.hpas().get_opt("llmscaler-fleet").await.unwrap().is_none());
    assert_eq!(fleet.operator().metric("llmscaler_external_metrics_served").await, Some(0.0));
    says(fleet, "problem", "hpa", "leads to Service keda-metrics-apiserver in namespace default and is not the operator's").await;
    let after = api.get(API_SERVICE).await.unwrap();
    assert_eq!(before.spec, after.spec);
    // The API server writes its status.
    let managers = after.metadata.managed_fields.unwrap_or_default();
    assert!(managers.iter().all(|entry| entry.manager.as_deref() != Some("llmscaler")), "{managers:?}");
    let log = fleet.operator().log_tail(usize::MAX);
    assert!(log.contains("Not serving the cluster's external metrics: APIService"), "{log}");

    api.delete(API_SERVICE, &DeleteParams::default()).await.unwrap();
    fleet.condition("HPAInStep", "True", "InStep").await;
    fleet.is_serving(4).await;
    assert_eq!(fleet.operator().metric("llmscaler_external_metrics_served").await, Some(1.0));
}
