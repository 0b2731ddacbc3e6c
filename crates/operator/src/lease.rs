//! Leader election: of the processes that run side by side, one writes.
//!
//! Leadership is a [`Claim`] that is asked at the moment of the write and that ends by the clock. A claim stands for
//! [`RENEW_DEADLINE`] from *before* the call that last renewed it was sent, on this process's monotonic clock; nobody else takes the
//! lease until they have not seen it renewed for [`LEASE_DURATION`]. So a stalled call, a stalled process or a lost connection end
//! the claim without anything having to fail, and a write that was begun under a current claim has [`WRITE_MARGIN`] to land before
//! a successor acts.
//!
//! The lease is the one that client-go's leader election writes, so that this operator and one written in Go exclude each other.
//! Wall clocks are written for people to read and never compared.

mod record;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    future::pending,
    hash::{BuildHasher, Hasher, RandomState},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, api::PostParams};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::{debug, info, warn};

use self::record::{Record, View};
use crate::words;

/// How long others leave a lease to its holder after they last saw it renewed.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// How long a claim stands after it was last renewed.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// How long a write that was begun under a current claim may take. Give writes a deadline of no more than this.
pub const WRITE_MARGIN: Duration = LEASE_DURATION.saturating_sub(RENEW_DEADLINE);

/// The time between two looks at the lease or two renewals; up to a quarter is added to it at random.
const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// The pause after a renewal met somebody else's write.
const CONFLICT_PAUSE: Duration = Duration::from_millis(200);
/// The deadline of one API call. When a renewal stalls there is still time for a second one before the claim ends.
const CALL_DEADLINE: Duration = Duration::from_secs(5);

/// A candidacy for one lease.
#[derive(Clone, Debug)]
pub struct Election {
    api: Api<Lease>,
    lease: String,
    identity: String,
}

/// Leadership, for as long as it lasts. Once it is not current it never is again. Clones share it, and with the last of them the
/// renewal ends.
#[derive(Clone, Debug)]
pub struct Claim(Option<Arc<Term>>);

#[derive(Debug)]
struct Term {
    /// When the claim ends unless it is renewed; `None` once it was given up or taken.
    until: watch::Receiver<Option<Instant>>,
    release: CancellationToken,
    _renewal: AbortOnDropHandle<()>,
}

#[derive(Debug, thiserror::Error)]
enum CallError {
    #[error("no answer within {} s", CALL_DEADLINE.as_secs())]
    NoAnswer,
    /// The lease is no longer what it was when it was read: another version, made meanwhile, or gone.
    #[error("another process wrote the lease at the same time")]
    Contested,
    #[error("{}", words::of_error(.0))]
    Api(kube::Error),
}

impl Election {
    /// A candidacy for the lease `name` in `namespace`. The `identity` has to be unlike that of every other process that may still
    /// run: whoever finds its own identity in the lease takes the lease for its own, at once.
    #[must_use]
    pub fn new(client: Client, namespace: &str, name: &str, identity: String) -> Self {
        Self { api: Api::namespaced(client, namespace), lease: name.to_owned(), identity }
    }

    /// Waits until this process is the leader. It may be cancelled at any time: a claim that was won at just that moment expires, or
    /// is found again by the next call.
    pub async fn acquire(&self) -> Claim {
        let mut view = View::default();
        let mut trouble = String::new();
        loop {
            match self.try_acquire(&mut view).await {
                Ok(Some(claim)) => return claim,
                Ok(None) => trouble.clear(),
                Err(CallError::Contested) => debug!(lease = %self, "another process was faster"),
                Err(error) => {
                    // Said once, not every two seconds.
                    let error = error.to_string();
                    if error != trouble {
                        warn!(lease = %self, %error, "cannot read or take the lease, which takes get, create and update on leases; trying on");
                    }
                    trouble = error;
                }
            }
            sleep(jittered(RETRY_PERIOD)).await;
        }
    }

    async fn try_acquire(&self, view: &mut View) -> Result<Option<Claim>, CallError> {
        let known = view.holder().map(str::to_owned);
        self.look(view).await?;
        if !view.free_for(&self.identity) {
            if known.as_deref() != view.holder() {
                info!(lease = %self, holder = view.holder(), "standing by: another process is the leader");
            }
            return Ok(None);
        }
        let former = view.holder().unwrap_or_default().to_owned();
        let sent = Instant::now();
        let lease = view.record().taken_by(&self.identity, Timestamp::now());
        view.saw(Some(self.write(&lease).await?));
        info!(lease = %self, former, "this process is the leader");
        Ok(Some(self.claim(std::mem::take(view), sent)))
    }

    /// The claim that stands since `sent`, with the task that renews it.
    fn claim(&self, view: View, sent: Instant) -> Claim {
        let (until, receiver) = watch::channel(Some(sent + RENEW_DEADLINE));
        let release = CancellationToken::new();
        let renewal = tokio::spawn(self.clone().hold(view, until, release.clone()));
        Claim(Some(Arc::new(Term { until: receiver, release, _renewal: AbortOnDropHandle::new(renewal) })))
    }

    /// Renews the claim until it is lost, or released, and then gives the lease up.
    async fn hold(self, mut view: View, until: watch::Sender<Option<Instant>>, release: CancellationToken) {
        // Once it is asked for, the release comes before everything: a renewal in flight is dropped, and none follows.
        let released = tokio::select! {
            biased;
            () = release.cancelled() => true,
            () = self.keep(&mut view, &until) => false,
        };
        // Nobody here may write any more before anybody elsewhere can.
        until.send_replace(None);
        if released {
            match timeout(CALL_DEADLINE, self.vacate(&mut view)).await.unwrap_or(Err(CallError::NoAnswer)) {
                Ok(()) => info!(lease = %self, "gave the lease up"),
                Err(error) => warn!(lease = %self, %error, "could not give the lease up: a successor waits until it expires"),
            }
        }
    }

    /// Returns when the claim is lost.
    async fn keep(&self, view: &mut View, until: &watch::Sender<Option<Instant>>) {
        loop {
            let Some(end) = *until.borrow() else { return };
            match timeout_at(end, self.renew(view)).await {
                Ok(Some(sent)) => {
                    // The clock is read under the lock of the channel, as in `is_current`: what was said to be over stays over.
                    let renewed = until.send_if_modified(|until| {
                        let current = until.is_some_and(|end| Instant::now() < end);
                        if current {
                            *until = Some(sent + RENEW_DEADLINE);
                        }
                        current
                    });
                    if !renewed {
                        break;
                    }
                }
                Ok(None) => {
                    warn!(lease = %self, holder = view.holder(), "leadership is lost: another process took the lease");
                    return;
                }
                Err(_) => break,
            }
        }
        warn!(lease = %self, "leadership is lost: the lease could not be renewed for {} s", RENEW_DEADLINE.as_secs());
    }

    /// Renews the claim once, after a pause, however many tries it takes. Returns when the successful call was sent, or `None`
    /// when another process holds the lease.
    async fn renew(&self, view: &mut View) -> Option<Instant> {
        let mut next = Instant::now() + jittered(RETRY_PERIOD);
        loop {
            sleep_until(next).await;
            let sent = Instant::now();
            // From one try to the next, not between them: after a call that stalled there is no time to lose.
            next = sent + jittered(RETRY_PERIOD);
            let lease = view.record().taken_by(&self.identity, Timestamp::now());
            let mut outcome = self.write(&lease).await.map(|lease| view.saw(Some(lease)));
            if outcome.is_ok() {
                return Some(sent);
            }
            if let Err(CallError::Contested) = outcome {
                // Perhaps only an earlier call of ours that was given up and landed all the same, or a new label.
                outcome = self.look(view).await;
                next = Instant::now() + jittered(CONFLICT_PAUSE);
                if outcome.is_ok() && !view.free_for(&self.identity) {
                    return None;
                }
            }
            if let Err(error) = outcome {
                warn!(lease = %self, %error, "could not renew the lease; trying on");
            }
        }
    }

    /// Empties the lease, unless it is another's already.
    async fn vacate(&self, view: &mut View) -> Result<(), CallError> {
        while view.holder() == Some(&self.identity) {
            match self.write(&view.record().vacated(Timestamp::now())).await {
                Ok(lease) => view.saw(Some(lease)),
                Err(CallError::Contested) => self.look(view).await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn look(&self, view: &mut View) -> Result<(), CallError> {
        let answer = timeout(CALL_DEADLINE, self.api.get_opt(&self.lease)).await.map_err(|_| CallError::NoAnswer)?;
        view.saw(answer.map_err(CallError::Api)?);
        Ok(())
    }

    /// Writes the lease if it still is the version that `record` was made from.
    async fn write(&self, record: &Record) -> Result<Lease, CallError> {
        let how = PostParams { field_manager: Some("llmscaler".to_owned()), ..PostParams::default() };
        let lease = record.named(&self.lease);
        let answer =
            async { if record.is_new() { self.api.create(&how, &lease).await } else { self.api.replace(&self.lease, &how, &lease).await } };
        timeout(CALL_DEADLINE, answer).await.map_err(|_| CallError::NoAnswer)?.map_err(|error| match error {
            kube::Error::Api(status) if status.is_conflict() || status.is_already_exists() => CallError::Contested,
            kube::Error::Api(status) if status.is_not_found() && !record.is_new() => CallError::Contested,
            error => CallError::Api(error),
        })
    }
}

impl fmt::Display for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.api.namespace().unwrap_or_default(), self.lease)
    }
}

impl Claim {
    /// The claim of a process that runs alone, without election.
    #[must_use]
    pub fn always() -> Self {
        Self(None)
    }

    /// Whether this process may write, now.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.0.as_ref().is_none_or(|term| term.until.borrow().is_some_and(|end| Instant::now() < end))
    }

    /// Resolves when the claim is over: expired, taken or released.
    pub async fn lost(&self) {
        let Some(term) = &self.0 else { return pending().await };
        let mut until = term.until.clone();
        loop {
            let Some(end) = *until.borrow_and_update() else { return };
            tokio::select! {
                biased;
                Ok(()) = until.changed() => {}
                () = sleep_until(end) => if !self.is_current() { return },
            }
        }
    }

    /// Gives leadership up, so that a successor need not wait for the lease to expire. Call it after the last write has ended. The
    /// claim is over at once; this returns when the API server was told, or could not be within 5 s.
    pub async fn release(&self) {
        let Some(term) = &self.0 else { return };
        term.release.cancel();
        // The renewal holds the other end until it has ended.
        let mut until = term.until.clone();
        while until.changed().await.is_ok() {}
    }
}

/// `period` and up to a quarter more, so that candidates do not move in step.
fn jittered(period: Duration) -> Duration {
    period + period.mul_f64(chance() / 4.0)
}

/// A number from 0 to 1 at random.
pub(crate) fn chance() -> f64 {
    // The keys of a `RandomState` are random, and so is the hash of nothing under them.
    RandomState::new().build_hasher().finish() as f64 / u64::MAX as f64
}
