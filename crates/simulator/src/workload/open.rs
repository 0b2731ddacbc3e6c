//! Requests that come whether or not earlier ones are answered.

use rand_distr::{Distribution, Exp1};

use super::curve::{Curve, Noise};
use super::lengths::Lengths;
use crate::{Request, random};

/// Poisson arrivals along a curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Open {
    /// Mean requests per second over time.
    pub curve: Curve,
    /// How the rate wanders about the curve.
    pub noise: Option<Noise>,
    /// Requests that come at the same instant, at least 1; the curve counts requests, not batches.
    pub batch: u32,
    /// Their lengths.
    pub lengths: Lengths,
}

impl Open {
    pub(super) fn requests(&self, seed: u64) -> Vec<Request> {
        let curve = self.curve.levels(seed);
        let levels = self.noise.map_or_else(|| curve.clone(), |noise| noise.over(&curve, seed));
        let mut random = random::stream(seed, "arrival times");
        let mut lengths = self.lengths.draw(seed);
        let mut requests = Vec::new();
        let mut from = 0.0;
        // What is left to the next arrival of a process of rate 1, along which time runs at the rate of the curve.
        let mut left: f64 = Exp1.sample(&mut random);
        for level in levels {
            let rate = level.rate / f64::from(self.batch);
            while left < (level.until - from) * rate {
                from += left / rate;
                let batch = lengths.by_ref().take(self.batch as usize);
                requests.extend(batch.map(|(prompt, output)| Request { at: from, prompt, output, reusable_prefix: 0 }));
                left = Exp1.sample(&mut random);
            }
            left -= (level.until - from) * rate;
            from = level.until;
        }
        requests
    }
}
