//! What replicas and the gateway count, as their `/metrics` would state it: counters only ever grow, gauges are of the moment.

use std::collections::VecDeque;

use llmscaler_engine::Bucket;

use crate::buckets;

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

    /// Adds what `now` has counted beyond `seen`, and lets `seen` catch up.
    pub(crate) fn add_growth(&mut self, now: &Self, seen: &mut Self) {
        for ((total, now), seen) in self.each.iter_mut().zip(&now.each).zip(&mut seen.each) {
            *total += now.saturating_sub(*seen);
            *seen = *now;
        }
        self.sum += (now.sum - seen.sum).max(0.0);
        seen.sum = now.sum;
    }

    /// What was counted since `before`, an earlier state of the same counts.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let each = self.each.iter().zip(&before.each).map(|(now, before)| now.saturating_sub(*before)).collect();
        Self { bounds: self.bounds, each, sum: (self.sum - before.sum).max(0.0) }
    }
}

/// The latest values of something, each with its time: what no histogram tells, for those who would know better than a cluster can.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples(VecDeque<(f64, f64)>);

impl Samples {
    /// Seconds for which values are kept; they are to be collected more often than that.
    const KEPT: f64 = 30.0;

    /// Adds a value of the time `at`, which is not before that of any other.
    pub fn add(&mut self, at: f64, value: f64) {
        self.0.push_back((at, value));
        self.forget_until(at - Self::KEPT);
    }

    /// Forgets the values of `time` and before.
    pub(crate) fn forget_until(&mut self, time: f64) {
        while self.0.front().is_some_and(|(at, _)| *at <= time) {
            self.0.pop_front();
        }
    }

    /// Takes over what `latest` has of the times after `after`.
    pub(crate) fn collect(&mut self, latest: &Self, after: f64) {
        let from = latest.0.partition_point(|(at, _)| *at <= after);
        self.0.extend(latest.0.range(from..));
    }

    /// The values of the times in (`after`, `until`].
    pub(crate) fn within(&self, after: f64, until: f64) -> impl Iterator<Item = f64> + '_ {
        let range = self.0.partition_point(|(at, _)| *at <= after)..self.0.partition_point(|(at, _)| *at <= until);
        self.0.range(range).map(|(_, value)| *value)
    }
}

/// The latest latencies one by one, in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies {
    /// Times to first token, when they came.
    pub ttft: Samples,
    /// Mean times per output token of requests, when these were complete.
    pub tpot: Samples,
    /// Times to first token as predicted when requests were routed.
    pub predicted_ttft: Samples,
    /// Times per output token as predicted when requests were routed.
    pub predicted_tpot: Samples,
}

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
    /// The same in powers of two, which the router does not keep.
    pub prompt_length_ideal: Counts,
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
    /// The latest of these four latencies one by one; each value goes here and into its histogram.
    pub latest: Latencies,
    /// Requests that are held back for lack of a ready replica now.
    pub queued: u32,
    /// Requests that are with a replica now, running or waiting.
    pub in_flight: u32,
}

impl Default for EngineMeters {
    fn default() -> Self {
        Self {
            finished: 0,
            prompt_tokens: 0,
            cached_tokens: 0,
            output_tokens: 0,
            preemptions: 0,
            ttft: Counts::new(buckets::VLLM_TTFT),
            inter_token: Counts::new(buckets::VLLM_TPOT),
            request_tpot: Counts::new(buckets::VLLM_TPOT),
            prompt_length: Counts::new(buckets::VLLM_LENGTH),
            output_length: Counts::new(buckets::VLLM_LENGTH),
            running: 0,
            waiting: 0,
            kv_tokens: 0,
        }
    }
}

impl Default for GatewayMeters {
    fn default() -> Self {
        Self {
            arrivals: 0,
            prompt_tokens: 0,
            prompt_length: Counts::new(buckets::EPP_PROMPT),
            prompt_length_ideal: Counts::new(buckets::POWERS_OF_TWO),
            finished: 0,
            output_tokens: 0,
            output_length: Counts::new(buckets::EPP_OUTPUT),
            ttft: Counts::new(buckets::EPP_TTFT),
            tpot: Counts::new(buckets::EPP_TPOT),
            predicted_ttft: Counts::new(buckets::EPP_PREDICTED_TTFT),
            predicted_tpot: Counts::new(buckets::EPP_PREDICTED_TPOT),
            latest: Latencies::default(),
            queued: 0,
            in_flight: 0,
        }
    }
}
