//! How many requests come per second, over time.

use rand_distr::{Distribution, Exp1, StandardNormal};

use crate::random;

/// Seconds for which a rate that changes all the time is held, and between two values of a noise.
const GRAIN: f64 = 5.0;

/// The mean rate of requests over time.
#[derive(Clone, Debug, PartialEq)]
pub enum Curve {
    /// One rate after the other.
    Steps(Vec<Step>),
    /// From one rate to another in a straight line.
    Ramp {
        /// Requests per second at the start.
        from: f64,
        /// Requests per second at the end.
        to: f64,
        /// How long it lasts.
        seconds: f64,
    },
    /// From its lowest value up and down again: low + (high − low) ((1 − cos)/2)^power.
    Swell {
        /// Requests per second at the start and after each period.
        low: f64,
        /// Requests per second in the middle of each period.
        high: f64,
        /// Seconds from low to low.
        period: f64,
        /// 1 is a sine; above 1 the lows are longer than the highs.
        power: f64,
        /// How long it lasts.
        seconds: f64,
    },
    /// Silence and bursts in turn, each of exponential length, silence first.
    OnOff {
        /// Requests per second between bursts.
        low: f64,
        /// Requests per second in a burst.
        high: f64,
        /// Mean seconds of a burst.
        on: f64,
        /// Mean seconds between two bursts.
        off: f64,
        /// How long it lasts.
        seconds: f64,
    },
}

/// A rate for some time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Requests per second.
    pub rate: f64,
    /// How long.
    pub seconds: f64,
}

/// A factor on the rate that wanders: lognormal of mean 1, its logarithm an AR(1) process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// The standard deviation of the logarithm.
    pub sd: f64,
    /// Seconds after which the correlation has fallen to 1/e.
    pub correlation: f64,
}

/// A rate that holds until a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Level {
    pub until: f64,
    pub rate: f64,
}

impl Curve {
    /// When it ends, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        match self {
            Self::Steps(steps) => steps.iter().map(|step| step.seconds).sum(),
            Self::Ramp { seconds, .. } | Self::Swell { seconds, .. } | Self::OnOff { seconds, .. } => *seconds,
        }
    }

    /// The course of one run, ascending.
    pub(super) fn levels(&self, seed: u64) -> Vec<Level> {
        match *self {
            Self::Steps(ref steps) => steps
                .iter()
                .scan(0.0, |until, step| {
                    *until += step.seconds;
                    Some(Level { until: *until, rate: step.rate })
                })
                .collect(),
            Self::Ramp { from, to, seconds } => sampled(seconds, |at| from + (to - from) * at / seconds),
            Self::Swell { low, high, period, power, seconds } => {
                let share = |at: f64| f64::midpoint(1.0, -(std::f64::consts::TAU * at / period).cos());
                sampled(seconds, |at| low + (high - low) * share(at).powf(power))
            }
            Self::OnOff { low, high, on, off, seconds } => {
                let mut random = random::stream(seed, "bursts");
                let mut levels = Vec::new();
                let (mut until, mut burst) = (0.0, false);
                while until < seconds {
                    let (rate, mean) = if burst { (high, on) } else { (low, off) };
                    let drawn: f64 = Exp1.sample(&mut random);
                    until = (until + mean * drawn).min(seconds);
                    levels.push(Level { until, rate });
                    burst = !burst;
                }
                levels
            }
        }
    }
}

/// A curve that changes all the time, as its values in the middle of short pieces.
fn sampled(seconds: f64, rate: impl Fn(f64) -> f64) -> Vec<Level> {
    let pieces = (seconds / GRAIN).ceil() as usize;
    let ends = (1..=pieces).map(|piece| (piece as f64 * GRAIN).min(seconds));
    let starts = (0..pieces).map(|piece| piece as f64 * GRAIN);
    starts.zip(ends).map(|(start, until)| Level { until, rate: rate((start + until) / 2.0) }).collect()
}

impl Noise {
    /// The levels with the factor on them.
    pub(super) fn over(self, levels: &[Level], seed: u64) -> Vec<Level> {
        let mut random = random::stream(seed, "noise");
        let kept = (-GRAIN / self.correlation).exp();
        let fresh = (1.0 - kept * kept).sqrt();
        let mut state: f64 = StandardNormal.sample(&mut random);
        let mut next = GRAIN;
        let mut noisy = Vec::new();
        for level in levels {
            let factor = |state: f64| (self.sd * state - self.sd * self.sd / 2.0).exp();
            while next < level.until {
                noisy.push(Level { until: next, rate: level.rate * factor(state) });
                let drawn: f64 = StandardNormal.sample(&mut random);
                state = kept * state + fresh * drawn;
                next += GRAIN;
            }
            noisy.push(Level { until: level.until, rate: level.rate * factor(state) });
        }
        noisy
    }
}
