//! The quota of every namespace. On a real cluster nodes run out long before the API server does; here each pod costs the machine that
//! everything runs on, wherever it is scheduled.

use serde_json::Value;

use crate::api::Api;
use crate::object;
use crate::refusal::Refusal;
use crate::resources::Resource;

/// Pods that a namespace may have: many more than a demo or a test asks for, and few enough that all of them are still looked at in time.
pub(crate) const PODS: usize = 500;

impl Api {
    /// How many more pods the namespace may have.
    pub(crate) fn room_for_pods(&self, namespace: &str) -> usize {
        let used = Resource::of_kind("Pod").map_or(0, |pods| self.store.list(pods, Some(namespace)).len());
        PODS.saturating_sub(used)
    }

    /// Refuses a new object that its namespace has no room for.
    pub(crate) fn check_quota(&self, resource: &Resource, namespace: &str, object: &Value) -> Result<(), Refusal> {
        let refused = resource.kind == "Pod" && self.room_for_pods(namespace) == 0;
        if refused { Err(Refusal::over_quota(resource, object::name(object), &exceeded(object::name(object)))) } else { Ok(()) }
    }
}

/// What is said of a pod for which there is no room, in the words of the ResourceQuota admission.
pub(crate) fn exceeded(name: &str) -> String {
    format!("pods {name:?} is forbidden: exceeded quota: sandbox, requested: pods=1, used: pods={PODS}, limited: pods={PODS}")
}
