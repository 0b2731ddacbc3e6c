//! The sentence that explains a decision.

use std::time::Duration;

use super::TICK;
use super::demand::{Demand, Limit};
use super::hold::Held;
use super::plan::NO_SHRINKING;
use crate::{Bounds, Replicas};

/// The numbers of one tick, for the sentence.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    pub desired: Replicas,
    /// n.
    pub current: Replicas,
    /// x, rounded and within the bounds.
    pub need: Replicas,
    /// x.
    pub needed: f64,
    pub demand: Demand,
    pub z: f64,
    /// g.
    pub growth: f64,
    /// Q.
    pub quantile: f64,
    /// h in ticks.
    pub hold: u32,
    pub eta: f64,
    pub bounds: Bounds,
}

/// Why a fleet stays larger than its need.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kept {
    /// The first minutes shrink nothing; so much of them is left.
    Start(Duration),
    /// It was needed lately.
    Need(Held),
}

impl Account {
    pub(super) fn text(&self, kept: Kept) -> String {
        let Self { desired, current, need, needed, demand, z, growth, quantile, hold, eta, bounds } = self;
        let head = if desired > need {
            match kept {
                Kept::Start(left) => {
                    format!("held at {desired} for {} s more, as nothing shrinks in the first {} s", left.as_secs(), NO_SHRINKING.as_secs())
                }
                Kept::Need(Held { age: 0, .. }) => format!("held at {desired} by the dead band of half a replica"),
                Kept::Need(Held { age, more, .. }) => {
                    format!("held at {desired} by the need {} s ago, for {} s more", age as f64 * TICK, more as f64 * TICK)
                }
            }
        } else {
            format!("desired {desired} (was {current})")
        };
        let (load, margin, share, before) = (demand.load, demand.margin, demand.share, demand.replicas);
        let (limit, sum) = match demand.limit {
            Limit::Tpot => ("TPOT", format!("noise {margin:.1} (z {z:.1}) at {share:.2} busy")),
            Limit::KvCache => ("KV cache", format!("noise {margin:.1} (z {z:.1}) at {share:.2} busy")),
            Limit::Ttft => ("TTFT", format!("noise {margin:.1} (z {z:.1})")),
            Limit::Backlog => ("queue", format!("queue {margin:.1} at {share:.2} busy")),
        };
        let clipped = match (bounds.max.as_f64() < *needed, bounds.min.as_f64() > *needed) {
            (true, _) => format!(", cut at maxReplicas {}", bounds.max),
            (_, true) => format!(", raised to minReplicas {}", bounds.min),
            _ => String::new(),
        };
        let cases = cases(*quantile);
        let seconds = f64::from(*hold) * TICK;
        format!(
            "{head}: load {load:.1} + {sum} = {before:.1}; + growth {growth:.1} ({cases} past warm-ups) = {needed:.1}{clipped}; \
             limit {limit}; hold {seconds} s; profile x{eta:.2}"
        )
    }
}

/// A share as so many of ten or of a hundred.
fn cases(share: f64) -> String {
    let hundredths = (share * 100.0).round() as u32;
    if hundredths.is_multiple_of(10) { format!("{} of 10", hundredths / 10) } else { format!("{hundredths} of 100") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> Account {
        Account {
            desired: Replicas::new(12),
            current: Replicas::new(11),
            need: Replicas::new(12),
            needed: 11.7,
            demand: Demand { load: 5.9, share: 0.72, margin: 1.1, replicas: 9.7, limit: Limit::Tpot },
            z: 2.05,
            growth: 2.0,
            quantile: 0.9,
            hold: 20,
            eta: 1.08,
            bounds: Bounds { min: Replicas::new(2), max: Replicas::new(20) },
        }
    }

    const NEED: Kept = Kept::Need(Held { count: Replicas::ZERO, age: 3, more: 17 });

    #[test]
    fn the_sentence_of_a_plan() {
        assert_eq!(
            account().text(NEED),
            "desired 12 (was 11): load 5.9 + noise 1.1 (z 2.0) at 0.72 busy = 9.7; + growth 2.0 (9 of 10 past warm-ups) = 11.7; \
             limit TPOT; hold 300 s; profile x1.08"
        );
    }

    #[test]
    fn the_sentence_of_a_hold() {
        let held = Account { need: Replicas::new(9), ..account() };
        assert!(held.text(NEED).starts_with("held at 12 by the need 45 s ago, for 255 s more: load 5.9"), "{}", held.text(NEED));
        let now = Kept::Need(Held { count: Replicas::ZERO, age: 0, more: 20 });
        assert!(held.text(now).starts_with("held at 12 by the dead band of half a replica: load 5.9"), "{}", held.text(now));
        let start = Kept::Start(Duration::from_secs(120));
        assert!(held.text(start).starts_with("held at 12 for 120 s more, as nothing shrinks in the first 300 s: load"));
    }

    #[test]
    fn what_limits_is_named() {
        let limited = |limit| Account { demand: Demand { limit, ..account().demand }, ..account() }.text(NEED);
        assert!(limited(Limit::Ttft).contains("load 5.9 + noise 1.1 (z 2.0) = 9.7;"), "no busy share counts there");
        assert!(limited(Limit::Backlog).contains("load 5.9 + queue 1.1 at 0.72 busy = 9.7;"));
        assert!(limited(Limit::KvCache).contains("limit KV cache;"));
        let capped = Account { needed: 25.0, ..account() }.text(NEED);
        assert!(capped.contains("= 25.0, cut at maxReplicas 20; limit"), "{capped}");
    }

    #[test]
    fn shares_are_cases() {
        assert_eq!([0.9, 0.95, 0.5, 0.98].map(cases), ["9 of 10", "95 of 100", "5 of 10", "98 of 100"]);
    }
}
