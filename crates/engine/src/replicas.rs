//! Replica counts and the two roundings that lead to them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How far a quotient may miss a whole number by rounding noise, relative to its size (design: the exact answer wins).
const RELATIVE_NOISE: f64 = 1e-9;

/// A number of replicas, 0 to 2³¹−1 as in every Kubernetes workload. Arithmetic saturates at both ends and never wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "u32", into = "u32")]
pub struct Replicas(u32);

impl Replicas {
    /// No replica.
    pub const ZERO: Self = Self(0);
    /// One replica.
    pub const ONE: Self = Self(1);
    /// The largest count that a workload can carry, 2³¹−1.
    pub const MAX: Self = Self(i32::MAX as u32);

    /// A count; above [`Replicas::MAX`] it saturates.
    #[must_use]
    pub const fn new(count: u32) -> Self {
        if count > Self::MAX.0 { Self::MAX } else { Self(count) }
    }

    /// A count from wider arithmetic, saturating at 0 and [`Replicas::MAX`].
    #[must_use]
    pub fn saturating(count: i64) -> Self {
        u32::try_from(count.clamp(0, i64::from(i32::MAX))).map_or(Self::MAX, Self)
    }

    /// The smallest count that is at least `x`, forgiving a relative 1e-9 of rounding noise. NaN and negative numbers give 0.
    ///
    /// ```
    /// use llmscaler_engine::Replicas;
    /// assert_eq!(Replicas::ceil(3.0 * (0.8 / 0.1)).get(), 24); // the product is 24.000000000000004
    /// assert_eq!(Replicas::ceil(0.1).get(), 1);
    /// assert_eq!(Replicas::ceil(1e300), Replicas::MAX);
    /// ```
    #[must_use]
    pub fn ceil(x: f64) -> Self {
        // A product keeps infinity infinite; the cast to an integer saturates, and takes NaN to 0.
        Self::saturating((x * (1.0 - RELATIVE_NOISE)).ceil() as i64)
    }

    /// The count as a plain number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The count as the signed number that Kubernetes uses.
    #[must_use]
    pub fn as_i32(self) -> i32 {
        i32::try_from(self.0).unwrap_or(i32::MAX)
    }

    /// The count for ratio arithmetic.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        f64::from(self.0)
    }

    /// `self + other`, at most [`Replicas::MAX`].
    #[must_use]
    pub const fn plus(self, other: u32) -> Self {
        Self::new(self.0.saturating_add(other))
    }

    /// `self − other`, at least 0.
    #[must_use]
    pub const fn minus(self, other: u32) -> Self {
        Self(self.0.saturating_sub(other))
    }

    /// `self − other` with its sign.
    #[must_use]
    pub fn change_from(self, other: Self) -> i32 {
        self.as_i32() - other.as_i32()
    }
}

impl From<u32> for Replicas {
    fn from(count: u32) -> Self {
        Self::new(count)
    }
}

impl From<Replicas> for u32 {
    fn from(count: Replicas) -> Self {
        count.0
    }
}

impl fmt::Display for Replicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ceil_gives_the_exact_answer_under_rounding_noise() {
        for (ready, value, target, exact) in
            [(3.0, 0.2, 0.2, 3), (3.0, 0.1, 0.3, 1), (3.0, 0.8, 0.1, 24), (2.0, 1.05, 0.3, 7), (2.0, 1.05, 0.7, 3), (4.0, 0.81, 0.8, 5)]
        {
            assert_eq!(Replicas::ceil(ready * (value / target)).get(), exact, "{ready} x {value}/{target}");
        }
    }

    #[test]
    fn counts_saturate() {
        assert_eq!(Replicas::ceil(f64::INFINITY), Replicas::MAX);
        assert_eq!(Replicas::ceil(f64::NAN), Replicas::ZERO);
        assert_eq!(Replicas::ceil(-5.0), Replicas::ZERO);
        assert_eq!(Replicas::MAX.plus(u32::MAX), Replicas::MAX);
        assert_eq!(Replicas::ONE.minus(2), Replicas::ZERO);
        assert_eq!(Replicas::saturating(i64::MIN), Replicas::ZERO);
        assert_eq!(Replicas::ZERO.change_from(Replicas::MAX), -i32::MAX);
    }
}
