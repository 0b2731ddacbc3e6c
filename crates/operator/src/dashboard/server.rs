//! The routes, and who is answered.

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
use super::hosts::{self, HostName};
use super::stream;

/// How many pages may be fed at the same time.
const STREAMS: usize = 64;

/// The page.
const FILES: [(&str, &str, &str); 11] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/style.css", "text/css; charset=utf-8", include_str!("page/style.css")),
    ("/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
    ("/app.js", "text/javascript; charset=utf-8", include_str!("page/app.js")),
    ("/overview.js", "text/javascript; charset=utf-8", include_str!("page/overview.js")),
    ("/detail.js", "text/javascript; charset=utf-8", include_str!("page/detail.js")),
    ("/clock.js", "text/javascript; charset=utf-8", include_str!("page/clock.js")),
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

/// The routes. `known` are names by which the dashboard is asked, beside those that are always answered.
pub(super) fn router(history: History, known: Vec<HostName>, ending: CancellationToken) -> Router {
    let known: Arc<[HostName]> = known.into();
    let pages = FILES.into_iter().fold(Router::new(), |router, (path, kind, text)| router.route(path, file(kind, text)));
    pages
        .route("/api/scalers", get(all))
        .route("/api/scalers/{namespace}/{name}", get(one))
        .route("/api/events", get(stream::events))
        .fallback(async || refusal(StatusCode::NOT_FOUND, "there is nothing here; the page is at /, the list of scalers at /api/scalers"))
        .method_not_allowed_fallback(async || refusal(StatusCode::METHOD_NOT_ALLOWED, "the dashboard only shows; use GET"))
        .with_state(Shared { history, streams: Arc::new(Semaphore::new(STREAMS)), ending })
        .layer(middleware::from_fn(move |request, next| guard(known.clone(), request, next)))
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

async fn guard(known: Arc<[HostName]>, request: Request, next: Next) -> Response {
    let mut response = match admit(&known, request.headers()) {
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
fn admit(known: &[HostName], headers: &HeaderMap) -> Result<(), &'static str> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if !hosts::is_known(host, known) {
        return Err("the dashboard does not answer to this name, which somebody else's page could have; open it as http://localhost:PORT \
                    through kubectl port-forward, or add the name to --dashboard-hosts (dashboard.hosts of the chart)");
    }
    match headers.get(ORIGIN) {
        Some(origin) if !is_origin_of(origin, host) => {
            Err("the dashboard answers to its own page only, and the request comes from another")
        }
        _ => Ok(()),
    }
}

fn is_origin_of(origin: &HeaderValue, host: &str) -> bool {
    let origin = origin.to_str().unwrap_or_default();
    ["http://", "https://"].iter().any(|scheme| origin.strip_prefix(scheme).is_some_and(|rest| rest.eq_ignore_ascii_case(host)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_origin_is_refused_everywhere() {
        let headers = |host: &'static str, origin: Option<&'static str>| {
            let mut headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]);
            headers.extend(origin.map(|origin| (ORIGIN, HeaderValue::from_static(origin))));
            headers
        };
        let known = ["dashboard.example".parse().unwrap()];
        assert!(admit(&[], &headers("localhost:1", None)).is_ok());
        assert!(admit(&[], &headers("localhost:1", Some("http://localhost:1"))).is_ok());
        assert!(admit(&known, &headers("dashboard.example", Some("https://dashboard.example"))).is_ok());
        for origin in ["http://localhost:2", "https://evil.example", "null"] {
            assert!(admit(&[], &headers("localhost:1", Some(origin))).is_err(), "{origin}");
            assert!(admit(&known, &headers("dashboard.example", Some(origin))).is_err(), "{origin}");
        }
        let refused = admit(&known, &headers("evil.example", Some("http://evil.example"))).unwrap_err();
        assert!(refused.contains("--dashboard-hosts"), "a name that was made to resolve here: {refused}");
    }
}
