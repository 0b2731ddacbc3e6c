//! What comes to a fleet, and what is promised to those who send it.

mod amount;
mod catalogue;
mod closed;
mod curve;
mod describe;
mod lengths;
mod notation;
mod open;
mod replay;
mod trace;

use llmscaler_engine::Bounds;

pub use catalogue::{Setting, TRACES, TracePreset};
pub use closed::Closed;
pub use curve::{Curve, Noise, Step};
pub use lengths::{Length, Lengths};
pub use notation::NotationError;
pub use open::Open;
pub use replay::{Replay, ScalingError};
pub use trace::{Trace, TraceError};

use crate::{Arrivals, Promised};

/// Most requests of one run; more would not fit in memory.
const MOST_REQUESTS: f64 = 1e8;

/// Most users at a time: each may have a request in flight, and every fleet is full with far fewer.
const MOST_USERS: f64 = 1e5;

/// The longest run in seconds: a year.
const LONGEST: f64 = 366.0 * 86_400.0;

/// The longest prompt or answer; no engine's context holds more.
const MOST_TOKENS: u32 = 10_000_000;

/// Requests as they come over time, what is promised for them, and what the fleet may be.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// What it is called.
    pub name: String,
    /// The latencies that are promised.
    pub promised: Promised,
    /// Fewest and most replicas.
    pub bounds: Bounds,
    /// Replicas that are ready at the start.
    pub start: u32,
    /// The requests.
    pub shape: Shape,
}

/// The requests of a workload, before chance has its part in them.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Drawn, whether or not earlier ones are answered.
    Open(Open),
    /// Of users who wait for each answer.
    Closed(Closed),
    /// Recorded.
    Replay(Replay),
}

impl Workload {
    /// A workload from a trace, named after it and its scaling; the settings that have a name of their own in [`TRACES`] get that.
    #[must_use]
    pub fn from_trace(replay: Replay, setting: Setting) -> Self {
        let Setting { promised, bounds, start } = setting;
        Self { name: catalogue::name_of(&replay), promised, bounds, start, shape: Shape::Replay(replay) }
    }

    /// The requests of one run, in the order of time. The same seed gives the same requests; what chance decides for one thing (times,
    /// prompts, answers, copies) does not depend on how much of it another one takes.
    #[must_use]
    pub fn arrivals(&self, seed: u64) -> Arrivals {
        match &self.shape {
            Shape::Open(open) => Arrivals::Open(open.requests(seed)),
            Shape::Closed(closed) => Arrivals::Closed(closed.clients(seed)),
            Shape::Replay(replay) => Arrivals::Open(replay.requests(seed)),
        }
    }

    /// When the last request can come, in seconds.
    #[must_use]
    pub fn span(&self) -> f64 {
        match &self.shape {
            Shape::Open(open) => open.curve.seconds(),
            Shape::Closed(closed) => closed.seconds(),
            Shape::Replay(replay) => replay.trace().seconds(),
        }
    }

    /// The built-in workload of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        catalogue::named(name)
    }

    /// The names of the built-in workloads.
    pub fn names() -> impl Iterator<Item = &'static str> {
        catalogue::NAMES.into_iter()
    }
}
