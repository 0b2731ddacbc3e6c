//! Numbers as the HPA counts: in thousandths.

use std::fmt;

use llmscaler_engine::Replicas;

/// A number of thousandths, 0 or more, as a quantity of Kubernetes.
///
/// The HPA reads every value and every target as a whole number of thousandths, and sums them up in 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Milli(i64);

impl Milli {
    pub(crate) const ZERO: Self = Self(0);
    pub(crate) const ONE: Self = Self(1000);
    /// The most whole units that the HPA can count.
    const MAX: Self = Self(i64::MAX / 1000 * 1000);

    /// The nearest number of thousandths; what is too much for the HPA becomes the most that it can count.
    pub(crate) fn of(value: f64) -> Self {
        // The conversion saturates.
        Self((value * 1000.0).round() as i64).clamp(Self::ZERO, Self::MAX)
    }

    pub(crate) fn count(replicas: Replicas) -> Self {
        Self(i64::from(replicas.get()) * 1000)
    }
}

impl fmt::Display for Milli {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 % 1000 == 0 { write!(f, "{}", self.0 / 1000) } else { write!(f, "{}m", self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_decimals_as_the_hpa_reads_them() {
        for (value, text) in [
            (0.0, "0"),
            (3.0, "3"),
            (0.8, "800m"),
            (1.2345, "1235m"),
            (0.0004, "0"),
            (0.0005, "1m"),
            (1e12, "1000000000000"),
            (1e300, "9223372036854775"),
        ] {
            assert_eq!(Milli::of(value).to_string(), text, "{value}");
        }
        assert_eq!(Milli::count(Replicas::new(7)).to_string(), "7");
    }
}
