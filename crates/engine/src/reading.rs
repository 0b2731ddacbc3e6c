//! What is known of one signal at one moment.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A finite, non-negative number that was measured.
///
/// ```
/// use llmscaler_engine::Measurement;
/// assert_eq!(Measurement::new(0.8).map(Measurement::get), Some(0.8));
/// assert_eq!(Measurement::new(-1.0), None);
/// assert_eq!(Measurement::new(f64::NAN), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Measurement(f64);

impl Measurement {
    /// Nothing.
    pub const ZERO: Self = Self(0.0);

    /// `None` for NaN, ±Inf and negative numbers. −0 becomes 0.
    #[must_use]
    pub fn new(value: f64) -> Option<Self> {
        (value.is_finite() && value >= 0.0).then_some(Self(value + 0.0))
    }

    /// The number, finite and at least 0.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }
}

impl From<Measurement> for f64 {
    fn from(value: Measurement) -> Self {
        value.0
    }
}

impl TryFrom<f64> for Measurement {
    type Error = &'static str;

    fn try_from(value: f64) -> Result<Self, Self::Error> {
        Self::new(value).ok_or("a measurement is a finite number of at least 0")
    }
}

impl fmt::Display for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What is known of one signal. There is no way from *unknown* to a number: unknown is never zero.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// It was measured.
    Value(Measurement),
    /// It is proved that there is no traffic.
    Idle,
    /// It could not be measured. The text says for people what was asked, what came back and what to do.
    Unknown(String),
}

impl Reading {
    /// A raw number as a reading: NaN, ±Inf and negative numbers are unknown.
    #[must_use]
    pub fn from_number(value: f64) -> Self {
        match Measurement::new(value) {
            Some(measurement) => Self::Value(measurement),
            None if value.is_nan() => {
                Self::unknown("the value is NaN, so there is nothing to compare with the target (a quantile of no observations is NaN)")
            }
            None if value.is_infinite() => {
                Self::unknown(format!("the value is {value}, which is not a measurement (a division by zero gives it)"))
            }
            None => Self::unknown(format!("the value {value} is negative; a load cannot be")),
        }
    }

    /// An unknown reading with its reason.
    #[must_use]
    pub fn unknown(why: impl Into<String>) -> Self {
        let why = why.into();
        Self::Unknown(if why.trim().is_empty() { "no reason was given".to_owned() } else { why })
    }

    /// Whether the signal could not be measured.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_finite_non_negative_numbers_are_values() {
        for raw in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -3.0, -f64::MIN_POSITIVE] {
            assert!(Reading::from_number(raw).is_unknown(), "{raw}");
        }
        for raw in [0.0, -0.0, 1.5, 1e300] {
            assert!(matches!(Reading::from_number(raw), Reading::Value(v) if v.get() == raw), "{raw}");
        }
    }

    #[test]
    fn what_is_no_measurement_says_why() {
        for (raw, words) in [(f64::NAN, "is NaN"), (f64::INFINITY, "is inf,"), (f64::NEG_INFINITY, "is -inf,"), (-3.0, "-3 is negative")] {
            assert!(matches!(Reading::from_number(raw), Reading::Unknown(why) if why.contains(words)), "{words}");
        }
        assert_eq!(Reading::unknown(" "), Reading::Unknown("no reason was given".to_owned()));
        assert_eq!(Reading::unknown("no series"), Reading::Unknown("no series".to_owned()));
    }

    #[test]
    fn a_measurement_is_read_and_written_as_a_number() {
        let half = Measurement::new(0.5).unwrap();
        assert_eq!((half.to_string().as_str(), serde_json::to_string(&half).unwrap().as_str()), ("0.5", "0.5"));
        assert_eq!(serde_json::from_str::<Measurement>("0.5").unwrap(), half);
        assert!(serde_json::from_str::<Measurement>("-1").unwrap_err().to_string().contains("finite number of at least 0"));
    }

    #[test]
    fn neither_a_zero_nor_an_idle_pool_is_unknown() {
        let readings = [Reading::from_number(0.0), Reading::from_number(0.5), Reading::Idle, Reading::unknown("no series")];
        assert_eq!(readings.map(|reading| reading.is_unknown()), [false, false, false, true]);
    }
}
