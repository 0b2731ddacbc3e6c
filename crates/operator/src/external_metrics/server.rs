//! The server: discovery, and the values of metrics.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};

use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json, Router};
use axum_server::tls::TlsInfo;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use axum_server::{Handle, Server};
use kube::Client;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::access::{Access, Wanted};
use super::aggregator::Aggregator;
use super::keeper::Keeper;
use super::published::{Item, NoValue, Published};
use super::{ExternalMetrics, ExternalMetricsOptions, GROUP, Served, VERSION, selector};
use crate::hpa::SCALER;
use crate::metrics::Metrics;
use crate::serve::{FIRST_REQUEST, GRACE, HEADERS, IDLE, ServeError, within_time};

/// The flag that the address comes from.
const FLAG: &str = "--external-metrics-bind-address";

/// Who the aggregator is, as far as it is known, and how its certificate is verified.
pub(super) type Known = Arc<RwLock<Option<(Aggregator, Arc<dyn ClientCertVerifier>)>>>;

/// A server that has its port, and answers once it runs.
pub(crate) struct Bound {
    listener: TcpListener,
    addr: SocketAddr,
    router: Router,
    tls: RustlsConfig,
    keeper: Keeper,
    metrics: ExternalMetrics,
}

/// Takes the port, and reads or makes the certificate.
pub(crate) async fn bind(options: ExternalMetricsOptions, client: Client, metrics: Metrics) -> Result<Bound, ServeError> {
    let addr = options.addr;
    let listener = TcpListener::bind(addr).await.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => ServeError::InUse { addr, flag: FLAG },
        _ => ServeError::Listen { addr, flag: FLAG, source },
    })?;
    let addr = listener.local_addr().map_err(|source| ServeError::Listen { addr, flag: FLAG, source })?;
    let published = Published::default();
    let (served, watched) = watch::channel(Served::Pending);
    let known = Known::default();
    let keeper = Keeper::new(options, client.clone(), metrics, published.clone(), known.clone(), served)?;
    let gate = Arc::new(Gate { known, access: Access::new(client) });
    let tls = keeper.tls();
    Ok(Bound {
        listener,
        addr,
        router: router(published.clone(), gate),
        tls,
        keeper,
        metrics: ExternalMetrics { published, served: watched },
    })
}

impl Bound {
    /// Where it listens, with the port that the system chose when 0 was asked for.
    #[cfg(test)]
    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What scalers need of it.
    pub(crate) fn metrics(&self) -> ExternalMetrics {
        self.metrics.clone()
    }

    /// Serves until `shutdown`, and keeps the certificate and the cluster's API.
    pub(crate) async fn run(self, shutdown: CancellationToken) -> Result<(), ServeError> {
        let Self { listener, addr, router, tls, keeper, .. } = self;
        let handle: Handle<SocketAddr> = Handle::new();
        let mut server = Server::from_listener(listener).handle(handle.clone()).first_request_timeout(FIRST_REQUEST);
        server.http_builder().http1().header_read_timeout(IDLE).max_buf_size(HEADERS);
        let acceptor = RustlsAcceptor::new(tls).handshake_timeout(FIRST_REQUEST);
        let serving = server.http1_only().acceptor(acceptor).serve(router.into_make_service());
        let ending = async {
            shutdown.cancelled().await;
            handle.graceful_shutdown(Some(GRACE));
            std::future::pending().await
        };
        tokio::select! {
            result = serving => result.map_err(|source| ServeError::Stopped { addr, source }),
            () = ending => Ok(()),
            () = keeper.run(shutdown.clone()) => Ok(()),
        }
    }
}

/// Lets through whom the aggregator vouches for and the cluster lets read.
pub(super) struct Gate {
    pub known: Known,
    pub access: Access,
}

pub(super) fn router(published: Published, gate: Arc<Gate>) -> Router {
    Router::new()
        .route("/apis", get(|| async { Json(groups()) }))
        .route("/apis/external.metrics.k8s.io", get(|| async { Json(group()) }))
        .route("/apis/external.metrics.k8s.io/v1beta1", get(|| async { Json(resources()) }))
        .route("/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/{metric}", get(values))
        .fallback(|| async { refusal(StatusCode::NOT_FOUND, "NotFound", "there is nothing at this path") })
        .with_state(published)
        .layer(middleware::from_fn_with_state(gate, admit))
        .layer(middleware::from_fn(within_time))
}

async fn admit(State(gate): State<Arc<Gate>>, tls: Option<Extension<Arc<TlsInfo>>>, request: Request, next: Next) -> Response {
    let known = gate.known.read().unwrap_or_else(PoisonError::into_inner).clone();
    let Some((aggregator, verifier)) = known else {
        let why = "the operator does not know yet how the API server's aggregator shows itself; its log says why";
        return refusal(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", why);
    };
    // Verified at the handshake, too; but the authority may have changed and the certificate run out since.
    let vouched = tls.is_some_and(|Extension(tls)| {
        let chain: Vec<CertificateDer<'_>> = tls.peer_certificates.iter().map(|der| der.as_slice().into()).collect();
        match chain.as_slice() {
            [certificate, rest @ ..] => {
                verifier.verify_client_cert(certificate, rest, UnixTime::now()).is_ok() && aggregator.is(certificate)
            }
            [] => false,
        }
    });
    let Some(user) = aggregator.user(request.headers()).filter(|_| vouched) else {
        let why = "this API answers the API server's aggregator alone; ask the API server for /apis/external.metrics.k8s.io/v1beta1";
        return refusal(StatusCode::UNAUTHORIZED, "Unauthorized", why);
    };
    let (name, wanted) = (user.username.clone().unwrap_or_default(), wanted(request.uri().path()));
    match gate.access.allows(user, wanted).await {
        Ok(true) => next.run(request).await,
        Ok(false) => {
            let why = format!("{name} may not read this: it takes list on {GROUP} in the namespace");
            refusal(StatusCode::FORBIDDEN, "Forbidden", &why)
        }
        Err(error) => {
            warn!(%error, "Readers of external metrics are refused: asking what they may takes create on subjectaccessreviews");
            let why = format!("the API server could not be asked what {name} may read: {error}");
            refusal(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", &why)
        }
    }
}

/// What a path asks for. Names are taken as they are written: one that is encoded is none of a metric's.
fn wanted(path: &str) -> Wanted {
    let rest = path.strip_prefix("/apis/external.metrics.k8s.io/v1beta1/namespaces/");
    match rest.and_then(|rest| rest.split_once('/')) {
        Some((namespace, metric)) => Wanted::Metric { namespace: namespace.to_owned(), metric: metric.to_owned() },
        None => Wanted::Path(path.to_owned()),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    label_selector: Option<String>,
}

async fn values(
    State(published): State<Published>,
    Path((namespace, metric)): Path<(String, String)>,
    Query(asked): Query<Asked>,
) -> Response {
    let selector = match selector::parse(asked.label_selector.as_deref().unwrap_or_default()) {
        Ok(selector) => selector,
        Err(part) => {
            let why = format!("labelSelector has {part:?}, which is none; write it as {SCALER}=NAME");
            return refusal(StatusCode::BAD_REQUEST, "BadRequest", &why);
        }
    };
    match published.get(&namespace, &metric, &selector) {
        Ok(items) => Json(list(&metric, &items)).into_response(),
        Err(why @ NoValue::Nothing { .. }) => refusal(StatusCode::NOT_FOUND, "NotFound", &why.to_string()),
        Err(why) => refusal(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", &why.to_string()),
    }
}

fn list(metric: &str, items: &[Item]) -> Value {
    let items: Vec<Value> = items
        .iter()
        .map(|item| {
            let (labels, value) = (json!({SCALER: item.label}), item.value.to_string());
            json!({"metricName": metric, "metricLabels": labels, "timestamp": format!("{:.0}", item.at), "value": value})
        })
        .collect();
    json!({"kind": "ExternalMetricValueList", "apiVersion": format!("{GROUP}/{VERSION}"), "metadata": {}, "items": items})
}

fn groups() -> Value {
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [named_group()]})
}

fn group() -> Value {
    let mut group = named_group();
    (group["kind"], group["apiVersion"]) = (json!("APIGroup"), json!("v1"));
    group
}

fn named_group() -> Value {
    let version = json!({"groupVersion": format!("{GROUP}/{VERSION}"), "version": VERSION});
    json!({"name": GROUP, "versions": [version], "preferredVersion": version})
}

/// One resource stands for all metrics, as in every adapter: they come and go, and the HPA asks for them by name.
fn resources() -> Value {
    let all =
        json!({"name": "externalmetrics", "singularName": "", "namespaced": true, "kind": "ExternalMetricValueList", "verbs": ["get"]});
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{GROUP}/{VERSION}"), "resources": [all]})
}

/// A refusal in the form that clients of the API server know. Without a time to come back at, none of them waits and asks again.
fn refusal(code: StatusCode, reason: &str, message: &str) -> Response {
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": code.as_u16(),
    });
    (code, Json(status)).into_response()
}
