//! What the headroom law measures: the fields of [`Traffic`], from Prometheus or from scraped pages.
//!
//! Every input stands alone. What is not there, cannot be read or was observed too seldom is `None`, and never 0; what the law does
//! without it is said in `docs/presets.md`, as is which software states what.
//!
//! # What the numbers are
//!
//! * **Arrivals.** A router counts requests as they come. An engine counts them as they end, which lags by the time that they take
//!   and never exceeds what is served. So from engines arrivals are what ended, and the rise of what runs and waits: each request
//!   that came in a window has ended in it or is still there.
//! * **Prompt tokens** are arrivals × the mean prompt of the last minute, less what was found in a cache where that is stated: tokens
//!   are counted when a prompt has been computed (vLLM) or answered (routers, SGLang), and would lag behind the arrivals that they
//!   belong to. When no prompt was counted for a minute, it is the mean since the processes began.
//! * **Prompt lengths** are those of requests that ended in the last minute, cached tokens included, as the histograms have them.
//! * **Latencies** are measured ones, never predicted. Of TPOT only the mean of a request counts, as the promise is about it; a
//!   software that states only the gaps between tokens has none.
//! * **Recent** inputs (time between tokens, late requests) are of the last 15 s; of the last 30 s where pages are read too seldom
//!   for that. Their counts say of how many.
//! * **KV tokens** of a replica are those of its engines, added, and the mean over the replicas that state them; those in use are
//!   each target's share in use × its own size.

mod kv;

use llmscaler_engine::{
    Bucket, Finished, InterToken, Late, Measurement, Rates, Traffic, histogram_quantile, share_above, squared_variation,
};

pub(crate) use self::kv::{BLOCK_SIZE, BLOCKS, tokens_of};
use crate::preset::Signal;
use crate::prometheus::{Error, PrometheusClient, Series};

/// The windows of arrivals in seconds.
pub(crate) const WINDOWS: [u32; 3] = [15, 30, 60];

/// The window of finished requests and their outputs in seconds.
pub(crate) const LONG: u32 = 120;

/// The windows of recent inputs in seconds, the preferred one first.
pub(crate) const RECENT: [u32; 2] = [15, 30];

/// Every signal that [`Traffic`] is made of: what [`Scrape::new`](crate::Scrape::new) must be told to keep.
pub const TRAFFIC_SIGNALS: [Signal; 19] = [
    Signal::Requests,
    Signal::Prompts,
    Signal::PromptTokens,
    Signal::CachedTokens,
    Signal::PromptLength,
    Signal::FinishedRequests,
    Signal::FinishedTokens,
    Signal::OutputLength,
    Signal::InterTokenTime,
    Signal::InterTokens,
    Signal::QueuedRequests,
    Signal::EndpointQueue,
    Signal::ReadyEndpoints,
    Signal::RunningRequests,
    Signal::KvCacheUsage,
    Signal::KvCacheTokens,
    Signal::CacheConfig,
    Signal::Ttft,
    Signal::RequestTpot,
];

/// The latencies that users are promised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promised {
    /// Time to first token in seconds.
    pub ttft: f64,
    /// Mean time per output token of a request in seconds.
    pub tpot: f64,
}

/// One PromQL query for each input; `None` where the software does not state it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrafficQueries {
    /// Requests per second that arrived in the last 15 s.
    pub arrivals_15s: Option<String>,
    /// The same of the last 30 s.
    pub arrivals_30s: Option<String>,
    /// The same of the last 60 s.
    pub arrivals_60s: Option<String>,
    /// Mean prompt in tokens, less the cached ones.
    pub mean_prompt: Option<String>,
    /// Requests of the last 60 s by prompt length, cumulative, by `le`.
    pub prompt_lengths: Option<String>,
    /// Requests finished in the last 120 s.
    pub finished: Option<String>,
    /// Their output tokens.
    pub output_tokens: Option<String>,
    /// The same requests by output length, cumulative, by `le`.
    pub output_lengths: Option<String>,
    /// Mean time between tokens in seconds.
    pub inter_token: Option<String>,
    /// Of how many gaps that is the mean.
    pub inter_tokens: Option<String>,
    /// Requests that wait.
    pub waiting: Option<String>,
    /// Requests that run.
    pub running: Option<String>,
    /// Share of the KV cache in use, by target.
    pub kv_usage: Option<String>,
    /// Tokens of the KV cache, by target: the value, or the product of the labels `num_gpu_blocks` and `block_size`.
    pub kv_capacity: Option<String>,
    /// Recent requests by TTFT in seconds, cumulative, by `le`.
    pub ttft: Option<String>,
    /// Recent requests by mean TPOT in seconds, cumulative, by `le`.
    pub tpot: Option<String>,
}

impl PrometheusClient {
    /// Asks for every input at the same time. What gives no usable answer is `None`, and logged for whoever looks for the reason.
    pub async fn traffic(&self, queries: &TrafficQueries, promised: &Promised) -> Traffic {
        let number = |query| self.traffic_number(query);
        let buckets = |query| self.traffic_buckets(query);
        let arrivals = async { tokio::join!(number(&queries.arrivals_15s), number(&queries.arrivals_30s), number(&queries.arrivals_60s)) };
        let outputs = async { tokio::join!(number(&queries.finished), number(&queries.output_tokens), buckets(&queries.output_lengths)) };
        let tokens = async { tokio::join!(number(&queries.inter_token), number(&queries.inter_tokens)) };
        let requests = async { tokio::join!(number(&queries.waiting), number(&queries.running)) };
        let late = async { tokio::join!(buckets(&queries.ttft), buckets(&queries.tpot)) };
        let cache = async { tokio::join!(self.traffic_series(&queries.kv_usage), self.traffic_series(&queries.kv_capacity)) };
        let (mean_prompt, lengths) = (number(&queries.mean_prompt), buckets(&queries.prompt_lengths));

        let (arrivals, mean_prompt, lengths, outputs, tokens, requests, late, cache) =
            tokio::join!(arrivals, mean_prompt, lengths, outputs, tokens, requests, late, cache);
        let ((over_15s, over_30s, over_60s), (finished, output_tokens, outputs)) = (arrivals, outputs);
        let arrivals = Rates { over_15s, over_30s, over_60s };
        let (kv_capacity, kv_used) = kv::tokens(cache.0.as_deref().unwrap_or_default(), cache.1.as_deref().unwrap_or_default());
        Traffic {
            arrivals,
            prompt_tokens: prompt_tokens(arrivals, mean_prompt),
            prompt_variation: lengths.as_deref().and_then(variation),
            prompt_lengths: lengths.as_deref().map(alone),
            finished: finished.zip(output_tokens).map(|(requests, output_tokens)| Finished { requests, output_tokens }),
            median_output: outputs.as_deref().and_then(median),
            inter_token: tokens.0.zip(tokens.1).map(|(mean, count)| InterToken { mean, count }),
            waiting: requests.0,
            kv_capacity,
            kv_used,
            running: requests.1,
            late_ttft: late.0.as_deref().and_then(|buckets| later_than(promised.ttft, buckets)),
            late_tpot: late.1.as_deref().and_then(|buckets| later_than(promised.tpot, buckets)),
        }
    }

    async fn traffic_number(&self, query: &Option<String>) -> Option<Measurement> {
        Measurement::new(logged(self.query_number(query.as_deref()?).await)?)
    }

    async fn traffic_buckets(&self, query: &Option<String>) -> Option<Vec<Bucket>> {
        logged(self.query_buckets(query.as_deref()?).await)
    }

    async fn traffic_series(&self, query: &Option<String>) -> Option<Vec<Series>> {
        logged(self.query_series(query.as_deref()?).await)
    }
}

fn logged<T>(answer: Result<T, Error>) -> Option<T> {
    answer.inspect_err(|why| tracing::debug!(%why, "an input of the headroom law is not known")).ok()
}

/// Arrivals × the mean prompt; without arrivals there are no tokens, whatever the mean is.
pub(crate) fn prompt_tokens(arrivals: Rates, mean: Option<Measurement>) -> Rates {
    let tokens = |rate: Option<Measurement>| match (rate?.get(), mean) {
        (0.0, _) => Some(Measurement::ZERO),
        (rate, mean) => Measurement::new(rate * mean?.get()),
    };
    Rates { over_15s: tokens(arrivals.over_15s), over_30s: tokens(arrivals.over_30s), over_60s: tokens(arrivals.over_60s) }
}

pub(crate) fn variation(buckets: &[Bucket]) -> Option<Measurement> {
    squared_variation(buckets.iter().copied()).and_then(Measurement::new)
}

pub(crate) fn median(buckets: &[Bucket]) -> Option<Measurement> {
    Measurement::new(histogram_quantile(0.5, buckets.iter().copied()))
}

/// Those of the requests that took longer than `promise`. Of a histogram that counted none it is known that none of none did: answers of
/// one token have no time per token. `None` without the bucket without end.
pub(crate) fn later_than(promise: f64, buckets: &[Bucket]) -> Option<Late> {
    let ends = buckets.iter().filter(|bucket| bucket.upper == f64::INFINITY).map(|bucket| bucket.count);
    let of = ends.reduce(|sum, count| sum + count)?;
    let share = share_above(promise, buckets.iter().copied()).unwrap_or(0.0);
    Some(Late { share: Measurement::new(share)?, of: Measurement::new(of)? })
}

/// From cumulative buckets, lowest first, what each holds alone. A bucket below the one before it, as rounding and pods that were not
/// read at the same moment bring it, holds nothing.
pub(crate) fn alone(buckets: &[Bucket]) -> Vec<Bucket> {
    let mut below = 0.0_f64;
    let alone = buckets.iter().map(|bucket| {
        let count = (bucket.count - below).max(0.0);
        below = below.max(bucket.count);
        Bucket { count, ..*bucket }
    });
    alone.collect()
}
