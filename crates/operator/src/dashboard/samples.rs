//! The numbers of one scaler over time.

use llmscaler_engine::{Law, ReadingState, ReadingTrace, Replicas, Spec, Time};
use serde::Serialize;

use super::history::Synced;
use super::level::{Last, Level};

/// How many syncs are kept: an hour at the usual period of 15 s.
pub const SAMPLES: usize = 240;

/// One number of each kind for each sync, in columns.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Samples {
    /// Milliseconds since 1970.
    pub(super) at: Last<i64, SAMPLES>,
    pub(super) spec: Last<Level, SAMPLES>,
    pub(super) ready: Last<Level, SAMPLES>,
    pub(super) desired: Last<Level, SAMPLES>,
    min: Last<Level, SAMPLES>,
    max: Last<Level, SAMPLES>,
    late_ttft: Last<Level, SAMPLES>,
    late_tpot: Last<Level, SAMPLES>,
    signals: Vec<Series>,
}

#[derive(Clone, Debug, Serialize)]
struct Series {
    name: String,
    value: Last<Level, SAMPLES>,
    /// For a total of the pool that of all replicas.
    target: Last<Level, SAMPLES>,
}

impl Samples {
    /// Takes in one sync; `None` is one that came to nothing, of which nothing is known.
    pub(super) fn push(&mut self, at: Time, synced: Option<&Synced<'_>>) {
        let before = self.at.len();
        self.at.push(at.as_millis());
        let count = |count: fn(&Synced<'_>) -> Replicas| Level::of(synced.map(|synced| f64::from(count(synced).get())));
        self.spec.push(count(|synced| synced.size()));
        self.ready.push(count(|synced| synced.decision.ready));
        self.desired.push(count(|synced| synced.decision.desired));
        self.min.push(count(|synced| synced.spec.bounds.min));
        self.max.push(count(|synced| synced.spec.bounds.max));
        let lateness = synced.map(|synced| synced.lateness).unwrap_or_default();
        self.late_ttft.push(Level::of(lateness.ttft));
        self.late_tpot.push(Level::of(lateness.tpot));
        let Some(synced) = synced else {
            self.signals.iter_mut().for_each(|series| series.push(Level::UNKNOWN, Level::UNKNOWN));
            return;
        };
        let decision = synced.decision;
        // The sources seldom change, so their names are seldom looked for.
        let same = self.signals.len() == decision.readings.len()
            && self.signals.iter().zip(&decision.readings).all(|(series, reading)| series.name == reading.name);
        if !same {
            let mut known = std::mem::take(&mut self.signals);
            self.signals = decision
                .readings
                .iter()
                .map(|reading| {
                    let known = known.iter().position(|series| series.name == reading.name).map(|index| known.swap_remove(index));
                    known.unwrap_or_else(|| Series::unknown(&reading.name, before))
                })
                .collect();
        }
        for (series, reading) in self.signals.iter_mut().zip(&decision.readings) {
            series.push(Level::of(value(&reading.state)), Level::of(taken(synced, reading)));
        }
    }
}

/// What the value is drawn against: the target, or, for a total of the pool, what all its replicas take at the target.
fn taken(synced: &Synced<'_>, reading: &ReadingTrace) -> Option<f64> {
    let replicas = if is_total(synced.spec, reading) { f64::from(synced.size().get()) } else { 1.0 };
    reading.target.map(|target| target * replicas)
}

/// Whether the value is the total of the pool, and the target the share of one replica.
pub(super) fn is_total(spec: &Spec, reading: &ReadingTrace) -> bool {
    spec.sources.iter().any(|source| source.name == reading.name && matches!(source.law, Law::Average { .. }))
}

impl Series {
    /// A signal that nothing was heard of at so many syncs.
    fn unknown(name: &str, syncs: usize) -> Self {
        let mut series = Self { name: name.to_owned(), value: Last::default(), target: Last::default() };
        (0..syncs).for_each(|_| series.push(Level::UNKNOWN, Level::UNKNOWN));
        series
    }

    fn push(&mut self, value: Level, target: Level) {
        self.value.push(value);
        self.target.push(target);
    }
}

/// Idle is a proved 0.
pub(super) fn value(state: &ReadingState) -> Option<f64> {
    match state {
        ReadingState::Value(value) => Some(value.get()),
        ReadingState::Idle => Some(0.0),
        ReadingState::Unknown(_) => None,
    }
}
