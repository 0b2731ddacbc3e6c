//! ReplicaSets: as many pods as they ask for, and the choice of those that go.

use std::cmp::Reverse;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::api::Api;
use crate::object::{self, number, text};
use crate::resources::Resource;
use crate::store::Key;
use crate::{events, quota};

/// The condition of a set, and of its Deployment, whose pods cannot be made.
pub(super) const FAILURE: &str = "ReplicaFailure";

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

pub(super) fn reconcile_all(api: &mut Api, now: Timestamp) {
    let Some(resource) = Resource::of_kind("ReplicaSet") else { return };
    for set in api.store.list(resource, None) {
        if !object::is_terminating(&set) {
            reconcile(api, &set, now);
        }
    }
}

/// The objects of a kind that `owner` controls.
pub(super) fn owned(api: &Api, kind: &str, owner: &Value) -> Vec<Arc<Value>> {
    let Some(resource) = Resource::of_kind(kind) else { return vec![] };
    let uid = object::uid(owner);
    let all = api.store.list(resource, Some(object::namespace(owner)));
    all.into_iter().filter(|object| object::controller(object) == Some(uid)).collect()
}

/// The reference to an owner.
pub(super) fn owner(object: &Value) -> Value {
    json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "name": object::name(object), "uid": object::uid(object),
        "controller": true, "blockOwnerDeletion": true})
}

/// Puts a condition into a status. Its times stay while nothing about it changes.
pub(super) fn set_condition(status: &mut Value, mut condition: Value, progressed: bool, now: Timestamp) {
    let stamp = object::stamp(now);
    let members = object::map(status);
    if !members.get("conditions").is_some_and(Value::is_array) {
        members.insert("conditions".into(), json!([]));
    }
    let Some(Value::Array(conditions)) = members.get_mut("conditions") else { return };
    let found = conditions.iter().position(|other| other["type"] == condition["type"]);
    let before = found.map(|index| conditions[index].clone()).unwrap_or_default();
    let transition = if before["status"] == condition["status"] { before["lastTransitionTime"].clone() } else { json!(stamp) };
    let moved = before["reason"] != condition["reason"] || (progressed && condition["type"] == "Progressing");
    condition["lastTransitionTime"] = transition;
    condition["lastUpdateTime"] =
        if moved || before["status"] != condition["status"] { json!(stamp) } else { before["lastUpdateTime"].clone() };
    match found {
        Some(index) => conditions[index] = condition,
        None => conditions.push(condition),
    }
}

/// The condition that pods cannot be made.
pub(super) fn failure(set: &Value) -> Option<&Value> {
    object::list(set, "/status/conditions").iter().find(|condition| condition["type"] == FAILURE)
}

fn is_over(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Failed" | "Succeeded")
}

fn reconcile(api: &mut Api, set: &Arc<Value>, now: Timestamp) {
    let pods = owned(api, "Pod", set);
    let mut active: Vec<Arc<Value>> = pods.into_iter().filter(|pod| !object::is_terminating(pod) && !is_over(pod)).collect();
    let wanted = usize::try_from(number(set, "/spec/replicas").unwrap_or(1)).unwrap_or(0);
    let missing = wanted.saturating_sub(active.len());
    let room = if missing > 0 { api.room_for_pods(object::namespace(set)) } else { 0 };
    for _ in 0..missing.min(room) {
        api.insert("Pod", pod(set), now);
    }
    let refused = (missing > room).then(|| quota::exceeded(&format!("{}-", object::name(set))));
    if active.len() > wanted {
        active.sort_by_cached_key(|pod| rank(pod));
        let Some(resource) = Resource::of_kind("Pod") else { return };
        for pod in &active[..active.len() - wanted] {
            api.end(resource, &Key::new(resource, object::namespace(pod), object::name(pod)), None, now);
        }
    }
    report(api, set, refused.as_deref(), now);
}

/// Which goes first: what has no node, is not running, is not ready, costs less, was ready for a shorter time, is younger.
fn rank(pod: &Value) -> impl Ord + use<> {
    let phase = match text(pod, "/status/phase") {
        "Pending" => 0,
        "Running" => 2,
        _ => 1,
    };
    let cost: i32 = object::entry(pod, "annotations", DELETION_COST).and_then(|cost| cost.parse().ok()).unwrap_or(0);
    let ready = object::is_true(pod, "Ready");
    let conditions = object::list(pod, "/status/conditions");
    let since =
        conditions.iter().find(|condition| ready && condition["type"] == "Ready").and_then(|c| object::time(c, "/lastTransitionTime"));
    let created = object::time(pod, "/metadata/creationTimestamp");
    (!text(pod, "/spec/nodeName").is_empty(), phase, ready, cost, Reverse(since), Reverse(created), Reverse(object::uid(pod).to_owned()))
}

fn pod(set: &Value) -> Value {
    let mut pod = set["spec"]["template"].clone();
    let metadata = object::child(&mut pod, "metadata");
    metadata.insert("generateName".into(), format!("{}-", object::name(set)).into());
    metadata.insert("namespace".into(), set["metadata"]["namespace"].clone());
    metadata.insert("ownerReferences".into(), json!([owner(set)]));
    pod["status"] = json!({"phase": "Pending", "qosClass": "BestEffort"});
    pod
}

/// Writes the status. Why no more pods can be made is a condition, and once an event: the real controller writes one for each try.
fn report(api: &mut Api, set: &Arc<Value>, refused: Option<&str>, now: Timestamp) {
    let pods = owned(api, "Pod", set);
    let (terminating, active): (Vec<_>, Vec<_>) = pods.into_iter().filter(|pod| !is_over(pod)).partition(|pod| object::is_terminating(pod));
    let ready: Vec<&Arc<Value>> = active.iter().filter(|pod| object::is_true(pod, "Ready")).collect();
    let patience = SignedDuration::from_secs(number(set, "/spec/minReadySeconds").unwrap_or(0));
    let lasting = |pod: &&&Arc<Value>| {
        let conditions = object::list(pod, "/status/conditions");
        let since = conditions.iter().find(|condition| condition["type"] == "Ready").and_then(|c| object::time(c, "/lastTransitionTime"));
        patience.is_zero() || since.is_some_and(|since| now.duration_since(since) >= patience)
    };
    let mut status =
        json!({"observedGeneration": set["metadata"]["generation"], "replicas": active.len(), "terminatingReplicas": terminating.len()});
    for (name, count) in [
        ("fullyLabeledReplicas", active.len()),
        ("readyReplicas", ready.len()),
        ("availableReplicas", ready.iter().filter(lasting).count()),
    ] {
        if count > 0 {
            status[name] = json!(count);
        }
    }
    if let Some(why) = refused {
        let before = failure(set);
        let since = before.map_or_else(|| json!(object::stamp(now)), |before| before["lastTransitionTime"].clone());
        status["conditions"] =
            json!([{"type": FAILURE, "status": "True", "reason": "FailedCreate", "message": why, "lastTransitionTime": since}]);
        if before.is_none() {
            let message = format!("Error creating: {why}");
            let mut event = events::of_controller("replicaset-controller", set, "FailedCreate", &message, &object::stamp(now));
            event["type"] = json!("Warning");
            api.insert("Event", event, now);
        }
    }
    api.modify("ReplicaSet", set, |set| drop(object::map(set).insert("status".into(), status)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn victims_are_chosen_in_the_order_of_kubernetes() {
        let pod = |name: &str, node: bool, phase: &str, ready: Option<&str>, cost: &str, created: &str| {
            let conditions = ready.map(|since| json!([{"type": "Ready", "status": "True", "lastTransitionTime": since}]));
            json!({"metadata": {"name": name, "annotations": {DELETION_COST: cost}, "creationTimestamp": created},
                "spec": {"nodeName": if node { "sandbox" } else { "" }}, "status": {"phase": phase, "conditions": conditions}})
        };
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z");
        let mut pods = [
            pod("oldest", true, "Running", Some(early), "0", early),
            pod("youngest", true, "Running", Some(early), "0", late),
            pod("newly ready", true, "Running", Some(late), "0", early),
            pod("cheap", true, "Running", Some(early), "-100", early),
            pod("unready", true, "Running", None, "100", early),
            pod("pending", true, "Pending", None, "0", early),
            pod("unassigned", false, "Pending", None, "0", early),
        ];
        pods.sort_by_cached_key(rank);
        let names: Vec<&str> = pods.iter().map(object::name).collect();
        assert_eq!(names, ["unassigned", "pending", "unready", "cheap", "newly ready", "youngest", "oldest"]);
    }
}
