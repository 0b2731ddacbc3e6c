//! install → scale → upgrade → uninstall → install, in the whole cluster.

use std::path::Path;
use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Api, DeleteParams};
use kube::{Client as Kube, ResourceExt as _};
use llmscaler_e2e::{ControlPlane, Namespace, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{Client, HELMS, repository};
use crate::render::EVERYTHING;
use crate::running::{SOON, ends_content, fleet, has_size, may, operator_of};

const CRD: &str = "llmscalers.autoscaling.modelsphere.dev";
const NAME: &str = "llm-llmscaleoperator-controller-manager";

/// Kinds of other projects whose own schemas are not here: any object of them is accepted.
fn foreign_kinds() -> String {
    let kinds = [
        ("cert-manager.io", "Issuer", "issuers"),
        ("cert-manager.io", "Certificate", "certificates"),
        ("monitoring.coreos.com", "ServiceMonitor", "servicemonitors"),
        ("monitoring.coreos.com", "PrometheusRule", "prometheusrules"),
    ];
    let definitions = kinds.map(|(group, kind, plural)| {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        })
        .to_string()
    });
    definitions.join("\n---\n")
}

/// A copy of the chart as an earlier release may have been: one column of the resource was not there yet.
fn earlier_chart() -> TempDir {
    let folder = TempDir::new().unwrap();
    let copied = std::process::Command::new("cp").arg("-R").arg(repository().join("dist/chart")).arg(folder.path()).status();
    assert!(copied.unwrap().success());
    let crd = folder.path().join("chart/files/autoscaling.modelsphere.dev_llmscalers.yaml");
    let mut definition: Value = serde_saphyr::from_str(&std::fs::read_to_string(&crd).unwrap()).unwrap();
    definition["spec"]["versions"][0]["additionalPrinterColumns"].as_array_mut().unwrap().pop().unwrap();
    std::fs::write(crd, definition.to_string()).unwrap();
    folder
}

async fn definition(plane: &Arc<ControlPlane>) -> CustomResourceDefinition {
    Api::<CustomResourceDefinition>::all(plane.client()).get(CRD).await.unwrap()
}

/// A namespace whose pods have to meet the restricted standard.
async fn restricted(plane: &Arc<ControlPlane>, purpose: &str) -> Namespace {
    let ns = plane.namespace(purpose).await;
    let label = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    let api: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(plane.client());
    ns.patch(&api, ns.name(), &label).await;
    ns
}

struct Release<'a> {
    helm: &'a Client,
    ns: &'a Namespace,
}

impl Release<'_> {
    fn run(&self, verb: &str, arguments: &[&str]) {
        let namespace = format!("--namespace={}", self.ns.name());
        let all = [verb, "llm"].into_iter().chain(arguments.iter().copied()).chain([namespace.as_str()]);
        self.helm.run(all).unwrap_or_else(|error| panic!("helm {verb} {arguments:?}: {error}"));
    }

    /// The operator's Deployment as it is stored.
    async fn deployment(&self) -> Value {
        serde_json::to_value(self.ns.deployments().get(NAME).await.unwrap()).unwrap()
    }
}

/// Removes the resource, which the harness has installed, for others to install it.
pub async fn forget_crd(client: Kube) {
    let crds: Api<CustomResourceDefinition> = Api::all(client);
    let _ = crds.delete(CRD, &DeleteParams::default()).await;
    eventually("without the resource", SOON, || async {
        if crds.get_opt(CRD).await.unwrap().is_none() { Ok(()) } else { Err("still there") }
    })
    .await;
}

#[tokio::test]
async fn scalers_outlive_upgrade_and_uninstall_and_the_account_may_do_what_it_takes() {
    // A plane of its own: releases of the whole cluster would meet.
    let Some(plane) = ControlPlane::start().await else { return };
    plane.apply(&foreign_kinds()).await;
    for name in HELMS {
        let Some(helm) = Client::new(name) else { return };
        lifecycle(&plane, &helm.on(&plane)).await;
    }
}

async fn lifecycle(plane: &Arc<ControlPlane>, helm: &Client) {
    forget_crd(plane.client()).await;
    let (ns, serving) = (restricted(plane, "scaling").await, plane.namespace("serving").await);
    let release = Release { helm, ns: &ns };
    let earlier = earlier_chart();
    let earlier = earlier.path().join("chart");
    release.run("install", &[path(&earlier)]);
    let before = definition(plane).await;
    eventually("admitted under the restricted standard", SOON, || async {
        if ns.pods("control-plane=controller-manager").await.is_empty() { Err("no pod") } else { Ok(()) }
    })
    .await;

    let operator = operator_of(plane, &release.deployment().await).await;
    let server = fleet(&serving).await;
    has_size(&serving, 2).await;
    let scaler = serving.scalers().get("fleet").await.unwrap().uid();

    release.run("upgrade", &["dist/chart", "--set=manager.replicas=2", "--set=podDisruptionBudget.enabled=true"]);
    let after = definition(plane).await;
    assert_eq!(before.uid(), after.uid());
    let columns = |crd: &CustomResourceDefinition| crd.spec.versions[0].additional_printer_columns.as_ref().map_or(0, Vec::len);
    assert_eq!(columns(&after), columns(&before) + 1, "the resource was not upgraded");
    assert_eq!(release.deployment().await["spec"]["replicas"], 2);
    // Helm's definition is the one that `llmscaler crd` prints: whoever applies it meets no conflict.
    if let Some(kubectl) = Client::new("kubectl") {
        let same = "--filename=config/crd/bases/autoscaling.modelsphere.dev_llmscalers.yaml";
        kubectl.on(plane).run(["apply", "--server-side", "--dry-run=server", same]).unwrap();
    }
    server.decide(serving.name(), "fleet", 3);
    has_size(&serving, 3).await;
    ends_content(operator).await;

    // Everything on, the API server's own checks included.
    let values = format!("--values={EVERYTHING}");
    release.run("upgrade", &["dist/chart", &values]);
    let deployment = release.deployment().await;
    let operator = operator_of(plane, &deployment).await;
    server.decide(serving.name(), "fleet", 4);
    has_size(&serving, 4).await;
    let services: Api<APIService> = Api::all(plane.client());
    eventually("trusted by the aggregation layer", SOON, || async {
        let found = services.get("v1beta1.external.metrics.k8s.io").await.unwrap();
        found.spec.and_then(|spec| spec.ca_bundle).map(|_| ()).ok_or("no authority in the APIService")
    })
    .await;
    least_privilege(plane, &deployment, serving.name()).await;

    // An uninstall takes the APIService first and the operator, with its rights, last: what it does in between is not to bring it back.
    services.delete("v1beta1.external.metrics.k8s.io", &DeleteParams::default()).await.unwrap();
    eventually("the operator has noticed", SOON, || async {
        let log = operator.log_tail(usize::MAX);
        if log.contains("has been deleted, as an uninstall does") { Ok(()) } else { Err("nothing in its log") }
    })
    .await;
    ends_content(operator).await;
    release.run("upgrade", &["dist/chart", &values]);
    assert!(services.get_opt("v1beta1.external.metrics.k8s.io").await.unwrap().is_some(), "the chart makes it again");
    let operator = operator_of(plane, &deployment).await;
    release.run("uninstall", &[]);
    assert!(operator.stop().await.success());
    assert_eq!(definition(plane).await.uid(), after.uid());
    assert_eq!(serving.scalers().get("fleet").await.unwrap().uid(), scaler);
    assert!(ns.deployments().get_opt(NAME).await.unwrap().is_none());
    assert!(services.get_opt("v1beta1.external.metrics.k8s.io").await.unwrap().is_none());

    // It takes over what it has left.
    release.run("install", &["dist/chart"]);
    assert_eq!(serving.scalers().get("fleet").await.unwrap().uid(), scaler);
    release.run("uninstall", &[]);
}

/// What an account with every switch on may do, and what not.
async fn least_privilege(plane: &Arc<ControlPlane>, deployment: &Value, serving: &str) {
    let home = deployment["metadata"]["namespace"].as_str().unwrap();
    for (verb, resource, namespace, allowed) in [
        ("create", "tokenreviews.authentication.k8s.io", "", true),
        ("watch", "fleets.example.com", serving, true),
        // The values of this test allow it in namespace default alone.
        ("get", "secrets", "default", true),
        ("get", "secrets", serving, false),
        ("list", "secrets", "default", false),
        ("update", "deployments.apps", serving, false),
        ("delete", "pods", serving, false),
        ("update", "leases.coordination.k8s.io", home, false),
        ("create", "leases.coordination.k8s.io", serving, false),
        ("create", "apiservices.apiregistration.k8s.io", "", false),
        ("update", "llmscalers.autoscaling.modelsphere.dev", serving, false),
    ] {
        assert_eq!(may(plane, deployment, verb, resource, namespace).await, allowed, "{verb} {resource} in {namespace:?}");
    }
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}
