//! HTTP under limits: one deadline for the whole exchange, a capped body, redirects within one origin, no link-local address.

mod endpoint;
mod link_local;
mod secrets;
mod tls;

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Client, ClientBuilder, Method, Response};
use tracing::debug;
use url::{Host, Origin, Url};

pub use self::endpoint::{Endpoint, EndpointError};
use self::secrets::without_secrets;
pub use self::tls::{ClientCertificate, TlsError, TlsSettings};
use crate::excerpt::{LONGEST_NAME, excerpt};

/// Why no answer came back. The texts name what was tried, without credentials and query, and what to check.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The exchange was not complete at the deadline.
    #[error(
        "no complete answer from {tried} within {deadline:?}; check that it is up, that network policies let the operator reach \
         it, and that it is not overloaded"
    )]
    Deadline {
        /// What was tried.
        tried: String,
        /// The deadline of the whole exchange.
        deadline: Duration,
    },
    /// No connection could be made.
    #[error("cannot connect to {tried}: {why}; check its host and port, the Service behind it, and network policies")]
    Connect {
        /// What was tried.
        tried: String,
        /// The innermost reason.
        why: String,
    },
    /// The TLS handshake failed.
    #[error(
        "no TLS connection to {tried}: {why}; check that the port speaks TLS and that serverTLS names the CA and server name of its \
         certificate"
    )]
    Tls {
        /// What was tried.
        tried: String,
        /// The innermost reason.
        why: String,
    },
    /// The connection broke before the answer was complete.
    #[error("the answer from {tried} broke off: {why}; check the server's log, and any proxy in between")]
    BrokeOff {
        /// What was tried.
        tried: String,
        /// The innermost reason.
        why: String,
    },
    /// The body is larger than its limit, [`Transport::LARGEST_BODY`] of an answer to a query.
    #[error("the answer from {tried} is larger than {limit} bytes; aggregate in the query, so that few series come back")]
    TooLarge {
        /// What was tried.
        tried: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// A redirect led to another scheme, host or port.
    #[error(
        "{tried} redirects to {to}; a redirect to another scheme, host or port is not followed, since the headers would go there \
         too; if that is the right server, write its address into serverAddress"
    )]
    Redirected {
        /// What was tried.
        tried: String,
        /// The origin that it redirects to, or its scheme where it is not HTTP.
        to: String,
    },
    /// A redirect without end.
    #[error("{tried} redirects more than {limit} times; check serverAddress and the server's own external URL setting")]
    TooManyRedirects {
        /// What was tried.
        tried: String,
        /// The largest number of redirects that are followed.
        limit: usize,
    },
}

/// A complete answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Whole when the status is 200, unless it went elsewhere; else as much as is worth quoting.
    pub(crate) body: Vec<u8>,
}

/// What is asked. The same request is sent again to wherever a redirect leads: it only reads, so repeating it is safe, and a
/// query must not get lost by turning its POST into a GET.
#[derive(Debug)]
struct Request<'a> {
    url: Url,
    headers: &'a HeaderMap,
    /// `key=value`, form-encoded, for a POST; without it the request is a GET.
    form: Option<String>,
    /// Whether to pass over the proxies of the environment, as for loopback addresses.
    direct: bool,
}

/// The pool of connections of all scalers with the same TLS settings; cloning shares it.
#[derive(Clone, Debug)]
pub struct Transport {
    client: Client,
    /// Without the proxies of the environment, for loopback addresses and pods.
    direct: Client,
}

impl Transport {
    /// The largest body of an answer that is read, in bytes.
    pub const LARGEST_BODY: usize = 1 << 20;

    /// The most of an error body that is read, in bytes: enough to find the error in it.
    const LARGEST_ERROR_BODY: usize = 16 << 10;

    /// The most redirects that are followed.
    const MOST_REDIRECTS: usize = 10;

    /// A pool for these TLS settings and, except for loopback addresses, the proxies that the environment names.
    ///
    /// # Errors
    /// A certificate or key cannot be read.
    pub fn new(tls: &TlsSettings) -> Result<Self, TlsError> {
        let tls = tls::client_config(tls)?;
        let builder = || {
            ClientBuilder::new()
                .tls_backend_preconfigured(tls.clone())
                // One connection per exchange under way: with HTTP/2 a single connection that went dead would fail them all.
                .http1_only()
                .redirect(reqwest::redirect::Policy::none())
                .dns_resolver(link_local::Resolver)
                .user_agent(concat!("llmscaler/", env!("CARGO_PKG_VERSION")))
                // Shorter than servers and load balancers keep idle connections, so that a dead one is seldom picked.
                .pool_idle_timeout(Duration::from_secs(45))
                .pool_max_idle_per_host(32)
        };
        let client = builder().build().map_err(TlsError::Client)?;
        let direct = builder().no_proxy().build().map_err(TlsError::Client)?;
        Ok(Self { client, direct })
    }

    async fn exchange(&self, request: Request<'_>, deadline: Duration) -> Result<Reply, Error> {
        let mut whole = Vec::new();
        let keep = |chunk: &[u8]| {
            whole.extend_from_slice(chunk);
            ControlFlow::Continue(())
        };
        let mut reply = self.exchange_in_chunks(request, deadline, Self::LARGEST_BODY, keep).await?;
        if reply.status == 200 {
            reply.body = whole;
        }
        Ok(reply)
    }

    /// As [`exchange`](Self::exchange), but the body of an answer with status 200 goes to `sink` as it comes in, until that has
    /// enough, and the reply has none. More than `largest` bytes are an error.
    async fn exchange_in_chunks(
        &self,
        request: Request<'_>,
        deadline: Duration,
        largest: usize,
        mut sink: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<Reply, Error> {
        let (tried, started, mut bytes) = (shown(&request.url), Instant::now(), 0);
        let headers = request.headers;
        let counting = |chunk: &[u8]| {
            bytes += chunk.len();
            sink(chunk)
        };
        let reply = tokio::time::timeout(deadline, self.follow(request, largest, counting))
            .await
            .unwrap_or_else(|_| Err(Error::Deadline { tried: tried.clone(), deadline }))
            .map(|reply| Reply { body: without_secrets(reply.body, headers), ..reply });
        let elapsed = started.elapsed();
        match &reply {
            Ok(Reply { status, body }) => debug!(url = tried, status, bytes = bytes + body.len(), ?elapsed, "answered"),
            Err(error) => debug!(url = tried, %error, ?elapsed, "no answer"),
        }
        reply
    }

    /// Sends the request, again after each redirect within its origin.
    async fn follow(&self, mut request: Request<'_>, largest: usize, sink: impl FnMut(&[u8]) -> ControlFlow<()>) -> Result<Reply, Error> {
        for _ in 0..=Self::MOST_REDIRECTS {
            let response = self.send(&request).await?;
            match redirect(&request.url, &response)? {
                Some(next) => request.url = next,
                None => return read(response, &request.url, largest, sink).await,
            }
        }
        Err(Error::TooManyRedirects { tried: shown(&request.url), limit: Self::MOST_REDIRECTS })
    }

    async fn send(&self, request: &Request<'_>) -> Result<Response, Error> {
        let client = if request.direct || is_loopback(&request.url) { &self.direct } else { &self.client };
        let method = if request.form.is_some() { Method::POST } else { Method::GET };
        let mut headers = request.headers.clone();
        if request.form.is_some() {
            // It describes our body, so a Content-Type among the headers of a scaler cannot override it.
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        }
        let mut builder = client.request(method, request.url.clone()).headers(headers);
        if let Some(form) = &request.form {
            builder = builder.body(form.clone());
        }
        builder.send().await.map_err(|error| failure(&request.url, &error))
    }
}

/// Where a response redirects to, if it does.
fn redirect(from: &Url, response: &Response) -> Result<Option<Url>, Error> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
    let Some(mut to) = location.and_then(|location| from.join(location).ok()) else {
        return Ok(None);
    };
    if to.origin() != from.origin() {
        let to = match to.origin() {
            origin @ Origin::Tuple(..) => origin.ascii_serialization(),
            Origin::Opaque(_) => format!("a {} URL", to.scheme()),
        };
        return Err(Error::Redirected { tried: shown(from), to: excerpt(&to, LONGEST_NAME) });
    }
    // Credentials come from the scaler, never from the server; both calls succeed on a URL that has a host.
    let _ = to.set_username("");
    let _ = to.set_password(None);
    Ok(Some(to))
}

/// Reads the body in chunks. The body of an error is only quoted, so it may be cut or break off.
async fn read(mut response: Response, url: &Url, largest: usize, mut sink: impl FnMut(&[u8]) -> ControlFlow<()>) -> Result<Reply, Error> {
    let status = response.status().as_u16();
    if status != 200 {
        let mut body = Vec::new();
        while let Ok(Some(chunk)) = response.chunk().await {
            body.extend_from_slice(&chunk);
            if body.len() > Transport::LARGEST_ERROR_BODY {
                break;
            }
        }
        return Ok(Reply { status, body });
    }
    let mut left = largest;
    while let Some(chunk) = response.chunk().await.map_err(|error| failure(url, &error))? {
        left = left.checked_sub(chunk.len()).ok_or_else(|| Error::TooLarge { tried: shown(url), limit: largest })?;
        if sink(&chunk).is_break() {
            break;
        }
    }
    Ok(Reply { status, body: Vec::new() })
}

/// Scheme, host, port and path: what may be shown of a URL. The user-info is a secret and the query is named elsewhere.
fn shown(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    excerpt(&format!("{}://{host}{port}{}", url.scheme(), url.path()), LONGEST_NAME)
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

fn failure(url: &Url, error: &reqwest::Error) -> Error {
    let (tried, mut is_tls) = (shown(url), false);
    // The outer texts hold the URL with its query; the innermost says what happened.
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
        is_tls |= carries_tls_error(source);
    }
    let why = match innermost.is::<reqwest::Error>() {
        true => "the request could not be sent".to_owned(),
        false => excerpt(&innermost.to_string(), LONGEST_NAME),
    };
    match () {
        () if is_tls => Error::Tls { tried, why },
        () if error.is_connect() => Error::Connect { tried, why },
        () => Error::BrokeOff { tried, why },
    }
}

/// An I/O error does not count the error that it wraps as its source, and here one wraps another.
fn carries_tls_error(error: &(dyn std::error::Error + 'static)) -> bool {
    let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    error.is::<rustls::Error>() || wrapped.is_some_and(|inner| carries_tls_error(inner))
}
