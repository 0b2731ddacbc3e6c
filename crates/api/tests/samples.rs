//! What users meet first: the samples, the columns of `kubectl get`, the defaults, and the rules.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "what helps a test may fail it")]

use std::collections::BTreeSet;

use kube::CustomResourceExt;
use llmscaler_api::{LLMScaler, Provider, parse_json};
use serde_json::Value;

#[test]
fn every_sample_is_valid_and_knows_every_field_it_names() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/samples");
    let mut providers = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let scaler = parse_json(serde_saphyr::from_str(&text).unwrap()).unwrap_or_else(|invalid| panic!("{}: {invalid}", path.display()));
        kube::core::cel::validate_cel(&scaler).unwrap_or_else(|failures| panic!("{}: {failures}", path.display()));
        providers.insert(match scaler.parse().unwrap().provider {
            Provider::Prometheus { .. } => "Prometheus",
            Provider::DecisionServer { .. } => "Custom",
        });
    }
    assert_eq!(providers.len(), 2, "a sample of each provider");
}

#[test]
fn rules_of_the_schema() {
    let crd = serde_json::to_value(LLMScaler::crd()).unwrap();
    let mut rules = Vec::new();
    collect(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "", &mut rules);
    insta::assert_snapshot!(rules.join("\n\n"));
}

#[test]
fn columns_and_names() {
    let crd = LLMScaler::crd();
    let columns = crd.spec.versions[0].additional_printer_columns.iter().flatten().map(|column| column.name.as_str());
    let expected = ["MinReplicas", "MaxReplicas", "CurrentReplicas", "DesiredReplicas", "Ready", "Age"];
    assert_eq!(columns.collect::<Vec<_>>(), expected);
    assert_eq!(crd.metadata.name.as_deref(), Some("llmscalers.autoscaling.modelsphere.dev"));
    assert_eq!(crd.spec.names.short_names, Some(vec!["llms".to_owned()]));
    assert_eq!(crd.spec.scope, "Namespaced");
}

#[test]
fn defaults_of_the_schema() {
    let crd = serde_json::to_value(LLMScaler::crd()).unwrap();
    let mut defaults = Vec::new();
    collect_defaults(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"], "", &mut defaults);
    insta::assert_snapshot!(defaults.join("\n"));
}

fn collect_defaults(schema: &Value, field: &str, defaults: &mut Vec<String>) {
    if let Some(default) = schema.get("default") {
        defaults.push(format!("{field} = {default}"));
    }
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        collect_defaults(member, &format!("{field}.{name}"), defaults);
    }
    if schema["items"].is_object() {
        collect_defaults(&schema["items"], &format!("{field}[]"), defaults);
    }
}

fn collect(schema: &Value, field: &str, rules: &mut Vec<String>) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        rules.push(format!("{field}\n  {}\n  {}", rule["message"].as_str().unwrap(), rule["rule"].as_str().unwrap()));
    }
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        collect(member, &format!("{field}.{name}"), rules);
    }
    if schema["items"].is_object() {
        collect(&schema["items"], &format!("{field}[]"), rules);
    }
}
