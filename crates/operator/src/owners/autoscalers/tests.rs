use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::*;
use crate::fake_api;

pub(in crate::owners) fn fleet() -> TargetRef {
    TargetRef { group: "apps".into(), version: "v1".into(), kind: "Deployment".into(), name: "fleet".into() }
}

pub(in crate::owners) fn hpa(name: &str, namespace: &str, to: Value, maker: Option<Value>) -> Value {
    let owners: Vec<Value> = maker.into_iter().collect();
    let metadata = json!({"name": name, "namespace": namespace, "uid": name, "ownerReferences": owners});
    json!({"metadata": metadata, "spec": {"maxReplicas": 9, "scaleTargetRef": to}})
}

pub(in crate::owners) fn owner(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": "o", "controller": true})
}

pub(in crate::owners) fn to(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "name": name})
}

/// An API server with HPAs, and with KEDA's objects while it is installed.
pub(in crate::owners) struct Server {
    hpas: Value,
    pub keda: AtomicBool,
    pub scaled_objects: Mutex<Value>,
    /// Questions for KEDA, and requests for its objects.
    asked: [AtomicUsize; 2],
}

impl Server {
    pub fn new(hpas: Value) -> Arc<Self> {
        let asked = [AtomicUsize::new(0), AtomicUsize::new(0)];
        Arc::new(Self { hpas, keda: AtomicBool::new(false), scaled_objects: Mutex::new(json!([])), asked })
    }

    pub fn watched(self: &Arc<Self>, namespace: Option<&str>) -> Autoscalers {
        let server = self.clone();
        let client = fake_api::client(move |asked| server.answer(asked.path.split('?').next().unwrap_or_default()));
        let namespace = namespace.map(str::to_owned);
        Autoscalers::watch(Watches { client, namespace, health: Health::new(), metrics: Metrics::new() })
    }

    fn answer(&self, path: &str) -> Option<(u16, Value)> {
        let list = |items: &Value| Some((200, json!({"metadata": {"resourceVersion": "1"}, "items": items})));
        let keda = self.keda.load(Ordering::Relaxed);
        match path.strip_prefix("/apis/keda.sh/v1alpha1") {
            None if path.ends_with("/horizontalpodautoscalers") => list(&self.hpas),
            Some(rest) => {
                self.asked[usize::from(!rest.is_empty())].fetch_add(1, Ordering::Relaxed);
                match (keda, rest) {
                    (false, _) => fake_api::refusal(404, "", "404 page not found"),
                    (true, "") => {
                        let resource =
                            json!({"name": "scaledobjects", "kind": "ScaledObject", "namespaced": true, "singularName": "", "verbs": []});
                        Some((200, json!({"groupVersion": "keda.sh/v1alpha1", "resources": [resource]})))
                    }
                    (true, _) => list(&self.scaled_objects.lock().unwrap()),
                }
            }
            None => fake_api::refusal(404, "NotFound", path),
        }
    }

    fn asked(&self) -> [usize; 2] {
        [0, 1].map(|which: usize| self.asked[which].swap(0, Ordering::Relaxed))
    }
}

fn fact(autoscalers: &Autoscalers, namespace: &str) -> Option<String> {
    autoscalers.of(namespace, &fleet()).map(|rival| rival.fact)
}

#[tokio::test(start_paused = true)]
async fn an_hpa_is_found_by_what_it_scales() {
    let deployment = to("apps/v1", "Deployment", "fleet");
    let server = Server::new(json!([
        hpa("chat", "serving", deployment.clone(), None),
        // The same name in another namespace is another object.
        hpa("chat", "elsewhere", to("apps/v1", "Deployment", "other"), None),
        hpa("old", "older", to("apps/v1beta1", "Deployment", "fleet"), None),
        hpa("set", "sets", to("apps/v1", "StatefulSet", "fleet"), None),
        hpa("foreign", "groups", to("example.com/v1", "Deployment", "fleet"), None),
        hpa("ours", "ours", deployment.clone(), Some(owner("autoscaling.modelsphere.dev/v1alpha1", "LLMScaler", "fleet"))),
        hpa("keda-hpa-chat", "keda", deployment.clone(), Some(owner("keda.sh/v1alpha1", "ScaledObject", "chat"))),
        hpa("predictor", "kserve", deployment, Some(owner("serving.kserve.io/v1beta1", "InferenceService", "llm"))),
    ]));
    let autoscalers = server.watched(None);
    autoscalers.listed().await;
    for (namespace, expected) in [
        ("serving", Some("HorizontalPodAutoscaler chat scales Deployment fleet too")),
        ("elsewhere", None),
        ("older", Some("HorizontalPodAutoscaler old scales Deployment fleet too")),
        ("sets", None),
        ("groups", None),
        ("ours", None),
        ("keda", Some("ScaledObject chat scales Deployment fleet too")),
        ("kserve", Some("InferenceService llm scales Deployment fleet too")),
    ] {
        assert_eq!(fact(&autoscalers, namespace).as_deref(), expected, "{namespace}");
    }
}

#[tokio::test(start_paused = true)]
async fn keda_is_looked_for_now_and_then_and_watched_while_it_is_there() {
    let server = Server::new(json!([]));
    let autoscalers = server.watched(Some("serving"));
    autoscalers.listed().await;
    assert_eq!(fact(&autoscalers, "serving"), None);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let [questions, requests] = server.asked();
    assert!((100..=121).contains(&questions) && requests == 0, "{questions} {requests}");

    let metadata = json!({"name": "chat", "namespace": "serving", "uid": "c"});
    *server.scaled_objects.lock().unwrap() = json!([{"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": metadata, "spec": {"scaleTargetRef": {"name": "fleet"}}}]);
    server.keda.store(true, Ordering::Relaxed);
    tokio::time::sleep(RECHECK + Duration::from_secs(1)).await;
    assert_eq!(fact(&autoscalers, "serving").as_deref(), Some("ScaledObject chat scales Deployment fleet too"));

    server.keda.store(false, Ordering::Relaxed);
    tokio::time::sleep(RECHECK + Duration::from_secs(1)).await;
    assert_eq!(fact(&autoscalers, "serving"), None);
    server.asked();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(server.asked()[1], 0, "what is gone is not asked for");
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_answer_holds_up_the_first_sync_for_some_seconds_only() {
    let watches = Watches { client: fake_api::client(|_| None), namespace: None, health: Health::new(), metrics: Metrics::new() };
    let autoscalers = Autoscalers::watch(watches);
    for expected in [PATIENCE, Duration::ZERO] {
        let before = Instant::now();
        autoscalers.listed().await;
        assert_eq!(before.elapsed(), expected);
    }
    let refused = fake_api::client(|_| fake_api::refusal(403, "Forbidden", "horizontalpodautoscalers is forbidden"));
    let watches = Watches { client: refused, namespace: None, health: Health::new(), metrics: Metrics::new() };
    let autoscalers = Autoscalers::watch(watches);
    let before = Instant::now();
    autoscalers.listed().await;
    assert!(before.elapsed() < Duration::from_secs(1), "a refusal is an answer");
}
