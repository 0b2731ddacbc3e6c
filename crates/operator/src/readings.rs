//! Readings that are handed over, in place of what sources answer.

use std::fmt;
use std::sync::Arc;

use llmscaler_engine::Reading;

/// What a scaler reads, by its namespace and its name: one reading for each source of its spec, in their order.
type Hand = dyn Fn(&str, &str) -> Vec<Reading> + Send + Sync;

/// Readings that are handed over, in place of what sources answer: for tests in paused time, in which sockets have no part. All else
/// of a sync is as it always is. A source that is handed nothing is unknown.
#[derive(Clone)]
pub struct Readings(Arc<Hand>);

impl Readings {
    /// Asks `hand` at each sync.
    pub fn new(hand: impl Fn(&str, &str) -> Vec<Reading> + Send + Sync + 'static) -> Self {
        Self(Arc::new(hand))
    }

    /// Those of one sync.
    pub(crate) fn of(&self, namespace: &str, name: &str, sources: usize) -> Vec<Reading> {
        let mut readings = (self.0)(namespace, name);
        readings.resize_with(sources, || Reading::unknown("no reading was handed over"));
        readings
    }
}

impl fmt::Debug for Readings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Readings")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_source_has_one_reading() {
        let readings = Readings::new(|_, name| vec![Reading::from_number(name.len() as f64); 2]);
        assert_eq!(readings.of("serving", "abc", 1), [Reading::from_number(3.0)]);
        assert!(readings.of("serving", "abc", 3)[2].is_unknown());
    }
}
