//! What the headroom law measures of a pool's traffic.

use crate::{Bucket, Measurement};

/// What was measured of a pool's traffic at one sync, for [`crate::Law::Headroom`]. Whatever is `None` is not known, and is never
/// taken to be 0; what the law does without it is said there.
///
/// The number of replicas, and how many of them are ready, come from [`crate::Workload`] and never from metrics. The saturation of
/// the pool, which the law falls back to when arrivals are unknown, is the source's own [`crate::Reading`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Requests that arrive per second, at the gateway where there is one. Completions are a poor substitute: they say what is
    /// served, not what is asked for.
    pub arrivals: Rates,
    /// Prompt tokens per second of those arrivals, less the cached ones where these are known.
    pub prompt_tokens: Rates,
    /// Squared coefficient of variation (variance ÷ mean²) of the prompt length over the last 60 s.
    pub prompt_variation: Option<Measurement>,
    /// Arrivals of the last 60 s by prompt length in tokens: not cumulative, each count that of the lengths above the bucket before.
    pub prompt_lengths: Option<Vec<Bucket>>,
    /// Requests finished in the last 120 s.
    pub finished: Option<Finished>,
    /// Median output length in tokens of the requests finished in the last 120 s.
    pub median_output: Option<Measurement>,
    /// Time between tokens over the last 15 s.
    pub inter_token: Option<InterToken>,
    /// Requests that wait, at ready replicas and in the gateway's queue.
    pub waiting: Option<Measurement>,
    /// KV cache of one replica in tokens.
    pub kv_capacity: Option<Measurement>,
    /// KV cache in use, in tokens, of all ready replicas.
    pub kv_used: Option<Measurement>,
    /// Requests that run on ready replicas.
    pub running: Option<Measurement>,
    /// Requests of the last 15 s whose first token was later than promised.
    pub late_ttft: Option<Late>,
    /// Requests of the last 15 s whose mean time per output token was longer than promised.
    pub late_tpot: Option<Late>,
}

/// A rate per second over windows of three lengths.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Over the last 15 s.
    pub over_15s: Option<Measurement>,
    /// Over the last 30 s.
    pub over_30s: Option<Measurement>,
    /// Over the last 60 s. Without it the rate is unknown; the shorter windows only see a rise sooner.
    pub over_60s: Option<Measurement>,
}

/// Requests that have finished.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finished {
    /// How many.
    pub requests: Measurement,
    /// Their output tokens.
    pub output_tokens: Measurement,
}

/// Time between two tokens of the same request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InterToken {
    /// Its mean in seconds.
    pub mean: Measurement,
    /// Of how many gaps.
    pub count: Measurement,
}

/// Requests that took longer than was promised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Late {
    /// Their share, 0 to 1; see [`crate::share_above`].
    pub share: Measurement,
    /// Of how many requests.
    pub of: Measurement,
}
