//! Requests, and what was promised to those who send them.

use serde::Serialize;

/// One request, as it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Request {
    /// When it arrives, in seconds.
    pub at: f64,
    /// Tokens of its prompt, at least 1.
    pub prompt: u32,
    /// Tokens of its answer, at least 1.
    pub output: u32,
    /// Leading tokens of its prompt that an unbounded shared prefix cache would hold; less than `prompt`.
    pub reusable_prefix: u32,
}

/// The latencies that were promised, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Promised {
    /// Time to first token.
    pub ttft: f64,
    /// Mean time per output token after the first.
    pub tpot: f64,
}

impl Promised {
    /// Whether a request that was served kept both promises.
    #[must_use]
    pub fn kept_by(&self, served: &Served) -> bool {
        served.ttft <= self.ttft && served.tpot.is_none_or(|tpot| tpot <= self.tpot)
    }
}

/// A request that was answered to its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Served {
    /// When it arrived.
    pub arrived: f64,
    /// Tokens of its prompt.
    pub prompt: u32,
    /// Tokens of its answer.
    pub output: u32,
    /// Seconds from arrival to the first token, as the client sees it.
    pub ttft: f64,
    /// Mean seconds per token after the first; `None` with a single token.
    pub tpot: Option<f64>,
    /// When its last token came.
    pub finished: f64,
}
