//! Stage *guard*: reasons to wait with a write.

use std::cmp::Reverse;
use std::time::Duration;

use crate::decide::Step;
use crate::wording::{are, counted, some_are};
use crate::{Bounds, Mode, Pod, Reason, Replicas, Rollout, Spec, Workload};

/// How long a surplus replica may take to become ready before scale-down no longer waits for it.
const STUCK_AFTER: Duration = Duration::from_secs(600);

/// What the guards make of a change from the current size to `paced`: the count that may be written, which is the current
/// size when a guard holds.
pub(crate) fn guard(spec: &Spec, workload: &Workload, paced: Replicas) -> Step {
    let current = workload.replicas;
    if paced == current {
        return Step::new(current, Reason::NoChange, "there is nothing to write");
    }
    let step = rollout(workload, paced)
        .or_else(|| if paced < current { settle(spec.bounds, workload, paced) } else { capacity(workload) })
        .unwrap_or_else(|| Step::new(paced, Reason::Settled, "nothing stands against the change"));
    if step.out == current {
        return step;
    }
    recommend_only(spec, workload, step.out).or_else(|| ownership(workload)).unwrap_or(step)
}

/// New pods have cold caches, which distorts the metrics and the choice of victims: wait for the rollout in both directions.
/// A rollout that has failed is not waited for.
fn rollout(workload: &Workload, paced: Replicas) -> Option<Step> {
    let Rollout::InProgress(why) = &workload.rollout else { return None };
    let current = workload.replicas;
    Some(Step::new(current, Reason::RolloutInProgress, format!("{paced} waits for the rollout of the target to finish: {why}")))
}

/// A fleet shrinks only when all of it serves. Replicas that have been stuck for long are removable all the same where they are the
/// first to go, and a fleet above its maximum is brought down to it whatever its state.
fn settle(bounds: Bounds, workload: &Workload, paced: Replicas) -> Option<Step> {
    let (current, ready) = (workload.replicas, workload.ready);
    if ready == current && workload.terminating == 0 {
        return None;
    }
    let stuck = stuck_that_go_first(workload).min(current.minus(ready.get()).get());
    let only_stuck = workload.terminating == 0 && ready < current && ready.plus(stuck) >= current;
    let removable = if only_stuck { stuck } else { 0 };
    let least = current.minus(removable);
    let least = if bounds.exceeded_by(current) { least.min(bounds.max) } else { least };
    let why = if workload.terminating > 0 {
        format!("{} {} still shutting down", counted(workload.terminating, "pod"), are(workload.terminating))
    } else if ready > current {
        format!("{} {} ready, {} more than it should have", counted(ready.get(), "replica"), are(ready.get()), ready.minus(current.get()))
    } else {
        format!("{} ready", some_are(ready.get(), current.get(), "replica"))
    };
    if least == current {
        return Some(Step::new(current, Reason::NotSettled, format!("{paced} waits until the fleet is settled: {why}")));
    }
    let out = paced.max(least);
    if out == paced {
        return None;
    }
    Some(Step::new(out, Reason::NotSettled, format!("{paced} is asked for, but the fleet keeps {out} until it is settled: {why}")))
}

/// How many stuck replicas a smaller size would remove, and no others. A workload that removes the highest ordinal first removes a
/// replica that serves before one that is stuck below it.
fn stuck_that_go_first(workload: &Workload) -> u32 {
    let mut live: Vec<&Pod> = workload.live_pods().collect();
    let stuck = if live.iter().any(|pod| pod.ordinal.is_some()) {
        live.sort_by_key(|pod| Reverse(pod.ordinal));
        live.iter().take_while(|pod| is_stuck(pod)).count()
    } else {
        live.iter().filter(|pod| is_stuck(pod)).count()
    };
    u32::try_from(stuck).unwrap_or(u32::MAX)
}

fn is_stuck(pod: &Pod) -> bool {
    !pod.ready && pod.unready_for > STUCK_AFTER
}

/// While the cluster has no room for what was asked for, asking for more helps nobody.
fn capacity(workload: &Workload) -> Option<Step> {
    let waiting = unschedulable(workload)?;
    Some(Step::new(workload.replicas, Reason::Unschedulable, format!("no more is asked for while {waiting}")))
}

/// The pods that find no node, in words; `None` when there are none.
pub(crate) fn unschedulable(workload: &Workload) -> Option<String> {
    let mut names = workload.live_pods().filter(|pod| pod.unschedulable).map(|pod| pod.name.as_str());
    let first = names.next()?;
    Some(match names.count() {
        0 => format!("pod {first} finds no node"),
        more => format!("pod {first} and {more} more find no node"),
    })
}

fn ownership(workload: &Workload) -> Option<Step> {
    let owner = workload.other_owner.as_ref()?;
    Some(Step::new(workload.replicas, Reason::TargetOwned, format!("the target is left alone: {owner}")))
}

/// Where somebody else scales the target, that is where the two differ.
fn recommend_only(spec: &Spec, workload: &Workload, count: Replicas) -> Option<Step> {
    if spec.mode != Mode::Recommend {
        return None;
    }
    let current = workload.replicas;
    let message = match &workload.other_owner {
        None => format!("mode Recommend: {count} in place of {current} is shown and not written"),
        Some(owner) => format!("mode Recommend: {count} in place of {current} is shown and not written, and {owner}"),
    };
    Some(Step::new(current, Reason::RecommendOnly, message))
}
