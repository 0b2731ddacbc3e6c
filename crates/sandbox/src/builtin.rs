//! The built-in kinds: what is left out is filled in as far as it shows, what their types do not know is dropped.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Node, Pod, Secret, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::resources::Resource;
use crate::{object, workload};

/// Brings an object into the form in which it is stored. Answers the paths of what was dropped, or why it is no such object.
pub(crate) fn complete(resource: &Resource, value: &mut Value) -> Result<Vec<String>, String> {
    object::map(value).insert("apiVersion".into(), resource.api_version().into());
    object::map(value).insert("kind".into(), resource.kind.clone().into());
    let typed = match resource.kind.as_str() {
        "Deployment" => typed::<Deployment>(value),
        "ReplicaSet" => typed::<ReplicaSet>(value),
        "StatefulSet" => typed::<StatefulSet>(value),
        "HorizontalPodAutoscaler" => typed::<HorizontalPodAutoscaler>(value),
        "Lease" => typed::<Lease>(value),
        "Pod" => typed::<Pod>(value),
        "Service" => typed::<Service>(value),
        "Secret" => secret(value),
        "ConfigMap" => typed::<ConfigMap>(value),
        "ServiceAccount" => typed::<ServiceAccount>(value),
        "Namespace" => typed::<Namespace>(value),
        "Node" => typed::<Node>(value),
        "Event" => typed::<Event>(value),
        "EndpointSlice" => typed::<EndpointSlice>(value),
        _ => Ok(value.clone()),
    }?;
    let mut typed = typed;
    // The type cannot tell a selector that is left out from an empty one.
    if workload::is_one(resource) && value.pointer("/spec/selector").is_none_or(Value::is_null) {
        object::child(&mut typed, "spec").remove("selector");
    }
    let mut unknown = vec![];
    dropped(value, &typed, "", &mut unknown);
    *value = typed;
    defaults(&resource.kind, value);
    Ok(unknown)
}

/// The value by way of the type that it should have.
fn typed<K: Serialize + DeserializeOwned>(value: &Value) -> Result<Value, String> {
    let typed: K = serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
    serde_json::to_value(typed).map_err(|error| error.to_string())
}

/// `stringData` is only for writing.
fn secret(value: &mut Value) -> Result<Value, String> {
    let secret: Secret = serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
    let plain = secret.string_data.clone().unwrap_or_default();
    let mut secret = Secret { string_data: None, ..secret };
    if !plain.is_empty() {
        let data = secret.data.get_or_insert_default();
        data.extend(plain.into_iter().map(|(key, text)| (key, k8s_openapi::ByteString(text.into_bytes()))));
    }
    object::map(value).remove("stringData");
    secret.type_.get_or_insert_with(|| "Opaque".to_owned());
    serde_json::to_value(secret).map_err(|error| error.to_string())
}

/// The paths of members that are no longer there.
fn dropped(before: &Value, after: &Value, path: &str, unknown: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (name, member) in before {
                let at = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                match after.get(name) {
                    Some(kept) => dropped(member, kept, &at, unknown),
                    None if !member.is_null() => unknown.push(at),
                    None => {}
                }
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                dropped(before, after, &format!("{path}[{index}]"), unknown);
            }
        }
        _ => {}
    }
}

fn defaults(kind: &str, value: &mut Value) {
    match kind {
        "Deployment" => {
            let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
            let plain = value["spec"]["strategy"]["type"] == "Recreate" || value["spec"]["strategy"]["rollingUpdate"].is_object();
            let spec = object::child(value, "spec");
            if !plain {
                spec.insert("strategy".into(), rolling);
            }
            fill(spec, &[("replicas", json!(1)), ("revisionHistoryLimit", json!(10)), ("progressDeadlineSeconds", json!(600))]);
            template(value);
        }
        "ReplicaSet" | "StatefulSet" => {
            fill(object::child(value, "spec"), &[("replicas", json!(1))]);
            template(value);
        }
        "Pod" => pod(value),
        "Service" => {
            fill(object::child(value, "spec"), &[("type", json!("ClusterIP")), ("sessionAffinity", json!("None"))]);
        }
        _ => {}
    }
}

fn template(value: &mut Value) {
    if let Some(template) = value.pointer_mut("/spec/template") {
        pod(template);
    }
}

fn pod(value: &mut Value) {
    let spec = object::child(value, "spec");
    let policies =
        [("restartPolicy", json!("Always")), ("dnsPolicy", json!("ClusterFirst")), ("schedulerName", json!("default-scheduler"))];
    fill(spec, &policies);
    fill(spec, &[("terminationGracePeriodSeconds", json!(30)), ("securityContext", json!({}))]);
    for container in spec.get_mut("containers").and_then(Value::as_array_mut).into_iter().flatten() {
        for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            fill(object::map(port), &[("protocol", json!("TCP"))]);
        }
        let defaults = [
            ("imagePullPolicy", json!("IfNotPresent")),
            ("resources", json!({})),
            ("terminationMessagePath", json!("/dev/termination-log")),
            ("terminationMessagePolicy", json!("File")),
        ];
        fill(object::map(container), &defaults);
    }
}

fn fill(members: &mut serde_json::Map<String, Value>, defaults: &[(&str, Value)]) {
    for (name, default) in defaults {
        members.entry(*name).or_insert_with(|| default.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(kind: &str, value: Value) -> Result<(Value, Vec<String>), String> {
        let mut value = value;
        let unknown = complete(Resource::of_kind(kind).unwrap(), &mut value)?;
        Ok((value, unknown))
    }

    #[test]
    fn a_deployment_gets_its_defaults_and_loses_the_unknown() {
        let spec = json!({"selector": {}, "template": {"spec": {"containers": [{"name": "a", "imag": "b"}]}}, "replica": 2});
        let (value, unknown) = completed("Deployment", json!({"metadata": {"name": "a"}, "spec": spec})).unwrap();
        assert_eq!(unknown, ["spec.replica", "spec.template.spec.containers[0].imag"]);
        assert_eq!((&value["spec"]["replicas"], &value["spec"]["strategy"]["rollingUpdate"]["maxSurge"]), (&json!(1), &json!("25%")));
        assert_eq!(value["spec"]["template"]["spec"]["terminationGracePeriodSeconds"], 30);
        assert_eq!(completed("Deployment", value.clone()).unwrap().0, value, "a stored object stays as it is");
    }

    #[test]
    fn what_has_a_wrong_type_is_refused() {
        let why = completed("Lease", json!({"spec": {"leaseDurationSeconds": "15"}})).unwrap_err();
        assert!(why.contains("invalid type"), "{why}");
    }

    #[test]
    fn secrets_are_stored_encoded() {
        let (value, unknown) = completed("Secret", json!({"stringData": {"token": "abc"}})).unwrap();
        assert_eq!((&value["data"]["token"], unknown.is_empty()), (&json!("YWJj"), true));
    }
}
