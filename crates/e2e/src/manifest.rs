//! Objects from YAML, applied as `kubectl apply --server-side` does.

use anyhow::{Context as _, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::Scope;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, ResourceExt as _};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(30);

/// The resource under test.
pub(crate) fn llm_scaler() -> ApiResource {
    resource("autoscaling.modelsphere.dev", "v1alpha1", "LLMScaler", "llmscalers")
}

/// A resource that is not in the Kubernetes API itself.
pub(crate) fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

/// Applies each document; one without a namespace goes to `namespace`. A new CRD is waited for.
pub(crate) async fn apply(client: &Client, yaml: &str, namespace: &str) -> Result<Vec<DynamicObject>> {
    let documents: Vec<Option<DynamicObject>> = serde_saphyr::from_multiple(yaml).context("not the YAML of objects")?;
    let mut applied = Vec::new();
    for object in documents.into_iter().flatten() {
        let types = object.types.clone().context("an object without apiVersion and kind")?;
        let what = format!("{} {}", types.kind, object.name_any());
        let kind = GroupVersionKind::try_from(&types)?;
        let (resource, capabilities) = kube::discovery::pinned_kind(client, &kind).await.with_context(|| what.clone())?;
        let api: Api<DynamicObject> = if capabilities.scope == Scope::Namespaced {
            let namespace = object.namespace().unwrap_or_else(|| namespace.to_owned());
            Api::namespaced_with(client.clone(), &namespace, &resource)
        } else {
            Api::all_with(client.clone(), &resource)
        };
        let params = PatchParams::apply("e2e").force();
        let object = api.patch(&object.name_any(), &params, &Patch::Apply(&object)).await.with_context(|| what.clone())?;
        if kind.kind == "CustomResourceDefinition" {
            let name = object.name_any();
            tokio::time::timeout(DEADLINE, served(client, &name)).await.with_context(|| format!("{what} is not served"))??;
        }
        applied.push(object);
    }
    Ok(applied)
}

/// Waits until the objects of a CRD can be asked for. An established one is answered with 404 for a moment still.
async fn served(client: &Client, name: &str) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definition = await_condition(definitions, name, conditions::is_crd_established()).await?.context("it is gone")?.spec;
    let version = definition.versions.iter().find(|version| version.served).context("no version is served")?;
    let resource = resource(&definition.group, &version.name, &definition.names.kind, &definition.names.plural);
    let objects: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    while let Err(kube::Error::Api(status)) = objects.list(&ListParams::default().limit(1)).await {
        anyhow::ensure!(status.code == 404, "{}", status.message);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
