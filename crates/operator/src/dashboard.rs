//! The dashboard: a read-only page of all scalers and why each has the size that it has.
//!
//! It is off unless asked for, answers GET alone, and tells what the status, the events and the metrics of the scalers tell, over
//! time. What a source is asked with (addresses, headers, certificates) never comes here. A [`History`] is only kept while the
//! dashboard is on.
//!
//! It answers only to names that no page from elsewhere can have, so that none can read it through a name that it makes resolve here
//! (DNS rebinding).

mod history;
mod hosts;
mod level;
mod record;
mod samples;
mod server;
mod stream;
mod summary;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::pin::pin;

use tokio_util::sync::CancellationToken;

pub use self::history::{History, Lateness, Synced};
pub use self::hosts::{HostName, NoHostName};
pub use self::record::{DECISIONS, EVENTS};
pub use self::samples::SAMPLES;
use crate::clock::Clock;
use crate::serve::{Bound, ServeError};

/// A dashboard that has its port, and answers once it runs.
pub struct Dashboard {
    bound: Bound,
    history: History,
    /// Ends the streams, which would not end by themselves.
    ending: CancellationToken,
}

impl Dashboard {
    /// Takes the port; port 0 lets the system choose one. It is asked by address, by names without a dot, by those that end in `.svc` or
    /// `.cluster.local`, and by those of `hosts`. `clock` is the operator's.
    ///
    /// # Errors
    ///
    /// When the port cannot be had.
    pub async fn bind(addr: SocketAddr, hosts: Vec<HostName>, clock: Clock) -> Result<Self, ServeError> {
        let (history, ending) = (History::of(clock), CancellationToken::new());
        let router = server::router(history.clone(), hosts, ending.clone());
        let bound = Bound::plain(addr, "--dashboard-bind-address", router).await?;
        Ok(Self { bound, history, ending })
    }

    /// Where it listens, with the port that the system chose when 0 was asked for.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.bound.addr()
    }

    /// What it shows.
    #[must_use]
    pub fn history(&self) -> History {
        self.history.clone()
    }

    /// Serves until `shutdown`.
    ///
    /// # Errors
    ///
    /// When the server stops by itself.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), ServeError> {
        let Self { bound, history: _, ending } = self;
        let mut serving = pin!(bound.run(shutdown.clone()));
        if let Some(ended) = shutdown.run_until_cancelled(&mut serving).await {
            return ended;
        }
        ending.cancel();
        serving.await
    }
}
