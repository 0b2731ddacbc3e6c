//! The time that decisions are taken at.

use std::num::NonZeroU32;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use llmscaler_engine::Time;
use tokio::time::Instant;

/// Counts from the wall clock at the start of the process by the monotonic clock, so that a correction of the wall clock neither
/// lengthens nor shortens a window.
///
/// It may run faster than time does, for a simulated cluster whose own clock does so, too: then periods, windows and the ages of
/// objects are those of that cluster, and nothing of the decisions changes. Deadlines of calls stay those of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
    wall: Timestamp,
    /// `None` is the time of day.
    speed: Option<NonZeroU32>,
}

impl Clock {
    /// The time of day.
    #[must_use]
    pub fn start() -> Self {
        Self { started: Instant::now(), wall: Timestamp::now(), speed: None }
    }

    /// Begins at `from` now, and goes on `speed` times as fast as time does.
    #[must_use]
    pub fn compressed(from: Timestamp, speed: NonZeroU32) -> Self {
        Self { started: Instant::now(), wall: from, speed: Some(speed) }
    }

    /// How many times as fast as time it goes on.
    #[must_use]
    pub fn speed(&self) -> NonZeroU32 {
        self.speed.unwrap_or(NonZeroU32::MIN)
    }

    /// Now, to compare with what API objects carry. The time of day is that of the wall clock, by which others date them, with its
    /// corrections.
    #[must_use]
    pub fn timestamp(&self) -> Timestamp {
        if self.speed.is_none() {
            return Timestamp::now();
        }
        let passed = SignedDuration::try_from(self.passed(Instant::now())).unwrap_or(SignedDuration::MAX);
        self.wall.saturating_add(passed).unwrap_or(Timestamp::MAX)
    }

    /// How long the machine takes for so much of this clock's time.
    #[must_use]
    pub fn lasts(&self, time: Duration) -> Duration {
        time / self.speed().get()
    }

    /// Now, in milliseconds since 1970.
    pub(crate) fn now(&self) -> Time {
        self.at(Instant::now())
    }

    /// A moment since the start, in milliseconds since 1970.
    pub(crate) fn at(&self, moment: Instant) -> Time {
        Self::time_of(self.wall).after(self.passed(moment))
    }

    fn passed(&self, moment: Instant) -> Duration {
        moment.saturating_duration_since(self.started).saturating_mul(self.speed().get())
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
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_monotonic_clock_moves_it() {
        let clock = Clock::start();
        let before = clock.now();
        tokio::time::advance(Duration::from_millis(1500)).await;
        assert_eq!(clock.now().since(before), Duration::from_millis(1500));
    }

    #[tokio::test(start_paused = true)]
    async fn a_compressed_clock_counts_more_than_passes_and_waits_for_less() {
        let from: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let clock = Clock::compressed(from, NonZeroU32::new(60).unwrap());
        let before = clock.now();
        tokio::time::advance(clock.lasts(Duration::from_secs(15))).await;
        assert_eq!(clock.now().since(before), Duration::from_secs(15));
        assert_eq!(clock.timestamp(), "2026-01-01T00:00:15Z".parse().unwrap());
    }

    #[test]
    fn timestamps_are_whole_seconds() {
        let timestamp: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(Clock::timestamp_of(Clock::time_of(timestamp).after(Duration::from_millis(999))), timestamp);
    }
}
