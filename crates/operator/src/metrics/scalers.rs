//! The series of each scaler.
//!
//! They are kept by scaler, not by metric as the library's families would: a scaler's decision then takes one look-up and one lock,
//! and when a scaler goes, all its series go with it.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use llmscaler_engine::{Bounds, Decision, Mode, ReadingState, Reason, Replicas, Spec};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeGaugeValue, MetricEncoder, NoLabelSet},
    metrics::MetricType,
};

use super::WriteOutcome;

type ByName = BTreeMap<String, Arc<Mutex<Scaler>>>;

/// All scalers, by namespace and name.
#[derive(Debug, Default)]
pub(super) struct Scalers(RwLock<BTreeMap<String, ByName>>);

/// The series of one scaler.
#[derive(Debug)]
pub(super) struct Scaler {
    sizes: Option<Sizes>,
    readings: Vec<Reading>,
    /// Each with whether it holds.
    pub(super) conditions: Vec<(&'static str, bool)>,
    decisions: Counts<Reason>,
    /// By outcome. All begin at 0: the increase of a series that begins at 1 is none.
    pub(super) writes: Counts<&'static str>,
    pub(super) source_failures: u64,
    /// By kind.
    pub(super) errors: Counts<&'static str>,
}

#[derive(Debug)]
struct Sizes {
    spec: Replicas,
    ready: Replicas,
    recommended: Replicas,
    desired: Replicas,
    bounds: Bounds,
    mode: Mode,
}

#[derive(Debug)]
struct Reading {
    metric: String,
    value: Option<f64>,
    target: Option<f64>,
    replicas: Option<Replicas>,
}

/// Counters by a key of few values.
#[derive(Debug)]
pub(super) struct Counts<K>(Vec<(K, u64)>);

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: PartialEq> Counts<K> {
    pub(super) fn add(&mut self, key: K) {
        match self.0.iter_mut().find(|(known, _)| *known == key) {
            Some((_, count)) => *count += 1,
            None => self.0.push((key, 1)),
        }
    }
}

impl Default for Scaler {
    fn default() -> Self {
        Self {
            sizes: None,
            readings: Vec::new(),
            conditions: Vec::new(),
            decisions: Counts::default(),
            writes: Counts(WriteOutcome::ALL.iter().map(|outcome| (outcome.as_str(), 0)).collect()),
            source_failures: 0,
            errors: Counts::default(),
        }
    }
}

impl Scaler {
    /// Sets whether a condition holds.
    pub(super) fn set(&mut self, kind: &'static str, holds: bool) {
        match self.conditions.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, known)) => *known = holds,
            None => self.conditions.push((kind, holds)),
        }
    }

    pub(super) fn decided(&mut self, spec: &Spec, decision: &Decision) {
        let (bounds, mode) = (spec.bounds, spec.mode);
        let Decision { replicas: spec, ready, recommended, desired, .. } = *decision;
        self.sizes = Some(Sizes { spec, ready, recommended, desired, bounds, mode });
        self.decisions.add(decision.reason);

        // What goes, goes with the status.
        decision.conditions.iter().for_each(|condition| self.set(condition.kind.as_str(), condition.status));

        // The sources seldom change, so their names are seldom copied.
        self.readings.truncate(decision.readings.len());
        for (i, trace) in decision.readings.iter().enumerate() {
            let value = match &trace.state {
                ReadingState::Value(measurement) => Some(measurement.get()),
                ReadingState::Idle => Some(0.0),
                ReadingState::Unknown(_) => None,
            };
            let (target, replicas) = (trace.target, trace.replicas);
            match self.readings.get_mut(i) {
                Some(known) if known.metric == trace.name => (known.value, known.target, known.replicas) = (value, target, replicas),
                Some(other) => *other = Reading { metric: trace.name.clone(), value, target, replicas },
                None => self.readings.push(Reading { metric: trace.name.clone(), value, target, replicas }),
            }
        }
    }
}

impl Scalers {
    /// Changes the series of one scaler, which begin with the first change.
    pub(super) fn of(&self, namespace: &str, name: &str, change: impl FnOnce(&mut Scaler)) {
        let known = {
            let scalers = self.0.read().unwrap_or_else(PoisonError::into_inner);
            scalers.get(namespace).and_then(|by_name| by_name.get(name)).map(Arc::clone)
        };
        let scaler = known.unwrap_or_else(|| {
            let mut scalers = self.0.write().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(scalers.entry(namespace.to_owned()).or_default().entry(name.to_owned()).or_default())
        });
        change(&mut scaler.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn forget(&self, namespace: &str, name: &str) {
        let mut scalers = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(by_name) = scalers.get_mut(namespace) {
            by_name.remove(name);
            if by_name.is_empty() {
                scalers.remove(namespace);
            }
        }
    }

    /// Drops all of them.
    pub(super) fn clear(&self) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Collector for Scalers {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        // One scaler is locked at a time, so that a scrape of thousands holds up no sync.
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut family = |name, kind, help, series: fn(&Scaler, &mut Samples<'_, '_>) -> fmt::Result| {
            let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
            for (namespace, by_name) in &all {
                for (name, scaler) in by_name {
                    let scaler = scaler.lock().unwrap_or_else(PoisonError::into_inner);
                    series(&scaler, &mut Samples { metric: &mut metric, namespace, name })?;
                }
            }
            Ok(())
        };
        let gauge = MetricType::Gauge;
        let counter = MetricType::Counter;

        family("llmscaler_spec_replicas", gauge, "spec.replicas of the target at the last decision.", |scaler, to| {
            scaler.sizes.iter().try_for_each(|sizes| to.gauge(None, sizes.spec.get()))
        })?;
        family("llmscaler_ready_replicas", gauge, "Ready replicas at the last decision.", |scaler, to| {
            scaler.sizes.iter().try_for_each(|sizes| to.gauge(None, sizes.ready.get()))
        })?;
        family("llmscaler_recommended_replicas", gauge, "The count that the sources ask for.", |scaler, to| {
            scaler.sizes.iter().try_for_each(|sizes| to.gauge(None, sizes.recommended.get()))
        })?;
        family("llmscaler_desired_replicas", gauge, "The count where the fleet is headed, after bounds and windows.", |scaler, to| {
            scaler.sizes.iter().try_for_each(|sizes| to.gauge(None, sizes.desired.get()))
        })?;
        let help = "desired_replicas less spec_replicas: by how much the fleet would change.";
        family("llmscaler_replicas_difference", gauge, help, |scaler, to| {
            let difference = |sizes: &Sizes| i64::from(sizes.desired.get()) - i64::from(sizes.spec.get());
            scaler.sizes.iter().try_for_each(|sizes| to.gauge(None, difference(sizes)))
        })?;
        family("llmscaler_min_replicas", gauge, "Fewest replicas that the scaler allows.", |scaler, to| {
            scaler.sizes.iter().try_for_each(|sizes| to.gauge(None, sizes.bounds.min.get()))
        })?;
        family("llmscaler_max_replicas", gauge, "Most replicas that the scaler allows.", |scaler, to| {
            scaler.sizes.iter().try_for_each(|sizes| to.gauge(None, sizes.bounds.max.get()))
        })?;
        family("llmscaler_recommend_only", gauge, "1 when the scaler only recommends, else 0.", |scaler, to| {
            scaler.sizes.iter().try_for_each(|sizes| to.gauge(None, flag(sizes.mode == Mode::Recommend)))
        })?;
        family("llmscaler_reading", gauge, "The last reading: 0 when idle, no series while unknown.", |scaler, to| {
            scaler.readings.iter().try_for_each(|reading| to.gauge_of(reading, reading.value))
        })?;
        family("llmscaler_reading_target", gauge, "What the reading is compared with, where there is a target.", |scaler, to| {
            scaler.readings.iter().try_for_each(|reading| to.gauge_of(reading, reading.target))
        })?;
        let help = "The count that the reading alone asks for: no series while unknown.";
        family("llmscaler_reading_replicas", gauge, help, |scaler, to| {
            scaler.readings.iter().try_for_each(|reading| to.gauge_of(reading, reading.replicas.map(Replicas::get)))
        })?;
        family("llmscaler_reading_known", gauge, "1, or 0 while the reading is unknown.", |scaler, to| {
            scaler.readings.iter().try_for_each(|reading| to.gauge_of(reading, Some(flag(reading.value.is_some()))))
        })?;
        family("llmscaler_condition", gauge, "1 when the condition holds, else 0.", |scaler, to| {
            scaler.conditions.iter().try_for_each(|(kind, holds)| to.gauge(Some(("type", kind)), flag(*holds)))
        })?;
        family("llmscaler_decisions", counter, "Decisions, by reason.", |scaler, to| {
            scaler.decisions.0.iter().try_for_each(|(reason, count)| to.counter(Some(("reason", reason.as_str())), *count))
        })?;
        family("llmscaler_writes", counter, "Attempts to write spec.replicas, by outcome.", |scaler, to| {
            scaler.writes.0.iter().try_for_each(|(outcome, count)| to.counter(Some(("outcome", outcome)), *count))
        })?;
        family("llmscaler_source_failures", counter, "Queries of sources that gave no reading.", |scaler, to| {
            to.counter(None, scaler.source_failures)
        })?;
        family("llmscaler_sync_errors", counter, "Syncs that failed, by kind.", |scaler, to| {
            scaler.errors.0.iter().try_for_each(|(kind, count)| to.counter(Some(("kind", kind)), *count))
        })
    }
}

fn flag(holds: bool) -> u32 {
    u32::from(holds)
}

/// Where the samples of one scaler go, in one metric.
struct Samples<'a, 'e> {
    metric: &'a mut MetricEncoder<'e>,
    namespace: &'a str,
    name: &'a str,
}

impl Samples<'_, '_> {
    fn gauge(&mut self, label: Option<(&str, &str)>, value: impl EncodeGaugeValue) -> fmt::Result {
        self.sample(label, |mut metric| metric.encode_gauge(&value))
    }

    /// Nothing where there is no value.
    fn gauge_of(&mut self, reading: &Reading, value: Option<impl EncodeGaugeValue>) -> fmt::Result {
        value.into_iter().try_for_each(|value| self.gauge(Some(("metric", &reading.metric)), value))
    }

    fn counter(&mut self, label: Option<(&str, &str)>, value: u64) -> fmt::Result {
        self.sample(label, |mut metric| metric.encode_counter::<NoLabelSet, u64, f64>(&value, None))
    }

    fn sample(&mut self, label: Option<(&str, &str)>, encode: impl FnOnce(MetricEncoder<'_>) -> fmt::Result) -> fmt::Result {
        let (namespace, name) = (("namespace", self.namespace), ("name", self.name));
        match label {
            Some(label) => encode(self.metric.encode_family(&[namespace, name, label])?),
            None => encode(self.metric.encode_family(&[namespace, name])?),
        }
    }
}
