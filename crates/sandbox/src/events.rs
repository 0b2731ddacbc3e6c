//! Events in the forms of `v1` and `events.k8s.io/v1`: the same objects under other names.

use serde_json::{Map, Value, json};

use crate::object;
use crate::resources::Resource;

/// What a member of `v1` is called in `events.k8s.io/v1`.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Whether the resource has its objects in a form of its own.
fn is_new(resource: &Resource) -> bool {
    resource.group == "events.k8s.io"
}

/// As the resource shows a stored object.
pub(crate) fn shown(resource: &Resource, stored: &Value) -> Value {
    if is_new(resource) { renamed(stored, resource, |(old, new)| (old, new)) } else { stored.clone() }
}

/// As an object of the resource is stored.
pub(crate) fn stored(resource: &'static Resource, shown: &Value) -> Value {
    if is_new(resource) { renamed(shown, resource.stored_as(), |(old, new)| (new, old)) } else { shown.clone() }
}

type Names = (&'static str, &'static str);

fn renamed(object: &Value, form: &Resource, names: impl Fn(Names) -> Names) -> Value {
    let mut members: Map<String, Value> = object.as_object().cloned().unwrap_or_default();
    for (from, to) in NAMES.into_iter().map(names) {
        if let Some(value) = members.remove(from) {
            members.insert(to.to_owned(), value);
        }
    }
    members.insert("apiVersion".into(), form.api_version().into());
    Value::Object(members)
}

/// An event of one of the sandbox's own controllers.
pub(crate) fn of_controller(component: &str, about: &Value, reason: &str, message: &str, now: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": format!("{}.", object::name(about)), "namespace": object::namespace(about)},
        "involvedObject": {
            "apiVersion": about["apiVersion"],
            "kind": about["kind"],
            "name": object::name(about),
            "namespace": object::namespace(about),
            "uid": object::uid(about),
        },
        "type": "Normal",
        "reason": reason,
        "message": message,
        "source": {"component": component},
        "reportingComponent": component,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_say_the_same() {
        let new = Resource::find("events.k8s.io", "v1", "events").unwrap();
        let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "a"}, "regarding": {"name": "x"},
            "note": "n", "reportingController": "llmscaler", "action": "Rescale", "eventTime": "2026-01-01T00:00:00.000000Z"});
        let old = stored(new, &event);
        assert_eq!((&old["involvedObject"]["name"], &old["message"], &old["apiVersion"]), (&json!("x"), &json!("n"), &json!("v1")));
        assert_eq!(shown(new, &old), event);
    }
}
