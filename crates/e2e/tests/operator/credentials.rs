//! Servers behind a private authority that ask for a token: both come from the namespace's own objects, also after a change.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use llmscaler_e2e::ApiServer::{Real, Sandbox};
use llmscaler_e2e::{ApiServer, Namespace, Operator, deployment};
use rstest::rstest;
use serde_json::{Value, json};

use crate::fleet::{SOON, condition, launch_of, nothing_was_forbidden};
use crate::scaler::{merge, on_load};

/// What the operator keeps for a while of Secrets and `ConfigMap`s, and a sync.
const ROTATED: Duration = Duration::from_secs(17);

const FIRST: &str = "first-t0ken-c2VjcmV0";
const SECOND: &str = "sec0nd-token-Z2VoZWlt";

/// A Prometheus with TLS that knows one number, and tells it to whoever has the token of the moment.
struct Guarded {
    url: String,
    state: Arc<Mutex<Guard>>,
}

#[derive(Clone)]
struct Guard {
    token: &'static str,
    value: f64,
}

impl Guarded {
    async fn start(ns: &Namespace) -> Self {
        let state = Arc::new(Mutex::new(Guard { token: FIRST, value: 1.0 }));
        let app = Router::new().fallback(answer).with_state(Arc::clone(&state));
        let url = format!("https://{}", ns.extension_server("prometheus", app).await);
        Self { url, state }
    }

    fn set(&self, token: &'static str, value: f64) {
        *self.state.lock().unwrap() = Guard { token, value };
    }
}

async fn answer(State(state): State<Arc<Mutex<Guard>>>, headers: HeaderMap) -> Response {
    let Guard { token, value } = state.lock().unwrap().clone();
    let given = headers.get("authorization").and_then(|given| given.to_str().ok()).unwrap_or_default().to_owned();
    if given != format!("Bearer {token}") {
        // As some gateways do, it says what it got.
        return (StatusCode::UNAUTHORIZED, format!("not a token of this tenant: {given}")).into_response();
    }
    let sample = json!({"metric": {}, "value": [1, value.to_string()]});
    json!({"status": "success", "data": {"resultType": "vector", "result": [sample]}}).to_string().into_response()
}

/// A fleet on such a server, with an operator that says all it can say.
struct Tenant {
    operator: Operator,
    server: Guarded,
    ns: Namespace,
}

impl Tenant {
    async fn start(on: ApiServer, purpose: &str) -> Option<Self> {
        let ns = on.namespace(purpose).await?;
        ns.create(&deployment("fleet", 1)).await;
        let server = Guarded::start(&ns).await;
        let operator = launch_of(&ns).await.argument("--zap-log-level=debug").start().await;
        Some(Self { operator, server, ns })
    }

    /// The authority in ConfigMap `authority`.
    async fn trust(&self) {
        let authority: ByteString = serde_json::from_value(json!(self.ns.plane().ca_bundle())).unwrap();
        let map = json!({"metadata": {"name": "authority"}, "data": {"ca.crt": String::from_utf8(authority.0).unwrap()}});
        self.ns.create::<ConfigMap>(&serde_json::from_value(map).unwrap()).await;
    }

    /// A token in Secret `prometheus`, new or not.
    async fn token(&self, token: &str) {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "prometheus"}, "stringData": {"token": token}});
        self.ns.apply(&secret.to_string()).await;
    }

    async fn scale(&self, more: Value) {
        let mut spec = json!({
            "serverAddress": self.server.url,
            "serverHeadersFrom": [header("prometheus", "token")],
            "serverTLS": {"caFrom": {"configMapKeyRef": {"name": "authority", "key": "ca.crt"}}},
        });
        merge(&mut spec, more);
        self.ns.apply(&on_load(&self.ns, spec)).await;
    }

    async fn has_size(&self, replicas: i32) {
        let what = format!("asked to have {replicas} replicas");
        self.ns.wait_for(&self.ns.deployments(), "fleet", &what, SOON, |fleet| fleet["spec"]["replicas"] == replicas).await;
    }

    /// Waits until the reading is Unknown, and the scaler says why in these words.
    async fn is_unknown_because(&self, words: &[&str]) {
        let says = |scaler: &Value| {
            let status = &scaler["status"];
            let reading = &status["metrics"][0];
            let message = reading["message"].as_str().unwrap_or_default();
            reading["state"] == "Unknown"
                && words.iter().all(|words| message.contains(words))
                && condition(status, "Ready")["status"] == "False"
        };
        self.ns.wait_for(&self.ns.scalers(), "fleet", &format!("unknown because of {words:?}"), SOON, says).await;
    }

    /// Nothing that people, or what they collect logs with, get to see has a token in it.
    async fn told_nobody(&self) {
        let events = self.ns.api::<Event>().list(&ListParams::default()).await.unwrap();
        let scaler = self.ns.scalers().get("fleet").await.unwrap();
        for (place, text) in [
            ("the log", self.operator.log_tail(usize::MAX)),
            ("an event", serde_json::to_string(&events.items).unwrap()),
            ("the scaler", serde_json::to_string(&scaler).unwrap()),
            ("the metrics", self.operator.metrics().await),
        ] {
            assert!(!text.is_empty(), "{place}");
            for token in [FIRST, SECOND] {
                let lines: Vec<_> = text.lines().filter(|line| line.contains(token)).take(2).collect();
                assert!(lines.is_empty(), "{place} tells a token: {lines:?}");
            }
        }
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        nothing_was_forbidden(&self.operator);
    }
}

fn header(secret: &str, key: &str) -> Value {
    json!({"name": "Authorization", "prefix": "Bearer ", "secretKeyRef": {"name": secret, "key": key}})
}

#[rstest]
#[tokio::test]
async fn a_token_that_is_rotated_is_in_use_within_seconds_and_nobody_is_told_it(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(tenant) = Tenant::start(on, "rotated").await else { return };
    tenant.trust().await;
    // With the line end that `echo` adds.
    tenant.token(&format!("{FIRST}\n")).await;
    tenant.server.set(FIRST, 3.0);
    tenant.scale(json!({"maxReplicas": 3})).await;
    tenant.has_size(3).await;

    tenant.server.set(SECOND, 5.0);
    let pid = tenant.operator.pid();
    tenant.is_unknown_because(&["status 401 instead of 200"]).await;
    tenant.token(SECOND).await;
    let rotated = Instant::now();
    tenant.scale(json!({"maxReplicas": 7})).await;
    tenant.has_size(7).await;
    assert!(rotated.elapsed() <= ROTATED, "{:?}", rotated.elapsed());
    assert_eq!((tenant.operator.pid(), tenant.operator.exited()), (pid, None));
    tenant.told_nobody().await;
}

#[rstest]
#[tokio::test]
async fn what_is_missing_of_the_credentials_is_named_and_used_as_soon_as_it_is_there(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(tenant) = Tenant::start(on, "missing").await else { return };
    tenant.server.set(FIRST, 4.0);
    tenant.scale(json!({"maxReplicas": 4})).await;
    tenant.is_unknown_because(&["there is no Secret prometheus in namespace", tenant.ns.name()]).await;
    tenant.token(FIRST).await;
    tenant.is_unknown_because(&["there is no ConfigMap authority in namespace"]).await;
    tenant.scale(json!({"maxReplicas": 4, "serverHeadersFrom": [header("prometheus", "bearer")]})).await;
    tenant.is_unknown_because(&["Secret prometheus has no key \"bearer\"; it has token"]).await;
    // Without the authority the certificate is nobody's.
    tenant.scale(json!({"maxReplicas": 4, "serverTLS": null})).await;
    tenant.is_unknown_because(&["certificate"]).await;
    tenant.trust().await;
    tenant.scale(json!({"maxReplicas": 4})).await;
    tenant.has_size(4).await;
    let secrets = tenant.ns.api::<Secret>().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(secrets.len(), 1);
    tenant.told_nobody().await;
}
