//! What the API object of a target says of its size and state.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use kube::api::DynamicObject;
use kube::core::Selector;
use llmscaler_engine::{Replicas, Rollout, RolloutCounts};
use serde_json::Value;

use crate::watch::Kept;

/// What the API object of a target says of its size and state.
#[derive(Debug)]
pub(crate) struct Target {
    pub uid: String,
    /// `spec.replicas`; `None` for a kind that has it elsewhere or not at all.
    pub replicas: Option<Replicas>,
    /// `status.readyReplicas`, 0 when absent: nobody is ready then.
    pub ready: Replicas,
    pub rollout: Rollout,
    /// `status.terminatingReplicas`; absent on older API servers.
    pub terminating: u32,
    /// Which of the pods are of the newest template.
    pub newest: Newest,
    /// `spec.selector` in the form of a Deployment.
    pub selector: Option<Selector>,
    /// Its workload controller has not acted on the newest spec yet.
    pub unobserved: bool,
    controller: Option<String>,
}

/// How the pods of the newest template are told from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Newest {
    /// They belong to the ReplicaSet with this revision annotation.
    ReplicaSetRevision(String),
    /// They carry this `controller-revision-hash`.
    RevisionHash(String),
    /// Not told apart.
    All,
}

impl Kept for Target {
    type Object = DynamicObject;

    fn keep(object: DynamicObject) -> Self {
        Self::of(&object)
    }

    fn owner(&self) -> Option<&str> {
        self.controller.as_deref()
    }
}

impl Target {
    /// Reads what matters from the object; fields that are missing count as in document A.
    pub(crate) fn of(object: &DynamicObject) -> Self {
        let data = &object.data;
        let kind = object.types.as_ref().map_or("", |types| types.kind.as_str());
        let generation = object.metadata.generation.unwrap_or(0);
        let revision = object.metadata.annotations.as_ref().and_then(|map| map.get("deployment.kubernetes.io/revision"));
        let newest = match (kind, revision, text(data, "/status/updateRevision")) {
            ("Deployment", Some(revision), _) => Newest::ReplicaSetRevision(revision.clone()),
            ("StatefulSet", _, Some(revision)) => Newest::RevisionHash(revision.to_owned()),
            _ => Newest::All,
        };
        let selector = data.pointer("/spec/selector").cloned().and_then(|value| serde_json::from_value::<LabelSelector>(value).ok());
        Self {
            uid: object.metadata.uid.clone().unwrap_or_default(),
            replicas: count(data, "/spec/replicas"),
            ready: count(data, "/status/readyReplicas").unwrap_or_default(),
            rollout: rollout(kind, generation, data),
            terminating: count(data, "/status/terminatingReplicas").unwrap_or_default().get(),
            newest,
            selector: selector.and_then(|selector| Selector::try_from(selector).ok()),
            unobserved: number(data, "/status/observedGeneration").is_some_and(|observed| observed < generation),
            controller: controller(object.metadata.owner_references.as_deref()).map(|owner| owner.uid.clone()),
        }
    }
}

/// The owner that manages the object.
pub(crate) fn controller(owners: Option<&[OwnerReference]>) -> Option<&OwnerReference> {
    owners?.iter().find(|owner| owner.controller == Some(true))
}

fn number(data: &Value, pointer: &str) -> Option<i64> {
    data.pointer(pointer)?.as_i64()
}

fn text<'a>(data: &'a Value, pointer: &str) -> Option<&'a str> {
    data.pointer(pointer)?.as_str()
}

fn count(data: &Value, pointer: &str) -> Option<Replicas> {
    number(data, pointer).map(Replicas::saturating)
}

/// The condition of this type, if its status is `status`.
fn condition<'a>(data: &'a Value, kind: &str, status: &str) -> Option<&'a Value> {
    let conditions = data.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|c| text(c, "/type") == Some(kind) && text(c, "/status") == Some(status))
}

fn rollout(kind: &str, generation: i64, data: &Value) -> Rollout {
    let spec = count(data, "/spec/replicas").unwrap_or(Replicas::ONE);
    let counts = RolloutCounts {
        generation,
        observed_generation: number(data, "/status/observedGeneration").unwrap_or(0),
        wanted: spec,
        replicas: count(data, "/status/replicas").unwrap_or_default(),
        updated: count(data, "/status/updatedReplicas").unwrap_or_default(),
        keeps_old: false,
    };
    // Only whether the newest spec has been seen counts.
    let settled = RolloutCounts { wanted: Replicas::ZERO, replicas: Replicas::ZERO, ..counts };
    match kind {
        "Deployment" => failed(data, counts.phase()),
        "StatefulSet" => {
            let rolling = text(data, "/status/currentRevision") != text(data, "/status/updateRevision");
            // OnDelete waits for people, not for time.
            if !rolling || text(data, "/spec/updateStrategy/type") == Some("OnDelete") {
                return settled.phase();
            }
            let partition = count(data, "/spec/updateStrategy/rollingUpdate/partition").unwrap_or_default().get();
            RolloutCounts { wanted: counts.replicas.min(spec).minus(partition), keeps_old: partition > 0, ..counts }.phase()
        }
        "LeaderWorkerSet" => match condition(data, "UpdateInProgress", "True") {
            Some(update) => Rollout::InProgress(text(update, "/message").unwrap_or("its groups are being updated").to_owned()),
            None => RolloutCounts { observed_generation: observed(data, generation), ..settled }.phase(),
        },
        // A kind of which nothing else is known: what it does report counts.
        _ => RolloutCounts { observed_generation: observed(data, generation), ..settled }.phase(),
    }
}

/// The generation that its controller has seen; the newest one for a kind that does not report it.
fn observed(data: &Value, generation: i64) -> i64 {
    number(data, "/status/observedGeneration").unwrap_or(generation)
}

/// A Deployment whose rollout has passed its deadline, or whose pods the API server refuses to create, would be waited for in vain.
fn failed(data: &Value, phase: Rollout) -> Rollout {
    let Rollout::InProgress(why) = phase else { return phase };
    let late = condition(data, "Progressing", "False").filter(|c| text(c, "/reason") == Some("ProgressDeadlineExceeded"));
    let refused = condition(data, "ReplicaFailure", "True");
    match late.or(refused).and_then(|c| text(c, "/message")) {
        Some(message) => Rollout::Stalled(message.to_owned()),
        None => Rollout::InProgress(why),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn target(kind: &str, spec: Value, status: Value) -> Target {
        let metadata = json!({"name": "x", "uid": "u", "generation": 2});
        let object = json!({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec, "status": status});
        Target::of(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn what_is_missing_counts_as_nobody_ready() {
        let fresh = target("Deployment", json!({"replicas": 2}), json!({}));
        assert_eq!((fresh.replicas, fresh.ready), (Some(Replicas::new(2)), Replicas::ZERO));
        assert!(matches!(fresh.rollout, Rollout::InProgress(_)));
        assert_eq!(target("Job", json!({}), json!({})).replicas, None);
    }

    #[test]
    fn deployments_by_their_counts_and_their_deadline() {
        let status = |updated: i64, extra: Value| {
            let mut status = json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": updated, "readyReplicas": 3});
            status.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            target("Deployment", json!({"replicas": 3}), status).rollout
        };
        assert_eq!(status(3, json!({})), Rollout::Settled);
        assert!(matches!(status(2, json!({})), Rollout::InProgress(_)));
        let late =
            json!({"conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "late"}]});
        assert_eq!(status(2, late.clone()), Rollout::Stalled("late".to_owned()));
        assert_eq!(status(3, late), Rollout::Settled);
        let quota = json!({"conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota"}]});
        assert_eq!(status(2, quota), Rollout::Stalled("quota".to_owned()));
    }

    #[test]
    fn stateful_sets_by_their_revisions() {
        let phase = |strategy: Value, current: &str, updated: i64| {
            let revisions = (current, "b");
            let status = json!({"observedGeneration": 2, "replicas": 4, "updatedReplicas": updated, "currentRevision": revisions.0, "updateRevision": revisions.1});
            target("StatefulSet", json!({"replicas": 6, "updateStrategy": strategy}), status).rollout
        };
        assert_eq!(phase(json!({"type": "RollingUpdate"}), "b", 4), Rollout::Settled, "scaling one pod at a time is no rollout");
        assert!(matches!(phase(json!({"type": "RollingUpdate"}), "a", 1), Rollout::InProgress(_)));
        assert_eq!(phase(json!({"type": "OnDelete"}), "a", 1), Rollout::Settled);
        let partition = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 3}});
        assert!(matches!(phase(partition.clone(), "a", 0), Rollout::InProgress(_)));
        assert_eq!(phase(partition, "a", 1), Rollout::Settled, "the partition keeps the others");
    }

    #[test]
    fn leader_worker_sets_by_their_condition() {
        let phase = |status: Value| target("LeaderWorkerSet", json!({"replicas": 2}), status).rollout;
        assert_eq!(phase(json!({"replicas": 1, "updatedReplicas": 0})), Rollout::Settled);
        let update = json!({"conditions": [{"type": "UpdateInProgress", "status": "True", "message": "Rolling upgrade is in progress"}]});
        assert!(matches!(phase(update), Rollout::InProgress(why) if why.contains("Rolling")));
        assert!(matches!(phase(json!({"observedGeneration": 1})), Rollout::InProgress(_)));
    }

    #[test]
    fn only_the_managing_owner_counts() {
        let owner = |uid: &str, controller| OwnerReference { uid: uid.to_owned(), controller, ..OwnerReference::default() };
        let owners = [owner("a", None), owner("b", Some(true))];
        assert_eq!(controller(Some(&owners)).map(|o| o.uid.as_str()), Some("b"));
        assert_eq!(controller(None), None);
    }
}
