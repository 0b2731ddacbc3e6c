//! How the sandbox refuses what the resource does not allow. What it refuses is compared with a real server's answers in
//! `crates/e2e/tests/resource.rs`.

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

/// The object with one more field in its spec.
fn scaler(field: &str, value: i64) -> Value {
    let mut spec = json!({
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "fleet"},
        "serverAddress": "http://prometheus:9090",
        "minReplicas": 3,
        "maxReplicas": 8,
        "metrics": [{"query": "sum(q)", "target": "5"}],
    });
    spec[field] = value.into();
    json!({"apiVersion": "autoscaling.modelsphere.dev/v1alpha1", "kind": "LLMScaler", "metadata": {"name": "fleet"}, "spec": spec})
}

#[tokio::test]
async fn bounds_that_cross_are_refused_and_a_refusal_says_where() {
    let api = scalers();
    let crossed = scaler("minReplicas", 9);
    let kube::Error::Api(status) = applied(&api, &crossed).await.unwrap_err() else { panic!("another error") };
    let why = "minReplicas must not be above maxReplicas; lower minReplicas or raise maxReplicas";
    let expected = format!("LLMScaler.autoscaling.modelsphere.dev \"fleet\" is invalid: spec: Invalid value: {why}");
    assert_eq!((status.code, status.reason.as_str(), status.message.as_str()), (422, "Invalid", expected.as_str()));
    let details = status.details.unwrap();
    assert_eq!((details.kind.as_str(), details.causes[0].field.as_str()), ("LLMScaler", "spec"));
    applied(&api, &scaler("minReplicas", 3)).await.unwrap();
    assert!(applied(&api, &crossed).await.is_err(), "nor may an edit cross them");
}

#[tokio::test]
async fn the_unknown_is_dropped_or_refused() {
    let api = scalers();
    let object = scaler("minReplica", 1);
    let refused = applied(&api, &object).await.unwrap_err().to_string();
    assert!(refused.contains(r#"strict decoding error: unknown field "spec.minReplica""#), "{refused}");
    let created = api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    assert!(created.data["spec"].get("minReplica").is_none());
    assert_eq!((created.metadata.generation, created.data.get("status")), (Some(1), None));
}
