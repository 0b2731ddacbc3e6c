//! The runtime of everything that must outlive one test: each test's own runtime ends with it.

use std::future::Future;
use std::sync::OnceLock;
use tokio::runtime::{Builder, Runtime};

/// The runtime that serves the mock servers and the kubelets until the process ends.
pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        // Not to be undone: reqwest and kube take whichever provider the process has.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Builder::new_multi_thread().worker_threads(2).thread_name("e2e").enable_all().build().unwrap()
    })
}

/// Runs `work` there. A pooled connection of a test's own runtime would be dead in the next test.
pub(crate) async fn run<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    runtime().spawn(work).await.unwrap()
}

/// The client of plain HTTP requests that are [`run`] there.
pub(crate) fn client() -> &'static reqwest::Client {
    static CLIENT: OnceLock<reqwest::Client> = OnceLock::new();
    CLIENT.get_or_init(|| {
        runtime();
        reqwest::Client::new()
    })
}
