//! The fields of an object as server-side apply names them, and the keys of its lists.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// A path to a field, in the steps of `FieldsV1`: `f:spec`, `k:{"type":"Ready"}`, `v:"finalizer"`.
pub(crate) type Path = Vec<String>;

/// Fields that somebody owns.
pub(crate) type Set = BTreeSet<Path>;

/// What nobody owns: the server's own.
const METADATA: &[&str] = &[
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
    "generateName",
];

/// What tells the elements of a list.
pub(crate) enum ListKind {
    /// The list is one value.
    Atomic,
    /// Members that identify an element.
    Map(&'static [&'static str]),
    /// The elements themselves.
    Set,
}

/// By the name of the list. The names mean the same in every kind that is served here.
pub(crate) fn list_kind(name: &str) -> ListKind {
    match name {
        "containers" | "initContainers" | "env" | "volumes" | "imagePullSecrets" => ListKind::Map(&["name"]),
        "ports" => ListKind::Map(&["containerPort", "port", "protocol"]),
        "volumeMounts" => ListKind::Map(&["mountPath"]),
        "conditions" => ListKind::Map(&["type"]),
        "ownerReferences" => ListKind::Map(&["uid"]),
        "podIPs" | "hostIPs" => ListKind::Map(&["ip"]),
        "finalizers" => ListKind::Set,
        _ => ListKind::Atomic,
    }
}

/// Maps that are one value.
fn is_atomic_map(name: &str) -> bool {
    matches!(name, "selector" | "nodeSelector")
}

/// The identifying members that an element has.
pub(crate) fn key_of(element: &Value, keys: &[&str]) -> Option<Map<String, Value>> {
    let element = element.as_object()?;
    let mut key: Map<String, Value> =
        keys.iter().filter_map(|key| Some(((*key).to_owned(), element.get(*key).filter(|value| !value.is_null())?.clone()))).collect();
    // A port is one of TCP unless it says otherwise.
    if keys.contains(&"protocol") && (key.contains_key("containerPort") || key.contains_key("port")) {
        key.entry("protocol").or_insert_with(|| "TCP".into());
    }
    (!key.is_empty()).then_some(key)
}

/// Every field of the object with its value. An element of a list that has a key is a field by itself, of the value null.
pub(crate) fn of(object: &Value) -> BTreeMap<Path, Value> {
    let mut all = BTreeMap::new();
    for (name, member) in object.as_object().into_iter().flatten() {
        match (name.as_str(), member) {
            ("apiVersion" | "kind", _) => {}
            ("metadata", Value::Object(metadata)) => {
                for (name, member) in metadata.iter().filter(|(name, _)| !METADATA.contains(&name.as_str())) {
                    walk(name, member, vec!["f:metadata".to_owned(), format!("f:{name}")], &mut all);
                }
            }
            _ => walk(name, member, vec![format!("f:{name}")], &mut all),
        }
    }
    all
}

fn walk(name: &str, value: &Value, path: Path, all: &mut BTreeMap<Path, Value>) {
    let step = |step: String| {
        let mut path = path.clone();
        path.push(step);
        path
    };
    match value {
        Value::Object(members) if !members.is_empty() && !is_atomic_map(name) => {
            for (name, member) in members {
                walk(name, member, step(format!("f:{name}")), all);
            }
        }
        Value::Array(elements) if !elements.is_empty() => match list_kind(name) {
            ListKind::Map(keys) if elements.iter().all(|element| key_of(element, keys).is_some()) => {
                for element in elements {
                    let key = Value::Object(key_of(element, keys).unwrap_or_default());
                    let path = step(format!("k:{key}"));
                    all.insert(path.clone(), Value::Null);
                    walk("", element, path, all);
                }
            }
            ListKind::Set => all.extend(elements.iter().map(|element| (step(format!("v:{element}")), Value::Null))),
            _ => drop(all.insert(path, value.clone())),
        },
        _ => drop(all.insert(path, value.clone())),
    }
}

/// As the path is shown to people: `.spec.template.spec.containers[name="server"].image`.
pub(crate) fn shown(path: &Path) -> String {
    let step = |step: &String| match step.split_once(':') {
        Some(("k", key)) => {
            let key: Map<String, Value> = serde_json::from_str(key).unwrap_or_default();
            format!("[{}]", key.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(","))
        }
        Some(("v", value)) => format!("[={value}]"),
        Some((_, name)) => format!(".{name}"),
        None => step.clone(),
    };
    path.iter().map(step).collect()
}

/// As `FieldsV1`.
pub(crate) fn to_tree(set: &Set) -> Value {
    let mut tree = Map::new();
    for path in set {
        let mut place = &mut tree;
        for (index, step) in path.iter().enumerate() {
            let node = place.entry(step.clone()).or_insert_with(|| Value::Object(Map::new()));
            let Value::Object(members) = node else { break };
            // An element of a list is a field though it has fields.
            if index + 1 == path.len() && step.starts_with("k:") {
                members.entry(".").or_insert_with(|| Value::Object(Map::new()));
            }
            place = members;
        }
    }
    Value::Object(tree)
}

/// From `FieldsV1`.
pub(crate) fn from_tree(tree: &Value) -> Set {
    fn collect(tree: &Value, path: &Path, set: &mut Set) {
        let members = tree.as_object().into_iter().flatten();
        let mut leaf = true;
        for (step, below) in members {
            if step == "." {
                set.insert(path.clone());
            } else {
                let mut path = path.clone();
                path.push(step.clone());
                collect(below, &path, set);
            }
            leaf = false;
        }
        if leaf && !path.is_empty() {
            set.insert(path.clone());
        }
    }
    let mut set = Set::new();
    collect(tree, &vec![], &mut set);
    set
}

/// Takes a field out of an object.
pub(crate) fn remove(object: &mut Value, path: &[String]) {
    let Some((step, rest)) = path.split_first() else { return };
    match (step.split_once(':'), object) {
        (Some(("f", name)), Value::Object(members)) => {
            if rest.is_empty() {
                members.remove(name);
            } else if let Some(member) = members.get_mut(name) {
                remove(member, rest);
                // What was made to hold the field goes with it.
                if member.as_object().is_some_and(Map::is_empty) || member.as_array().is_some_and(Vec::is_empty) {
                    members.remove(name);
                }
            }
        }
        (Some(("k", key)), Value::Array(elements)) => {
            let key: Map<String, Value> = serde_json::from_str(key).unwrap_or_default();
            let found = elements.iter().position(|element| key.iter().all(|(name, value)| element.get(name) == Some(value)));
            match found {
                Some(index) if rest.is_empty() => drop(elements.remove(index)),
                // What tells an element goes with it only.
                Some(_) if matches!(rest, [field] if field.strip_prefix("f:").is_some_and(|name| key.contains_key(name))) => {}
                Some(index) => remove(&mut elements[index], rest),
                None => {}
            }
        }
        (Some(("v", value)), Value::Array(elements)) => {
            let gone: Value = serde_json::from_str(value).unwrap_or_default();
            elements.retain(|element| *element != gone);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object() -> Value {
        json!({"apiVersion": "apps/v1", "metadata": {"name": "a", "labels": {"app": "x"}, "finalizers": ["f"]},
            "spec": {"selector": {"matchLabels": {"app": "x"}}, "args": ["a", "b"], "containers": [{"name": "server", "image": "i"}]}})
    }

    #[test]
    fn a_set_survives_its_tree() {
        let set: Set = of(&object()).into_keys().collect();
        let tree = to_tree(&set);
        let expected = json!({
            "f:metadata": {"f:labels": {"f:app": {}}, "f:finalizers": {r#"v:"f""#: {}}},
            "f:spec": {"f:selector": {}, "f:args": {}, "f:containers": {r#"k:{"name":"server"}"#: {".": {}, "f:name": {}, "f:image": {}}}},
        });
        assert_eq!(tree, expected);
        assert_eq!(from_tree(&tree), set);
    }

    #[test]
    fn a_port_is_the_same_with_and_without_its_default() {
        let key = |port: Value| key_of(&port, &["containerPort", "port", "protocol"]);
        assert_eq!(key(json!({"containerPort": 80})), key(json!({"containerPort": 80, "protocol": "TCP"})));
        assert_ne!(key(json!({"containerPort": 80})), key(json!({"containerPort": 80, "protocol": "UDP"})));
    }

    #[test]
    fn paths_are_shown_as_the_server_does() {
        let shown: Vec<String> = of(&object()).keys().map(shown).collect();
        assert!(shown.contains(&r#".spec.containers[name="server"].image"#.to_owned()), "{shown:?}");
        assert!(shown.contains(&r#".metadata.finalizers[="f"]"#.to_owned()) && shown.contains(&".spec.selector".to_owned()));
    }

    #[test]
    fn every_field_can_be_removed_and_an_element_with_its_fields() {
        let mut object = object();
        let paths: Vec<Path> = of(&object).into_keys().collect();
        paths.iter().for_each(|path| remove(&mut object, path));
        assert_eq!(object, json!({"apiVersion": "apps/v1", "metadata": {"name": "a"}}));
    }
}
