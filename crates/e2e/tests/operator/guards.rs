//! Reasons to wait with a write, and that the wait ends as soon as its reason does.

use std::time::{Duration, Instant};

use kube::ResourceExt as _;
use llmscaler_e2e::ApiServer::{Real, Sandbox};
use llmscaler_e2e::{ApiServer, DecisionServer};
use rstest::rstest;
use serde_json::{Value, json};

use crate::fleet::{Fleet, condition};

/// So long that nothing in a test can be due to the next sync.
const LONG_PERIOD: Duration = Duration::from_secs(60);

/// Between the end of a wait and the write that waited for it, on a machine that does much else; it takes less than a second.
const AT_ONCE: Duration = Duration::from_secs(10);

/// Waits until the guard for this reason holds the fleet, and returns the status.
async fn is_deferred(fleet: &Fleet, reason: &str) -> Value {
    let deferred = |status: &Value| status["decision"]["reason"] == reason && condition(status, "AbleToScale")["reason"] == reason;
    let status = fleet.status(&format!("deferred because of {reason}"), deferred).await;
    assert_eq!(condition(&status, "AbleToScale")["status"], "False", "{status}");
    status
}

/// Changes the pods' template, as a new version of the model server does. The new pods become ready when they are let.
async fn begin_rollout(fleet: &Fleet) {
    fleet.ns().kubelet().hold_unready(|pod| pod.annotations().contains_key("version"));
    let template = json!({"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}});
    fleet.ns().patch(&fleet.ns().deployments(), "fleet", &template).await;
}

#[rstest]
#[tokio::test]
async fn a_change_waits_for_a_rollout_and_follows_it_at_once_without_another_question(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "rollout", 3).await else { return };
    let server = DecisionServer::start().await;
    server.decide("", "fleet", 3);
    fleet.scale_on_decisions(&server, json!({"syncPeriodSeconds": LONG_PERIOD.as_secs()})).await;
    fleet.condition("ScalingActive", "True", "ValidMetricFound").await;
    let sizes = fleet.sizes().await;

    begin_rollout(&fleet).await;
    server.decide("", "fleet", 5);
    // An edit is a reason to sync.
    fleet.edit(json!({"maxReplicas": 9})).await;
    let status = is_deferred(&fleet, "RolloutInProgress").await;
    assert_eq!([&status["replicas"], &status["desiredReplicas"]], [3, 5]);
    let message = condition(&status, "AbleToScale")["message"].as_str().unwrap();
    assert!(message.contains("5 waits for the rollout"), "{message}");
    fleet.keeps_size(3).await;

    let questions = server.requests().len();
    let released = Instant::now();
    fleet.ns().kubelet().hold_unready(|_| false);
    fleet.has_size(5).await;
    assert!(released.elapsed() < AT_ONCE, "written {:?} after the last pod could start", released.elapsed());
    assert_eq!(server.requests().len(), questions, "no source is asked again for a write that was only deferred");
    sizes.were(&[3, 5]).await;
    fleet.is_serving(5).await;
}

#[rstest]
#[tokio::test]
async fn a_rollout_holds_a_scale_down_too_and_a_sync_may_change_its_mind_meanwhile(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "rollout-down", 4).await else { return };
    let server = DecisionServer::start().await;
    server.decide("", "fleet", 4);
    fleet.scale_on_decisions(&server, json!({})).await;
    fleet.condition("ScalingActive", "True", "ValidMetricFound").await;
    let sizes = fleet.sizes().await;
    begin_rollout(&fleet).await;
    server.decide("", "fleet", 2);
    is_deferred(&fleet, "RolloutInProgress").await;
    server.decide("", "fleet", 6);
    fleet.status("6 wanted", |status| status["desiredReplicas"] == 6).await;
    sizes.were(&[4]).await;
    fleet.ns().kubelet().hold_unready(|_| false);
    fleet.is_serving(6).await;
    sizes.were(&[4, 6]).await;
}

#[rstest]
#[tokio::test]
async fn a_rollout_that_has_failed_is_not_waited_for(#[values(Real, Sandbox)] on: ApiServer) {
    const DEADLINE: Duration = Duration::from_secs(3);
    let Some(fleet) = Fleet::start(on, "rollout-failed", 3).await else { return };
    let server = DecisionServer::start().await;
    server.decide("", "fleet", 3);
    fleet.scale_on_decisions(&server, json!({})).await;
    let deadline = json!({"spec": {"progressDeadlineSeconds": DEADLINE.as_secs()}});
    fleet.ns().patch(&fleet.ns().deployments(), "fleet", &deadline).await;
    let sizes = fleet.sizes().await;
    let begun = Instant::now();
    begin_rollout(&fleet).await;
    server.decide("", "fleet", 5);
    is_deferred(&fleet, "RolloutInProgress").await;
    let target = fleet.has_size(5).await;
    assert!(begun.elapsed() >= DEADLINE, "written {:?} after the rollout began", begun.elapsed());
    assert!(target["status"]["updatedReplicas"].as_i64() < Some(5), "the rollout still hangs: {target}");
    sizes.were(&[3, 5]).await;
}

#[rstest]
#[tokio::test]
async fn a_scale_down_waits_until_every_replica_is_ready(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "unready", 4).await else { return };
    let server = DecisionServer::start().await;
    server.decide("", "fleet", 4);
    fleet.scale_on_decisions(&server, json!({"syncPeriodSeconds": LONG_PERIOD.as_secs()})).await;
    fleet.condition("ScalingActive", "True", "ValidMetricFound").await;
    let sizes = fleet.sizes().await;

    let one = fleet.ns().pods("app=fleet").await[0].name_any();
    fleet.ns().kubelet().hold_unready(move |pod| pod.name_any() == one);
    let ready = |fleet: &Value| fleet["status"]["readyReplicas"] == 3;
    fleet.ns().wait_for(&fleet.ns().deployments(), "fleet", "3 ready", AT_ONCE, ready).await;
    server.decide("", "fleet", 2);
    fleet.edit(json!({"maxReplicas": 9})).await;
    let status = is_deferred(&fleet, "NotSettled").await;
    let message = condition(&status, "AbleToScale")["message"].as_str().unwrap();
    assert!(message.contains("3 of 4 replicas are ready"), "{message}");
    fleet.keeps_size(4).await;

    let questions = server.requests().len();
    let released = Instant::now();
    fleet.ns().kubelet().hold_unready(|_| false);
    fleet.has_size(2).await;
    assert!(released.elapsed() < AT_ONCE, "written {:?} after the pod could become ready", released.elapsed());
    assert_eq!(server.requests().len(), questions);
    sizes.were(&[4, 2]).await;
}

#[rstest]
#[tokio::test]
async fn unready_replicas_do_not_hold_a_scale_up(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "unready-up", 2).await else { return };
    let server = DecisionServer::start().await;
    fleet.ns().kubelet().hold_unready(|_| true);
    server.decide("", "fleet", 3);
    fleet.scale_on_decisions(&server, json!({})).await;
    fleet.has_size(3).await;
    server.decide("", "fleet", 5);
    fleet.has_size(5).await;
}

#[rstest]
#[tokio::test]
async fn the_next_step_down_waits_until_the_last_pods_have_drained(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "drains", 4).await else { return };
    let server = DecisionServer::start().await;
    fleet.ns().kubelet().drain_for(Duration::from_secs(600));
    server.decide("", "fleet", 2);
    let sizes = fleet.sizes().await;
    fleet.scale_on_decisions(&server, json!({"scaleDown": {"maxStepReplicas": 1}})).await;
    fleet.has_size(3).await;
    let status = is_deferred(&fleet, "NotSettled").await;
    let message = condition(&status, "AbleToScale")["message"].as_str().unwrap();
    assert!(message.contains("still shutting down"), "{message}");
    fleet.keeps_size(3).await;
    // Up, it need not wait.
    server.decide("", "fleet", 5);
    fleet.has_size(5).await;
    server.decide("", "fleet", 3);
    is_deferred(&fleet, "NotSettled").await;
    fleet.ns().kubelet().drain_for(Duration::ZERO);
    fleet.is_serving(3).await;
    sizes.were(&[4, 3, 5, 4, 3]).await;
}

#[rstest]
#[tokio::test]
async fn no_more_is_asked_for_while_earlier_asks_find_no_node(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "capacity", 2).await else { return };
    fleet.ns().kubelet().capacity(3);
    let server = DecisionServer::start().await;
    let sizes = fleet.sizes().await;
    server.decide("", "fleet", 5);
    fleet.scale_on_decisions(&server, json!({})).await;
    fleet.has_size(5).await;
    let message = fleet.condition("CapacityAvailable", "False", "Unschedulable").await;
    assert!(message.contains("1 more find no node"), "{message}");
    let notes = fleet.notes("Unschedulable", 1).await;
    assert!(notes[0].contains("find no node"), "{notes:?}");

    server.decide("", "fleet", 8);
    let status = is_deferred(&fleet, "Unschedulable").await;
    assert_eq!([&status["replicas"], &status["desiredReplicas"]], [5, 8]);
    fleet.keeps_size(5).await;

    fleet.ns().kubelet().capacity(10);
    fleet.is_serving(8).await;
    fleet.condition("CapacityAvailable", "True", "CapacityFound").await;
    sizes.were(&[2, 5, 8]).await;
}
