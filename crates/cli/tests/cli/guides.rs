//! The guides: every scaler in them is valid, and everything that they quote of `decide` and of the presets is so.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use llmscaler_api::{Ask, Scaler};
use llmscaler_signals::preset::{Aggregate, Latency, Preset, Scope, Signal};
use serde_json::{Value, json};

use crate::pages::{blocks, read, root, run_examples};
use crate::running::{decide_text, run, texts};

/// Name and text of every guide.
fn guides() -> Vec<(String, String)> {
    let folder = std::fs::read_dir(root().join("docs/guides")).unwrap();
    let paths = folder.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let guides: Vec<_> = paths.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), read(&path))).collect();
    assert!(guides.len() >= 5, "{} guides", guides.len());
    guides
}

/// The scalers that a guide shows as objects.
fn scalers(guide: &str) -> impl Iterator<Item = String> {
    let is_scaler = |text: &String| text.lines().any(|line| line == "kind: LLMScaler");
    blocks(guide).into_iter().filter(|(language, _)| language == "yaml").map(|(_, text)| text).filter(is_scaler)
}

/// A document about an object, with one tick.
fn document(scaler: &str) -> String {
    let indented: String = scaler.lines().map(|line| format!("  {line}\n")).collect();
    format!("scaler:\n{indented}workload: {{replicas: 1}}\nticks:\n  - at: 0\n")
}

#[test]
fn every_scaler_is_valid() {
    for (name, guide) in guides() {
        let mut found = 0;
        for scaler in scalers(&guide) {
            assert_eq!(decide_text(&document(&scaler)).len(), 1, "{name}");
            found += 1;
        }
        assert!(found > 0, "{name} shows no scaler");
    }
}

#[test]
fn every_example_prints_what_the_guide_says() {
    let examples: usize = guides().iter().map(|(_, guide)| run_examples(guide)).sum();
    assert!(examples >= 4, "{examples} examples found");
}

#[test]
fn the_timeline_is_what_decide_answers() {
    let (out, errors, code) = texts(&run(&["decide", "-"], &read(&root().join("docs/guides/slo-timeline.yaml"))));
    assert_eq!((code, errors.as_str()), (0, ""));
    let answers: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (_, guide) = guides().into_iter().find(|(name, _)| name == "slo.md").unwrap();
    let rows = guide.lines().skip_while(|line| !line.starts_with("| s | replicas |")).skip(2).take_while(|line| line.starts_with('|'));
    let mut written = vec![];
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let at: f64 = cells[1].parse().unwrap();
        let answer = answers.iter().find(|answer| answer["at"].as_f64() == Some(at)).unwrap_or_else(|| panic!("no tick at {at}"));
        let saturation = format!("{:.2}", answer["readings"][0]["value"].as_f64().unwrap());
        let count = |key: &str| answer[key].as_u64().map_or_else(String::new, |count| count.to_string());
        assert_eq!(cells[2..7], [count("replicas"), count("ready"), saturation, count("desired"), count("write")], "{row}");
        written.extend(answer["write"].as_u64());
    }
    assert!(
        answers.iter().filter_map(|answer| answer["write"].as_u64()).eq(written.iter().copied()),
        "the table lacks a write: {written:?}"
    );
    assert_eq!(written, [6, 7, 8, 7, 6, 5, 4, 3]);
}

#[test]
fn every_query_is_one_that_the_operator_writes() {
    for (name, guide) in guides() {
        let written: BTreeSet<String> = scalers(&guide).flat_map(|scaler| queries(&scaler)).map(|query| compact(&query)).collect();
        for (_, query) in blocks(&guide).into_iter().filter(|(language, _)| language == "promql") {
            assert!(written.contains(&compact(&query)), "{name}: no scaler of the guide asks\n{query}");
        }
    }
}

/// Line breaks and blanks aside.
fn compact(query: &str) -> String {
    query.split_whitespace().collect()
}

/// What the preset of a scaler in the namespace `serving` writes for it.
fn queries(scaler: &str) -> Vec<String> {
    let object: Value = serde_saphyr::from_str(scaler).unwrap();
    let scaler: Scaler = llmscaler_api::parse_json(object).unwrap().parse().unwrap();
    let Some(labels) = &scaler.preset else { return vec![] };
    let (preset, scope) = (Preset::named(labels.name.as_str()).unwrap(), Scope::new("serving", labels.match_labels.clone()));
    let asked = scaler.asks.iter().flat_map(|ask| match ask {
        Ask::Signal { signal, total } => {
            let aggregate = if *total { Aggregate::Total } else { Aggregate::PerReplica };
            vec![preset.query(signal.as_str().parse::<Signal>().unwrap(), aggregate, &scope)]
        }
        Ask::Slo(slo) => {
            let latencies = [Latency::Ttft, Latency::Tpot].map(|latency| preset.latency_query(latency, slo.quantile, &scope));
            latencies.into_iter().chain([preset.traffic_query(&scope)]).collect()
        }
        Ask::Query(_) | Ask::Decision { .. } => vec![],
    });
    asked.filter_map(Result::ok).collect()
}

/// A field that no Deployment has would be lost in between.
#[test]
fn the_patch_of_the_warm_up_has_the_shape_of_a_deployment() {
    let patch: Value = serde_saphyr::from_str(&read(&root().join("config/patches/vllm-warmup.yaml"))).unwrap();
    let template: PodTemplateSpec = serde_json::from_value(patch["spec"]["template"].clone()).unwrap();
    assert_eq!(json!({"spec": {"template": template}}), patch);
}
