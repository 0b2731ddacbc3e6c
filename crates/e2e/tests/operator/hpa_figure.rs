//! How long an HPA takes to decide after a metric has changed, fed by the operator and by a server that knows the value at once.
//!
//! Run by hand: `cargo test -p llmscaler-e2e --test operator hpa_figure -- --ignored --nocapture`.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use axum::routing::get;
use axum::{Json, Router};
use axum_server::tls_rustls::RustlsConfig;
use llmscaler_e2e::{ControlPlane, DecisionServer, Namespace, deployment, eventually};
use serde_json::{Value, json};

use crate::hpa_plane::{self, API_SERVICE};

/// Changes that are timed, between these two sizes.
const CHANGES: usize = 20;
const SIZES: [i64; 2] = [4, 6];

/// How long each change takes from the moment that the metric has it to the write of the size.
async fn times(ns: &Namespace, change: impl Fn(i64)) -> Vec<Duration> {
    let mut times = vec![];
    for round in 0..CHANGES {
        // Not in step with any period.
        tokio::time::sleep(Duration::from_millis(3000 + 137 * round as u64)).await;
        let size = SIZES[(round + 1) % 2];
        let started = Instant::now();
        change(size);
        eventually("written", Duration::from_secs(30), || async {
            let fleet = ns.deployments().get("fleet").await.unwrap();
            if fleet.spec.and_then(|spec| spec.replicas).map(i64::from) == Some(size) { Ok(()) } else { Err("not yet") }
        })
        .await;
        times.push(started.elapsed());
    }
    times.sort();
    times
}

#[allow(clippy::print_stderr, reason = "the figure is for people")]
fn said(who: &str, times: &[Duration]) {
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64();
    eprintln!("{who}: median {:.2} s, p90 {:.2} s, longest {:.2} s", at(0.5), at(0.9), at(1.0));
}

/// The generated HPA, fed by hand.
async fn fed_by_a_plain_server(hpa: Value) -> Vec<Duration> {
    let plane = ControlPlane::start().await.unwrap();
    let ns = plane.namespace("plain").await;
    let value = Arc::new(AtomicI64::new(SIZES[0]));
    let (path, served) = ("/apis/external.metrics.k8s.io/v1beta1", value.clone());
    let resources =
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "external.metrics.k8s.io/v1beta1", "resources": []});
    let values = move || async move {
        let value = served.load(Ordering::Relaxed).to_string();
        let item = json!({"metricName": "m", "metricLabels": {}, "timestamp": "2026-01-01T00:00:00Z", "value": value});
        let kind =
            json!({"kind": "ExternalMetricValueList", "apiVersion": "external.metrics.k8s.io/v1beta1", "metadata": {}, "items": [item]});
        Json(kind)
    };
    let app = Router::new()
        .route(path, get(move || async move { Json(resources) }))
        .route(&format!("{path}/namespaces/{{ns}}/{{metric}}"), get(values));
    let (certificate, key) = ns.loopback_service("plain").await;
    let tls = RustlsConfig::from_pem_file(certificate, key).await.unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(axum_server::from_tcp_rustls(listener, tls).unwrap().serve(app.into_make_service()));
    let service = json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": API_SERVICE},
        "spec": {
            "group": "external.metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
            "caBundle": plane.ca_bundle(), "service": {"namespace": ns.name(), "name": "plain", "port": port},
        },
    });
    plane.apply(&service.to_string()).await;
    ns.create(&deployment("fleet", SIZES[0] as i32)).await;
    let hpa =
        json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "fleet"}, "spec": hpa["spec"]});
    ns.apply(&hpa.to_string()).await;
    times(&ns, |size| value.store(size, Ordering::Relaxed)).await
}

#[tokio::test]
#[ignore = "a figure, of some three minutes"]
async fn from_a_change_of_the_metric_to_the_decision() {
    let Some(started) = hpa_plane::start("hpa-figure", SIZES[0] as i32).await else { return };
    let (fleet, server) = (&started.fleet, DecisionServer::start().await);
    server.decide(fleet.ns().name(), "fleet", SIZES[0]);
    fleet.scale_on_decisions(&server, json!({"actuation": "HorizontalPodAutoscaler"})).await;
    let hpa = started.hpa_condition("ScalingActive", "True", "ValidMetricFound").await;
    let ours = times(fleet.ns(), |size| server.decide(fleet.ns().name(), "fleet", size)).await;
    drop(started);
    let plain = fed_by_a_plain_server(hpa).await;
    said("operator, a sync a second", &ours);
    said("plain server", &plain);
    // A sync period is all that the operator may add, and the machine is busy.
    assert!(ours[CHANGES / 2] <= plain[CHANGES / 2] + Duration::from_secs(2), "{ours:?}\n{plain:?}");
}
