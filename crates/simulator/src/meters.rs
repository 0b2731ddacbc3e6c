//! What replicas and the gateway count, as their `/metrics` would state it: counters only ever grow, gauges are of the moment.

use llmscaler_engine::Bucket;

/// A histogram of fixed bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Counts {
    bounds: &'static [f64],
    /// Observations by bucket, not cumulative; the last one has no end.
    each: Vec<u64>,
    sum: f64,
}

impl Counts {
    /// Without observations. `bounds` are the upper bounds, ascending and finite; the bucket without end is added.
    #[must_use]
    pub fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, each: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    /// Adds `times` observations of `value`.
    pub fn observe(&mut self, value: f64, times: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.each[bucket] += times;
        self.sum += value * times as f64;
    }

    /// Adds `times` observations of which only the mean is known, all in the mean's bucket.
    pub fn observe_sum(&mut self, sum: f64, times: u64) {
        if times > 0 {
            let bucket = self.bounds.partition_point(|bound| *bound < sum / times as f64);
            self.each[bucket] += times;
            self.sum += sum;
        }
    }

    /// How many observations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.each.iter().sum()
    }

    /// Their sum.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// Upper bounds, the last one infinite, with observations by bucket, not cumulative.
    pub fn each(&self) -> impl Iterator<Item = Bucket> + '_ {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        bounds.zip(&self.each).map(|(upper, count)| Bucket { upper, count: *count as f64 })
    }

    /// As Prometheus states it: observations of at most each bound.
    pub fn cumulative(&self) -> impl Iterator<Item = Bucket> + '_ {
        self.each().scan(0.0, |sum, bucket| {
            *sum += bucket.count;
            Some(Bucket { count: *sum, ..bucket })
        })
    }
}

/// Buckets of the llm-d router (EPP) for the time to first token, in seconds.
pub const EPP_TTFT: &[f64] =
    &[0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 120.0];

/// What one replica counts: the figures behind vLLM's names.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineMeters {
    /// Requests whose answer is complete.
    pub finished: u64,
    /// Prompt tokens that were processed, less those found in the prefix cache.
    pub prompt_tokens: u64,
    /// Prompt tokens that were found in the prefix cache.
    pub cached_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Requests that were put back for lack of KV cache.
    pub preemptions: u64,
    /// Time to first token in seconds, observed when it comes.
    pub ttft: Counts,
    /// Time between tokens in seconds, observed at each token after the first.
    pub inter_token: Counts,
    /// Mean time per output token of a request in seconds, observed when it finishes.
    pub request_tpot: Counts,
    /// Prompt length in tokens, observed when the request finishes.
    pub prompt_length: Counts,
    /// Output length in tokens, observed when the request finishes.
    pub output_length: Counts,
    /// Requests in the batch now.
    pub running: u32,
    /// Requests that wait for a place in the batch now.
    pub waiting: u32,
    /// Tokens in the KV cache now.
    pub kv_tokens: u64,
}

/// What the gateway (EPP) counts.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayMeters {
    /// Requests that arrived.
    pub arrivals: u64,
    /// Their prompt tokens.
    pub prompt_tokens: u64,
    /// Their prompt lengths in tokens, observed on arrival.
    pub prompt_length: Counts,
    /// Requests whose answer is complete.
    pub finished: u64,
    /// Output tokens of the requests that are complete.
    pub output_tokens: u64,
    /// Output lengths in tokens, observed when a request is complete.
    pub output_length: Counts,
    /// Time to first token in seconds, observed when it comes.
    pub ttft: Counts,
    /// Mean time per output token of a request in seconds, observed when it is complete.
    pub tpot: Counts,
    /// Time to first token in seconds as predicted when a request was routed.
    pub predicted_ttft: Counts,
    /// Time per output token in seconds as predicted when a request was routed.
    pub predicted_tpot: Counts,
    /// Requests that are held back for lack of a ready replica now.
    pub queued: u32,
    /// Requests that are with a replica now, running or waiting.
    pub in_flight: u32,
}
