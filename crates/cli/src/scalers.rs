//! The scalers of a cluster, also those that this version cannot read.

use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Resource, ResourceExt};
use llmscaler_api::LLMScaler;
use llmscaler_operator::diagnose::within;

use crate::cluster::Cluster;
use crate::decide::suggestion;
use crate::failure::Failure;

/// A scaler as it is stored.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The scaler, or why it cannot be read.
    pub scaler: Result<LLMScaler, String>,
}

impl From<DynamicObject> for Stored {
    fn from(object: DynamicObject) -> Self {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let value = serde_json::to_value(object);
        Self { namespace, name, scaler: value.and_then(serde_json::from_value).map_err(|error| error.to_string()) }
    }
}

/// Scalers as objects of which nothing is taken for granted: one that cannot be read must not hide the others.
pub fn api(cluster: &Cluster) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<LLMScaler>(&());
    match &cluster.namespace {
        Some(namespace) => Api::namespaced_with(cluster.client.clone(), namespace, &resource),
        None => Api::all_with(cluster.client.clone(), &resource),
    }
}

/// Those of the namespace, or of all, by namespace and name.
pub async fn all(cluster: &Cluster) -> Result<Vec<Stored>, Failure> {
    let list = match within(api(cluster).list(&ListParams::default())).await {
        Err(error) if error.is_absent() => return Err(not_installed()),
        answer => answer?,
    };
    let mut all: Vec<Stored> = list.items.into_iter().map(Stored::from).collect();
    all.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    Ok(all)
}

/// The one of this name.
pub async fn one(cluster: &Cluster, name: &str) -> Result<Stored, Failure> {
    match within(api(cluster).get(name)).await {
        Ok(object) => Ok(object.into()),
        Err(error) if error.is_not_found() => Err(Failure::Cluster(missing(cluster, name, &all(cluster).await?))),
        Err(error) if error.is_absent() => Err(not_installed()),
        Err(error) => Err(error.into()),
    }
}

fn not_installed() -> Failure {
    let (version, kind) = (LLMScaler::api_version(&()), LLMScaler::kind(&()));
    Failure::Cluster(format!("the API server serves no {kind} in {version}; install it: llmscaler crd | kubectl apply -f -"))
}

fn missing(cluster: &Cluster, name: &str, others: &[Stored]) -> String {
    let namespace = cluster.namespace.as_deref().unwrap_or_default();
    let names: Vec<&str> = others.iter().map(|other| other.name.as_str()).collect();
    if names.is_empty() {
        return format!("there is no LLMScaler in namespace {namespace}; name another one with -n, or look everywhere with -A");
    }
    let meant = suggestion(name, &names);
    format!("there is no LLMScaler {name} in namespace {namespace}{meant}; there is {}", names.join(", "))
}
