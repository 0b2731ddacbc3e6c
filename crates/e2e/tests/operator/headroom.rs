//! The headroom strategy: replicas for what arrives, before any latency rises.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::epp::{self, Epp, HEALTHY};
use crate::fleet::{Fleet, condition};
use llmscaler_e2e::ApiServer;
use llmscaler_e2e::ApiServer::{Real, Sandbox};
use rstest::rstest;

/// Promised as in the guides; the law reckons in steps of 15 s.
fn headroom() -> Value {
    json!({
        "metrics": null,
        "minReplicas": 2,
        "maxReplicas": 8,
        "syncPeriodSeconds": 15,
        "preset": epp::preset(),
        "slo": {"strategy": "Headroom", "ttft": "3s", "tpot": "100ms"},
    })
}

/// Sends so many requests a second, each answered at once and in good time, while something is waited for.
async fn under_traffic<T>(epp: &Epp<'_>, rate: f64, waited_for: impl Future<Output = T>) -> T {
    let sending = async {
        let mut before = Instant::now();
        loop {
            let since = before.elapsed().as_secs_f64();
            before = Instant::now();
            epp.arrived(rate * since, 2000.0, 400.0);
            epp.answered(rate * since, HEALTHY);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::select! {
        waited_for = waited_for => waited_for,
        () = sending => unreachable!(),
    }
}

#[rstest]
#[tokio::test]
async fn a_fleet_grows_with_what_arrives_while_every_latency_is_good(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "headroom", 2).await else { return };
    let epp = Epp::start(fleet.ns().exporter());
    epp.load(40, 0);
    let status = under_traffic(&epp, 30.0, async {
        // A rate takes two scrapes.
        fleet.ns().exporter().scraped().await;
        fleet.ns().exporter().scraped().await;
        fleet.scale_on_load(headroom()).await;
        let grown = fleet.status("grown", |status| status["desiredReplicas"].as_i64() > Some(2)).await;
        fleet.is_serving(i32::try_from(grown["desiredReplicas"].as_i64().unwrap()).unwrap()).await;
        grown
    })
    .await;
    let metric = &status["metrics"][0];
    assert_eq!((&metric["name"], &metric["state"]), (&json!("slo"), &json!("Value")), "{status}");
    let needed: f64 = metric["value"].as_str().unwrap().parse().unwrap();
    assert!(needed > 2.0 && Some(needed.ceil() as i64) == metric["replicas"].as_i64(), "{status}");
    let account = metric["message"].as_str().unwrap();
    assert!(account.contains("load ") && account.contains("growth"), "{account}");
    assert!(status["decision"]["message"].as_str().unwrap().contains("load "), "{status}");
    assert_eq!(condition(&status, "ColdHistory")["status"], "True", "{status}");
    assert_eq!(condition(&status, "QueriesScoped")["status"], "True", "{status}");

    // Back to the band, of which these conditions tell nothing.
    fleet.edit(json!({"slo": {"strategy": "Band"}})).await;
    fleet.status("of the band", |status| condition(status, "ColdHistory").is_null()).await;
}
