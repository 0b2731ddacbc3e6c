//! Clients in memory, without sockets, so that time can be paused.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body as Answer;
use axum::http::{HeaderMap, HeaderValue, Request as HttpRequest, Response, header};
use kube::Client;
use kube::client::Body;
use kube::client::retry::RetryPolicy;
use tower::retry::RetryLayer;
use tower::timeout::TimeoutLayer;
use tower::{BoxError, ServiceBuilder, service_fn};

use crate::request::Request;
use crate::sandbox::Sandbox;

/// After so long without an answer the operator's own client gives up.
const SILENCE: Duration = Duration::from_secs(120);

impl Sandbox {
    /// A client of it in memory. Its default namespace is `default`.
    #[must_use]
    pub fn client(&self) -> Client {
        let sandbox = self.clone();
        Client::new(service_fn(move |request| answer(sandbox.clone(), request, None)), "default")
    }

    /// The same under a name, by which [`On::agent`](crate::On::agent) and [`Call::agent`](crate::Call::agent) know it, and as patient as
    /// the operator's own client: what is answered with 429 is asked again when it may be, and an answer is not waited for for ever.
    /// A name that cannot be a header is left out.
    #[must_use]
    pub fn client_as(&self, agent: &str) -> Client {
        let sandbox = self.clone();
        let agent = HeaderValue::from_str(agent).ok();
        let service = ServiceBuilder::new()
            .layer(RetryLayer::new(RetryPolicy::server_retry()))
            .map_err(BoxError::from)
            .layer(TimeoutLayer::new(SILENCE))
            .service(service_fn(move |request| answer(sandbox.clone(), request, agent.clone())));
        Client::new(service, "default")
    }
}

async fn answer(sandbox: Sandbox, request: HttpRequest<Body>, agent: Option<HeaderValue>) -> Result<Response<Answer>, Infallible> {
    let (head, body) = request.into_parts();
    let mut headers: HeaderMap = head.headers;
    if let Some(agent) = agent {
        headers.insert(header::USER_AGENT, agent);
    }
    let body = body.collect_bytes().await.unwrap_or_default().to_vec();
    Ok(sandbox.handle(Request::new(head.method, &head.uri, &headers, body)).await)
}
