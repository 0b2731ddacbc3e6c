//! A real Kubernetes control plane for the operator's end-to-end tests, and the stand-ins around it.
//!
//! [`ControlPlane`] runs etcd, the API server, the controller manager and Prometheus on loopback. Nothing
//! runs pods: a [`Kubelet`] per [`Namespace`] moves them through their lives, on the test's terms. Load is
//! an [`Exporter`] that Prometheus scrapes or a [`DecisionServer`], and the binary under test an [`Operator`].
//! A test that the sandbox can serve, too, takes its namespace from an [`ApiServer`] and runs on either.
//!
//! ```no_run
//! # use llmscaler_e2e::{ControlPlane, deployment};
//! # use std::time::Duration;
//! # async fn test() {
//! let Some(plane) = ControlPlane::shared().await else { return };
//! let ns = plane.namespace("surge").await;
//! ns.create(&deployment("web", 3)).await;
//! ns.wait_for(&ns.deployments(), "web", "3 ready replicas", Duration::from_secs(20), |web| {
//!     web["status"]["readyReplicas"] == 3
//! })
//! .await;
//! # }
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "test support: whatever fails here fails the test that called it"
)]

mod api_server;
mod background;
mod binaries;
mod certificates;
mod control_plane;
mod decision_server;
mod exporter;
mod kubeconfig;
mod kubelet;
mod loopback;
mod manifest;
mod namespace;
mod operator;
mod pod_status;
mod process;
mod prometheus;
mod relay;
mod report;
mod run_folder;
mod sandbox_server;
mod servers;
mod wait;
mod workloads;

pub use api_server::ApiServer;
pub use binaries::built;
pub use control_plane::ControlPlane;
pub use decision_server::{DecisionServer, Request};
pub use exporter::Exporter;
pub use kubeconfig::ADMIN_TOKEN;
pub use kubelet::Kubelet;
pub use namespace::Namespace;
pub use operator::{Launch, Operator, binary, free_port};
pub use prometheus::Prometheus;
pub use relay::Relay;
pub use wait::eventually;
pub use workloads::{deployment, leader_worker_set, stateful_set};
