//! The control plane: its start, its users, and what is installed in it.

use crate::certificates::Certificates;
use crate::exporter::{Exporter, Hub};
use crate::kubeconfig::ADMIN_TOKEN;
use crate::namespace::Namespace;
use crate::prometheus::{self, Prometheus};
use crate::run_folder::RunFolder;
use crate::servers::{self, Servers};
use crate::{background, binaries, kubeconfig, manifest};
use anyhow::{Context as _, Result};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::sync::OnceCell;

/// The resource whose controller does not run here: tests patch its status themselves.
const LEADER_WORKER_SET: &str = include_str!("../fixtures/leaderworkerset-crd.yaml");

/// A port may be taken between its choice and its use.
const ATTEMPTS: usize = 3;

/// A running control plane. It ends with its last handle, or with the process.
#[derive(Debug)]
pub struct ControlPlane {
    // Before the folders, which the servers write to.
    servers: Servers,
    prometheus: Prometheus,
    hub: Hub,
    certificates: Certificates,
    run: RunFolder,
    operator_logs: Mutex<Vec<PathBuf>>,
}

impl ControlPlane {
    /// The plane that all tests of this process share, or `None`, with a sentence on stderr, when its binaries
    /// were never built: the test is skipped then.
    ///
    /// # Panics
    /// When it does not start, and when binaries are missing under `LLMSCALER_E2E=require`.
    pub async fn shared() -> Option<Arc<Self>> {
        static SHARED: OnceCell<Arc<ControlPlane>> = OnceCell::const_new();
        let bin = binaries::folder()?;
        Some(SHARED.get_or_init(|| Self::start_from(bin)).await.clone())
    }

    /// A plane of the caller's own, for tests that a second operator would disturb. As [`shared`](Self::shared)
    /// otherwise.
    ///
    /// # Panics
    /// As [`shared`](Self::shared).
    pub async fn start() -> Option<Arc<Self>> {
        Some(Self::start_from(binaries::folder()?).await)
    }

    async fn start_from(bin: PathBuf) -> Arc<Self> {
        background::runtime();
        for attempt in 1.. {
            match Self::try_start(&bin).await {
                Ok(plane) => return Arc::new(plane),
                Err(error) if attempt < ATTEMPTS => eprintln!("the control plane did not start, again: {error:#}"),
                Err(error) => panic!("the control plane did not start: {error:#}"),
            }
        }
        unreachable!()
    }

    async fn try_start(bin: &Path) -> Result<Self> {
        let run = RunFolder::create()?;
        let certificates = Certificates::create(run.data())?;
        let hub = Hub::start().await?;
        let config = prometheus::write_config(run.data(), hub.address())?;
        let servers = servers::start(bin, &run, &certificates, &config).await?;
        let prometheus = Prometheus::new(&servers.prometheus_url, run.data());
        let plane = Self { servers, prometheus, hub, certificates, run, operator_logs: Mutex::default() };
        plane.install().await.context("cannot install the resources")?;
        Ok(plane)
    }

    /// The LeaderWorkerSet resource and, once it is generated, the operator's own.
    async fn install(&self) -> Result<()> {
        let client = self.client();
        manifest::apply(&client, LEADER_WORKER_SET, "default").await?;
        let bases = binaries::repository().join("config/crd/bases");
        let Ok(entries) = std::fs::read_dir(bases) else { return Ok(()) };
        for entry in entries {
            let path = entry?.path();
            manifest::apply(&client, &std::fs::read_to_string(&path)?, "default").await.with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    /// The address of the API server.
    #[must_use]
    pub fn api_url(&self) -> &str {
        &self.servers.api_url
    }

    /// A client of the administrator. It belongs to the runtime that it is made in.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client_as(ADMIN_TOKEN)
    }

    /// A client of whoever has `token`.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn client_as(&self, token: &str) -> Client {
        Client::try_from(kubeconfig::config(self.api_url(), &self.certificates.authority_der, token)).unwrap()
    }

    /// A kubeconfig file of whoever has `token`, such as [`ADMIN_TOKEN`].
    ///
    /// # Panics
    /// When it cannot be written.
    #[must_use]
    pub fn kubeconfig(&self, token: &str) -> PathBuf {
        self.write_kubeconfig(&kubeconfig::file(self.api_url(), &self.certificates.authority, token))
    }

    /// A file of this text that goes with the run.
    pub(crate) fn write_kubeconfig(&self, text: &str) -> PathBuf {
        let file = tempfile::Builder::new().prefix("kubeconfig-").tempfile_in(self.run.data()).unwrap();
        std::fs::write(file.path(), text).unwrap();
        file.into_temp_path().keep().unwrap()
    }

    /// The authority of the servers' certificates, as the base64 of its PEM: the `caBundle` of an APIService.
    ///
    /// # Panics
    /// When its file is gone.
    #[must_use]
    pub fn ca_bundle(&self) -> String {
        let pem = std::fs::read(&self.certificates.authority).unwrap();
        serde_json::to_value(k8s_openapi::ByteString(pem)).unwrap().as_str().unwrap().to_owned()
    }

    /// The Prometheus that scrapes the exporters.
    #[must_use]
    pub fn prometheus(&self) -> &Prometheus {
        &self.prometheus
    }

    /// An exporter without labels of its own, whose series end when it is dropped; [`Namespace::exporter`] is the
    /// usual one.
    #[must_use = "dropped, its series end"]
    pub fn exporter(&self) -> Exporter {
        self.hub.exporter(BTreeMap::new())
    }

    pub(crate) fn exporter_of(&self, namespace: &str) -> Exporter {
        self.hub.exporter(BTreeMap::from([("namespace".to_owned(), namespace.to_owned())]))
    }

    /// A namespace of the test's own, called after `purpose`, with a kubelet for its pods.
    pub async fn namespace(self: &Arc<Self>, purpose: &str) -> Namespace {
        Namespace::in_plane(Arc::clone(self), purpose).await
    }

    /// Applies every document of `yaml` as the administrator; what has no namespace goes to `default`.
    ///
    /// # Panics
    /// When it is not valid or refused.
    pub async fn apply(&self, yaml: &str) {
        manifest::apply(&self.client(), yaml, "default").await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// [`apply`](Self::apply)s a file of the repository, such as `config/rbac/role.yaml`.
    ///
    /// # Panics
    /// When it cannot be read, is not valid, or is refused.
    pub async fn apply_file(&self, path: &str) {
        let yaml = std::fs::read_to_string(binaries::repository().join(path));
        self.apply(&yaml.unwrap_or_else(|error| panic!("{path}: {error}"))).await;
    }

    /// The token of a service account, made when it does not exist. It may do what RBAC gives it, and no more.
    ///
    /// # Panics
    /// When the namespace does not exist.
    pub async fn service_account(&self, namespace: &str, name: &str) -> String {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
        manifest::apply(&self.client(), &account.to_string(), namespace).await.unwrap();
        let hour = TokenRequestSpec { expiration_seconds: Some(3600), ..TokenRequestSpec::default() };
        let request = TokenRequest { spec: hour, ..TokenRequest::default() };
        let answer = accounts.create_token_request(name, &PostParams::default(), &request).await.unwrap();
        answer.status.unwrap().token
    }

    /// Gives a service account a cluster role, everywhere.
    ///
    /// # Panics
    /// When the binding is refused.
    pub async fn bind_cluster_role(&self, role: &str, namespace: &str, account: &str) {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": format!("{namespace}-{account}-{role}")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": account}],
        });
        self.apply(&binding.to_string()).await;
    }

    pub(crate) fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    /// The folder of the logs of the servers and the operators. It stays after the run.
    #[must_use]
    pub fn logs(&self) -> &Path {
        self.run.logs()
    }

    /// Names a log that the report of a failed wait shows the end of, and returns its path.
    pub(crate) fn add_operator_log(&self) -> PathBuf {
        let mut logs = self.operator_logs.lock().unwrap();
        let path = self.logs().join(format!("operator-{}.log", logs.len() + 1));
        logs.push(path.clone());
        path
    }

    pub(crate) fn operator_logs(&self) -> Vec<PathBuf> {
        self.operator_logs.lock().unwrap().clone()
    }
}
