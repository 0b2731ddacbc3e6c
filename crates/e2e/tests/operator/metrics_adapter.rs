//! An adapter of external metrics, as KEDA has one: it has the API of its cluster, and the values that a test sets.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use llmscaler_e2e::Namespace;
use serde_json::{Value, json};

use crate::hpa_plane::API_SERVICE;

const PATH: &str = "/apis/external.metrics.k8s.io/v1beta1";
/// Its Service.
const NAME: &str = "adapter";

/// By the name of the metric.
type Values = Arc<Mutex<HashMap<String, i64>>>;

/// An adapter that serves the cluster of its namespace until the test ends.
pub struct Adapter {
    values: Values,
}

impl Adapter {
    /// Takes the API of the cluster.
    pub async fn start(ns: &Namespace) -> Self {
        let values = Values::default();
        let resources =
            json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "external.metrics.k8s.io/v1beta1", "resources": []});
        let app = Router::new()
            .route(PATH, get(move || async move { Json(resources) }))
            .route(&format!("{PATH}/namespaces/{{namespace}}/{{metric}}"), get(list))
            .with_state(values.clone());
        let port = ns.extension_server(NAME, app).await.port();
        let service = json!({
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": API_SERVICE},
            "spec": {
                "group": "external.metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
                "caBundle": ns.plane().ca_bundle(), "service": {"namespace": ns.name(), "name": NAME, "port": port},
            },
        });
        ns.plane().apply(&service.to_string()).await;
        Self { values }
    }

    /// What the metric is from now on.
    pub fn set(&self, metric: &str, value: i64) {
        self.values.lock().unwrap().insert(metric.to_owned(), value);
    }
}

async fn list(State(values): State<Values>, Path((_, metric)): Path<(String, String)>) -> Result<Json<Value>, StatusCode> {
    let value = *values.lock().unwrap().get(&metric).ok_or(StatusCode::NOT_FOUND)?;
    let item = json!({"metricName": metric, "metricLabels": {}, "timestamp": "2026-01-01T00:00:00Z", "value": value.to_string()});
    Ok(Json(json!({"kind": "ExternalMetricValueList", "apiVersion": "external.metrics.k8s.io/v1beta1", "metadata": {}, "items": [item]})))
}
