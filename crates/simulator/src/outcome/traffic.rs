//! What became of requests, by when they arrived.

use super::latencies::Latencies;
use crate::{Promised, Request, Served};

/// The requests that arrived in one interval of the timeline.
#[derive(Clone, Debug)]
pub struct Interval {
    /// How many.
    pub arrived: u64,
    /// Their prompt tokens.
    pub prompt: u64,
    /// The output tokens that they take.
    pub output: u64,
    kept: u64,
    ttft: Latencies,
    tpot: Latencies,
}

impl Default for Interval {
    fn default() -> Self {
        Self { arrived: 0, prompt: 0, output: 0, kept: 0, ttft: Latencies::coarse(), tpot: Latencies::coarse() }
    }
}

impl Interval {
    pub fn arrived(&mut self, request: &Request) {
        self.arrived += 1;
        self.prompt += u64::from(request.prompt);
        self.output += u64::from(request.output);
    }

    pub fn served(&mut self, served: &Served, promised: Promised) {
        self.kept += u64::from(promised.kept_by(served));
        self.ttft.add(served.ttft);
        served.tpot.iter().for_each(|tpot| self.tpot.add(*tpot));
    }

    /// Those that were not in time, the unfinished included.
    pub fn late(&self) -> u64 {
        self.arrived.saturating_sub(self.kept)
    }

    pub fn ttft_p90(&self) -> f64 {
        self.ttft.quantile(0.9, self.unfinished())
    }

    pub fn tpot_p90(&self) -> f64 {
        self.tpot.quantile(0.9, self.unfinished())
    }

    fn unfinished(&self) -> u64 {
        self.arrived.saturating_sub(self.ttft.count())
    }
}

/// The requests that arrived in one minute.
#[derive(Clone, Copy, Debug, Default)]
pub struct Minute {
    arrived: u64,
    kept: u64,
    kept_ttft: u64,
    kept_tpot: u64,
}

impl Minute {
    pub fn arrived(&mut self) {
        self.arrived += 1;
    }

    pub fn served(&mut self, served: &Served, promised: Promised) {
        self.kept += u64::from(promised.kept_by(served));
        self.kept_ttft += u64::from(served.ttft <= promised.ttft);
        self.kept_tpot += u64::from(served.tpot.is_none_or(|tpot| tpot <= promised.tpot));
    }

    /// Whether the 90th percentile of either latency is over the promise: fewer than nine in ten kept it. What did not finish, kept
    /// neither; a single token keeps any time per output token.
    pub fn is_over(&self) -> bool {
        let enough = (self.arrived * 9).div_ceil(10);
        self.kept_ttft < enough || self.kept_tpot < enough
    }
}

/// The least attainment of five minutes, 0-5, 5-10 and so on, with any arrivals; NaN where there are none.
pub fn worst_five(minutes: &[Minute]) -> f64 {
    let shares = minutes.chunks(5).filter_map(|five| {
        let arrived: u64 = five.iter().map(|minute| minute.arrived).sum();
        let kept: u64 = five.iter().map(|minute| minute.kept).sum();
        (arrived > 0).then(|| kept as f64 / arrived as f64)
    });
    shares.fold(f64::NAN, f64::min)
}

/// The element at `index`, with whatever is missing before it.
pub fn at<T: Default + Clone>(list: &mut Vec<T>, index: usize) -> &mut T {
    if index >= list.len() {
        list.resize(index + 1, T::default());
    }
    &mut list[index]
}
