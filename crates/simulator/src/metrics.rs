//! What policies can know: the meters as they were scraped, and what Prometheus would make of them.

mod history;
mod latencies;
mod queries;
#[cfg(test)]
mod tests;
mod traffic;
mod window;

use std::collections::BTreeMap;

use llmscaler_engine::Costs;

pub use latencies::{Quantile, Signal, Values};
pub use queries::PodPeak;

use crate::{EngineMeters, GatewayMeters, Latencies};
use history::{History, Scraped};

/// How metrics come about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PipelineSettings {
    /// Seconds between two scrapes.
    pub scrape_interval: f64,
    /// Seconds between two evaluations of recording rules.
    pub rule_interval: f64,
    /// Probability, 0 to 1, that a group of metrics is missing at a moment.
    pub missing: f64,
    /// What the histograms tell.
    pub histograms: Histograms,
    /// Whether there is a gateway that counts arrivals. Without one they are what was finished and what became of the requests in
    /// flight, and nothing is known of requests that are held back.
    pub gateway: bool,
}

impl Default for PipelineSettings {
    fn default() -> Self {
        Self { scrape_interval: 5.0, rule_interval: 15.0, missing: 0.0, histograms: Histograms::Ideal, gateway: true }
    }
}

/// How fine and how fresh metrics are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Histograms {
    /// As the headroom law was specified: exact at the moment of the question, prompt tokens and lengths, these in powers of two, counted
    /// on arrival.
    Ideal,
    /// As a cluster has them: a question is answered from the scrapes before its moment, and histograms are vLLM's, with prompt
    /// lengths in steps of 1, 2, 5 that are observed when a request finishes. Prompt tokens are arrivals × the mean of the prompts
    /// that were computed within a minute, as the operator makes them: a burst of long prompts is seen when these have been computed.
    Real,
}

/// Metrics that go missing together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Counters of arrivals and of their prompt tokens.
    Arrivals,
    /// Prompt lengths.
    PromptLengths,
    /// Counters and lengths of what was finished.
    Outputs,
    /// Times between tokens.
    InterToken,
    /// Requests that wait.
    Waiting,
    /// KV cache in use, and requests that run.
    Running,
    /// Requests in flight as the gateway counts them.
    InFlight,
    /// Latencies as measured.
    Latency,
    /// Latencies as predicted.
    Prediction,
}

/// What one pod states at a scrape.
#[derive(Clone, Copy, Debug)]
pub struct PodMeters<'a> {
    /// Tells the pod from every other of the run.
    pub id: u64,
    /// Whether it takes requests; else it finishes those that it has.
    pub serving: bool,
    /// What it has counted.
    pub meters: &'a EngineMeters,
}

/// The metrics of one run as a policy can know them. What is missing is `None`, and never 0.
#[derive(Clone, Debug)]
pub struct Metrics {
    settings: PipelineSettings,
    /// Tokens in the KV cache of one replica.
    kv_tokens: f64,
    seed: u64,
    history: History,
    /// The meters of each pod as last scraped, whose growth is what counts.
    seen: BTreeMap<u64, EngineMeters>,
    latest: Latencies,
}

impl Metrics {
    /// Before the first scrape. `seed` decides which metrics will be missing.
    #[must_use]
    pub fn new(settings: PipelineSettings, costs: &Costs, seed: u64) -> Self {
        Self {
            settings,
            kv_tokens: f64::from(costs.kv_tokens),
            seed,
            history: History::default(),
            seen: BTreeMap::new(),
            latest: Latencies::default(),
        }
    }

    /// Reads the meters of the gateway and of every pod that answers.
    ///
    /// A pod that is seen first has counted from 0; what one counted after its last scrape is lost. Of pods that are draining the
    /// counters count, and the gauges only where requests in flight are their sum.
    pub fn scrape(&mut self, now: f64, gateway: &GatewayMeters, pods: &[PodMeters<'_>]) {
        let before = self.history.latest_at();
        self.collect_latest(gateway, before, now);
        self.seen.retain(|id, _| pods.iter().any(|pod| pod.id == *id));
        let mut scraped = self.history.next(now, gateway);
        for pod in pods {
            scraped.add(pod, self.seen.entry(pod.id).or_default());
        }
        self.history.push(scraped);
    }

    fn collect_latest(&mut self, gateway: &GatewayMeters, before: f64, now: f64) {
        let (kept, new) = (&mut self.latest, &gateway.latest);
        for (kept, new) in [
            (&mut kept.ttft, &new.ttft),
            (&mut kept.tpot, &new.tpot),
            (&mut kept.predicted_ttft, &new.predicted_ttft),
            (&mut kept.predicted_tpot, &new.predicted_tpot),
        ] {
            kept.collect(new, before);
            kept.forget_until(now - history::KEPT);
        }
    }

    /// How metrics come about.
    #[must_use]
    pub fn settings(&self) -> &PipelineSettings {
        &self.settings
    }

    /// The scrape that a question of this moment is answered from, unless its group is missing.
    fn newest(&self, group: Group, now: f64) -> Option<&Scraped> {
        (!self.misses(group, now)).then(|| self.history.newest(self.horizon(now))).flatten()
    }

    /// The last moment whose scrape has arrived.
    fn horizon(&self, now: f64) -> f64 {
        match self.settings.histograms {
            Histograms::Ideal => now + history::SAME_MOMENT,
            Histograms::Real => now - history::SAME_MOMENT,
        }
    }

    /// Whether a group is missing at a moment: the same for whoever asks, however often.
    fn misses(&self, group: Group, now: f64) -> bool {
        if self.settings.missing <= 0.0 {
            return false;
        }
        let key = self.seed ^ (group as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ now.to_bits().rotate_left(17);
        (mixed(key) >> 11) as f64 / (1_u64 << 53) as f64 >= 1.0 - self.settings.missing
    }
}

/// `SplitMix64`: every bit of the key decides on every bit of the answer.
fn mixed(key: u64) -> u64 {
    let key = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let key = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ (key >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ (key >> 31)
}
