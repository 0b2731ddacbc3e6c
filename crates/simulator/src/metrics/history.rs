//! The scrapes of the last minutes.

use std::collections::VecDeque;

use super::PodMeters;
use crate::meters::Latencies;
use crate::{EngineMeters, GatewayMeters};

/// Seconds that are kept: the longest window that is asked for, and what lies between it and now.
pub(super) const KEPT: f64 = 150.0;

/// Moments that are closer than this are the same.
pub(super) const SAME_MOMENT: f64 = 1e-6;

/// What one scrape found.
#[derive(Clone, Debug)]
pub(super) struct Scraped {
    pub at: f64,
    /// Of the gateway, without the latencies one by one.
    pub gateway: GatewayMeters,
    /// The counters of all the pods that there have been: their rates are the sums of those of the pods.
    pub engines: EngineMeters,
    /// The gauges of each pod.
    pub pods: Vec<PodGauges>,
}

/// What one pod stated of the moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PodGauges {
    pub id: u64,
    pub serving: bool,
    pub running: u32,
    pub waiting: u32,
    pub kv_tokens: u64,
}

impl Scraped {
    /// The gauges of the pods that take requests.
    pub fn serving(&self) -> impl Iterator<Item = &PodGauges> {
        self.pods.iter().filter(|pod| pod.serving)
    }

    /// Adds what a pod has counted since it was `seen`.
    pub fn add(&mut self, pod: &PodMeters<'_>, seen: &mut EngineMeters) {
        let PodMeters { id, serving, meters } = *pod;
        let total = &mut self.engines;
        for (total, now, seen) in [
            (&mut total.finished, meters.finished, &mut seen.finished),
            (&mut total.prompt_tokens, meters.prompt_tokens, &mut seen.prompt_tokens),
            (&mut total.cached_tokens, meters.cached_tokens, &mut seen.cached_tokens),
            (&mut total.output_tokens, meters.output_tokens, &mut seen.output_tokens),
            (&mut total.preemptions, meters.preemptions, &mut seen.preemptions),
        ] {
            *total += now.saturating_sub(*seen);
            *seen = now;
        }
        for (total, now, seen) in [
            (&mut total.ttft, &meters.ttft, &mut seen.ttft),
            (&mut total.inter_token, &meters.inter_token, &mut seen.inter_token),
            (&mut total.request_tpot, &meters.request_tpot, &mut seen.request_tpot),
            (&mut total.prompt_length, &meters.prompt_length, &mut seen.prompt_length),
            (&mut total.output_length, &meters.output_length, &mut seen.output_length),
        ] {
            total.add_growth(now, seen);
        }
        self.pods.push(PodGauges { id, serving, running: meters.running, waiting: meters.waiting, kv_tokens: meters.kv_tokens });
    }
}

/// The scrapes of the last [`KEPT`] seconds, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct History(VecDeque<Scraped>);

impl History {
    /// When the last scrape was; before everything if there was none.
    pub fn latest_at(&self) -> f64 {
        self.0.back().map_or(f64::NEG_INFINITY, |scraped| scraped.at)
    }

    /// A scrape that goes on from the last one, the gateway read and no pod yet.
    pub fn next(&self, now: f64, gateway: &GatewayMeters) -> Scraped {
        Scraped {
            at: now,
            gateway: without_latest(gateway),
            engines: self.0.back().map(|last| last.engines.clone()).unwrap_or_default(),
            pods: Vec::new(),
        }
    }

    pub fn push(&mut self, scraped: Scraped) {
        while self.0.front().is_some_and(|oldest| oldest.at < scraped.at - KEPT - SAME_MOMENT) {
            self.0.pop_front();
        }
        self.0.push_back(scraped);
    }

    /// The newest scrape that is not after `horizon`.
    pub fn newest(&self, horizon: f64) -> Option<&Scraped> {
        self.0.partition_point(|scraped| scraped.at <= horizon).checked_sub(1).map(|index| &self.0[index])
    }

    /// The scrapes in [`from`, `horizon`], oldest first.
    pub fn between(&self, from: f64, horizon: f64) -> impl DoubleEndedIterator<Item = &Scraped> + ExactSizeIterator {
        let start = self.0.partition_point(|scraped| scraped.at < from - SAME_MOMENT);
        let end = self.0.partition_point(|scraped| scraped.at <= horizon).max(start);
        self.0.range(start..end)
    }
}

fn without_latest(gateway: &GatewayMeters) -> GatewayMeters {
    GatewayMeters {
        arrivals: gateway.arrivals,
        prompt_tokens: gateway.prompt_tokens,
        prompt_length: gateway.prompt_length.clone(),
        prompt_length_ideal: gateway.prompt_length_ideal.clone(),
        finished: gateway.finished,
        output_tokens: gateway.output_tokens,
        output_length: gateway.output_length.clone(),
        ttft: gateway.ttft.clone(),
        tpot: gateway.tpot.clone(),
        predicted_ttft: gateway.predicted_ttft.clone(),
        predicted_tpot: gateway.predicted_tpot.clone(),
        latest: Latencies::default(),
        queued: gateway.queued,
        in_flight: gateway.in_flight,
    }
}
