//! The operator as an installation would run it: with the flags of its Deployment and as its service account.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::Api;
use kube::api::PostParams;
use llmscaler_e2e::{ControlPlane, DecisionServer, Namespace, Operator, deployment};
use serde_json::{Value, json};

pub const SOON: Duration = Duration::from_secs(60);

/// Starts the operator of a Deployment. What it listens on is left to the harness, and the rest is as in its pod.
pub async fn operator_of(plane: &Arc<ControlPlane>, deployment: &Value) -> Operator {
    let namespace = deployment["metadata"]["namespace"].as_str().unwrap();
    let pod = &deployment["spec"]["template"]["spec"];
    let account = pod["serviceAccountName"].as_str().unwrap();
    let arguments: Vec<String> = serde_json::from_value(pod["containers"][0]["args"].clone()).unwrap();
    // It exists: applying it again changes nothing that a token depends on.
    let token = plane.service_account(namespace, account).await;
    // The authorizer learns of new roles a moment later.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut launch = Operator::launch(plane).token(&token).env("POD_NAMESPACE", namespace);
    for argument in arguments {
        let (flag, _) = argument.split_once('=').unwrap_or((&argument, ""));
        launch = match flag {
            "--health-probe-bind-address" | "--metrics-bind-address" | "--metrics-secure" => launch,
            flag if flag.ends_with("-bind-address") => launch.argument(&format!("{flag}=127.0.0.1:0")),
            _ => launch.argument(&argument),
        };
    }
    launch.start().await
}

/// A Deployment `fleet` that a decision server wants at 2 replicas.
pub async fn fleet(ns: &Namespace) -> DecisionServer {
    let server = DecisionServer::start().await;
    server.decide(ns.name(), "fleet", 2);
    ns.create(&deployment("fleet", 1)).await;
    let spec = json!({
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "fleet"},
        "metricProvider": "Custom",
        "serverAddress": server.url(),
        "customProvider": {"serviceId": "fleet"},
        "minReplicas": 1,
        "maxReplicas": 9,
        "syncPeriodSeconds": 1,
        "retryPeriodSeconds": 1,
    });
    let scaler =
        json!({"apiVersion": "autoscaling.modelsphere.dev/v1alpha1", "kind": "LLMScaler", "metadata": {"name": "fleet"}, "spec": spec});
    ns.apply(&scaler.to_string()).await;
    server
}

/// Waits until the fleet has been asked to have so many replicas.
pub async fn has_size(ns: &Namespace, replicas: i64) {
    let what = format!("asked to have {replicas} replicas");
    ns.wait_for(&ns.deployments(), "fleet", &what, SOON, |fleet| fleet["spec"]["replicas"] == replicas).await;
}

/// Ends the operator, which must have been refused nothing.
pub async fn ends_content(operator: Operator) {
    let log = operator.log_tail(usize::MAX);
    let refused: Vec<_> = log.lines().filter(|line| line.to_lowercase().contains("forbidden")).take(3).collect();
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert!(operator.stop().await.success());
}

/// Whether the service account of a Deployment may do this: verb, resource (with its group, as `deployments.apps`), namespace.
pub async fn may(plane: &Arc<ControlPlane>, of: &Value, verb: &str, resource: &str, namespace: &str) -> bool {
    let home = of["metadata"]["namespace"].as_str().unwrap();
    let account = of["spec"]["template"]["spec"]["serviceAccountName"].as_str().unwrap();
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    let review: SubjectAccessReview = serde_json::from_value(json!({"spec": {
        "user": format!("system:serviceaccount:{home}:{account}"),
        "groups": ["system:serviceaccounts", format!("system:serviceaccounts:{home}"), "system:authenticated"],
        "resourceAttributes": {"verb": verb, "group": group, "resource": resource, "namespace": namespace},
    }}))
    .unwrap();
    let reviews: Api<SubjectAccessReview> = Api::all(plane.client());
    reviews.create(&PostParams::default(), &review).await.unwrap().status.unwrap().allowed
}
