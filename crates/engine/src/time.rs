//! Moments on the caller's clock.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A moment on the caller's clock, in whole milliseconds; only differences matter to the engine. Written as seconds.
///
/// The caller's clock must not run backwards; wall-clock jumps belong to whoever supplies the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// A moment in milliseconds.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// A moment in seconds, to the nearest millisecond; what is not a number is 0.
    #[must_use]
    pub fn from_seconds(seconds: f64) -> Self {
        Self((seconds * 1000.0).round() as i64)
    }

    /// The moment in milliseconds.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// The moment in seconds.
    #[must_use]
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    /// How long ago `earlier` was. A moment in the future has age 0: it must not outlive its window.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The moment `later` from this one.
    #[must_use]
    pub fn after(self, later: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(later.as_millis()).unwrap_or(i64::MAX)))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 % 1000 == 0 { serializer.serialize_i64(self.0 / 1000) } else { serializer.serialize_f64(self.as_seconds()) }
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::deserialize(deserializer).map(Self::from_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_survive_the_round_trip() {
        for (time, text) in [(Time::from_millis(-15_000), "-15"), (Time::from_millis(1500), "1.5"), (Time::default(), "0")] {
            assert_eq!(serde_json::to_string(&time).unwrap(), text);
            assert_eq!(serde_json::from_str::<Time>(text).unwrap(), time);
        }
    }

    #[test]
    fn the_future_has_no_age() {
        assert_eq!(Time::from_millis(5).since(Time::from_millis(9)), Duration::ZERO);
        assert_eq!(Time::from_millis(i64::MAX).since(Time::from_millis(i64::MIN)), Duration::from_millis(i64::MAX as u64));
    }
}
