//! The requests of one run.

use crate::Request;

/// The requests of one run.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// They come when they come, however long answers take; in the order of time.
    Open(Vec<Request>),
    /// Each user waits for the answer, thinks, and asks again.
    Closed(ClosedLoop),
}

/// Users who each have at most one request at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct ClosedLoop {
    /// From each of these times on there are so many users; ascending, the first at 0. Users who leave finish what they have asked for.
    pub users: Vec<(f64, u32)>,
    /// Mean seconds between an answer and the next request of the same user, exponential.
    pub think: f64,
    /// Prompt and output lengths in tokens, taken in turn, over again when they are used up; at least one.
    pub lengths: Vec<(u32, u32)>,
    /// Nobody asks after this.
    pub until: f64,
}
