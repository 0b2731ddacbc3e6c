//! Which objects a list or a watch is about.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::{Expression, Selector as Labels, SelectorExt as _};
use serde_json::Value;

use crate::object;
use crate::refusal::Refusal;
use crate::request::{Ask, Request};

/// The namespace, name, labels and fields that objects are picked by.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    name: Option<String>,
    labels: Labels,
    /// Path in words of the API, value, and whether it has to be equal.
    fields: Vec<(String, String, bool)>,
}

impl Selector {
    /// As the request has it. A watch of one object is one by its name.
    pub(crate) fn of(ask: &Ask, request: &Request) -> Result<Self, Refusal> {
        let labels = match request.param("labelSelector") {
            Some(text) => labels(text).ok_or_else(|| Refusal::bad_request(format!("unable to parse requirement: {text:?}")))?,
            None => Labels::default(),
        };
        let fields = match request.param("fieldSelector") {
            Some(text) => {
                fields(text).ok_or_else(|| Refusal::bad_request(format!("invalid field selector {text:?}; can't understand it")))?
            }
            None => vec![],
        };
        if let Some((path, ..)) = fields.iter().find(|(path, ..)| !is_selectable(&ask.resource.kind, path)) {
            return Err(Refusal::bad_request(format!("field label not supported: {path}")));
        }
        Ok(Self { name: ask.name.clone(), labels, fields })
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        let labels = object["metadata"]["labels"].as_object();
        let labels: BTreeMap<String, String> =
            labels.into_iter().flatten().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
        self.name.as_deref().is_none_or(|name| object::name(object) == name)
            && self.labels.matches(&labels)
            && self.fields.iter().all(|(path, value, equal)| (field(object, path) == *value) == *equal)
    }
}

/// Whether objects of a kind can be picked by a field.
fn is_selectable(kind: &str, path: &str) -> bool {
    let of_kind: &[&str] = match kind {
        "Pod" => &["spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.phase", "status.podIP"],
        "Node" => &["spec.unschedulable"],
        "Namespace" => &["status.phase"],
        "ReplicaSet" => &["status.replicas"],
        "Secret" => &["type"],
        "Event" => return true,
        _ => &[],
    };
    matches!(path, "metadata.name" | "metadata.namespace") || of_kind.contains(&path)
}

/// The value of a field, as text; empty when it is absent.
fn field(object: &Value, path: &str) -> String {
    // Deprecated events call who reported them `source`.
    let path = if path == "source" { "source.component" } else { path };
    let found = path.split('.').try_fold(object, |object, step| object.get(step));
    match found {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

fn fields(text: &str) -> Option<Vec<(String, String, bool)>> {
    let one = |term: &str| {
        let (path, value, equal) = match term.split_once("!=") {
            Some((path, value)) => (path, value, false),
            None => term.split_once("==").or_else(|| term.split_once('=')).map(|(path, value)| (path, value, true))?,
        };
        Some((path.trim().to_owned(), value.trim().to_owned(), equal))
    };
    text.split(',').map(one).collect()
}

fn labels(text: &str) -> Option<Labels> {
    let mut terms = vec![String::new()];
    let mut depth = 0;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        match terms.last_mut() {
            Some(term) if c != ',' || depth > 0 => term.push(c),
            _ => terms.push(String::new()),
        }
    }
    let expressions: Option<Vec<Expression>> = terms.iter().map(|term| requirement(term.trim())).collect();
    Some(expressions?.into_iter().collect())
}

fn requirement(term: &str) -> Option<Expression> {
    let set = |values: &str| -> Option<BTreeSet<String>> {
        let inner = values.trim().strip_prefix('(')?.strip_suffix(')')?;
        Some(inner.split(',').map(|value| value.trim().to_owned()).collect())
    };
    let key = |text: &str| {
        let text = text.trim();
        (!text.is_empty() && !text.contains([' ', '(', ')', '!', '='])).then(|| text.to_owned())
    };
    if let Some((name, values)) = term.split_once(" notin ") {
        return Some(Expression::NotIn(key(name)?, set(values)?));
    }
    if let Some((name, values)) = term.split_once(" in ") {
        return Some(Expression::In(key(name)?, set(values)?));
    }
    if let Some((name, value)) = term.split_once("!=") {
        return Some(Expression::NotEqual(key(name)?, value.trim().to_owned()));
    }
    if let Some((name, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return Some(Expression::Equal(key(name)?, value.trim().to_owned()));
    }
    match term.strip_prefix('!') {
        Some(name) => Some(Expression::DoesNotExist(key(name)?)),
        None => Some(Expression::Exists(key(term)?)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_are_matched_as_kubectl_writes_them() {
        let object = json!({"metadata": {"labels": {"app": "vllm", "tier": "gpu"}}});
        for (text, expected) in [
            ("app=vllm", true),
            ("app==vllm,tier!=cpu", true),
            ("app in (vllm, sglang),tier", true),
            ("app notin (vllm)", false),
            ("!app", false),
            ("!zone,zone!=a", true),
            ("zone=a", false),
        ] {
            let selector = Selector { labels: labels(text).unwrap(), ..Selector::default() };
            assert_eq!(selector.matches(&object), expected, "{text}");
        }
        for text in ["", "a in b", "a=b,", "a b"] {
            assert!(labels(text).is_none(), "{text:?}");
        }
    }

    #[test]
    fn fields_are_matched_by_path() {
        let event = json!({"metadata": {"name": "a"}, "involvedObject": {"name": "vllm", "kind": "Pod"}});
        for (text, expected) in [
            ("involvedObject.name=vllm,involvedObject.kind=Pod", true),
            ("involvedObject.name!=vllm", false),
            ("metadata.name=a", true),
            ("involvedObject.uid=", true),
        ] {
            let selector = Selector { fields: fields(text).unwrap(), ..Selector::default() };
            assert_eq!(selector.matches(&event), expected, "{text}");
        }
        assert!(fields("metadata.name").is_none());
    }
}
