//! How long prompts and answers are.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal, StandardUniform};

use crate::random;

/// The distribution of a length in tokens.
#[derive(Clone, Debug, PartialEq)]
pub enum Length {
    /// Always the same.
    Fixed(u32),
    /// Normal; what falls outside is set to the nearer end.
    Normal {
        /// The mean, before the ends are cut.
        mean: f64,
        /// The standard deviation, before the ends are cut.
        sd: f64,
        /// The shortest.
        min: u32,
        /// The longest.
        max: u32,
    },
    /// Lognormal; what falls outside 1 to `max` is set to the nearer end.
    LogNormal {
        /// The median.
        median: f64,
        /// The standard deviation of the natural logarithm.
        sigma: f64,
        /// The longest.
        max: u32,
    },
    /// One of two, the second with this probability.
    Either(Box<Length>, Box<Length>, f64),
}

impl Length {
    /// A lognormal length of this mean and standard deviation in tokens, before `max` cuts it.
    #[must_use]
    pub fn log_normal(mean: f64, sd: f64, max: u32) -> Self {
        let sigma_squared = (sd / mean).powi(2).ln_1p();
        Self::LogNormal { median: mean / (sigma_squared / 2.0).exp(), sigma: sigma_squared.sqrt(), max }
    }

    fn draw<R: Rng>(&self, random: &mut R) -> u32 {
        let normal = |random: &mut R| -> f64 { StandardNormal.sample(random) };
        match self {
            Self::Fixed(tokens) => *tokens,
            Self::Normal { mean, sd, min, max } => (mean + sd * normal(random)).clamp(f64::from(*min), f64::from(*max)).round() as u32,
            Self::LogNormal { median, sigma, max } => (median * (sigma * normal(random)).exp()).clamp(1.0, f64::from(*max)).round() as u32,
            Self::Either(first, second, share) => {
                let position: f64 = StandardUniform.sample(random);
                if position < *share { second.draw(random) } else { first.draw(random) }
            }
        }
    }
}

/// The lengths of requests; prompts and answers are independent of each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Lengths {
    /// Tokens of the prompt.
    pub prompt: Length,
    /// Tokens of the answer.
    pub output: Length,
}

impl Lengths {
    /// An endless row of prompt and output lengths.
    pub(super) fn draw(&self, seed: u64) -> impl Iterator<Item = (u32, u32)> + '_ {
        let mut prompts = random::stream(seed, "prompt lengths");
        let mut outputs = random::stream(seed, "output lengths");
        std::iter::repeat_with(move || (self.prompt.draw(&mut prompts).max(1), self.output.draw(&mut outputs).max(1)))
    }
}
