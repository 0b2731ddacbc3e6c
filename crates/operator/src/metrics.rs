//! The operator's own metrics, in the Prometheus text format.
//!
//! docs/metrics.md tells of every series: its labels, its unit, and when it is absent.
//!
//! Series of a scaler have the labels `namespace` and `name`. Prometheus has a `namespace` of its own for what it scrapes in a cluster,
//! so scrape with `honor_labels: true`. They are counters and gauges only, and go when the scaler goes or another process leads.

mod labels;
#[cfg(test)]
mod page;
mod process;
mod scalers;
#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, atomic::AtomicI64},
    time::Duration,
};

use llmscaler_engine::{Decision, Spec};
use prometheus_client::{
    encoding::prometheus_text,
    metrics::{family::Family, gauge::Gauge, histogram::Histogram, info::Info},
    registry::Registry,
};

pub use self::labels::{Watched, WriteOutcome};
use self::{process::Process, scalers::Scalers};

/// The metrics of this process. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    scalers: Arc<Scalers>,
    source_seconds: Histogram,
    sync_lateness: Histogram,
    sync_seconds: Histogram,
    watch_failing: Family<Watched, Gauge<i64, AtomicI64>>,
    external_metrics: Gauge<i64, AtomicI64>,
    leader: Gauge<i64, AtomicI64>,
    scaler_count: Gauge<i64, AtomicI64>,
}

impl Metrics {
    /// The content type of [`Metrics::encode`].
    pub const CONTENT_TYPE: &'static str = prometheus_text::CONTENT_TYPE;

    /// Metrics of a process that has done nothing yet.
    #[must_use]
    pub fn new() -> Self {
        let inner = Inner {
            registry: Registry::default(),
            scalers: Arc::default(),
            source_seconds: Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]),
            sync_lateness: Histogram::new([0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0]),
            sync_seconds: Histogram::new([0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0]),
            watch_failing: Family::default(),
            external_metrics: Gauge::default(),
            leader: Gauge::default(),
            scaler_count: Gauge::default(),
        };
        Self(Arc::new(inner.registered()))
    }

    /// Takes the gauges from a decision by `spec`, and counts it.
    pub fn decision(&self, namespace: &str, name: &str, spec: &Spec, decision: &Decision) {
        self.0.scalers.of(namespace, name, |scaler| scaler.decided(spec, decision));
    }

    /// Takes all conditions of the status in the place of those before, each with whether it holds; `None` where nobody knows, which has
    /// no series.
    pub fn conditions(&self, namespace: &str, name: &str, all: impl IntoIterator<Item = (&'static str, Option<bool>)>) {
        self.0.scalers.of(namespace, name, |scaler| {
            scaler.conditions.clear();
            scaler.conditions.extend(all.into_iter().filter_map(|(kind, holds)| Some((kind, holds?))));
        });
    }

    /// Takes conditions that do not hold any more; the others stay.
    pub fn broken(&self, namespace: &str, name: &str, conditions: &[&'static str]) {
        self.0.scalers.of(namespace, name, |scaler| conditions.iter().for_each(|kind| scaler.set(kind, false)));
    }

    /// Counts an attempt to write `spec.replicas`.
    pub fn write(&self, namespace: &str, name: &str, outcome: WriteOutcome) {
        self.0.scalers.of(namespace, name, |scaler| scaler.writes.add(outcome.as_str()));
    }

    /// Counts the query of one source, which took `seconds`; `ok` when it gave a reading.
    pub fn source(&self, namespace: &str, name: &str, seconds: f64, ok: bool) {
        self.0.source_seconds.observe(seconds);
        self.0.scalers.of(namespace, name, |scaler| scaler.source_failures += u64::from(!ok));
    }

    /// Counts a sync that began `lateness` after its time.
    pub fn sync(&self, lateness: Duration, took: Duration) {
        self.0.sync_lateness.observe(lateness.as_secs_f64());
        self.0.sync_seconds.observe(took.as_secs_f64());
    }

    /// Counts a sync that failed. The `kind` becomes a label: one of a few words, never a text that varies.
    pub fn sync_error(&self, namespace: &str, name: &str, kind: &'static str) {
        self.0.scalers.of(namespace, name, |scaler| scaler.errors.add(kind));
    }

    /// Sets whether a watch keeps failing.
    pub fn watch(&self, watched: &Watched, failing: bool) {
        self.0.watch_failing.get_or_create(watched).set(i64::from(failing));
    }

    /// Drops the series of a watch that has ended.
    pub fn forget_watch(&self, watched: &Watched) {
        self.0.watch_failing.remove(watched);
    }

    /// Sets whether this process serves the cluster's External Metrics API.
    pub fn external_metrics_served(&self, served: bool) {
        self.0.external_metrics.set(i64::from(served));
    }

    /// Sets whether this process scales. What it knew of scalers goes when it no longer does: another process tells it now.
    pub fn leader(&self, leads: bool) {
        self.0.leader.set(i64::from(leads));
        if !leads {
            self.0.scalers.clear();
            self.scalers(0);
        }
    }

    /// Sets how many scalers this process looks after.
    pub fn scalers(&self, count: usize) {
        self.0.scaler_count.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Drops every series of a scaler that is gone.
    pub fn forget(&self, namespace: &str, name: &str) {
        self.0.scalers.forget(namespace, name);
    }

    /// All metrics, as [`Metrics::CONTENT_TYPE`].
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail; were it to, a scrape that is cut short is better than none.
        let _ = prometheus_text::encode(&mut text, &self.0.registry);
        text
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Inner {
    fn registered(mut self) -> Self {
        let registry = &mut self.registry;
        registry.register_collector(Box::new(Arc::clone(&self.scalers)));
        registry.register("llmscaler_source_seconds", "How long the queries of sources took", self.source_seconds.clone());
        registry.register("llmscaler_sync_lateness_seconds", "How long after their time syncs began", self.sync_lateness.clone());
        registry.register("llmscaler_sync_seconds", "How long syncs took", self.sync_seconds.clone());
        let help = "1 while the API server has been refusing the watch for a minute";
        registry.register("llmscaler_watch_failing", help, self.watch_failing.clone());
        let help = "1 while the cluster's External Metrics API is served by this process";
        registry.register("llmscaler_external_metrics_served", help, self.external_metrics.clone());
        registry.register("llmscaler_leader", "1 while this process scales, else 0", self.leader.clone());
        registry.register("llmscaler_scalers", "Scalers that this process looks after", self.scaler_count.clone());
        registry.register("llmscaler_build", "The version that runs", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        registry.register_collector(Box::new(Process));
        self
    }
}
