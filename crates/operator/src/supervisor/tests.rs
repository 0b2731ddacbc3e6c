use std::sync::atomic::{AtomicBool, Ordering};

use kube::core::ObjectMeta;
use kube::core::error_boundary::InvalidObject;
use serde_json::json;
use tokio::time::Instant;

use super::*;
use crate::dashboard::History;
use crate::fake_api;
use crate::health::Health;

fn empty_list() -> serde_json::Value {
    let (version, kind) = ("autoscaling.modelsphere.dev/v1alpha1", "LLMScalerList");
    json!({"apiVersion": version, "kind": kind, "metadata": {"resourceVersion": "1"}, "items": []})
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_refused_is_not_ready_and_stays_live_until_it_is_granted() {
    let refused = Arc::new(AtomicBool::new(false));
    let asked_for = refused.clone();
    let client = fake_api::client(move |_| {
        if asked_for.load(Ordering::Relaxed) {
            fake_api::refusal(403, "Forbidden", "llmscalers is forbidden")
        } else {
            Some((200, empty_list()))
        }
    });
    let context = fake_api::context(client);
    let (health, metrics) = (Health::new(), context.metrics.clone());
    let part = health.part("watch of LLMScalers", Duration::from_secs(60));
    let mut supervisor = Supervisor::new(context, None);
    let checks = async {
        let after = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
        after(10).await;
        assert_eq!(health.ready(), Ok(()));
        // The watch goes on until it ends by itself.
        refused.store(true, Ordering::Relaxed);
        after(400).await;
        let complaint = "watch of LLMScalers keeps failing: llmscalers is forbidden";
        assert_eq!((health.live(), health.ready()), (Ok(()), Err(complaint.to_owned())));
        assert!(metrics.encode().contains("llmscaler_watch_failing{resource=\"llmscalers\",namespace=\"\"} 1"));
        refused.store(false, Ordering::Relaxed);
        after(200).await;
        assert_eq!((health.live(), health.ready()), (Ok(()), Ok(())));
        assert!(metrics.encode().contains("llmscaler_watch_failing{resource=\"llmscalers\",namespace=\"\"} 0"));
    };
    tokio::select! {
        () = supervisor.run(&part) => panic!("it has ended"),
        () = checks => {}
    }
}

#[tokio::test(start_paused = true)]
async fn objects_that_cannot_be_read_hold_up_nobody() {
    // The API server never answers.
    let mut supervisor = Supervisor::new(fake_api::context(fake_api::client(|_| None)), None);
    let metadata = |name: &str| ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let unreadable = |name: &str| DeserializeGuard(Err(InvalidObject { error: "a word".to_owned(), metadata: metadata(name) }));
    let readable = |name: &str| {
        let spec = json!({"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}, "minReplicas": 1, "maxReplicas": 2});
        let object = json!({"metadata": metadata(name), "spec": spec});
        DeserializeGuard(Ok(serde_json::from_value::<LLMScaler>(object).unwrap()))
    };
    let before = Instant::now();
    for n in 0..100 {
        supervisor.take(Event::Apply(unreadable(&n.to_string())));
    }
    supervisor.take(Event::Apply(readable("fleet")));
    assert_eq!((supervisor.tasks.running(), supervisor.tasks.reports(), before.elapsed()), (1, 100, Duration::ZERO));
    // What has been corrected or deleted is not reported on any more.
    supervisor.take(Event::Apply(readable("0")));
    supervisor.take(Event::Delete(unreadable("1")));
    supervisor.take(Event::Init);
    for name in ["fleet", "0", "2"] {
        supervisor.take(Event::InitApply(readable(name)));
    }
    supervisor.take(Event::InitDone);
    assert_eq!((supervisor.tasks.running(), supervisor.tasks.reports()), (3, 0));
    supervisor.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_on_the_dashboard_until_it_is_deleted() {
    let history = History::new();
    let client = fake_api::client(|_| fake_api::refusal(500, "InternalError", "the server could not do it"));
    let mut supervisor = Supervisor::new(Context { history: Some(history.clone()), ..fake_api::context(client) }, None);
    let unreadable = |name: &str| {
        let metadata = ObjectMeta { name: Some(name.to_owned()), namespace: Some("serving".to_owned()), ..ObjectMeta::default() };
        DeserializeGuard(Err(InvalidObject { error: "a word".to_owned(), metadata }))
    };
    let known = |names: [&str; 2]| names.map(|name| history.knows("serving", name));
    for name in ["chat", "code"] {
        supervisor.take(Event::Apply(unreadable(name)));
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(known(["chat", "code"]), [true, true]);
    supervisor.take(Event::Init);
    supervisor.take(Event::InitApply(unreadable("code")));
    supervisor.take(Event::InitDone);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(known(["chat", "code"]), [false, true], "one is missing from the list");
    supervisor.take(Event::Delete(unreadable("code")));
    assert_eq!(known(["chat", "code"]), [false, false]);
    supervisor.stop().await;
}
