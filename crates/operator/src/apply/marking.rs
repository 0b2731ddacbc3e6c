//! The marks on pods: put on those that a smaller size is to remove, and taken off those that stay.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use llmscaler_engine::{Replicas, Victims};
use tracing::{debug, info, warn};

use crate::context::{Context, FIELD_MANAGER};
use crate::deadline::within;
use crate::dereference::{Place, View};
use crate::pods::KeptPod;
use crate::target::Target;

/// How long to wait until the marks are seen in a watch. The workload's own controller sees them at about the same time, and has
/// to: it ranks the pods by what its watch has shown.
const MARK_PATIENCE: Duration = Duration::from_secs(2);

/// Marks the victims, and waits until the marks show in our own watch. Marks are a hint: a failure costs warm caches, not requests,
/// so the scale-down goes on. Answers whether there were any to put.
pub(super) async fn mark(context: &Context, place: &Place, pods: &[(Arc<KeptPod>, bool)], victims: &Victims) -> bool {
    let to_mark: Vec<&KeptPod> = victims
        .names
        .iter()
        .filter_map(|name| pods.iter().find(|(pod, _)| &pod.name == name))
        .map(|(pod, _)| pod.as_ref())
        .filter(|pod| !pod.mark.is(victims.mark))
        .collect();
    if to_mark.is_empty() {
        return false;
    }
    let (api, params) = pods_api(context, place);
    let patches = to_mark.iter().map(|pod| {
        let (api, params, patch) = (&api, &params, Patch::Merge(pod.mark.set(victims.mark)));
        async move { within(api.patch_metadata(&pod.name, params, &patch)).await.map_err(|error| (pod.name.clone(), error)) }
    });
    for (pod, error) in join_all(patches).await.into_iter().filter_map(Result::err) {
        warn!(%pod, %error, "Failed to mark a pod for deletion; the workload's controller chooses in its place");
    }
    let mut version = place.pods.pods.version();
    let seen = |name: &str| place.pods.pods.get(name).is_none_or(|pod| pod.mark.is(victims.mark));
    let all_seen = version.wait_for(|_| to_mark.iter().all(|pod| seen(&pod.name)));
    if tokio::time::timeout(MARK_PATIENCE, all_seen).await.is_err() {
        warn!("The marks on the pods to delete are not visible yet; going on without waiting longer");
    }
    true
}

/// Takes our marks off pods that stay after all: not the `victims` of the write to come, and not while an earlier write is still being
/// carried out. The workload's own controller has not chosen then, and needs the marks.
pub(crate) async fn clear_marks(context: &Context, place: &Place, view: &View, replicas: Replicas, victims: &Victims) {
    let spared = spared(&view.pods, &view.target, replicas, victims);
    if spared.is_empty() || !context.claim.is_current() {
        return;
    }
    // The watch of targets may be behind the one of pods, and not show the latest write yet.
    let spared = match place.look_live(context).await {
        Ok((view, replicas, _)) => self::spared(&view.pods, &view.target, replicas, victims),
        Err(error) => return debug!(%error, "Not clearing marks; the next sync tries again"),
    };
    let (api, params) = pods_api(context, place);
    for pod in spared {
        if !context.claim.is_current() {
            return;
        }
        match within(api.patch_metadata(&pod.name, &params, &Patch::Merge(pod.mark.clear()))).await {
            Ok(_) => info!(pod = pod.name, "Cleared the deletion mark of a pod that stays"),
            Err(error) if error.is_not_found() => {}
            Err(error) => warn!(pod = pod.name, %error, "Failed to clear the deletion mark of a pod that stays; the next sync tries again"),
        }
    }
}

/// The pods with a mark of ours that nobody is about to remove.
fn spared(pods: &[(Arc<KeptPod>, bool)], target: &Target, replicas: Replicas, victims: &Victims) -> Vec<Arc<KeptPod>> {
    let live: Vec<_> = pods.iter().map(|(pod, _)| pod).filter(|pod| !pod.terminating).collect();
    if target.unobserved || live.len() > replicas.get() as usize {
        return vec![];
    }
    live.into_iter().filter(|pod| pod.mark.is_ours() && !victims.names.contains(&pod.name)).cloned().collect()
}

fn pods_api(context: &Context, place: &Place) -> (Api<Pod>, PatchParams) {
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    (Api::namespaced(context.client.clone(), &place.namespace), params)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::watch::Kept;

    fn pod(name: &str, more: serde_json::Value) -> (Arc<KeptPod>, bool) {
        let mut metadata = json!({"name": name});
        metadata.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        (Arc::new(KeptPod::keep(serde_json::from_value(json!({"metadata": metadata})).unwrap())), true)
    }

    fn marked() -> serde_json::Value {
        json!({"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-100", "autoscaling.modelsphere.dev/deletion-cost-mark": "-100:"}})
    }

    fn target(observed: i64) -> Target {
        let object = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "fleet", "generation": 2},
            "status": {"observedGeneration": observed},
        });
        Target::of(&serde_json::from_value(object).unwrap())
    }

    fn names(pods: &[(Arc<KeptPod>, bool)], target: &Target, replicas: u32, victims: &[&str]) -> Vec<String> {
        let victims = Victims { names: victims.iter().map(|name| (*name).to_owned()).collect(), mark: -100 };
        spared(pods, target, Replicas::new(replicas), &victims).iter().map(|pod| pod.name.clone()).collect()
    }

    #[test]
    fn marks_stay_until_the_scale_down_is_carried_out() {
        let mut leaving = marked();
        leaving["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let pods = [pod("a", json!({})), pod("b", marked()), pod("c", marked()), pod("d", leaving)];
        assert_eq!(names(&pods, &target(2), 2, &[]), [""; 0], "one of three still has to go");
        assert_eq!(names(&pods, &target(1), 3, &[]), [""; 0], "the controller has not seen the size");
        assert_eq!(names(&pods, &target(2), 3, &[]), ["b", "c"]);
        assert_eq!(names(&pods, &target(2), 3, &["c"]), ["b"], "the next write needs the other one");
    }
}
