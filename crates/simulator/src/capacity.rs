//! What one replica can take, in closed form.
//!
//! Steps of continuous batching lengthen with the load: at λ requests per second of W seconds of work each, a share λW of the time goes
//! into work that grows with the load, and the rest must hold the fixed part a of every step. So the mean step takes a/(1 − λW).

use llmscaler_engine::Costs;

use crate::Promised;

/// Share of the KV cache that a stable replica fills on average; above it new requests wait for room.
pub(crate) const KV_FILL: f64 = 0.92;

/// Seconds of a replica that a prompt takes. Lengths are in tokens.
pub(crate) fn prefill_work(costs: &Costs, prompt: f64) -> f64 {
    costs.prompt_token * prompt + costs.attention * prompt * prompt / 2.0
}

/// Seconds of a replica that an answer adds to its steps. Lengths are in tokens.
pub(crate) fn decode_work(costs: &Costs, prompt: f64, output: f64) -> f64 {
    output * (costs.sequence + costs.kv_token * (prompt + output / 2.0))
}

/// One replica under requests of given mean lengths. Blind to variance: where answers are a few tokens short, one prompt of someone
/// else decides whether a request is in time, and the replica takes less than this says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// Fixed seconds of every step.
    base: f64,
    /// Mean output tokens of a request.
    output: f64,
    /// Seconds of a replica that a request adds to its steps.
    work: f64,
    /// Most requests that run at once without waiting for KV cache.
    sequences: f64,
}

impl Capacity {
    /// A replica that fills at most the share `kv_fill` of its KV cache, 0 to 1. Lengths are means in tokens.
    #[must_use]
    pub fn new(costs: &Costs, mean_prompt: f64, mean_output: f64, kv_fill: f64) -> Self {
        let context = mean_prompt + mean_output / 2.0;
        let fitting = kv_fill * f64::from(costs.kv_tokens) / context;
        Self {
            base: costs.base(),
            output: mean_output,
            work: prefill_work(costs, mean_prompt) + decode_work(costs, mean_prompt, mean_output),
            sequences: fitting.min(f64::from(costs.max_sequences)),
        }
    }

    /// Seconds of a replica that a request adds to its steps, prompt and answer.
    #[must_use]
    pub fn work(&self) -> f64 {
        self.work
    }

    /// Most requests that run at once without waiting for KV cache or for a place in the batch.
    #[must_use]
    pub fn sequences(&self) -> f64 {
        self.sequences
    }

    /// Mean seconds between two tokens at so many requests per second; infinite where these are more than the replica can work off.
    #[must_use]
    pub fn inter_token(&self, rate: f64) -> f64 {
        let spare = 1.0 - rate * self.work;
        if spare > 0.0 { self.base / spare } else { f64::INFINITY }
    }

    /// Requests that run at once at so many per second (Little's law).
    #[must_use]
    pub fn running(&self, rate: f64) -> f64 {
        rate * self.output * self.inter_token(rate)
    }

    /// Requests per second at which the mean time per token is `tpot` seconds; 0 where even an idle replica is slower.
    #[must_use]
    pub fn until_tpot(&self, tpot: f64) -> f64 {
        (1.0 - self.base / tpot).max(0.0) / self.work
    }

    /// Requests per second at which the KV cache, or the batch, is full.
    #[must_use]
    pub fn until_full(&self) -> f64 {
        self.sequences / (self.output * self.base + self.sequences * self.work)
    }

    /// Requests per second of one replica within the promised time per token and its KV cache.
    #[must_use]
    pub fn limit(&self, promised: Promised) -> f64 {
        self.until_tpot(promised.tpot).min(self.until_full())
    }
}

/// Requests per second that one replica takes without breaking `promised.tpot` on average or filling its KV cache. Lengths are means in
/// tokens; 0 where even an idle replica is slower than promised.
#[must_use]
pub fn capacity(costs: &Costs, mean_prompt: f64, mean_output: f64, promised: Promised) -> f64 {
    Capacity::new(costs, mean_prompt, mean_output, KV_FILL).limit(promised)
}

#[cfg(test)]
mod tests {
    use llmscaler_engine::Profile;

    use super::*;

    const RAMP: Promised = Promised { ttft: 3.0, tpot: 0.1 };

    fn qwen() -> &'static Costs {
        &Profile::named("qwen3-32b-h100-tp2").unwrap().costs
    }

    fn near(got: f64, wanted: f64, within: f64) {
        assert!((got - wanted).abs() <= within, "{got} instead of {wanted}");
    }

    #[test]
    fn qwen_at_4000_in_and_1000_out_is_full_before_it_is_slow() {
        let full = Capacity::new(qwen(), 4000.0, 1000.0, 1.0);
        near(full.work(), 0.477, 0.0005);
        near(full.sequences(), 77.8, 0.05);
        near(full.until_full(), 1.523, 0.0005);
        near(full.inter_token(full.until_full()), 0.051, 0.0005);
        near(full.running(full.until_full()), 77.8, 0.05);
        near(full.limit(RAMP), full.until_full(), 0.0);
        assert!(full.until_tpot(RAMP.tpot) > full.until_full());
    }

    #[test]
    fn a_strict_promise_is_broken_before_the_cache_is_full() {
        let strict = Promised { tpot: 0.03, ..RAMP };
        let replica = Capacity::new(qwen(), 4000.0, 1000.0, 0.92);
        let limit = replica.limit(strict);
        near(replica.inter_token(limit), 0.03, 1e-12);
        assert!(limit < replica.until_full());
        near(limit, capacity(qwen(), 4000.0, 1000.0, strict), 0.0);
    }

    #[test]
    fn a_promise_below_the_shortest_step_leaves_no_capacity() {
        assert_eq!(capacity(qwen(), 4000.0, 1000.0, Promised { tpot: 0.01, ..RAMP }), 0.0);
    }

    #[test]
    fn the_batch_limits_where_contexts_are_short() {
        let replica = Capacity::new(qwen(), 10.0, 10.0, 1.0);
        near(replica.sequences(), 1024.0, 0.0);
        assert_eq!(replica.inter_token(2.0 / replica.work()), f64::INFINITY);
    }
}
