//! Others who write the size of a target: other autoscalers, GitOps tools, controllers, and people.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use llmscaler_e2e::ApiServer::{Real, Sandbox};
use llmscaler_e2e::{ApiServer, ControlPlane, DecisionServer, Namespace, deployment};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::doctor::findings;
use crate::fleet::{A_FEW_SYNCS, SOON, condition, operator_of};
use crate::keda;
use crate::ownership::{events_about, owners_of_the_size};
use crate::steered::{Steered, has, settles_at};
use crate::told::llmscaler;

/// Longer than the operator takes to notice that KEDA was installed.
const KEDA_SOON: Duration = Duration::from_secs(75);

/// Whether a scaler leaves its target to somebody whom its condition names with all of `words`.
fn leaves_it(scaler: &Value, words: &[&str]) -> bool {
    let owned = condition(&scaler["status"], "TargetOwned");
    owned["status"] == "False"
        && owned["reason"] == "TargetOwned"
        && has(scaler, "Ready", "False")
        && owned["message"].as_str().is_some_and(|message| words.iter().all(|word| message.contains(word)))
}

async fn leaves_it_to(ns: &Namespace, words: &[&str], soon: Duration) {
    ns.wait_for(&ns.scalers(), "fleet", &format!("left to {words:?}"), soon, |scaler| leaves_it(scaler, words)).await;
}

/// The doctor, who looks once, comes to the same as the operator.
async fn the_doctor_agrees(ns: &Namespace) {
    let scaler = ns.scalers().get("fleet").await.unwrap();
    let message = condition(&scaler.data["status"], "TargetOwned")["message"].as_str().unwrap().to_owned();
    let (fact, advice) = message.split_once("; ").unwrap();
    let told = llmscaler(ns, &["doctor", "fleet", "-o", "json"]).await;
    let all = findings(&told, ns, "fleet");
    let text = format!("{fact}, so nothing is written → {advice}");
    let problems: Vec<_> = all.iter().filter(|(severity, check, _)| severity == "problem" && check == "owner").collect();
    assert!(matches!(problems[..], [(.., found)] if *found == text), "{text}\n{all:#?}");
}

async fn stays_at(ns: &Namespace, replicas: i64) {
    let what = format!("at {replicas}");
    ns.stays(&ns.deployments(), "fleet", &what, A_FEW_SYNCS, |fleet| fleet["spec"]["replicas"] == replicas).await;
}

/// There has been one event of a rival, and it named it.
async fn was_told_once(ns: &Namespace, name: &str) {
    let events = events_about(ns, "fleet", "TargetOwned").await;
    let [event] = events.as_slice() else { panic!("not one event: {events:#?}") };
    assert!(event.note.as_ref().is_some_and(|note| note.contains(name)) && event.type_.as_deref() == Some("Warning"), "{event:#?}");
    assert!(event.series.is_none(), "{event:#?}");
}

/// An HPA of Deployment `fleet`. Nothing serves its metric, so its controller never moves anything.
fn hpa(name: &str, owner: Option<&Value>) -> HorizontalPodAutoscaler {
    let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}});
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "fleet"});
    let spec = json!({"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 20, "metrics": [cpu]});
    let owners: Vec<&Value> = owner.into_iter().collect();
    serde_json::from_value(json!({"metadata": {"name": name, "ownerReferences": owners}, "spec": spec})).unwrap()
}

/// A fleet of 2 that is scaled to 3.
async fn scaled(on: ApiServer, purpose: &str) -> Option<Steered> {
    let test = Steered::start(on, purpose).await?;
    test.ns.create(&deployment("fleet", 2)).await;
    test.settles_at(2).await;
    test.ask(3);
    test.scale(json!({})).await;
    test.settles_at(3).await;
    Some(test)
}

#[rstest]
#[tokio::test]
async fn an_hpa_that_appears_has_the_target_until_it_goes(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(test) = scaled(on, "hpa").await else { return };
    let scaler = test.ns.scalers().get("fleet").await.unwrap();
    let ours = json!({"apiVersion": "autoscaling.modelsphere.dev/v1alpha1", "kind": "LLMScaler", "name": "fleet",
        "uid": scaler.metadata.uid, "controller": true});
    test.ns.create(&hpa("made-by-us", Some(&ours))).await;
    test.ask(4);
    test.settles_at(4).await;

    test.ns.create(&hpa("rival", None)).await;
    leaves_it_to(&test.ns, &["HorizontalPodAutoscaler rival", "kubectl delete hpa rival"], SOON).await;
    the_doctor_agrees(&test.ns).await;
    test.ask(6);
    stays_at(&test.ns, 4).await;
    was_told_once(&test.ns, "rival").await;

    test.ns.api::<HorizontalPodAutoscaler>().delete("rival", &DeleteParams::default()).await.unwrap();
    test.settles_at(6).await;
    test.ns.wait_for(&test.ns.scalers(), "fleet", "alone", SOON, |scaler| has(scaler, "TargetOwned", "True")).await;
    was_told_once(&test.ns, "rival").await;
}

#[rstest]
#[tokio::test]
async fn beside_an_hpa_one_that_recommends_tells_where_they_differ(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(test) = Steered::start(on, "beside").await else { return };
    test.ns.create(&deployment("fleet", 2)).await;
    test.settles_at(2).await;
    test.ns.create(&hpa("rival", None)).await;
    test.ask(5);
    test.scale(json!({"mode": "Recommend"})).await;
    let differs = |scaler: &Value| {
        let decision = &scaler["status"]["decision"];
        let words = ["5 in place of 2 is shown and not written", "HorizontalPodAutoscaler rival scales Deployment fleet too"];
        decision["reason"] == "RecommendOnly"
            && words.iter().all(|words| decision["message"].as_str().is_some_and(|message| message.contains(words)))
            && has(scaler, "Ready", "True")
            && condition(&scaler["status"], "TargetOwned")["reason"] == "RecommendOnly"
    };
    test.ns.wait_for(&test.ns.scalers(), "fleet", "of another mind", SOON, differs).await;
    stays_at(&test.ns, 2).await;
    let series = format!("llmscaler_replicas_difference{{namespace=\"{}\",name=\"fleet\"}} 3", test.ns.name());
    let metrics = test.operator.metrics().await;
    assert!(metrics.contains(&series), "{metrics}");
    let events = events_about(&test.ns, "fleet", "RecommendOnly").await;
    assert!(events.len() == 1 && events[0].type_.as_deref() == Some("Normal"), "{events:#?}");
}

#[tokio::test]
async fn a_scaled_object_of_a_keda_that_came_later_has_the_target_until_it_is_paused() {
    // A kind of the whole cluster, which other tests go without.
    let Some(plane) = ControlPlane::start().await else { return };
    let ns = plane.namespace("keda").await;
    let server = DecisionServer::start().await;
    let operator = operator_of(&ns).await;
    let test = Steered { operator, server, ns };
    test.ns.create(&deployment("fleet", 2)).await;
    test.settles_at(2).await;
    test.ask(3);
    test.scale(json!({})).await;
    test.settles_at(3).await;

    plane.apply(&keda::definition().to_string()).await;
    let object = json!({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "chat"},
        "spec": {"scaleTargetRef": {"name": "fleet"}, "triggers": []}});
    test.ns.apply(&object.to_string()).await;
    leaves_it_to(&test.ns, &["ScaledObject chat", "autoscaling.keda.sh/paused"], KEDA_SOON).await;
    the_doctor_agrees(&test.ns).await;
    test.ask(5);
    stays_at(&test.ns, 3).await;
    was_told_once(&test.ns, "ScaledObject chat").await;

    let pause = json!({"metadata": {"annotations": {"autoscaling.keda.sh/paused": "true"}}});
    test.ns.patch(&keda::scaled_objects(&test.ns), "chat", &pause).await;
    test.settles_at(5).await;
}

/// Applies `replicas` to Deployment `fleet` by force, as somebody whose repository says so.
async fn applies(deployments: &Api<Deployment>, manager: &str, replicas: Option<i64>) {
    let mut fleet = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "fleet"}});
    if let Some(replicas) = replicas {
        fleet["spec"] = json!({"replicas": replicas});
    }
    deployments.patch("fleet", &PatchParams::apply(manager).force(), &Patch::Apply(&fleet)).await.unwrap();
}

/// Does so each second until it is aborted.
fn self_heals(ns: &Namespace, manager: &'static str, replicas: i64) -> JoinHandle<()> {
    let deployments = ns.deployments();
    tokio::spawn(async move {
        loop {
            applies(&deployments, manager, Some(replicas)).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    })
}

#[rstest]
#[tokio::test]
async fn a_gitops_tool_that_sets_the_size_back_again_and_again_has_it_until_it_lets_it_go(#[values(Real, Sandbox)] on: ApiServer) {
    const ARGO: &str = "argocd-controller";
    let Some(test) = scaled(on, "gitops").await else { return };
    let rounds = self_heals(&test.ns, ARGO, 2);
    leaves_it_to(&test.ns, &[ARGO, "ignoreDifferences", "/spec/replicas"], SOON).await;
    test.settles_at(2).await;
    test.ask(6);
    stays_at(&test.ns, 2).await;
    was_told_once(&test.ns, ARGO).await;
    rounds.abort();

    // What was told stands after a restart, and is neither tried nor told again.
    let fleet = serde_json::to_value(test.ns.deployments().get("fleet").await.unwrap()).unwrap();
    assert_eq!(owners_of_the_size(&fleet), [ARGO]);
    let generation = fleet["metadata"]["generation"].clone();
    let second = operator_of(&test.ns).await;
    test.ns.stays(&test.ns.deployments(), "fleet", "as it is", A_FEW_SYNCS, |fleet| fleet["metadata"]["generation"] == generation).await;
    drop(second);
    was_told_once(&test.ns, ARGO).await;

    // The manifest has no replicas any more.
    applies(&test.ns.deployments(), ARGO, None).await;
    let soon = Duration::from_secs(60) + SOON;
    test.ns.wait_for(&test.ns.deployments(), "fleet", "at 6", soon, |fleet| fleet["spec"]["replicas"] == 6).await;
    test.ns.wait_for(&test.ns.scalers(), "fleet", "alone", SOON, |scaler| has(scaler, "TargetOwned", "True")).await;
}

#[rstest]
#[tokio::test]
async fn an_edit_of_the_scaler_ends_a_contest(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(test) = scaled(on, "settled").await else { return };
    let rounds = self_heals(&test.ns, "helm", 2);
    leaves_it_to(&test.ns, &["helm", "chart's template"], SOON).await;
    rounds.abort();
    test.ns.patch(&test.ns.scalers(), "fleet", &json!({"spec": {"maxReplicas": 11}})).await;
    test.settles_at(3).await;
    test.ns.wait_for(&test.ns.scalers(), "fleet", "alone", SOON, |scaler| has(scaler, "TargetOwned", "True")).await;
}

#[rstest]
#[tokio::test]
async fn what_people_do_once_is_an_edit(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(test) = scaled(on, "people").await else { return };
    let deployments = test.ns.deployments();
    let generation = async || deployments.get("fleet").await.unwrap().metadata.generation.unwrap();
    // kubectl scale, and then a manifest with replicas in it: each is undone by the next decision, and by nothing else.
    for rewrite in [false, true] {
        let before = generation().await;
        if rewrite {
            applies(&deployments, "kubectl", Some(1)).await;
        } else {
            let kubectl = PatchParams { field_manager: Some("kubectl".to_owned()), ..PatchParams::default() };
            deployments.patch_scale("fleet", &kubectl, &Patch::Merge(&json!({"spec": {"replicas": 5}}))).await.unwrap();
        }
        let ours = |fleet: &Value| {
            fleet["spec"]["replicas"] == 3
                && fleet["metadata"]["generation"].as_i64() > Some(before)
                && owners_of_the_size(fleet) == ["llmscaler"]
        };
        test.ns.wait_for(&deployments, "fleet", "decided on anew", SOON, ours).await;
        test.settles_at(3).await;
    }
    test.ns.stays(&test.ns.scalers(), "fleet", "its own", A_FEW_SYNCS, |scaler| has(scaler, "TargetOwned", "True")).await;
}

#[rstest]
#[tokio::test]
async fn a_controller_that_applies_its_targets_size_has_it_and_one_that_only_created_it_has_not(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(test) = Steered::start(on, "parents").await else { return };
    let deployments = test.ns.deployments();
    // Not collected as garbage: its owner is an object that is there.
    let parent = test.ns.create(&deployment("parent", 0)).await;
    let owner = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "parent", "uid": parent.metadata.uid, "controller": true});
    let mut child: Value = serde_json::to_value(deployment("fleet", 2)).unwrap();
    child["metadata"]["ownerReferences"] = json!([owner]);
    // The parent says nothing of a size, and is booked for the default.
    child["spec"].as_object_mut().unwrap().remove("replicas");
    let creator = PostParams { field_manager: Some("parent-operator".to_owned()), ..PostParams::default() };
    deployments.create(&creator, &serde_json::from_value(child).unwrap()).await.unwrap();
    let created = test.settles_at(1).await;
    assert_eq!(owners_of_the_size(&created), ["parent-operator"]);
    test.ask(3);
    test.scale(json!({})).await;
    test.settles_at(3).await;

    applies(&deployments, "parent-operator", Some(2)).await;
    leaves_it_to(&test.ns, &["Deployment parent", "parent-operator"], SOON).await;
    the_doctor_agrees(&test.ns).await;
    settles_at(&test.ns, "fleet", 2).await;
    stays_at(&test.ns, 2).await;
    was_told_once(&test.ns, "parent-operator").await;
}
