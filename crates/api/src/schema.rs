//! The custom resource definition, and touches on its schema that attributes cannot express.

use kube::CustomResourceExt;
use llmscaler_engine::Profile;
use schemars::{Schema, transform::transform_subschemas};
use serde_json::{Value, json};

use crate::resource::LLMScaler;

/// The custom resource definition as a document to print or to apply.
///
/// # Errors
///
/// None that is known: the definition has a JSON form.
pub fn definition() -> serde_json::Result<Value> {
    let mut definition = serde_json::to_value(LLMScaler::crd())?;
    tidy(&mut definition);
    Ok(definition)
}

/// Writes 0.0 as 0: bounds of a schema are floats, whatever they bound. Leaves out `nullable: false`, as the API server does: with it,
/// whoever applies what Helm has installed would differ from it, and be refused for a conflict.
fn tidy(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, member| name != "nullable" || *member != Value::Bool(false));
            members.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Number(number) => {
            if let Some(whole) = number.as_f64().filter(|x| number.is_f64() && x.fract() == 0.0 && x.abs() < 1e15) {
                *value = Value::from(whole as i64);
            }
        }
        _ => {}
    }
}

/// Says of optional fields that they may be absent, not that they may be null, of 32-bit integers how large they may be, and keeps
/// each description in one line.
///
/// A null that reached a CEL rule would be an evaluation error, and the API server takes `format: int32` as a hint only, so that a
/// larger number would be stored and could not be read back.
pub(crate) fn as_kubernetes(schema: &mut Schema) {
    transform_subschemas(&mut as_kubernetes, schema);
    let Some(object) = schema.as_object_mut() else { return };
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [kind] = types.as_slice() {
            let kind = kind.clone();
            object.insert("type".into(), kind);
        }
    }
    if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type") != Some(&json!("null")));
        if let [Value::Object(only)] = choices.as_mut_slice() {
            let mut only = std::mem::take(only);
            object.remove("anyOf");
            // The field's own description says more than that of its type.
            only.retain(|key, _| !object.contains_key(key));
            object.append(&mut only);
        }
    }
    if object.get("format") == Some(&json!("int32")) {
        object.entry("maximum").or_insert(json!(i32::MAX));
    }
    if object.contains_key("x-kubernetes-int-or-string") {
        object.insert("nullable".into(), json!(false)); // kube would say true; see tidy
    }
    if let Some(Value::String(description)) = object.get_mut("description") {
        *description = description.replace('\n', " "); // kubectl breaks lines itself
    }
}

/// Bounds on a map of headers, without which the API server refuses rules on them as too costly.
pub(crate) fn bounded_headers(schema: &mut Schema) {
    schema.insert("maxProperties".into(), json!(32));
    if let Some(Value::Object(values)) = schema.get_mut("additionalProperties") {
        values.insert("maxLength".into(), json!(16384));
    }
}

/// Bounds on a map of labels, for the same reason.
pub(crate) fn bounded_labels(schema: &mut Schema) {
    schema.insert("maxProperties".into(), json!(32));
    if let Some(Value::Object(values)) = schema.get_mut("additionalProperties") {
        values.insert("maxLength".into(), json!(1024));
    }
}

/// The names of the built-in profiles as the only choices. The field stays a text: an object that names a profile of another version
/// can still be read, and says in its conditions what is wrong.
pub(crate) fn profile_names(schema: &mut Schema) {
    schema.insert("enum".into(), Profile::all().iter().map(|profile| profile.name.as_str()).collect());
}
