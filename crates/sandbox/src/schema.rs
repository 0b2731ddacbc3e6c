//! Structural schemas: what is left out is filled in, what is unknown is dropped, what does not fit is refused.

use serde_json::Value;

use crate::refusal::FieldError;

/// Drops the members that the schema does not know and answers their paths. `root` says that the value is a whole object, whose
/// metadata the schema does not describe.
pub(crate) fn prune(schema: &Value, value: &mut Value, path: &str, root: bool, unknown: &mut Vec<String>) {
    match value {
        Value::Object(members) if schema["x-kubernetes-preserve-unknown-fields"] != true => {
            let properties = schema["properties"].as_object();
            let rest = schema.get("additionalProperties").filter(|rest| rest.is_object());
            members.retain(|name, member| {
                let at = joined(path, name);
                if root && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                    return true;
                }
                match properties.and_then(|all| all.get(name)).or(rest) {
                    Some(schema) => prune(schema, member, &at, false, unknown),
                    None => unknown.push(at),
                }
                properties.is_some_and(|all| all.contains_key(name)) || rest.is_some()
            });
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                prune(&schema["items"], item, &format!("{path}[{index}]"), false, unknown);
            }
        }
        _ => {}
    }
}

/// Fills in what is left out. A null where the schema allows none counts as left out if there is a default.
pub(crate) fn default(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(members) => {
            if let Some(properties) = schema["properties"].as_object() {
                for (name, schema) in properties {
                    if let Some(default) = schema.get("default")
                        && members.get(name).is_none_or(|member| member.is_null() && schema["nullable"] != true)
                    {
                        members.insert(name.clone(), default.clone());
                    }
                }
            }
            for (name, member) in members {
                if let Some(schema) = schema["properties"].get(name).or_else(|| schema.get("additionalProperties")) {
                    default(schema, member);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| default(&schema["items"], item)),
        _ => {}
    }
}

/// Every way in which the value does not fit, in the words of the API server.
pub(crate) fn validate(schema: &Value, value: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = vec![];
    check(schema, value, path, &mut errors);
    errors
}

fn check(schema: &Value, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if value.is_null() && schema["nullable"] == true {
        return;
    }
    if let Some(wanted) = wrong_type(schema, value) {
        let why = format!("{path} in body must be of type {wanted}: {:?}", type_of(value));
        let text = format!("Invalid value: {:?}: {why}", type_of(value));
        errors.push(FieldError { reason: "FieldValueTypeInvalid", field: path.to_owned(), text });
        return;
    }
    if let Some(choices) = schema["enum"].as_array()
        && !choices.contains(value)
    {
        let choices: Vec<String> = choices.iter().map(Value::to_string).collect();
        let text = format!("Unsupported value: {value}: supported values: {}", choices.join(", "));
        errors.push(FieldError { reason: "FieldValueNotSupported", field: path.to_owned(), text });
    }
    check_bounds(schema, value, path, errors);
    match value {
        Value::Object(members) => {
            for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                if !members.contains_key(name) {
                    let text = "Required value".to_owned();
                    errors.push(FieldError { reason: "FieldValueRequired", field: joined(path, name), text });
                }
            }
            let rest = schema.get("additionalProperties").filter(|rest| rest.is_object());
            for (name, member) in members {
                if let Some(schema) = schema["properties"].get(name).or(rest) {
                    check(schema, member, &joined(path, name), errors);
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                check(&schema["items"], item, &format!("{path}[{index}]"), errors);
            }
        }
        _ => {}
    }
}

fn check_bounds(schema: &Value, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(number) = value.as_f64() {
        for (bound, breaks, words) in [
            ("minimum", (|number, bound| number < bound) as fn(f64, f64) -> bool, "greater than or equal to"),
            ("maximum", |number, bound| number > bound, "less than or equal to"),
        ] {
            if let Some(limit) = schema[bound].as_f64().filter(|limit| breaks(number, *limit)) {
                errors.push(FieldError::invalid(path, value, format!("{path} in body should be {words} {limit}")));
            }
        }
    }
    let over = |bound: &str, size: usize| schema[bound].as_u64().filter(|most| size as u64 > *most);
    let (text, size) = match value {
        Value::String(text) => {
            (over("maxLength", text.chars().count()).map(|most| format!("Too long: may not be more than {most} bytes")), 0)
        }
        Value::Array(items) => (None, items.len()),
        Value::Object(members) => (None, members.len()),
        _ => return,
    };
    if let Some(text) = text {
        errors.push(FieldError { reason: "FieldValueTooLong", field: path.to_owned(), text });
    }
    let bound = if value.is_array() { "maxItems" } else { "maxProperties" };
    if let Some(most) = over(bound, size) {
        let text = format!("Too many: {size}: must have at most {most} items");
        errors.push(FieldError { reason: "FieldValueTooMany", field: path.to_owned(), text });
    }
}

/// The type that the schema wants, if the value has another.
fn wrong_type<'a>(schema: &'a Value, value: &Value) -> Option<&'a str> {
    if schema["x-kubernetes-int-or-string"] == true {
        return (!value.is_string() && !value.is_i64() && !value.is_u64()).then_some("integer,string");
    }
    let wanted = schema["type"].as_str()?;
    let fits = match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => true,
    };
    (!fits).then_some(wanted)
}

/// What the API server calls the type of a value.
pub(crate) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// The words of a field that another error hides.
pub(crate) fn rules_not_checked() -> FieldError {
    let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
    FieldError::invalid("<nil>", &Value::Null, why)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 0, "maximum": 9},
            "mode": {"type": "string", "enum": ["Auto", "Off"], "default": "Auto", "maxLength": 4},
            "port": {"x-kubernetes-int-or-string": true},
            "labels": {"type": "object", "maxProperties": 1, "additionalProperties": {"type": "string"}},
            "inner": {"type": "object", "properties": {"depth": {"type": "integer", "default": 3}}},
            "items": {"type": "array", "maxItems": 1, "items": {"type": "object", "properties": {"on": {"type": "boolean", "default": true}}}},
        }}}})
    }

    fn errors(spec: Value) -> Vec<String> {
        validate(&schema(), &json!({"spec": spec}), "").into_iter().map(|error| format!("{}: {}", error.field, error.text)).collect()
    }

    #[test]
    fn what_is_left_out_is_filled_in_within_what_is_there() {
        let mut object = json!({"spec": {"size": 1, "mode": null, "items": [{}]}});
        default(&schema(), &mut object);
        assert_eq!(object, json!({"spec": {"size": 1, "mode": "Auto", "items": [{"on": true}]}}));
        let mut object = json!({"spec": {"size": 1, "mode": "Off", "inner": {}}});
        default(&schema(), &mut object);
        assert_eq!(object["spec"]["inner"], json!({"depth": 3}));
    }

    #[test]
    fn unknown_members_are_dropped_and_named() {
        let mut object = json!({"kind": "X", "metadata": {"name": "a"}, "extra": 1,
            "spec": {"size": 1, "siez": 2, "labels": {"any": "b"}, "items": [{"of": 1}]}});
        let mut unknown = vec![];
        prune(&schema(), &mut object, "", true, &mut unknown);
        unknown.sort();
        assert_eq!(unknown, ["extra", "spec.items[0].of", "spec.siez"]);
        assert_eq!(object["spec"], json!({"size": 1, "labels": {"any": "b"}, "items": [{}]}));
        assert_eq!(object["metadata"]["name"], "a");
    }

    #[test]
    fn what_does_not_fit_is_refused_in_the_words_of_the_server() {
        assert!(errors(json!({"size": 1, "port": "http"})).is_empty() && errors(json!({"size": 1, "port": 80})).is_empty());
        for (spec, expected) in [
            (json!({}), "spec.size: Required value"),
            (json!({"size": -1}), "spec.size: Invalid value: -1: spec.size in body should be greater than or equal to 0"),
            (json!({"size": 10}), "spec.size: Invalid value: 10: spec.size in body should be less than or equal to 9"),
            (json!({"size": "1"}), r#"spec.size: Invalid value: "string": spec.size in body must be of type integer: "string""#),
            (json!({"size": 1, "mode": "On"}), r#"spec.mode: Unsupported value: "On": supported values: "Auto", "Off""#),
            (
                json!({"size": 1, "labels": {"a": 1}}),
                r#"spec.labels.a: Invalid value: "integer": spec.labels.a in body must be of type string: "integer""#,
            ),
            (json!({"size": 1, "labels": {"a": "b", "c": "d"}}), "spec.labels: Too many: 2: must have at most 1 items"),
        ] {
            assert_eq!(errors(spec), [expected]);
        }
        assert!(errors(json!({"size": 1, "mode": "Automatic"})).contains(&"spec.mode: Too long: may not be more than 4 bytes".to_owned()));
    }
}
