//! The routes, and who is answered.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use serde::Serialize;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::history::History;
use super::stream;

/// How many pages may be fed at the same time.
const STREAMS: usize = 64;

/// The page.
const FILES: [(&str, &str, &str); 10] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/style.css", "text/css; charset=utf-8", include_str!("page/style.css")),
    ("/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
    ("/app.js", "text/javascript; charset=utf-8", include_str!("page/app.js")),
    ("/overview.js", "text/javascript; charset=utf-8", include_str!("page/overview.js")),
    ("/detail.js", "text/javascript; charset=utf-8", include_str!("page/detail.js")),
    ("/element.js", "text/javascript; charset=utf-8", include_str!("page/element.js")),
    ("/state.js", "text/javascript; charset=utf-8", include_str!("page/state.js")),
    ("/text.js", "text/javascript; charset=utf-8", include_str!("page/text.js")),
    ("/chart.js", "text/javascript; charset=utf-8", include_str!("page/chart.js")),
];

/// What the routes share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) history: History,
    pub(super) streams: Arc<Semaphore>,
    pub(super) ending: CancellationToken,
}

/// The routes. With `loopback` only requests to a loopback name are answered.
pub(super) fn router(history: History, loopback: bool, ending: CancellationToken) -> Router {
    let pages = FILES.into_iter().fold(Router::new(), |router, (path, kind, text)| router.route(path, file(kind, text)));
    pages
        .route("/api/scalers", get(all))
        .route("/api/scalers/{namespace}/{name}", get(one))
        .route("/api/events", get(stream::events))
        .fallback(async || refusal(StatusCode::NOT_FOUND, "there is nothing here; the page is at /, the list of scalers at /api/scalers"))
        .method_not_allowed_fallback(async || refusal(StatusCode::METHOD_NOT_ALLOWED, "the dashboard only shows; use GET"))
        .with_state(Shared { history, streams: Arc::new(Semaphore::new(STREAMS)), ending })
        .layer(middleware::from_fn(move |request, next| guard(loopback, request, next)))
}

fn file(kind: &'static str, text: &'static str) -> MethodRouter<Shared> {
    get(move || async move { ([(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-cache")], text) })
}

async fn all(State(shared): State<Shared>) -> Response {
    json_of(move || shared.history.changes(None)).await
}

async fn one(State(shared): State<Shared>, Path((namespace, name)): Path<(String, String)>) -> Response {
    json_of(move || shared.history.one(&namespace, &name)).await
}

/// With thousands of scalers an answer takes a while, which the syncs need not wait for.
async fn json_of<T: Serialize>(answer: impl FnOnce() -> Option<T> + Send + 'static) -> Response {
    match spawn_blocking(move || answer().map(|answer| serde_json::to_string(&answer))).await {
        Ok(Some(Ok(text))) => ([(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")], text).into_response(),
        Ok(None) => refusal(StatusCode::NOT_FOUND, "this operator looks after no scaler by that namespace and name"),
        Ok(Some(Err(_))) | Err(_) => refusal(StatusCode::INTERNAL_SERVER_ERROR, "the answer could not be written"),
    }
}

pub(super) fn refusal(code: StatusCode, why: &str) -> Response {
    (code, [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")], json!({"error": why}).to_string()).into_response()
}

async fn guard(loopback: bool, request: Request, next: Next) -> Response {
    let mut response = match admit(loopback, request.headers()) {
        Ok(()) => next.run(request).await,
        Err(why) => refusal(StatusCode::FORBIDDEN, why),
    };
    response.headers_mut().extend(security().map(|(name, value)| (name, HeaderValue::from_static(value))));
    response
}

/// What goes with every answer: only this server's own files run, nobody frames them, and nothing is told to other sites.
fn security() -> [(HeaderName, &'static str); 6] {
    [
        (CONTENT_SECURITY_POLICY, "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ]
}

/// Whether the request comes from somebody who may read the answer.
fn admit(loopback: bool, headers: &HeaderMap) -> Result<(), &'static str> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if loopback && !is_loopback(host) {
        return Err("the dashboard listens on a loopback address and answers to loopback names only; open it as http://localhost:PORT");
    }
    match headers.get(ORIGIN) {
        Some(origin) if !is_origin_of(origin, host) => {
            Err("the dashboard answers to its own page only, and the request comes from another")
        }
        _ => Ok(()),
    }
}

/// Whether a `Host` names this machine to itself, at whatever port: `kubectl port-forward` chooses another.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

fn is_origin_of(origin: &HeaderValue, host: &str) -> bool {
    let origin = origin.to_str().unwrap_or_default();
    ["http://", "https://"].iter().any(|scheme| origin.strip_prefix(scheme).is_some_and(|rest| rest.eq_ignore_ascii_case(host)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_loopback() {
        for host in ["localhost", "LOCALHOST:8082", "127.0.0.1", "127.9.9.9:1", "[::1]:8082", "[::1]"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:80",
            "10.0.0.1:8082",
            "[2001:db8::1]:80",
            "localhost@evil",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn another_origin_is_refused_everywhere() {
        let headers = |host: &'static str, origin: Option<&'static str>| {
            let mut headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]);
            headers.extend(origin.map(|origin| (ORIGIN, HeaderValue::from_static(origin))));
            headers
        };
        assert!(admit(true, &headers("localhost:1", None)).is_ok());
        assert!(admit(true, &headers("localhost:1", Some("http://localhost:1"))).is_ok());
        assert!(admit(false, &headers("dashboard.example", Some("https://dashboard.example"))).is_ok());
        for origin in ["http://localhost:2", "https://evil.example", "null"] {
            assert!(admit(true, &headers("localhost:1", Some(origin))).is_err(), "{origin}");
            assert!(admit(false, &headers("localhost:1", Some(origin))).is_err(), "{origin}");
        }
        assert!(admit(true, &headers("evil.example", Some("http://evil.example"))).is_err(), "a name that was made to resolve here");
    }
}
