//! How long an HPA takes to decide after a metric has changed, fed by the operator and by a server that knows the value at once.
//!
//! Run by hand: `cargo test -p llmscaler-e2e --test operator hpa_figure -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use llmscaler_e2e::{ControlPlane, DecisionServer, Namespace, deployment, eventually};
use serde_json::{Value, json};

use crate::hpa_plane;
use crate::metrics_adapter::Adapter;

/// The one metric of the generated HPA.
const METRIC: &str = "llmscaler-fleet-decision";
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
    let adapter = Adapter::start(&ns).await;
    adapter.set(METRIC, SIZES[0]);
    ns.create(&deployment("fleet", SIZES[0] as i32)).await;
    let hpa =
        json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "fleet"}, "spec": hpa["spec"]});
    ns.apply(&hpa.to_string()).await;
    times(&ns, |size| adapter.set(METRIC, size)).await
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
