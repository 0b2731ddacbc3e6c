//! Watches the LLMScalers and keeps one task for each.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::core::DeserializeGuard;
use kube::core::error_boundary::InvalidObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource, ResourceExt};
use llmscaler_api::LLMScaler;
use tokio::sync::{Semaphore, watch};
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::Instant;
use tracing::{error, info, warn};

use crate::context::Context;
use crate::health::Part;
use crate::metrics::Watched;
use crate::watch::proves_success;
use crate::{report, scaler, words};

/// How often the loop shows that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// How long a task that has crashed stays away.
const CRASH_PAUSE: Duration = Duration::from_secs(30);

/// How many objects that cannot be read are reported on at the same time.
const REPORTS_AT_ONCE: usize = 4;

/// Namespace and name.
type Key = (String, String);

/// Watches the LLMScalers and keeps one task for each. All tasks end with it.
pub(crate) struct Supervisor {
    context: Arc<Context>,
    /// The only namespace to look at, if it is not all of them.
    namespace: Option<String>,
    tasks: JoinSet<()>,
    running: HashMap<Key, Running>,
    by_task: HashMap<Id, Key>,
    /// The tasks that say on an object that it cannot be read, the last one of each.
    reports: HashMap<Key, AbortHandle>,
    /// How many of those may be at work.
    turns: Arc<Semaphore>,
    /// The objects of a list under way.
    listing: Option<HashMap<Key, DeserializeGuard<LLMScaler>>>,
    /// Whether the first list is complete: what comes later is new.
    listed: bool,
}

struct Running {
    object: watch::Sender<Arc<LLMScaler>>,
    task: AbortHandle,
}

impl Supervisor {
    pub(crate) fn new(context: Context, namespace: Option<String>) -> Self {
        Self {
            context: Arc::new(context),
            namespace,
            tasks: JoinSet::new(),
            running: HashMap::new(),
            by_task: HashMap::new(),
            reports: HashMap::new(),
            turns: Arc::new(Semaphore::new(REPORTS_AT_ONCE)),
            listing: None,
            listed: false,
        }
    }

    /// Runs until the watch ends, which it does not by itself.
    pub(crate) async fn run(&mut self, part: &Part) {
        let client = self.context.client.clone();
        let api: Api<DeserializeGuard<LLMScaler>> = match &self.namespace {
            Some(namespace) => Api::namespaced(client, namespace),
            None => Api::all(client),
        };
        let mut events = std::pin::pin!(watcher(api, watcher::Config::default()).default_backoff());
        let watched = Watched::new(&LLMScaler::plural(&()), self.namespace.as_deref().unwrap_or_default());
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        loop {
            tokio::select! {
                _ = heartbeat.tick() => {
                    part.beat();
                    self.context.metrics.watch(&watched, part.is_failing());
                }
                event = events.next() => match event {
                    None => return,
                    Some(Ok(event)) => {
                        if proves_success(&event) {
                            part.worked();
                        }
                        let listed = self.take(event);
                        if listed {
                            part.ready();
                        }
                    }
                    Some(Err(error)) => {
                        let error = words::of_watch(&error);
                        if part.failed(error.clone()) {
                            warn!(error, "The watch of LLMScalers was interrupted; trying on");
                        }
                    }
                },
                Some(ended) = self.tasks.join_next_with_id() => {
                    let (id, crashed) = match &ended {
                        Ok((id, ())) => (*id, None),
                        Err(error) => (error.id(), error.is_panic().then(|| error.to_string())),
                    };
                    self.ended(id, crashed);
                }
            }
        }
    }

    /// Ends all tasks, and returns when they have ended.
    pub(crate) async fn stop(&mut self) {
        self.tasks.shutdown().await;
    }

    /// Takes in an event. Answers whether the scalers have been listed.
    fn take(&mut self, event: Event<DeserializeGuard<LLMScaler>>) -> bool {
        match event {
            Event::Init => self.listing = Some(HashMap::new()),
            Event::InitApply(object) => {
                if let Some(listing) = &mut self.listing {
                    listing.insert(key(&object), object);
                }
            }
            Event::InitDone => {
                let listing = self.listing.take().unwrap_or_default();
                let gone: Vec<Key> = self.running.keys().filter(|key| !listing.contains_key(*key)).cloned().collect();
                for key in gone {
                    self.forget(&key);
                }
                self.reports.retain(|key, report| {
                    let listed = listing.contains_key(key);
                    if !listed {
                        report.abort();
                        if let Some(history) = &self.context.history {
                            history.forget(&key.0, &key.1);
                        }
                    }
                    listed
                });
                for (key, object) in listing {
                    self.apply(key, object);
                }
                if !std::mem::replace(&mut self.listed, true) {
                    info!(scalers = self.running.len(), "Scaling");
                }
            }
            Event::Apply(object) => self.apply(key(&object), object),
            Event::Delete(object) => self.forget(&key(&object)),
        }
        self.context.metrics.scalers(self.running.len());
        self.listed
    }

    fn apply(&mut self, key: Key, object: DeserializeGuard<LLMScaler>) {
        let object = match object.0 {
            Ok(object) => Arc::new(object),
            Err(invalid) => {
                self.forget(&key);
                self.report(key, invalid);
                return;
            }
        };
        if let Some(report) = self.reports.remove(&key) {
            report.abort();
        }
        if let Some(running) = self.running.get(&key) {
            if running.object.borrow().metadata.uid == object.metadata.uid {
                // Our own status writes come back as events, too; only a new generation is news to the task.
                running.object.send_if_modified(|known| {
                    let newer = known.metadata.generation != object.metadata.generation;
                    *known = object;
                    newer
                });
                return;
            }
            // Deleted and created anew between two looks.
            self.forget(&key);
        }
        let first = if self.listed { Instant::now() } else { Instant::now() + self.context.clock.lasts(offset(&object)) };
        self.start(key, object, first);
    }

    /// Says on the object that it cannot be read. The API server may be slow to take it, which is nobody else's loss.
    fn report(&mut self, key: Key, invalid: InvalidObject) {
        let (context, turn) = (self.context.clone(), self.turns.clone());
        let report = self.tasks.spawn(async move {
            let _turn = turn.acquire_owned().await;
            report::unreadable(&context, &invalid).await;
        });
        self.reports.insert(key, report);
    }

    fn start(&mut self, key: Key, object: Arc<LLMScaler>, first: Instant) {
        let (sender, receiver) = watch::channel(object);
        let task = self.tasks.spawn(scaler::run(self.context.clone(), receiver, first));
        self.by_task.insert(task.id(), key.clone());
        self.running.insert(key, Running { object: sender, task });
    }

    fn forget(&mut self, key: &Key) {
        if let Some(report) = self.reports.remove(key) {
            report.abort();
        }
        if let Some(history) = &self.context.history {
            history.forget(&key.0, &key.1);
        }
        let Some(running) = self.running.remove(key) else { return };
        running.task.abort();
        self.context.owners.forget(&key.0, &key.1);
        self.context.metrics.forget(&key.0, &key.1);
        if let Some(external) = &self.context.external_metrics {
            external.published.forget(&key.0, &key.1);
        }
    }

    /// A task does not end by itself. One that has crashed is started again, after a pause and without its memory.
    fn ended(&mut self, id: Id, crashed: Option<String>) {
        let Some(key) = self.by_task.remove(&id) else { return };
        if !self.running.contains_key(&key) {
            // It may have taken a target or counted something between being told to end and ending.
            self.context.owners.forget(&key.0, &key.1);
            self.context.metrics.forget(&key.0, &key.1);
            // An object that cannot be read has no task, and is told of all the same.
            if !self.reports.contains_key(&key)
                && let Some(history) = &self.context.history
            {
                history.forget(&key.0, &key.1);
            }
        }
        let Some(why) = crashed else { return };
        if let Some(running) = self.running.remove(&key) {
            error!(namespace = key.0, name = key.1, error = why, "A scaler's task crashed; it starts again in {} s", CRASH_PAUSE.as_secs());
            let object = running.object.borrow().clone();
            self.start(key, object, Instant::now() + CRASH_PAUSE);
        }
    }
}

fn key(object: &DeserializeGuard<LLMScaler>) -> Key {
    let meta = object.meta();
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

/// When within its period a scaler that was there at the start syncs, so that thousands do not sync at once. By its UID, which
/// spreads evenly.
fn offset(object: &LLMScaler) -> Duration {
    let mut hasher = DefaultHasher::new();
    object.uid().hash(&mut hasher);
    let period = object.parse().map_or(Duration::ZERO, |scaler| scaler.spec.sync_period);
    period.mul_f64(hasher.finish() as f64 / u64::MAX as f64)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use kube::core::ObjectMeta;
    use serde_json::json;

    use super::*;
    use crate::dashboard::History;
    use crate::fake_api;
    use crate::health::Health;

    fn empty_list() -> serde_json::Value {
        let (version, kind) = ("autoscaling.modelsphere.dev/v1alpha1", "LLMScalerList");
        json!({"apiVersion": version, "kind": kind, "metadata": {"resourceVersion": "1"}, "items": []})
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_is_refused_is_not_ready_and_stays_live_until_it_is_granted() {
        let refused = Arc::new(AtomicBool::new(false));
        let asked_for = refused.clone();
        let client = fake_api::client(move |_| {
            if asked_for.load(Ordering::Relaxed) {
                fake_api::refusal(403, "Forbidden", "llmscalers is forbidden")
            } else {
                Some((200, empty_list()))
            }
        });
        let context = fake_api::context(client);
        let (health, metrics) = (Health::new(), context.metrics.clone());
        let part = health.part("watch of LLMScalers", Duration::from_secs(60));
        let mut supervisor = Supervisor::new(context, None);
        let checks = async {
            let after = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
            after(10).await;
            assert_eq!(health.ready(), Ok(()));
            // The watch goes on until it ends by itself.
            refused.store(true, Ordering::Relaxed);
            after(400).await;
            let complaint = "watch of LLMScalers keeps failing: llmscalers is forbidden";
            assert_eq!((health.live(), health.ready()), (Ok(()), Err(complaint.to_owned())));
            assert!(metrics.encode().contains("llmscaler_watch_failing{resource=\"llmscalers\",namespace=\"\"} 1"));
            refused.store(false, Ordering::Relaxed);
            after(200).await;
            assert_eq!((health.live(), health.ready()), (Ok(()), Ok(())));
            assert!(metrics.encode().contains("llmscaler_watch_failing{resource=\"llmscalers\",namespace=\"\"} 0"));
        };
        tokio::select! {
            () = supervisor.run(&part) => panic!("it has ended"),
            () = checks => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn objects_that_cannot_be_read_hold_up_nobody() {
        // The API server never answers.
        let mut supervisor = Supervisor::new(fake_api::context(fake_api::client(|_| None)), None);
        let metadata = |name: &str| ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let unreadable = |name: &str| DeserializeGuard(Err(InvalidObject { error: "a word".to_owned(), metadata: metadata(name) }));
        let readable = |name: &str| {
            let spec =
                json!({"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}, "minReplicas": 1, "maxReplicas": 2});
            let object = json!({"metadata": metadata(name), "spec": spec});
            DeserializeGuard(Ok(serde_json::from_value::<LLMScaler>(object).unwrap()))
        };
        let before = Instant::now();
        for n in 0..100 {
            supervisor.take(Event::Apply(unreadable(&n.to_string())));
        }
        supervisor.take(Event::Apply(readable("fleet")));
        assert_eq!((supervisor.running.len(), supervisor.reports.len(), before.elapsed()), (1, 100, Duration::ZERO));
        // What has been corrected or deleted is not reported on any more.
        supervisor.take(Event::Apply(readable("0")));
        supervisor.take(Event::Delete(unreadable("1")));
        supervisor.take(Event::Init);
        for name in ["fleet", "0", "2"] {
            supervisor.take(Event::InitApply(readable(name)));
        }
        supervisor.take(Event::InitDone);
        assert_eq!((supervisor.running.len(), supervisor.reports.len()), (3, 0));
        supervisor.stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_read_is_on_the_dashboard_until_it_is_deleted() {
        let history = History::new();
        let client = fake_api::client(|_| fake_api::refusal(500, "InternalError", "the server could not do it"));
        let mut supervisor = Supervisor::new(Context { history: Some(history.clone()), ..fake_api::context(client) }, None);
        let unreadable = |name: &str| {
            let metadata = ObjectMeta { name: Some(name.to_owned()), namespace: Some("serving".to_owned()), ..ObjectMeta::default() };
            DeserializeGuard(Err(InvalidObject { error: "a word".to_owned(), metadata }))
        };
        let known = |names: [&str; 2]| names.map(|name| history.knows("serving", name));
        for name in ["chat", "code"] {
            supervisor.take(Event::Apply(unreadable(name)));
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(known(["chat", "code"]), [true, true]);
        supervisor.take(Event::Init);
        supervisor.take(Event::InitApply(unreadable("code")));
        supervisor.take(Event::InitDone);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(known(["chat", "code"]), [false, true], "one is missing from the list");
        supervisor.take(Event::Delete(unreadable("code")));
        assert_eq!(known(["chat", "code"]), [false, false]);
        supervisor.stop().await;
    }

    #[test]
    fn first_syncs_are_spread_over_the_period() {
        let scaler = |uid: String| -> LLMScaler {
            let spec = json!({"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}, "minReplicas": 1, "maxReplicas": 2,
                "serverAddress": "http://prometheus:9090", "metrics": [{"query": "up", "target": "1"}], "syncPeriodSeconds": 10});
            let metadata = json!({"name": "x", "uid": uid});
            let object =
                json!({"apiVersion": "autoscaling.modelsphere.dev/v1alpha1", "kind": "LLMScaler", "metadata": metadata, "spec": spec});
            serde_json::from_value(object).unwrap()
        };
        let mut buckets = [0; 10];
        for n in 0..1000 {
            let offset = offset(&scaler(format!("uid-{n}")));
            assert!(offset < Duration::from_secs(10));
            buckets[offset.as_secs() as usize] += 1;
        }
        assert!(buckets.iter().all(|count| (60..140).contains(count)), "{buckets:?}");
    }
}
