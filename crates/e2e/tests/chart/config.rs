//! The folders under config, dist/install.yaml, and the targets of the Makefile that install them.

use std::process::Command;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use llmscaler_e2e::ControlPlane;

use crate::client::{Client, HELMS, outcome, repository};
use crate::install::forget_crd;
use crate::objects::{identity, objects, of_kind, the};
use crate::running::{ends_content, fleet, has_size, operator_of};

const NAMESPACE: &str = "llmscaleoperator-system";

#[test]
fn every_folder_renders_and_the_installer_is_the_default() {
    let Some(kubectl) = Client::new("kubectl") else { return };
    for folder in ["crd", "rbac", "manager", "prometheus", "network-policy"] {
        let rendered = kubectl.run(["kustomize", &format!("config/{folder}")]).unwrap();
        assert!(!objects(&rendered).is_empty(), "{folder}");
    }
    let default = objects(&kubectl.run(["kustomize", "config/default"]).unwrap());
    let installer = objects(&std::fs::read_to_string(repository().join("dist/install.yaml")).unwrap());
    let names = |objects: &[serde_json::Value]| objects.iter().map(identity).collect::<Vec<_>>();
    assert_eq!(names(&default), names(&installer));
    assert_eq!(default, installer);
}

#[test]
fn both_ways_of_installing_give_the_same_rights_and_the_same_pod() {
    let Some(helm) = Client::new(HELMS[1]) else { return };
    let chart = objects(&helm.template(&["--set=rbac.helpers.enabled=true"]).unwrap());
    let installer = objects(&std::fs::read_to_string(repository().join("dist/install.yaml")).unwrap());
    let rules = |objects: &[serde_json::Value]| {
        let roles = of_kind(objects, "ClusterRole").into_iter().chain(of_kind(objects, "Role"));
        let mut rules: Vec<String> = roles.flat_map(|role| role["rules"].as_array().unwrap()).map(ToString::to_string).collect();
        rules.sort();
        rules
    };
    assert_eq!(rules(&chart), rules(&installer));
    let pod = |objects: &[serde_json::Value]| {
        let mut pod = the(objects, "Deployment")["spec"]["template"]["spec"].clone();
        pod["serviceAccountName"].take();
        // The default, which the chart says all the same.
        let container = &mut pod["containers"][0];
        container["imagePullPolicy"].take();
        container["args"].as_array_mut().unwrap().retain(|argument| argument != "--metrics-secure=true");
        pod
    };
    assert_eq!(pod(&chart), pod(&installer));
}

#[tokio::test]
async fn make_installs_deploys_and_undeploys() {
    // A plane of its own, since the namespace has a fixed name.
    let Some(plane) = ControlPlane::start().await else { return };
    let Some(kubectl) = Client::new("kubectl") else { return };
    let kubectl = kubectl.on(&plane);
    let make = |arguments: &[&str]| {
        let mut make = Command::new("make");
        kubectl.equip(&mut make);
        make.arg(format!("KUBECTL={}", kubectl.binary().display())).args(arguments);
        outcome(&mut make).unwrap_or_else(|error| panic!("make {arguments:?}: {error}"));
    };
    let deployments: Api<Deployment> = Api::namespaced(plane.client(), NAMESPACE);
    let definitions: Api<CustomResourceDefinition> = Api::all(plane.client());
    let serving = plane.namespace("serving").await;

    forget_crd(plane.client()).await;
    make(&["install"]);
    make(&["deploy", "IMG=registry:5000/mine:1"]);
    let deployment = serde_json::to_value(deployments.get("llmscaleoperator-controller-manager").await.unwrap()).unwrap();
    assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["image"], "registry:5000/mine:1");
    let operator = operator_of(&plane, &deployment).await;
    let _server = fleet(&serving).await;
    has_size(&serving, 2).await;
    ends_content(operator).await;

    make(&["undeploy"]);
    assert!(deployments.get_opt("llmscaleoperator-controller-manager").await.unwrap().is_none());
    assert!(serving.scalers().get_opt("fleet").await.unwrap().is_some(), "undeploy keeps scalers");
    make(&["uninstall"]);
    assert!(definitions.get_opt("llmscalers.autoscaling.modelsphere.dev").await.unwrap().is_none());
}
