use std::collections::BTreeMap;

use promql_parser::parser::{Expr, parse};

use super::*;
use crate::lint::lint;
use crate::traffic::TrafficQueries;

const AGGREGATES: [Aggregate; 2] = [Aggregate::Total, Aggregate::PerReplica];

fn presets() -> impl Iterator<Item = &'static Preset> {
    Preset::names().map(|name| Preset::named(name).unwrap())
}

fn epp() -> &'static Preset {
    Preset::named("llm-d-EPP").unwrap()
}

/// A scope that isolates a pool of this preset.
fn scope(preset: &Preset) -> Scope {
    Scope::new("serving", [(if preset.name == "llm-d-EPP" { "service" } else { "model_name" }, "pool-a")])
}

/// Every query that a preset writes, by what it answers.
fn queries(preset: &'static Preset, scope: &Scope) -> BTreeMap<String, Result<String, NoQuery>> {
    let mut queries = BTreeMap::new();
    for signal in preset.signals() {
        for aggregate in AGGREGATES {
            queries.insert(format!("{signal} {aggregate:?}"), preset.query(signal, aggregate, scope));
        }
    }
    for latency in [Latency::Ttft, Latency::Tpot] {
        queries.insert(format!("latency {latency:?}"), preset.latency_query(latency, 0.9, scope));
    }
    queries.insert("traffic".to_owned(), preset.traffic_query(scope));
    queries
}

#[test]
fn every_file_parses() {
    for text in FILES {
        let preset: Preset = serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}"));
        assert!(Preset::named(&preset.name).is_some(), "{}", preset.name);
    }
    assert_eq!(Preset::names().collect::<Vec<_>>(), ["vLLM", "llm-d-EPP", "SGLang"]);
    assert!(Preset::named("vllm").is_none());
}

#[test]
fn rows_are_complete_and_agree_with_each_other() {
    for preset in presets() {
        assert!(!preset.isolating.is_empty() && !preset.scraped.is_empty());
        for row in &preset.rows {
            let at = format!("{} {}", preset.name, row.signal);
            let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "_:".contains(c));
            assert!(!row.metrics.is_empty() && row.metrics.iter().all(|metric| is_name(&metric.name)), "{at}");
            assert_eq!(preset.rows.iter().filter(|other| other.signal == row.signal).count(), 1, "{at}");
            assert!(row.repeats.iter().chain(row.renamed.values()).all(|label| row.labels.contains(label)), "{at}");
            assert!(row.metrics.iter().flat_map(|metric| metric.only.keys()).all(|label| row.labels.contains(label)), "{at}");
            // One selector covers all names of a gauge, so they share its matchers.
            let same = row.metrics.iter().all(|metric| metric.only == row.metrics[0].only);
            assert!(row.kind != Kind::Gauge || same, "{at}");
            // A proof needs no proof, and is about the same process.
            if let Some(proof) = row.zero {
                let proof = preset.row(proof).unwrap();
                assert!(proof.zero.is_none() && proof.kind == Kind::Gauge && proof.per != Per::Endpoint, "{at}");
            }
            // Names that scraping changes are not for a row to use.
            assert!(row.labels.iter().all(|label| !["namespace", "pod", "instance", "job", "le"].contains(&label.as_str())), "{at}");
        }
        for signal in [Signal::QueuedRequests, Signal::RunningRequests, Signal::KvCacheUsage, Signal::Ttft, Signal::Tpot] {
            assert!(preset.row(signal).is_some(), "{} {signal}", preset.name);
        }
    }
}

#[test]
fn generated_queries() {
    for preset in presets() {
        let scope = scope(preset);
        let queries: BTreeMap<_, _> = queries(preset, &scope).into_iter().map(|(name, query)| (name, query.unwrap())).collect();
        insta::assert_yaml_snapshot!(preset.name.clone(), queries);
    }
}

#[test]
fn every_query_is_promql_of_one_series_of_one_pool() {
    for preset in presets() {
        for (name, query) in queries(preset, &scope(preset)) {
            let query = query.unwrap_or_else(|error| panic!("{} {name}: {error}", preset.name));
            assert!(parse(&query).is_ok(), "{} {name}: {query}", preset.name);
            assert_eq!(lint(&query), [], "{} {name}: {query}", preset.name);
            assert!(!query.contains("vector("), "{} {name}: {query}", preset.name);
        }
    }
}

#[test]
fn values_and_odd_labels_cannot_break_out_of_their_matcher() {
    let value = "a\"} or vector(1) # \\\n{b=\"";
    let scope = Scope::new("serving", [("model_name", value), ("llm-d.ai/role", "decode")]);
    let query = Preset::named("vLLM").unwrap().query(Signal::KvCacheUsage, Aggregate::PerReplica, &scope).unwrap();
    assert!(query.contains(r#""llm-d.ai/role"="decode", model_name="a\"} or vector(1) # \\\n{b=\"", namespace="serving"}"#), "{query}");
    fn selectors(expression: &Expr, found: &mut Vec<String>) {
        match expression {
            Expr::Aggregate(inner) => selectors(&inner.expr, found),
            Expr::Call(call) => call.args.args.iter().for_each(|argument| selectors(argument, found)),
            Expr::VectorSelector(selector) => {
                found.extend(selector.matchers.find_matchers("model_name").into_iter().map(|matcher| matcher.value));
            }
            Expr::StringLiteral(_) => {}
            other => panic!("{other}"),
        }
    }
    let mut found = Vec::new();
    selectors(&parse(&query).unwrap(), &mut found);
    assert_eq!(found, [value]);
}

#[test]
fn a_label_is_written_where_the_series_have_it() {
    let queue = |labels: &[(&str, &str)]| epp().query(Signal::QueuedRequests, Aggregate::Total, &Scope::new("serving", labels.to_vec()));
    let both = queue(&[("inference_pool", "pool-a"), ("model_name", "qwen"), ("service", "pool-a-epp")]).unwrap();
    assert!(both.contains(r#"{__name__=~"llm_d_epp_flow_control_queue_size|"#), "{both}");
    assert!(both.contains(r#"inference_pool="pool-a", model_name="qwen", namespace="serving", service="pool-a-epp"}"#), "{both}");
    // The proof of zero is another metric, which has no model_name.
    assert!(both.contains(r#"stage=~"effective|", inference_pool="pool-a", namespace="serving", service="pool-a-epp"}"#), "{both}");

    let scope = Scope::new("serving", [("inference_pool", "pool-a"), ("service", "pool-a-epp")]);
    let running = epp().query(Signal::RunningRequests, Aggregate::Total, &scope).unwrap();
    assert!(running.contains(r#"inference_model_running_requests", namespace="serving", service="pool-a-epp"}"#), "{running}");
    assert!(running.contains(r#"name="pool-a", namespace="serving", service="pool-a-epp"}"#), "its proof calls the pool name: {running}");

    // A label that no row knows can only come from scraping.
    let scope = Scope::new("serving", [("model_name", "qwen"), ("llm_d_ai_role", "decode")]);
    let decode = Preset::named("vLLM").unwrap().query(Signal::RunningRequests, Aggregate::Total, &scope).unwrap();
    assert!(decode.contains(r#"{llm_d_ai_role="decode", model_name="qwen", namespace="serving"}"#), "{decode}");
    // The namespace is the scaler's, whatever the labels say.
    let scope = Scope::new("serving", [("model_name", "qwen"), ("namespace", "other")]);
    let query = Preset::named("vLLM").unwrap().query(Signal::RunningRequests, Aggregate::Total, &scope).unwrap();
    assert!(query.contains(r#"namespace="serving""#) && !query.contains("other"), "{query}");
}

#[test]
fn what_only_the_namespace_isolates_is_refused() {
    let mut said = Vec::new();
    for (preset, signal, labels) in [
        ("llm-d-EPP", Signal::RunningRequests, &[("inference_pool", "pool-a")][..]),
        ("llm-d-EPP", Signal::RunningRequests, &[("inference_pool", "pool-a"), ("model_name", "qwen")]),
        ("llm-d-EPP", Signal::RunningRequests, &[("model_name", "qwen"), ("priority", "0")]),
        ("llm-d-EPP", Signal::RunningRequests, &[]),
        ("llm-d-EPP", Signal::QueuedRequests, &[("model_name", "qwen")]),
        ("llm-d-EPP", Signal::KvCacheUsage, &[("model_name", "qwen"), ("container", "epp")]),
        ("vLLM", Signal::QueuedRequests, &[]),
        ("vLLM", Signal::QueuedRequests, &[("engine", "0")]),
        ("vLLM", Signal::QueuedRequests, &[("model_name", "")]),
        ("SGLang", Signal::RunningRequests, &[("namespace", "serving")]),
    ] {
        let error = Preset::named(preset).unwrap().query(signal, Aggregate::Total, &Scope::new("serving", labels.to_vec())).unwrap_err();
        let NoQuery::Unscoped(unscoped) = &error else { panic!("{error}") };
        assert!(!unscoped.would_do().is_empty());
        // What it recommends helps.
        for label in unscoped.would_do() {
            let scope = Scope::new("serving", labels.iter().copied().chain([(label.as_str(), "x")]));
            assert!(Preset::named(preset).unwrap().query(signal, Aggregate::Total, &scope).is_ok(), "{label}");
        }
        said.push(error.to_string());
    }
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn a_slo_of_the_epp_needs_the_service() {
    let pool = Scope::new("serving", [("inference_pool", "pool-a")]);
    assert!(matches!(epp().latency_query(Latency::Ttft, 0.9, &pool), Err(NoQuery::Unscoped(_))));
    assert!(matches!(epp().traffic_query(&pool), Err(NoQuery::Unscoped(_))));
}

#[test]
fn what_is_not_one_number_is_refused_with_what_to_do() {
    let vllm = Preset::named("vLLM").unwrap();
    let refused = |signal| vllm.query(signal, Aggregate::Total, &scope(vllm)).unwrap_err().to_string();
    insta::assert_snapshot!([Signal::PoolSaturation, Signal::Ttft, Signal::CacheConfig].map(refused).join("\n"), @"
    vLLM has no metric for signal poolSaturation; it has queuedRequests, runningRequests, kvCacheUsage, requests, promptTokens, generationTokens
    signal ttft of preset vLLM is a histogram, not one number; for a latency use spec.slo, which takes its quantile
    signal cacheConfig of preset vLLM is a set of labels, not one number; write a query of one number
    ");
}

/// The queries by field, in the order of their names.
fn traffic(preset: &Preset) -> BTreeMap<&'static str, String> {
    let TrafficQueries {
        arrivals_15s,
        arrivals_30s,
        arrivals_60s,
        mean_prompt,
        prompt_lengths,
        finished,
        output_tokens,
        output_lengths,
        inter_token,
        inter_tokens,
        waiting,
        running,
        kv_usage,
        kv_capacity,
        ttft,
        tpot,
    } = preset.traffic_queries(&scope(preset)).unwrap();
    let queries = [
        ("arrivals_15s", arrivals_15s),
        ("arrivals_30s", arrivals_30s),
        ("arrivals_60s", arrivals_60s),
        ("mean_prompt", mean_prompt),
        ("prompt_lengths", prompt_lengths),
        ("finished", finished),
        ("output_tokens", output_tokens),
        ("output_lengths", output_lengths),
        ("inter_token", inter_token),
        ("inter_tokens", inter_tokens),
        ("waiting", waiting),
        ("running", running),
        ("kv_usage", kv_usage),
        ("kv_capacity", kv_capacity),
        ("ttft", ttft),
        ("tpot", tpot),
    ];
    queries.into_iter().filter_map(|(name, query)| Some((name, query?))).collect()
}

#[test]
fn generated_traffic_queries() {
    for preset in presets() {
        insta::assert_yaml_snapshot!(format!("traffic_{}", preset.name), traffic(preset));
    }
}

#[test]
fn every_traffic_query_is_promql_of_one_pool() {
    for preset in presets() {
        for (name, query) in traffic(preset) {
            assert!(parse(&query).is_ok(), "{} {name}: {query}", preset.name);
            assert!(!query.contains("vector("), "{} {name}: {query}", preset.name);
            // Those of one number give one; the others keep a label, which is all that the lint may find.
            let found = lint(&query);
            let several = ["prompt_lengths", "output_lengths", "ttft", "tpot", "kv_usage", "kv_capacity"].contains(&name);
            assert!(
                found.is_empty() || (several && found.iter().all(|finding| finding.problem == crate::lint::Problem::SeveralSeries)),
                "{} {name}: {found:?}",
                preset.name
            );
        }
    }
}

#[test]
fn traffic_of_a_router_without_its_own_label_is_refused() {
    assert!(epp().traffic_queries(&Scope::new("serving", [("inference_pool", "pool-a")])).is_err());
    assert!(Preset::named("vLLM").unwrap().traffic_queries(&Scope::new("serving", [("engine", "0")])).is_err());
}
