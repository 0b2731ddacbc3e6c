//! Whether somebody takes back the sizes that we write.
//!
//! Somebody else's size is an edit, and the next decision starts from it. Somebody who takes back size after size owns it: the same
//! field manager, [`TIMES`] times, each within [`SOON`] of our write. Then nothing is written until they have let the field go, or
//! have been quiet for long; a write is a trial then, and who takes that back, too, has the size for twice as long.

use std::ops::RangeInclusive;
use std::time::Duration;

use llmscaler_engine::{Replicas, Time};

use crate::target::{Newest, Target};

/// How long after our write another one takes it back. GitOps tools correct a drift at once or at their next interval, which is often
/// ten minutes.
const SOON: Duration = Duration::from_secs(15 * 60);

/// How many of our writes somebody takes back before they own the size. The first two may be people, or two rollouts in a row.
const TIMES: usize = 3;

/// For how long a write that was taken back counts.
const MEMORY: Duration = Duration::from_secs(60 * 60);

/// How long somebody who owns the size has to be quiet before a write is tried: the shortest, and the longest after many trials.
const QUIET: RangeInclusive<Duration> = Duration::from_secs(30 * 60)..=Duration::from_secs(8 * 60 * 60);

/// How long somebody has not to hold the field any more to have let it go. A person's edit in between lasts for seconds.
const LET_GO: Duration = Duration::from_secs(60);

/// What follows the name in [`Taker::words`].
const KEEPS: &str = " keeps setting spec.replicas";

/// The name in words of a writer who left none.
const SOMEBODY: &str = "somebody";

/// Somebody who takes back each size that we write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Taker {
    /// The field manager; empty when the API server has no name for who wrote the size.
    pub manager: String,
}

impl Taker {
    /// Who, and what they do; the object follows.
    pub(crate) fn words(&self) -> String {
        let name = if self.manager.is_empty() { SOMEBODY } else { &self.manager };
        format!("{name}{KEEPS}")
    }

    /// Who was named in a message that began with [`Taker::words`].
    pub(crate) fn told_of(message: &str) -> Option<Self> {
        let (name, _) = message.split_once(KEEPS)?;
        Some(Self { manager: if name == SOMEBODY { String::new() } else { name.to_owned() } })
    }
}

/// Whether somebody takes back the sizes that we write to one target.
#[derive(Debug, Default)]
pub(crate) struct Contest {
    /// The UID of the target.
    target: Option<String>,
    /// Our last write, until it was seen to be taken back.
    write: Option<Write>,
    /// Who took back our last writes, and when.
    taken: Option<(Taker, Vec<Time>)>,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    /// Nobody is known to own the size.
    #[default]
    Free,
    Yielded(Yielded),
    /// One who owned the size has been quiet, or let it go, at this moment.
    OnTrial {
        taker: Taker,
        since: Time,
        quiet: Duration,
    },
}

#[derive(Debug)]
struct Write {
    at: Time,
    count: Replicas,
    /// The target's generation after it.
    generation: i64,
    newest: Newest,
}

/// The size is left to somebody.
#[derive(Debug)]
struct Yielded {
    to: Taker,
    /// Since when the size has not moved.
    since: Time,
    size: Option<Replicas>,
    /// Since when they do not hold the field.
    gone: Option<Time>,
    /// How long they have to be quiet.
    quiet: Duration,
}

impl Contest {
    /// The size has been left to somebody before a restart of the operator, and still is.
    pub(crate) fn resume(taker: Taker, now: Time) -> Self {
        let yielded = Yielded { to: taker, since: now, size: None, gone: None, quiet: *QUIET.start() };
        Self { state: State::Yielded(yielded), ..Self::default() }
    }

    /// Who owns the size, as far as its changes tell.
    pub(crate) fn taker(&self) -> Option<&Taker> {
        match &self.state {
            State::Yielded(yielded) => Some(&yielded.to),
            State::Free | State::OnTrial { .. } => None,
        }
    }

    /// We have written `count` to the target, which has this generation since.
    pub(crate) fn wrote(&mut self, at: Time, target: &Target, count: Replicas, generation: i64) {
        self.write = Some(Write { at, count, generation, newest: target.newest.clone() });
    }

    /// Looks at the target and its size as they are now, or were shortly before our last write.
    pub(crate) fn look(&mut self, now: Time, target: &Target, size: Replicas) {
        if self.target.replace(target.uid.clone()).is_some_and(|known| known != target.uid) {
            *self = Self { target: self.target.take(), ..Self::default() };
        }
        match &mut self.state {
            State::Yielded(yielded) => {
                if yielded.is_over(now, target, size) {
                    self.state = State::OnTrial { taker: yielded.to.clone(), since: now, quiet: yielded.quiet };
                    (self.write, self.taken) = (None, None);
                }
            }
            State::Free | State::OnTrial { .. } => self.judge(now, target, size),
        }
    }

    /// Sees whether our last write was taken back, and whether that was once too often.
    fn judge(&mut self, now: Time, target: &Target, size: Replicas) {
        let Some(taker) = self.write.as_ref().and_then(|write| write.taken_by(target, size)) else { return };
        let Some(write) = self.write.take() else { return };
        // A rollout sets the size by the way. Its author may not know that the size is scaled, and will not come again soon.
        if now.since(write.at) > SOON || target.newest != write.newest {
            return;
        }
        let mut times = match self.taken.take() {
            Some((before, times)) if before == taker => times,
            _ => vec![],
        };
        times.retain(|at| now.since(*at) < MEMORY);
        times.push(now);
        let (enough, quiet) = match &self.state {
            State::OnTrial { taker: suspect, since, quiet } if *suspect == taker && now.since(*since) < MEMORY => {
                (1, quiet.saturating_mul(2).min(*QUIET.end()))
            }
            // A target's own controller writes what its parent says, at each of its rounds.
            _ if target.parent.is_some() && !taker.manager.starts_with("kubectl") => (1, *QUIET.start()),
            _ => (TIMES, *QUIET.start()),
        };
        if times.len() >= enough {
            self.state = State::Yielded(Yielded { to: taker, since: now, size: Some(size), gone: None, quiet });
        } else {
            self.taken = Some((taker, times));
        }
    }
}

impl Write {
    /// Who has given the target another size since.
    fn taken_by(&self, target: &Target, size: Replicas) -> Option<Taker> {
        // A watch may be behind: what it shows was there before we wrote.
        if target.generation < self.generation || size == self.count {
            return None;
        }
        match target.holders.iter().rfind(|holder| !holder.is_ours()) {
            Some(holder) => Some(Taker { manager: holder.manager.clone() }),
            // The book may be elsewhere, for a kind that has its size under another name, or have been thrown away.
            None if target.holders.is_empty() => Some(Taker { manager: String::new() }),
            None => None,
        }
    }
}

impl Yielded {
    fn is_over(&mut self, now: Time, target: &Target, size: Replicas) -> bool {
        if self.size.replace(size).is_some_and(|before| before != size) {
            self.since = now;
        }
        let holds = self.to.manager.is_empty() || target.holders.iter().any(|holder| holder.manager == self.to.manager);
        self.gone = if holds { None } else { self.gone.or(Some(now)) };
        self.gone.is_some_and(|since| now.since(since) >= LET_GO) || now.since(self.since) >= self.quiet
    }
}

#[cfg(test)]
mod tests;
