//! What users meet first: the samples, the columns of `kubectl get`, the defaults, and the rules.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "what helps a test may fail it")]

use std::collections::BTreeSet;
use std::time::Duration;

use kube::CustomResourceExt;
use llmscaler_api::{Ask, LLMScaler, Port, Provider, Scaler, parse_json};
use llmscaler_engine::{Law, PolicyLimit, ScalingRules, SelectPolicy};
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
            Provider::Prometheus(_) => "Prometheus",
            Provider::DecisionServer(_) => "Custom",
            Provider::Scrape { .. } => "Scrape",
        });
    }
    assert_eq!(providers.len(), 3, "a sample of each provider");
}

fn sample(name: &str) -> Scaler {
    let path = format!("{}/../../config/samples/autoscaling_v1alpha1_llmscaler_{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    parse_json(serde_saphyr::from_str(&text).unwrap()).unwrap().parse().unwrap()
}

fn signals(scaler: &Scaler) -> Vec<(&'static str, bool)> {
    let of = |ask: &Ask| match ask {
        Ask::Signal { signal, total } => Some((signal.as_str(), *total)),
        _ => None,
    };
    scaler.asks.iter().filter_map(of).collect()
}

#[test]
fn the_sample_of_an_slo_is_the_guides_object() {
    let scaler = sample("slo");
    let [source] = scaler.spec.sources.as_slice() else { panic!("{:?}", scaler.spec.sources) };
    let Law::Band(band) = source.law else { panic!("{source:?}") };
    assert_eq!((band.up_at().get(), band.down_at().get(), band.clamp().get()), (0.55, 0.40, 2.0));
    assert_eq!(band.smoothing(), Some(Duration::from_secs(45)));
    let Ask::Slo(slo) = &scaler.asks[0] else { panic!("{:?}", scaler.asks) };
    let promised = [&slo.ttft, &slo.tpot].map(|latency| latency.as_ref().map(|latency| latency.promised.get()));
    assert_eq!((slo.quantile, promised), (0.9, [Some(3.0), Some(0.1)]));

    let behavior = scaler.spec.behavior.unwrap();
    let policies = |rules: &ScalingRules| rules.policies.iter().map(|p| (p.limit, p.period.as_secs())).collect::<Vec<_>>();
    assert_eq!((behavior.up.window.as_secs(), behavior.down.window.as_secs()), (30, 180));
    assert_eq!(behavior.up.select, SelectPolicy::Max);
    assert_eq!(policies(&behavior.up), [(PolicyLimit::Percent(100), 60), (PolicyLimit::Pods(4), 60)]);
    assert_eq!(policies(&behavior.down), [(PolicyLimit::Pods(1), 120)]);
    assert_eq!((scaler.spec.bounds.min.get(), scaler.spec.bounds.max.get()), (3, 8));
}

#[test]
fn the_sample_of_headroom_names_its_objective_and_profile() {
    let scaler = sample("headroom");
    let [source] = scaler.spec.sources.as_slice() else { panic!("{:?}", scaler.spec.sources) };
    let Law::Headroom(law) = source.law else { panic!("{source:?}") };
    assert_eq!((law.ttft.get(), law.tpot.get(), law.objective.get(), law.profile_is_given), (3.0, 0.1, 0.99, true));
    assert_eq!((scaler.spec.behavior, scaler.spec.sync_period), (None, Duration::from_secs(15)));
}

#[test]
fn the_samples_of_demand_ask_for_totals() {
    let both = [("queuedRequests", true), ("runningRequests", true)];
    let (demand, to_zero) = (sample("queueandrunning"), sample("scaletozero"));
    assert_eq!((signals(&demand).as_slice(), signals(&to_zero).as_slice()), (both.as_slice(), both.as_slice()));
    for scaler in [&demand, &to_zero] {
        assert!(scaler.preset.as_ref().is_some_and(|preset| preset.match_labels.contains_key("service")), "nothing else isolates the pool");
    }
    assert_eq!((to_zero.spec.bounds.min.get(), to_zero.spec.cooldown), (0, Duration::from_secs(300)));
}

#[test]
fn the_sample_without_a_prometheus_has_no_address() {
    let scaler = sample("scrape");
    let Provider::Scrape { scrape, .. } = &scaler.provider else { panic!("{:?}", scaler.provider) };
    assert_eq!((&scrape.port, scrape.path.as_str()), (&Port::Number(8000), "/metrics"));
    assert_eq!(signals(&scaler), [("kvCacheUsage", false), ("queuedRequests", true)]);
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
