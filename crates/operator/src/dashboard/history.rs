//! What is kept of all scalers while the dashboard is on.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use jiff::Timestamp;
use llmscaler_api::{LLMScalerStatus, TargetRef};
use llmscaler_engine::{Decision, Replicas, Spec, Time, Traffic};
use serde::Serialize;
use tokio::sync::watch;

use super::record::Record;
use super::summary::{Detail, Summary};
use crate::clock::Clock;

/// How many scalers that have gone are told to a page that comes back; a page that was away for more of them begins anew.
const GONE: usize = 1000;

type ByName = BTreeMap<String, Arc<Mutex<Record>>>;

/// What is kept of all scalers. Clones share it.
///
/// Each change has a version, the next whole number. Whoever has seen one asks for what has changed since: nothing is queued for
/// anybody, and a reader who is slow gets the newest state once. A version is given out while the record that changes is locked, so
/// that none can be passed over by a reader who looks at the version first and at the records then.
#[derive(Clone, Debug)]
pub struct History(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Tells this process from the one before.
    epoch: i64,
    clock: Clock,
    version: watch::Sender<u64>,
    scalers: RwLock<BTreeMap<String, ByName>>,
    gone: Mutex<Gone>,
    leading: AtomicBool,
}

/// The last scalers that have gone.
#[derive(Debug, Default)]
struct Gone {
    /// Version, namespace and name.
    last: VecDeque<(u64, String, String)>,
    /// The newest version that is forgotten.
    forgotten: u64,
}

/// What a sync came to.
#[derive(Clone, Copy, Debug)]
pub struct Synced<'a> {
    /// When, in milliseconds since 1970.
    pub at: Time,
    /// The workload.
    pub target: &'a TargetRef,
    /// What was asked for.
    pub spec: &'a Spec,
    /// What was decided.
    pub decision: &'a Decision,
    /// The size that was written, if any.
    pub written: Option<Replicas>,
    /// How many requests were late.
    pub lateness: Lateness,
}

impl Synced<'_> {
    /// `spec.replicas` from now on.
    pub(super) fn size(&self) -> Replicas {
        self.written.unwrap_or(self.decision.replicas)
    }
}

/// Shares of requests that were late, 0 to 1; `None` where they are not known, as without any request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lateness {
    /// Of the first token.
    pub ttft: Option<f64>,
    /// Of the time per output token.
    pub tpot: Option<f64>,
}

impl Lateness {
    /// From what was measured of the traffic.
    #[must_use]
    pub fn of(traffic: Option<&Traffic>) -> Self {
        let share = |late: Option<llmscaler_engine::Late>| late.filter(|late| late.of.get() > 0.0).map(|late| late.share.get());
        Self { ttft: traffic.and_then(|traffic| share(traffic.late_ttft)), tpot: traffic.and_then(|traffic| share(traffic.late_tpot)) }
    }
}

/// What has changed.
#[derive(Debug, Serialize)]
pub(super) struct Changes {
    /// What to ask with next time.
    pub(super) event: String,
    #[serde(skip)]
    pub(super) version: u64,
    /// The server's clock, in milliseconds since 1970.
    now: i64,
    leading: bool,
    scalers: Vec<Summary>,
    /// Namespaces and names. A scaler that is in both lists was made anew.
    gone: Vec<(String, String)>,
}

/// One scaler.
#[derive(Debug, Serialize)]
pub(super) struct One {
    now: i64,
    scaler: Detail,
}

impl History {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::of(Clock::start())
    }

    /// An empty one, of an operator that goes by this clock.
    #[must_use]
    pub fn of(clock: Clock) -> Self {
        let epoch = Timestamp::now().as_microsecond();
        Self(Arc::new(Inner {
            epoch,
            clock,
            version: watch::Sender::new(0),
            scalers: RwLock::default(),
            gone: Mutex::default(),
            leading: AtomicBool::new(false),
        }))
    }

    /// Takes in a decision and what became of it.
    pub fn decided(&self, namespace: &str, name: &str, synced: &Synced<'_>) {
        self.change(namespace, name, |record| {
            record.decided(synced);
            true
        });
    }

    /// Takes in why a sync came to nothing.
    pub(crate) fn failed(&self, namespace: &str, name: &str, at: Time, reason: &'static str, message: &str) {
        self.change(namespace, name, |record| {
            record.failed(at, reason, message);
            true
        });
    }

    /// Takes in an event that is published.
    pub fn event(&self, namespace: &str, name: &str, at: Time, warning: bool, reason: &str, note: &str) {
        self.change(namespace, name, |record| {
            record.event(at, warning, reason, note);
            true
        });
    }

    /// Takes in the conditions of a status, and what else only a status knows.
    pub fn status(&self, namespace: &str, name: &str, status: &LLMScalerStatus) {
        self.change(namespace, name, |record| record.status(status));
    }

    /// Whether this process is the one that acts.
    pub fn leading(&self, leading: bool) {
        if self.0.leading.swap(leading, Ordering::Relaxed) != leading {
            self.next_version();
        }
    }

    /// Forgets a scaler.
    pub fn forget(&self, namespace: &str, name: &str) {
        {
            let mut scalers = self.0.scalers.write().unwrap_or_else(PoisonError::into_inner);
            let Some(by_name) = scalers.get_mut(namespace) else { return };
            if by_name.remove(name).is_none() {
                return;
            }
            if by_name.is_empty() {
                scalers.remove(namespace);
            }
        }
        self.remember_gone(namespace, name);
    }

    /// Forgets all scalers, as when another process looks after them from now on.
    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut *self.0.scalers.write().unwrap_or_else(PoisonError::into_inner));
        for (namespace, by_name) in &all {
            by_name.keys().for_each(|name| self.remember_gone(namespace, name));
        }
    }

    fn remember_gone(&self, namespace: &str, name: &str) {
        let mut gone = self.0.gone.lock().unwrap_or_else(PoisonError::into_inner);
        let version = self.next_version();
        if gone.last.len() == GONE
            && let Some((version, ..)) = gone.last.pop_front()
        {
            gone.forgotten = version;
        }
        gone.last.push_back((version, namespace.to_owned(), name.to_owned()));
    }

    fn next_version(&self) -> u64 {
        let mut next = 0;
        self.0.version.send_modify(|version| {
            *version += 1;
            next = *version;
        });
        next
    }

    /// Changes what is kept of one scaler, which begins with the first change. `change` answers whether it was one.
    fn change(&self, namespace: &str, name: &str, change: impl FnOnce(&mut Record) -> bool) {
        let record = self.record(namespace, name).unwrap_or_else(|| {
            let mut scalers = self.0.scalers.write().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(scalers.entry(namespace.to_owned()).or_default().entry(name.to_owned()).or_default())
        });
        let mut record = record.lock().unwrap_or_else(PoisonError::into_inner);
        if change(&mut record) {
            record.version = self.next_version();
        }
    }

    fn record(&self, namespace: &str, name: &str) -> Option<Arc<Mutex<Record>>> {
        let scalers = self.0.scalers.read().unwrap_or_else(PoisonError::into_inner);
        scalers.get(namespace)?.get(name).cloned()
    }

    /// Tells of each new version.
    pub(super) fn versions(&self) -> watch::Receiver<u64> {
        self.0.version.subscribe()
    }

    /// What has changed since a version; all there is, for `None`. Answers `None` to a version that it does not know everything since.
    pub(super) fn changes(&self, since: Option<u64>) -> Option<Changes> {
        let version = *self.0.version.borrow();
        // Those that have gone first: one that goes while the records are looked at has a later version than this one.
        let gone = {
            let gone = self.0.gone.lock().unwrap_or_else(PoisonError::into_inner);
            match since {
                Some(since) if since > version || since < gone.forgotten => return None,
                Some(since) => {
                    gone.last.iter().filter(|(at, ..)| *at > since).map(|(_, namespace, name)| (namespace.clone(), name.clone())).collect()
                }
                None => vec![],
            }
        };
        // One record is locked at a time, so that a look at thousands holds up no sync.
        let all = self.0.scalers.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut scalers = vec![];
        for (namespace, by_name) in &all {
            for (name, record) in by_name {
                let record = record.lock().unwrap_or_else(PoisonError::into_inner);
                if since.is_none_or(|since| record.version > since) {
                    scalers.push(record.summary(namespace, name));
                }
            }
        }
        let leading = self.0.leading.load(Ordering::Relaxed);
        Some(Changes { event: self.event_id(version), version, now: self.now(), leading, scalers, gone })
    }

    /// One scaler, if there is one by that name.
    pub(super) fn one(&self, namespace: &str, name: &str) -> Option<One> {
        let record = self.record(namespace, name)?;
        let scaler = record.lock().unwrap_or_else(PoisonError::into_inner).detail(namespace, name);
        Some(One { now: self.now(), scaler })
    }

    fn now(&self) -> i64 {
        self.0.clock.timestamp().as_millisecond()
    }

    /// The version in a form that means nothing to another process.
    pub(super) fn event_id(&self, version: u64) -> String {
        format!("{:x}-{version}", self.0.epoch)
    }

    /// The version that [`Self::event_id`] gave out, if it was this process.
    pub(super) fn version_of(&self, event: &str) -> Option<u64> {
        let (epoch, version) = event.split_once('-')?;
        (i64::from_str_radix(epoch, 16) == Ok(self.0.epoch)).then(|| version.parse().ok()).flatten()
    }
}

#[cfg(test)]
impl History {
    /// Whether anything is kept of the scaler.
    pub(crate) fn knows(&self, namespace: &str, name: &str) -> bool {
        self.record(namespace, name).is_some()
    }
}

impl Default for History {
    fn default() -> Self {
        Self::new()
    }
}
