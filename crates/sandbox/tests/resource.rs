//! What the sandbox makes of the resource is what the API server makes of it: the rows are those of the tests on a real one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what helps a test may fail it")]

use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use llmscaler_api::LLMScaler;
use llmscaler_sandbox::Sandbox;
use serde_json::{Value, json};

fn scalers() -> Api<DynamicObject> {
    let resource = ApiResource::erase::<LLMScaler>(&());
    Api::default_namespaced_with(Sandbox::new().unwrap().client(), &resource)
}

async fn applied(api: &Api<DynamicObject>, object: &Value) -> Result<DynamicObject, kube::Error> {
    let params = PatchParams {
        field_manager: Some("test".into()),
        force: true,
        field_validation: Some(kube::api::ValidationDirective::Strict),
        ..PatchParams::default()
    };
    api.patch(object["metadata"]["name"].as_str().unwrap(), &params, &Patch::Apply(object)).await
}

#[tokio::test]
async fn every_sample_is_accepted() {
    let api = scalers();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/samples");
    let mut accepted = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let sample: Value = serde_saphyr::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        applied(&api, &sample).await.unwrap_or_else(|error| panic!("{}: {error:#}", path.display()));
        accepted += 1;
    }
    assert!(accepted >= 6, "{accepted} samples");
}

/// The object with each of `more` in its spec; null removes.
fn slo(more: &Value) -> Value {
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
    json!({"apiVersion": "autoscaling.modelsphere.dev/v1alpha1", "kind": "LLMScaler", "metadata": {"name": "fleet"}, "spec": spec})
}

#[tokio::test]
async fn what_cannot_work_is_refused_with_a_sentence() {
    let api = scalers();
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
        match applied(&api, &slo(&more)).await {
            Ok(_) => panic!("{more} is not refused"),
            Err(error) => assert!(error.to_string().contains(words), "{more}: {error}"),
        }
    }
    for more in [
        json!({}),
        json!({"serverHeadersFrom": [header("Authorization", "Bearer ")], "serverTLS": {"caFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}}),
        json!({"slo": {"saturationQuery": "epp:saturation:smoothed"}, "preset": null}),
        scrape(json!({"scrape": {"port": "http", "eppService": {"name": "epp"}}})),
        scrape(json!({"scrape": {"port": 8000}})),
    ] {
        applied(&api, &slo(&more)).await.unwrap();
    }
}

#[tokio::test]
async fn what_is_left_out_is_filled_in() {
    let scrape = json!({"metricProvider": "Scrape", "scrape": {"eppService": {"name": "epp"}}});
    let spec = &applied(&scalers(), &slo(&scrape)).await.unwrap().data["spec"];
    let expected = json!({"ttft": "3s", "tpot": "100ms", "quantile": "0.9", "strategy": "Band", "scaleUpAt": "0.55", "scaleDownAt": "0.40",
        "clamp": "2", "smoothing": "45s"});
    assert_eq!(spec["slo"], expected);
    let expected =
        json!({"port": 8000, "path": "/metrics", "scheme": "http", "eppService": {"name": "epp", "port": 9090, "scheme": "http"}});
    assert_eq!(spec["scrape"], expected);
}

#[tokio::test]
async fn bounds_that_cross_are_refused_and_a_refusal_says_where() {
    let api = scalers();
    let crossed = slo(&json!({"minReplicas": 9}));
    let kube::Error::Api(status) = applied(&api, &crossed).await.unwrap_err() else { panic!("another error") };
    let why = "minReplicas must not be above maxReplicas; lower minReplicas or raise maxReplicas";
    let expected = format!("LLMScaler.autoscaling.modelsphere.dev \"fleet\" is invalid: spec: Invalid value: {why}");
    assert_eq!((status.code, status.reason.as_str(), status.message.as_str()), (422, "Invalid", expected.as_str()));
    let details = status.details.unwrap();
    assert_eq!((details.kind.as_str(), details.causes[0].field.as_str()), ("LLMScaler", "spec"));
    applied(&api, &slo(&json!({}))).await.unwrap();
    assert!(applied(&api, &crossed).await.is_err(), "nor may an edit cross them");
}

#[tokio::test]
async fn the_unknown_is_dropped_or_refused() {
    let api = scalers();
    let object = slo(&json!({"minReplica": 1}));
    let refused = applied(&api, &object).await.unwrap_err().to_string();
    assert!(refused.contains(r#"strict decoding error: unknown field "spec.minReplica""#), "{refused}");
    let created = api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    assert!(created.data["spec"].get("minReplica").is_none());
    assert_eq!((created.metadata.generation, created.data.get("status")), (Some(1), None));
}
