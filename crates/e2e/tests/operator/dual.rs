//! Document C's object: the endpoint picker's queue and running requests, from zero to many and back to zero.

use std::time::Duration;

use llmscaler_e2e::ApiServer::{Real, Sandbox};
use llmscaler_e2e::{ApiServer, Relay};
use rstest::rstest;
use serde_json::{Value, json};

use crate::epp::{self, Epp};
use crate::fleet::{Fleet, condition};
use crate::scaler::merge;

/// A hundredth of the guide's.
const COOLDOWN: Duration = Duration::from_secs(3);

/// The guide's object: one queued request a replica, sixteen running ones, and zero when there are neither for a while.
async fn scale(fleet: &Fleet, more: Value) {
    let mut spec = json!({
        "minReplicas": 0,
        "maxReplicas": 8,
        "preset": epp::preset(),
        "metrics": [
            {"name": "queue", "signal": "queuedRequests", "target": "1", "metricType": "AverageValue", "activation": "0"},
            {"name": "running", "signal": "runningRequests", "target": "16", "metricType": "AverageValue", "activation": "0"},
        ],
        "idle": {"cooldownSeconds": COOLDOWN.as_secs()},
    });
    merge(&mut spec, more);
    fleet.scale_on_load(spec).await;
}

/// Waits until both metrics are in these states.
async fn read(fleet: &Fleet, states: [&str; 2]) -> Value {
    let are = |status: &Value| [0, 1].map(|index| status["metrics"][index]["state"].as_str().unwrap_or_default().to_owned()) == states;
    fleet.status(&format!("{states:?}"), are).await
}

/// Waits until the queue and the running requests read as these.
async fn counted(fleet: &Fleet, values: [&str; 2]) -> Value {
    let are = |status: &Value| [0, 1].map(|index| status["metrics"][index]["value"].as_str().unwrap_or_default().to_owned()) == values;
    fleet.status(&format!("{values:?}"), are).await
}

/// The guide's way up, whoever writes the size.
pub async fn grows_from_zero_to_five(fleet: &Fleet, epp: &Epp<'_>) {
    // One request waits: it wakes the fleet. It runs, and more wait than the running ones ask for.
    epp.load(0, 1);
    fleet.is_serving(1).await;
    epp.load(10, 3);
    fleet.is_serving(3).await;
    // Nothing waits any more, and what runs asks for five: the larger need counts.
    epp.load(70, 0);
    fleet.is_serving(5).await;
}

#[rstest]
#[tokio::test]
async fn queue_and_running_requests_take_the_fleet_from_zero_to_many_and_after_the_cooldown_to_zero(
    #[values(Real, Sandbox)] on: ApiServer,
) {
    let Some(fleet) = Fleet::start(on, "dual", 0).await else { return };
    let epp = Epp::start(fleet.ns().exporter());
    fleet.ns().exporter().scraped().await;
    scale(&fleet, json!({})).await;
    let status = counted(&fleet, ["0", "0"]).await;
    assert_eq!(condition(&status, "QueriesScoped")["status"], "True", "{status}");
    assert_eq!(condition(&status, "Ready")["status"], "True", "{status}");
    let sizes = fleet.sizes().await;

    grows_from_zero_to_five(&fleet, &epp).await;
    epp.load(2, 0);
    fleet.is_serving(1).await;
    counted(&fleet, ["0", "2"]).await;

    epp.load(0, 0);
    counted(&fleet, ["0", "0"]).await;
    fleet.is_serving(0).await;
    sizes.were(&[0, 1, 3, 5, 1, 0]).await;
    // The sync that made it one still saw requests; what is seen of a sync may be late.
    let last = *sizes.steps().last().unwrap();
    assert!(last >= COOLDOWN - Duration::from_millis(500), "{last:?}");
    fleet.keeps_size(0).await;
}

#[rstest]
#[tokio::test]
async fn at_zero_neither_an_outage_nor_a_restart_of_the_picker_wakes_the_fleet(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "dual-zero", 0).await else { return };
    let relay = Relay::to(fleet.ns().plane().prometheus().url()).await;
    let epp = Epp::start(fleet.ns().exporter());
    fleet.ns().exporter().scraped().await;
    scale(&fleet, json!({"serverAddress": relay.url()})).await;
    counted(&fleet, ["0", "0"]).await;
    let sizes = fleet.sizes().await;

    relay.cut();
    read(&fleet, ["Unknown"; 2]).await;
    fleet.keeps_size(0).await;
    relay.restore().await;
    counted(&fleet, ["0", "0"]).await;
    epp.goes();
    let gone = read(&fleet, ["Unknown"; 2]).await;
    assert!(gone["metrics"][0]["message"].as_str().unwrap().contains("empty vector"), "{gone}");
    fleet.keeps_size(0).await;
    sizes.were(&[0]).await;

    epp.comes_back();
    epp.load(0, 2);
    fleet.is_serving(2).await;
    sizes.were(&[0, 2]).await;
}

#[rstest]
#[tokio::test]
async fn above_zero_neither_an_outage_nor_a_restart_of_the_picker_ends_a_replica(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "dual-busy", 3).await else { return };
    let relay = Relay::to(fleet.ns().plane().prometheus().url()).await;
    let epp = Epp::start(fleet.ns().exporter());
    epp.load(40, 0);
    fleet.ns().exporter().scraped().await;
    // With a cooldown that is over as soon as it begins.
    scale(&fleet, json!({"serverAddress": relay.url(), "idle": {"cooldownSeconds": 0}})).await;
    counted(&fleet, ["0", "40"]).await;
    let sizes = fleet.sizes().await;

    relay.cut();
    // What nobody can see does not count.
    epp.load(0, 0);
    read(&fleet, ["Unknown"; 2]).await;
    fleet.keeps_size(3).await;
    epp.load(40, 0);
    fleet.ns().exporter().scraped().await;
    relay.restore().await;
    counted(&fleet, ["0", "40"]).await;
    epp.goes();
    read(&fleet, ["Unknown"; 2]).await;
    fleet.keeps_size(3).await;

    // A picker that is back has its flow control's word that nothing waits, and what it has under way.
    epp.comes_back();
    epp.load(33, 0);
    counted(&fleet, ["0", "33"]).await;
    fleet.keeps_size(3).await;
    sizes.were(&[3]).await;
    epp.load(0, 0);
    fleet.is_serving(0).await;
    sizes.were(&[3, 0]).await;
}

#[rstest]
#[tokio::test]
async fn without_a_label_that_tells_pools_apart_nothing_is_asked_and_the_condition_names_one(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "dual-unscoped", 2).await else { return };
    let epp = Epp::start(fleet.ns().exporter());
    epp.load(400, 50);
    fleet.ns().exporter().scraped().await;
    scale(&fleet, json!({"preset": {"matchLabels": {"service": null, "model_name": "qwen3-32b"}}})).await;
    let message = fleet.condition("QueriesScoped", "False", "PoolsMayMix").await;
    assert!(message.contains("service"), "{message}");
    let status = read(&fleet, ["Unknown"; 2]).await;
    for metric in status["metrics"].as_array().unwrap() {
        assert!(metric["message"].as_str().unwrap().contains("service"), "{metric}");
    }
    fleet.keeps_size(2).await;
    // The label that it names is all that was missing.
    scale(&fleet, json!({})).await;
    fleet.condition("QueriesScoped", "True", "AllScoped").await;
    fleet.is_serving(8).await;
}
