//! The time that decisions are taken at.

use jiff::{SignedDuration, Timestamp};
use llmscaler_engine::Time;
use tokio::time::Instant;

/// Counts from the wall clock at the start of the process by the monotonic clock, so that a correction of the wall clock neither
/// lengthens nor shortens a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: Instant,
    wall: Timestamp,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { started: Instant::now(), wall: Timestamp::now() }
    }

    /// Now, in milliseconds since 1970.
    pub(crate) fn now(&self) -> Time {
        self.at(Instant::now())
    }

    /// A moment since the start, in milliseconds since 1970.
    pub(crate) fn at(&self, moment: Instant) -> Time {
        Self::time_of(self.wall).after(moment.saturating_duration_since(self.started))
    }

    /// The moment that an API object's timestamp stands for.
    pub(crate) fn time_of(timestamp: Timestamp) -> Time {
        Time::from_millis(timestamp.as_millisecond())
    }

    /// A moment as API objects carry it, in whole seconds.
    pub(crate) fn timestamp_of(time: Time) -> Timestamp {
        Timestamp::UNIX_EPOCH.saturating_add(SignedDuration::from_secs(time.as_millis().div_euclid(1000))).unwrap_or(Timestamp::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_monotonic_clock_moves_it() {
        let clock = Clock::start();
        let before = clock.now();
        tokio::time::advance(Duration::from_millis(1500)).await;
        assert_eq!(clock.now().since(before), Duration::from_millis(1500));
    }

    #[test]
    fn timestamps_are_whole_seconds() {
        let timestamp: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(Clock::timestamp_of(Clock::time_of(timestamp).after(Duration::from_millis(999))), timestamp);
    }
}
