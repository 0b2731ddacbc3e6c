//! Deployments: one ReplicaSet per template, and the status.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::replica_set::{FAILURE, failure, owned, set_condition};
use super::rollout::{Limits, Size};
use crate::api::Api;
use crate::events;
use crate::object::{self, number, text};
use crate::resources::Resource;

const HASH: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";

/// The reason of a rollout that has come to its end.
const DONE: &str = "NewReplicaSetAvailable";

pub(super) fn reconcile_all(api: &mut Api, now: Timestamp) {
    let Some(resource) = Resource::of_kind("Deployment") else { return };
    for deployment in api.store.list(resource, None) {
        if !object::is_terminating(&deployment) {
            reconcile(api, &deployment, now);
        }
    }
}

fn reconcile(api: &mut Api, deployment: &Arc<Value>, now: Timestamp) {
    let template = &deployment["spec"]["template"];
    let mut sets = owned(api, "ReplicaSet", deployment);
    sets.sort_by_key(revision);
    let of_template = |set: &Arc<Value>| without_hash(&set["spec"]["template"]) == *template;
    let paused = deployment["spec"]["paused"] == true;
    let newest = sets.last().map_or(0, revision);
    let Some(new) = sets.iter().find(|set| of_template(set)).cloned() else {
        if !paused {
            api.insert("ReplicaSet", replica_set(deployment, &template_hash(template), newest + 1), now);
        }
        return;
    };
    // A template that has come back is the newest again.
    let current = if revision(&new) < newest { newest + 1 } else { revision(&new) };
    api.modify("ReplicaSet", &new, |set| annotate(set, current));

    let old: Vec<Arc<Value>> = sets.into_iter().filter(|set| !of_template(set)).collect();
    let (limits, recreate) = Limits::of(deployment);
    let (new_size, old_sizes) = match paused {
        true if old.is_empty() => (limits.wanted, vec![]),
        true => (size(&new).spec, old.iter().map(|set| size(set).spec).collect()),
        false => limits.roll(size(&new), &old.iter().map(|set| size(set)).collect::<Vec<_>>(), recreate),
    };
    for (set, replicas) in old.iter().zip(old_sizes).chain([(&new, new_size)]) {
        scale(api, deployment, set, replicas, now);
    }
    report(api, deployment, &new, &old, limits, current, now);
}

/// Changes the size of a ReplicaSet, with the event that the controller writes.
fn scale(api: &mut Api, deployment: &Value, set: &Value, replicas: i64, now: Timestamp) {
    let Some(live) = current(api, set) else { return };
    let before = size(&live).spec;
    if before == replicas {
        return;
    }
    api.modify("ReplicaSet", &live, |set| drop(object::child(set, "spec").insert("replicas".into(), replicas.into())));
    let direction = if replicas > before { "up" } else { "down" };
    let message = format!("Scaled {direction} replica set {} from {before} to {replicas}", object::name(set));
    let event = events::of_controller("deployment-controller", deployment, "ScalingReplicaSet", &message, &object::stamp(now));
    api.insert("Event", event, now);
}

fn current(api: &Api, object: &Value) -> Option<Arc<Value>> {
    let resource = Resource::of_kind(text(object, "/kind"))?;
    api.store.get(&crate::store::Key::new(resource, object::namespace(object), object::name(object))).cloned()
}

fn size(set: &Value) -> Size {
    let count = |pointer| number(set, pointer).unwrap_or(0);
    Size { spec: count("/spec/replicas"), pods: count("/status/replicas"), available: count("/status/availableReplicas") }
}

fn revision(set: &Arc<Value>) -> i64 {
    object::entry(set, "annotations", REVISION).and_then(|revision| revision.parse().ok()).unwrap_or(0)
}

fn annotate(object: &mut Value, revision: i64) {
    let metadata = object::child(object, "metadata");
    object::map(metadata.entry("annotations").or_insert(Value::Null)).insert(REVISION.into(), revision.to_string().into());
}

fn replica_set(deployment: &Value, hash: &str, revision: i64) -> Value {
    let mut template = deployment["spec"]["template"].clone();
    let labels = object::child(&mut template, "metadata").entry("labels").or_insert(Value::Null);
    object::map(labels).insert(HASH.into(), hash.into());
    let labels = labels.clone();
    let mut selector = deployment["spec"]["selector"].clone();
    object::child(&mut selector, "matchLabels").insert(HASH.into(), hash.into());
    let mut set = json!({
        "metadata": {
            "name": format!("{}-{hash}", object::name(deployment)),
            "namespace": object::namespace(deployment),
            "labels": labels,
            "ownerReferences": [super::replica_set::owner(deployment)],
        },
        "spec": {"replicas": 0, "selector": selector, "template": template, "minReadySeconds": deployment["spec"]["minReadySeconds"]},
    });
    annotate(&mut set, revision);
    set
}

/// The template as the deployment has it. Templates are compared, not their hashes: an edit may write the same one in another order.
fn without_hash(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(HASH);
    }
    template
}

/// A short word for a template, for names and labels.
fn template_hash(template: &Value) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let hash = template.to_string().bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash.to_string().bytes().map(|digit| char::from(LETTERS[usize::from(digit) % LETTERS.len()])).collect()
}

fn report(api: &mut Api, deployment: &Arc<Value>, new: &Value, old: &[Arc<Value>], limits: Limits, revision: i64, now: Timestamp) {
    let all: Vec<Arc<Value>> = std::iter::once(new).chain(old.iter().map(Arc::as_ref)).filter_map(|set| current(api, set)).collect();
    let sum = |pointer: &str| all.iter().map(|set| number(set, pointer).unwrap_or(0)).sum::<i64>();
    let (replicas, available) = (sum("/status/replicas"), sum("/status/availableReplicas"));
    let updated = all.first().map_or(0, |set| size(set).pods);
    let before = |pointer: &str| number(deployment, pointer).unwrap_or(0);
    let progressed = updated > before("/status/updatedReplicas")
        || replicas - updated < before("/status/replicas") - before("/status/updatedReplicas")
        || sum("/status/readyReplicas") > before("/status/readyReplicas")
        || available > before("/status/availableReplicas");
    let complete = updated == limits.wanted && replicas == limits.wanted && available == limits.wanted;

    let mut status = json!({"observedGeneration": deployment["metadata"]["generation"]});
    for (name, count) in [
        ("replicas", replicas),
        ("updatedReplicas", updated),
        ("readyReplicas", sum("/status/readyReplicas")),
        ("availableReplicas", available),
        ("unavailableReplicas", (limits.wanted - available).max(0)),
    ] {
        if count > 0 {
            status[name] = json!(count);
        }
    }
    status["terminatingReplicas"] = json!(sum("/status/terminatingReplicas"));
    // Its own of a failure is what its sets say now.
    let failure = all.iter().find_map(|set| failure(set)).cloned();
    let conditions = [
        available_condition(available >= limits.wanted - limits.unavailable),
        progressing(deployment, new, complete, progressed, now),
        failure.clone(),
    ];
    api.modify("Deployment", deployment, |changed| {
        let before = object::list(deployment, "/status/conditions").iter();
        status["conditions"] = before.filter(|condition| failure.is_some() || condition["type"] != FAILURE).cloned().collect();
        for condition in conditions.into_iter().flatten() {
            set_condition(&mut status, condition, progressed, now);
        }
        object::map(changed).insert("status".into(), status);
        annotate(changed, revision);
    });
}

fn available_condition(available: bool) -> Option<Value> {
    let (status, reason, words) = match available {
        true => ("True", "MinimumReplicasAvailable", "Deployment has minimum availability."),
        false => ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."),
    };
    Some(json!({"type": "Available", "status": status, "reason": reason, "message": words}))
}

/// Where the rollout is. Once it is done, a change of size alone does not begin another.
fn progressing(deployment: &Value, new: &Value, complete: bool, progressed: bool, now: Timestamp) -> Option<Value> {
    let set = object::name(new);
    let say = |status: &str, reason: &str, words: &str| {
        Some(json!({"type": "Progressing", "status": status, "reason": reason, "message": format!("ReplicaSet {set:?} {words}")}))
    };
    if complete {
        return say("True", DONE, "has successfully progressed.");
    }
    let conditions = object::list(deployment, "/status/conditions");
    let Some(before) = conditions.iter().find(|condition| condition["type"] == "Progressing") else {
        return say("True", "ReplicaSetUpdated", "is progressing.");
    };
    let same_rollout = text(before, "/message").contains(&format!("{set:?}"));
    if before["reason"] == DONE && same_rollout {
        return None;
    }
    // Times lose their fraction of a second when they are written. The real controller, too, looks a second later.
    let deadline = number(deployment, "/spec/progressDeadlineSeconds").unwrap_or(600).saturating_add(1);
    let since = object::time(before, "/lastUpdateTime").unwrap_or(now);
    if same_rollout && !progressed && now.duration_since(since) > SignedDuration::from_secs(deadline) {
        return say("False", "ProgressDeadlineExceeded", "has timed out progressing.");
    }
    if same_rollout && !progressed {
        return None;
    }
    say("True", "ReplicaSetUpdated", "is progressing.")
}
