//! Those who send requests.

use std::collections::VecDeque;

use rand::RngExt;
use rand_distr::Exp1;
use rand_pcg::Pcg64;

use crate::events::Events;
use crate::random::stream;
use crate::{Arrivals, ClosedLoop, Request};

/// Those who send requests.
#[derive(Clone, Debug)]
pub(crate) enum Clients {
    Open(VecDeque<Request>),
    Closed(Users),
}

impl Clients {
    pub fn new(arrivals: Arrivals, seed: u64) -> Self {
        match arrivals {
            Arrivals::Open(requests) => Self::Open(requests.into()),
            Arrivals::Closed(closed) => Self::Closed(Users::new(closed, seed)),
        }
    }

    /// When something is to be expected of them next; infinite: nothing more, unless an answer makes them ask again.
    pub fn due(&self) -> f64 {
        match self {
            Self::Open(requests) => requests.front().map_or(f64::INFINITY, |request| request.at),
            Self::Closed(users) => users.due(),
        }
    }

    /// The request that is due, if it is one that is, and the user who waits for the answer.
    pub fn take(&mut self) -> Option<(Request, Option<u32>)> {
        match self {
            Self::Open(requests) => requests.pop_front().map(|request| (request, None)),
            Self::Closed(users) => users.take().map(|(request, user)| (request, Some(user))),
        }
    }

    /// More requests, none before the last that there is.
    pub fn send(&mut self, more: impl IntoIterator<Item = Request>) {
        if let Self::Open(requests) = self {
            requests.extend(more);
        }
    }

    /// A user has the answer, or knows that there will be none.
    pub fn answered(&mut self, user: Option<u32>, at: f64) {
        if let (Self::Closed(users), Some(user)) = (self, user) {
            users.think(user, at);
        }
    }
}

/// The users of a closed loop.
#[derive(Clone, Debug)]
pub(crate) struct Users {
    closed: ClosedLoop,
    /// Changes of their number so far.
    changes: usize,
    present: u32,
    /// By user: whether it thinks or waits for an answer.
    busy: Vec<bool>,
    asks: Events<(f64, u32)>,
    /// Requests so far.
    asked: usize,
    random: Pcg64,
}

impl Users {
    fn new(closed: ClosedLoop, seed: u64) -> Self {
        let random = stream(seed, "think times");
        Self { closed, changes: 0, present: 0, busy: Vec::new(), asks: Events::new(), asked: 0, random }
    }

    fn due(&self) -> f64 {
        let change = self.closed.users.get(self.changes).map_or(f64::INFINITY, |(at, _)| *at);
        let due = self.asks.due().min(change);
        if due <= self.closed.until { due } else { f64::INFINITY }
    }

    fn take(&mut self) -> Option<(Request, u32)> {
        if let Some(&(at, number)) = self.closed.users.get(self.changes)
            && at <= self.asks.due()
        {
            self.changes += 1;
            self.arrive(number, at);
            return None;
        }
        let (at, user) = self.asks.take()?;
        if user >= self.present {
            self.busy[user as usize] = false;
            return None;
        }
        let (prompt, output) = *self.closed.lengths.get(self.asked % self.closed.lengths.len().max(1))?;
        self.asked += 1;
        Some((Request { at, prompt, output, reusable_prefix: 0 }, user))
    }

    /// So many users from now on; new ones think first.
    fn arrive(&mut self, number: u32, at: f64) {
        self.present = number;
        self.busy.resize(self.busy.len().max(number as usize), false);
        for user in 0..number {
            if !self.busy[user as usize] {
                self.think(user, at);
            }
        }
    }

    fn think(&mut self, user: u32, at: f64) {
        let stays = user < self.present;
        self.busy[user as usize] = stays;
        if stays {
            let asks = at + self.closed.think * self.random.sample::<f64, _>(Exp1);
            self.asks.add(asks, (asks, user));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_ask_again_only_after_their_answer() {
        let closed = ClosedLoop { users: vec![(0.0, 3), (100.0, 1)], think: 2.0, lengths: vec![(10, 1), (20, 2)], until: 200.0 };
        let mut clients = Clients::new(Arrivals::Closed(closed), 7);
        assert_eq!(clients.due(), 0.0);
        assert_eq!(clients.take(), None);
        let first: Vec<_> = (0..3).filter_map(|_| clients.take()).collect();
        assert_eq!(first.iter().map(|(request, _)| request.prompt).collect::<Vec<_>>(), [10, 20, 10]);
        let mut users: Vec<_> = first.iter().filter_map(|(_, user)| *user).collect();
        users.sort_unstable();
        assert_eq!(users, [0, 1, 2]);
        assert_eq!(clients.due(), 100.0);
        clients.answered(Some(1), 50.0);
        assert!(clients.due() > 50.0);
        let (request, user) = clients.take().unwrap();
        assert_eq!((request.prompt, user), (20, Some(1)));
        assert_eq!(clients.take(), None);
        clients.answered(Some(2), 120.0);
        assert_eq!(clients.due(), f64::INFINITY, "user 2 has left");
        clients.answered(Some(0), 199.999_999);
        assert_eq!(clients.due(), f64::INFINITY, "nobody asks after 200 s");
    }
}
