//! The JSON schema of an `LLMScaler`: what editors complete and check from, and what CI checks manifests with.
//!
//! It is the OpenAPI schema of the resource's definition, said in JSON Schema (draft 7, which editors and kubeconform know). The rules in
//! CEL have no counterpart there and are left to the API server. A field that the definition does not name is refused, as
//! `kubectl apply` does by its validation.

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

/// The schema as a document, with a final newline.
pub fn json() -> Result<String> {
    Ok(format!("{:#}\n", document()?))
}

fn document() -> Result<Value> {
    let definition = llmscaler_api::definition()?;
    let (group, kind, version) = (&definition["spec"]["group"], &definition["spec"]["names"]["kind"], &definition["spec"]["versions"][0]);
    let (group, kind) = (group.as_str().context("a group")?, kind.as_str().context("a kind")?);
    let name = version["name"].as_str().context("a version")?;
    let mut schema = version["schema"]["openAPIV3Schema"].clone();
    convert(&mut schema);
    let root = schema.as_object_mut().context("a schema of an object")?;
    root.insert("$schema".into(), json!("http://json-schema.org/draft-07/schema#"));
    root.insert("title".into(), json!(kind));
    root.insert("required".into(), json!(["apiVersion", "kind", "metadata", "spec"]));
    let properties = root.get_mut("properties").and_then(Value::as_object_mut).context("properties")?;
    properties.insert("apiVersion".into(), json!({"const": format!("{group}/{name}")}));
    properties.insert("kind".into(), json!({"const": kind}));
    properties.insert("metadata".into(), json!({"type": "object"}));
    Ok(schema)
}

/// Says one OpenAPI schema, and those in it, in JSON Schema.
fn convert(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else {
        return;
    };
    if schema.remove("x-kubernetes-int-or-string").is_some() {
        schema.insert("type".into(), json!(["integer", "string"]));
    }
    schema.retain(|key, _| !key.starts_with("x-kubernetes-"));
    if schema.remove("nullable") == Some(json!(true)) {
        admit_null(schema);
    }
    if schema.contains_key("properties") {
        schema.entry("additionalProperties").or_insert(json!(false));
    }
    for inner in ["items", "additionalProperties"] {
        schema.get_mut(inner).into_iter().for_each(convert);
    }
    schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut).for_each(convert);
}

fn admit_null(schema: &mut Map<String, Value>) {
    let mut types = match schema.remove("type") {
        Some(Value::Array(types)) => types,
        Some(one) => vec![one],
        None => return,
    };
    types.push(json!("null"));
    schema.insert("type".into(), types.into());
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.push(Value::Null);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<(String, Value)> {
        let folder = crate::in_repository("config/samples");
        let mut samples = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.to_string_lossy().contains("_llmscaler") {
                let text = std::fs::read_to_string(&path).unwrap();
                samples.push((path.display().to_string(), serde_saphyr::from_str(&text).unwrap()));
            }
        }
        assert!(samples.len() >= 7, "only {} samples", samples.len());
        samples
    }

    #[test]
    fn it_accepts_every_sample() {
        let validator = jsonschema::draft7::new(&document().unwrap()).unwrap();
        for (path, sample) in samples() {
            if let Err(error) = validator.validate(&sample) {
                panic!("{path}: {}: {error}", error.instance_path());
            }
        }
    }

    #[test]
    fn it_refuses_what_the_api_server_refuses() {
        let schema = document().unwrap();
        jsonschema::draft7::meta::validate(&schema).unwrap();
        let validator = jsonschema::draft7::new(&schema).unwrap();
        let (_, sample) = samples().remove(0);
        for (pointer, key, value) in [
            ("", "kind", json!("HorizontalPodAutoscaler")),
            ("", "apiVersion", json!("autoscaling.modelsphere.dev/v1")),
            ("/spec", "minReplica", json!(1)),
            ("/spec", "minReplicas", json!("1")),
            ("/spec", "minReplicas", json!(-1)),
            ("/spec", "metricProvider", json!("Datadog")),
            ("/spec/targetRef", "namespace", json!("elsewhere")),
        ] {
            let mut wrong = sample.clone();
            wrong.pointer_mut(pointer).unwrap()[key] = value.clone();
            assert!(!validator.is_valid(&wrong), "{pointer}/{key}: {value} is accepted");
        }
    }

    #[test]
    fn what_may_be_null_or_two_types_stays_so() {
        let mut schema = json!({"properties": {
            "port": {"x-kubernetes-int-or-string": true, "nullable": true},
            "policy": {"type": "string", "enum": ["Min", "Max"], "nullable": true},
            "labels": {"type": "object", "additionalProperties": {"type": "string", "nullable": true}},
        }});
        convert(&mut schema);
        assert_eq!(
            schema,
            json!({"additionalProperties": false, "properties": {
                "port": {"type": ["integer", "string", "null"]},
                "policy": {"type": ["string", "null"], "enum": ["Min", "Max", null]},
                "labels": {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
            }})
        );
    }
}
