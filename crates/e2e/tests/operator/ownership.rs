//! Whose the size of a target is: the operator's alone, and of two operators' or scalers' nobody's.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use llmscaler_e2e::ApiServer::{Real, Sandbox};
use llmscaler_e2e::{ApiServer, DecisionServer, Namespace, deployment, eventually};
use rstest::rstest;
use serde_json::{Value, json};

use crate::fleet::{A_FEW_SYNCS, SOON, condition};
use crate::scaler::{on_decisions, scaler};
use crate::steered::{Steered, has};

#[rstest]
#[tokio::test]
async fn the_operator_owns_the_size_after_a_write_and_nothing_else(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(test) = Steered::start(on, "owns").await else { return };
    let deployments = test.ns.deployments();
    test.ns.create(&deployment("fleet", 1)).await;
    // The Go operator wrote whole objects, under the default name of its framework.
    let mut fleet = test.settles_at(1).await;
    fleet["spec"]["replicas"] = json!(2);
    let fleet: Deployment = serde_json::from_value(fleet).unwrap();
    let go = PostParams { field_manager: Some("manager".to_owned()), ..PostParams::default() };
    let fleet = deployments.replace("fleet", &go, &fleet).await.unwrap();
    assert_eq!(owners_of_the_size(&serde_json::to_value(fleet).unwrap()), ["manager"]);
    test.settles_at(2).await;

    test.ask(4);
    test.scale(json!({})).await;
    for replicas in [4, 3] {
        test.ask(replicas);
        let fleet = test.settles_at(replicas).await;
        assert_eq!(owners_of_the_size(&fleet), ["llmscaler"]);
        let ours = json!({"operation": "Apply", "subresource": "scale", "fields": {"f:spec": {"f:replicas": {}}}});
        assert_eq!(entries_of_llmscaler(&fleet), [ours]);
    }

    let chart = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "fleet"}, "spec": {"replicas": 9}});
    let refused = deployments.patch("fleet", &PatchParams::apply("helm"), &Patch::Apply(&chart)).await.unwrap_err();
    let kube::Error::Api(status) = &refused else { panic!("{refused}") };
    assert_eq!(status.code, 409);
    assert!(status.message.contains("llmscaler") && status.message.contains(".spec.replicas"), "{}", status.message);
    test.ns.stays(&deployments, "fleet", "at 3", A_FEW_SYNCS, |fleet| fleet["spec"]["replicas"] == 3).await;
}

#[rstest]
#[tokio::test]
async fn somebody_who_writes_to_the_target_all_the_time_does_not_keep_the_size_from_being_written(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(test) = Steered::start(on, "restless").await else { return };
    test.ask(2);
    test.ns.create(&deployment("fleet", 2)).await;
    // A sync that gave up would not be followed by another one in time.
    test.scale(json!({"retryPeriodSeconds": 600})).await;
    test.settles_at(2).await;
    let deployments = test.ns.deployments();
    let writer = tokio::spawn(async move {
        let how = PatchParams::default();
        for count in 0_u64.. {
            let label = json!({"metadata": {"labels": {"count": count.to_string()}}});
            deployments.patch_metadata("fleet", &how, &Patch::Merge(&label)).await.unwrap();
            let status = json!({"status": {"collisionCount": count}});
            deployments.patch_status("fleet", &how, &Patch::Merge(&status)).await.unwrap();
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    });
    for replicas in [5, 1, 4, 2] {
        test.ask(replicas);
        let what = format!("{replicas} replicas");
        test.ns.wait_for(&test.ns.deployments(), "fleet", &what, SOON, |fleet| fleet["spec"]["replicas"] == replicas).await;
    }
    assert!(!writer.is_finished());
    writer.abort();
}

#[rstest]
#[tokio::test]
async fn of_two_scalers_on_one_target_neither_writes_and_each_names_the_other_until_one_is_deleted(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(test) = TwoScalers::start(on, "rivals").await else { return };
    test.ns.scalers().delete("two", &DeleteParams::default()).await.unwrap();
    test.goes_on_alone("one").await;
}

#[rstest]
#[tokio::test]
async fn of_two_scalers_on_one_target_one_goes_on_when_the_other_only_recommends(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(test) = TwoScalers::start(on, "truce").await else { return };
    test.ns.patch(&test.ns.scalers(), "one", &json!({"spec": {"mode": "Recommend"}})).await;
    test.goes_on_alone("two").await;
}

/// Two scalers, `one` and `two`, that have noticed each other on a fleet of 2.
struct TwoScalers {
    test: Steered,
}

impl std::ops::Deref for TwoScalers {
    type Target = Steered;

    fn deref(&self) -> &Steered {
        &self.test
    }
}

impl TwoScalers {
    async fn start(on: ApiServer, purpose: &str) -> Option<Self> {
        let test = Steered::start(on, purpose).await?;
        test.ask(2);
        test.ns.create(&deployment("fleet", 2)).await;
        test.settles_at(2).await;
        for name in ["one", "two"] {
            test.ns.apply(&named(&test.ns, &test.server, name)).await;
        }
        for (name, other) in [("one", "two"), ("two", "one")] {
            let disputed = |scaler: &Value| {
                has(scaler, "TargetOwned", "False")
                    && condition(&scaler["status"], "TargetOwned")["message"].as_str().is_some_and(|message| message.contains(other))
            };
            test.ns.wait_for(&test.ns.scalers(), name, &format!("in dispute with {other}"), SOON, disputed).await;
        }
        test.ask(5);
        test.ns.stays(&test.ns.deployments(), "fleet", "at 2", A_FEW_SYNCS, |fleet| fleet["spec"]["replicas"] == 2).await;
        for (name, other) in [("one", "two"), ("two", "one")] {
            let events = events_about(&test.ns, name, "TargetOwned").await;
            let [event] = events.as_slice() else { panic!("not one event about {name}: {events:#?}") };
            assert_eq!(event.type_.as_deref(), Some("Warning"));
            assert!(event.note.as_ref().is_some_and(|note| note.contains(other)), "{event:#?}");
            assert!(event.series.is_none(), "{event:#?}");
        }
        Some(Self { test })
    }

    async fn goes_on_alone(&self, name: &str) {
        self.settles_at(5).await;
        self.ns.wait_for(&self.ns.scalers(), name, "alone", SOON, |scaler| has(scaler, "TargetOwned", "True")).await;
    }
}

fn named(ns: &Namespace, server: &DecisionServer, name: &str) -> String {
    let fleet: Value = serde_json::from_str(&on_decisions(ns, server, json!({}))).unwrap();
    scaler(name, &fleet["spec"])
}

/// The events of this reason about a scaler, once there is one.
pub async fn events_about(ns: &Namespace, scaler: &str, reason: &str) -> Vec<Event> {
    eventually("an event", SOON, || async {
        let mut events = ns.api::<Event>().list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        events.retain(|event| {
            event.reason.as_deref() == Some(reason) && event.regarding.as_ref().is_some_and(|it| it.name.as_deref() == Some(scaler))
        });
        if events.is_empty() { Err("none".to_owned()) } else { Ok(events) }
    })
    .await
}

/// What the operator owns of an object: the operation, the subresource and the fields of each of its entries.
pub fn entries_of_llmscaler(object: &Value) -> Vec<Value> {
    let entries = object["metadata"]["managedFields"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ours = entries.iter().filter(|entry| entry["manager"] == "llmscaler");
    ours.map(|entry| {
        let mut kept = json!({"operation": entry["operation"], "fields": entry["fieldsV1"]});
        if let Some(subresource) = entry.get("subresource") {
            kept["subresource"] = subresource.clone();
        }
        kept
    })
    .collect()
}

/// The managers that own `spec.replicas` of an object.
pub fn owners_of_the_size(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().map(Vec::as_slice).unwrap_or_default();
    let owning = entries.iter().filter(|entry| !entry["fieldsV1"]["f:spec"]["f:replicas"].is_null());
    owning.filter_map(|entry| entry["manager"].as_str().map(str::to_owned)).collect()
}
