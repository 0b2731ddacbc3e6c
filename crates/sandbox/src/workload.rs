//! What a Deployment, ReplicaSet or StatefulSet has to fulfil beyond the types of its fields.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt as _};
use serde_json::{Value, json};

use crate::object;
use crate::refusal::{FieldError, Refusal};
use crate::resources::Resource;

/// Whether the kind is judged here.
pub(crate) fn is_one(resource: &Resource) -> bool {
    resource.group == "apps" && matches!(resource.kind.as_str(), "Deployment" | "ReplicaSet" | "StatefulSet")
}

/// Whether the workload may be stored, in place of `old` if there is one.
pub(crate) fn judge(resource: &Resource, workload: &Value, old: Option<&Value>) -> Result<(), Refusal> {
    let spec = &workload["spec"];
    let mut errors = vec![];
    for field in ["replicas", "minReadySeconds", "revisionHistoryLimit"] {
        if spec[field].as_i64().is_some_and(|number| number < 0) {
            errors.push(FieldError::invalid(format!("spec.{field}"), &spec[field], "must be greater than or equal to 0"));
        }
    }
    check_selector(resource, spec, &mut errors);
    check_containers(&spec["template"]["spec"], &mut errors);
    let policy = &spec["template"]["spec"]["restartPolicy"];
    if policy.as_str().is_some_and(|policy| policy != "Always") {
        errors.push(FieldError::unsupported("spec.template.spec.restartPolicy", policy, &json!("Always")));
    }
    if old.is_some_and(|old| old["spec"]["selector"] != spec["selector"]) {
        errors.push(FieldError::invalid("spec.selector", &spec["selector"], "field is immutable"));
    }
    if errors.is_empty() { Ok(()) } else { Err(Refusal::invalid(resource, object::name(workload), &errors)) }
}

/// The selector has to be there, to pick something, and to pick the pods of the template.
fn check_selector(resource: &Resource, spec: &Value, errors: &mut Vec<FieldError>) {
    let selector = &spec["selector"];
    if selector.is_null() {
        errors.push(FieldError::required("spec.selector"));
    } else if object::list(selector, "/matchExpressions").is_empty() && selector["matchLabels"].as_object().is_none_or(|all| all.is_empty())
    {
        let kind = if resource.kind == "StatefulSet" { "statefulset" } else { "deployment" };
        errors.push(FieldError::invalid("spec.selector", selector, format!("empty selector is invalid for {kind}")));
        return;
    }
    let labels = &spec["template"]["metadata"]["labels"];
    let of_pods: BTreeMap<String, String> = serde_json::from_value(labels.clone()).unwrap_or_default();
    let picks = serde_json::from_value::<LabelSelector>(selector.clone()).ok().and_then(|selector| Selector::try_from(selector).ok());
    if picks.is_none_or(|picks| !picks.matches(&of_pods)) {
        let why = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid("spec.template.metadata.labels", labels, why));
    }
}

/// A pod has a container at least, and each a name of its own and an image.
fn check_containers(pod: &Value, errors: &mut Vec<FieldError>) {
    let containers = object::list(pod, "/containers");
    if containers.is_empty() {
        errors.push(FieldError::required("spec.template.spec.containers"));
    }
    for (index, container) in containers.iter().enumerate() {
        let (name, at) = (object::text(container, "/name"), format!("spec.template.spec.containers[{index}]"));
        if name.is_empty() {
            errors.push(FieldError::required(format!("{at}.name")));
        } else if containers[..index].iter().any(|other| object::text(other, "/name") == name) {
            errors.push(FieldError::duplicate(format!("{at}.name"), &container["name"]));
        }
        if object::text(container, "/image").is_empty() {
            errors.push(FieldError::required(format!("{at}.image")));
        }
    }
}
