//! The policy as the sandbox's own kubelet asks for it: which stage of its life a pod is in.

use super::{Known, Policy, Step, step};
use crate::pod_status;
use llmscaler_sandbox::{Life, PodView, Stage};
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// The sandbox asks about each pod many times a second. One that it has not asked about for so long is gone, in whatever way.
const GONE: Duration = Duration::from_secs(5);

/// Lets pods live as the policy of the moment says.
pub(super) fn life(policy: watch::Receiver<Policy>) -> Life {
    // With when it was asked about last.
    let mut known: HashMap<String, (Known, Instant)> = HashMap::new();
    Box::new(move |pod| {
        known.retain(|_, (_, asked)| asked.elapsed() < GONE);
        stage(&mut known, &policy.borrow().clone(), pod)
    })
}

fn stage(known: &mut HashMap<String, (Known, Instant)>, policy: &Policy, view: PodView<'_>) -> Stage {
    let now = Instant::now();
    let (pod, asked) = known.entry(view.uid().to_owned()).or_insert_with(|| (Known::new(), now));
    pod.becomes(serde_json::from_value(view.object.clone()).unwrap());
    *asked = now;
    let room = known.values().filter(|(pod, _)| pod.bound.is_some()).count() < policy.capacity;
    let Some((pod, _)) = known.get_mut(view.uid()) else { unreachable!("it was entered above") };
    let mut next = step(pod, policy, room, now);
    if next == Step::Bind {
        pod.bound = Some(now);
        next = step(pod, policy, room, now);
    }
    let running = |ready| Stage::Running { ip: IpAddr::V4(pod.address), port: None, ready };
    match next {
        Step::Remove => {
            known.remove(view.uid());
            Stage::Ended
        }
        _ if pod.bound.is_none() => Stage::Unschedulable("0/1 nodes are available".to_owned()),
        Step::Report { ready } => running(ready),
        Step::Bind | Step::ReportUnschedulable | Step::Wait(_) | Step::Nothing => running(pod_status::is_true(&pod.pod, "Ready")),
    }
}
