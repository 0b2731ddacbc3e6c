//! What the API object of a target says of its size and state.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use kube::api::{DynamicObject, TypeMeta};
use kube::core::Selector;
use llmscaler_engine::{Replicas, Rollout, RolloutCounts};
use serde_json::Value;

use crate::owners::{Holder, holders};
use crate::watch::Kept;

/// The kinds of which more is known than that they have a size. A kind is a name within its group: that a StatefulSet of OpenKruise is
/// called like one of Kubernetes does not make it work alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KnownKind {
    /// `apps`: its pods belong to ReplicaSets.
    Deployment,
    /// A Deployment of another group. Its rollouts are read from the counts of a Deployment, as document A does (B-30: "any API
    /// group"); nothing else is taken for granted.
    ForeignDeployment,
    /// `apps`: its pods are its own.
    StatefulSet,
    /// `leaderworkerset.x-k8s.io`: a replica is a group of pods.
    LeaderWorkerSet,
    /// Judged by the usual status, and its pods found by its selector.
    Other,
}

impl KnownKind {
    fn of(types: Option<&TypeMeta>) -> Self {
        let Some(TypeMeta { api_version, kind }) = types else { return Self::Other };
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        match (group, kind.as_str()) {
            ("apps", "Deployment") => Self::Deployment,
            (_, "Deployment") => Self::ForeignDeployment,
            ("apps", "StatefulSet") => Self::StatefulSet,
            ("leaderworkerset.x-k8s.io", "LeaderWorkerSet") => Self::LeaderWorkerSet,
            _ => Self::Other,
        }
    }
}

/// What the API object of a target says of its size and state.
#[derive(Debug)]
pub(crate) struct Target {
    pub kind: KnownKind,
    pub uid: String,
    /// `metadata.generation`; 0 where it is not counted.
    pub generation: i64,
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
    /// Who owns `spec.replicas`; whoever wrote last comes last.
    pub holders: Vec<Holder>,
    /// The controller that it belongs to.
    pub parent: Option<Parent>,
}

/// The controller that an object belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parent {
    kind: String,
    name: String,
    uid: String,
}

impl fmt::Display for Parent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
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
        self.parent.as_ref().map(|parent| parent.uid.as_str())
    }
}

impl Target {
    /// Reads what matters from the object; fields that are missing count as in document A.
    pub(crate) fn of(object: &DynamicObject) -> Self {
        let data = &object.data;
        let kind = KnownKind::of(object.types.as_ref());
        let generation = object.metadata.generation.unwrap_or(0);
        let revision = object.metadata.annotations.as_ref().and_then(|map| map.get("deployment.kubernetes.io/revision"));
        let newest = match (kind, revision, text(data, "/status/updateRevision")) {
            (KnownKind::Deployment, Some(revision), _) => Newest::ReplicaSetRevision(revision.clone()),
            (KnownKind::StatefulSet, _, Some(revision)) => Newest::RevisionHash(revision.to_owned()),
            _ => Newest::All,
        };
        let selector = data.pointer("/spec/selector").cloned().and_then(|value| serde_json::from_value::<LabelSelector>(value).ok());
        Self {
            kind,
            uid: object.metadata.uid.clone().unwrap_or_default(),
            generation,
            replicas: count(data, "/spec/replicas"),
            ready: count(data, "/status/readyReplicas").unwrap_or_default(),
            rollout: rollout(kind, generation, data),
            terminating: count(data, "/status/terminatingReplicas").unwrap_or_default().get(),
            newest,
            selector: selector.and_then(|selector| Selector::try_from(selector).ok()),
            unobserved: number(data, "/status/observedGeneration").is_some_and(|observed| observed < generation),
            holders: holders(object.metadata.managed_fields.as_deref()),
            parent: controller(object.metadata.owner_references.as_deref()).map(|owner| Parent {
                kind: owner.kind.clone(),
                name: owner.name.clone(),
                uid: owner.uid.clone(),
            }),
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

fn rollout(kind: KnownKind, generation: i64, data: &Value) -> Rollout {
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
        KnownKind::Deployment | KnownKind::ForeignDeployment => failed(data, counts.phase()),
        KnownKind::StatefulSet => {
            let rolling = text(data, "/status/currentRevision") != text(data, "/status/updateRevision");
            // OnDelete waits for people, not for time.
            if !rolling || text(data, "/spec/updateStrategy/type") == Some("OnDelete") {
                return settled.phase();
            }
            let partition = count(data, "/spec/updateStrategy/rollingUpdate/partition").unwrap_or_default().get();
            RolloutCounts { wanted: counts.replicas.min(spec).minus(partition), keeps_old: partition > 0, ..counts }.phase()
        }
        KnownKind::LeaderWorkerSet => match condition(data, "UpdateInProgress", "True") {
            Some(update) => Rollout::InProgress(text(update, "/message").unwrap_or("its groups are being updated").to_owned()),
            None => RolloutCounts { observed_generation: observed(data, generation), ..settled }.phase(),
        },
        // A kind of which nothing else is known: what it does report counts.
        KnownKind::Other => RolloutCounts { observed_generation: observed(data, generation), ..settled }.phase(),
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
        let group = if kind == "LeaderWorkerSet" { "leaderworkerset.x-k8s.io" } else { "apps" };
        target_of(group, kind, spec, status)
    }

    fn target_of(group: &str, kind: &str, spec: Value, status: Value) -> Target {
        let annotations = json!({"deployment.kubernetes.io/revision": "7"});
        let metadata = json!({"name": "x", "uid": "u", "generation": 2, "annotations": annotations});
        let object = json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": metadata, "spec": spec, "status": status});
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
    fn a_kind_of_another_group_is_another_kind() {
        let status = json!({"observedGeneration": 2, "currentRevision": "a", "updateRevision": "b", "replicas": 3, "updatedReplicas": 1});
        let of = |group: &str, kind: &str| target_of(group, kind, json!({"replicas": 3}), status.clone());
        let own = of("apps", "StatefulSet");
        assert_eq!((own.kind, &own.newest), (KnownKind::StatefulSet, &Newest::RevisionHash("b".to_owned())));
        assert!(matches!(own.rollout, Rollout::InProgress(_)));
        let kruise = of("apps.kruise.io", "StatefulSet");
        assert_eq!((kruise.kind, kruise.newest, kruise.rollout), (KnownKind::Other, Newest::All, Rollout::Settled));
        assert_eq!(of("example.com", "LeaderWorkerSet").kind, KnownKind::Other);

        let own = of("apps", "Deployment");
        assert_eq!((own.kind, own.newest), (KnownKind::Deployment, Newest::ReplicaSetRevision("7".to_owned())));
        let foreign = of("example.com", "Deployment");
        assert_eq!((foreign.kind, foreign.newest), (KnownKind::ForeignDeployment, Newest::All));
        assert!(matches!(foreign.rollout, Rollout::InProgress(_)), "B-30 holds for any API group");
    }

    #[test]
    fn only_the_managing_owner_counts() {
        let owner = |uid: &str, controller| OwnerReference { uid: uid.to_owned(), controller, ..OwnerReference::default() };
        let owners = [owner("a", None), owner("b", Some(true))];
        assert_eq!(controller(Some(&owners)).map(|o| o.uid.as_str()), Some("b"));
        assert_eq!(controller(None), None);
    }
}
