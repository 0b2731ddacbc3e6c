//! What the API says of itself.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::api::Answer;
use crate::resources::{RESOURCES, Resource};

/// The release that the stand-in speaks like.
const VERSION: (&str, &str, &str) = ("1", "35", "v1.35.0+sandbox");

/// What is under a path that is no resource's.
pub(crate) fn answer(path: &str) -> Option<Answer> {
    let steps: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let object = match steps.as_slice() {
        ["healthz" | "livez" | "readyz"] => return Some(Answer::Text(200, "ok")),
        ["version"] => {
            let (major, minor, version) = VERSION;
            json!({"major": major, "minor": minor, "gitVersion": version, "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
                "goVersion": "", "compiler": "", "platform": "linux/amd64"})
        }
        ["api"] => json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}),
        ["apis"] => {
            let groups: BTreeSet<&str> = groups().collect();
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups.into_iter().map(group).collect::<Vec<_>>()})
        }
        ["apis", name] if groups().any(|group| group == *name) => group(name),
        ["api", version] => resources("", version)?,
        ["apis", group, version] => resources(group, version)?,
        ["openapi", "v3"] => json!({"paths": group_versions().into_iter().map(openapi_link).collect::<serde_json::Map<_, _>>()}),
        ["openapi", "v3", rest @ ..] => openapi(&rest.join("/"))?,
        _ => return None,
    };
    Some(Answer::Object(200, object))
}

fn groups() -> impl Iterator<Item = &'static str> {
    RESOURCES.iter().map(|resource| resource.group.as_str()).filter(|group| !group.is_empty())
}

fn group(name: &str) -> Value {
    let versions: BTreeSet<&str> = RESOURCES.iter().filter(|one| one.group == name).map(|one| one.version.as_str()).collect();
    let version = |version: &str| json!({"groupVersion": format!("{name}/{version}"), "version": version});
    let versions: Vec<Value> = versions.into_iter().map(version).collect();
    json!({"kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": versions, "preferredVersion": versions[0]})
}

fn resources(group: &str, version: &str) -> Option<Value> {
    let served: Vec<&Resource> = RESOURCES.iter().filter(|one| one.group == group && one.version == version).collect();
    let group_version = served.first()?.api_version();
    let list: Vec<Value> = served.into_iter().flat_map(entries).collect();
    Some(json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": list}))
}

fn entries(resource: &Resource) -> Vec<Value> {
    let all = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    let verbs: &[&str] = if resource.review { &["create"] } else { &all };
    let categories: &[&str] = if matches!(resource.plural.as_str(), "pods" | "services" | "deployments" | "replicasets" | "statefulsets") {
        &["all"]
    } else {
        &[]
    };
    let mut entries = vec![json!({"name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
        "kind": resource.kind, "verbs": verbs, "shortNames": resource.short_names, "categories": categories})];
    let mut below = |name: &str, kind: &str, more: Value| {
        let mut entry = json!({"name": format!("{}/{name}", resource.plural), "singularName": "", "namespaced": resource.namespaced, "kind": kind,
            "verbs": ["get", "patch", "update"]});
        if let (Value::Object(entry), Value::Object(more)) = (&mut entry, more) {
            entry.extend(more);
        }
        entries.push(entry);
    };
    if resource.status {
        below("status", &resource.kind, json!({}));
    }
    if resource.scale {
        below("scale", "Scale", json!({"group": "autoscaling", "version": "v1"}));
    }
    entries
}

fn group_versions() -> BTreeSet<String> {
    RESOURCES.iter().map(path_of).collect()
}

fn path_of(resource: &Resource) -> String {
    let root = if resource.group.is_empty() { "api" } else { "apis" };
    format!("{root}/{}", resource.api_version())
}

fn openapi_link(path: String) -> (String, Value) {
    let link = json!({"serverRelativeURL": format!("/openapi/v3/{path}")});
    (path, link)
}

/// As little as kubectl needs: that the server checks fields itself, and which kinds there are.
fn openapi(path: &str) -> Option<Value> {
    let served: Vec<&Resource> = RESOURCES.iter().filter(|one| path_of(one) == path).collect();
    served.first()?;
    let gvk = |resource: &Resource| json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
    let parameter = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string"}});
    let paths: serde_json::Map<String, Value> = served
        .iter()
        .map(|resource| {
            let within = if resource.namespaced { "namespaces/{namespace}/" } else { "" };
            let patch = json!({"x-kubernetes-action": "patch", "x-kubernetes-group-version-kind": gvk(resource),
                "parameters": [parameter("dryRun"), parameter("fieldManager"), parameter("fieldValidation"), parameter("force")]});
            (format!("/{path}/{within}{}/{{name}}", resource.plural), json!({"patch": patch}))
        })
        .collect();
    let schemas: serde_json::Map<String, Value> = served
        .iter()
        .map(|resource| {
            let schema =
                json!({"type": "object", "x-kubernetes-group-version-kind": [gvk(resource)], "x-kubernetes-preserve-unknown-fields": true});
            (format!("{}.{}.{}", resource.group, resource.version, resource.kind), schema)
        })
        .collect();
    let info = json!({"title": "sandbox", "version": VERSION.2});
    Some(json!({"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}))
}
