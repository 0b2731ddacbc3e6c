//! The API on a socket, and how kubectl finds it.

use std::io;
use std::net::{IpAddr, SocketAddr};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, HeaderValue, Request as HttpRequest, Response, StatusCode, header};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::refusal::Refusal;
use crate::request::Request;
use crate::sandbox::Sandbox;

/// The largest body that is read; the API server takes 3 MiB.
const LARGEST: usize = 3 * 1024 * 1024;

impl Sandbox {
    /// Serves the API without TLS or authentication until `shutdown`; the listener should be one on loopback. Pages in a browser are
    /// refused, by whatever name they reach it.
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
        if let Err(why) = admit(&head.headers) {
            let mut response = Response::new(Body::from(Refusal::forbidden(why).status().to_string()));
            *response.status_mut() = StatusCode::FORBIDDEN;
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            return response;
        }
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

/// Whether a request may come from kubectl or another client of this machine. A browser sends along where a page comes from that asks, and
/// the name by which it believes to have reached us: that of a page's own host, if its name was made to lead here.
fn admit(headers: &HeaderMap) -> Result<(), &'static str> {
    if headers.contains_key(header::ORIGIN) {
        return Err("pages in a browser may not use this API");
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if !is_loopback(host) {
        return Err("this API answers to loopback names only; ask http://127.0.0.1:PORT");
    }
    Ok(())
}

/// Whether a `Host` names this machine to itself, at whatever port.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, _)) => name,
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &'static str, origin: Option<&'static str>) -> HeaderMap {
        let mut headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(host))]);
        headers.extend(origin.map(|origin| (header::ORIGIN, HeaderValue::from_static(origin))));
        headers
    }

    #[test]
    fn pages_in_a_browser_are_refused_by_whatever_name_they_come() {
        for host in ["127.0.0.1:8080", "localhost:8080", "LOCALHOST", "[::1]:8080", "127.9.9.9"] {
            assert_eq!(admit(&headers(host, None)), Ok(()), "{host}");
        }
        for host in ["evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example:8080", "192.168.0.1:8080", ""] {
            assert!(admit(&headers(host, None)).is_err_and(|why| why.contains("loopback")), "{host}");
        }
        // A page may ask a loopback address by its right name; its answer is not for it to read, but the request would be carried out.
        for origin in ["http://evil.example", "http://127.0.0.1:8080", "null"] {
            assert!(admit(&headers("127.0.0.1:8080", Some(origin))).is_err(), "{origin}");
        }
    }

    #[tokio::test]
    async fn a_request_in_another_name_is_answered_with_403_and_does_nothing() {
        let sandbox = Sandbox::new().unwrap();
        let ask = async |host: &str| {
            let request = HttpRequest::get("/api/v1/namespaces/default").header(header::HOST, host).body(Body::empty()).unwrap();
            sandbox.over_http(request).await.status()
        };
        assert_eq!(ask("localhost:1").await, StatusCode::OK);
        assert_eq!(ask("evil.example").await, StatusCode::FORBIDDEN);
        assert_eq!(sandbox.calls().len(), 1);
    }
}
