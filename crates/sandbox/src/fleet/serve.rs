//! Pages on loopback.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::proxy::{FORM, NO_PAGE, Page};
use crate::sandbox::Sandbox;

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
pub(super) fn page_on_loopback(sandbox: &Sandbox, page: Page) -> io::Result<Served> {
    let listener = StdListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let port = listener.local_addr()?.port();
    let ending = CancellationToken::new();
    tokio::spawn(self::page(sandbox, listener, page, ending.clone())?);
    Ok(Served { port, _ending: ending.drop_guard() })
}

/// Serves `/metrics` until `shutdown`, also through the API. While there is no page the answer is 503.
pub(super) fn page(
    sandbox: &Sandbox,
    listener: TcpListener,
    page: Page,
    shutdown: CancellationToken,
) -> io::Result<impl Future<Output = io::Result<()>> + use<>> {
    let known = sandbox.pages().add(listener.local_addr()?.port(), page.clone());
    let answer = move || {
        let answer = match page() {
            Some(text) => ([(CONTENT_TYPE, FORM)], text).into_response(),
            None => (StatusCode::SERVICE_UNAVAILABLE, NO_PAGE).into_response(),
        };
        std::future::ready(answer)
    };
    Ok(async move {
        let _known = known;
        tokio::select! {
            ended = async { axum::serve(listener, Router::new().route("/metrics", get(answer))).await } => ended,
            () = shutdown.cancelled() => Ok(()),
        }
    })
}
