//! What every object has.

use jiff::Timestamp;
use serde_json::{Map, Value};

/// The text at a JSON pointer; empty when there is none.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The whole number at a JSON pointer.
pub(crate) fn number(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer)?.as_i64()
}

/// The elements of the list at a JSON pointer.
pub(crate) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub(crate) fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

pub(crate) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// The label's or annotation's value: `map` is `labels` or `annotations`.
pub(crate) fn entry<'a>(object: &'a Value, map: &str, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get(map)?.get(key)?.as_str()
}

/// The UID of the controller that owns it.
pub(crate) fn controller(object: &Value) -> Option<&str> {
    list(object, "/metadata/ownerReferences").iter().find(|owner| owner["controller"] == true)?["uid"].as_str()
}

pub(crate) fn is_terminating(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some_and(|at| !at.is_null())
}

/// The moment at a JSON pointer.
pub(crate) fn time(object: &Value, pointer: &str) -> Option<Timestamp> {
    text(object, pointer).parse().ok()
}

/// Whether the object has this condition with the status `True`.
pub(crate) fn is_true(object: &Value, condition: &str) -> bool {
    list(object, "/status/conditions").iter().any(|one| one["type"] == condition && one["status"] == "True")
}

/// The member as an object, which it becomes if it is none.
pub(crate) fn child<'a>(object: &'a mut Value, key: &str) -> &'a mut Map<String, Value> {
    map(map(object).entry(key).or_insert(Value::Null))
}

/// The value as an object, which it becomes if it is none.
pub(crate) fn map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("it has just been made an object"),
    }
}

/// A moment as it is written in metadata: whole seconds.
pub(crate) fn stamp(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
