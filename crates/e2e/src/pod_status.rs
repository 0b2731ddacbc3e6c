//! The statuses that a scheduler and a kubelet write on pods.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use std::net::Ipv4Addr;

/// Whether a condition of the pod is there and `True`.
pub(crate) fn is_true(pod: &Pod, condition: &str) -> bool {
    find(pod, condition).is_some_and(|found| found.status == "True")
}

/// Whether the pod has been reported as one that fits nowhere.
pub(crate) fn is_unschedulable(pod: &Pod) -> bool {
    find(pod, "PodScheduled").is_some_and(|found| found.status == "False")
}

/// The status of a pod that fits nowhere, as a merge patch.
pub(crate) fn unschedulable(pod: &Pod) -> Value {
    let conditions = with(pod, &[("PodScheduled", false, Some("Unschedulable"), Some("0/1 nodes are available"))]);
    json!({"status": {"phase": "Pending", "conditions": conditions}})
}

/// The status of a pod whose containers run, as a merge patch.
pub(crate) fn running(pod: &Pod, ready: bool, address: Ipv4Addr) -> Value {
    let unready = (!ready).then_some("ContainersNotReady");
    let conditions = with(
        pod,
        &[
            ("PodScheduled", true, None, None),
            ("Initialized", true, None, None),
            ("PodReadyToStartContainers", true, None, None),
            ("ContainersReady", ready, unready, None),
            ("Ready", ready, unready, None),
        ],
    );
    let started = pod.status.as_ref().and_then(|status| status.start_time.clone()).unwrap_or_else(now);
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers).map(|container| {
        json!({
            "name": container.name,
            "image": container.image,
            "imageID": "e2e",
            "ready": ready,
            "started": true,
            "restartCount": 0,
            "state": {"running": {"startedAt": started}},
        })
    });
    json!({"status": {
        "phase": "Running",
        "startTime": started,
        "hostIP": Ipv4Addr::LOCALHOST,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": conditions,
        "containerStatuses": containers.collect::<Vec<_>>(),
    }})
}

fn find<'a>(pod: &'a Pod, condition: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|found| found.type_ == condition)
}

type Change<'a> = (&'a str, bool, Option<&'a str>, Option<&'a str>);

/// The pod's conditions with `changes` in them; the time of one that keeps its status stays.
fn with(pod: &Pod, changes: &[Change<'_>]) -> Vec<PodCondition> {
    let mut all = pod.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    for (condition, value, reason, message) in changes {
        let status = if *value { "True" } else { "False" };
        let since = all.iter().find(|found| found.type_ == *condition && found.status == status);
        let since = since.and_then(|found| found.last_transition_time.clone()).unwrap_or_else(now);
        all.retain(|found| found.type_ != *condition);
        all.push(PodCondition {
            type_: (*condition).to_owned(),
            status: status.to_owned(),
            reason: reason.map(str::to_owned),
            message: message.map(str::to_owned),
            last_transition_time: Some(since),
            ..PodCondition::default()
        });
    }
    all
}

fn now() -> Time {
    Time(Timestamp::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_keeps_its_time_until_it_changes() {
        let mut pod = Pod::default();
        let status = |patch: Value| serde_json::from_value(patch["status"].clone()).unwrap();
        pod.status = status(unschedulable(&pod));
        assert!(is_unschedulable(&pod));
        pod.status = status(running(&pod, false, Ipv4Addr::LOCALHOST));
        assert!(!is_unschedulable(&pod) && !is_true(&pod, "Ready") && is_true(&pod, "Initialized"));
        let long_ago = Some(Time(Timestamp::UNIX_EPOCH));
        let conditions = pod.status.as_mut().unwrap().conditions.as_mut().unwrap();
        conditions.iter_mut().for_each(|condition| condition.last_transition_time = long_ago.clone());
        pod.status = status(running(&pod, true, Ipv4Addr::LOCALHOST));
        assert_eq!(find(&pod, "PodScheduled").unwrap().last_transition_time, long_ago);
        assert!(find(&pod, "Ready").unwrap().last_transition_time > long_ago);
    }
}
