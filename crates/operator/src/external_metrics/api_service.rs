//! The APIService that leads readers of external metrics here. A cluster has one, and it may be somebody else's.

use k8s_openapi::ByteString;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::{APIService, APIServiceSpec, ServiceReference};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use super::{GROUP, Served, ServiceRef, VERSION};
use crate::context::FIELD_MANAGER;
use crate::deadline::within;

/// The name of the APIService: version and group.
pub const API_SERVICE: &str = "v1beta1.external.metrics.k8s.io";
/// The label of what the chart has made.
const CHART: (&str, &str) = ("app.kubernetes.io/name", "llmscaleoperator");

/// Looks who has the API, takes it when nobody does, and keeps it as it should be when it is ours.
///
/// With `held` it was ours before. When it is gone then, somebody has taken it away, as an uninstall does before it ends this process: made
/// anew it would be left behind, and lead nowhere.
pub(super) async fn keep(client: &Client, service: &ServiceRef, authority: Option<&str>, held: bool) -> Served {
    let (api, name): (Api<APIService>, _) = (Api::all(client.clone()), API_SERVICE);
    let found = match within(api.get_opt(name)).await {
        Ok(found) => found,
        Err(error) => return Served::Failed(format!("APIService {name} could not be read: {error}")),
    };
    if let Some(found) = &found {
        if let Some(owner) = foreign(found, service) {
            return Served::Foreign(owner);
        }
        if is_as_it_should_be(found, service, authority) {
            return ours(found);
        }
    } else if held {
        return Served::Failed(format!(
            "APIService {name} has been deleted, as an uninstall does, and is not made again; to have it back restart the operator, or \
             upgrade the chart's release"
        ));
    }
    let uid = found.as_ref().and_then(|found| found.metadata.uid.as_deref());
    // Not by force: what another field manager has set stays as it is.
    let applied = Patch::Apply(wanted(service, authority, uid));
    match within(api.patch(name, &PatchParams::apply(FIELD_MANAGER), &applied)).await {
        Ok(applied) => ours(&applied),
        Err(error) => Served::Failed(format!("APIService {name} could not be written: {error}")),
    }
}

fn ours(found: &APIService) -> Served {
    reached(found).map_or_else(Served::Unreached, |()| Served::Ours)
}

/// What an APIService says of who serves the cluster's external metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiServiceState {
    /// There is none, so nobody does.
    Missing,
    /// The operator, and the API server reaches it.
    Available,
    /// The operator, and the API server does not reach it, in its own words.
    Unavailable(String),
    /// Somebody else: where it leads to, in words.
    Foreign(String),
}

/// What the [`API_SERVICE`] says. It is the operator's where the operator has written to it, or its chart has.
#[must_use]
pub fn state_of_api_service(found: Option<&APIService>) -> ApiServiceState {
    let Some(found) = found else { return ApiServiceState::Missing };
    let written = found.metadata.managed_fields.iter().flatten().any(|entry| entry.manager.as_deref() == Some(FIELD_MANAGER));
    let of_chart = found.metadata.labels.as_ref().and_then(|labels| labels.get(CHART.0)).is_some_and(|name| name == CHART.1);
    if !written && !of_chart {
        return ApiServiceState::Foreign(found.spec.as_ref().map_or_else(|| "leads nowhere".to_owned(), leads));
    }
    reached(found).map_or_else(ApiServiceState::Unavailable, |()| ApiServiceState::Available)
}

/// Whether the API server reaches what the APIService leads to, or why not, in its own words.
fn reached(found: &APIService) -> Result<(), String> {
    let available = found.status.iter().flat_map(|status| status.conditions.iter().flatten()).find(|one| one.type_ == "Available");
    match available {
        Some(one) if one.status == "True" => Ok(()),
        Some(one) => Err(one.message.clone().or_else(|| one.reason.clone()).unwrap_or_default()),
        None => Err("the API server has not looked yet".to_owned()),
    }
}

/// Where it leads to, in words.
fn leads(spec: &APIServiceSpec) -> String {
    match &spec.service {
        Some(service) => {
            let part = |part: &Option<String>| part.clone().unwrap_or_default();
            format!("leads to Service {} in namespace {}", part(&service.name), part(&service.namespace))
        }
        None => "is served by the API server itself".to_owned(),
    }
}

/// Whom the APIService leads to, in words, unless it is us.
fn foreign(found: &APIService, ours: &ServiceRef) -> Option<String> {
    let spec = found.spec.as_ref()?;
    let is_ours =
        |theirs: &ServiceReference| theirs.namespace.as_deref() == Some(&ours.namespace) && theirs.name.as_deref() == Some(&ours.name);
    if spec.service.as_ref().is_some_and(is_ours) {
        return None;
    }
    let whose = leads(spec);
    let us = format!("Service {} in namespace {}", ours.name, ours.namespace);
    Some(format!(
        "APIService {API_SERVICE} {whose}, and not to {us}: a cluster has one external metrics adapter. It is left alone; remove the other adapter \
         with its APIService, or use actuation Direct"
    ))
}

fn is_as_it_should_be(found: &APIService, service: &ServiceRef, authority: Option<&str>) -> bool {
    let Some(spec) = &found.spec else { return false };
    let port = spec.service.as_ref().and_then(|service| service.port).unwrap_or(443);
    let trusts = authority.is_none_or(|pem| spec.ca_bundle.as_ref().is_some_and(|bundle| bundle.0 == pem.as_bytes()));
    port == i32::from(service.port) && trusts
}

/// What is applied. With a `uid` it is to that one alone: where it has just been deleted nothing is made.
fn wanted(service: &ServiceRef, authority: Option<&str>, uid: Option<&str>) -> serde_json::Value {
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
    let mut metadata = json!({"name": API_SERVICE});
    if let Some(uid) = uid {
        metadata["uid"] = json!(uid);
    }
    json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": metadata, "spec": spec})
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::{Value, json};

    use super::*;
    use crate::fake_api;

    fn state(managers: &[&str], labels: Value, status: Value) -> ApiServiceState {
        let fields: Vec<Value> = managers.iter().map(|manager| json!({"manager": manager, "operation": "Apply"})).collect();
        let service = json!({"namespace": "keda", "name": "keda-metrics-apiserver"});
        let found = json!({
            "metadata": {"name": API_SERVICE, "labels": labels, "managedFields": fields},
            "spec": {"groupPriorityMinimum": 100, "versionPriority": 100, "service": service},
            "status": {"conditions": [status]},
        });
        state_of_api_service(Some(&serde_json::from_value(found).unwrap()))
    }

    /// A cluster whose APIService tests put in place, and that takes what is applied.
    fn cluster() -> (Arc<Mutex<Option<Value>>>, Client) {
        let stored: Arc<Mutex<Option<Value>>> = Arc::default();
        let kept = stored.clone();
        let client = fake_api::client(move |asked| {
            let mut stored = kept.lock().unwrap();
            if asked.method == "PATCH" {
                let uid = &asked.body["metadata"]["uid"];
                let same = stored.as_ref().map_or(uid.is_null(), |stored| *uid == stored["metadata"]["uid"]);
                assert!(same, "applied to another: {}", asked.body);
                let status = stored.as_ref().map_or_else(|| json!({}), |stored| stored["status"].clone());
                let mut applied = asked.body;
                (applied["metadata"]["uid"], applied["status"]) = (json!("u"), status);
                *stored = Some(applied);
            }
            stored.clone().map_or_else(|| fake_api::refusal(404, "NotFound", "not found"), |stored| Some((200, stored)))
        });
        (stored, client)
    }

    #[tokio::test]
    async fn it_is_served_while_the_api_server_reaches_it() {
        let (stored, client) = cluster();
        let service = ServiceRef { namespace: "scaling".into(), name: "llmscaler".into(), port: 443 };
        let look = async |held| keep(&client, &service, Some("pem"), held).await;
        let says = |status: &str, message: &str| {
            let condition = json!({"type": "Available", "status": status, "message": message});
            stored.lock().unwrap().as_mut().unwrap()["status"] = json!({"conditions": [condition]});
        };
        assert_eq!(look(false).await, Served::Unreached("the API server has not looked yet".to_owned()));
        says("True", "");
        assert_eq!(look(true).await, Served::Ours);
        says("False", "dial tcp 10.0.0.7:6443: i/o timeout");
        let unreached = look(true).await;
        assert_eq!(unreached, Served::Unreached("dial tcp 10.0.0.7:6443: i/o timeout".to_owned()));
        assert!(unreached.is_ours(), "the HPAs stay");
        says("True", "");
        assert_eq!(keep(&client, &service, Some("renewed"), true).await, Served::Ours);
    }

    #[tokio::test]
    async fn what_an_uninstall_has_taken_away_is_not_made_again() {
        let (stored, client) = cluster();
        let service = ServiceRef { namespace: "scaling".into(), name: "llmscaler".into(), port: 443 };
        assert!(keep(&client, &service, None, false).await.is_ours(), "nobody has it, so it is taken");
        stored.lock().unwrap().take();
        let Served::Failed(why) = keep(&client, &service, None, true).await else { panic!("made again") };
        assert!(why.contains("has been deleted") && stored.lock().unwrap().is_none(), "{why}");
        // Installed anew while the operator runs.
        *stored.lock().unwrap() = Some(wanted(&service, None, Some("new")));
        assert!(keep(&client, &service, Some("pem"), true).await.is_ours());
    }

    #[test]
    fn whose_the_api_is_and_whether_it_can_be_reached() {
        let (up, down) =
            (json!({"type": "Available", "status": "True"}), json!({"type": "Available", "status": "False", "message": "no endpoints"}));
        let keda = ApiServiceState::Foreign("leads to Service keda-metrics-apiserver in namespace keda".to_owned());
        assert_eq!(state_of_api_service(None), ApiServiceState::Missing);
        assert_eq!(state(&["helm", "kube-apiserver"], json!({}), up.clone()), keda);
        assert_eq!(state(&["helm", "llmscaler"], json!({}), up.clone()), ApiServiceState::Available);
        assert_eq!(state(&["llmscaler"], json!({}), down.clone()), ApiServiceState::Unavailable("no endpoints".to_owned()));
        let chart = json!({CHART.0: CHART.1});
        assert_eq!(state(&["helm"], chart, down), ApiServiceState::Unavailable("no endpoints".to_owned()));
    }
}
