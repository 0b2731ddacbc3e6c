//! A control plane with one operator that serves its External Metrics API: a cluster has one, so each of these tests has a cluster.

use std::sync::Arc;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use llmscaler_e2e::{ControlPlane, Launch, Namespace, deployment, eventually, free_port};
use serde_json::{Value, json};

use crate::fleet::{Fleet, SOON, launch_of};

/// The Service of the operator's External Metrics API.
const SERVICE: &str = "external";
/// The one APIService of the group.
pub const API_SERVICE: &str = "v1beta1.external.metrics.k8s.io";
/// Where the API server has the group.
const PATH: &str = "/apis/external.metrics.k8s.io/v1beta1";
/// What the operator needs beside its usual role.
const ROLE: &str = "config/rbac/external_metrics_role.yaml";

/// A fleet whose operator serves external metrics, and the port that it does it on.
pub struct HpaFleet {
    pub fleet: Fleet,
    pub port: u16,
}

/// A plane of the test's own with a Deployment `fleet`; `None` where there is no plane to test on.
pub async fn start(purpose: &str, replicas: i32) -> Option<HpaFleet> {
    let plane = ControlPlane::start().await?;
    start_on(&plane, purpose, replicas).await.into()
}

/// As [`start`], on a plane that the test has prepared.
pub async fn start_on(plane: &Arc<ControlPlane>, purpose: &str, replicas: i32) -> HpaFleet {
    let ns = plane.namespace(purpose).await;
    ns.create(&deployment("fleet", replicas)).await;
    ns.loopback_service(SERVICE).await;
    let port = free_port();
    let operator = launch(&ns, port).await.start().await;
    let fleet = Fleet::of(ns, operator);
    fleet.is_serving(replicas).await;
    HpaFleet { fleet, port }
}

/// An operator that serves external metrics on this port, with the permissions that it needs and no others.
pub async fn launch(ns: &Namespace, port: u16) -> Launch {
    let plane = ns.plane();
    plane.apply_file(ROLE).await;
    plane.bind_cluster_role("llmscaler-external-metrics", ns.name(), "llmscaler").await;
    let reader = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "llmscaler", "namespace": "kube-system"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "extension-apiserver-authentication-reader"},
        "subjects": [{"kind": "ServiceAccount", "namespace": ns.name(), "name": "llmscaler"}],
    });
    plane.apply(&reader.to_string()).await;
    let token = plane.service_account(ns.name(), "llmscaler").await;
    let maps: Api<ConfigMap> = Api::namespaced(plane.client_as(&token), "kube-system");
    let api_services: Api<APIService> = Api::all(plane.client_as(&token));
    let allowed = || async {
        api_services.get_opt(API_SERVICE).await?;
        maps.get("extension-apiserver-authentication").await
    };
    eventually("allowed", SOON, allowed).await;
    launch_of(ns)
        .await
        .argument(&format!("--external-metrics-bind-address=127.0.0.1:{port}"))
        .argument(&format!("--external-metrics-service-name={SERVICE}"))
        .argument(&format!("--external-metrics-service-namespace={}", ns.name()))
        .argument(&format!("--external-metrics-service-port={port}"))
}

impl HpaFleet {
    /// The HPAs of the namespace.
    pub fn hpas(&self) -> Api<HorizontalPodAutoscaler> {
        self.fleet.ns().api()
    }

    /// Waits for something of the generated HPA, and returns it.
    pub async fn hpa(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        self.fleet.ns().wait_for(&self.hpas(), "llmscaler-fleet", what, SOON, |hpa| !hpa.is_null() && holds(hpa)).await
    }

    /// Waits for a condition of the generated HPA.
    pub async fn hpa_condition(&self, kind: &str, status: &str, reason: &str) -> Value {
        let holds = |hpa: &Value| {
            let all = hpa["status"]["conditions"].as_array().cloned().unwrap_or_default();
            all.iter().any(|one| one["type"] == kind && one["status"] == status && one["reason"] == reason)
        };
        self.hpa(&format!("{kind}={status} because of {reason}"), holds).await
    }

    /// Asks the API server for a metric of the scaler, as whoever has `token`. Answers the value, or the code of the refusal.
    pub async fn read(&self, token: &str, metric: &str, selector: &str) -> Result<Value, u16> {
        let ns = self.fleet.ns();
        let path = format!("{PATH}/namespaces/{}/{metric}?labelSelector={selector}", ns.name());
        let request = axum::http::Request::get(path).body(Vec::new()).unwrap();
        match ns.plane().client_as(token).request::<Value>(request).await {
            Ok(list) => Ok(list),
            Err(kube::Error::Api(status)) => Err(status.code),
            Err(error) => panic!("{error}"),
        }
    }
}
