//! Gauges and rates.

use super::history::{PodGauges, Scraped};
use super::{Group, Metrics};

/// One pod at its worst within a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PodPeak {
    /// Which pod.
    pub id: u64,
    /// The largest share of its KV cache that was in use, 0 to 1.
    pub kv_usage: f64,
    /// The most requests that waited in it.
    pub waiting: u32,
}

impl Metrics {
    /// Requests that the gateway holds back; `None` without a gateway.
    #[must_use]
    pub fn queued(&self, now: f64) -> Option<f64> {
        let scraped = self.newest(Group::Waiting, now).filter(|_| self.settings.gateway)?;
        Some(f64::from(scraped.gateway.queued))
    }

    /// Requests that wait, in the gateway and in pods which take requests.
    #[must_use]
    pub fn waiting(&self, now: f64) -> Option<f64> {
        let scraped = self.newest(Group::Waiting, now)?;
        Some(self.held_back(scraped) + scraped.serving().map(|pod| f64::from(pod.waiting)).sum::<f64>())
    }

    /// Requests that run in pods which take requests.
    #[must_use]
    pub fn running(&self, now: f64) -> Option<f64> {
        Some(self.newest(Group::Running, now)?.serving().map(|pod| f64::from(pod.running)).sum())
    }

    /// Requests that are with pods, running or waiting there.
    #[must_use]
    pub fn with_pods(&self, now: f64) -> Option<f64> {
        Some(self.with_pods_at(self.newest(Group::InFlight, now)?))
    }

    /// Requests in flight: held back, waiting or running.
    #[must_use]
    pub fn in_flight(&self, now: f64) -> Option<f64> {
        Some(self.in_flight_at(self.newest(Group::InFlight, now)?))
    }

    /// Their mean over the scrapes of a window of `seconds` that ends `now`.
    #[must_use]
    pub fn in_flight_mean(&self, now: f64, seconds: f64) -> Option<f64> {
        if self.misses(Group::InFlight, now) {
            return None;
        }
        mean(self.history.between(now - seconds, self.horizon(now)).map(|scraped| self.in_flight_at(scraped)))
    }

    /// Tokens in the KV caches of the pods that take requests.
    #[must_use]
    pub fn kv_used(&self, now: f64) -> Option<f64> {
        Some(self.newest(Group::Running, now)?.serving().map(|pod| pod.kv_tokens as f64).sum())
    }

    /// Share of the KV cache in use, 0 to 1: the mean of the pods, `None` when there is none.
    #[must_use]
    pub fn kv_usage(&self, now: f64) -> Option<f64> {
        mean(self.newest(Group::Running, now)?.serving().map(|pod| pod.kv_tokens as f64 / self.kv_tokens))
    }

    /// Saturation of the pool as the llm-d router's utilization detector states it: the mean over the pods of the larger of
    /// waiting ÷ 5 and KV usage ÷ 0.8; 1 when there is no pod.
    #[must_use]
    pub fn pool_saturation(&self, now: f64) -> Option<f64> {
        let of = |pod: &PodGauges| (f64::from(pod.waiting) / 5.0).max(pod.kv_tokens as f64 / self.kv_tokens / 0.8);
        Some(mean(self.newest(Group::Running, now)?.serving().map(of)).unwrap_or(1.0))
    }

    /// The pods that take requests as of the newest scrape, each at its worst within the window of `seconds` that ends `now`, in the order of that scrape.
    #[must_use]
    pub fn pod_peaks(&self, now: f64, seconds: f64) -> Option<Vec<PodPeak>> {
        let newest = self.newest(Group::Running, now)?;
        let peak = |id: u64| {
            let states = self.history.between(now - seconds, self.horizon(now)).flat_map(|scraped| &scraped.pods);
            states.filter(|pod| pod.id == id).fold(PodPeak { id, kv_usage: 0.0, waiting: 0 }, |peak, pod| PodPeak {
                kv_usage: peak.kv_usage.max(pod.kv_tokens as f64 / self.kv_tokens),
                waiting: peak.waiting.max(pod.waiting),
                ..peak
            })
        };
        Some(newest.serving().map(|pod| peak(pod.id)).collect())
    }

    fn held_back(&self, scraped: &Scraped) -> f64 {
        if self.settings.gateway { f64::from(scraped.gateway.queued) } else { 0.0 }
    }

    fn with_pods_at(&self, scraped: &Scraped) -> f64 {
        match self.settings.gateway {
            true => f64::from(scraped.gateway.in_flight),
            false => scraped.pods.iter().map(|pod| f64::from(pod.running) + f64::from(pod.waiting)).sum(),
        }
    }

    pub(super) fn in_flight_at(&self, scraped: &Scraped) -> f64 {
        self.held_back(scraped) + self.with_pods_at(scraped)
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}
