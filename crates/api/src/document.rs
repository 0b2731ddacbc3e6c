//! A document read as strictly as the API server reads it.

use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool};
use kube::{CustomResourceExt, Resource};
use serde_json::{Map, Value};

use crate::invalid::Invalid;
use crate::likeness::{listed, nearest};
use crate::resource::LLMScaler;

static SCHEMA: LazyLock<JSONSchemaProps> = LazyLock::new(|| {
    let versions = LLMScaler::crd().spec.versions;
    versions.into_iter().find_map(|version| version.schema?.open_api_v3_schema).unwrap_or_default()
});

/// The resource in a document, defaulted and checked against its schema as by an API server that refuses unknown fields (`kubectl`'s
/// strict validation). `null` counts as absent, and `status` is ignored, as on creation. [`LLMScaler::parse`] checks what the schema
/// leaves to CEL.
///
/// # Errors
///
/// The first field that is missing, unknown, of the wrong type, or outside of what the schema lists.
///
/// ```
/// let document = serde_json::json!({
///     "apiVersion": "autoscaling.modelsphere.dev/v1alpha1",
///     "kind": "LLMScaler",
///     "metadata": {"name": "vllm"},
///     "spec": {"metricProvider": "Graphite"},
/// });
/// let invalid = llmscaler_api::parse_json(document).unwrap_err();
/// assert_eq!(invalid.field, "spec.metricProvider");
/// assert_eq!(invalid.message, "must be Prometheus, Custom or Scrape, not \"Graphite\"");
/// ```
pub fn parse_json(mut document: Value) -> Result<LLMScaler, Invalid> {
    drop_nulls(&mut document);
    let Value::Object(mut document) = document else {
        return Err(Invalid::new("", "must be an LLMScaler, an object with apiVersion, kind, metadata and spec"));
    };
    must_equal(document.remove("apiVersion"), "apiVersion", &LLMScaler::api_version(&()))?;
    must_equal(document.remove("kind"), "kind", &LLMScaler::kind(&()))?;
    document.remove("status");
    let metadata = document.remove("metadata");
    check_members(&SCHEMA, &document, "")?;
    document.extend(metadata.map(|metadata| ("metadata".to_owned(), metadata)));
    typed(Value::Object(document))
}

fn must_equal(given: Option<Value>, field: &str, expected: &str) -> Result<(), Invalid> {
    match given {
        Some(Value::String(given)) if given == expected => Ok(()),
        Some(given) => Err(Invalid::new(field, format!("must be {expected}, not {given}"))),
        None => Err(Invalid::new(field, format!("is required; write {expected}"))),
    }
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// The document as the type. After [`check`] only the metadata, which the schema says nothing about, can still be at fault.
fn typed(document: Value) -> Result<LLMScaler, Invalid> {
    let mut unknown = None;
    let mut note = |path: serde_ignored::Path<'_>| {
        unknown.get_or_insert(path.to_string());
    };
    let scaler = serde_path_to_error::deserialize(serde_ignored::Deserializer::new(document, &mut note))
        .map_err(|error| Invalid::new(error.path().to_string(), error.inner().to_string()))?;
    match unknown {
        Some(field) => Err(Invalid::new(field, "there is no such field")),
        None => Ok(scaler),
    }
}

fn check(schema: &JSONSchemaProps, value: &Value, field: &str) -> Result<(), Invalid> {
    check_type(schema, value, field)?;
    check_choice(schema, value, field)?;
    check_range(schema, value, field)?;
    match value {
        Value::Object(members) => check_members(schema, members, field),
        Value::Array(items) => check_items(schema, items, field),
        _ => Ok(()),
    }
}

fn check_type(schema: &JSONSchemaProps, value: &Value, field: &str) -> Result<(), Invalid> {
    let (fits, expected) = match schema.type_.as_deref() {
        Some("object") => (value.is_object(), "an object"),
        Some("array") => (value.is_array(), "a list"),
        Some("string") => (value.is_string(), "text"),
        Some("boolean") => (value.is_boolean(), "true or false"),
        Some("integer") => (value.is_i64(), "a whole number"),
        _ if schema.x_kubernetes_int_or_string == Some(true) => (value.is_i64() || value.is_string(), "a number in quotes"),
        _ => (true, ""),
    };
    if fits {
        return Ok(());
    }
    let hint = match value {
        Value::Number(number) if schema.type_.as_deref() == Some("string") || schema.type_.is_none() => {
            format!("; put it in quotes: \"{number}\"")
        }
        Value::String(text) if text.parse::<i64>().is_ok() && schema.type_.as_deref() == Some("integer") => {
            format!("; take away the quotes: {text}")
        }
        _ => String::new(),
    };
    Err(Invalid::new(field, format!("must be {expected}, not {}{hint}", described(value))))
}

fn described(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".into(),
        Value::Array(_) => "a list".into(),
        Value::Number(number) => format!("the number {number}"),
        scalar => scalar.to_string(),
    }
}

fn check_choice(schema: &JSONSchemaProps, value: &Value, field: &str) -> Result<(), Invalid> {
    match schema.enum_.as_deref() {
        Some(choices) if !choices.iter().any(|choice| choice.0 == *value) => {
            let choices: Vec<&str> = choices.iter().filter_map(|choice| choice.0.as_str()).collect();
            let near = value.as_str().and_then(|given| nearest(given, choices.iter().copied()));
            let meant = near.map_or_else(String::new, |name| format!("; did you mean {name}?"));
            Err(Invalid::new(field, format!("must be {}, not {value}{meant}", listed(&choices, "or"))))
        }
        _ => Ok(()),
    }
}

fn check_range(schema: &JSONSchemaProps, value: &Value, field: &str) -> Result<(), Invalid> {
    let number = value.as_f64();
    let size = match value {
        Value::String(text) => i64::try_from(text.chars().count()).ok().zip(schema.max_length),
        Value::Array(items) => i64::try_from(items.len()).ok().zip(schema.max_items),
        Value::Object(members) => i64::try_from(members.len()).ok().zip(schema.max_properties),
        _ => None,
    };
    match (number, schema.minimum, schema.maximum, size) {
        (Some(number), Some(minimum), ..) if number < minimum => Err(Invalid::new(field, format!("must be {minimum} or more"))),
        (Some(number), _, Some(maximum), _) if number > maximum => Err(Invalid::new(field, format!("must be at most {maximum}"))),
        (.., Some((size, most))) if size > most => Err(Invalid::new(field, format!("is too long: {size}, of at most {most}"))),
        _ => Ok(()),
    }
}

fn check_items(schema: &JSONSchemaProps, items: &[Value], field: &str) -> Result<(), Invalid> {
    let Some(JSONSchemaPropsOrArray::Schema(item_schema)) = &schema.items else { return Ok(()) };
    items.iter().enumerate().try_for_each(|(index, item)| check(item_schema, item, &format!("{field}[{index}]")))
}

fn check_members(schema: &JSONSchemaProps, members: &Map<String, Value>, field: &str) -> Result<(), Invalid> {
    let below = |name: &str| if field.is_empty() { name.to_owned() } else { format!("{field}.{name}") };
    if let Some(JSONSchemaPropsOrBool::Schema(value_schema)) = &schema.additional_properties {
        return members.iter().try_for_each(|(name, value)| check(value_schema, value, &below(name)));
    }
    let Some(known) = &schema.properties else { return Ok(()) };
    for (name, value) in members {
        match known.get(name) {
            Some(member_schema) => check(member_schema, value, &below(name))?,
            None => return Err(Invalid::new(below(name), unknown_field(name, known.keys()))),
        }
    }
    match schema.required.iter().flatten().find(|name| !members.contains_key(*name)) {
        Some(missing) => Err(Invalid::new(below(missing), "is required")),
        None => Ok(()),
    }
}

fn unknown_field<'a>(name: &str, known: impl Iterator<Item = &'a String> + Clone) -> String {
    match nearest(name, known.clone().map(String::as_str)) {
        Some(best) => format!("there is no such field; did you mean {best}?"),
        None => format!("there is no such field; there are {}", listed(&known.map(String::as_str).collect::<Vec<_>>(), "and")),
    }
}
