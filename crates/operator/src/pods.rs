//! The pods of a target, as the engine looks at them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use kube::api::PartialObjectMeta;
use kube::core::SelectorExt;
use llmscaler_engine as engine;

use crate::marks::Mark;
use crate::target::{KnownKind, Newest, Target, controller};
use crate::watch::{Collection, Kept};

/// Name of the LeaderWorkerSet that a pod belongs to.
const LWS_NAME: &str = "leaderworkerset.sigs.k8s.io/name";
/// Which group of its LeaderWorkerSet a pod belongs to.
const LWS_GROUP: &str = "leaderworkerset.sigs.k8s.io/group-index";
/// Which of the pods of its group a pod is; the leader, which serves, is 0.
const LWS_WORKER: &str = "leaderworkerset.sigs.k8s.io/worker-index";
/// Revision of the StatefulSet template that a pod was made from.
const REVISION_HASH: &str = "controller-revision-hash";

/// How long after its grace period a pod may still be there before nobody waits for it: the node may be gone.
const OVERDUE_AFTER: SignedDuration = SignedDuration::from_mins(10);

/// How long after a pod's start its node may have said for the first time that it is not ready. What turns to that later was ready.
const FIRST_REPORT: SignedDuration = SignedDuration::from_secs(5);

/// What is kept of a pod.
#[derive(Clone, Debug)]
pub(crate) struct KeptPod {
    pub name: String,
    pub uid: String,
    pub ip: Option<IpAddr>,
    /// Container ports that have a name.
    pub ports: BTreeMap<String, u16>,
    pub labels: BTreeMap<String, String>,
    pub created: Timestamp,
    pub ready: bool,
    /// When it became ready or was last ready; when it was created where neither ever was.
    pub turned_at: Timestamp,
    /// Whether it is not ready and never was.
    pub never_ready: bool,
    /// Whether one of its containers was restarted.
    pub restarted: bool,
    pub terminating: bool,
    /// When its grace period ends, once it is shutting down.
    grace_until: Option<Timestamp>,
    pub unschedulable: bool,
    /// Succeeded or failed: it serves nobody and counts for nothing.
    pub finished: bool,
    pub mark: Mark,
    owner: Option<String>,
}

impl Kept for KeptPod {
    type Object = Pod;

    fn keep(pod: Pod) -> Self {
        let status = pod.status.unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        let condition = |kind: &str| conditions.iter().find(|condition| condition.type_ == kind);
        let created = pod.metadata.creation_timestamp.map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        let ready = condition("Ready");
        let containers = pod.spec.map(|spec| spec.containers).unwrap_or_default();
        let ports = containers.into_iter().flat_map(|container| container.ports.unwrap_or_default());
        Self {
            name: pod.metadata.name.unwrap_or_default(),
            uid: pod.metadata.uid.unwrap_or_default(),
            ip: status.pod_ip.and_then(|ip| ip.parse().ok()),
            ports: ports.filter_map(|port| Some((port.name?, u16::try_from(port.container_port).ok()?))).collect(),
            labels: pod.metadata.labels.unwrap_or_default(),
            created,
            ready: ready.is_some_and(|condition| condition.status == "True"),
            turned_at: ready.and_then(last_transition).unwrap_or(created).max(created),
            never_ready: ready.is_none_or(|ready| {
                let started = status.start_time.map_or(created, |time| time.0);
                ready.status != "True" && last_transition(ready).is_none_or(|turned| turned.duration_since(started) <= FIRST_REPORT)
            }),
            restarted: status.container_statuses.into_iter().flatten().any(|container| container.restart_count > 0),
            terminating: pod.metadata.deletion_timestamp.is_some(),
            // Kubernetes adds the grace period to the time of the deletion.
            grace_until: pod.metadata.deletion_timestamp.map(|time| time.0),
            unschedulable: condition("PodScheduled").is_some_and(|c| c.status == "False" && c.reason.as_deref() == Some("Unschedulable")),
            finished: matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")),
            mark: Mark::of(pod.metadata.annotations.as_ref()),
            owner: controller(pod.metadata.owner_references.as_deref()).map(|owner| owner.uid.clone()),
        }
    }

    fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }
}

fn last_transition(condition: &PodCondition) -> Option<Timestamp> {
    condition.last_transition_time.as_ref().map(|time| time.0)
}

impl KeptPod {
    /// Whether the engine's metrics are on this pod. Of a LeaderWorkerSet's group only the leader serves.
    pub(crate) fn serves_metrics(&self) -> bool {
        self.labels.get(LWS_WORKER).is_none_or(|index| index == "0")
    }

    /// Whether it should have been gone for long.
    pub(crate) fn is_overdue(&self, now: Timestamp) -> bool {
        self.grace_until.is_some_and(|until| now.duration_since(until) > OVERDUE_AFTER)
    }

    /// The number in a label; what has none comes last.
    fn index(&self, label: &str) -> u64 {
        self.labels.get(label).and_then(|text| text.parse().ok()).unwrap_or(u64::MAX)
    }

    fn seen(&self, now: Timestamp, current: bool) -> engine::Pod {
        let since = |then: Timestamp| Duration::try_from(now.duration_since(then)).unwrap_or_default();
        engine::Pod {
            name: self.name.clone(),
            age: since(self.created),
            ready: self.ready,
            unready_for: if self.ready { Duration::ZERO } else { since(self.turned_at) },
            terminating: self.terminating,
            unschedulable: self.unschedulable,
            deletion_cost: self.mark.own_cost(),
            ordinal: None,
            current,
        }
    }
}

/// What is kept of a ReplicaSet.
#[derive(Debug)]
pub(crate) struct KeptReplicaSet {
    uid: String,
    revision: Option<String>,
    owner: Option<String>,
}

impl Kept for KeptReplicaSet {
    type Object = PartialObjectMeta<ReplicaSet>;

    fn keep(set: Self::Object) -> Self {
        Self {
            uid: set.metadata.uid.unwrap_or_default(),
            revision: set.metadata.annotations.and_then(|mut map| map.remove("deployment.kubernetes.io/revision")),
            owner: controller(set.metadata.owner_references.as_deref()).map(|owner| owner.uid.clone()),
        }
    }

    fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }
}

/// The pods of a target with whether each is of the newest template; by ownership where the kind is known, else by selector. While
/// nothing changes they come in the same order.
pub(crate) fn pods_of(
    name: &str,
    target: &Target,
    pods: &Collection<KeptPod>,
    replica_sets: &Collection<KeptReplicaSet>,
) -> Vec<(Arc<KeptPod>, bool)> {
    let mut found: Vec<(Arc<KeptPod>, bool)> = match target.kind {
        KnownKind::Deployment => {
            let newest = |set: &KeptReplicaSet| match &target.newest {
                Newest::ReplicaSetRevision(revision) => set.revision.as_ref() == Some(revision),
                _ => false,
            };
            let sets = replica_sets.owned_by(&target.uid);
            sets.iter().flat_map(|set| pods.owned_by(&set.uid).into_iter().map(|pod| (pod, newest(set)))).collect()
        }
        KnownKind::StatefulSet => {
            let newest = |pod: &KeptPod| match &target.newest {
                Newest::RevisionHash(hash) => pod.labels.get(REVISION_HASH) == Some(hash),
                _ => true,
            };
            pods.owned_by(&target.uid).into_iter().map(|pod| (pod.clone(), newest(&pod))).collect()
        }
        KnownKind::LeaderWorkerSet => {
            let members = pods.select(|pod| pod.labels.get(LWS_NAME).is_some_and(|set| set == name));
            members.into_iter().map(|pod| (pod, true)).collect()
        }
        KnownKind::ForeignDeployment | KnownKind::Other => match &target.selector {
            Some(selector) => pods.select(|pod| selector.matches(&pod.labels)).into_iter().map(|pod| (pod, true)).collect(),
            None => vec![],
        },
    };
    found.retain(|(pod, _)| !pod.finished);
    found
}

/// The replicas as the engine looks at them: pods, or groups of pods for a LeaderWorkerSet.
pub(crate) fn replicas_of(kind: KnownKind, pods: &[(Arc<KeptPod>, bool)], now: Timestamp) -> Vec<engine::Pod> {
    let seen = |(pod, current): &(Arc<KeptPod>, bool)| pod.seen(now, *current);
    if kind != KnownKind::LeaderWorkerSet {
        return pods.iter().map(seen).collect();
    }
    let mut members: Vec<_> = pods.iter().collect();
    members.sort_by_key(|(pod, _)| (pod.index(LWS_GROUP), pod.index(LWS_WORKER), pod.name.clone()));
    // A group has the name and the age of its leader. It serves when all its pods do, so it is as its worst pod is.
    let groups = members.chunk_by(|(a, _), (b, _)| a.labels.get(LWS_GROUP) == b.labels.get(LWS_GROUP));
    groups
        .filter_map(|group| {
            group.iter().map(|member| seen(member)).reduce(|leader, pod| engine::Pod {
                ready: leader.ready && pod.ready,
                unready_for: leader.unready_for.max(pod.unready_for),
                terminating: leader.terminating || pod.terminating,
                unschedulable: leader.unschedulable || pod.unschedulable,
                ..leader
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, more: serde_json::Value) -> KeptPod {
        let mut pod = json!({"metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"}});
        pod.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        KeptPod::keep(serde_json::from_value(pod).unwrap())
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_pod_is_unready_since_it_was_last_ready_or_was_created() {
        let fresh = pod("a", json!({}));
        assert_eq!(fresh.seen(at("2026-01-01T00:10:01Z"), true).unready_for, Duration::from_secs(601));
        let lost = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:05:00Z"}]}});
        assert_eq!(pod("a", lost).seen(at("2026-01-01T00:10:00Z"), true).unready_for, Duration::from_secs(300));
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:05:00Z"}]}});
        let ready = pod("a", ready).seen(at("2026-01-01T00:10:00Z"), true);
        assert!(ready.ready && ready.unready_for.is_zero());
    }

    #[test]
    fn a_pod_on_a_lost_node_is_not_waited_for_for_ever() {
        let leaving = json!({"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-01T01:00:00Z"});
        let leaving = pod("a", json!({"metadata": leaving}));
        assert!(leaving.terminating && !leaving.is_overdue(at("2026-01-01T01:10:00Z")));
        assert!(leaving.is_overdue(at("2026-01-01T01:10:01Z")));
        assert!(!pod("a", json!({})).is_overdue(at("2027-01-01T00:00:00Z")));
    }

    #[test]
    fn unschedulable_is_what_the_scheduler_says() {
        let condition = |reason: &str| json!({"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": reason}]}});
        assert!(pod("a", condition("Unschedulable")).unschedulable);
        assert!(!pod("a", condition("SchedulingGated")).unschedulable);
    }

    #[test]
    fn a_group_is_as_its_worst_pod() {
        let member = |name: &str, group: &str, ready: &str| {
            let conditions = json!([{"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
            let mut kept = pod(name, json!({"status": {"conditions": conditions}}));
            kept.labels.insert(LWS_GROUP.to_owned(), group.to_owned());
            (Arc::new(kept), true)
        };
        let pods = [member("0", "0", "True"), member("0-1", "0", "False"), member("1", "1", "True")];
        let groups = replicas_of(KnownKind::LeaderWorkerSet, &pods, at("2026-01-01T00:20:00Z"));
        assert_eq!(groups.iter().map(|group| group.ready).collect::<Vec<_>>(), [false, true]);
        assert_eq!(replicas_of(KnownKind::StatefulSet, &pods, at("2026-01-01T00:20:00Z")).len(), 3);
    }

    #[test]
    fn a_group_is_called_after_its_leader_in_whatever_order_its_pods_come() {
        let member = |name: &str, group: &str, worker: &str, created: &str| {
            let labels = json!({LWS_GROUP: group, LWS_WORKER: worker});
            let metadata = json!({"name": name, "creationTimestamp": created, "labels": labels});
            (Arc::new(pod(name, json!({"metadata": metadata}))), true)
        };
        let mut pods: Vec<_> = (0..12)
            .flat_map(|group| {
                let (leader, index) = (format!("fleet-{group}"), group.to_string());
                [
                    member(&format!("{leader}-1"), &index, "1", "2026-01-01T00:01:00Z"),
                    member(&leader, &index, "0", "2026-01-01T00:02:00Z"),
                    member(&format!("{leader}-10"), &index, "10", "2026-01-01T00:00:00Z"),
                ]
            })
            .collect();
        for _ in 0..pods.len() {
            pods.rotate_left(1);
            let groups = replicas_of(KnownKind::LeaderWorkerSet, &pods, at("2026-01-01T00:10:00Z"));
            let names: Vec<_> = groups.iter().map(|group| group.name.clone()).collect();
            assert_eq!(names, (0..12).map(|group| format!("fleet-{group}")).collect::<Vec<_>>());
            assert!(groups.iter().all(|group| group.age == Duration::from_secs(480)), "as old as the leader");
        }
    }
}
