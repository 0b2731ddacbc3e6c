//! What the API server refuses, what it takes and the operator cannot use, and what an edit does.

use std::time::{Duration, Instant};

use kube::api::{Api, DeleteParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use llmscaler_e2e::ApiServer::{Real, Sandbox};
use llmscaler_e2e::{ApiServer, ControlPlane, DecisionServer, Namespace, deployment, eventually};
use rstest::rstest;
use serde_json::{Value, json};

use crate::fleet::{Fleet, SOON, binding, condition, events, operator_of};
use crate::scaler::{on_decisions, on_load, scaler};

/// Less than any period of these tests, on a machine that does much else.
const AT_ONCE: Duration = Duration::from_secs(10);

#[rstest]
#[tokio::test]
async fn the_api_server_refuses_what_cannot_work_and_says_what_to_write(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(ns) = on.namespace("refused").await else { return };
    let metric = |target: &str| json!({"metrics": [{"query": "up", "target": target}]});
    for (more, words) in [
        (json!({"minReplicas": 5, "maxReplicas": 4}), "minReplicas must not be above maxReplicas; lower minReplicas or raise maxReplicas"),
        (json!({"maxReplicas": -1, "minReplicas": 0}), "spec.maxReplicas in body should be greater than or equal to 0"),
        (json!({"minReplicas": -1}), "spec.minReplicas in body should be greater than or equal to 0"),
        (json!({"minReplicas": null}), "spec.minReplicas: Required value"),
        (metric("80%"), "instead of a per cent sign use the scale of the query"),
        (metric("0"), "must be a finite number above 0"),
        (metric("NaN"), "must be a finite number above 0"),
        (json!({"metrics": []}), "spec.metrics must be non-empty unless metricProvider is Custom"),
        (json!({"metrics": null}), "spec.metrics must be non-empty unless metricProvider is Custom"),
        (json!({"serverAddress": "prometheus.monitoring.svc:9090"}), "must be an http:// or https:// URL with a host"),
        (json!({"serverAddress": "http://prometheus:9090/?x=1"}), "without a query or fragment"),
        (json!({"serverHeaders": {"Authorization": "Bearer x\n"}}), "remove the line break"),
        (json!({"syncPeriodSeconds": -1}), "leave it out, or write 0, for the default of 15"),
        (json!({"retryPeriodSeconds": -1}), "leave it out, or write 0, for the default of 10"),
        (json!({"scaleDown": {"maxStepReplicas": -1}}), "spec.scaleDown.maxStepReplicas in body should be greater than or equal to 0"),
        (json!({"scaleDown": {"behavior": "Sometimes"}}), r#"supported values: "CacheAware", "None""#),
        (json!({"metricProvider": "Graphite"}), r#"supported values: "Prometheus", "Custom""#),
        (json!({"metricProvider": "Custom"}), "spec.customProvider is required when metricProvider is Custom"),
        (json!({"targetRef": {"apiVersion": "a/b/c"}}), "must be the target's group and version with one slash between them"),
        (json!({"targetRef": {"kind": " "}}), "must name the target's kind, such as Deployment"),
        (json!({"targetRef": {"name": null}}), "spec.targetRef.name: Required value"),
    ] {
        match ns.try_apply(&on_load(&ns, more.clone())).await {
            Ok(_) => panic!("{more} is not refused"),
            Err(error) => assert!(format!("{error:#}").contains(words), "{more}: {error:#}"),
        }
    }
    ns.apply(&on_load(&ns, json!({}))).await;
}

#[rstest]
#[tokio::test]
async fn an_edit_is_acted_on_at_once_although_the_period_is_long(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "edit", 2).await else { return };
    let server = DecisionServer::start().await;
    server.decide("", "fleet", 8);
    fleet.scale_on_decisions(&server, json!({"syncPeriodSeconds": 60})).await;
    fleet.is_serving(8).await;
    let edited = Instant::now();
    fleet.edit(json!({"maxReplicas": 5})).await;
    fleet.has_size(5).await;
    assert!(edited.elapsed() < AT_ONCE, "acted on after {:?}", edited.elapsed());
    fleet.status("the edit", |status| status["observedGeneration"] == 2 && status["desiredReplicas"] == 5).await;
}

/// Waits until the scaler is not ready because of `reason`, in these words.
async fn is_not_ready(ns: &Namespace, reason: &str, words: &str) -> Value {
    let says = |scaler: &Value| {
        let ready = condition(&scaler["status"], "Ready");
        ready["status"] == "False" && ready["reason"] == reason && ready["message"].as_str().is_some_and(|text| text.contains(words))
    };
    ns.wait_for(&ns.scalers(), "fleet", &format!("not ready because of {reason}: {words}"), SOON, says).await
}

#[rstest]
#[tokio::test]
async fn a_target_that_is_missing_is_scaled_as_soon_as_it_is_there(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "missing", 1).await else { return };
    let ns = fleet.ns();
    let server = DecisionServer::start().await;
    server.decide("", "fleet", 3);
    let late = json!({"targetRef": {"name": "late"}, "syncPeriodSeconds": 60, "retryPeriodSeconds": 60});
    fleet.scale_on_decisions(&server, late).await;
    is_not_ready(ns, "FailedGetScale", "there is no Deployment late").await;
    assert!(server.requests().is_empty(), "nobody is asked about a fleet that is not there");
    let created = Instant::now();
    ns.create(&deployment("late", 1)).await;
    ns.wait_for(&ns.deployments(), "late", "3 replicas", SOON, |late| late["spec"]["replicas"] == 3).await;
    assert!(created.elapsed() < AT_ONCE, "scaled after {:?}", created.elapsed());
    fleet.condition("Ready", "True", "ValidMetricFound").await;
}

#[rstest]
#[tokio::test]
async fn a_kind_that_the_cluster_does_not_serve_is_named(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "unserved", 1).await else { return };
    let server = DecisionServer::start().await;
    let target = |api_version: &str, kind: &str| json!({"targetRef": {"apiVersion": api_version, "kind": kind}});
    fleet.scale_on_decisions(&server, target("apps/v1", "Deploymnet")).await;
    is_not_ready(fleet.ns(), "FailedGetScale", "the API server serves no Deploymnet in apps/v1").await;
    fleet.edit(target("nowhere.example/v1", "Fleet")).await;
    is_not_ready(fleet.ns(), "FailedGetScale", "the API server serves no Fleet in nowhere.example/v1").await;
    fleet.edit(target("apps/v7", "Deployment")).await;
    is_not_ready(fleet.ns(), "FailedGetScale", "the API server serves no Deployment in apps/v7").await;
    assert_eq!(fleet.notes("FailedGetScale", 1).await.len(), 1, "not one for each attempt");
    server.decide("", "fleet", 2);
    fleet.edit(target("apps/v1", "Deployment")).await;
    fleet.has_size(2).await;
    fleet.condition("AbleToScale", "True", "ReadyForNewScale").await;
}

/// Lets the operator of the namespace do `verbs` with a resource.
async fn allow(ns: &Namespace, name: &str, group: &str, resources: &[&str], verbs: &[&str]) {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": name},
        "rules": [{"apiGroups": [group], "resources": resources, "verbs": verbs}],
    });
    ns.apply(&role.to_string()).await;
    ns.apply(&binding(name, "Role", name)).await;
}

#[tokio::test]
async fn a_kind_without_replicas_is_left_alone() {
    let Some(plane) = ControlPlane::shared().await else { return };
    let ns = plane.namespace("no-replicas").await;
    allow(&ns, "config-maps", "", &["configmaps"], &["get", "list", "watch"]).await;
    let _operator = operator_of(&ns).await;
    ns.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: fleet}, data: {a: b}}").await;
    let config_maps: Api<k8s_openapi::api::core::v1::ConfigMap> = ns.api();
    let before = config_maps.get("fleet").await.unwrap().metadata.resource_version;
    let server = DecisionServer::start().await;
    server.decide("", "fleet", 3);
    ns.apply(&on_decisions(&ns, &server, json!({"targetRef": {"apiVersion": "v1", "kind": "ConfigMap"}}))).await;
    let scaler = is_not_ready(&ns, "FailedGetScale", "ConfigMap fleet has neither spec.replicas nor a scale subresource").await;
    assert_eq!(condition(&scaler["status"], "AbleToScale")["status"], "False");
    assert_eq!(config_maps.get("fleet").await.unwrap().metadata.resource_version, before);
}

#[tokio::test]
async fn a_kind_of_ones_own_waits_for_its_role_and_then_scales() {
    let Some(plane) = ControlPlane::shared().await else { return };
    plane.apply(&crd_of_pools().to_string()).await;
    let ns = plane.namespace("pools").await;
    let operator = operator_of(&ns).await;
    let pools: Api<DynamicObject> = {
        let kind = GroupVersionKind::gvk("serving.example", "v1", "Pool");
        Api::namespaced_with(plane.client(), ns.name(), &ApiResource::from_gvk_with_plural(&kind, "pools"))
    };
    ns.apply(
        &json!({"apiVersion": "serving.example/v1", "kind": "Pool", "metadata": {"name": "fleet"}, "spec": {"replicas": 1}}).to_string(),
    )
    .await;
    let server = DecisionServer::start().await;
    server.decide("", "fleet", 3);
    ns.apply(&on_decisions(&ns, &server, json!({"targetRef": {"apiVersion": "serving.example/v1", "kind": "Pool"}}))).await;

    is_not_ready(&ns, "FailedGetScale", "cannot list resource").await;
    assert_eq!(pools.get("fleet").await.unwrap().data["spec"]["replicas"], 1);
    assert_eq!(operator.probe("/readyz").await, Some(200), "one kind that may not be read is not the operator's end");

    allow(&ns, "read-pools", "serving.example", &["pools"], &["get", "list", "watch"]).await;
    is_not_ready(&ns, "FailedUpdateScale", "pools").await;
    assert_eq!(pools.get("fleet").await.unwrap().data["spec"]["replicas"], 1);

    allow(&ns, "scale-pools", "serving.example", &["pools/scale"], &["get", "patch"]).await;
    ns.wait_for(&pools, "fleet", "3 replicas", SOON, |pool| pool["spec"]["replicas"] == 3).await;
    let ready = |scaler: &Value| condition(&scaler["status"], "Ready")["status"] == "True";
    ns.wait_for(&ns.scalers(), "fleet", "ready", SOON, ready).await;
}

fn crd_of_pools() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "pools.serving.example"},
        "spec": {
            "group": "serving.example",
            "names": {"kind": "Pool", "plural": "pools", "singular": "pool"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                    "spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
                    "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "readyReplicas": {"type": "integer"}}},
                }}},
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
            }],
        },
    })
}

/// The CRD as a very old release may have had it: with any spec at all.
fn without_rules(crd: &str) -> String {
    let mut crd: Value = serde_saphyr::from_str(crd).unwrap();
    let spec = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    *spec = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    crd.to_string()
}

#[tokio::test]
async fn objects_from_before_the_rules_say_what_is_wrong_and_disturb_nobody() {
    const CRD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/crd/bases/autoscaling.modelsphere.dev_llmscalers.yaml");
    let Some(plane) = ControlPlane::start().await else { return };
    let crd = std::fs::read_to_string(CRD).unwrap();
    plane.apply(&without_rules(&crd)).await;
    let ns = plane.namespace("stored").await;
    let server = DecisionServer::start().await;
    server.decide("", "fleet", 3);
    let spec = |more: Value| {
        let object: Value = serde_json::from_str(&on_decisions(&ns, &server, more)).unwrap();
        object["spec"].clone()
    };
    ns.apply(&scaler("inverted", &spec(json!({"minReplicas": 5, "maxReplicas": 4})))).await;
    ns.apply(&scaler("newer", &spec(json!({"mode": "Sometimes"})))).await;
    ns.apply(&scaler("worded", &spec(json!({"minReplicas": "three"})))).await;
    plane.apply(&crd).await;

    ns.create(&deployment("fleet", 1)).await;
    let _operator = operator_of(&ns).await;
    for (name, words) in [("inverted", "spec.minReplicas: minReplicas must not be above maxReplicas"), ("newer", "Sometimes")] {
        let says = |scaler: &Value| {
            let ready = condition(&scaler["status"], "Ready");
            ready["reason"] == "InvalidSpec" && ready["message"].as_str().is_some_and(|message| message.contains(words))
        };
        ns.wait_for(&ns.scalers(), name, words, SOON, says).await;
    }
    // While a field has a wrong type, the API server refuses a new status, too.
    let invalid = async || {
        let events = events(&ns, "InvalidSpec").await;
        events.into_iter().map(|event| event.regarding.unwrap().name.unwrap()).collect::<Vec<_>>()
    };
    eventually("told in an event", SOON, || async {
        let about = invalid().await;
        if about.contains(&"worded".to_owned()) { Ok(()) } else { Err(format!("{about:?}")) }
    })
    .await;
    assert!(server.requests().is_empty(), "an object that cannot be used is not acted on");

    ns.apply(&scaler("sound", &spec(json!({})))).await;
    ns.wait_for(&ns.deployments(), "fleet", "3 replicas", SOON, |fleet| fleet["spec"]["replicas"] == 3).await;
    let mut about = invalid().await;
    about.sort();
    assert_eq!(about, ["inverted", "newer", "worded"], "each is told once");

    ns.scalers().delete("sound", &DeleteParams::default()).await.unwrap();
    ns.scalers().delete("inverted", &DeleteParams::default()).await.unwrap();
    server.decide("", "fleet", 2);
    ns.patch(&ns.scalers(), "worded", &json!({"spec": {"minReplicas": 1}})).await;
    ns.wait_for(&ns.deployments(), "fleet", "2 replicas", SOON, |fleet| fleet["spec"]["replicas"] == 2).await;
}
