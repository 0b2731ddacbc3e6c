//! Targets other than Deployments.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use llmscaler_e2e::ApiServer::Real;
use llmscaler_e2e::{Namespace, eventually, leader_worker_set, stateful_set};
use serde_json::{Value, json};

use crate::fleet::{A_FEW_SYNCS, SOON, binding, condition};
use crate::marks::MarkWatch;
use crate::ownership::entries_of_llmscaler;
use crate::steered::Steered;

#[tokio::test]
async fn a_stateful_set_follows_and_its_pods_are_never_marked() {
    let Some(test) = Steered::start(Real, "stateful").await else { return };
    let sets = test.ns.stateful_sets();
    test.ns.create(&stateful_set("fleet", 2)).await;
    let marks = MarkWatch::start(&test.ns).await;
    test.ask(2);
    test.scale(target("apps/v1", "StatefulSet")).await;
    for replicas in [4, 1, 2] {
        test.ask(replicas);
        let ready = |set: &Value| {
            set["spec"]["replicas"] == replicas
                && [&set["status"]["replicas"], &set["status"]["readyReplicas"]].map(Value::as_i64) == [Some(replicas); 2]
        };
        let set = test.ns.wait_for(&sets, "fleet", &format!("{replicas} ready"), SOON, ready).await;
        assert_eq!(entries_of_llmscaler(&set), [sizing("Apply", "f:replicas")]);
    }
    assert_eq!(marks.seen(), [].into());
}

#[tokio::test]
async fn a_stateful_set_is_left_alone_until_all_pods_are_of_its_newest_revision() {
    const NEXT: &str = "model-server:next";
    let Some(test) = Steered::start(Real, "revisions").await else { return };
    let sets = test.ns.stateful_sets();
    test.ns.create(&stateful_set("fleet", 2)).await;
    test.ns.wait_for(&sets, "fleet", "2 ready", SOON, |set| set["status"]["readyReplicas"] == 2).await;
    test.ask(2);
    test.scale(target("apps/v1", "StatefulSet")).await;

    test.ns
        .kubelet()
        .hold_unready(|pod: &Pod| pod.spec.iter().flat_map(|spec| &spec.containers).any(|it| it.image.as_deref() == Some(NEXT)));
    test.ns.patch(&sets, "fleet", &json!({"spec": {"template": {"metadata": {"annotations": {"revision": "next"}}}}})).await;
    let rollout = json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": NEXT}]);
    let rollout: Patch<Value> = Patch::Json(serde_json::from_value(rollout).unwrap());
    sets.patch("fleet", &PatchParams::default(), &rollout).await.unwrap();
    let rolling =
        |set: &Value| set["status"]["updatedReplicas"] == 1 && set["status"]["updateRevision"] != set["status"]["currentRevision"];
    test.ns.wait_for(&sets, "fleet", "rolling", SOON, rolling).await;
    test.ask(4);
    let held = |scaler: &Value| condition(&scaler["status"], "AbleToScale")["reason"] == "RolloutInProgress";
    test.ns.wait_for(&test.ns.scalers(), "fleet", "waiting for the rollout", SOON, held).await;
    test.ns.stays(&sets, "fleet", "at 2 replicas", A_FEW_SYNCS, |set| set["spec"]["replicas"] == 2).await;
    test.ns.kubelet().hold_unready(|_| false);
    test.ns.wait_for(&sets, "fleet", "4 ready", SOON, |set| set["status"]["readyReplicas"] == 4).await;
}

#[tokio::test]
async fn a_leader_worker_set_follows_in_groups_and_waits_for_its_rollout() {
    let Some(test) = Steered::start(Real, "groups").await else { return };
    let sets = test.ns.leader_worker_sets();
    sets.create(&PostParams::default(), &leader_worker_set("fleet", 2, 4)).await.unwrap();
    test.ns.report_groups("fleet", 2, 2, 2).await;
    test.ask(2);
    test.scale(target("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")).await;
    for replicas in [5, 3] {
        test.ask(replicas.into());
        let what = format!("{replicas} groups");
        let set = test.ns.wait_for(&sets, "fleet", &what, SOON, |set| set["spec"]["replicas"] == replicas).await;
        assert_eq!(entries_of_llmscaler(&set), [sizing("Update", "f:replicas")]);
        test.ns.report_groups("fleet", replicas, replicas, replicas).await;
    }

    report_update(&test.ns, true).await;
    test.ask(6);
    let held = |scaler: &Value| condition(&scaler["status"], "AbleToScale")["reason"] == "RolloutInProgress";
    test.ns.wait_for(&test.ns.scalers(), "fleet", "waiting for the rollout", SOON, held).await;
    test.ns.stays(&sets, "fleet", "at 3 groups", A_FEW_SYNCS, |set| set["spec"]["replicas"] == 3).await;
    report_update(&test.ns, false).await;
    test.ns.wait_for(&sets, "fleet", "6 groups", SOON, |set| set["spec"]["replicas"] == 6).await;
}

#[tokio::test]
async fn a_kind_that_keeps_its_size_elsewhere_is_scaled_through_its_scale_subresource() {
    let Some(test) = Steered::start(Real, "pool").await else { return };
    let scale = json!({"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas"});
    let pools = Kind::install(&test.ns, "Pool", "pools", json!({"status": {}, "scale": scale})).await;
    pools.grant(&test.ns, &["get", "list", "watch"], &["get", "patch"]).await;
    pools.create("fleet", json!({"size": 2})).await;
    pools.report("fleet", 2).await;
    test.ask(2);
    test.scale(target("e2e.example/v1", "Pool")).await;
    for replicas in [5, 3] {
        test.ask(replicas);
        let pool = test.ns.wait_for(&pools.api, "fleet", &format!("size {replicas}"), SOON, |pool| pool["spec"]["size"] == replicas).await;
        assert_eq!(pool["spec"], json!({"size": replicas}));
        assert_eq!(entries_of_llmscaler(&pool), [sizing("Update", "f:size")]);
        pools.report("fleet", replicas).await;
    }
}

#[tokio::test]
async fn a_kind_without_a_scale_subresource_has_its_replicas_applied_and_nothing_else() {
    let Some(test) = Steered::start(Real, "band").await else { return };
    let bands = Kind::install(&test.ns, "Band", "bands", json!({"status": {}})).await;
    bands.grant(&test.ns, &["get", "list", "watch", "patch"], &[]).await;
    bands.create("fleet", json!({"replicas": 2, "size": 7})).await;
    bands.report("fleet", 2).await;
    test.ask(2);
    test.scale(target("e2e.example/v1", "Band")).await;
    for replicas in [5, 3] {
        test.ask(replicas);
        let what = format!("{replicas} replicas");
        let band = test.ns.wait_for(&bands.api, "fleet", &what, SOON, |band| band["spec"]["replicas"] == replicas).await;
        assert_eq!(band["spec"], json!({"replicas": replicas, "size": 7}));
        assert_eq!(entries_of_llmscaler(&band), [json!({"operation": "Apply", "fields": {"f:spec": {"f:replicas": {}}}})]);
        bands.report("fleet", replicas).await;
    }
}

/// Plays the LeaderWorkerSet controller, which says by a condition that it replaces groups.
async fn report_update(ns: &Namespace, under_way: bool) {
    let condition = json!({
        "type": "UpdateInProgress",
        "status": if under_way { "True" } else { "False" },
        "reason": "GroupsUpdating",
        "message": "Rolling Upgrade is in progress",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let status = Patch::Merge(json!({"status": {"conditions": [condition]}}));
    ns.leader_worker_sets().patch_status("fleet", &PatchParams::default(), &status).await.unwrap();
}

/// A scaler's target of another kind, still called `fleet`.
fn target(api_version: &str, kind: &str) -> Value {
    json!({"targetRef": {"apiVersion": api_version, "kind": kind, "name": "fleet"}})
}

/// The operator's part of an object that is scaled through its scale subresource, to which nothing can be applied where the kind is
/// a custom one.
fn sizing(operation: &str, field: &str) -> Value {
    json!({"operation": operation, "subresource": "scale", "fields": {"f:spec": {field: {}}}})
}

/// A custom kind, with `spec.size`, `spec.replicas` and the usual status.
struct Kind {
    resource: ApiResource,
    api: Api<DynamicObject>,
}

impl Kind {
    async fn install(ns: &Namespace, kind: &str, plural: &str, subresources: Value) -> Self {
        let integer = json!({"type": "integer"});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.e2e.example")},
            "spec": {
                "group": "e2e.example",
                "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
                "versions": [{
                    "name": "v1",
                    "served": true,
                    "storage": true,
                    "subresources": subresources,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "spec": {"type": "object", "properties": {"size": integer, "replicas": integer}},
                        "status": {"type": "object", "properties": {"replicas": integer, "readyReplicas": integer}},
                    }}},
                }],
            },
        });
        ns.plane().apply(&definition.to_string()).await;
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("e2e.example", "v1", kind), plural);
        Self { api: Api::namespaced_with(ns.plane().client(), ns.name(), &resource), resource }
    }

    /// Lets the operator of [`operator_of`](crate::fleet::operator_of) use it, and waits until the API server knows.
    async fn grant(&self, ns: &Namespace, verbs: &[&str], verbs_of_scale: &[&str]) {
        let rule = |resource: &str, verbs: &[&str]| json!({"apiGroups": ["e2e.example"], "resources": [resource], "verbs": verbs});
        let plural = &self.resource.plural;
        let mut rules = vec![rule(plural, verbs)];
        if !verbs_of_scale.is_empty() {
            rules.push(rule(&format!("{plural}/scale"), verbs_of_scale));
        }
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": plural}, "rules": rules});
        ns.apply(&role.to_string()).await;
        ns.apply(&binding(plural, "Role", plural)).await;
        let token = ns.plane().service_account(ns.name(), "llmscaler").await;
        let limited: Api<DynamicObject> = Api::namespaced_with(ns.plane().client_as(&token), ns.name(), &self.resource);
        eventually("allowed", SOON, || async { limited.list(&ListParams::default()).await }).await;
    }

    async fn create(&self, name: &str, spec: Value) {
        let object = DynamicObject::new(name, &self.resource).data(json!({"spec": spec}));
        self.api.create(&PostParams::default(), &object).await.unwrap();
    }

    /// Plays the kind's controller.
    async fn report(&self, name: &str, replicas: i64) {
        let status = json!({"status": {"replicas": replicas, "readyReplicas": replicas}});
        self.api.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    }
}
