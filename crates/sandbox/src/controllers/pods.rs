//! The scheduler and the kubelet: pods are what they are said to be.

use std::net::IpAddr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::api::Api;
use crate::object::{self, number, text};
use crate::resources::Resource;
use crate::store::Key;

/// The node of all pods.
const NODE: &str = "sandbox";

/// A pod, for the decision on its stage.
#[derive(Clone, Copy, Debug)]
pub struct PodView<'a> {
    /// The whole object.
    pub object: &'a Value,
    /// Since it was created.
    pub age: Duration,
    /// Since its deletion was asked for; `None` while it was not.
    pub terminating: Option<Duration>,
}

impl<'a> PodView<'a> {
    /// Its namespace.
    #[must_use]
    pub fn namespace(&self) -> &'a str {
        object::namespace(self.object)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'a str {
        object::name(self.object)
    }

    /// Its UID.
    #[must_use]
    pub fn uid(&self) -> &'a str {
        object::uid(self.object)
    }
}

/// Where in its life a pod is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It fits on no node, for this reason.
    Unschedulable(String),
    /// It has a node, and its containers are being started.
    Starting,
    /// Its containers run.
    Running {
        /// The address of the pod.
        ip: IpAddr,
        /// The port of its metrics, which its first container then has under the name `metrics`: where several pods share one address,
        /// as they do on loopback. `None` leaves the ports to the template.
        port: Option<u16>,
        /// Whether it takes requests.
        ready: bool,
    },
    /// Its containers have ended. One that is to be deleted is gone then; another has failed.
    Ended,
}

/// Says which stage a pod is in.
pub type Life = Box<dyn FnMut(PodView<'_>) -> Stage + Send>;

/// Pods that all have the address `ip`, are ready `warm_up` after their creation, and take `drain` to end.
#[must_use]
pub fn after(ip: IpAddr, warm_up: Duration, drain: Duration) -> Life {
    Box::new(move |pod| match pod.terminating {
        Some(time) if time >= drain => Stage::Ended,
        _ => Stage::Running { ip, port: None, ready: pod.age >= warm_up },
    })
}

pub(super) fn reconcile_all(api: &mut Api, life: &mut Life, now: Timestamp) {
    let Some(resource) = Resource::of_kind("Pod") else { return };
    for pod in api.store.list(resource, None) {
        let key = Key::new(resource, object::namespace(&pod), object::name(&pod));
        let since = |at: Option<Timestamp>| at.map_or(Duration::ZERO, |at| Duration::try_from(now.duration_since(at)).unwrap_or_default());
        let grace = SignedDuration::from_secs(number(&pod, "/metadata/deletionGracePeriodSeconds").unwrap_or(0));
        let end = object::time(&pod, "/metadata/deletionTimestamp");
        let terminating = end.map(|end| since(Some(end.saturating_sub(grace).unwrap_or(end))));
        if matches!(text(&pod, "/status/phase"), "Failed" | "Succeeded") && terminating.is_none() {
            continue;
        }
        let age = since(object::time(&pod, "/metadata/creationTimestamp"));
        let stage = life(PodView { object: &pod, age, terminating });
        if terminating.is_some() && (stage == Stage::Ended || end.is_some_and(|end| end <= now)) {
            if object::list(&pod, "/metadata/finalizers").is_empty() {
                api.store.remove(&key);
            }
            continue;
        }
        api.modify("Pod", &pod, |pod| become_stage(pod, &stage, now));
    }
}

fn become_stage(pod: &mut Value, stage: &Stage, now: Timestamp) {
    if !matches!(stage, Stage::Unschedulable(_)) {
        object::child(pod, "spec").insert("nodeName".into(), NODE.into());
    }
    let ready = matches!(stage, Stage::Running { ready: true, .. });
    let reason = if ready { "" } else { "ContainersNotReady" };
    let phase = match stage {
        Stage::Unschedulable(why) => {
            condition(pod, "PodScheduled", false, "Unschedulable", why, now);
            "Pending"
        }
        Stage::Starting => {
            condition(pod, "PodScheduled", true, "", "", now);
            condition(pod, "Ready", false, reason, "", now);
            "Pending"
        }
        Stage::Running { ip, port, .. } => {
            let container = pod.pointer_mut("/spec/containers/0").filter(|_| port.is_some());
            if let Some(container) = container {
                object::map(container).insert("ports".into(), json!([{"name": "metrics", "containerPort": port, "protocol": "TCP"}]));
            }
            for kind in ["PodScheduled", "PodReadyToStartContainers", "Initialized"] {
                condition(pod, kind, true, "", "", now);
            }
            for kind in ["ContainersReady", "Ready"] {
                condition(pod, kind, ready, reason, "", now);
            }
            let status = object::child(pod, "status");
            status.insert("podIP".into(), json!(ip));
            status.insert("podIPs".into(), json!([{"ip": ip}]));
            status.insert("hostIP".into(), json!("127.0.0.1"));
            status.entry("startTime").or_insert_with(|| object::stamp(now).into());
            "Running"
        }
        Stage::Ended => {
            condition(pod, "Ready", false, "PodFailed", "", now);
            "Failed"
        }
    };
    containers(pod, phase == "Running", ready);
    object::child(pod, "status").insert("phase".into(), phase.into());
}

fn containers(pod: &mut Value, running: bool, ready: bool) {
    let started = pod["status"]["startTime"].clone();
    let one = |container: &Value| {
        let state = if running { json!({"running": {"startedAt": started}}) } else { json!({"waiting": {"reason": "ContainerCreating"}}) };
        json!({"name": container["name"], "image": container["image"], "imageID": "", "ready": ready, "started": running, "restartCount": 0,
            "state": state})
    };
    let statuses: Vec<Value> = object::list(pod, "/spec/containers").iter().map(one).collect();
    object::child(pod, "status").insert("containerStatuses".into(), statuses.into());
}

fn condition(pod: &mut Value, kind: &str, holds: bool, reason: &str, message: &str, now: Timestamp) {
    let status = if holds { "True" } else { "False" };
    let before = object::list(pod, "/status/conditions").iter().find(|one| one["type"] == kind && one["status"] == status);
    let since = before.map_or_else(|| json!(object::stamp(now)), |before| before["lastTransitionTime"].clone());
    let mut fresh = json!({"type": kind, "status": status, "lastTransitionTime": since});
    for (name, words) in [("reason", reason), ("message", message)] {
        if !words.is_empty() {
            fresh[name] = json!(words);
        }
    }
    let conditions = object::child(pod, "status").entry("conditions").or_insert_with(|| json!([]));
    let Value::Array(conditions) = conditions else { return };
    match conditions.iter_mut().find(|one| one["type"] == kind) {
        Some(same) => *same = fresh,
        None => conditions.push(fresh),
    }
}
