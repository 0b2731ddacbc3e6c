//! An API server for tests: answers what a closure says.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use kube::runtime::events::Reporter;
use llmscaler_api::TargetRef;
use serde_json::{Value, json};
use tower::service_fn;

use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::context::Context;
use crate::credentials::Credentials;
use crate::health::Health;
use crate::lease::Claim;
use crate::metrics::Metrics;
use crate::owners::Owners;
use crate::services::Services;

/// One request.
pub(crate) struct Asked {
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// `null` where there is none.
    pub body: Value,
}

/// A client of an API server that answers with a status code and an object, or, for `None`, never. A watch that is granted shows
/// nothing, and ends after a minute.
pub(crate) fn client(answer: impl Fn(Asked) -> Option<(u16, Value)> + Send + Sync + 'static) -> Client {
    let answer = Arc::new(answer);
    let service = service_fn(move |request: Request<Body>| {
        let answer = answer.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = serde_json::from_slice(&body.collect_bytes().await.unwrap_or_default()).unwrap_or_default();
            let path = head.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
            let watch = path.contains("watch=");
            match answer(Asked { method: head.method, path, body }) {
                Some((200, _)) if watch => {
                    tokio::time::sleep(Duration::from_secs(60)).await;
                    Ok::<_, Infallible>(Response::new(Body::empty()))
                }
                Some((code, object)) => {
                    let mut response = Response::new(Body::from(object.to_string().into_bytes()));
                    *response.status_mut() = code.try_into().unwrap_or_default();
                    Ok(response)
                }
                None => std::future::pending().await,
            }
        }
    });
    Client::new(service, "default")
}

/// A refusal.
pub(crate) fn refusal(code: u16, reason: &str, message: &str) -> Option<(u16, Value)> {
    let kind = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure"});
    let mut status = json!({"reason": reason, "message": message, "code": code});
    status.as_object_mut()?.extend(kind.as_object()?.clone());
    Some((code, status))
}

/// What scalers share, with this client, and without a lease.
pub(crate) fn context(client: Client) -> Context {
    let metrics = Metrics::new();
    Context {
        cluster: Cluster::new(client.clone(), Health::new(), metrics.clone(), None),
        credentials: Credentials::new(client.clone()),
        services: Services::new(client.clone()),
        readings: None,
        metrics,
        external_metrics: None,
        history: None,
        reporter: Reporter { controller: "llmscaler".to_owned(), instance: None },
        clock: Clock::start(),
        owners: Owners::new(),
        claim: Claim::always(),
        client,
    }
}

/// The fleet that tests scale: of a custom kind without `spec.replicas`, whose size is in its scale subresource.
pub(crate) struct Fleet {
    pub size: AtomicU32,
    /// Its controller has not seen the newest spec yet.
    pub rolling: AtomicBool,
    /// Its pods may not be watched any more.
    pub unseen: AtomicBool,
    /// The UID and the generation of its scaler, or the code that a read of it is refused with.
    pub scaler: Mutex<Result<(&'static str, i64), u16>>,
    /// What its scale subresource answers to a read and to a write.
    pub scale: Mutex<(u16, u16)>,
    asked: Mutex<Vec<String>>,
}

impl Fleet {
    pub(crate) fn new(size: u32, rolling: bool) -> Arc<Self> {
        let (size, rolling) = (AtomicU32::new(size), AtomicBool::new(rolling));
        let (unseen, scaler, scale) = (AtomicBool::new(false), Mutex::new(Ok(("s", 1))), Mutex::new((200, 200)));
        Arc::new(Self { size, rolling, unseen, scaler, scale, asked: Mutex::default() })
    }

    pub(crate) fn target() -> TargetRef {
        TargetRef { group: "example.com".into(), version: "v1".into(), kind: "Engine".into(), name: "fleet".into() }
    }

    /// The requests since the last call whose paths contain `part`, as `METHOD path`, without queries.
    pub(crate) fn asked(&self, part: &str) -> Vec<String> {
        let asked = std::mem::take(&mut *self.asked.lock().unwrap_or_else(PoisonError::into_inner));
        asked.into_iter().filter(|request| request.contains(part)).collect()
    }

    pub(crate) fn context(self: &Arc<Self>) -> Context {
        let fleet = self.clone();
        context(client(move |asked| fleet.answer(asked)))
    }

    pub(crate) fn object(&self) -> Value {
        let observed = if self.rolling.load(Ordering::Relaxed) { 1 } else { 2 };
        let metadata = json!({"name": "fleet", "namespace": "serving", "uid": "u", "generation": 2, "resourceVersion": "5"});
        let status = json!({"observedGeneration": observed, "readyReplicas": self.size.load(Ordering::Relaxed)});
        json!({"apiVersion": "example.com/v1", "kind": "Engine", "metadata": metadata, "spec": {"size": 2}, "status": status})
    }

    fn answer(&self, asked: Asked) -> Option<(u16, Value)> {
        let path = asked.path.split('?').next().unwrap_or_default().to_owned();
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{} {path}", asked.method));
        let list = |items: Value| Some((200, json!({"metadata": {"resourceVersion": "1"}, "items": items})));
        let (read, write) = *self.scale.lock().unwrap_or_else(PoisonError::into_inner);
        match path.strip_prefix("/apis/example.com/v1").map(|rest| rest.trim_start_matches("/namespaces/serving/")) {
            Some("") => {
                let resource = |name: &str| json!({"name": name, "kind": "Engine", "namespaced": true, "singularName": "", "verbs": []});
                let resources = [resource("engines"), resource("engines/scale")];
                Some((200, json!({"kind": "APIResourceList", "groupVersion": "example.com/v1", "resources": resources})))
            }
            Some("engines") => list(json!([self.object()])),
            Some("engines/fleet") => Some((200, self.object())),
            Some("engines/fleet/scale") => match (asked.method == Method::GET, read, write) {
                (true, 200, _) => Some((200, json!({"metadata": {}, "spec": {"replicas": self.size.load(Ordering::Relaxed)}}))),
                (false, _, 200) => Some((200, json!({"metadata": {}, "spec": asked.body["spec"]}))),
                (true, code, _) | (false, _, code) => {
                    let reason = if code == 409 { "Conflict" } else { "" };
                    refusal(code, reason, "the server could not do it")
                }
            },
            None if path.ends_with("/pods") && self.unseen.load(Ordering::Relaxed) => refusal(403, "Forbidden", "pods is forbidden"),
            None if asked.method == Method::GET && path.ends_with("/llmscalers/fleet") => {
                match *self.scaler.lock().unwrap_or_else(PoisonError::into_inner) {
                    Ok((uid, generation)) => {
                        Some((200, json!({"metadata": {"name": "fleet", "namespace": "serving", "uid": uid, "generation": generation}})))
                    }
                    Err(code) => refusal(code, if code == 404 { "NotFound" } else { "" }, "no"),
                }
            }
            _ if asked.method == Method::GET => list(json!([])),
            // Events and the status of the scaler.
            _ => Some((200, asked.body)),
        }
    }
}
