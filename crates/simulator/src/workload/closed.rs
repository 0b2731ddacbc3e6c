//! Users who wait for each answer before they ask again.

use super::lengths::Lengths;
use crate::ClosedLoop;

/// Requests after which their lengths come over again.
const LENGTHS: usize = 20_000;

/// A number of users that changes over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Closed {
    /// So many users for so many seconds, one after the other.
    pub users: Vec<(u32, f64)>,
    /// Mean seconds between an answer and the next request of the same user.
    pub think: f64,
    /// The lengths of their requests.
    pub lengths: Lengths,
}

impl Closed {
    /// When the last request can come, in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.users.iter().map(|(_, seconds)| seconds).sum()
    }

    pub(super) fn clients(&self, seed: u64) -> ClosedLoop {
        let users = self
            .users
            .iter()
            .scan(0.0, |next, (users, seconds)| {
                let from = *next;
                *next += seconds;
                Some((from, *users))
            })
            .collect();
        ClosedLoop { users, think: self.think, lengths: self.lengths.draw(seed).take(LENGTHS).collect(), until: self.seconds() }
    }
}
