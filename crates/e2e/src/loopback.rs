//! A small HTTP server on loopback that outlives the runtime of the test that started it.

use crate::background;
use axum::Router;
use std::net::SocketAddr;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// A running server. Dropped, it closes its port and its idle connections.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    // Its end, however it comes, is the signal to stop.
    _stop: oneshot::Sender<()>,
}

impl Server {
    /// Serves `app` at `address`, port 0 being any that is free.
    pub(crate) async fn start(address: SocketAddr, app: Router) -> std::io::Result<Self> {
        let (_stop, stopped) = oneshot::channel::<()>();
        let address = background::run(async move {
            let listener = TcpListener::bind(address).await?;
            let address = listener.local_addr();
            tokio::spawn(async move {
                let stopped = async { drop(stopped.await) };
                axum::serve(listener, app).with_graceful_shutdown(stopped).await.unwrap();
            });
            address
        })
        .await?;
        Ok(Self { address, _stop })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}
