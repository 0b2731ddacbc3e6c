//! A trace made larger by clones.

use rand_distr::{Distribution, StandardUniform};
use thiserror::Error;

use super::MOST_REQUESTS;
use super::amount::Amount;
use super::trace::Trace;
use crate::{Request, random};

/// A trace, scaled.
///
/// Each request comes `multiply` times, and each copy, the first too, is moved by a time of its own, uniform within ±`shift`. Many
/// copies within a short shift are a burst wherever there was one request, so claims about bursts need a look at two shifts. A multiplier
/// between two whole numbers takes the larger one by chance. Copies that would leave the trace at either end are reflected into it,
/// which keeps the rate there.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    trace: Trace,
    multiply: f64,
    shift: f64,
}

/// Why a trace cannot be scaled so.
#[derive(Debug, Error, PartialEq)]
pub enum ScalingError {
    /// The multiplier is no positive number.
    #[error("a trace cannot be multiplied by {}; give a number above 0", Amount(*.0))]
    Multiplier(f64),
    /// The result is too large.
    #[error(
        "{requests} requests times {} are more than a run can hold; multiply by less than {}",
        Amount(*.multiply),
        MOST_REQUESTS / *.requests as f64
    )]
    TooMany {
        /// Requests of the trace.
        requests: usize,
        /// The multiplier.
        multiply: f64,
    },
    /// The shift is no time, or longer than the trace.
    #[error("copies cannot be shifted by {} s in a trace of {seconds} s; give 0 to {seconds}", Amount(*.shift))]
    Shift {
        /// The shift in seconds.
        shift: f64,
        /// The length of the trace.
        seconds: f64,
    },
}

impl Replay {
    /// `trace` with each request `multiply` times, each copy moved within ±`shift` seconds. 1 and 0 leave it as it is.
    ///
    /// # Errors
    /// Where the multiplier is not above 0 or makes more than 100 million requests, and where the shift is not within 0 and the
    /// length of the trace.
    pub fn new(trace: Trace, multiply: f64, shift: f64) -> Result<Self, ScalingError> {
        let (requests, seconds) = (trace.requests().len(), trace.seconds());
        if !(multiply.is_finite() && multiply > 0.0) {
            return Err(ScalingError::Multiplier(multiply));
        }
        if multiply * requests as f64 > MOST_REQUESTS {
            return Err(ScalingError::TooMany { requests, multiply });
        }
        if !(0.0..=seconds).contains(&shift) {
            return Err(ScalingError::Shift { shift, seconds });
        }
        Ok(Self { trace, multiply, shift })
    }

    /// The trace.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// How many times each request comes.
    #[must_use]
    pub fn multiply(&self) -> f64 {
        self.multiply
    }

    /// How far copies are moved at most, in seconds to either side.
    #[must_use]
    pub fn shift(&self) -> f64 {
        self.shift
    }

    pub(super) fn requests(&self, seed: u64) -> Vec<Request> {
        let mut counts = random::stream(seed, "clone counts");
        let mut shifts = random::stream(seed, "clone shifts");
        let (whole, part) = (self.multiply.floor(), self.multiply.fract());
        let seconds = self.trace.seconds();
        let mut requests = Vec::with_capacity((self.trace.requests().len() as f64 * self.multiply.ceil()) as usize);
        for request in self.trace.requests() {
            let drawn: f64 = if part > 0.0 { StandardUniform.sample(&mut counts) } else { 1.0 };
            let copies = whole as u64 + u64::from(drawn < part);
            for _ in 0..copies {
                let position: f64 = if self.shift > 0.0 { StandardUniform.sample(&mut shifts) } else { 0.5 };
                let at = (request.at + self.shift * (2.0 * position - 1.0)).abs();
                let at = if at > seconds { 2.0 * seconds - at } else { at };
                requests.push(Request { at, ..*request });
            }
        }
        requests.sort_by(|one, other| one.at.total_cmp(&other.at));
        requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One request a second for an hour, and none in the second half hour.
    fn trace() -> Trace {
        let rows: String = (0..1800).chain([3600]).map(|at| format!("{at},{},5\n", at + 1)).collect();
        Trace::read("t", format!("t_seconds,prompt_tokens,output_tokens\n{rows}").as_bytes()).unwrap()
    }

    fn scaled(multiply: f64, shift: f64, seed: u64) -> Vec<Request> {
        Replay::new(trace(), multiply, shift).unwrap().requests(seed)
    }

    #[test]
    fn once_and_unmoved_is_the_trace_under_any_seed() {
        assert_eq!(scaled(1.0, 0.0, 1), trace().requests());
        assert_eq!(scaled(1.0, 0.0, 2), trace().requests());
    }

    #[test]
    fn every_request_comes_so_many_times_near_its_time() {
        let requests = scaled(7.0, 60.0, 1);
        assert_eq!(requests.len(), 7 * 1801);
        assert!(requests.is_sorted_by(|earlier, later| earlier.at <= later.at));
        let moved: Vec<_> = requests.iter().map(|request| request.at - f64::from(request.prompt - 1)).collect();
        assert!(moved.iter().all(|moved| moved.abs() <= 60.0));
        // Uniform within ±60 s: standard deviation 34.6 s.
        let variance = moved.iter().map(|moved| moved * moved).sum::<f64>() / moved.len() as f64;
        assert!((variance.sqrt() - 34.6).abs() < 0.7, "{variance}");
        assert!(requests.iter().all(|request| (0.0..=3600.0).contains(&request.at)));
    }

    #[test]
    fn minutes_keep_their_counts_up_to_the_ends() {
        let requests = scaled(20.0, 60.0, 1);
        // 1200 a minute; what is cloned is not Poisson, so the noise is at most that of 1200. The last minute of traffic bleeds out.
        for minute in 0..29 {
            let count = requests.iter().filter(|request| (request.at / 60.0) as u32 == minute).count();
            assert!((count as f64 - 1200.0).abs() < 4.0 * 1200_f64.sqrt(), "minute {minute}: {count}");
        }
    }

    #[test]
    fn part_of_a_multiplier_is_taken_by_chance() {
        let of = |multiply| scaled(multiply, 0.0, 1).len() as f64 / 1801.0;
        assert!((of(2.3) - 2.3).abs() < 0.05, "{}", of(2.3));
        assert!((of(0.2) - 0.2).abs() < 0.05, "{}", of(0.2));
    }

    #[test]
    fn seeds_move_the_copies_and_nothing_else_does() {
        assert_eq!(scaled(2.5, 10.0, 3), scaled(2.5, 10.0, 3));
        assert_ne!(scaled(2.5, 10.0, 3), scaled(2.5, 10.0, 4));
    }

    #[test]
    fn what_cannot_be_scaled_is_refused() {
        let refused = |multiply, shift| Replay::new(trace(), multiply, shift).unwrap_err().to_string();
        assert!(refused(0.0, 0.0).contains("give a number above 0"));
        assert!(refused(f64::NAN, 0.0).contains("give a number above 0"));
        assert!(refused(1e9, 0.0).contains("multiply by less than"));
        assert!(refused(1.0, -1.0).contains("give 0 to 3600"));
        assert!(refused(1.0, f64::NAN).contains("give 0 to 3600"));
        assert!(refused(1.0, 3601.0).contains("give 0 to 3600"));
        assert!(refused(1.0, 1e300).contains("shifted by 1e300 s") && refused(1e308, 0.0).contains("requests times 1e308 are"));
    }
}
