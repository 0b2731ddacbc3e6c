//! What cannot work is refused twice, by the API server and by `parse`, in the same words and at the same field.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "what helps a test may fail it")]

use kube::CustomResourceExt;
use kube::core::cel::Validator;
use llmscaler_api::{Invalid, LLMScaler, parse_json};
use serde_json::{Value, json};

fn valid() -> Value {
    json!({
        "apiVersion": "autoscaling.modelsphere.dev/v1alpha1",
        "kind": "LLMScaler",
        "metadata": {"name": "vllm", "namespace": "serving"},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "vllm"},
            "serverAddress": "http://prometheus.monitoring.svc:9090",
            "minReplicas": 1,
            "maxReplicas": 5,
            "metrics": [{"name": "kv", "query": "avg(kv)", "target": "0.8"}],
        },
    })
}

fn slo() -> Value {
    let mut document = valid();
    document["spec"]["preset"] = json!({"name": "llm-d-EPP", "matchLabels": {"service": "pool-a-epp"}});
    document["spec"]["slo"] = json!({"ttft": "3s", "tpot": "100ms"});
    document["spec"]["serverHeadersFrom"] = json!([{"name": "X", "prefix": "Bearer ", "secretKeyRef": {"name": "a", "key": "b"}}]);
    document["spec"]["serverTLS"] = json!({"caFrom": {"secretKeyRef": {"name": "a", "key": "ca.crt"}}});
    document["spec"].as_object_mut().unwrap().remove("metrics");
    document
}

fn scrape() -> Value {
    let mut document = valid();
    document["spec"]["metricProvider"] = json!("Scrape");
    document["spec"]["scrape"] = json!({"eppService": {"name": "pool-a-epp"}});
    document["spec"]["preset"] = json!({"name": "vLLM"});
    document["spec"]["metrics"] = json!([{"signal": "queuedRequests", "target": "5", "metricType": "AverageValue"}]);
    document["spec"].as_object_mut().unwrap().remove("serverAddress");
    document
}

fn custom() -> Value {
    let mut document = valid();
    document["spec"]["metricProvider"] = json!("Custom");
    document["spec"]["customProvider"] = json!({"serviceId": "vllm"});
    document["spec"].as_object_mut().unwrap().remove("metrics");
    document
}

/// The document with `value` at `path` below its spec ("metrics[0].target"); missing objects are made, null removes.
fn with(mut document: Value, path: &str, value: Value) -> Value {
    let mut place = &mut document["spec"];
    for step in path.split('.') {
        let (name, index) = match step.split_once('[') {
            Some((name, index)) => (name, index.trim_end_matches(']').parse::<usize>().ok()),
            None => (step, None),
        };
        place = &mut place[name];
        if let Some(index) = index {
            place = &mut place[index];
        }
    }
    *place = value;
    document
}

/// How the API server judges the document: the schema first, then its CEL rules.
fn admitted(document: &Value) -> Result<(), Vec<Invalid>> {
    let scaler = parse_json(document.clone()).map_err(|invalid| vec![invalid])?;
    let schema = LLMScaler::crd().spec.versions.remove(0).schema.unwrap().open_api_v3_schema.unwrap();
    let failures = Validator::new().validate(&serde_json::to_value(schema).unwrap(), &serde_json::to_value(scaler).unwrap(), None);
    let as_invalid = |e: &kube::core::cel::ValidationError| Invalid { field: e.field_path.clone(), message: e.message.clone() };
    failures.map_err(|failures| failures.as_slice().iter().map(as_invalid).collect())
}

/// As stored by an API server that knows the types only.
fn stored(document: &Value) -> LLMScaler {
    serde_json::from_value(document.clone()).unwrap()
}

#[test]
fn the_base_documents_are_valid() {
    for document in [valid(), custom(), slo(), scrape()] {
        assert_eq!(admitted(&document), Ok(()));
        stored(&document).parse().unwrap();
    }
}

#[test]
fn api_server_and_parse_refuse_the_same() {
    let rows: &[(&str, Value)] = &[
        ("targetRef.apiVersion", json!("a/b/c")),
        ("targetRef.apiVersion", json!("")),
        ("targetRef.apiVersion", json!("/v1")),
        ("targetRef.apiVersion", json!("apps/")),
        ("targetRef.apiVersion", json!("apps /v1")),
        ("targetRef.kind", json!("")),
        ("targetRef.name", json!(" ")),
        ("serverAddress", json!("")),
        ("serverAddress", json!("prometheus.monitoring.svc:9090")),
        ("serverAddress", json!("ftp://prometheus")),
        ("serverAddress", json!("http://")),
        ("serverAddress", json!("http:///path")),
        ("serverAddress", json!("http://:9090")),
        ("serverAddress", json!("http://prometheus?tenant=a")),
        ("serverAddress", json!("http://prometheus#top")),
        ("serverAddress", json!("http://prome theus")),
        ("serverAddress", json!(" http://prometheus")),
        ("syncPeriodSeconds", json!(-1)),
        ("retryPeriodSeconds", json!(-5)),
        ("metrics", json!([])),
        ("metrics[0].query", json!(" ")),
        ("metrics[0].target", json!("80%")),
        ("metrics[0].target", json!("80 %")),
        ("metrics[0].target", json!("0")),
        ("metrics[0].target", json!("-1")),
        ("metrics[0].target", json!("NaN")),
        ("metrics[0].target", json!("+Inf")),
        ("metrics[0].target", json!("abc")),
        ("metrics[0].target", json!("")),
        ("metrics[0].target", json!("1_000")),
        ("metrics[0].target", json!("1e400")),
        ("metrics[0].target", json!("1e-400")),
        ("metrics[0].target", json!("0x1p-2")),
        ("metrics[0].activation", json!("one")),
        ("metrics[0].activation", json!("Inf")),
        ("metrics[0].activation", json!("-1e400")),
        ("scaleDown", json!({"stabilizationWindowSeconds": -1})),
        ("behavior", json!({"scaleUp": {"stabilizationWindowSeconds": -1}})),
        ("behavior", json!({"scaleDown": {"stabilizationWindowSeconds": 3700}})),
        ("behavior", json!({"scaleDown": {"policies": []}})),
        ("behavior", json!({"scaleDown": {"policies": [{"type": "Pods", "value": 0, "periodSeconds": 60}]}})),
        ("behavior", json!({"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 0}]}})),
        ("behavior", json!({"scaleUp": {"policies": [{"type": "Percent", "value": 1, "periodSeconds": 1801}]}})),
        ("behavior", json!({"scaleUp": {"tolerance": "-0.1"}})),
        ("behavior", json!({"scaleUp": {"tolerance": "10%"}})),
        ("behavior", json!({"scaleDown": {"tolerance": -1}})),
        ("idle", json!({"cooldownSeconds": -1})),
        ("fallback", json!({"failureThreshold": -1, "replicas": 1})),
        ("fallback", json!({"failureThreshold": 1, "replicas": -1})),
    ];
    for (path, value) in rows {
        refused_alike(&with(valid(), path, value.clone()));
    }
    for (path, value) in [
        ("customProvider", Value::Null),
        ("customProvider.serviceId", json!("")),
        ("customProvider.path", json!("/decisions?all=1")),
        ("customProvider.path", json!("/decisions#top")),
    ] {
        refused_alike(&with(custom(), path, value));
    }
}

#[test]
fn what_an_hpa_has_no_room_for_is_refused_alike() {
    let hpa = with(valid(), "actuation", json!("HorizontalPodAutoscaler"));
    for target in ["0.8", ".125", "16", "+5.10", "1000000000000"] {
        let fits = with(hpa.clone(), "metrics[0].target", json!(target));
        assert_eq!((admitted(&fits), stored(&fits).parse().map(|_| ())), (Ok(()), Ok(())), "{target}");
    }
    for (path, value) in [
        ("maxReplicas", json!(0)),
        ("metrics[0].target", json!("0.0005")),
        ("metrics[0].target", json!("1e-3")),
        ("metrics[0].target", json!("1000000000001")),
        ("scaleDown", json!({"stabilizationWindowSeconds": 3601})),
        ("syncPeriodSeconds", json!(1801)),
    ] {
        let document = with(with(hpa.clone(), "minReplicas", json!(0)), path, value);
        refused_alike(&document);
        let direct = with(document, "actuation", json!("Direct"));
        assert_eq!((admitted(&direct), stored(&direct).parse().map(|_| ())), (Ok(()), Ok(())), "{path}");
    }
    for (path, value) in [("scaleDown", json!({"stabilizationWindowSeconds": 3601})), ("syncPeriodSeconds", json!(1801))] {
        let paced = with(with(hpa.clone(), "behavior", json!({})), path, value);
        assert_eq!((admitted(&paced), stored(&paced).parse().map(|_| ())), (Ok(()), Ok(())), "{path}");
    }
}

#[test]
fn an_slo_is_refused_alike() {
    let rows: &[(&str, Value)] = &[
        ("preset", Value::Null),
        ("preset.matchLabels", json!({"": "a"})),
        ("slo", json!({})),
        ("slo.ttft", json!("3")),
        ("slo.ttft", json!("0s")),
        ("slo.ttft", json!("-3s")),
        ("slo.ttft", json!("1s1m")),
        ("slo.tpot", json!("")),
        ("slo.quantile", json!("0")),
        ("slo.quantile", json!("1")),
        ("slo.quantile", json!("90%")),
        ("slo.scaleUpAt", json!("0")),
        ("slo.scaleUpAt", json!("55%")),
        ("slo.scaleUpAt", json!("0.40")),
        ("slo.scaleUpAt", json!("2.5")),
        ("slo.scaleDownAt", json!("-0.4")),
        ("slo.scaleDownAt", json!("0.6")),
        ("slo.clamp", json!("0.5")),
        ("slo.clamp", json!("two")),
        ("slo.smoothing", json!("45")),
        ("slo.smoothing", json!("")),
        ("slo.smoothing", json!("1h1ms")),
        ("slo.ttftQuery", json!(" ")),
        ("slo", json!({"ttft": "3s", "tpotQuery": "q"})),
        ("slo", json!({"ttft": "3s", "ttftQuery": "q", "saturationQuery": "q"})),
        ("slo.profile", json!("qwen3-32b-h100-tp2")),
        ("slo.objective", json!("0.99")),
        ("metricProvider", json!("Custom")),
        ("serverHeadersFrom[0].name", json!("X:")),
        ("serverHeadersFrom[0].prefix", json!("a\n")),
        ("serverHeadersFrom[0].secretKeyRef.name", json!("")),
        ("serverHeadersFrom[0].secretKeyRef.key", json!(" ")),
        ("serverTLS.caFrom", json!({})),
        ("serverTLS.caFrom.configMapKeyRef", json!({"name": "a", "key": "b"})),
        ("serverTLS.clientCertificateSecretName", json!("")),
        ("serverTLS.serverName", json!(" ")),
        ("metrics", json!([{"target": "1"}])),
        ("metrics", json!([{"query": "q", "signal": "queuedRequests", "target": "1"}])),
        ("serverAddress", Value::Null),
    ];
    for (path, value) in rows {
        let mut document = with(slo(), path, value.clone());
        if *path == "metricProvider" {
            document["spec"]["customProvider"] = json!({"serviceId": "vllm"});
        }
        refused_alike(&document);
    }
    let header = json!({"name": "x", "secretKeyRef": {"name": "a", "key": "b"}});
    refused_alike(&with(slo(), "serverHeadersFrom", json!([header, {"name": "X", "secretKeyRef": {"name": "a", "key": "c"}}])));
}

#[test]
fn headroom_is_refused_alike() {
    let headroom = || with(slo(), "slo.strategy", json!("Headroom"));
    for (path, value) in [
        ("slo.objective", json!("0.5")),
        ("slo.profile", json!("llama-3.1-8b-l4")),
        ("syncPeriodSeconds", json!(15)),
        ("syncPeriodSeconds", json!(0)),
        ("slo.saturationQuery", json!("q")),
        ("slo.ttftQuery", json!("q")),
    ] {
        let document = with(headroom(), path, value);
        assert_eq!(admitted(&document), Ok(()), "{document}");
        stored(&document).parse().unwrap();
    }
    for (path, value) in [
        ("slo.ttft", Value::Null),
        ("slo.tpot", Value::Null),
        ("slo", json!({"strategy": "Headroom", "saturationQuery": "q"})),
        ("slo.objective", json!("0.4999")),
        ("slo.objective", json!("1")),
        ("slo.objective", json!("99%")),
        ("slo.objective", json!("")),
        ("slo.clamp", json!("0.5")),
        ("syncPeriodSeconds", json!(10)),
        ("syncPeriodSeconds", json!(30)),
        ("preset", Value::Null),
    ] {
        refused_alike(&with(headroom(), path, value));
    }
    let own_queries = json!({"strategy": "Headroom", "ttft": "3s", "tpot": "100ms", "ttftQuery": "q", "tpotQuery": "q"});
    refused_alike(&with(with(slo(), "preset", Value::Null), "slo", own_queries));
    let unknown = admitted(&with(headroom(), "slo.profile", json!("llama-3.1-8b"))).unwrap_err().remove(0);
    assert_eq!(unknown.field, "spec.slo.profile");
    let refusal = stored(&with(headroom(), "slo.profile", json!("llama-3.1-8b"))).parse().unwrap_err();
    assert_eq!(refusal, unknown, "the schema and parse list the same");
    assert_eq!(admitted(&with(scrape(), "slo", json!({"strategy": "Headroom", "ttft": "3s", "tpot": "100ms"}))), Ok(()));
}

#[test]
fn signals_are_refused_alike() {
    let vllm = || with(with(valid(), "preset", json!({"name": "vLLM"})), "metrics[0].query", Value::Null);
    assert_eq!(admitted(&with(vllm(), "metrics[0].signal", json!("kvCacheUsage"))), Ok(()));
    refused_alike(&with(vllm(), "metrics[0].signal", json!("poolSaturation")));
    refused_alike(&with(with(vllm(), "metrics[0].signal", json!("kvCacheUsage")), "preset", Value::Null));
    let unknown = admitted(&with(vllm(), "metrics[0].signal", json!("queue"))).unwrap_err().remove(0);
    assert!(unknown.message.starts_with("must be queuedRequests, runningRequests, "), "{unknown}");
}

#[test]
fn what_needs_a_prometheus_is_refused_alike_without_one() {
    let rows: &[(&str, Value)] = &[
        ("preset", Value::Null),
        ("metrics", json!([])),
        ("metrics[0]", json!({"query": "q", "target": "1"})),
        ("slo", json!({"saturationQuery": "q"})),
        ("slo", json!({"ttft": "3s", "ttftQuery": "q"})),
        ("scaleDown", json!({"deletionCostQuery": "q"})),
        ("scrape.port", json!(0)),
        ("scrape.port", json!(70000)),
        ("scrape.port", json!("no_name")),
        ("scrape.path", json!("metrics")),
        ("scrape.path", json!("/metrics?x")),
        ("scrape.eppService.name", json!("")),
        ("scrape.eppService.port", json!(0)),
    ];
    for (path, value) in rows {
        refused_alike(&with(scrape(), path, value.clone()));
    }
    let router = with(scrape(), "preset.name", json!("llm-d-EPP"));
    assert_eq!(admitted(&router), Ok(()));
    refused_alike(&with(router.clone(), "scrape", Value::Null));
    refused_alike(&with(router, "scrape.eppService", Value::Null));
    assert_eq!(admitted(&with(scrape(), "scrape", Value::Null)), Ok(()), "pods have defaults");
}

fn refused_alike(document: &Value) {
    let refusal = stored(document).parse().expect_err(&document.to_string());
    let failures = admitted(document).expect_err(&document.to_string());
    assert!(
        failures.iter().any(|failure| failure.message == refusal.message && refusal.field.starts_with(&failure.field)),
        "{refusal:#?}\n{failures:#?}"
    );
    assert!(refusal.field.starts_with("spec."), "{refusal}");
}

#[test]
fn a_minimum_above_the_maximum_is_refused_unless_it_was_stored_so() {
    let document = with(valid(), "minReplicas", json!(6));
    let refusal = stored(&document).parse().unwrap_err();
    assert_eq!(refusal.to_string(), "spec.minReplicas: minReplicas must not be above maxReplicas; lower minReplicas or raise maxReplicas");
    // The local evaluation has no optional oldSelf on creation, so it only tells that the rule does not hold.
    assert!(admitted(&document).unwrap_err().iter().all(|failure| failure.field == "spec"));
}

#[test]
fn headers_are_refused_alike() {
    for (name, value) in [("", "a"), ("X Scope", "a"), ("X:", "a"), ("Ü", "a"), ("X-Token", "a\n"), ("X-Token", "a\u{0}")] {
        let document = with(valid(), "serverHeaders", json!({name: value}));
        refused_alike(&document);
    }
}

#[test]
fn the_schema_refuses_what_the_types_cannot_hold_or_should_not() {
    for (path, value, field, message) in [
        ("minReplicas", json!(-1), "spec.minReplicas", "must be 0 or more"),
        ("maxReplicas", json!(-1), "spec.maxReplicas", "must be 0 or more"),
        ("maxReplicas", json!(3_000_000_000_u32), "spec.maxReplicas", "must be at most 2147483647"),
        ("maxReplicas", json!("5"), "spec.maxReplicas", "must be a whole number, not \"5\"; take away the quotes: 5"),
        ("maxReplicas", json!(1.5), "spec.maxReplicas", "must be a whole number, not the number 1.5"),
        ("maxReplicas", Value::Null, "spec.maxReplicas", "is required"),
        ("metricProvider", json!("Graphite"), "spec.metricProvider", "must be Prometheus, Custom or Scrape, not \"Graphite\""),
        ("metrics[0].target", json!(0.8), "spec.metrics[0].target", "must be text, not the number 0.8; put it in quotes: \"0.8\""),
        ("metrics[0].metricType", json!("Sum"), "spec.metrics[0].metricType", "must be Value or AverageValue, not \"Sum\""),
        ("metrics[0].required", json!("yes"), "spec.metrics[0].required", "must be true or false, not \"yes\""),
        ("metrics[0].metrictype", json!("Value"), "spec.metrics[0].metrictype", "there is no such field; did you mean metricType?"),
        (
            "metrics[0].quantile",
            json!(1),
            "spec.metrics[0].quantile",
            "there is no such field; there are activation, metricType, name, query, required, signal and target",
        ),
        ("metric", json!([]), "spec.metric", "there is no such field; did you mean metrics?"),
        ("metrics", json!({}), "spec.metrics", "must be a list, not an object"),
        ("mode", json!("Off"), "spec.mode", "must be Auto or Recommend, not \"Off\""),
        ("scaleDown", json!({"behavior": "Cold"}), "spec.scaleDown.behavior", "must be CacheAware or None, not \"Cold\""),
        ("scaleDown", json!({"maxStepReplicas": -1}), "spec.scaleDown.maxStepReplicas", "must be 0 or more"),
        (
            "behavior",
            json!({"scaleUp": {"tolerance": 0.1}}),
            "spec.behavior.scaleUp.tolerance",
            "must be a number in quotes, not the number 0.1; put it in quotes: \"0.1\"",
        ),
        (
            "behavior",
            json!({"scaleUp": {"selectPolicy": "Avg"}}),
            "spec.behavior.scaleUp.selectPolicy",
            "must be Max, Min or Disabled, not \"Avg\"",
        ),
        (
            "serverHeaders",
            json!({"X-Scope-OrgID": 1}),
            "spec.serverHeaders.X-Scope-OrgID",
            "must be text, not the number 1; put it in quotes: \"1\"",
        ),
    ] {
        assert_eq!(admitted(&with(valid(), path, value)), Err(vec![Invalid { field: field.into(), message: message.into() }]));
    }
    for (path, value) in [("minReplicas", -1), ("maxReplicas", -1), ("scaleDown.maxStepReplicas", -1)] {
        let refusal = stored(&with(valid(), path, json!(value))).parse().unwrap_err();
        assert_eq!(refusal.field, format!("spec.{path}"));
        assert!(refusal.message.starts_with("must be 0 or more"), "{refusal}");
    }
}

#[test]
fn the_envelope_is_checked() {
    for (name, value, message) in [
        ("apiVersion", json!("autoscaling/v2"), "must be autoscaling.modelsphere.dev/v1alpha1, not \"autoscaling/v2\""),
        ("kind", json!("ScaledObject"), "must be LLMScaler, not \"ScaledObject\""),
        ("kind", Value::Null, "is required; write LLMScaler"),
        ("spec", Value::Null, "is required"),
        ("sepc", json!({}), "there is no such field; did you mean spec?"),
    ] {
        let mut document = valid();
        document[name] = value;
        assert_eq!(parse_json(document).unwrap_err(), Invalid { field: name.into(), message: message.into() });
    }
    let mut misspelt = valid();
    misspelt["metadata"]["lables"] = json!({});
    assert_eq!(parse_json(misspelt).unwrap_err().field, "metadata.lables");
    assert_eq!(parse_json(json!([])).unwrap_err().field, "");
    assert!(parse_json(json!({"apiVersion": "v1"})).unwrap_err().to_string().starts_with("apiVersion: must be "));
}
