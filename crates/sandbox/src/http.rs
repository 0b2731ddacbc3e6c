//! The API on a socket, and how kubectl finds it.

use std::io;
use std::net::SocketAddr;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request as HttpRequest, Response, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::request::Request;
use crate::sandbox::Sandbox;

/// The largest body that is read; the API server takes 3 MiB.
const LARGEST: usize = 3 * 1024 * 1024;

impl Sandbox {
    /// Serves the API without TLS or authentication until `shutdown`; the listener should be one on loopback.
    ///
    /// # Errors
    /// The listener fails.
    pub async fn serve(self, listener: TcpListener, shutdown: CancellationToken) -> io::Result<()> {
        let sandbox = self.clone();
        let service = move |request: HttpRequest<Body>| {
            let sandbox = sandbox.clone();
            async move { sandbox.over_http(request).await }
        };
        let server = axum::serve(listener, Router::new().fallback(service));
        tokio::select! {
            ended = server => ended,
            () = shutdown.cancelled() => {
                self.cut_watches();
                Ok(())
            }
        }
    }

    async fn over_http(&self, request: HttpRequest<Body>) -> Response<Body> {
        let (head, body) = request.into_parts();
        match to_bytes(body, LARGEST).await {
            Ok(body) => self.handle(Request::new(head.method, &head.uri, &head.headers, body.to_vec())).await,
            Err(_) => {
                let mut response = Response::new(Body::from("the body is too large or broke off\n"));
                *response.status_mut() = StatusCode::PAYLOAD_TOO_LARGE;
                response
            }
        }
    }
}

/// A kubeconfig for the API at this address; as JSON, which is YAML.
#[must_use]
pub fn kubeconfig(address: SocketAddr, namespace: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "sandbox",
        "clusters": [{"name": "sandbox", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "sandbox", "user": {}}],
        "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": "sandbox", "namespace": namespace}}],
    })
}
