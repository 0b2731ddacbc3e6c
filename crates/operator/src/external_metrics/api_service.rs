//! The APIService that leads readers of external metrics here. A cluster has one, and it may be somebody else's.

use k8s_openapi::ByteString;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use super::{GROUP, Served, ServiceRef, VERSION};
use crate::context::FIELD_MANAGER;
use crate::deadline::within;

/// Looks who has the API, takes it when nobody does, and keeps it as it should be when it is ours.
pub(super) async fn keep(client: &Client, service: &ServiceRef, authority: Option<&str>) -> Served {
    let (api, name): (Api<APIService>, _) = (Api::all(client.clone()), name());
    let found = match within(api.get_opt(&name)).await {
        Ok(found) => found,
        Err(error) => return Served::Failed(format!("APIService {name} could not be read: {error}")),
    };
    if let Some(found) = &found {
        if let Some(owner) = foreign(found, service) {
            return Served::Foreign(owner);
        }
        if is_as_it_should_be(found, service, authority) {
            return Served::Ours;
        }
    }
    // Not by force: what another field manager has set stays as it is.
    let applied = Patch::Apply(wanted(&name, service, authority));
    match within(api.patch(&name, &PatchParams::apply(FIELD_MANAGER), &applied)).await {
        Ok(_) => Served::Ours,
        Err(error) => Served::Failed(format!("APIService {name} could not be written: {error}")),
    }
}

fn name() -> String {
    format!("{VERSION}.{GROUP}")
}

/// Whom the APIService leads to, in words, unless it is us.
fn foreign(found: &APIService, ours: &ServiceRef) -> Option<String> {
    let spec = found.spec.as_ref()?;
    let whose = match &spec.service {
        Some(theirs) if theirs.namespace.as_deref() == Some(&ours.namespace) && theirs.name.as_deref() == Some(&ours.name) => return None,
        Some(theirs) => {
            let part = |part: &Option<String>| part.clone().unwrap_or_default();
            format!("leads to Service {} in namespace {}", part(&theirs.name), part(&theirs.namespace))
        }
        None => "is served by the API server itself".to_owned(),
    };
    let us = format!("Service {} in namespace {}", ours.name, ours.namespace);
    Some(format!(
        "APIService {} {whose}, and not to {us}: a cluster has one external metrics adapter. It is left alone; remove the other adapter \
         with its APIService, or use actuation Direct",
        name()
    ))
}

fn is_as_it_should_be(found: &APIService, service: &ServiceRef, authority: Option<&str>) -> bool {
    let Some(spec) = &found.spec else { return false };
    let port = spec.service.as_ref().and_then(|service| service.port).unwrap_or(443);
    let trusts = authority.is_none_or(|pem| spec.ca_bundle.as_ref().is_some_and(|bundle| bundle.0 == pem.as_bytes()));
    port == i32::from(service.port) && trusts
}

fn wanted(name: &str, service: &ServiceRef, authority: Option<&str>) -> serde_json::Value {
    let mut spec = json!({
        "group": GROUP,
        "version": VERSION,
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "service": {"namespace": service.namespace, "name": service.name, "port": service.port},
    });
    if let Some(pem) = authority {
        spec["caBundle"] = json!(ByteString(pem.as_bytes().to_vec()));
    }
    json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": name}, "spec": spec})
}
