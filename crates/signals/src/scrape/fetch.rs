//! Reading pages over the network: all at once, each under its own deadline.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use llmscaler_engine::Time;
use tokio::time::Instant;

use super::page::{Page, Reader};
use super::wanted::Wanted;
use crate::body;
use crate::transport::{Endpoint, EndpointError, Error, Transport};

/// The largest page that is read, in bytes. Those of inference servers have 100 to 500 KB; they are read as they come in, and what
/// is held of one at a time is a line.
pub const LARGEST_PAGE: usize = 8 << 20;

/// The longest that one page may take, however long the period is.
pub const LONGEST_SCRAPE: Duration = Duration::from_secs(2);

/// Pages of one scaler that are read at once; the rest waits its turn.
const AT_ONCE: usize = 256;

/// A pod whose page is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodAddress {
    /// Its name, for messages and victims.
    pub name: String,
    /// Its UID: a pod of the same name that comes later is another pod.
    pub uid: String,
    /// Scheme, host and port, as `http://10.0.0.7:8000`.
    pub base: String,
}

impl PodAddress {
    /// A pod at an address of its own.
    #[must_use]
    pub fn new(name: impl Into<String>, uid: impl Into<String>, https: bool, address: SocketAddr) -> Self {
        let scheme = if https { "https" } else { "http" };
        Self { name: name.into(), uid: uid.into(), base: format!("{scheme}://{address}") }
    }
}

/// How pages of one kind are asked for.
#[derive(Clone)]
pub struct Access {
    /// The connections, with their TLS settings. Proxies of the environment are not used.
    pub transport: Transport,
    /// The path, mostly `/metrics`.
    pub path: String,
    /// Headers that go with every request. They reach whoever listens at the address, so a token for the router does not belong
    /// among those for the pods.
    pub headers: BTreeMap<String, String>,
}

impl Access {
    /// Without headers, at `/metrics`.
    #[must_use]
    pub fn new(transport: Transport) -> Self {
        Self { transport, path: "/metrics".to_owned(), headers: BTreeMap::new() }
    }
}

/// The path and the header names; values are secrets.
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<_> = self.headers.keys().collect();
        f.debug_struct("Access").field("path", &self.path).field("headers", &headers).finish_non_exhaustive()
    }
}

/// What is read at one sync.
#[derive(Clone, Debug)]
pub struct ScrapeTargets {
    /// The target's ready pods, and no others.
    pub pods: Vec<PodAddress>,
    /// How the pods are asked.
    pub pod_access: Access,
    /// The bases of the router's replicas (EPP), as `http://epp.serving.svc:9090`, without credentials, since messages name them.
    /// Several must be different replicas.
    pub routers: Vec<String>,
    /// How the routers are asked.
    pub router_access: Access,
}

/// Dates pages by the caller's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dates {
    now: Time,
    started: Instant,
    speed: NonZeroU32,
}

impl Dates {
    /// It is `now` by a clock that goes on `speed` times as fast as the machine's.
    pub(super) fn from(now: Time, speed: NonZeroU32) -> Self {
        Self { now, started: Instant::now(), speed }
    }

    fn of_now(&self) -> Time {
        self.now.after(self.started.elapsed().saturating_mul(self.speed.get()))
    }
}

/// When a page was asked for, and what came back: the page, or why there is none, in words that follow the name of its pod.
pub(super) type Scraped = (Time, Result<Page, String>);

/// Reads the pages at `bases`, all at once, in their order. None takes longer than `deadline`, and none waits for another.
pub(super) async fn pages(
    bases: Vec<&str>,
    access: &Access,
    wanted: &Wanted,
    pods: &HashSet<u64>,
    deadline: Duration,
    dates: Dates,
) -> Vec<Scraped> {
    let mut headers = access.headers.clone();
    let has = |headers: &BTreeMap<String, String>, name: &str| headers.keys().any(|given| given.eq_ignore_ascii_case(name));
    if !has(&headers, "accept") {
        headers.insert("Accept".to_owned(), "text/plain;version=0.0.4, */*;q=0.1".to_owned());
    }
    if !has(&headers, "connection") {
        // A connection per pod, idle for a whole period, costs both sides more than a new one; most servers end it anyway.
        headers.insert("Connection".to_owned(), "close".to_owned());
    }
    let headers = &headers;
    // A loop and no closure: the future of a closure over borrowed items cannot be sent between threads.
    let mut each = Vec::with_capacity(bases.len());
    for base in bases {
        each.push(async move {
            // The moment of the request, as Prometheus has it.
            let at = dates.of_now();
            (at, page(base, access, headers, Reader::new(wanted, pods), deadline).await)
        });
    }
    stream::iter(each).buffered(AT_ONCE).collect().await
}

async fn page(
    base: &str,
    access: &Access,
    headers: &BTreeMap<String, String>,
    mut reader: Reader<'_>,
    deadline: Duration,
) -> Result<Page, String> {
    let endpoint = Endpoint::new(access.transport.clone(), base, headers).map_err(|why| match why {
        EndpointError::LinkLocal { host } => format!("its address {host} is link-local, and these are refused"),
        why => format!("it cannot be asked: {why}"),
    })?;
    let endpoint = endpoint.within(deadline);
    let url = endpoint.at(&access.path);
    let mut wrong = None;
    let read = |chunk: &[u8]| match reader.read(chunk) {
        Ok(()) => ControlFlow::Continue(()),
        Err(why) => {
            wrong = Some(why);
            ControlFlow::Break(())
        }
    };
    let reply = endpoint.get_page(url, LARGEST_PAGE, read).await.map_err(|error| said(&error))?;
    match (reply.status, wrong) {
        (200, None) => reader.finish().map_err(|why| why.to_string()),
        (200, Some(why)) => Err(why.to_string()),
        (status, _) => Err(format!("status {status}: {}; {}", body::quoted(&reply.body), advice_on_status(status))),
    }
}

fn advice_on_status(status: u16) -> &'static str {
    match status {
        401 | 403 | 407 => "check the credentials for the metrics",
        404 | 405 => "check scrape.port and scrape.path",
        _ => "see its log",
    }
}

/// The transport's reasons in the words of pages: whose address it is, nobody wrote into the scaler.
fn said(error: &Error) -> String {
    match error {
        Error::Deadline { tried, deadline } => {
            format!("no complete page from {tried} within {deadline:?}; it hangs, or a network policy keeps the operator away")
        }
        Error::Connect { tried, why } => format!("cannot connect to {tried}: {why}; check scrape.port and network policies"),
        Error::Tls { tried, why } => format!("no TLS connection to {tried}: {why}; check scrape.scheme and serverTLS"),
        Error::BrokeOff { tried, why } => format!("the page from {tried} broke off: {why}; see its log"),
        Error::TooLarge { tried, limit } => format!("the page at {tried} is larger than {limit} bytes; check scrape.path"),
        Error::Redirected { tried, to } => format!("{tried} redirects to {to}, which is not followed; check scrape.port and scrape.scheme"),
        Error::TooManyRedirects { tried, limit } => format!("{tried} redirects more than {limit} times; check scrape.path"),
    }
}
