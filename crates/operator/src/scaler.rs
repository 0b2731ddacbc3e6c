//! The task of one scaler: when to sync, and the five steps of a sync.

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use kube::runtime::events::EventType;
use llmscaler_api::{LLMScaler, Scaler};
use llmscaler_engine::{Decision, Memory, Mode, Observation, Reason, Replicas, Stage, Time, Warmth, Workload, decide, reconsider};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{Instrument, debug, info, info_span};

use crate::actuation::{HPA_IN_STEP, by_hpa, feed, stand_in, zero_or_one};
use crate::apply::{Applied, HpaError, OwnHpa, WriteError, apply, clear_marks, remove_hpa};
use crate::context::Context;
use crate::dashboard::{Lateness, Synced};
use crate::dereference::{Place, Unreachable, View};
use crate::metrics::WriteOutcome;
use crate::observe::{Observed, Observer};
use crate::owners::{Changes, Contest, Rival, first_rival, written};
use crate::report::{Conclusion, Reporter, Trouble};
use crate::target::Target;
use crate::warmup::Warmup;
use crate::watch::change;

/// Watch events come in bursts, and those of a whole namespace; a deferred write looks again at most this often.
const SETTLE: Duration = Duration::from_millis(500);

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
    warmup: Warmup,
    contest: Contest,
    /// The HPA that stands in for the operator, if one does.
    own_hpa: OwnHpa,
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
    /// The size of the target when it was last written or looked at.
    size: Option<Replicas>,
}

/// What a watch event may change before the next sync.
enum Awaited {
    Nothing,
    /// The target is not there yet.
    Target,
    /// A guard kept back the write of this decision.
    Release(Box<Deferred>),
}

/// A decision that a guard kept back, with the share of its readings that the write needs, and what was seen when it was.
struct Deferred {
    decision: Decision,
    warmth: Warmth,
    view: View,
    other_owner: Option<String>,
    lateness: Lateness,
}

impl Deferred {
    /// Whether it is another owner of the size that keeps the write back.
    fn waits_for_owner(&self) -> bool {
        self.decision.reason == Reason::TargetOwned
    }
}

/// Where the watches stood at a look, so that no change after it is missed.
struct Versions {
    targets: watch::Receiver<u64>,
    pods: watch::Receiver<u64>,
    owners: watch::Receiver<u64>,
    autoscalers: Changes,
}

impl Versions {
    fn of(context: &Context, place: &Place) -> Self {
        let (targets, pods) = (place.targets.version(), place.pods.pods.version());
        Self { targets, pods, owners: context.owners.version(), autoscalers: place.autoscalers.version() }
    }
}

/// Who else writes the size of the target, in words.
fn other_owner(context: &Context, place: &Place, name: &str, mode: Mode, target: &Target, contest: &Contest) -> Option<String> {
    let Place { namespace, target: named, autoscalers, .. } = place;
    let rival = first_rival(&context.owners, autoscalers, namespace, name, target, named)
        .or_else(|| contest.taker().map(|taker| Rival::taker(taker, target, named)))?;
    Some(rival.words(mode))
}

/// Why a sync came to nothing.
enum Failed {
    Unreachable(Unreachable),
    Write(WriteError),
    Hpa(HpaError),
}

impl From<Unreachable> for Failed {
    fn from(error: Unreachable) -> Self {
        Self::Unreachable(error)
    }
}

impl Failed {
    /// Whether the API server may serve the kind in another way by now.
    fn is_absence(&self) -> bool {
        match self {
            Self::Unreachable(error) => error.is_absence(),
            Self::Write(error) => error.is_absence(),
            Self::Hpa(_) => false,
        }
    }

    fn describe(&self) -> (Trouble, String) {
        match self {
            Self::Unreachable(error @ Unreachable::Missing { .. }) => (Trouble::TargetMissing, error.to_string()),
            Self::Unreachable(error) => (Trouble::FailedGetScale, error.to_string()),
            Self::Write(error) => (Trouble::FailedUpdateScale, error.to_string()),
            Self::Hpa(error) => (Trouble::FailedUpdateScale, error.to_string()),
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
        let contest = reporter.taker().map(|taker| Contest::resume(taker, context.clock.now())).unwrap_or_default();
        let (warmup, object) = (Warmup::of(object), object.clone());
        let (current, awaited, versions, own_hpa) = (None, Awaited::Nothing, None, OwnHpa::of(&object, HPA_IN_STEP));
        Self { context, namespace, name, object, current, memory, warmup, contest, own_hpa, reporter, awaited, versions }
    }

    /// Takes over a new generation of the object.
    async fn refresh(&mut self, object: &Arc<LLMScaler>) {
        if self.current.is_some() && self.object.metadata.generation == object.metadata.generation {
            return;
        }
        self.object = object.clone();
        self.awaited = Awaited::Nothing;
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
        let (observer, place, size) = match before {
            Some(before) if before.scaler.target == scaler.target => (Some(before.observer), before.place, before.size),
            Some(before) => (Some(before.observer), None, None),
            None => (None, None, None),
        };
        Current { observer: Observer::new(&scaler, &self.namespace, self.context.clock, observer), scaler, place, size }
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
        let (period, retry) = (scaler.spec.sync_period, scaler.retry_period);
        let wait = match self.walk(due).await {
            Ok(()) => period,
            Err(failed) => {
                let (trouble, message) = failed.describe();
                debug!(%message, "Sync failed");
                self.reporter.trouble(&self.context, &self.object, trouble, &message).await;
                if failed.is_absence()
                    && let Some(current) = &mut self.current
                {
                    self.context.cluster.forget(&current.scaler.target);
                    current.place = None;
                }
                if let Failed::Unreachable(Unreachable::Missing { .. }) = failed {
                    self.awaited = Awaited::Target;
                }
                retry
            }
        };
        self.context.metrics.sync(lateness, started.elapsed());
        // A steady rhythm; a sync that is late by more than its period does not try to make up for it.
        let wait = self.context.clock.lasts(wait);
        let next = due + wait;
        if next > Instant::now() { next } else { Instant::now() + wait }
    }

    /// The five steps. The decision is taken as of the moment that the sync was due at: what happened eight periods of 15 s ago is
    /// then 120 s old, and not some milliseconds less or more.
    async fn walk(&mut self, due: Instant) -> Result<(), Failed> {
        let context = self.context.clone();
        let now = context.clock.at(due);
        self.awaited = Awaited::Nothing;

        // dereference
        let Some(current) = &mut self.current else { return Ok(()) };
        let place = current.place(&context, &self.namespace).await?;
        let Current { scaler, observer, size, .. } = current;
        self.versions = Some(Versions::of(&context, &place));
        let (mut view, mut replicas) = place.look(&context).await?;
        // Somebody has scaled the target, or its watch has fallen silent and shows it as it was before our last write: a dead connection
        // takes minutes to be noticed, in which a fleet would be held to be right that is not. The same goes for a watch that fails.
        if size.is_some_and(|known| known != replicas) || place.targets.failing().is_some() {
            (view, replicas, _) = place.look_live(&context).await?;
        }
        *size = Some(replicas);

        let by_hpa = by_hpa(scaler);
        if !by_hpa {
            // Before anything else is written: two would undo each other's work.
            remove_hpa(&context, &self.object, &mut self.own_hpa).await.map_err(Failed::Hpa)?;
        }

        // observe
        let pods: Vec<_> = view.pods.iter().map(|(pod, _)| pod.clone()).collect();
        let Observed { readings, traffic, problems } = observer.observe(&context, &self.name, &pods).await;
        // What an HPA of our own does to the size is no contest.
        if !by_hpa {
            self.contest.look(context.clock.now(), &view.target, replicas);
        }
        let other_owner = other_owner(&context, &place, &self.name, scaler.spec.mode, &view.target, &self.contest);
        // Sources may take their time, and pods go on meanwhile.
        let view = View { pods: place.pods(&view.target), ..view };
        self.warmup.look(&view.target.uid, view.pods.iter().map(|(pod, _)| pod));
        let warmup = self.warmup.last();
        let workload = Workload { warmup, ..view.workload(context.clock.timestamp(), replicas, other_owner.clone(), Warmth::NotAsked) };

        // decide
        let (spec, memory) = (&scaler.spec, std::mem::take(&mut self.memory));
        let mut seen = Observation { workload, readings, traffic };
        let judged = |decision| if by_hpa { zero_or_one(spec, decision) } else { decision };
        let mut decision = judged(decide(spec, &seen, &memory, now));
        if !by_hpa && decision.out_of(Stage::Pace) < replicas {
            seen.workload.warmth = observer.warmth(context.clock.now()).await;
            decision = decide(spec, &seen, &memory, now);
        }
        let warmth = std::mem::take(&mut seen.workload.warmth);
        let lateness = Lateness::of(seen.traffic.as_deref());

        if by_hpa {
            feed(&context, &self.object, scaler, &decision);
        }

        // apply
        clear_marks(&context, &place, &view, replicas, &decision.victims).await;
        let mut outcome = Ok(None);
        if decision.write.is_some() {
            let again = |workload| {
                seen.workload = Workload { warmup, ..workload };
                Some(judged(decide(spec, &seen, &memory, now)))
            };
            match apply(&context, &place, other_owner.clone(), &warmth, spec.sync_period, again).await {
                Ok(Some(Applied { decision: done, generation })) => {
                    if let Some(count) = done.write {
                        self.contest.wrote(context.clock.now(), &view.target, count, generation);
                    }
                    outcome = Ok(done.write);
                    decision = done;
                }
                Ok(None) => {}
                Err(error) => outcome = Err(error),
            }
        }

        self.reporter.reflection = match by_hpa {
            true => Some(stand_in(&context, &self.object, scaler, &mut self.own_hpa, &decision, other_owner.as_deref()).await),
            false => None,
        };

        // report
        self.reporter.problems(&context, &self.object, &problems).await;
        self.settle_accounts(Deferred { decision, warmth, view, other_owner, lateness }, outcome, now).await
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
            Awaited::Release(deferred) => deferred,
        };
        let context = self.context.clone();
        let Some(Current { scaler, place: Some(place), .. }) = &self.current else { return false };
        let (place, spec) = (place.clone(), &scaler.spec);
        self.versions = Some(Versions::of(&context, &place));
        let Some(view) = place.view() else {
            self.awaited = Awaited::Release(deferred);
            return false;
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
            self.awaited = Awaited::Release(Box::new(Deferred { view, other_owner, ..*deferred }));
            return false;
        }
        let Deferred { decision, warmth, lateness, .. } = *deferred;
        let again = |workload| reconsider(spec, &decision, &workload);
        match apply(&context, &place, other_owner.clone(), &warmth, spec.sync_period, again).await {
            Ok(Some(Applied { decision, generation })) => {
                let written = decision.write;
                if let Some(count) = written {
                    self.contest.wrote(context.clock.now(), &view.target, count, generation);
                }
                let done = Deferred { decision, warmth, view, other_owner, lateness };
                let _ = self.settle_accounts(done, Ok(written), context.clock.now()).await;
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

    /// Remembers and reports a decision, and what became of its write, which counts as made `at` this moment.
    async fn settle_accounts(&mut self, done: Deferred, outcome: Result<Option<Replicas>, WriteError>, at: Time) -> Result<(), Failed> {
        let decision = &done.decision;
        if let (Some(current), Ok(Some(count))) = (&mut self.current, &outcome) {
            current.size = Some(*count);
        }
        let Some(Current { scaler, .. }) = &self.current else { return Ok(()) };
        let context = &self.context;
        self.memory = decision.memory.clone();
        context.metrics.decision(&self.namespace, &self.name, &scaler.spec, decision);
        if let Some(history) = &context.history {
            let (spec, written, lateness) = (&scaler.spec, outcome.as_ref().ok().copied().flatten(), done.lateness);
            history.decided(&self.namespace, &self.name, &Synced { at, target: &scaler.target, spec, decision, written, lateness });
        }
        match outcome {
            Ok(written) => {
                if let Some(count) = written {
                    self.memory.record_write(&scaler.spec, at, decision.replicas, count);
                    context.metrics.write(&self.namespace, &self.name, WriteOutcome::Ok);
                }
                let scoped = self.current.as_ref().and_then(|current| current.observer.scoped.as_ref());
                let conclusion = Conclusion { decision, written, warmup: self.warmup.status(), scoped };
                let news = self.reporter.decision(context, &self.object, conclusion).await;
                if decision.deferred() && written.is_none() {
                    if news {
                        info!(reason = %decision.reason, "Deferring scaling: {}", decision.message);
                    }
                    self.awaited = Awaited::Release(Box::new(done));
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

#[cfg(test)]
mod tests {
    use llmscaler_engine::Reading;
    use serde_json::json;

    use super::*;
    use crate::fake_api::Fleet;
    use crate::target::Target;

    async fn task(context: Context) -> Task {
        let target = json!({"apiVersion": "example.com/v1", "kind": "Engine", "name": "fleet"});
        let metrics = json!([{"query": "queued", "target": "1", "metricType": "AverageValue"}]);
        let spec =
            json!({"targetRef": target, "minReplicas": 1, "maxReplicas": 9, "serverAddress": "http://127.0.0.1:1", "metrics": metrics});
        let object = json!({"metadata": {"name": "fleet", "namespace": "serving", "generation": 1}, "spec": spec});
        let object: Arc<LLMScaler> = Arc::new(serde_json::from_value(object).unwrap());
        let mut task = Task::new(Arc::new(context), &object, "serving".to_owned(), "fleet".to_owned());
        task.refresh(&object).await;
        task
    }

    /// The task waits with a write from 2 to 4 for a rollout that `view` shows.
    async fn deferred(task: &mut Task, view: impl FnOnce(View) -> View) {
        let context = task.context.clone();
        let place = task.current.as_mut().unwrap().place(&context, "serving").await.unwrap();
        let (now, _) = place.look(&context).await.unwrap();
        let view = view(now);
        let spec = &task.current.as_ref().unwrap().scaler.spec;
        let workload = view.workload(context.clock.timestamp(), Replicas::new(2), None, Warmth::NotAsked);
        let seen = Observation { workload, readings: vec![Reading::from_number(4.0)], traffic: None };
        let decision = decide(spec, &seen, &Memory::default(), context.clock.now());
        assert!(decision.deferred(), "{decision:?}");
        task.awaited = Awaited::Release(Box::new(Deferred {
            decision,
            warmth: Warmth::NotAsked,
            view,
            other_owner: None,
            lateness: Lateness::default(),
        }));
    }

    fn awaits_release(task: &Task) -> bool {
        matches!(task.awaited, Awaited::Release(_))
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_releases_nothing_asks_nobody() {
        let fleet = Fleet::new(2, true);
        let mut task = task(fleet.context()).await;
        deferred(&mut task, |view| view).await;
        fleet.asked("");
        assert!(!task.catch_up().await && awaits_release(&task));
        assert_eq!(fleet.asked(""), [""; 0], "an event about another target");
        deferred(&mut task, |view| View { target: Arc::new(Target::of(&serde_json::from_value(fleet.object()).unwrap())), ..view }).await;
        fleet.asked("");
        assert!(!task.catch_up().await && awaits_release(&task));
        assert_eq!(fleet.asked(""), [""; 0], "its own rollout goes on; the size is not asked for, though no watch shows it");
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_rollout_releases_the_write_after_a_live_look() {
        let fleet = Fleet::new(2, true);
        let rolling: Arc<Target> = Arc::new(Target::of(&serde_json::from_value(fleet.object()).unwrap()));
        let settled = Fleet::new(2, false);
        let mut task = task(settled.context()).await;
        deferred(&mut task, |view| View { target: rolling, ..view }).await;
        settled.asked("");
        assert!(!task.catch_up().await && !awaits_release(&task));
        let engine = "/apis/example.com/v1/namespaces/serving/engines/fleet";
        assert_eq!(settled.asked("engines"), [format!("GET {engine}"), format!("GET {engine}/scale"), format!("PATCH {engine}/scale")]);
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_write_that_another_scaler_keeps_back_hears_of_scalers() {
        let fleet = Fleet::new(2, true);
        let mut task = task(fleet.context()).await;
        deferred(&mut task, |view| view).await;
        let wakes = async |task: &mut Task| {
            let current = task.current.as_ref().unwrap();
            task.versions = Some(Versions::of(&task.context, current.place.as_ref().unwrap()));
            let context = task.context.clone();
            context.owners.add("serving", "another", &Fleet::target());
            tokio::time::timeout(Duration::from_secs(1), task.awaited_change()).await.is_ok()
        };
        assert!(!wakes(&mut task).await);
        let Awaited::Release(waiting) = &mut task.awaited else { panic!() };
        waiting.decision.reason = Reason::TargetOwned;
        assert!(wakes(&mut task).await);
    }

    #[tokio::test(start_paused = true)]
    async fn the_warm_up_of_another_target_is_not_told_even_while_that_one_is_missing() {
        let fleet = Fleet::new(2, false);
        let mut task = task(fleet.context()).await;
        let mut object = (*task.object).clone();
        object.status = serde_json::from_value(json!({"observedGeneration": 1, "warmup": {"seconds": 90, "samples": 4}})).unwrap();
        (task.warmup, task.reporter) = (Warmup::of(&object), Reporter::new(&object));
        task.sync(Instant::now()).await;
        assert_eq!(task.warmup.last(), Some(Duration::from_secs(90)));
        object.metadata.generation = Some(2);
        object.spec.target_ref.name = "other".to_owned();
        task.refresh(&Arc::new(object)).await;
        task.sync(Instant::now()).await;
        assert!(matches!(task.awaited, Awaited::Target));
        assert_eq!((task.warmup.last(), task.reporter.warmup()), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_size_that_is_not_as_it_was_left_is_looked_at_itself() {
        let fleet = Fleet::new(2, false);
        let mut task = task(fleet.context()).await;
        let (engine, scale) = ("GET /apis/example.com/v1/namespaces/serving/engines/fleet", "/scale");
        let watched = [format!("{engine}{scale}")];
        let itself = [format!("{engine}{scale}"), engine.to_owned(), format!("{engine}{scale}")];
        let looks = async |task: &mut Task| {
            fleet.asked("");
            task.sync(Instant::now()).await;
            fleet.asked("engines/fleet")
        };
        assert_eq!(looks(&mut task).await, watched);
        assert_eq!(looks(&mut task).await, watched);
        // As a silent watch does, it still shows 2.
        task.current.as_mut().unwrap().size = Some(Replicas::new(5));
        assert_eq!(looks(&mut task).await, itself);
        assert_eq!(looks(&mut task).await, watched);
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_lost_its_scale_subresource_is_looked_up_anew() {
        let fleet = Fleet::new(2, false);
        let mut task = task(fleet.context()).await;
        fleet.scale.lock().unwrap().0 = 404;
        for _ in 0..2 {
            task.sync(Instant::now()).await;
            let looked_up = fleet.asked("").into_iter().filter(|request| request == "GET /apis/example.com/v1").count();
            assert_eq!((looked_up, task.current.as_ref().unwrap().place.is_none()), (1, true));
        }
        fleet.scale.lock().unwrap().0 = 500;
        task.sync(Instant::now()).await;
        assert!(task.current.as_ref().unwrap().place.is_some(), "what fails may be there");
    }
}
