//! How long a target's pods take to start: learned from those that are seen to become ready for the first time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use llmscaler_api::{LLMScaler, WarmupStatus};

use crate::pods::KeptPod;

/// A pod that took longer than this waited for room in the cluster, and says nothing of how long an engine takes.
const LONGEST: Duration = Duration::from_secs(3600);

/// What is known of the warm-up of one target.
///
/// A pod tells it once: at the first look at which it is ready, if at the look before it had never been ready, or was not there.
/// Those that were ready at the first look of all tell nothing, for nobody saw how often they had been ready before; nor do
/// those whose containers were restarted. Of a LeaderWorkerSet's group the leader counts, which serves.
#[derive(Debug, Default)]
pub(crate) struct Warmup {
    /// UID of the target that all of this is about, once it was looked at.
    target: Option<String>,
    /// The warm-up of the pod that became ready last.
    last: Option<Duration>,
    /// How many pods told it.
    samples: u32,
    /// The pods at the last look by UID, each with whether it had never been ready; `None` before the first look.
    pods: Option<HashMap<String, bool>>,
}

impl Warmup {
    /// Continues from what the object says of its present generation; an edit that nobody saw may have named another target.
    pub(crate) fn of(scaler: &LLMScaler) -> Self {
        let status = scaler.status.as_ref().filter(|status| status.observed_generation == scaler.metadata.generation);
        let Some(told) = status.and_then(|status| status.warmup) else { return Self::default() };
        let last = u64::try_from(told.seconds).ok().map(Duration::from_secs);
        Self { last, samples: u32::try_from(told.samples).unwrap_or(0), ..Self::default() }
    }

    /// Looks at the pods of the target with this UID. Another target than before begins anew.
    pub(crate) fn look<'a>(&mut self, target: &str, pods: impl Iterator<Item = &'a Arc<KeptPod>>) {
        if self.target.as_ref().is_some_and(|before| before != target) {
            *self = Self::default();
        }
        if self.target.is_none() {
            self.target = Some(target.to_owned());
        }
        let mut seen = HashMap::new();
        let mut newest: Option<(Timestamp, Duration)> = None;
        for pod in pods.filter(|pod| pod.serves_metrics()) {
            seen.insert(pod.uid.clone(), pod.never_ready);
            let starting = self.pods.as_ref().is_some_and(|before| before.get(&pod.uid).copied().unwrap_or(true));
            if let Some(took) = warmup(pod).filter(|_| starting) {
                self.samples = self.samples.saturating_add(1);
                if newest.is_none_or(|(since, _)| pod.turned_at >= since) {
                    newest = Some((pod.turned_at, took));
                }
            }
        }
        self.last = newest.map(|(_, took)| took).or(self.last);
        self.pods = Some(seen);
    }

    /// How long the pod that became ready last took from its creation to being ready.
    pub(crate) fn last(&self) -> Option<Duration> {
        self.last
    }

    /// The same for the status.
    pub(crate) fn status(&self) -> Option<WarmupStatus> {
        let seconds = i32::try_from(self.last?.as_secs()).unwrap_or(i32::MAX);
        Some(WarmupStatus { seconds, samples: i32::try_from(self.samples).unwrap_or(i32::MAX) })
    }
}

/// The time from the creation of a ready pod to its readiness, if that can be its first.
fn warmup(pod: &KeptPod) -> Option<Duration> {
    if !pod.ready || pod.terminating || pod.restarted {
        return None;
    }
    Duration::try_from(pod.turned_at.duration_since(pod.created)).ok().filter(|took| *took <= LONGEST)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::*;
    use crate::watch::Kept;

    /// A pod created at 10:00:00 and started a second later. Its Ready condition turned at minute and second `turned`.
    fn pod(uid: &str, ready: &str, turned: &str, restarts: u32) -> Arc<KeptPod> {
        let condition = json!({"type": "Ready", "status": ready, "lastTransitionTime": format!("2026-01-01T10:{turned}Z")});
        let container = json!({"name": "engine", "restartCount": restarts, "ready": false, "image": "", "imageID": ""});
        kept(uid, json!({"startTime": "2026-01-01T10:00:01Z", "conditions": [condition], "containerStatuses": [container]}))
    }

    fn kept(uid: &str, status: Value) -> Arc<KeptPod> {
        let metadata = json!({"name": uid, "uid": uid, "creationTimestamp": "2026-01-01T10:00:00Z"});
        let pod: Pod = serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap();
        Arc::new(KeptPod::keep(pod))
    }

    fn starting(uid: &str) -> Arc<KeptPod> {
        pod(uid, "False", "00:02", 0)
    }

    fn learned(looks: &[&[Arc<KeptPod>]]) -> (Option<u64>, u32) {
        let mut warmup = Warmup::default();
        for pods in looks {
            warmup.look("target", pods.iter());
        }
        (warmup.last().map(|took| took.as_secs()), warmup.samples)
    }

    #[test]
    fn a_pod_tells_it_once_when_it_is_first_ready() {
        let ready = || pod("a", "True", "02:15", 0);
        assert_eq!(learned(&[&[starting("a")]]), (None, 0));
        assert_eq!(learned(&[&[starting("a")], &[ready()]]), (Some(135), 1));
        assert_eq!(learned(&[&[kept("a", json!({}))], &[ready()]]), (Some(135), 1), "seen before its node knew of it");
        assert_eq!(learned(&[&[starting("a")], &[ready()], &[ready()]]), (Some(135), 1));
        assert_eq!(learned(&[&[], &[ready()]]), (Some(135), 1), "made and ready between two looks");
    }

    #[test]
    fn a_pod_that_may_have_been_ready_before_tells_nothing() {
        let again = || pod("a", "True", "40:00", 0);
        assert_eq!(learned(&[&[again()]]), (None, 0), "nobody saw it start");
        assert_eq!(learned(&[&[again()], &[again()]]), (None, 0));
        let lost = || pod("a", "False", "30:00", 0);
        assert_eq!(learned(&[&[lost()], &[again()]]), (None, 0), "it was lost long after its start");
        assert_eq!(learned(&[&[starting("a")], &[lost()], &[again()]]), (None, 0), "it was ready between two looks");
        assert_eq!(learned(&[&[starting("a")], &[pod("a", "True", "02:15", 1)]]), (None, 0), "its engine was restarted");
    }

    #[test]
    fn the_pod_that_became_ready_last_counts() {
        let both = [starting("a"), starting("b")];
        let (early, late) = (pod("a", "True", "01:00", 0), pod("b", "True", "02:00", 0));
        assert_eq!(learned(&[&both, &[early.clone(), starting("b")], &[early.clone(), late.clone()]]), (Some(120), 2));
        assert_eq!(learned(&[&both, &[late.clone(), early.clone()]]), (Some(120), 2), "in whatever order they come");
        assert_eq!(learned(&[&both, &[early, late], &[]]), (Some(120), 2), "and stays when all are gone");
    }

    #[test]
    fn a_wait_for_room_is_no_warm_up() {
        let metadata = json!({"name": "a", "uid": "a", "creationTimestamp": "2026-01-01T08:00:00Z"});
        let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T10:00:00Z"}]);
        let pod: Pod = serde_json::from_value(json!({"metadata": metadata, "status": {"conditions": ready}})).unwrap();
        assert_eq!(learned(&[&[], &[Arc::new(KeptPod::keep(pod))]]), (None, 0));
    }

    #[test]
    fn another_target_begins_anew() {
        let mut warmup = Warmup::default();
        warmup.look("target", [starting("a")].iter());
        warmup.look("target", [pod("a", "True", "02:15", 0)].iter());
        warmup.look("other", [pod("b", "True", "01:00", 0)].iter());
        assert_eq!((warmup.last(), warmup.status()), (None, None));
    }

    #[test]
    fn what_the_status_kept_holds_until_a_newer_one_is_seen() {
        let object = |observed: i64| -> LLMScaler {
            let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "fleet"});
            let status = json!({"observedGeneration": observed, "warmup": {"seconds": 90, "samples": 4}});
            let spec = json!({"targetRef": target, "minReplicas": 1, "maxReplicas": 2});
            serde_json::from_value(json!({"metadata": {"generation": 3}, "spec": spec, "status": status})).unwrap()
        };
        let mut warmup = Warmup::of(&object(3));
        warmup.look("target", [starting("a")].iter());
        assert_eq!(warmup.last(), Some(Duration::from_secs(90)));
        warmup.look("target", [pod("a", "True", "02:15", 0)].iter());
        assert_eq!(warmup.status(), Some(WarmupStatus { seconds: 135, samples: 5 }));
        assert_eq!(Warmup::of(&object(2)).last(), None, "its target may be another one by now");
    }
}
