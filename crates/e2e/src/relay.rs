//! A way to a server that a test can cut, as an outage does.

use crate::background;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

/// An address of its own that leads to another server. While it is [`cut`](Self::cut), nobody listens there.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    to: SocketAddr,
    task: Mutex<AbortHandle>,
}

impl Relay {
    /// A way to the server of `url`, a URL of a loopback address and a port.
    ///
    /// # Panics
    /// When `url` is another one, or no port can be bound.
    pub async fn to(url: &str) -> Self {
        let to = url.trim_start_matches("http://").parse().unwrap();
        let (address, task) = listen(([127, 0, 0, 1], 0).into(), to).await.unwrap();
        Self { address, to, task: Mutex::new(task) }
    }

    /// Its URL, as `spec.serverAddress` takes it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends every connection, and refuses new ones.
    ///
    /// # Panics
    /// Never, unless another call of this has.
    pub fn cut(&self) {
        self.task.lock().unwrap().abort();
    }

    /// Leads to the server again.
    ///
    /// # Panics
    /// When the address has been taken by somebody else, or does not become free within 10 seconds.
    pub async fn restore(&self) {
        let listening = crate::eventually("bound", Duration::from_secs(10), || listen(self.address, self.to)).await;
        *self.task.lock().unwrap() = listening.1;
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.cut();
    }
}

async fn listen(address: SocketAddr, to: SocketAddr) -> std::io::Result<(SocketAddr, AbortHandle)> {
    background::run(async move {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(async move {
            // Ends with the task, and the connections with it.
            let mut connections = JoinSet::new();
            while let Ok((mut from, _)) = listener.accept().await {
                connections.spawn(async move { copy_bidirectional(&mut from, &mut TcpStream::connect(to).await?).await });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok((address, task.abort_handle()))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DecisionServer;

    #[tokio::test]
    async fn a_relay_that_is_cut_answers_nobody_until_it_is_restored() {
        let server = DecisionServer::start().await;
        server.answer(200, "here");
        let relay = Relay::to(server.url()).await;
        let client = reqwest::Client::new();
        let get = async || client.get(relay.url()).send().await?.text().await;
        assert_eq!(get().await.unwrap(), "here");
        relay.cut();
        crate::eventually("cut", Duration::from_secs(5), || async { get().await.err().ok_or("an answer") }).await;
        relay.restore().await;
        assert_eq!(get().await.unwrap(), "here");
    }
}
