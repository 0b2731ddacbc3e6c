//! How late the fleets are looked at.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::SignedDuration;

/// Looks that are further apart than this are too far apart, in the time of the API: a sync period, after which a scaler looks again.
const LATE: SignedDuration = SignedDuration::from_secs(15);

/// For how long fleets were not looked at that should have been, because the machine had no time for it. Pods come and go that much
/// later, so that the fleets are worse off than by their scalers alone. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Lag(Arc<AtomicI64>);

impl Lag {
    /// All of it so far, in the time of the API.
    #[must_use]
    pub fn total(&self) -> SignedDuration {
        SignedDuration::from_millis(self.0.load(Ordering::Relaxed))
    }

    /// Enters the time between two looks.
    pub(super) fn enter(&self, gap: SignedDuration) {
        if gap > LATE {
            self.0.fetch_add(i64::try_from(gap.as_millis()).unwrap_or(i64::MAX), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_looks_that_are_too_far_apart_count_and_those_in_full() {
        let (lag, seconds) = (Lag::default(), SignedDuration::from_secs);
        for gap in [2, 15, 16, 0, 40] {
            lag.clone().enter(seconds(gap));
        }
        assert_eq!(lag.total(), seconds(56));
    }
}
