//! The traffic of the demo.

use std::collections::VecDeque;

use llmscaler_engine::{Bounds, Replicas};
use llmscaler_simulator::workload::{Curve, Length, Lengths, Noise, Open, Shape, Step};
use llmscaler_simulator::{Arrivals, Promised, Request, Workload};

/// Requests per second over time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Course {
    /// At each full hour, with straight lines between, and from the last to the first again.
    Hourly(&'static [f64]),
    /// Each for so many seconds.
    Steps(&'static [(f64, u32)]),
    /// Quiet and bursts in turn.
    Bursts {
        low: f64,
        high: f64,
        /// Mean seconds of a burst.
        on: f64,
        /// Mean seconds between two.
        off: f64,
        seconds: f64,
    },
}

/// From 6 in the morning on: a steep morning, a dip at noon, an evening, and a night.
pub(super) const DAY: [f64; 24] =
    [2.0, 4.0, 8.0, 12.0, 14.0, 14.5, 12.5, 13.5, 15.0, 14.0, 12.5, 10.0, 8.5, 8.0, 9.0, 8.0, 6.0, 4.0, 2.2, 1.3, 0.9, 0.8, 0.9, 1.3];

/// Pieces of a straight line per hour.
const PIECES: u32 = 12;

/// Chat with some context: prompts of mean 3,200 and answers of mean 720 tokens.
pub(super) fn chat() -> Lengths {
    Lengths {
        prompt: Length::LogNormal { median: 2500.0, sigma: 0.7, max: 30_000 },
        output: Length::LogNormal { median: 600.0, sigma: 0.6, max: 4000 },
    }
}

/// The published ramp's: about 4,000 tokens in and 1,000 out.
pub(super) fn long() -> Lengths {
    Lengths {
        prompt: Length::Normal { mean: 4000.0, sd: 300.0, min: 3500, max: 4500 },
        output: Length::Normal { mean: 1000.0, sd: 80.0, min: 900, max: 1100 },
    }
}

impl Course {
    /// How long it is until it begins again.
    pub(super) fn seconds(self) -> f64 {
        match self {
            Self::Hourly(rates) => rates.len() as f64 * 3600.0,
            Self::Steps(steps) => steps.iter().map(|(_, seconds)| f64::from(*seconds)).sum(),
            Self::Bursts { seconds, .. } => seconds,
        }
    }

    /// The requests of its `round`, the first of which is 0; by chance, and the same chance every time.
    pub(super) fn requests(self, lengths: Lengths, round: u32) -> Vec<Request> {
        let noise = matches!(self, Self::Hourly(_)).then_some(Noise { sd: 0.1, correlation: 300.0 });
        let shape = Shape::Open(Open { curve: self.curve(), noise, batch: 1, lengths });
        let (promised, bounds) = (Promised { ttft: 1.0, tpot: 1.0 }, Bounds { min: Replicas::ONE, max: Replicas::ONE });
        let workload = Workload { name: String::new(), promised, bounds, start: 1, shape };
        let Arrivals::Open(mut requests) = workload.arrivals(u64::from(round) + 1) else { return vec![] };
        let begin = f64::from(round) * self.seconds();
        requests.iter_mut().for_each(|request| request.at += begin);
        requests
    }

    fn curve(self) -> Curve {
        let step = |rate, seconds| Step { rate, seconds };
        match self {
            Self::Hourly(rates) => {
                let hour = |index: usize| {
                    let (from, to) = (rates[index], rates[(index + 1) % rates.len()]);
                    (0..PIECES).map(move |piece| {
                        let share = (f64::from(piece) + 0.5) / f64::from(PIECES);
                        step(from + (to - from) * share, 3600.0 / f64::from(PIECES))
                    })
                };
                Curve::Steps((0..rates.len()).flat_map(hour).collect())
            }
            Self::Steps(steps) => Curve::Steps(steps.iter().map(|(rate, seconds)| step(*rate, f64::from(*seconds))).collect()),
            Self::Bursts { low, high, on, off, seconds } => Curve::OnOff { low, high, on, off, seconds },
        }
    }
}

/// The requests of a course, round after round.
#[derive(Debug)]
pub(super) struct Source {
    course: Course,
    lengths: fn() -> Lengths,
    /// Rounds that were drawn.
    rounds: u32,
    upcoming: VecDeque<Request>,
}

impl Source {
    pub(super) fn new(course: Course, lengths: fn() -> Lengths) -> Self {
        Self { course, lengths, rounds: 0, upcoming: VecDeque::new() }
    }

    /// What comes before `time`, in seconds, and was not taken yet.
    pub(super) fn take_until(&mut self, time: f64) -> Vec<Request> {
        while f64::from(self.rounds) * self.course.seconds() < time {
            self.upcoming.extend(self.course.requests((self.lengths)(), self.rounds));
            self.rounds += 1;
        }
        let count = self.upcoming.partition_point(|request| request.at < time);
        self.upcoming.drain(..count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_follow_each_other() {
        let course = Course::Steps(&[(2.0, 100), (0.0, 50)]);
        let rounds: Vec<_> = (0..3).map(|round| course.requests(chat(), round)).collect();
        for (round, requests) in rounds.iter().enumerate() {
            let begin = round as f64 * 150.0;
            assert!(requests.len() > 150 && requests.iter().all(|request| (begin..begin + 100.0).contains(&request.at)), "{round}");
        }
        assert_ne!(rounds[0].len(), rounds[1].len(), "another round is other traffic");
        assert_eq!(rounds[0], course.requests(chat(), 0));
    }

    #[test]
    fn a_source_gives_each_request_once_and_in_order() {
        let course = Course::Steps(&[(2.0, 100), (0.0, 50)]);
        let mut source = Source::new(course, chat);
        let mut taken = vec![];
        for time in [10.0, 10.0, 99.0, 160.0, 450.0] {
            let part = source.take_until(time);
            assert!(part.iter().all(|request| request.at < time));
            taken.extend(part);
        }
        let all: Vec<_> = (0..3).flat_map(|round| course.requests(chat(), round)).collect();
        assert_eq!(taken, all);
    }

    #[test]
    fn a_day_goes_through_its_hours() {
        let course = Course::Hourly(&DAY);
        assert_eq!(course.seconds(), 86_400.0);
        let requests = course.requests(chat(), 0);
        let between = |from: f64, to: f64| requests.iter().filter(|request| (from..to).contains(&request.at)).count() as f64 / (to - from);
        assert!((between(0.0, 3600.0) - 3.0).abs() < 0.5);
        assert!((between(8.0 * 3600.0, 9.0 * 3600.0) - 14.5).abs() < 1.5);
        assert!(between(20.0 * 3600.0, 22.0 * 3600.0) < 1.2);
    }
}
