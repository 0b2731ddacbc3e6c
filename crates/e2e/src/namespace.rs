//! A namespace per test: its objects, its kubelet and its waits.

use crate::api_server::ApiServer;
use crate::control_plane::ControlPlane;
use crate::exporter::Exporter;
use crate::kubeconfig::ADMIN_TOKEN;
use crate::kubelet::Kubelet;
use crate::operator::{Launch, Operator};
use crate::sandbox_server::SandboxServer;
use crate::{background, manifest, report, wait, workloads};
use axum::Router;
use axum_server::tls_rustls::RustlsConfig;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{self as core, Pod};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A namespace that is deleted, with all that is in it, when the test ends.
pub struct Namespace {
    plane: Arc<ControlPlane>,
    /// The API server that it is in, where that is not the plane's.
    sandbox: Option<SandboxServer>,
    name: String,
    client: Client,
    kubelet: Kubelet,
    exporter: Exporter,
}

impl Namespace {
    pub(crate) async fn in_plane(plane: Arc<ControlPlane>, purpose: &str) -> Self {
        let name = name_for(purpose);
        let kubelet = Kubelet::of_cluster(&plane, &name);
        Self::enter(plane, None, name, kubelet).await
    }

    /// In a sandbox of its own. Prometheus is the plane's.
    pub(crate) async fn in_sandbox(plane: Arc<ControlPlane>, purpose: &str) -> Self {
        let (kubelet, life) = Kubelet::of_sandbox();
        let sandbox = SandboxServer::start(life).await;
        Self::enter(plane, Some(sandbox), name_for(purpose), kubelet).await
    }

    async fn enter(plane: Arc<ControlPlane>, sandbox: Option<SandboxServer>, name: String, kubelet: Kubelet) -> Self {
        let client = sandbox.as_ref().map_or_else(|| plane.client(), SandboxServer::client);
        let mut object = core::Namespace::default();
        object.metadata.name = Some(name.clone());
        Api::all(client.clone()).create(&PostParams::default(), &object).await.unwrap();
        let exporter = plane.exporter_of(&name);
        Self { plane, sandbox, name, client, kubelet, exporter }
    }

    /// Its name, unique in the plane.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The plane that it is in, or that at least its Prometheus is of.
    #[must_use]
    pub fn plane(&self) -> &Arc<ControlPlane> {
        &self.plane
    }

    /// The API server that it is in.
    #[must_use]
    pub fn server(&self) -> ApiServer {
        if self.sandbox.is_some() { ApiServer::Sandbox } else { ApiServer::Real }
    }

    /// A client of the administrator. It belongs to the runtime of the test.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// A kubeconfig file of the administrator.
    ///
    /// # Panics
    /// When it cannot be written.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        match &self.sandbox {
            Some(sandbox) => self.plane.write_kubeconfig(&sandbox.kubeconfig(&self.name).to_string()),
            None => self.plane.kubeconfig(ADMIN_TOKEN),
        }
    }

    /// An operator of the administrator, of this namespace alone, that is not yet started.
    pub fn launch(&self) -> Launch {
        Operator::launch(&self.plane).kubeconfig(self.kubeconfig()).argument("--watch-namespace").argument(&self.name)
    }

    /// The stand-in for the scheduler and the kubelet of its pods.
    #[must_use]
    pub fn kubelet(&self) -> &Kubelet {
        &self.kubelet
    }

    /// Its exporter: the series carry `namespace="NAME"` and end with the test.
    #[must_use]
    pub fn exporter(&self) -> &Exporter {
        &self.exporter
    }

    /// The API of a built-in kind, as the administrator.
    #[must_use]
    pub fn api<K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// Its Deployments.
    #[must_use]
    pub fn deployments(&self) -> Api<Deployment> {
        self.api()
    }

    /// Its ReplicaSets.
    #[must_use]
    pub fn replica_sets(&self) -> Api<ReplicaSet> {
        self.api()
    }

    /// Its StatefulSets.
    #[must_use]
    pub fn stateful_sets(&self) -> Api<StatefulSet> {
        self.api()
    }

    /// Its LeaderWorkerSets.
    #[must_use]
    pub fn leader_worker_sets(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.name, &workloads::leader_worker_sets())
    }

    /// Its LLMScalers.
    #[must_use]
    pub fn scalers(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.name, &manifest::llm_scaler())
    }

    /// Its pods that match `selector` (`app=web`), oldest first, the terminating ones included.
    ///
    /// # Panics
    /// When they cannot be listed.
    pub async fn pods(&self, selector: &str) -> Vec<Pod> {
        let mut pods = self.api::<Pod>().list(&ListParams::default().labels(selector)).await.unwrap().items;
        pods.sort_by_key(|pod| (pod.creation_timestamp(), pod.name_any()));
        pods
    }

    /// Creates an object of a built-in kind.
    ///
    /// # Panics
    /// When it is refused.
    pub async fn create<K>(&self, object: &K) -> K
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
    {
        self.api::<K>().create(&PostParams::default(), object).await.unwrap()
    }

    /// Applies every document of `yaml`, in this namespace unless it names another.
    ///
    /// # Panics
    /// When it is not valid or refused; [`try_apply`](Self::try_apply) returns the reason instead.
    pub async fn apply(&self, yaml: &str) -> Vec<DynamicObject> {
        self.try_apply(yaml).await.unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// As [`apply`](Self::apply), for what may be refused.
    ///
    /// # Errors
    /// When it is not valid or refused, with the API server's words.
    pub async fn try_apply(&self, yaml: &str) -> anyhow::Result<Vec<DynamicObject>> {
        manifest::apply(&self.client, yaml, &self.name).await
    }

    /// Merges `patch` into an object: an edit by somebody else, as far as the operator can tell.
    ///
    /// # Panics
    /// When it is refused.
    pub async fn patch<K: Clone + Debug + DeserializeOwned>(&self, api: &Api<K>, name: &str, patch: &Value) -> K {
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
    }

    /// Sets the size of a target through its `scale` subresource, as `kubectl scale` does.
    ///
    /// # Panics
    /// When it is refused.
    pub async fn scale<K: Clone + DeserializeOwned>(&self, api: &Api<K>, name: &str, replicas: i32) {
        let patch = json!({"spec": {"replicas": replicas}});
        api.patch_scale(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    /// Plays the LeaderWorkerSet controller: reports on the groups and that the present generation is observed.
    ///
    /// # Panics
    /// When there is no such LeaderWorkerSet.
    pub async fn report_groups(&self, name: &str, replicas: i32, ready: i32, updated: i32) {
        let api = self.leader_worker_sets();
        let generation = api.get(name).await.unwrap().metadata.generation;
        let selector = format!("leaderworkerset.sigs.k8s.io/name={name},leaderworkerset.sigs.k8s.io/worker-index=0");
        let status = json!({"status": {
            "replicas": replicas,
            "readyReplicas": ready,
            "updatedReplicas": updated,
            "observedGeneration": generation,
            "hpaPodSelector": selector,
        }});
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    }

    /// A Service of this name that leads to loopback, by which the API server reaches an extension server of the
    /// test's: an APIService or a webhook refers to it with the server's own port.
    ///
    /// # Panics
    /// When it is refused.
    pub async fn loopback_service(&self, name: &str) {
        let service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        });
        self.apply(&service.to_string()).await;
    }

    /// Serves `app` behind the [`loopback_service`](Self::loopback_service) `name` until the test ends, with a
    /// certificate for it of the plane's authority, and answers the address.
    ///
    /// # Panics
    /// When the service is refused.
    pub async fn extension_server(&self, name: &str, app: Router) -> SocketAddr {
        self.loopback_service(name).await;
        let (certificate, key) = self.plane.certificates().issue(&format!("{name}.{}.svc", self.name)).unwrap();
        let tls = RustlsConfig::from_pem_file(certificate, key).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(axum_server::from_tcp_rustls(listener, tls).unwrap().serve(app.into_make_service()));
        address
    }

    /// Waits until `holds` of the object `name`, and returns it. An object that is not there is `null`.
    ///
    /// # Panics
    /// When it does not within `timeout`, with what was last seen, the scalers' statuses, the events and the end of
    /// the operators' logs.
    pub async fn wait_for<K>(&self, api: &Api<K>, name: &str, what: &str, timeout: Duration, holds: impl Fn(&Value) -> bool) -> Value
    where
        K: Clone + Debug + DeserializeOwned + Serialize,
    {
        match wait::until(api, name, timeout, holds).await {
            Ok(object) => object,
            Err(last) => panic!("{name}: not {what} within {timeout:?}\n{}", report::text(self, &last).await),
        }
    }

    /// Watches the object `name` for all of `time` and returns it if `holds` never ceased to.
    ///
    /// # Panics
    /// When it ceased to, with the same report as [`wait_for`](Self::wait_for).
    pub async fn stays<K>(&self, api: &Api<K>, name: &str, what: &str, time: Duration, holds: impl Fn(&Value) -> bool) -> Value
    where
        K: Clone + Debug + DeserializeOwned + Serialize,
    {
        match wait::until(api, name, time, |object| !holds(object)).await {
            Ok(object) => panic!("{name}: did not stay {what}\n{}", report::text(self, &object).await),
            Err(last) => last,
        }
    }
}

/// A name that is unique in this process.
fn name_for(purpose: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{purpose}-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

impl Debug for Namespace {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Namespace").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("logs of the servers and the operator: {}", self.plane.logs().display());
        }
        if self.sandbox.is_some() {
            return;
        }
        let plane = Arc::clone(&self.plane);
        let name = self.name.clone();
        background::runtime().spawn(async move {
            // A client of this runtime: the test's own is about to end. The plane may be gone, which serves as well.
            let client = plane.client();
            let _ = Api::<core::Namespace>::all(client.clone()).delete(&name, &DeleteParams::default()).await;
            // No kubelet confirms these any more.
            let at_once = DeleteParams::default().grace_period(0);
            let _ = Api::<Pod>::namespaced(client, &name).delete_collection(&at_once, &ListParams::default()).await;
        });
    }
}
