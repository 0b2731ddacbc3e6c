//! What a real API server, and the sandbox like it, make of the resource: its schema and rules are within the cost that is allowed, the
//! samples are accepted, and what cannot work is refused with a sentence.

#![allow(clippy::unwrap_used, reason = "what helps a test may fail it")]

use llmscaler_e2e::ApiServer::{Real, Sandbox};
use llmscaler_e2e::{ApiServer, Namespace};
use rstest::rstest;
use serde_json::{Value, json};

#[rstest]
#[tokio::test]
async fn every_sample_is_accepted(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(ns) = on.namespace("samples").await else { return };
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/samples");
    let mut accepted = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        ns.try_apply(&text).await.unwrap_or_else(|error| panic!("{}: {error:#}", path.display()));
        accepted += 1;
    }
    assert!(accepted >= 6, "{accepted} samples");
}

/// The object with each of `more` in its spec; null removes.
fn slo(ns: &Namespace, more: &Value) -> String {
    let mut spec = json!({
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "fleet"},
        "serverAddress": "http://prometheus:9090",
        "minReplicas": 3,
        "maxReplicas": 8,
        "preset": {"name": "llm-d-EPP", "matchLabels": {"service": "pool-a-epp"}},
        "slo": {"ttft": "3s", "tpot": "100ms"},
    });
    for (field, value) in more.as_object().unwrap() {
        match value {
            Value::Null => spec.as_object_mut().unwrap().remove(field),
            _ => spec.as_object_mut().unwrap().insert(field.clone(), value.clone()),
        };
    }
    let metadata = json!({"name": "fleet", "namespace": ns.name()});
    json!({"apiVersion": "autoscaling.modelsphere.dev/v1alpha1", "kind": "LLMScaler", "metadata": metadata, "spec": spec}).to_string()
}

#[rstest]
#[tokio::test]
async fn what_cannot_work_is_refused_with_a_sentence(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(ns) = on.namespace("rules").await else { return };
    let metric = |metric: Value| json!({"metrics": [metric]});
    let scrape = |more: Value| {
        let mut spec = json!({"metricProvider": "Scrape", "serverAddress": null, "preset": {"name": "vLLM"}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    let header = |name: &str, prefix: &str| json!({"name": name, "prefix": prefix, "secretKeyRef": {"name": "prom", "key": "token"}});
    for (more, words) in [
        (json!({"slo": {}}), "must promise a latency"),
        (json!({"slo": {"ttft": "3"}}), "must be a length of time above 0, such as 3s or 100ms"),
        (json!({"slo": {"ttft": "0s"}}), "must be a length of time above 0"),
        (json!({"slo": {"ttft": "3s", "quantile": "1"}}), "must be a number between 0 and 1 in quotes"),
        (json!({"slo": {"ttft": "3s", "scaleUpAt": "0.4"}}), "scaleDownAt must be below scaleUpAt"),
        (json!({"slo": {"ttft": "3s", "clamp": "0.5"}}), "scaleUpAt no more than clamp"),
        (json!({"slo": {"ttft": "3s", "clamp": "much"}}), "the latency as a share of what was promised"),
        (json!({"slo": {"ttft": "3s", "smoothing": "2h"}}), "must be a length of time of at most 1h"),
        (json!({"slo": {"ttft": "3s", "tpotQuery": "q"}}), "tpotQuery needs tpot"),
        (json!({"slo": {"ttft": "3s", "ttftQuery": "q", "saturationQuery": "q"}}), "saturationQuery measures the saturation itself"),
        (json!({"slo": {"ttft": "3s", "strategy": "Guess"}}), r#"supported values: "Band""#),
        (json!({"preset": null}), "spec.slo needs spec.preset"),
        (json!({"serverAddress": null}), "spec.serverAddress is required unless metricProvider is Scrape"),
        (json!({"metricProvider": "Custom", "customProvider": {"serviceId": "a"}}), "spec.slo needs metricProvider Prometheus or Scrape"),
        (json!({"slo": null}), "spec.metrics must be non-empty unless metricProvider is Custom"),
        (metric(json!({"target": "1"})), "must have exactly one of query and signal"),
        (metric(json!({"query": "q", "signal": "queuedRequests", "target": "1"})), "must have exactly one of query and signal"),
        (metric(json!({"signal": "queue", "target": "1"})), r#"supported values: "queuedRequests""#),
        (
            json!({"slo": null, "preset": null, "metrics": [{"signal": "queuedRequests", "target": "1"}]}),
            "metrics[].signal needs spec.preset",
        ),
        (json!({"preset": {"name": "vLLM"}, "metrics": [{"signal": "poolSaturation", "target": "1"}]}), "use preset llm-d-EPP"),
        (json!({"serverHeadersFrom": [header("Authorization", "Bearer "), header("authorization", "")]}), "no two headers"),
        (json!({"serverHeadersFrom": [header("Authorization:", "")]}), "may only hold letters"),
        (json!({"serverHeadersFrom": [header("Authorization", "Bearer\n")]}), "must be one line without control characters"),
        (json!({"serverTLS": {"caFrom": {}}}), "exactly one of secretKeyRef and configMapKeyRef"),
        (json!({"serverTLS": {"caFrom": {"secretKeyRef": {"name": "ca", "key": ""}}}}), "must name a key of the object's data"),
        (scrape(json!({"preset": null})), "spec.preset is required when metricProvider is Scrape"),
        (scrape(json!({"slo": {"saturationQuery": "q"}})), "there is no Prometheus to answer a query"),
        (scrape(json!({"metrics": [{"query": "q", "target": "1"}]})), "there is no Prometheus to answer a query"),
        (scrape(json!({"scaleDown": {"deletionCostQuery": "q"}})), "there is no Prometheus to answer deletionCostQuery"),
        (scrape(json!({"preset": {"name": "llm-d-EPP"}})), "needs scrape.eppService"),
        (scrape(json!({"scrape": {"port": 70000}})), "must be a port from 1 to 65535"),
        (scrape(json!({"scrape": {"port": "no_name"}})), "or the name of a container port"),
        (scrape(json!({"scrape": {"path": "metrics"}})), "must be a path that begins with /"),
        (scrape(json!({"scrape": {"eppService": {"name": "epp", "port": 0}}})), "must be a port from 1 to 65535"),
    ] {
        match ns.try_apply(&slo(&ns, &more)).await {
            Ok(_) => panic!("{more} is not refused"),
            Err(error) => assert!(format!("{error:#}").contains(words), "{more}: {error:#}"),
        }
    }
    for more in [
        json!({}),
        json!({"serverHeadersFrom": [header("Authorization", "Bearer ")], "serverTLS": {"caFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}}),
        json!({"slo": {"saturationQuery": "epp:saturation:smoothed"}, "preset": null}),
        scrape(json!({"scrape": {"port": "http", "eppService": {"name": "epp"}}})),
        scrape(json!({"scrape": {"port": 8000}})),
    ] {
        ns.apply(&slo(&ns, &more)).await;
    }
}

#[rstest]
#[tokio::test]
async fn what_is_left_out_is_filled_in(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(ns) = on.namespace("defaults").await else { return };
    let objects = ns.apply(&slo(&ns, &json!({"metricProvider": "Scrape", "scrape": {"eppService": {"name": "epp"}}}))).await;
    let spec = &objects[0].data["spec"];
    let expected = json!({"ttft": "3s", "tpot": "100ms", "quantile": "0.9", "strategy": "Band", "scaleUpAt": "0.55", "scaleDownAt": "0.40",
        "clamp": "2", "smoothing": "45s"});
    assert_eq!(spec["slo"], expected);
    let expected =
        json!({"port": 8000, "path": "/metrics", "scheme": "http", "eppService": {"name": "epp", "port": 9090, "scheme": "http"}});
    assert_eq!(spec["scrape"], expected);
}
