//! What happens in a demo.

use std::io::{self, Write};
use std::num::NonZeroU32;

use llmscaler_simulator::Promised;
use llmscaler_simulator::workload::Lengths;

use super::cast::Strategy;
use super::traffic::{self, Course};

/// The one that is played unless another is asked for.
pub(super) const USUAL: &str = "day";

/// What they are called.
pub(super) const NAMES: [&str; 7] = ["day", "ramp", "bursts", "outage", "rollout", "idle", "full"];

/// What happens in a demo. All times are of its own clock.
#[derive(Debug)]
pub(super) struct Scenario {
    pub name: &'static str,
    /// What there is to be seen, in a sentence or two.
    pub story: &'static str,
    /// How many times as fast as time it goes unless something else is asked for.
    pub speed: NonZeroU32,
    /// The hour of the day at which it begins.
    pub hour: i64,
    /// What comes.
    pub course: Course,
    pub lengths: fn() -> Lengths,
    pub promised: Promised,
    /// Fewest and most replicas of a fleet, and how many there are at the start.
    pub bounds: (u32, u32),
    pub start: u32,
    /// How many replicas of a fleet find GPUs; `None` is all.
    pub room: Option<u32>,
    /// Who scales, each on a fleet of its own.
    pub strategies: &'static [Strategy],
    /// What else happens, by the second.
    pub acts: &'static [(u32, Act)],
}

/// What happens beside the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// All metrics are gone.
    MetricsGo,
    /// They are there again.
    MetricsComeBack,
    /// A new version of the engine is rolled out.
    Rollout,
}

impl Act {
    /// What it is, for the commentary.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::MetricsGo => "all metrics vanish: what is unknown is not zero, so no fleet may shrink now",
            Self::MetricsComeBack => "the metrics are back",
            Self::Rollout => "a new version of vLLM is rolled out: no size is written until its pods have taken over",
        }
    }
}

/// The promise of the published ramp.
const PROMISED: Promised = Promised { ttft: 3.0, tpot: 0.1 };

const SLOW: NonZeroU32 = NonZeroU32::new(10).unwrap();
const MIDDLE: NonZeroU32 = NonZeroU32::new(20).unwrap();
const FAST: NonZeroU32 = NonZeroU32::new(60).unwrap();

/// Three ways to scale, side by side.
const THREE: &[Strategy] = &[Strategy::Headroom, Strategy::Band, Strategy::KvCache];

const SCENARIOS: [Scenario; 7] = [
    Scenario {
        name: "day",
        story: "A day of chat traffic, from the morning on. Three fleets get the same requests; what differs is what they are scaled by.",
        speed: FAST,
        hour: 6,
        course: Course::Hourly(&traffic::DAY),
        lengths: traffic::chat,
        promised: PROMISED,
        bounds: (1, 12),
        start: 2,
        room: None,
        strategies: THREE,
        acts: &[],
    },
    Scenario {
        name: "ramp",
        story: "The published benchmark: from 2 to 10 requests a second and down again in 40 minutes, with three replicas at the start.",
        speed: SLOW,
        hour: 9,
        course: Course::Steps(&[(2.0, 330), (4.0, 360), (6.0, 360), (8.0, 360), (10.0, 360), (4.0, 360), (1.0, 600)]),
        lengths: traffic::long,
        promised: PROMISED,
        bounds: (3, 8),
        start: 3,
        room: None,
        strategies: THREE,
        acts: &[],
    },
    Scenario {
        name: "bursts",
        story: "Bursts of five times the load that nobody announces. What is over before a replica has started cannot be helped; room can.",
        speed: MIDDLE,
        hour: 9,
        course: Course::Bursts { low: 2.0, high: 10.0, on: 300.0, off: 600.0, seconds: 7200.0 },
        lengths: traffic::chat,
        promised: PROMISED,
        bounds: (2, 12),
        start: 3,
        room: None,
        strategies: &[Strategy::Headroom, Strategy::Band, Strategy::QueueAndRunning],
        acts: &[],
    },
    Scenario {
        name: "outage",
        story: "All metrics vanish for ten minutes while the load falls. Unknown is not zero: nothing shrinks until there are numbers again.",
        speed: SLOW,
        hour: 9,
        course: Course::Steps(&[(6.0, 240), (9.0, 420), (2.0, 1740)]),
        lengths: traffic::chat,
        promised: PROMISED,
        bounds: (1, 12),
        start: 4,
        room: None,
        strategies: THREE,
        acts: &[(600, Act::MetricsGo), (1200, Act::MetricsComeBack)],
    },
    Scenario {
        name: "rollout",
        story: "A new version is rolled out just as the load rises. A fleet that is being replaced is not resized; it is as soon as that is over.",
        speed: SLOW,
        hour: 9,
        course: Course::Steps(&[(5.0, 600), (9.0, 900), (4.0, 900)]),
        lengths: traffic::chat,
        promised: PROMISED,
        bounds: (2, 12),
        start: 4,
        room: None,
        strategies: &[Strategy::Headroom, Strategy::Band],
        acts: &[(540, Act::Rollout)],
    },
    Scenario {
        name: "idle",
        story: "Nobody asks for long stretches. One fleet goes to zero and wakes with the first request, which waits; the other keeps a replica.",
        speed: MIDDLE,
        hour: 20,
        course: Course::Steps(&[(1.0, 600), (0.0, 1500), (1.5, 900), (0.0, 1500), (0.5, 600)]),
        lengths: traffic::chat,
        promised: PROMISED,
        bounds: (1, 6),
        start: 1,
        room: None,
        strategies: &[Strategy::ToZero, Strategy::NeverZero],
        acts: &[],
    },
    Scenario {
        name: "full",
        story: "The load asks for more GPUs than there are. Pods that find none are not answered with more of them.",
        speed: SLOW,
        hour: 9,
        course: Course::Steps(&[(4.0, 300), (10.0, 900), (4.0, 1200)]),
        lengths: traffic::chat,
        promised: PROMISED,
        bounds: (2, 12),
        start: 3,
        room: Some(5),
        strategies: &[Strategy::Headroom, Strategy::Band],
        acts: &[],
    },
];

impl Scenario {
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        SCENARIOS.iter().find(|scenario| scenario.name == name)
    }
}

/// Writes what there is.
pub(super) fn list(out: &mut impl Write) -> io::Result<()> {
    for Scenario { name, story, speed, course, .. } in &SCENARIOS {
        let minutes = course.seconds() / 60.0 / f64::from(speed.get());
        writeln!(
            out,
            "{name}{} {story}\n         {minutes:.0} minutes at its own speed of {speed}, then over again",
            " ".repeat(8 - name.len())
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_scenario_that_can_be_played() {
        assert_eq!(SCENARIOS.map(|scenario| scenario.name), NAMES);
        for scenario in &SCENARIOS {
            let (min, max) = scenario.bounds;
            assert!(min <= scenario.start && scenario.start <= max, "{}", scenario.name);
            assert!(scenario.acts.iter().all(|(at, _)| f64::from(*at) < scenario.course.seconds()), "{}", scenario.name);
            assert!(scenario.acts.is_sorted_by_key(|(at, _)| *at), "{}", scenario.name);
            assert!(!scenario.strategies.is_empty(), "{}", scenario.name);
        }
        assert!(Scenario::named(USUAL).is_some() && Scenario::named("nothing").is_none());
    }
}
