//! The two small servers: probes, and metrics.
//!
//! The probes are plain HTTP and open to all, for the kubelet has no credentials. Metrics tell of workloads, so unless it is switched
//! off they are served over TLS, and only to whom the cluster lets `get` the path `/metrics`.

mod certificate;
mod gate;
#[cfg(test)]
mod tests;

use std::{future::pending, io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use axum_server::{Handle, Server, tls_rustls::RustlsAcceptor};
use kube::Client;
use tokio::{net::TcpListener, task::spawn_blocking, time::timeout};
use tokio_util::sync::CancellationToken;

pub use self::certificate::{CertFiles, CertificateError};
use self::{certificate::Certificate, gate::Gate};
use crate::{external_metrics::IdentityError, health::Health, metrics::Metrics};

/// How long a new connection may take for its handshake, and again for its first request.
pub(crate) const FIRST_REQUEST: Duration = Duration::from_secs(10);
/// How long a connection may wait for its next request: longer than the usual scrape intervals, so that they keep theirs.
pub(crate) const IDLE: Duration = Duration::from_secs(75);
/// How long an answer may take, the questions to the API server included.
const ANSWER: Duration = Duration::from_secs(10);
/// How long answers under way are waited for at the end.
pub(crate) const GRACE: Duration = Duration::from_secs(2);
/// The most bytes of a request's line and headers. A service account's token is about 1 KiB.
pub(crate) const HEADERS: usize = 32 * 1024;

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port is taken.
    #[error("cannot listen on {addr}, because another process does: stop it, or choose another port with {flag}")]
    InUse {
        /// What was asked for.
        addr: SocketAddr,
        /// The flag that asks for something else.
        flag: &'static str,
    },
    /// The address cannot be had.
    #[error("cannot listen on {addr}, which {flag} asks for: {source}")]
    Listen {
        /// What was asked for.
        addr: SocketAddr,
        /// The flag that asks for something else.
        flag: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// There is no certificate to serve with.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// There is no certificate to serve external metrics with.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The server stopped.
    #[error("the server on {addr} stopped: {source}")]
    Stopped {
        /// Where it listened.
        addr: SocketAddr,
        /// Why it stopped.
        source: io::Error,
    },
}

/// How metrics are served.
#[derive(Clone, Debug)]
pub struct MetricsOptions {
    /// Where.
    pub addr: SocketAddr,
    /// Over TLS, and to those only whom the cluster lets `get` the path `/metrics`; otherwise in the clear and to everybody.
    pub secure: bool,
    /// The certificate; one that is signed by itself when there is none.
    pub cert: Option<CertFiles>,
    /// Whether HTTP/2 is spoken beside HTTP/1.1.
    pub http2: bool,
}

/// A server that has its port, and answers once it runs.
pub struct Bound {
    listener: TcpListener,
    addr: SocketAddr,
    router: Router,
    certificate: Option<Certificate>,
    http2: bool,
}

/// Serves `/healthz` and `/readyz` on `addr` until `shutdown`.
///
/// # Errors
///
/// When the port cannot be had, or the server stops by itself.
pub async fn serve_health(addr: SocketAddr, health: Health, shutdown: CancellationToken) -> Result<(), ServeError> {
    bind_health(addr, health).await?.run(shutdown).await
}

/// Takes the port for `/healthz` and `/readyz`.
///
/// # Errors
///
/// When the port cannot be had.
pub async fn bind_health(addr: SocketAddr, health: Health) -> Result<Bound, ServeError> {
    let probe = |verdict: Result<(), String>| match verdict {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(complaint) => (StatusCode::SERVICE_UNAVAILABLE, format!("{complaint}\n")),
    };
    let router = Router::new()
        .route("/healthz", get(move |State(health): State<Health>| async move { probe(health.live()) }))
        .route("/readyz", get(move |State(health): State<Health>| async move { probe(health.ready()) }))
        .with_state(health);
    Bound::plain(addr, "--health-probe-bind-address", router).await
}

/// Serves `/metrics` until `shutdown`.
///
/// # Errors
///
/// When the port cannot be had, the certificate cannot be used, or the server stops by itself.
pub async fn serve_metrics(
    options: MetricsOptions,
    metrics: Metrics,
    client: Client,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    bind_metrics(options, metrics, client).await?.run(shutdown).await
}

/// Takes the port for `/metrics`, and reads or makes the certificate.
///
/// # Errors
///
/// When the port cannot be had, or the certificate cannot be used.
pub async fn bind_metrics(options: MetricsOptions, metrics: Metrics, client: Client) -> Result<Bound, ServeError> {
    let MetricsOptions { addr, secure, cert, http2 } = options;
    let certificate = if secure { Some(Certificate::new(cert, http2)?) } else { None };
    let gate = secure.then(|| Arc::new(Gate::new(client)));
    let router = Router::new().route("/metrics", get(scrape)).with_state((gate, metrics));
    Bound::new(addr, "--metrics-bind-address", router, certificate, http2).await
}

async fn scrape(State((gate, metrics)): State<(Option<Arc<Gate>>, Metrics)>, headers: HeaderMap) -> Response {
    if let Some(gate) = gate
        && let Err(refusal) = gate.admit(&headers).await
    {
        return refusal.into_response();
    }
    // With thousands of scalers this takes a while, which the syncs need not wait for.
    match spawn_blocking(move || metrics.encode()).await {
        Ok(text) => ([(CONTENT_TYPE, Metrics::CONTENT_TYPE)], text).into_response(),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "the metrics could not be written\n").into_response(),
    }
}

pub(crate) async fn within_time(request: Request, next: Next) -> Response {
    timeout(ANSWER, next.run(request)).await.unwrap_or_else(|_| {
        (StatusCode::SERVICE_UNAVAILABLE, format!("no answer could be given within {} s\n", ANSWER.as_secs())).into_response()
    })
}

impl Bound {
    /// Takes the port for what `router` serves in the clear. `flag` is where the address came from.
    pub(crate) async fn plain(addr: SocketAddr, flag: &'static str, router: Router) -> Result<Self, ServeError> {
        Self::new(addr, flag, router, None, false).await
    }

    async fn new(
        addr: SocketAddr,
        flag: &'static str,
        router: Router,
        certificate: Option<Certificate>,
        http2: bool,
    ) -> Result<Self, ServeError> {
        let listen = async {
            let listener = TcpListener::bind(addr).await?;
            let addr = listener.local_addr()?;
            Ok((listener, addr))
        };
        let (listener, addr) = listen.await.map_err(|source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => ServeError::InUse { addr, flag },
            _ => ServeError::Listen { addr, flag, source },
        })?;
        Ok(Self { listener, addr, router: router.layer(middleware::from_fn(within_time)), certificate, http2 })
    }

    /// Where it listens, with the port that the system chose when 0 was asked for.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves until `shutdown`, and then for up to 2 s to end the answers under way.
    ///
    /// # Errors
    ///
    /// When the server stops by itself.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), ServeError> {
        let Self { listener, addr, router, certificate, http2 } = self;
        let stopped = |source| ServeError::Stopped { addr, source };
        let handle: Handle<SocketAddr> = Handle::new();

        let mut server = Server::from_listener(listener).handle(handle.clone()).first_request_timeout(FIRST_REQUEST);
        server.http_builder().http1().header_read_timeout(IDLE).max_buf_size(HEADERS);
        server.http_builder().http2().max_header_list_size(HEADERS as u32).max_concurrent_streams(16).keep_alive_interval(IDLE);
        if !http2 {
            server = server.http1_only();
        }

        let service = router.into_make_service();
        let tls = certificate.as_ref().map(Certificate::config);
        let serving = async {
            match tls {
                None => server.serve(service).await,
                Some(tls) => server.acceptor(RustlsAcceptor::new(tls).handshake_timeout(FIRST_REQUEST)).serve(service).await,
            }
        };
        let ending = async {
            shutdown.cancelled().await;
            handle.graceful_shutdown(Some(GRACE));
            pending().await
        };
        let keeping = async {
            match certificate {
                None => pending().await,
                Some(certificate) => certificate.keep().await,
            }
        };
        tokio::select! {
            result = serving => result.map_err(stopped),
            () = ending => Ok(()),
            () = keeping => Ok(()),
        }
    }
}
