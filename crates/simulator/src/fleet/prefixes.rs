//! Who has the prefix of a request cached.

use std::collections::VecDeque;

use rand::RngExt;
use rand_pcg::Pcg64;

use crate::random::stream;
use crate::router::Cached;

/// Seconds for which a replica that is gone is still missed by requests whose prefix it had cached.
const MISSED: f64 = 60.0;

/// Where the prefix of a request is cached.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Holder {
    Nobody,
    Serving(Cached),
    /// So many tokens of it went with a replica.
    Gone {
        tokens: u64,
    },
}

#[derive(Debug)]
pub(super) struct Prefixes {
    /// Share of a reusable prefix that whoever has served it still has, 0 to 1.
    hits: f64,
    /// When replicas went that may have had prefixes cached.
    departed: VecDeque<f64>,
    random: Pcg64,
}

impl Prefixes {
    pub fn new(hits: f64, seed: u64) -> Self {
        Self { hits, departed: VecDeque::new(), random: stream(seed, "cached prefixes") }
    }

    /// A replica goes, and what it has cached with it.
    pub fn depart(&mut self, now: f64) {
        if self.hits > 0.0 {
            self.departed.push_back(now);
        }
    }

    /// Which replica has the prefix of a request cached, if it is still there: each of those that have served lately is as likely.
    ///
    /// Requests do not say whose turn of which conversation they are, so the draw stands for it: a router that does not know who has
    /// the prefix meets it one time in as many as there are replicas, and a prefix goes with its replica.
    pub fn holder(&mut self, prefix: u32, serving: &[u32], now: f64) -> Holder {
        let tokens = (f64::from(prefix) * self.hits) as u64;
        if tokens == 0 {
            return Holder::Nobody;
        }
        while self.departed.front().is_some_and(|at| *at <= now - MISSED) {
            self.departed.pop_front();
        }
        let drawn = self.random.random_range(0..(serving.len() + self.departed.len()).max(1));
        match serving.get(drawn) {
            Some(&slot) => Holder::Serving(Cached { slot, tokens }),
            None if self.departed.is_empty() => Holder::Nobody,
            None => Holder::Gone { tokens },
        }
    }
}
