//! The tasks that are under way: one for each scaler, and those that say on an object that it cannot be read.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use kube::core::error_boundary::InvalidObject;
use llmscaler_api::LLMScaler;
use tokio::sync::{Semaphore, watch};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::Instant;
use tracing::error;

use super::Key;
use crate::context::Context;
use crate::{report, scaler};

/// How long a task that has crashed stays away.
const CRASH_PAUSE: Duration = Duration::from_secs(30);

/// How many objects that cannot be read are reported on at the same time.
const REPORTS_AT_ONCE: usize = 4;

/// The tasks that are under way. All of them end with it.
pub(super) struct Tasks {
    context: Arc<Context>,
    all: JoinSet<()>,
    running: HashMap<Key, Running>,
    by_task: HashMap<Id, Key>,
    /// The tasks that say on an object that it cannot be read, the last one of each.
    reports: HashMap<Key, AbortHandle>,
    /// How many of those may be at work.
    turns: Arc<Semaphore>,
}

struct Running {
    object: watch::Sender<Arc<LLMScaler>>,
    task: AbortHandle,
}

impl Tasks {
    pub(super) fn new(context: Arc<Context>) -> Self {
        Self {
            context,
            all: JoinSet::new(),
            running: HashMap::new(),
            by_task: HashMap::new(),
            reports: HashMap::new(),
            turns: Arc::new(Semaphore::new(REPORTS_AT_ONCE)),
        }
    }

    /// How many scalers there are.
    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    /// How many objects cannot be read.
    #[cfg(test)]
    pub(super) fn reports(&self) -> usize {
        self.reports.len()
    }

    /// Every object that is known.
    pub(super) fn keys(&self) -> HashSet<Key> {
        self.running.keys().chain(self.reports.keys()).cloned().collect()
    }

    /// Ends all tasks, and returns when they have ended.
    pub(super) async fn stop(&mut self) {
        self.all.shutdown().await;
    }

    /// Hands an object to its task. One that has none yet gets it, and syncs for the first time when its turn in the period comes, or at
    /// once when it is `new`.
    pub(super) fn apply(&mut self, key: Key, object: Arc<LLMScaler>, new: bool) {
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
        let first = if new { Instant::now() } else { Instant::now() + self.context.clock.lasts(offset(&object)) };
        self.start(key, object, first);
    }

    /// Says on an object that it cannot be read. The API server may be slow to take it, which is nobody else's loss.
    pub(super) fn report(&mut self, key: Key, invalid: InvalidObject) {
        self.forget(&key);
        let (context, turn) = (self.context.clone(), self.turns.clone());
        let report = self.all.spawn(async move {
            let _turn = turn.acquire_owned().await;
            report::unreadable(&context, &invalid).await;
        });
        self.reports.insert(key, report);
    }

    fn start(&mut self, key: Key, object: Arc<LLMScaler>, first: Instant) {
        let (sender, receiver) = watch::channel(object);
        let task = self.all.spawn(scaler::run(self.context.clone(), receiver, first));
        self.by_task.insert(task.id(), key.clone());
        self.running.insert(key, Running { object: sender, task });
    }

    /// Ends what is under way for an object that is gone, and forgets what was known of it.
    pub(super) fn forget(&mut self, key: &Key) {
        if let Some(report) = self.reports.remove(key) {
            report.abort();
        }
        let (namespace, name) = key;
        if let Some(history) = &self.context.history {
            history.forget(namespace, name);
        }
        let Some(running) = self.running.remove(key) else { return };
        running.task.abort();
        self.forget_scaler(key);
        if let Some(external) = &self.context.external_metrics {
            external.published.forget(namespace, name);
        }
    }

    /// Forgets which target it wrote, and its metrics.
    fn forget_scaler(&self, (namespace, name): &Key) {
        self.context.owners.forget(namespace, name);
        self.context.metrics.forget(namespace, name);
    }

    /// Waits until a task has ended, and puts in order what it leaves; never while there are none. A scaler's task does not end by
    /// itself: one that has crashed is started again, after a pause and without its memory.
    pub(super) async fn tend(&mut self) {
        match self.all.join_next_with_id().await {
            Some(Ok((id, ()))) => self.ended(id, None),
            Some(Err(error)) => self.ended(error.id(), Some(error)),
            None => std::future::pending().await,
        }
    }

    fn ended(&mut self, id: Id, error: Option<JoinError>) {
        let Some(key) = self.by_task.remove(&id) else { return };
        if !self.running.contains_key(&key) {
            // It may have taken a target or counted something between being told to end and ending.
            self.forget_scaler(&key);
            // An object that cannot be read has no task, and is told of all the same.
            if !self.reports.contains_key(&key)
                && let Some(history) = &self.context.history
            {
                history.forget(&key.0, &key.1);
            }
        }
        let Some(crash) = error.filter(JoinError::is_panic) else { return };
        if let Some(running) = self.running.remove(&key) {
            let pause = CRASH_PAUSE.as_secs();
            error!(namespace = key.0, name = key.1, error = %crash, "A scaler's task crashed; it starts again in {pause} s");
            let object = running.object.borrow().clone();
            self.start(key, object, Instant::now() + CRASH_PAUSE);
        }
    }
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
    use serde_json::json;

    use super::*;

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
