//! The target of a tick, as its object and pods show it.

use std::collections::BTreeSet;
use std::time::Duration;

use llmscaler_api::Invalid;
use llmscaler_engine::{Pod, Replicas, Rollout, RolloutCounts, Warmth, Workload};

use super::node::Node;

/// Reads a target. All but its `replicas` is optional, and what is left out is settled.
pub fn read(node: &Node<'_>) -> Result<Workload, Invalid> {
    let fields = node.fields(&[
        "replicas",
        "readyReplicas",
        "statusReplicas",
        "updatedReplicas",
        "terminatingReplicas",
        "generation",
        "observedGeneration",
        "progressDeadlineExceeded",
        "pods",
    ])?;
    let count = |key: &str| fields.get(key).map(|node| node.count()).transpose();
    let generation = |key: &str| fields.get(key).map(|node| node.integer(0, i64::MAX)).transpose();

    let replicas = fields.need("replicas", "write spec.replicas of the target")?.count()?;
    let pods = fields.get("pods").map(|node| pods(&node)).transpose()?.unwrap_or_default();
    let unready = number_of(&pods, |pod| !pod.terminating && !pod.ready);
    let terminating = number_of(&pods, |pod| pod.terminating);
    let status_replicas = count("statusReplicas")?.unwrap_or(replicas);
    let (generation, observed) = (generation("generation")?, generation("observedGeneration")?);
    let counts = RolloutCounts {
        generation: generation.unwrap_or(observed.unwrap_or(1)),
        observed_generation: observed.unwrap_or(generation.unwrap_or(1)),
        wanted: replicas,
        replicas: status_replicas,
        updated: count("updatedReplicas")?.unwrap_or(replicas.max(status_replicas)),
        keeps_old: false,
    };
    let given_up = fields.get("progressDeadlineExceeded").map(|node| node.flag()).transpose()?.unwrap_or(false);
    Ok(Workload {
        identity: None,
        replicas,
        ready: count("readyReplicas")?.unwrap_or(replicas.minus(unready)),
        rollout: match counts.phase() {
            Rollout::InProgress(why) if given_up => Rollout::Stalled(format!("its progress deadline has passed: {why}")),
            phase => phase,
        },
        terminating: count("terminatingReplicas")?.unwrap_or(Replicas::ZERO).get().max(terminating),
        pods,
        other_owner: None,
        warmth: Warmth::NotAsked,
        warmup: None,
    })
}

fn number_of(pods: &[Pod], which: impl Fn(&Pod) -> bool) -> u32 {
    u32::try_from(pods.iter().filter(|pod| which(pod)).count()).unwrap_or(u32::MAX)
}

fn pods(node: &Node<'_>) -> Result<Vec<Pod>, Invalid> {
    let mut names = BTreeSet::new();
    let mut pods = Vec::new();
    for node in node.list()? {
        let pod = pod(&node)?;
        if !names.insert(pod.name.clone()) {
            return Err(node.invalid(format!("there is a pod named {} already; give each its own name", pod.name)));
        }
        pods.push(pod);
    }
    Ok(pods)
}

fn pod(node: &Node<'_>) -> Result<Pod, Invalid> {
    let fields = node.fields(&["name", "ageSeconds", "ready", "terminating", "unschedulable", "unreadySeconds", "deletionCost"])?;
    let flag = |key: &str| fields.get(key).map(|node| node.flag()).transpose();
    let duration = |key: &str| fields.get(key).map(|node| node.duration()).transpose();

    let age = duration("ageSeconds")?.unwrap_or(Duration::ZERO);
    let unready_for = duration("unreadySeconds")?;
    let unschedulable = flag("unschedulable")?.unwrap_or(false);
    let ready = flag("ready")?.unwrap_or(!unschedulable && unready_for.is_none_or(|time| time.is_zero()));
    let cost = fields.get("deletionCost").map_or(Ok(0), |node| node.integer(i32::MIN.into(), i32::MAX.into()))?;
    Ok(Pod {
        name: fields.need("name", "give each pod a name")?.text()?.to_owned(),
        age,
        ready,
        unready_for: if ready { Duration::ZERO } else { unready_for.unwrap_or(age) },
        terminating: flag("terminating")?.unwrap_or(false),
        unschedulable,
        deletion_cost: i32::try_from(cost).unwrap_or(0),
        ordinal: None,
        current: true,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn workload(target: Value) -> Workload {
        read(&Node::root(&target)).unwrap()
    }

    #[test]
    fn what_is_left_out_is_settled() {
        let seen = workload(json!({"replicas": 4}));
        assert_eq!((seen.ready.get(), seen.terminating, seen.rollout), (4, 0, Rollout::Settled));
        assert_eq!(workload(json!({"replicas": 2, "statusReplicas": 3})).rollout, Rollout::Settled);
        assert_eq!(workload(json!({"replicas": 2, "generation": 7})).rollout, Rollout::Settled);
        assert_eq!(workload(json!({"replicas": 2, "observedGeneration": 7})).rollout, Rollout::Settled);
    }

    #[test]
    fn pods_tell_what_is_ready_and_what_is_going() {
        let pods = json!([{"name": "a"}, {"name": "b", "ready": false}, {"name": "c", "unschedulable": true},
                          {"name": "d", "terminating": true, "ready": false}, {"name": "e", "unreadySeconds": 5}]);
        let seen = workload(json!({"replicas": 4, "pods": pods}));
        assert_eq!((seen.ready.get(), seen.terminating), (1, 1));
        let seen = workload(json!({"replicas": 4, "pods": pods, "readyReplicas": 3, "terminatingReplicas": 2}));
        assert_eq!((seen.ready.get(), seen.terminating), (3, 2));
        assert_eq!(workload(json!({"replicas": 1, "pods": pods})).ready.get(), 0);
    }

    #[test]
    fn an_unready_pod_has_been_so_since_its_creation_unless_said() {
        let pods = json!([{"name": "a", "ageSeconds": 500, "ready": false}, {"name": "b", "ageSeconds": 500, "ready": false, "unreadySeconds": 20},
                          {"name": "c", "ageSeconds": 500}]);
        let seen = workload(json!({"replicas": 3, "pods": pods}));
        assert_eq!(seen.pods.iter().map(|pod| pod.unready_for.as_secs()).collect::<Vec<_>>(), [500, 20, 0]);
    }

    #[test]
    fn a_rollout_in_progress_may_have_failed() {
        let target = json!({"replicas": 2, "updatedReplicas": 1});
        assert!(matches!(workload(target).rollout, Rollout::InProgress(_)));
        let target = json!({"replicas": 2, "updatedReplicas": 1, "progressDeadlineExceeded": true});
        assert!(matches!(workload(target).rollout, Rollout::Stalled(_)));
        assert!(matches!(workload(json!({"replicas": 2, "generation": 3, "observedGeneration": 2})).rollout, Rollout::InProgress(_)));
        assert_eq!(workload(json!({"replicas": 2, "progressDeadlineExceeded": true})).rollout, Rollout::Settled);
    }

    #[test]
    fn refusals_name_the_field() {
        for (target, field) in [
            (json!({}), "replicas"),
            (json!({"replicas": -1}), "replicas"),
            (json!({"replicas": 1, "pods": [{}]}), "pods[0].name"),
            (json!({"replicas": 1, "pods": [{"name": "a"}, {"name": "a"}]}), "pods[1]"),
            (json!({"replicas": 1, "pods": [{"name": "a", "deletionCost": 2_147_483_648_u64}]}), "pods[0].deletionCost"),
            (json!({"replicas": 1, "pods": [{"name": "a", "ageSeconds": -1}]}), "pods[0].ageSeconds"),
        ] {
            assert_eq!(read(&Node::root(&target)).unwrap_err().field, field, "{target}");
        }
    }
}
