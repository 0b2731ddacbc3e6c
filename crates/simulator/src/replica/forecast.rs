//! What the gateway knows and predicts of a replica.

use super::{Replica, TRANSPORT, Work};

/// What the router goes by, as a replica would report it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Load {
    /// Prompt tokens to process, those of the step at work included.
    pub prefill: u64,
    /// Requests that wait.
    pub waiting: u32,
    kv: f64,
    kv_per_second: f64,
    at: f64,
}

impl Load {
    /// Of a replica that has these prompt tokens to process and KV tokens in use, which do not change meanwhile.
    #[cfg(test)]
    pub fn steady(prefill: u64, kv: f64, waiting: u32) -> Self {
        Self { prefill, waiting, kv, kv_per_second: 0.0, at: 0.0 }
    }

    /// KV tokens in use at `now`, between steps by proportion.
    pub fn kv(&self, now: f64) -> f64 {
        self.kv + self.kv_per_second * (now - self.at)
    }
}

/// Latencies as a calibrated predictor gives them when a request is routed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Forecast {
    /// Seconds to the first token.
    pub ttft: f64,
    /// Seconds per token after it.
    pub tpot: f64,
}

/// Share of the time that goes into prompts, over the last half minute.
#[derive(Clone, Copy, Debug)]
pub(super) struct PrefillShare {
    since: f64,
    at: f64,
    seconds: f64,
}

impl PrefillShare {
    /// Seconds after which a step weighs 1/e.
    const MEMORY: f64 = 30.0;
    /// More than this is a prompt that happens to be long, not a way of life.
    const MOST: f64 = 0.9;

    pub fn new(now: f64) -> Self {
        Self { since: now, at: now, seconds: 0.0 }
    }

    pub fn add(&mut self, now: f64, seconds: f64) {
        self.seconds = self.seconds * ((self.at - now) / Self::MEMORY).exp() + seconds;
        self.at = now;
    }

    fn at(&self, now: f64) -> f64 {
        let seen = Self::MEMORY * (1.0 - ((self.since - now) / Self::MEMORY).exp());
        let seconds = self.seconds * ((self.at - now) / Self::MEMORY).exp();
        if seen > 0.0 { (seconds / seen).min(Self::MOST) } else { 0.0 }
    }
}

impl Replica {
    /// What the router goes by from now on until the replica's state changes.
    pub fn load(&self) -> Load {
        let waiting = self.waiting.len() as u32;
        let kv = self.kv() as f64;
        match &self.work {
            Work::Idle => Load { prefill: 0, waiting, kv, kv_per_second: 0.0, at: 0.0 },
            Work::Step(step) => Load { prefill: self.backlog.tokens + step.tokens, waiting, kv, kv_per_second: 0.0, at: 0.0 },
            Work::Leap(leap) => {
                let grows = (leap.sequences() * leap.steps()) as f64;
                let kv_per_second = grows / (leap.ends() - leap.starts());
                Load { prefill: self.backlog.tokens, waiting, kv, kv_per_second, at: leap.starts() }
            }
        }
    }

    /// What the request that it has just accepted should see.
    ///
    /// To the first token: the rest of the step at work, the prompts ahead and its own, and the wait for KV cache where that is full,
    /// from the mean output so far, because nobody knows how long answers will be. Per token: a step with one more sequence, slowed by
    /// the share of time that prompts have taken lately. So it is right while load is steady and reads too little when load rises, and
    /// near the knee, where sequences that run longer than the mean hold the cache.
    pub fn forecast(&self, now: f64, prompt: u32) -> Forecast {
        let costs = &self.costs;
        let n = (self.decoding.len() + self.joining.len()) as f64;
        let (rest, context) = match &self.work {
            Work::Idle => (0.0, self.kv()),
            Work::Step(step) => (step.ends - now, self.kv()),
            Work::Leap(leap) => {
                let context = self.context + leap.sequences() * leap.steps();
                ((leap.ends() - now).min(self.step_seconds(leap.sequences(), context, 0)), context)
            }
        };
        let context = context as f64;
        let tokens = self.backlog.tokens as f64;
        let room = (f64::from(costs.max_batched_tokens) - n).max(1.0);
        let steps = (tokens / room).ceil();
        let matrix = (steps * costs.weights).max(costs.prompt_token * (tokens + n * steps));
        let prefill = steps * (costs.overhead + costs.sequence * n + costs.kv_token * context)
            + matrix
            + costs.attention * self.backlog.pairs as f64 / 2.0;
        let share = self.share.at(now);
        let step = super::step_seconds(costs, n + 1.0, context + f64::from(prompt), 0.0) / (1.0 - share);
        let short = (self.kv() + self.backlog.kv) as f64 - Self::longest(costs) as f64;
        let room_wait = if short > 0.0 && context > 0.0 { short / context * self.mean_output() * step } else { 0.0 };
        Forecast { ttft: TRANSPORT + rest + prefill + room_wait, tpot: step }
    }

    fn mean_output(&self) -> f64 {
        let finished = self.meters.output_length.count();
        if finished == 0 { 0.0 } else { self.meters.output_length.sum() / finished as f64 }
    }
}
