//! A server on loopback that answers whatever a test wants: a decision, a failure, or nothing at all.

use crate::loopback::Server;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A mock of the decision server of `metricProvider: Custom`.
///
/// It answers every path alike, so it also stands in for a Prometheus that misbehaves. Dropped, it is down.
#[derive(Debug)]
pub struct DecisionServer {
    url: String,
    shared: Arc<Mutex<Shared>>,
    server: Server,
}

/// A request that the server has received.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method, in capitals.
    pub method: String,
    /// The path without the query.
    pub path: String,
    /// The query as it was sent, without the question mark; empty when there was none.
    pub query: String,
    /// The headers.
    pub headers: HeaderMap,
}

#[derive(Debug)]
struct Shared {
    answer: Answer,
    requests: Vec<Request>,
}

#[derive(Clone, Debug)]
enum Answer {
    Body(StatusCode, String),
    Redirect(String),
    Hang,
}

impl DecisionServer {
    /// Starts a server that answers 404 until it is told otherwise.
    ///
    /// # Panics
    /// When no port can be bound.
    pub async fn start() -> Self {
        Self::start_at(([127, 0, 0, 1], 0).into()).await
    }

    /// As [`start`](Self::start), at the [`address`](Self::address) of a server that went down.
    ///
    /// # Panics
    /// When the address is not free, nor becomes so within 10 seconds.
    pub async fn start_at(address: SocketAddr) -> Self {
        let answer = Answer::Body(StatusCode::NOT_FOUND, String::new());
        let shared = Arc::new(Mutex::new(Shared { answer, requests: Vec::new() }));
        let server = crate::eventually("bound", Duration::from_secs(10), || {
            let app = Router::new().fallback(respond).with_state(Arc::clone(&shared));
            Server::start(address, app)
        })
        .await;
        Self { url: format!("http://{}", server.address()), shared, server }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Its address, as `spec.serverAddress` takes it.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Answers `body` with HTTP `status` from now on.
    ///
    /// # Panics
    /// When `status` is not between 100 and 999.
    pub fn answer(&self, status: u16, body: impl Into<String>) {
        self.shared.lock().unwrap().answer = Answer::Body(StatusCode::from_u16(status).unwrap(), body.into());
    }

    /// Decides on `active` replicas of `service` from now on.
    pub fn decide(&self, namespace: &str, service: &str, active: i64) {
        let body = json!({
            "apiVersion": "llmscaling.inference.x-k8s.io/v1alpha1",
            "decisions": [{"namespace": namespace, "serviceId": service, "replicas": {"active": active}}],
        });
        self.answer(200, body.to_string());
    }

    /// Sends every client elsewhere from now on.
    pub fn redirect(&self, location: impl Into<String>) {
        self.shared.lock().unwrap().answer = Answer::Redirect(location.into());
    }

    /// Takes requests and never answers them from now on.
    pub fn hang(&self) {
        self.shared.lock().unwrap().answer = Answer::Hang;
    }

    /// Every request so far, oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.shared.lock().unwrap().requests.clone()
    }
}

async fn respond(State(shared): State<Arc<Mutex<Shared>>>, method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let answer = {
        let mut shared = shared.lock().unwrap();
        shared.requests.push(Request {
            method: method.to_string(),
            path: uri.path().to_owned(),
            query: uri.query().unwrap_or_default().to_owned(),
            headers,
        });
        shared.answer.clone()
    };
    match answer {
        Answer::Body(status, body) => (status, [("content-type", "application/json")], body).into_response(),
        Answer::Redirect(location) => (StatusCode::FOUND, [("location", location)]).into_response(),
        Answer::Hang => std::future::pending().await,
    }
}
