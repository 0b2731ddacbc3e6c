//! Section 5: what is missing, since when, and what stands in for it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::TICK;
use super::inputs::Inputs;
use crate::{Band, Measurement, Replicas, Target, Time, Workload};

/// So many ticks without arrivals, and as long as they last, the fleet is held; after that the saturation of the pool decides.
pub(super) const PATIENCE: u32 = 20;
/// The fleet grows above this saturation while arrivals are unknown, as in document B's guide.
const UP_AT: f64 = 0.55;
/// It shrinks below this one.
const DOWN_AT: f64 = 0.40;
/// A spike counts for no more than this.
const CLAMP: f64 = 2.0;

/// A group of inputs that comes and goes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Signal {
    /// lambda60.
    Arrivals,
    /// pi60.
    PromptTokens,
    /// hist and c2.
    PromptLengths,
    /// done, otok and o50.
    Outputs,
    /// itl.
    InterToken,
    /// wait.
    Waiting,
    /// kv and run.
    KvCache,
    /// late_ttft and late_tpot.
    Latencies,
}

impl Signal {
    const ALL: [Self; 8] = [
        Self::Arrivals,
        Self::PromptTokens,
        Self::PromptLengths,
        Self::Outputs,
        Self::InterToken,
        Self::Waiting,
        Self::KvCache,
        Self::Latencies,
    ];

    /// Its name in a sentence.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Arrivals => "requests per second",
            Self::PromptTokens => "prompt tokens per second",
            Self::PromptLengths => "prompt lengths",
            Self::Outputs => "output lengths",
            Self::InterToken => "time between tokens",
            Self::Waiting => "waiting requests",
            Self::KvCache => "KV cache in use and running requests",
            Self::Latencies => "shares of late requests",
        }
    }

    /// Whether nothing can be planned without it.
    const fn is_needed(self) -> bool {
        matches!(self, Self::Arrivals | Self::PromptTokens)
    }

    fn is_missing(self, inputs: &Inputs<'_>) -> bool {
        match self {
            Self::Arrivals => inputs.rate.is_none(),
            Self::PromptTokens => inputs.token_rate.is_none(),
            Self::PromptLengths => inputs.lengths.is_none() || inputs.variation.is_none(),
            Self::Outputs => inputs.finished.is_none() || inputs.median_output.is_none(),
            Self::InterToken => inputs.inter_token.is_none(),
            Self::Waiting => inputs.waiting.is_none(),
            Self::KvCache => inputs.kv_used.is_none() || inputs.running.is_none(),
            Self::Latencies => inputs.late_ttft.is_none() || inputs.late_tpot.is_none(),
        }
    }
}

/// What has been missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Missing {
    /// missing: ticks in a row without arrivals.
    ticks: u32,
    /// When the first of them was.
    #[serde(skip_serializing_if = "Option::is_none")]
    without: Option<Time>,
    /// When each missing signal was missed first.
    since: BTreeMap<Signal, Time>,
}

impl Missing {
    /// Notes what this tick misses.
    pub(super) fn note(&mut self, inputs: &Inputs<'_>, now: Time) {
        (self.ticks, self.without) = match inputs.arrivals {
            None => (self.ticks.saturating_add(1), self.without.or(Some(now))),
            Some(_) => (0, None),
        };
        for signal in Signal::ALL {
            // Where nothing arrives there is nothing to measure the rest of.
            let natural = !signal.is_needed() && inputs.rate == Some(0.0);
            if signal.is_missing(inputs) && !natural {
                self.since.entry(signal).or_insert(now);
            } else {
                self.since.remove(&signal);
            }
        }
    }

    /// Whether arrivals have been missing for more ticks than the fleet is held, and for as long as those last; they may be closer.
    pub(super) fn is_long(&self, now: Time) -> bool {
        let seconds = self.without.map_or(0.0, |since| now.since(since).as_secs_f64());
        self.ticks > PATIENCE && seconds >= f64::from(PATIENCE) * TICK
    }

    /// The signals without which nothing can be planned, and since when each has been missing.
    pub(super) fn needed(&self) -> impl Iterator<Item = (Signal, Time)> {
        self.since.iter().map(|(signal, since)| (*signal, *since)).filter(|(signal, _)| signal.is_needed())
    }

    /// The other signals that are missing.
    pub(super) fn useful(&self) -> impl Iterator<Item = (Signal, Time)> {
        self.since.iter().map(|(signal, since)| (*signal, *since)).filter(|(signal, _)| !signal.is_needed())
    }

    pub(super) fn tidy(&mut self, now: Time) {
        for since in self.since.values_mut().chain(&mut self.without) {
            *since = (*since).min(now);
        }
    }
}

/// The count by the saturation of the pool: document B's band from 0.40 to 0.55, up only where the replicas that are starting will not
/// be enough, and down by no more than one at a time. What they leave is clamped, and not what was measured: two of eight bear four
/// times what eight would, and clamped before it is shared nothing that they bear could ask for a ninth.
pub(super) fn by_saturation(saturation: Measurement, workload: &Workload) -> Replicas {
    let (asked, ready) = (workload.replicas, workload.ready.min(workload.replicas));
    let marks = (Target::new(UP_AT), Target::new(DOWN_AT), Target::new(CLAMP));
    let (Some(up_at), Some(down_at), Some(clamp)) = marks else { return asked };
    let Some(band) = Band::new(up_at, down_at, clamp, None) else { return asked };
    let shared = Measurement::new(saturation.get() * (ready.as_f64() / asked.as_f64().max(1.0))).unwrap_or(saturation);
    if shared.get() > UP_AT {
        band.replicas(band.clamped(shared), asked, asked)
    } else {
        band.replicas(saturation, asked, ready).clamp(asked.minus(1), asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saturation_stands_in() {
        for (s, n, r, expected, why) in [
            (0.62, 8, 8, 10, "⌈8 × 0.62 ÷ 0.55⌉"),
            (0.55, 8, 8, 8, "within the band"),
            (0.1, 8, 8, 7, "one at a time"),
            (0.0, 1, 1, 0, "whether a fleet may go to zero is for other stages"),
            (1.0, 8, 4, 8, "0.5 once the others serve"),
            (1.2, 8, 4, 9, "0.6 even then: ⌈4 × 1.2 ÷ 0.55⌉"),
            (9.0, 3, 3, 11, "2 at most"),
            (9.0, 8, 2, 30, "2.25 even then, of which 2 count"),
            (3.0, 8, 2, 11, "0.75 even then: ⌈8 × 0.75 ÷ 0.55⌉"),
            (2.0, 8, 2, 8, "0.5 once the others serve"),
            (9.0, 3, 0, 3, "none is ready, so nobody knows"),
            (9.0, 0, 0, 0, "not from zero"),
        ] {
            let workload = Workload { replicas: Replicas::new(n), ready: Replicas::new(r), ..Workload::default() };
            assert_eq!(by_saturation(Measurement::new(s).unwrap(), &workload).get(), expected, "{s} with {r}/{n}: {why}");
        }
    }

    #[test]
    fn each_signal_is_missing_since_its_own_time() {
        let at = Time::from_millis;
        let mut missing = Missing::default();
        let useful = |missing: &Missing| missing.useful().collect::<Vec<_>>();
        let busy = Inputs { rate: Some(1.0), token_rate: Some(1.0), waiting: Some(0.0), late_ttft: Some((0.0, 1.0)), ..Inputs::default() };
        missing.note(&busy, at(1));
        assert_eq!(missing.needed().count(), 0);
        assert!(useful(&missing).contains(&(Signal::Latencies, at(1))), "one of the two alone is not enough");
        missing.note(&Inputs { waiting: None, ..busy }, at(2));
        assert!(useful(&missing).contains(&(Signal::Waiting, at(2))) && useful(&missing).contains(&(Signal::Latencies, at(1))));
        missing.note(&Inputs { rate: Some(0.0), ..busy }, at(3));
        assert_eq!(useful(&missing), [], "nothing arrives");
        missing.note(&Inputs::default(), at(4));
        assert_eq!(missing.needed().collect::<Vec<_>>(), [(Signal::Arrivals, at(4)), (Signal::PromptTokens, at(4))]);
    }
}
