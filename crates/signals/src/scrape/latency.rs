//! Quantiles of the latencies that users are promised, and the proof of idleness.

use std::collections::BTreeMap;

use llmscaler_engine::{Bucket, Reading, Time, histogram_quantile};

use super::fleet::{self, Part, Share};
use super::instance::Instance;
use super::signal::{no_series, value};
use super::wanted::Wanted;
use super::{Scrape, Targets};
use crate::preset::{Latency, Row, Signal};
use crate::slo::{Quantile, latency_reading};

/// Rates of buckets by the bits of their bounds.
type Buckets = BTreeMap<u64, f64>;

impl Scrape {
    /// A quantile, 0 to 1, of a latency in seconds, over the requests of the last window; predicted ones count before measured ones.
    /// Without requests it is idle where that is proved; see the [module](super) and [`latency_reading`].
    #[must_use]
    pub fn latency(&self, latency: Latency, quantile: f64, now: Time) -> Reading {
        let what = match latency {
            Latency::Ttft => "the TTFT quantile",
            Latency::Tpot => "the TPOT quantile",
        };
        let found = self.quantile(latency, quantile, now).unwrap_or_else(Quantile::Failed);
        latency_reading(what, found, &self.in_flight(now).map_or_else(Reading::unknown, Reading::from_number))
    }

    /// The quantile; the error is why it cannot be told.
    fn quantile(&self, latency: Latency, quantile: f64, now: Time) -> Result<Quantile, String> {
        let Targets { synced: true, .. } = &self.targets else { return Err("nothing has been read yet".to_owned()) };
        let [predicted, measured] = latency.signals();
        if let Some(wanted) = &self.engine {
            let (_, row) = wanted.signal(measured).ok_or_else(not_read)?;
            if self.targets.pods.is_empty() {
                return Ok(Quantile::NoSeries);
            }
            return Ok(Quantile::Of(histogram(self.pool(wanted, row, quantile, now)?, quantile)));
        }
        let wanted = self.router.as_ref().ok_or_else(not_read)?;
        if let Some((_, row)) = wanted.signal(predicted) {
            let seconds = histogram(self.routed_buckets(wanted, row, now)?, quantile);
            if seconds >= 0.0 {
                return Ok(Quantile::Of(seconds));
            }
        }
        let (_, row) = wanted.signal(measured).ok_or_else(not_read)?;
        Ok(Quantile::Of(histogram(self.routed_buckets(wanted, row, now)?, quantile)))
    }

    /// The rates of the pods' buckets, added. Each missing pod counts as the slowest of the others.
    fn pool(&self, wanted: &Wanted, row: &Row, quantile: f64, now: Time) -> Result<Buckets, String> {
        let parts: Vec<Part<'_, Buckets>> = self
            .ready_pods()
            .map(|pod| {
                let share = match (self.stuck(pod, now), self.buckets(pod, wanted, row, now)) {
                    (Some(why), _) => Share::Missing(why, None),
                    (None, Ok(buckets)) => Share::Known(buckets),
                    (None, Err(_)) if pod.is_new() => Share::New,
                    (None, Err(why)) => Share::Missing(why, None),
                };
                (pod.name.as_str(), share)
            })
            .collect();
        let missing = fleet::missing(&parts)?.len();
        let known: Vec<&Buckets> =
            parts.iter().filter_map(|(_, share)| if let Share::Known(buckets) = share { Some(buckets) } else { None }).collect();
        if known.is_empty() {
            return Err("every ready pod has been read once only, and a rate needs two readings; it is known at the next sync".to_owned());
        }
        let slow = |buckets: &Buckets| histogram(buckets.clone(), quantile);
        let slowest = known.iter().copied().filter(|buckets| slow(buckets) >= 0.0).max_by(|a, b| slow(a).total_cmp(&slow(b)));
        let assumed = slowest.into_iter().cycle().take(missing);
        Ok(added(known.iter().copied().chain(assumed)))
    }

    fn routed_buckets(&self, wanted: &Wanted, row: &Row, now: Time) -> Result<Buckets, String> {
        let mut each = Vec::new();
        for router in self.read_routers() {
            // A router states a histogram from the first request on.
            let buckets = router.page().map_err(str::to_owned).and_then(|_| self.rates_of(router, wanted, row, now).ok_or_else(once));
            each.push(buckets.map_err(|why| format!("router {}: {why}", router.name))?);
        }
        if each.is_empty() {
            return Err(
                "no address of the router is known; set scrape.eppService, and check that the Service has ready endpoints".to_owned()
            );
        }
        Ok(added(&each))
    }

    /// The rates of one pod's buckets.
    fn buckets(&self, pod: &Instance, wanted: &Wanted, row: &Row, now: Time) -> Result<Buckets, String> {
        let rates = self.rates_of(pod, wanted, row, now).ok_or_else(|| pod.page().map_or_else(str::to_owned, |_| once()))?;
        if rates.is_empty() { Err(no_series(row)) } else { Ok(rates) }
    }

    fn rates_of(&self, instance: &Instance, wanted: &Wanted, row: &Row, now: Time) -> Option<Buckets> {
        let (family, _) = wanted.signal(row.signal)?;
        let mut buckets = Buckets::new();
        for (series, rate) in instance.rates(family, self.window, now)? {
            *buckets.entry(series.upper().to_bits()).or_default() += rate;
        }
        Some(buckets)
    }

    /// Requests that run or are queued, by everybody who should know; what is not known is why.
    fn in_flight(&self, now: Time) -> Result<f64, String> {
        let mut load = 0.0;
        for pod in self.ready_pods() {
            let Some(wanted) = &self.engine else { break };
            for signal in [Signal::RunningRequests, Signal::QueuedRequests] {
                let (_, row) = wanted.signal(signal).ok_or_else(not_read)?;
                match self.share(pod, wanted, row, now) {
                    Share::Known(requests) => load += requests,
                    Share::New => {}
                    Share::Missing(why, _) => return Err(format!("pod {}: {why}", pod.name)),
                }
            }
        }
        for router in self.read_routers() {
            let Some(wanted) = &self.router else { break };
            let page = router.page().map_err(|why| format!("router {}: {why}", router.name))?;
            let (_, running) = wanted.signal(Signal::RunningRequests).ok_or_else(not_read)?;
            // A router without flow control has no queue of its own; then what runs is all there is.
            let runs =
                value(wanted, Signal::RunningRequests, page).ok_or_else(|| format!("router {}: {}", router.name, no_series(running)))?;
            load += runs + value(wanted, Signal::QueuedRequests, page).unwrap_or_default();
        }
        let nobody = self.targets.routers.is_empty() && (self.engine.is_none() || self.targets.pods.is_empty());
        if nobody { Err("there is neither a ready pod nor a router to ask".to_owned()) } else { Ok(load) }
    }
}

fn not_read() -> String {
    "it is not read; check that the preset has it".to_owned()
}

fn once() -> String {
    "it has been read once only, and a rate needs two readings".to_owned()
}

fn histogram(buckets: Buckets, quantile: f64) -> f64 {
    histogram_quantile(quantile, buckets.into_iter().map(|(upper, count)| Bucket { upper: f64::from_bits(upper), count }))
}

fn added<'a>(each: impl IntoIterator<Item = &'a Buckets>) -> Buckets {
    let mut sum = Buckets::new();
    for (upper, rate) in each.into_iter().flatten() {
        *sum.entry(*upper).or_default() += rate;
    }
    sum
}
