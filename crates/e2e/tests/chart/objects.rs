//! Rendered objects.

use serde_json::Value;

/// The objects of a YAML stream, in an order that does not depend on who rendered them.
pub fn objects(yaml: &str) -> Vec<Value> {
    let documents: Vec<Option<Value>> = serde_saphyr::from_multiple(yaml).unwrap_or_else(|error| panic!("{error}:\n{yaml}"));
    let mut objects: Vec<Value> = documents.into_iter().flatten().filter(|object| !object.is_null()).collect();
    objects.sort_by_key(identity);
    objects
}

/// Kind, namespace and name.
pub fn identity(object: &Value) -> String {
    let part = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let metadata = &object["metadata"];
    [part(&object["kind"]), part(&metadata["namespace"]), part(&metadata["name"])].join(" ")
}

/// Those of a kind.
pub fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

/// The only one of a kind.
pub fn the<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    let found = of_kind(objects, kind);
    assert_eq!(found.len(), 1, "{kind}");
    found[0]
}

/// The container of the operator's Deployment.
pub fn container(objects: &[Value]) -> &Value {
    &the(objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]
}

/// The operator's flags.
pub fn arguments(objects: &[Value]) -> Vec<String> {
    serde_json::from_value(container(objects)["args"].clone()).unwrap()
}
