//! Document B's law: a band around the saturation of the pool.

use std::time::Duration;

use crate::recommend::shown;
use crate::{Measurement, Replicas, Target};

/// A band of saturation within which the fleet is right: 0 < `down_at` < `up_at` ≤ `clamp`, in multiples of the latency that was
/// promised.
///
/// With n replicas, r of them ready, and saturation s the law asks for
///
/// * n + ⌈n(s·c ÷ up_at − 1)⌉, but no less than n, above `up_at`. The credit c = r ÷ n where 0 < r < n, and 1 otherwise: what was
///   measured is borne by the ready replicas alone, and those that are starting will share it;
/// * n − ⌊n(1 − s ÷ down_at)⌋ below `down_at`, without credit, which would turn a high reading into a low one;
/// * n in between, ends included.
///
/// ```
/// use llmscaler_engine::{Band, Measurement, Replicas, Target};
///
/// let mark = |x| Target::new(x).expect("above 0");
/// let band = Band::new(mark(0.55), mark(0.40), mark(2.0), None).expect("in order");
/// let asks = |s, n, r| band.replicas(Measurement::new(s).expect("a load"), Replicas::new(n), Replicas::new(r)).get();
/// assert_eq!(asks(0.62, 8, 8), 10); // ⌈8 × 0.62 ÷ 0.55⌉
/// assert_eq!(asks(0.62, 8, 4), 8); // half of them are still starting
/// assert_eq!(asks(0.50, 8, 8), 8);
/// assert_eq!(asks(0.30, 8, 8), 6); // ⌈8 × 0.30 ÷ 0.40⌉
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    up_at: Target,
    down_at: Target,
    clamp: Target,
    smoothing: Option<Duration>,
}

impl Band {
    /// `None` unless `down_at` < `up_at` ≤ `clamp`. `smoothing` is the window of the mean that is compared with the marks; without
    /// one, or with one of no length, it is each reading itself.
    #[must_use]
    pub fn new(up_at: Target, down_at: Target, clamp: Target, smoothing: Option<Duration>) -> Option<Self> {
        let smoothing = smoothing.filter(|window| !window.is_zero());
        (down_at < up_at && up_at <= clamp).then_some(Self { up_at, down_at, clamp, smoothing })
    }

    /// The fleet grows above this.
    #[must_use]
    pub const fn up_at(&self) -> Target {
        self.up_at
    }

    /// The fleet may shrink below this.
    #[must_use]
    pub const fn down_at(&self) -> Target {
        self.down_at
    }

    /// Readings count for no more than this: beyond it more replicas are needed at any rate, and a spike would spoil the mean for
    /// long after it has passed.
    #[must_use]
    pub const fn clamp(&self) -> Target {
        self.clamp
    }

    /// The window of the mean, longer than 0; `None` when each reading counts by itself.
    #[must_use]
    pub const fn smoothing(&self) -> Option<Duration> {
        self.smoothing
    }

    /// The band for readings that have been averaged already.
    #[must_use]
    pub const fn unsmoothed(self) -> Self {
        Self { smoothing: None, ..self }
    }

    pub(crate) fn clamped(&self, saturation: Measurement) -> Measurement {
        Measurement::new(saturation.get().min(self.clamp.get())).unwrap_or(saturation)
    }

    /// The count that the law asks for.
    #[must_use]
    pub fn replicas(&self, saturation: Measurement, replicas: Replicas, ready: Replicas) -> Replicas {
        let s = saturation.get();
        // As replicas are whole, n + ⌈n(x − 1)⌉ = ⌈nx⌉ and n − ⌊n(1 − x)⌋ = ⌈nx⌉, which takes no difference of almost equal numbers;
        // and n × credit = r.
        if s > self.up_at.get() {
            let base = if Self::credits(replicas, ready) { ready } else { replicas };
            Replicas::ceil(base.as_f64() * (s / self.up_at.get())).max(replicas)
        } else if s < self.down_at.get() {
            Replicas::ceil(replicas.as_f64() * (s / self.down_at.get()))
        } else {
            replicas
        }
    }

    /// Whether replicas that are starting count in favour of the fleet.
    fn credits(replicas: Replicas, ready: Replicas) -> bool {
        ready > Replicas::ZERO && ready < replicas
    }

    /// How [`Band::replicas`] comes to its count, in words.
    pub(crate) fn account(&self, saturation: Measurement, replicas: Replicas, ready: Replicas) -> String {
        let (s, count) = (saturation.get(), self.replicas(saturation, replicas, ready));
        let (up, down) = (self.up_at.get(), self.down_at.get());
        let mean = self.smoothing.map_or_else(String::new, |window| format!(" (smoothed over {} s)", window.as_secs_f64()));
        let seen = format!("saturation {}{mean}", shown(saturation));
        if s > up {
            let credit = if Self::credits(replicas, ready) {
                format!(", credit {ready}/{replicas} for pods that are starting")
            } else {
                String::new()
            };
            let asks = if count == replicas {
                format!("a fleet of {count} is enough")
            } else {
                format!("a fleet of {replicas} should be {count}")
            };
            format!("{seen} is above {up}: {asks}{credit}")
        } else if s < down {
            let asks =
                if count == replicas { format!("a fleet of {count} is still needed") } else { format!("{count} of {replicas} would do") };
            format!("{seen} is below {down}: {asks}")
        } else {
            format!("{seen} is within {down} to {up}: a fleet of {replicas} is right")
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The band of the guide, 0.40 to 0.55, clamped at 2.
    fn guide() -> Band {
        let mark = |x| Target::new(x).unwrap();
        Band::new(mark(0.55), mark(0.40), mark(2.0), None).unwrap()
    }

    fn asks(s: f64, n: u32, r: u32) -> u32 {
        guide().replicas(Measurement::new(s).unwrap(), Replicas::new(n), Replicas::new(r)).get()
    }

    #[test]
    fn the_marks_are_in_order() {
        let mark = |x| Target::new(x).unwrap();
        let seconds = |s| Some(Duration::from_secs(s));
        assert!(Band::new(mark(0.4), mark(0.4), mark(2.0), None).is_none(), "no band");
        assert!(Band::new(mark(0.4), mark(0.55), mark(2.0), None).is_none(), "upside down");
        assert!(Band::new(mark(0.55), mark(0.4), mark(0.5), None).is_none(), "nothing would ever be above it");
        assert!(Band::new(mark(0.55), mark(0.4), mark(0.55), None).is_some());
        assert_eq!(Band::new(mark(0.55), mark(0.4), mark(2.0), seconds(0)).unwrap().smoothing(), None);
        assert_eq!(Band::new(mark(0.55), mark(0.4), mark(2.0), seconds(45)).unwrap().smoothing(), seconds(45));
    }

    #[test]
    fn the_three_branches() {
        for (s, n, r, expected, why) in [
            (0.62, 8, 8, 10, "9.02 replicas"),
            (0.56, 8, 8, 9, "any excess asks for one more"),
            (0.55, 8, 8, 8, "the upper mark belongs to the band"),
            (0.40, 8, 8, 8, "the lower mark belongs to the band"),
            (0.39, 8, 8, 8, "less than a replica to spare"),
            (0.35, 8, 8, 7, "exactly one replica to spare"),
            (0.30, 4, 4, 3, "exactly one replica to spare of four"),
            (0.20, 8, 8, 4, "half of the lower mark"),
            (0.0, 8, 8, 0, "no latency at all"),
            (2.0, 3, 3, 11, "most that is asked for at once"),
        ] {
            assert_eq!(asks(s, n, r), expected, "{s} with {r}/{n}: {why}");
        }
    }

    #[test]
    fn the_credit_counts_on_the_way_up_only() {
        for (s, n, r, expected, why) in [
            (0.6, 8, 4, 8, "credited demand of 4.4 is no reason to shed what is starting"),
            (1.1, 8, 4, 8, "twice the mark on half of the fleet is just right"),
            (1.2, 8, 4, 9, "a deficit beyond what is starting"),
            (0.6, 8, 0, 9, "none is ready: no credit"),
            (0.6, 8, 9, 9, "more than asked for are ready: no credit"),
            (0.38, 8, 4, 8, "the credited reading would be 0.19, but the lower branch has no credit"),
            (0.20, 8, 4, 4, "the lower branch counts all of the fleet"),
            (0.38, 19, 19, 19, "0.95 of a replica to spare"),
            (0.38, 20, 20, 19, "exactly one replica to spare of twenty"),
        ] {
            assert_eq!(asks(s, n, r), expected, "{s} with {r}/{n}: {why}");
        }
    }

    #[test]
    fn a_fleet_of_none_asks_for_none() {
        assert_eq!(asks(2.0, 0, 0), 0, "whether it wakes is for the next stage to say");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]

        /// Document B's formulas in exact arithmetic: s in thousandths, the marks in hundredths.
        #[test]
        fn the_law_is_the_documented_one(thousandths in 0..=2000_i64, n in 0..500_i64, r in 0..500_i64) {
            let (up, down) = (550, 400);
            let credit = if 0 < r && r < n { (r, n) } else { (1, 1) };
            let ceil = |a: i64, b: i64| a.div_euclid(b) + i64::from(a.rem_euclid(b) > 0);
            let expected = if thousandths > up {
                let (above, below) = (n * (thousandths * credit.0 - up * credit.1), up * credit.1);
                (n + ceil(above, below)).max(n)
            } else if thousandths < down {
                n - (n * (down - thousandths)).div_euclid(down)
            } else {
                n
            };
            let (n, r) = (u32::try_from(n).unwrap(), u32::try_from(r).unwrap());
            prop_assert_eq!(i64::from(asks(thousandths as f64 / 1000.0, n, r)), expected);
        }

        #[test]
        fn one_sync_never_asks_for_more_than_the_clamp_allows(s in 0.0..100.0_f64, n in 0..1000_u32, r in 0..1000_u32) {
            let s = guide().clamped(Measurement::new(s).unwrap());
            let most = Replicas::ceil(f64::from(n) * (2.0 / 0.55));
            prop_assert!(guide().replicas(s, Replicas::new(n), Replicas::new(r)) <= most);
        }

        #[test]
        fn a_higher_reading_never_asks_for_less(low in 0.0..3.0_f64, more in 0.0..3.0_f64, n in 0..50_u32, r in 0..60_u32) {
            prop_assert!(asks(low + more, n, r) >= asks(low, n, r));
        }
    }

    #[test]
    fn the_account_says_which_branch_and_why() {
        let account = |s, n, r| guide().account(Measurement::new(s).unwrap(), Replicas::new(n), Replicas::new(r));
        assert_eq!(account(0.62, 8, 8), "saturation 0.62 is above 0.55: a fleet of 8 should be 10");
        assert_eq!(account(0.6, 8, 4), "saturation 0.6 is above 0.55: a fleet of 8 is enough, credit 4/8 for pods that are starting");
        for within in ["0.4", "0.45", "0.55"] {
            let words = format!("saturation {within} is within 0.4 to 0.55: a fleet of 8 is right");
            assert_eq!(account(within.parse().unwrap(), 8, 8), words, "both marks belong to the band");
        }
        assert_eq!(account(0.38, 8, 8), "saturation 0.38 is below 0.4: a fleet of 8 is still needed");
        assert_eq!(account(0.2, 8, 8), "saturation 0.2 is below 0.4: 4 of 8 would do");
        let smoothed = Band { smoothing: Some(Duration::from_millis(4500)), ..guide() };
        assert_eq!(smoothed.unsmoothed(), guide());
        let said = smoothed.account(Measurement::new(0.5).unwrap(), Replicas::ONE, Replicas::ONE);
        assert_eq!(said, "saturation 0.5 (smoothed over 4.5 s) is within 0.4 to 0.55: a fleet of 1 is right");
    }
}
