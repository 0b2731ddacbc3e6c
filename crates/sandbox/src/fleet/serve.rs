//! Pages on loopback.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The form of the pages.
const FORM: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A page that is served for as long as this lives.
#[derive(Debug)]
pub(super) struct Served {
    port: u16,
    _ending: DropGuard,
}

impl Served {
    pub(super) fn port(&self) -> u16 {
        self.port
    }
}

/// Serves `/metrics` at 127.0.0.1 and a free port.
pub(super) fn page_on_loopback(page: impl Fn() -> Option<String> + Clone + Send + Sync + 'static) -> io::Result<Served> {
    let listener = StdListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let port = listener.local_addr()?.port();
    let ending = CancellationToken::new();
    tokio::spawn(self::page(listener, page, ending.clone()));
    Ok(Served { port, _ending: ending.drop_guard() })
}

/// Serves `/metrics` until `shutdown`. While there is no page the answer is 503.
pub(super) async fn page(
    listener: TcpListener,
    page: impl Fn() -> Option<String> + Clone + Send + Sync + 'static,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let answer = move || {
        let page = page();
        std::future::ready(match page {
            Some(text) => ([(CONTENT_TYPE, FORM)], text).into_response(),
            None => missing(),
        })
    };
    tokio::select! {
        ended = async { axum::serve(listener, Router::new().route("/metrics", get(answer))).await } => ended,
        () = shutdown.cancelled() => Ok(()),
    }
}

fn missing() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "no metrics at this moment\n").into_response()
}
