//! The real operator on the sandbox, over HTTP: it reads its pods' pages and scales.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what helps a test may fail it")]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams, PostParams};
use kube::{Client, Config};
use llmscaler_api::LLMScaler;
use llmscaler_operator::{Clock, LeaderElection, Options};
use llmscaler_sandbox::{Controllers, Sandbox, after};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// Serves how many requests wait at each pod, and answers the port.
async fn page(waiting: Arc<AtomicU32>) -> u16 {
    let text = async move || {
        let waiting = waiting.load(Ordering::Relaxed);
        format!("vllm:num_requests_waiting{{model_name=\"m\"}} {waiting}\nvllm:num_requests_running{{model_name=\"m\"}} 1\n")
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/metrics", get(text))).await.unwrap() });
    port
}

fn typed<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds().await {
        assert!(Instant::now() < end, "{what} did not come about");
        sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn the_operator_scales_a_fleet_up_and_down() {
    let stop = CancellationToken::new();
    let sandbox = Sandbox::new().unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(sandbox.clone().serve(listener, stop.clone()));
    let life = after(IpAddr::V4(Ipv4Addr::LOCALHOST), Duration::from_secs(1), Duration::ZERO);
    tokio::spawn(Controllers::new(&sandbox, life).run(Duration::from_millis(100), stop.clone()));
    let client = Client::try_from(Config::new(format!("http://{address}").parse().unwrap())).unwrap();

    let waiting = Arc::new(AtomicU32::new(7));
    let port = page(waiting.clone()).await;
    let template = json!({"metadata": {"labels": {"app": "fleet"}}, "spec": {"containers": [{"name": "server", "image": "i:1"}]}});
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": "fleet"}}, "template": template});
    let fleet = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "fleet"}, "spec": spec});
    deployments.create(&PostParams::default(), &typed(fleet)).await.unwrap();
    let scalers: Api<LLMScaler> = Api::default_namespaced(client.clone());
    let spec = json!({
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "fleet"},
        "metricProvider": "Scrape",
        "preset": {"name": "vLLM"},
        "scrape": {"port": port},
        "minReplicas": 1,
        "maxReplicas": 4,
        "syncPeriodSeconds": 1,
        "metrics": [{"name": "queue", "signal": "queuedRequests", "metricType": "AverageValue", "target": "5"}],
    });
    let scaler =
        json!({"apiVersion": "autoscaling.modelsphere.dev/v1alpha1", "kind": "LLMScaler", "metadata": {"name": "fleet"}, "spec": spec});
    scalers.create(&PostParams::default(), &typed(scaler)).await.unwrap();

    let election = LeaderElection { namespace: "default".into(), name: "llmscaler".into(), identity: "a".into() };
    let options = Options {
        health: None,
        metrics: None,
        dashboard: None,
        external_metrics: None,
        namespace: None,
        leader_election: Some(election),
        clock: Clock::start(),
    };
    let operator = tokio::spawn(llmscaler_operator::run(client.clone(), options, stop.clone()));

    let ready = async |wanted: i32| {
        let status = deployments.get("fleet").await.unwrap().status.unwrap_or_default();
        status.ready_replicas.unwrap_or(0) == wanted && status.replicas.unwrap_or(0) == wanted
    };
    // 7 wait at each pod, whatever their number: more and more, until there may be no more.
    until("the scale-up to 4", async || ready(4).await).await;
    waiting.store(0, Ordering::Relaxed);
    until("the scale-down to 1", async || ready(1).await).await;
    until("the status", async || {
        let status = scalers.get("fleet").await.unwrap().status.unwrap_or_default();
        status.desired_replicas == Some(1)
            && status.conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    })
    .await;
    let fleet = deployments.get("fleet").await.unwrap();
    let owners = fleet.metadata.managed_fields.unwrap();
    let size = owners.iter().find(|entry| entry.subresource.as_deref() == Some("scale")).unwrap();
    assert_eq!(size.manager.as_deref(), Some("llmscaler"));
    let events = Api::<Event>::default_namespaced(client).list(&ListParams::default()).await.unwrap().items;
    assert!(events.iter().any(|event| event.reason.as_deref() == Some("SuccessfulRescale")), "{events:?}");

    stop.cancel();
    operator.await.unwrap().unwrap();
    server.await.unwrap().unwrap();
}
