//! What was counted between two scrapes.

use super::history::{SAME_MOMENT, Scraped};
use super::{Group, Histograms, Metrics};
use crate::{Counts, EngineMeters, GatewayMeters};

/// The first and the last scrape of a window, and how its counters become rates.
pub(super) struct Window<'a> {
    pub first: &'a Scraped,
    pub last: &'a Scraped,
    extent: Extent,
}

/// What a difference of counters is divided by.
#[derive(Clone, Copy)]
enum Extent {
    /// The time between the two scrapes.
    Covered(f64),
    /// The window as `rate()` of Prometheus sees it.
    Asked {
        /// Seconds of the window.
        window: f64,
        /// Seconds between its first and its last scrape.
        covered: f64,
        /// Seconds before the first one that count as covered, unless the counter would have begun below 0.
        before: f64,
        /// Seconds after the last one that count as covered.
        after: f64,
    },
}

impl Metrics {
    /// The window of `seconds` that ends `now`; `None` where its group is missing, and until there are two scrapes in it.
    pub(super) fn window(&self, group: Group, now: f64, seconds: f64) -> Option<Window<'_>> {
        (!self.misses(group, now)).then(|| self.span(now, seconds)).flatten()
    }

    fn span(&self, now: f64, seconds: f64) -> Option<Window<'_>> {
        let scrapes = self.history.between(now - seconds, self.horizon(now));
        let count = scrapes.len();
        let mut ends = scrapes;
        let (first, last) = (ends.next()?, ends.next_back()?);
        let covered = last.at - first.at;
        let extent = match self.settings.histograms {
            Histograms::Ideal => Extent::Covered(covered),
            Histograms::Real => {
                let between = covered / (count - 1) as f64;
                let reached = |gap: f64| if gap >= 1.1 * between { between / 2.0 } else { gap.max(0.0) };
                Extent::Asked { window: seconds, covered, before: reached(first.at - (now - seconds)), after: reached(now - last.at) }
            }
        };
        (covered > SAME_MOMENT).then_some(Window { first, last, extent })
    }
}

impl Window<'_> {
    /// The rate per second of a counter of these two values.
    pub fn rate(&self, first: u64, last: u64) -> f64 {
        let growth = last.saturating_sub(first) as f64;
        match self.extent {
            Extent::Covered(covered) => growth / covered,
            Extent::Asked { window, covered, before, after } => {
                // A counter cannot have begun below 0, so it does not reach further back than its own slope says.
                let before = if growth > 0.0 { before.min(covered * (first as f64 / growth)) } else { before };
                growth * ((covered + before + after) / covered) / window
            }
        }
    }

    /// How much a counter of the engines has grown.
    pub fn engines_grew(&self, counter: impl Fn(&EngineMeters) -> u64) -> u64 {
        counter(&self.last.engines).saturating_sub(counter(&self.first.engines))
    }

    /// The rate per second of a counter of the engines.
    pub fn engines_rate(&self, counter: impl Fn(&EngineMeters) -> u64) -> f64 {
        self.rate(counter(&self.first.engines), counter(&self.last.engines))
    }

    /// What the engines have observed.
    pub fn engines_observed(&self, counts: impl Fn(&EngineMeters) -> &Counts) -> Counts {
        counts(&self.last.engines).since(counts(&self.first.engines))
    }

    /// What the gateway has observed.
    pub fn gateway_observed(&self, counts: impl Fn(&GatewayMeters) -> &Counts) -> Counts {
        counts(&self.last.gateway).since(counts(&self.first.gateway))
    }
}
