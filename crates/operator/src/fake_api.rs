//! An API server for tests: answers what a closure says.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use kube::runtime::events::Reporter;
use serde_json::{Value, json};
use tower::service_fn;

use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::context::Context;
use crate::credentials::Credentials;
use crate::health::Health;
use crate::lease::Claim;
use crate::metrics::Metrics;
use crate::owners::Owners;
use crate::services::Services;

/// One request.
pub(crate) struct Asked {
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// `null` where there is none.
    pub body: Value,
}

/// A client of an API server that answers with a status code and an object, or, for `None`, never. A watch that is granted shows
/// nothing, and ends after a minute.
pub(crate) fn client(answer: impl Fn(Asked) -> Option<(u16, Value)> + Send + Sync + 'static) -> Client {
    let answer = Arc::new(answer);
    let service = service_fn(move |request: Request<Body>| {
        let answer = answer.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = serde_json::from_slice(&body.collect_bytes().await.unwrap_or_default()).unwrap_or_default();
            let path = head.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
            let watch = path.contains("watch=");
            match answer(Asked { method: head.method, path, body }) {
                Some((200, _)) if watch => {
                    tokio::time::sleep(Duration::from_secs(60)).await;
                    Ok::<_, Infallible>(Response::new(Body::empty()))
                }
                Some((code, object)) => {
                    let mut response = Response::new(Body::from(object.to_string().into_bytes()));
                    *response.status_mut() = code.try_into().unwrap_or_default();
                    Ok(response)
                }
                None => std::future::pending().await,
            }
        }
    });
    Client::new(service, "default")
}

/// A refusal.
pub(crate) fn refusal(code: u16, reason: &str, message: &str) -> Option<(u16, Value)> {
    let kind = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure"});
    let mut status = json!({"reason": reason, "message": message, "code": code});
    status.as_object_mut()?.extend(kind.as_object()?.clone());
    Some((code, status))
}

/// What scalers share, with this client, and without a lease.
pub(crate) fn context(client: Client) -> Context {
    let metrics = Metrics::new();
    Context {
        cluster: Cluster::new(client.clone(), Health::new(), metrics.clone()),
        credentials: Credentials::new(client.clone()),
        services: Services::new(client.clone()),
        metrics,
        reporter: Reporter { controller: "llmscaler".to_owned(), instance: None },
        clock: Clock::start(),
        owners: Owners::new(),
        claim: Claim::always(),
        client,
    }
}
