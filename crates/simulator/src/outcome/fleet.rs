//! What a fleet cost, and how restless it was.

use super::Change;

/// What was asked for over time: changes, and the mean of the count.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    pub changes: Vec<Change>,
}

impl Asked {
    /// Changes of direction.
    pub fn reversals(&self) -> u32 {
        let ways: Vec<bool> = self.changes.iter().map(|change| change.to > change.from).collect();
        ways.windows(2).filter(|two| two[0] != two[1]).count() as u32
    }

    /// Mean count from `from` to `to`; `otherwise` where nothing was ever changed.
    pub fn mean(&self, from: f64, to: f64, otherwise: u32) -> f64 {
        let first = self.changes.first().map_or(otherwise, |change| change.from);
        if to <= from {
            let now = self.changes.iter().rfind(|change| change.at <= from);
            return f64::from(now.map_or(first, |change| change.to));
        }
        let (mut sum, mut since, mut count) = (0.0, from, first);
        for change in &self.changes {
            let at = change.at.clamp(from, to);
            sum += f64::from(count) * (at - since);
            (since, count) = (at, change.to);
        }
        (sum + f64::from(count) * (to - since)) / (to - from)
    }
}

/// What the pods cost, in seconds of one pod.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bill {
    pub seconds: f64,
    pub warmup: f64,
    pub drain: f64,
    pub started: u32,
    pub short_lived: u32,
}

/// A pod that is gone within so many seconds of its start was hardly worth it.
const SHORT: f64 = 600.0;

impl Bill {
    /// Adds a pod, of which only what lies between 0 and `until` is billed.
    pub fn add(&mut self, created: f64, ready: Option<f64>, leaving: Option<f64>, gone: f64, until: f64) {
        let billed = |from: f64, to: f64| (to.min(until) - from.max(0.0)).max(0.0);
        let warm = ready.or(leaving).unwrap_or(gone).min(gone);
        self.seconds += billed(created, gone);
        self.warmup += billed(created, warm);
        self.drain += leaving.map_or(0.0, |leaving| billed(leaving, gone));
        // Those that serve from the start on were there before.
        if ready.is_none_or(|ready| ready > 0.0) {
            self.started += 1;
            self.short_lived += u32::from(gone - created <= SHORT && gone < until);
        }
    }
}
