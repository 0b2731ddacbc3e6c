//! A release whose rights end at its namespace.

use std::time::Duration;

use llmscaler_e2e::ControlPlane;

use crate::client::{Client, HELMS};
use crate::running::{ends_content, fleet, has_size, may, operator_of};

#[tokio::test]
async fn it_scales_in_its_namespace_and_sees_no_other() {
    let Some(plane) = ControlPlane::shared().await else { return };
    let Some(helm) = Client::new(HELMS[1]) else { return };
    let helm = helm.on(&plane);
    let (ns, other) = (plane.namespace("tenant").await, plane.namespace("neighbour").await);
    let namespace = format!("--namespace={}", ns.name());
    // The administrator has installed the resource.
    helm.run(["install", "llm", "dist/chart", "--set=rbac.namespaced=true,crd.enabled=false", &namespace]).unwrap();
    let deployment = ns.deployments().get("llm-llmscaleoperator-controller-manager").await.unwrap();
    let deployment = serde_json::to_value(deployment).unwrap();

    let operator = operator_of(&plane, &deployment).await;
    let _servers = (fleet(&ns).await, fleet(&other).await);
    has_size(&ns, 2).await;
    let untouched = |fleet: &serde_json::Value| fleet["spec"]["replicas"] == 1;
    other.stays(&other.deployments(), "fleet", "untouched", Duration::from_secs(3), untouched).await;
    ends_content(operator).await;

    for (verb, resource) in
        [("get", "secrets"), ("list", "pods"), ("list", "llmscalers.autoscaling.modelsphere.dev"), ("patch", "deployments/scale.apps")]
    {
        assert!(!may(&plane, &deployment, verb, resource, other.name()).await, "{verb} {resource}");
    }
    assert!(may(&plane, &deployment, "get", "secrets", ns.name()).await);
    assert!(!may(&plane, &deployment, "create", "subjectaccessreviews.authorization.k8s.io", "").await);
    helm.run(["uninstall", "llm", &namespace]).unwrap();
}
