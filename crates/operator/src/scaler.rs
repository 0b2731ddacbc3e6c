//! The task of one scaler: when to sync, and the five steps of a sync.

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use kube::runtime::events::EventType;
use llmscaler_api::{LLMScaler, Scaler};
use llmscaler_engine::{Decision, Memory, Mode, Observation, Reading, Replicas, Stage, Warmth, Workload, decide, reconsider};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{Instrument, debug, info, info_span};

use crate::apply::{WriteError, apply, clear_marks};
use crate::context::Context;
use crate::dereference::{Place, Unreachable};
use crate::metrics::WriteOutcome;
use crate::observe::{Observed, Observer};
use crate::report::{Reporter, Trouble};

/// Watch events come in bursts; a deferred write looks again at most this often.
const SETTLE: Duration = Duration::from_millis(100);

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
                () = task.awaited_change() => {
                    if task.catch_up().await {
                        due = Instant::now();
                    }
                }
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
    reporter: Reporter,
    /// What a watch event may change.
    awaited: Awaited,
    /// Where the watches stood before the last look.
    versions: Option<Versions>,
}

/// A usable generation of the object.
struct Current {
    scaler: Scaler,
    observer: Observer,
    place: Option<Arc<Place>>,
}

/// What a watch event may change before the next sync.
enum Awaited {
    Nothing,
    /// The target is not there yet.
    Target,
    /// A guard kept back the write of this decision.
    Release(Box<Deferred>),
}

/// A decision that a guard kept back, with the share of its readings that the write needs.
struct Deferred {
    decision: Decision,
    warmth: Warmth,
}

/// Where the watches stood at a look, so that no change after it is missed.
struct Versions {
    targets: watch::Receiver<u64>,
    pods: watch::Receiver<u64>,
    owners: watch::Receiver<u64>,
}

impl Versions {
    fn of(context: &Context, place: &Place) -> Self {
        Self { targets: place.targets.version(), pods: place.pods.pods.version(), owners: context.owners.version() }
    }

    async fn changed(&mut self) {
        // A sender that is gone is a watch that has ended; nothing more comes from it.
        let change = async |version: &mut watch::Receiver<u64>| {
            if version.changed().await.is_err() {
                std::future::pending().await
            }
        };
        tokio::select! {
            () = change(&mut self.targets) => {}
            () = change(&mut self.pods) => {}
            () = change(&mut self.owners) => {}
        }
    }
}

/// Why a sync came to nothing.
enum Failed {
    Unreachable(Unreachable),
    Write(WriteError),
}

impl From<Unreachable> for Failed {
    fn from(error: Unreachable) -> Self {
        Self::Unreachable(error)
    }
}

impl Failed {
    fn describe(&self) -> (Trouble, String) {
        match self {
            Self::Unreachable(error) => (Trouble::FailedGetScale, error.to_string()),
            Self::Write(error) => (Trouble::FailedUpdateScale, error.to_string()),
        }
    }
}

impl Current {
    /// The target's place, found once for each generation of the object.
    async fn place(&mut self, context: &Context, namespace: &str) -> Result<Arc<Place>, Unreachable> {
        if let Some(place) = &self.place {
            return Ok(place.clone());
        }
        let place = Arc::new(Place::find(&context.cluster, namespace, &self.scaler.target).await?);
        self.place = Some(place.clone());
        Ok(place)
    }
}

impl Task {
    fn new(context: Arc<Context>, object: &Arc<LLMScaler>, namespace: String, name: String) -> Self {
        let reporter = Reporter::new(object);
        // What the status kept survives a restart; windows start anew, which never shrinks a fleet early.
        let memory = Memory { last_active_at: reporter.last_active(context.clock.now()), ..Memory::default() };
        let object = object.clone();
        Self { context, namespace, name, object, current: None, memory, reporter, awaited: Awaited::Nothing, versions: None }
    }

    /// Takes over a new generation of the object.
    async fn refresh(&mut self, object: &Arc<LLMScaler>) {
        if self.current.is_some() && self.object.metadata.generation == object.metadata.generation {
            return;
        }
        self.object = object.clone();
        self.awaited = Awaited::Nothing;
        let before = self.current.take();
        match self.object.parse() {
            Ok(scaler) => {
                self.hand_over(before.as_ref().map(|before| &before.scaler), Some(&scaler));
                self.current = Some(self.succeed(before, scaler));
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

    /// The next generation, with what goes on from the one before: the watches on an unchanged target, and what was read of pages.
    fn succeed(&self, before: Option<Current>, scaler: Scaler) -> Current {
        let (observer, place) = match before {
            Some(before) => (Some(before.observer), before.place.filter(|_| before.scaler.target == scaler.target)),
            None => (None, None),
        };
        Current { observer: Observer::new(&scaler, &self.namespace, observer), scaler, place }
    }

    /// Keeps the register of who writes which target.
    fn hand_over(&self, before: Option<&Scaler>, after: Option<&Scaler>) {
        let owners = &self.context.owners;
        let writes = |scaler: &&Scaler| scaler.spec.mode == Mode::Auto;
        if let Some(scaler) = before.filter(writes) {
            owners.remove(&self.namespace, &self.name, &scaler.target);
        }
        if let Some(scaler) = after.filter(writes) {
            owners.add(&self.namespace, &self.name, &scaler.target);
        }
    }

    /// One sync. Answers when the next one is due.
    async fn sync(&mut self, due: Instant) -> Instant {
        let (started, lateness) = (Instant::now(), due.elapsed());
        let Some(Current { scaler, .. }) = &self.current else { return due };
        let (period, retry) = (scaler.spec.sync_period, scaler.retry_period);
        let wait = match self.walk().await {
            Ok(()) => period,
            Err(failed) => {
                let (trouble, message) = failed.describe();
                debug!(%message, "Sync failed");
                self.reporter.trouble(&self.context, &self.object, trouble, &message).await;
                if let Failed::Unreachable(Unreachable::Missing { .. }) = failed {
                    self.awaited = Awaited::Target;
                }
                retry
            }
        };
        self.context.metrics.sync(lateness, started.elapsed());
        // A steady rhythm; a sync that is late by more than its period does not try to make up for it.
        let next = due + wait;
        if next > Instant::now() { next } else { Instant::now() + wait }
    }

    /// The five steps.
    async fn walk(&mut self) -> Result<(), Failed> {
        let context = self.context.clone();
        let now = context.clock.now();
        self.awaited = Awaited::Nothing;

        // dereference
        let Some(current) = &mut self.current else { return Ok(()) };
        let place = current.place(&context, &self.namespace).await?;
        let Current { scaler, observer, .. } = current;
        self.versions = Some(Versions::of(&context, &place));
        let (target, replicas) = place.look(&context).await?;

        // observe
        let pods: Vec<_> = place.pods(&target).into_iter().map(|(pod, _)| pod).collect();
        let Observed { readings, problems } = observer.observe(&context, &self.name, &pods).await;
        let other_owner = context.owners.others(&self.namespace, &self.name, &scaler.target);
        let mut workload = place.workload(&target, replicas, other_owner.clone(), Warmth::NotAsked);

        // decide
        let spec = &scaler.spec;
        let memory = std::mem::take(&mut self.memory);
        let look = |workload: &Workload, readings: &[Reading]| {
            decide(spec, &Observation { workload: workload.clone(), readings: readings.to_vec() }, &memory, now)
        };
        let mut decision = look(&workload, &readings);
        if decision.out_of(Stage::Pace) < replicas {
            workload.warmth = observer.warmth(now).await;
            decision = look(&workload, &readings);
        }
        let warmth = std::mem::take(&mut workload.warmth);

        // apply
        clear_marks(&context, &place, &target, replicas, &decision.victims).await;
        let (decision, outcome) = match decision.write {
            None => (decision, Ok(None)),
            Some(_) => {
                let again = |workload: &Workload| Some(look(workload, &readings));
                match apply(&context, &place, other_owner, &warmth, again).await {
                    Ok(Some(done)) => {
                        let written = done.write;
                        (done, Ok(written))
                    }
                    Ok(None) => (decision, Ok(None)),
                    Err(error) => (decision, Err(error)),
                }
            }
        };

        // report
        self.reporter.problems(&context, &self.object, &problems).await;
        self.settle_accounts(decision, warmth, outcome).await
    }

    /// A watch event has come: looks whether it releases a deferred write. Answers whether a sync is due at once.
    async fn catch_up(&mut self) -> bool {
        let deferred = match std::mem::replace(&mut self.awaited, Awaited::Nothing) {
            Awaited::Nothing => return false,
            Awaited::Target => {
                let found = self.current.as_ref().and_then(|current| {
                    let place = current.place.as_ref()?;
                    place.targets.get(&place.target.name)
                });
                if found.is_none() {
                    self.awaited = Awaited::Target;
                }
                return found.is_some();
            }
            Awaited::Release(deferred) => *deferred,
        };
        let context = self.context.clone();
        let Some(Current { scaler, place: Some(place), .. }) = &self.current else { return false };
        let place = place.clone();
        self.versions = Some(Versions::of(&context, &place));
        let other_owner = context.owners.others(&self.namespace, &self.name, &scaler.target);
        let spec = &scaler.spec;
        // The watch answers first, at no cost; only when it would release the write is the target itself asked.
        let released = match place.look(&context).await {
            Ok((target, replicas)) => {
                let workload = place.workload(&target, replicas, other_owner.clone(), deferred.warmth.clone());
                reconsider(spec, &deferred.decision, &workload)
            }
            Err(_) => None,
        };
        let Some(_) = released.filter(|decision| decision.write.is_some()) else {
            self.awaited = Awaited::Release(Box::new(deferred));
            return false;
        };
        let again = |workload: &Workload| reconsider(spec, &deferred.decision, workload);
        match apply(&context, &place, other_owner, &deferred.warmth, again).await {
            Ok(Some(decision)) => {
                let written = decision.write;
                let _ = self.settle_accounts(decision, deferred.warmth, Ok(written)).await;
            }
            // Another size by now: the next sync decides anew.
            Ok(None) => {}
            Err(error) => {
                context.metrics.write(&self.namespace, &self.name, error.outcome());
                debug!(%error, "A deferred write failed; the next sync decides anew");
            }
        }
        false
    }

    /// Remembers and reports a decision, and what became of its write.
    async fn settle_accounts(
        &mut self,
        decision: Decision,
        warmth: Warmth,
        outcome: Result<Option<Replicas>, WriteError>,
    ) -> Result<(), Failed> {
        let Some(Current { scaler, .. }) = &self.current else { return Ok(()) };
        let context = &self.context;
        self.memory = decision.memory.clone();
        context.metrics.decision(&self.namespace, &self.name, &decision);
        match outcome {
            Ok(written) => {
                if let Some(count) = written {
                    self.memory.record_write(&scaler.spec, context.clock.now(), decision.replicas, count);
                    context.metrics.write(&self.namespace, &self.name, WriteOutcome::Ok);
                }
                let scoped = self.current.as_ref().and_then(|current| current.observer.scoped.as_ref());
                let news = self.reporter.decision(context, &self.object, &decision, written, scoped).await;
                if decision.deferred() && written.is_none() {
                    if news {
                        info!(reason = %decision.reason, "Deferring scaling: {}", decision.message);
                    }
                    self.awaited = Awaited::Release(Box::new(Deferred { decision, warmth }));
                }
                Ok(())
            }
            Err(error) => {
                context.metrics.write(&self.namespace, &self.name, error.outcome());
                Err(Failed::Write(error))
            }
        }
    }

    /// Resolves when something has changed that what is awaited may depend on.
    async fn awaited_change(&mut self) {
        match (&self.awaited, &mut self.versions) {
            (Awaited::Target | Awaited::Release(_), Some(versions)) => versions.changed().await,
            _ => std::future::pending().await,
        }
        tokio::time::sleep(SETTLE).await;
    }
}
