//! The last readings of every scaler that an HPA stands in for: what is served comes from here, and no source is asked for it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use jiff::Timestamp;
use kube::core::{Selector, SelectorExt};
use tokio::sync::watch;
use tokio::time::Instant;

use super::quantity::Milli;
use crate::hpa::SCALER;

/// The last readings of every scaler. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Published {
    scalers: Arc<RwLock<Scalers>>,
    leading: Arc<watch::Sender<bool>>,
}

/// By namespace, then by the name of the scaler.
type Scalers = HashMap<String, BTreeMap<String, Readings>>;

/// What one scaler read in one sync.
#[derive(Clone, Debug)]
pub(crate) struct Readings {
    /// The value of the label that names the scaler.
    pub label: String,
    /// Each metric, or why it is unknown.
    pub metrics: Vec<(String, Result<Milli, String>)>,
    pub at: Timestamp,
    /// Until when they stand for what is.
    pub until: Instant,
}

/// One value of a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub label: String,
    pub value: Milli,
    pub at: Timestamp,
}

/// Why a metric has no value. The HPA takes each of these for an error, and holds.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoValue {
    #[error("this replica of the operator is not the leader; the leader's pod alone has the readings")]
    NotLeader,
    #[error("there is no metric {metric} in namespace {namespace}, or none of its scaler's syncs has ended yet")]
    Nothing { namespace: String, metric: String },
    #[error("{metric} is unknown: {why}")]
    Unknown { metric: String, why: String },
    #[error("{metric} was last read {} s ago, which is too long ago to scale on; the operator's log says what holds its syncs up", .age.as_secs())]
    Stale { metric: String, age: Duration },
}

impl Published {
    /// Whether this process acts; what was read by one that acts no more is forgotten.
    pub(crate) fn lead(&self, leading: bool) {
        self.change(HashMap::clear);
        self.leading.send_replace(leading);
    }

    /// Whether this process acts, now and later.
    pub(super) fn leading(&self) -> watch::Receiver<bool> {
        self.leading.subscribe()
    }

    /// Takes the readings of a sync in the place of those of the one before.
    pub(crate) fn put(&self, namespace: &str, scaler: &str, readings: Readings) {
        self.change(|all| {
            all.entry(namespace.to_owned()).or_default().insert(scaler.to_owned(), readings);
        });
    }

    /// The scaler is gone, or no HPA stands in for it any more.
    pub(crate) fn forget(&self, namespace: &str, scaler: &str) {
        self.change(|all| {
            if let Some(scalers) = all.get_mut(namespace) {
                scalers.remove(scaler);
                if scalers.is_empty() {
                    all.remove(namespace);
                }
            }
        });
    }

    /// The values of a metric whose labels `selector` picks.
    pub(super) fn get(&self, namespace: &str, metric: &str, selector: &Selector) -> Result<Vec<Item>, NoValue> {
        if !*self.leading.borrow() {
            return Err(NoValue::NotLeader);
        }
        let all = self.scalers.read().unwrap_or_else(PoisonError::into_inner);
        let (mut items, mut known) = (vec![], false);
        for readings in all.get(namespace).into_iter().flat_map(BTreeMap::values) {
            let Some((_, value)) = readings.metrics.iter().find(|(name, _)| name == metric) else { continue };
            known = true;
            if !selector.matches(&BTreeMap::from([(SCALER.to_owned(), readings.label.clone())])) {
                continue;
            }
            if Instant::now() >= readings.until {
                let age = Timestamp::now().duration_since(readings.at).unsigned_abs();
                return Err(NoValue::Stale { metric: metric.to_owned(), age });
            }
            match value {
                Ok(value) => items.push(Item { label: readings.label.clone(), value: *value, at: readings.at }),
                Err(why) => return Err(NoValue::Unknown { metric: metric.to_owned(), why: why.clone() }),
            }
        }
        if known { Ok(items) } else { Err(NoValue::Nothing { namespace: namespace.to_owned(), metric: metric.to_owned() }) }
    }

    fn change(&self, change: impl FnOnce(&mut Scalers)) {
        change(&mut self.scalers.write().unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::external_metrics::selector::parse;

    fn readings(label: &str, metrics: &[(&str, Result<f64, &str>)]) -> Readings {
        let metrics = metrics.iter().map(|(name, value)| ((*name).to_owned(), value.map(Milli::of).map_err(ToOwned::to_owned)));
        Readings {
            label: label.to_owned(),
            metrics: metrics.collect(),
            at: Timestamp::now(),
            until: Instant::now() + Duration::from_secs(60),
        }
    }

    fn values(published: &Published, metric: &str, selector: &str) -> Result<Vec<Milli>, NoValue> {
        let items = published.get("serving", metric, &parse(selector).unwrap())?;
        Ok(items.into_iter().map(|item| item.value).collect())
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_known_is_never_a_value() {
        let published = Published::default();
        published.put("serving", "a", readings("a", &[("queue", Ok(3.0))]));
        assert_eq!(values(&published, "queue", ""), Err(NoValue::NotLeader));
        published.lead(true);
        assert!(matches!(values(&published, "queue", ""), Err(NoValue::Nothing { .. })), "read under another leader");
        published.put("serving", "a", readings("a", &[("queue", Ok(3.0)), ("running", Err("connection refused"))]));
        assert_eq!(values(&published, "queue", "scaler=a"), Ok(vec![Milli::of(3.0)]));
        assert_eq!(values(&published, "queue", "scaler=b"), Ok(vec![]));
        assert!(values(&published, "running", "").unwrap_err().to_string().contains("connection refused"));
        assert!(published.get("elsewhere", "queue", &Selector::default()).is_err());
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(matches!(values(&published, "queue", ""), Err(NoValue::Stale { .. })));
        published.forget("serving", "a");
        assert!(matches!(values(&published, "queue", ""), Err(NoValue::Nothing { .. })));
    }

    #[tokio::test(start_paused = true)]
    async fn scalers_whose_metrics_have_the_same_name_are_told_apart_by_label() {
        let published = Published::default();
        published.lead(true);
        // Scaler `a` with metric `b-c`, and scaler `a-b` with metric `c`.
        published.put("serving", "a", readings("a", &[("llmscaler-a-b-c", Ok(1.0))]));
        published.put("serving", "a-b", readings("a-b", &[("llmscaler-a-b-c", Err("no answer"))]));
        assert_eq!(values(&published, "llmscaler-a-b-c", "scaler=a"), Ok(vec![Milli::ONE]));
        assert!(values(&published, "llmscaler-a-b-c", "").is_err());
    }
}
