//! The sandbox as a server on loopback, as the demo has it.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use kube::{Client, Config};
use llmscaler_sandbox::{Controllers, Life, Sandbox};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::background;

/// How often the controllers look at the time; at changes they look at once.
const TICK: Duration = Duration::from_millis(100);

/// A sandbox of one test, with its controllers. Dropped, both end.
pub(crate) struct SandboxServer {
    address: SocketAddr,
    _end: DropGuard,
}

impl SandboxServer {
    /// Serves one whose pods live as `life` says.
    pub(crate) async fn start(life: Life) -> Self {
        let end = CancellationToken::new();
        let stop = end.clone();
        let address = background::run(async move {
            let sandbox = Sandbox::new().unwrap();
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let address = listener.local_addr().unwrap();
            tokio::spawn(Controllers::new(&sandbox, life).run(TICK, stop.clone()));
            tokio::spawn(async move { sandbox.serve(listener, stop).await.unwrap() });
            address
        })
        .await;
        Self { address, _end: end.drop_guard() }
    }

    /// A client of the runtime that it is made in.
    pub(crate) fn client(&self) -> Client {
        let mut config = Config::new(format!("http://{}", self.address).parse().unwrap());
        // As for the real server: a test wants to see a 503.
        config.default_retry = false;
        Client::try_from(config).unwrap()
    }

    /// A kubeconfig of it.
    pub(crate) fn kubeconfig(&self, namespace: &str) -> Value {
        llmscaler_sandbox::kubeconfig(self.address, namespace)
    }
}
