//! A fleet under test: a namespace with a Deployment `fleet`, and an operator of its own with the chart's permissions.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use kube::runtime::{WatchStreamExt as _, watcher};
use llmscaler_e2e::{ApiServer, DecisionServer, Launch, Namespace, Operator, deployment, eventually};
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use crate::scaler::{on_decisions, on_load};

/// What is given up on after this has failed. It takes a second or two unless the machine is busy.
pub const SOON: Duration = Duration::from_secs(30);

/// Long enough for three syncs of one second.
pub const A_FEW_SYNCS: Duration = Duration::from_secs(3);

/// The role that the chart gives the operator.
const ROLE: &str = "config/rbac/role.yaml";

/// Starts an operator of this namespace alone, that may do what the chart's role allows there and nothing else.
pub async fn operator_of(ns: &Namespace) -> Operator {
    launch_of(ns).await.start().await
}

/// The operator of [`operator_of`], not yet started. The sandbox allows everything to everybody.
pub async fn launch_of(ns: &Namespace) -> Launch {
    if ns.server() == ApiServer::Sandbox {
        return ns.launch();
    }
    let plane = ns.plane();
    plane.apply_file(ROLE).await;
    let token = plane.service_account(ns.name(), "llmscaler").await;
    ns.apply(&binding("llmscaler", "ClusterRole", "llmscaler-manager")).await;
    // The API server needs a moment to learn of it, and an operator that is refused waits before it tries again.
    let pods = kube::Api::<Pod>::namespaced(plane.client_as(&token), ns.name());
    eventually("allowed", SOON, || async { pods.list(&ListParams::default()).await }).await;
    ns.launch().token(&token)
}

/// Gives the operator of [`operator_of`] a role.
pub fn binding(name: &str, kind: &str, role: &str) -> String {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "llmscaler"}],
    })
    .to_string()
}

/// The Deployment, its scaler and its operator.
///
/// It fails the test at its end when the operator was ever refused something by RBAC.
pub struct Fleet {
    operator: Operator,
    /// The one that came after it, if one did.
    next: Mutex<Option<Operator>>,
    ns: Namespace,
}

impl Fleet {
    /// `replicas` ready replicas and an operator, but no scaler yet; `None` when there is no control plane to test on.
    pub async fn start(on: ApiServer, purpose: &str, replicas: i32) -> Option<Self> {
        let ns = on.namespace(purpose).await?;
        ns.create(&deployment("fleet", replicas)).await;
        let operator = operator_of(&ns).await;
        let fleet = Self { operator, next: Mutex::default(), ns };
        fleet.is_serving(replicas).await;
        Some(fleet)
    }

    /// One whose namespace and operator the test has made itself.
    pub fn of(ns: Namespace, operator: Operator) -> Self {
        Self { operator, next: Mutex::default(), ns }
    }

    pub fn ns(&self) -> &Namespace {
        &self.ns
    }

    pub fn operator(&self) -> &Operator {
        &self.operator
    }

    /// Another operator in the place of the first one, which is killed.
    pub async fn restart(&self, launch: Launch) {
        // It has ports that the next one needs.
        let killed = std::process::Command::new("kill").arg("-KILL").arg(self.operator.pid().to_string()).status().unwrap();
        assert!(killed.success());
        eventually("killed", SOON, || async { self.operator.exited().ok_or("still there") }).await;
        let next = launch.start().await;
        *self.next.lock().unwrap() = Some(next);
    }

    /// Sets the load that [`on_load`] asks for, and waits until Prometheus has it.
    pub async fn load(&self, value: f64) {
        self.ns.exporter().set("load", &[], value);
        self.ns.exporter().scraped().await;
    }

    /// Creates or changes the scaler of [`on_load`].
    pub async fn scale_on_load(&self, more: Value) {
        self.ns.apply(&on_load(&self.ns, more)).await;
    }

    /// Creates or changes the scaler of [`on_decisions`].
    pub async fn scale_on_decisions(&self, server: &DecisionServer, more: Value) {
        self.ns.apply(&on_decisions(&self.ns, server, more)).await;
    }

    /// Edits the scaler, as a user does.
    pub async fn edit(&self, spec: Value) {
        self.ns.patch(&self.ns.scalers(), "fleet", &json!({"spec": spec})).await;
    }

    /// Waits until the Deployment is asked to have `replicas`.
    pub async fn has_size(&self, replicas: i32) -> Value {
        let what = format!("asked to have {replicas} replicas");
        self.ns.wait_for(&self.ns.deployments(), "fleet", &what, SOON, |fleet| fleet["spec"]["replicas"] == replicas).await
    }

    /// Waits until the Deployment has `replicas` and all of them are ready.
    pub async fn is_serving(&self, replicas: i32) -> Value {
        let ready = |fleet: &Value| {
            let count = |field: &str| fleet["status"][field].as_i64().unwrap_or(0);
            fleet["spec"]["replicas"] == replicas
                && [count("replicas"), count("readyReplicas")] == [i64::from(replicas); 2]
                && fleet["status"]["observedGeneration"] == fleet["metadata"]["generation"]
        };
        self.ns.wait_for(&self.ns.deployments(), "fleet", &format!("serving with {replicas} replicas"), SOON, ready).await
    }

    /// Watches the Deployment for a few syncs, in which its size must not change.
    pub async fn keeps_size(&self, replicas: i32) {
        let what = format!("at {replicas} replicas");
        self.ns.stays(&self.ns.deployments(), "fleet", &what, A_FEW_SYNCS, |fleet| fleet["spec"]["replicas"] == replicas).await;
    }

    /// Waits for a status of the scaler, and returns it.
    pub async fn status(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let scaler = self.ns.wait_for(&self.ns.scalers(), "fleet", what, SOON, |scaler| holds(&scaler["status"])).await;
        scaler["status"].clone()
    }

    /// The Deployment and the scaler's status as they are now.
    pub async fn looked_at(&self) -> (Value, Value) {
        let (deployments, scalers) = (self.ns.deployments(), self.ns.scalers());
        let (deployment, scaler) = tokio::try_join!(deployments.get("fleet"), scalers.get("fleet")).unwrap();
        (serde_json::to_value(deployment).unwrap(), scaler.data["status"].clone())
    }

    /// Waits for a condition of the scaler, and returns its message.
    pub async fn condition(&self, kind: &str, status: &str, reason: &str) -> String {
        let wanted = |status_: &Value| {
            let found = condition(status_, kind);
            found["status"] == status && found["reason"] == reason
        };
        let found = self.status(&format!("{kind}={status} because of {reason}"), wanted).await;
        condition(&found, kind)["message"].as_str().unwrap_or_default().to_owned()
    }

    /// The events of this reason about the scaler, oldest first.
    pub async fn events(&self, reason: &str) -> Vec<Event> {
        events(&self.ns, reason).await
    }

    /// Waits for so many events of this reason about the scaler and returns what they say.
    pub async fn notes(&self, reason: &str, count: usize) -> Vec<String> {
        eventually(&format!("{count} events {reason}"), SOON, || async {
            let notes: Vec<_> = self.events(reason).await.into_iter().map(|event| event.note.unwrap_or_default()).collect();
            if notes.len() == count { Ok(notes) } else { Err(format!("{notes:#?}")) }
        })
        .await
    }

    /// Records the sizes of the Deployment from now on.
    pub async fn sizes(&self) -> Sizes {
        Sizes::of(&self.ns).await
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        nothing_was_forbidden(&self.operator);
        if let Ok(Some(next)) = self.next.get_mut().map(|next| next.as_ref()) {
            nothing_was_forbidden(next);
        }
    }
}

/// Fails a test at its end when its operator was ever refused something by RBAC.
pub fn nothing_was_forbidden(operator: &Operator) {
    if std::thread::panicking() {
        return;
    }
    let log = operator.log_tail(usize::MAX);
    let refused: Vec<_> = log.lines().filter(|line| line.to_lowercase().contains("forbidden")).take(3).collect();
    assert!(refused.is_empty(), "{ROLE} lacks something:\n{}", refused.join("\n"));
}

/// The events of this reason about scalers, oldest first.
pub async fn events(ns: &Namespace, reason: &str) -> Vec<Event> {
    let all = ns.api::<Event>().list(&ListParams::default()).await.unwrap().items;
    let is_of_scaler = |event: &Event| event.regarding.as_ref().is_some_and(|object| object.kind.as_deref() == Some("LLMScaler"));
    let mut events: Vec<_> = all.into_iter().filter(|event| is_of_scaler(event) && event.reason.as_deref() == Some(reason)).collect();
    events.sort_by_key(|event| event.event_time.clone().map(|time| time.0));
    events
}

/// A condition of a status; `null` when there is none of the type.
pub fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
    let found = status["conditions"].as_array().and_then(|all| all.iter().find(|condition| condition["type"] == kind));
    found.unwrap_or(&Value::Null)
}

/// Every size that a Deployment was asked to have, in order, and when that was seen.
pub struct Sizes {
    seen: Arc<Mutex<Vec<(i32, Instant)>>>,
    watch: AbortHandle,
}

impl Sizes {
    async fn of(ns: &Namespace) -> Self {
        let seen = Arc::<Mutex<Vec<(i32, Instant)>>>::default();
        let kept = Arc::clone(&seen);
        let only = watcher::Config::default().fields("metadata.name=fleet");
        let mut changes = watcher(ns.deployments(), only).default_backoff().applied_objects().boxed();
        let watch = tokio::spawn(async move {
            while let Some(change) = changes.next().await {
                let size = change.ok().and_then(|fleet: Deployment| fleet.spec?.replicas);
                let mut kept = kept.lock().unwrap();
                if let Some(size) = size.filter(|size| kept.last().is_none_or(|(last, _)| last != size)) {
                    kept.push((size, Instant::now()));
                }
            }
        });
        let sizes = Self { seen, watch: watch.abort_handle() };
        eventually("watched", SOON, || async { sizes.seen().pop().ok_or("nothing seen") }).await;
        sizes
    }

    /// Those so far.
    pub fn seen(&self) -> Vec<i32> {
        self.seen.lock().unwrap().iter().map(|(size, _)| *size).collect()
    }

    /// Waits until so many sizes have been seen, each once until it changes, and checks that they are these.
    pub async fn were(&self, expected: &[i32]) {
        eventually(&format!("{expected:?}"), SOON, || async {
            let seen = self.seen();
            if seen.len() >= expected.len() { Ok(()) } else { Err(format!("{seen:?}")) }
        })
        .await;
        assert_eq!(self.seen(), expected);
    }

    /// The time between each size and the next.
    pub fn steps(&self) -> Vec<Duration> {
        self.seen.lock().unwrap().windows(2).map(|pair| pair[1].1.duration_since(pair[0].1)).collect()
    }

    /// When the last one was seen.
    pub fn since(&self) -> Instant {
        self.seen.lock().unwrap().last().unwrap().1
    }
}

impl Drop for Sizes {
    fn drop(&mut self) {
        self.watch.abort();
    }
}
