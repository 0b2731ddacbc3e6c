//! What is waited for between two syncs: a target that is to appear, or what a guard kept a write back for.

use std::time::Duration;

use llmscaler_engine::{Decision, Reason, Warmth, reconsider};
use tokio::sync::watch;

use super::failed::Failed;
use super::walk::other_owner;
use super::{Current, Task};
use crate::apply::{Applied, Order, apply};
use crate::context::Context;
use crate::dashboard::Lateness;
use crate::dereference::{Place, View};
use crate::owners::Changes;
use crate::watch::change;

/// Watch events come in bursts, and those of a whole namespace; a deferred write looks again at most this often.
const SETTLE: Duration = Duration::from_millis(500);

/// What a watch event may change before the next sync.
pub(super) enum Awaited {
    Nothing,
    /// The target is not there yet.
    Target,
    /// A guard kept back the write of this decision.
    Release(Box<Decided>),
}

/// A decision, with the share of its readings that a write needs, and what was seen when it was taken.
pub(super) struct Decided {
    pub decision: Decision,
    pub warmth: Warmth,
    pub view: View,
    pub other_owner: Option<String>,
    pub lateness: Lateness,
}

impl Decided {
    /// Whether it is another owner of the size that keeps the write back.
    fn waits_for_owner(&self) -> bool {
        self.decision.reason == Reason::TargetOwned
    }
}

/// Where the watches stood at a look, so that no change after it is missed.
pub(super) struct Versions {
    targets: watch::Receiver<u64>,
    pods: watch::Receiver<u64>,
    owners: watch::Receiver<u64>,
    autoscalers: Changes,
}

impl Versions {
    pub(super) fn of(context: &Context, place: &Place) -> Self {
        let (targets, pods) = (place.targets.version(), place.pods.pods.version());
        Self { targets, pods, owners: context.owners.version(), autoscalers: place.autoscalers.version() }
    }
}

impl Task {
    /// A watch event has come: looks whether it releases a deferred write. Answers whether a sync is due at once.
    pub(super) async fn catch_up(&mut self) -> Result<bool, Failed> {
        let deferred = match std::mem::replace(&mut self.awaited, Awaited::Nothing) {
            Awaited::Nothing => return Ok(false),
            Awaited::Target => {
                let found = self.current.as_ref().and_then(|current| {
                    let place = current.place.as_ref()?;
                    place.targets.get(&place.target.name)
                });
                if found.is_none() {
                    self.awaited = Awaited::Target;
                }
                return Ok(found.is_some());
            }
            Awaited::Release(deferred) => deferred,
        };
        let context = self.context.clone();
        let Some(Current { scaler, place: Some(place), .. }) = &self.current else { return Ok(false) };
        let (place, spec) = (place.clone(), &scaler.spec);
        self.versions = Some(Versions::of(&context, &place));
        let Some(view) = place.view() else {
            self.awaited = Awaited::Release(deferred);
            return Ok(false);
        };
        let other_owner = other_owner(&context, &place, &self.name, spec.mode, &view.target, &self.contest);
        // What the watches show costs nothing, and most events are about other targets. Only when it would release the write is the
        // target itself asked; that it has another size by now, where the watch does not show it, is seen then.
        let news = !view.is_same(&deferred.view) || other_owner != deferred.other_owner;
        let released = news && {
            let replicas = view.target.replicas.unwrap_or(deferred.decision.replicas);
            let workload = view.workload(context.clock.timestamp(), replicas, other_owner.clone(), deferred.warmth.clone());
            reconsider(spec, &deferred.decision, &workload).is_some_and(|decision| decision.write.is_some())
        };
        if !released {
            self.awaited = Awaited::Release(Box::new(Decided { view, other_owner, ..*deferred }));
            return Ok(false);
        }
        let Decided { decision, warmth, lateness, .. } = *deferred;
        let again = |workload| reconsider(spec, &decision, &workload);
        let owner = other_owner.as_deref();
        let order = Order { object: &self.object, place: &place, other_owner: owner, warmth: &warmth, patience: spec.sync_period };
        match apply(&context, order, again).await {
            Ok(Some(Applied { decision, generation })) => {
                let written = decision.write;
                if let Some(count) = written {
                    self.contest.wrote(context.clock.now(), &view.target, count, generation);
                }
                let done = Decided { decision, warmth, view, other_owner, lateness };
                self.settle_accounts(done, Ok(written), context.clock.now()).await?;
            }
            // Another size by now: the next sync decides anew.
            Ok(None) => {}
            Err(error) => {
                context.metrics.write(&self.namespace, &self.name, error.outcome());
                return Err(Failed::Write(error));
            }
        }
        Ok(false)
    }

    /// Resolves when something has changed that what is awaited may depend on.
    pub(super) async fn awaited_change(&mut self) {
        match (&self.awaited, &mut self.versions) {
            (Awaited::Target, Some(Versions { targets, .. })) => change(targets).await,
            (Awaited::Release(deferred), Some(Versions { targets, pods, owners, autoscalers })) => {
                tokio::select! {
                    () = change(targets) => {}
                    () = change(pods) => {}
                    () = change(owners), if deferred.waits_for_owner() => {}
                    () = autoscalers.next(), if deferred.waits_for_owner() => {}
                }
            }
            _ => std::future::pending().await,
        }
        tokio::time::sleep(self.context.clock.lasts(SETTLE)).await;
    }
}
