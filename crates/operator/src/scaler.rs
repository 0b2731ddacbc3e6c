//! The task of one scaler: when to sync, and what an edit of the object changes.

mod current;
mod deferral;
mod failed;
#[cfg(test)]
mod tests;
mod walk;

use std::sync::Arc;

use kube::ResourceExt;
use kube::runtime::events::EventType;
use llmscaler_api::{LLMScaler, Scaler};
use llmscaler_engine::Memory;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{Instrument, debug, info_span};

use self::current::Current;
use self::deferral::{Awaited, Versions};
use self::failed::Failed;
use crate::actuation::HPA_IN_STEP;
use crate::apply::OwnHpa;
use crate::context::Context;
use crate::dereference::Unreachable;
use crate::owners::{Contest, written};
use crate::report::{Reporter, Trouble};
use crate::warmup::Warmup;

/// Runs one scaler until its task is dropped. `first` is when its first sync is due; `object` carries each new generation.
pub(crate) async fn run(context: Arc<Context>, mut object: watch::Receiver<Arc<LLMScaler>>, first: Instant) {
    let scaler = object.borrow().clone();
    let (namespace, name) = (scaler.namespace().unwrap_or_default(), scaler.name_any());
    let span = info_span!("scaler", namespace, name);
    async move {
        let mut task = Task::new(context, &scaler, namespace, name);
        let mut due = first;
        loop {
            let newest = object.borrow_and_update().clone();
            task.refresh(&newest).await;
            if task.current.is_none() {
                // An invalid object waits for its next edit.
                if object.changed().await.is_err() {
                    return;
                }
                due = Instant::now();
                continue;
            }
            tokio::select! {
                () = tokio::time::sleep_until(due) => due = task.sync(due).await,
                edited = object.changed() => {
                    if edited.is_err() {
                        return;
                    }
                    due = Instant::now();
                }
                () = task.awaited_change() => match task.catch_up().await {
                    Ok(true) => due = Instant::now(),
                    Ok(false) => {}
                    Err(failed) => due = task.try_again_after(failed).await,
                },
            }
        }
    }
    .instrument(span)
    .await;
}

/// What the task knows.
struct Task {
    context: Arc<Context>,
    namespace: String,
    name: String,
    object: Arc<LLMScaler>,
    /// `None` while the object cannot be used.
    current: Option<Current>,
    memory: Memory,
    warmup: Warmup,
    contest: Contest,
    /// The HPA that stands in for the operator, if one does.
    own_hpa: OwnHpa,
    reporter: Reporter,
    /// Whether the last write was given up because the scaler had been edited, which its watch did not show.
    outdated: bool,
    /// What a watch event may change.
    awaited: Awaited,
    /// Where the watches stood before the last look.
    versions: Option<Versions>,
}

impl Task {
    fn new(context: Arc<Context>, object: &Arc<LLMScaler>, namespace: String, name: String) -> Self {
        let reporter = Reporter::new(object);
        // What the status kept survives a restart; windows start anew, which never shrinks a fleet early.
        let memory = Memory { last_active_at: reporter.last_active(context.clock.now()), ..Memory::default() };
        let contest = reporter.taker().map(|taker| Contest::resume(taker, context.clock.now())).unwrap_or_default();
        let (warmup, object) = (Warmup::of(object), object.clone());
        let (current, awaited, versions, own_hpa) = (None, Awaited::Nothing, None, OwnHpa::of(&object, HPA_IN_STEP));
        let outdated = false;
        Self { context, namespace, name, object, current, memory, warmup, contest, own_hpa, reporter, outdated, awaited, versions }
    }

    /// Takes over a new generation of the object.
    async fn refresh(&mut self, object: &Arc<LLMScaler>) {
        if self.current.is_some() && self.object.metadata.generation == object.metadata.generation {
            return;
        }
        self.object = object.clone();
        (self.awaited, self.outdated) = (Awaited::Nothing, false);
        let before = self.current.take();
        if before.is_some() {
            // Whoever edits the scaler may have settled it with whoever took its writes back.
            self.contest = Contest::default();
        }
        match self.object.parse() {
            Ok(scaler) => {
                self.hand_over(before.as_ref().map(|before| &before.scaler), Some(&scaler));
                if before.as_ref().is_some_and(|before| before.scaler.target != scaler.target) {
                    self.warmup = Warmup::default();
                    self.reporter.forget_warmup();
                }
                self.current = Some(Current::succeed(before, scaler, &self.namespace, self.context.clock));
                if object.spec.preemption.as_ref().is_some_and(|preemption| preemption.enable == Some(true)) {
                    let note = "spec.preemption is accepted for compatibility and does nothing; remove it";
                    self.reporter.event(&self.context, object, EventType::Warning, "PreemptionIgnored", "Parse", note).await;
                }
            }
            Err(invalid) => {
                self.hand_over(before.as_ref().map(|before| &before.scaler), None);
                self.reporter.trouble(&self.context, &self.object, Trouble::InvalidSpec, &invalid.to_string()).await;
            }
        }
    }

    /// Keeps the register of who writes which target.
    fn hand_over(&self, before: Option<&Scaler>, after: Option<&Scaler>) {
        let owners = &self.context.owners;
        if let Some(target) = before.and_then(written) {
            owners.remove(&self.namespace, &self.name, target);
        }
        if let Some(target) = after.and_then(written) {
            owners.add(&self.namespace, &self.name, target);
        }
    }

    /// One sync. Answers when the next one is due.
    async fn sync(&mut self, due: Instant) -> Instant {
        let (started, lateness) = (Instant::now(), due.elapsed());
        let Some(Current { scaler, .. }) = &self.current else { return due };
        let period = self.context.clock.lasts(scaler.spec.sync_period);
        let next = match self.walk(due).await {
            Ok(()) => {
                self.outdated = false;
                due + period
            }
            Err(failed) => self.try_again_after(failed).await,
        };
        self.context.metrics.sync(lateness, started.elapsed());
        // A steady rhythm; a sync that is late by more than its period does not try to make up for it.
        if next > Instant::now() { next } else { Instant::now() + period }
    }

    /// Tells what has failed. Answers when the next sync is due.
    async fn try_again_after(&mut self, failed: Failed) -> Instant {
        let (trouble, message) = failed.describe();
        debug!(%message, "Sync failed");
        // An edit in the middle of a sync is no trouble, and is followed by a sync as soon as the watch shows it.
        let expected = failed.is_outdated() && !std::mem::replace(&mut self.outdated, true);
        if !expected {
            self.reporter.trouble(&self.context, &self.object, trouble, &message).await;
        }
        let Some(current) = &mut self.current else { return Instant::now() };
        if failed.is_absence() {
            self.context.cluster.forget(&current.scaler.target);
            current.place = None;
        }
        if let Failed::Unreachable(Unreachable::Missing { .. }) = failed {
            self.awaited = Awaited::Target;
        }
        // From now on: an API server that has too much to do is left alone for so long.
        Instant::now() + self.context.clock.lasts(current.scaler.retry_period)
    }
}
