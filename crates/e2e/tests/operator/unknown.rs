//! Sources that cannot be read: whatever the reason, the fleet stays as it is and the scaler says why.

use std::time::{Duration, Instant};

use llmscaler_e2e::ApiServer::{Real, Sandbox};
use llmscaler_e2e::{ApiServer, DecisionServer, deployment, eventually};
use rstest::rstest;
use serde_json::{Value, json};

use crate::fleet::{Fleet, SOON, condition};
use crate::scaler::on_decisions;

/// What a Prometheus answers when one series has this value.
fn sample(value: &str) -> String {
    json!({"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": [1, value]}]}}).to_string()
}

/// Waits until the scaler says that nothing is known, in these words.
async fn holds_because(fleet: &Fleet, words: &str) {
    let says = |status: &Value| {
        let active = condition(status, "ScalingActive");
        active["status"] == "False"
            && active["reason"] == "FailedGetMetrics"
            && active["message"].as_str().is_some_and(|message| message.contains(words))
    };
    let status = fleet.status(&format!("held because of {words:?}"), says).await;
    assert_eq!(condition(&status, "Ready")["status"], "False", "{status}");
    assert_eq!(status["metrics"][0]["state"], "Unknown", "{status}");
    assert!(status["metrics"][0]["message"].as_str().unwrap().contains(words), "{status}");
}

/// Waits until the server has been asked so many times more.
async fn asked_again(server: &DecisionServer, times: usize) {
    let before = server.requests().len();
    eventually(&format!("asked {times} times more"), SOON, || async {
        let asked = server.requests().len() - before;
        if asked >= times { Ok(()) } else { Err(asked) }
    })
    .await;
}

#[rstest]
#[tokio::test]
async fn an_answer_that_makes_no_sense_holds_the_fleet_until_one_does(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "nonsense", 3).await else { return };
    let source = DecisionServer::start().await;
    source.answer(200, sample("1"));
    fleet.scale_on_load(json!({"serverAddress": source.url()})).await;
    fleet.condition("ScalingActive", "True", "ValidMetricFound").await;
    let sizes = fleet.sizes().await;

    let error = json!({"status": "error", "errorType": "bad_data", "error": "parse error at char 4"}).to_string();
    let range = json!({"status": "success", "data": {"resultType": "matrix", "result": []}}).to_string();
    for (status, answer, words) in [
        (200, "<html>Sign in</html>".to_owned(), "cannot decode the answer as JSON"),
        (503, "upstream connect error".to_owned(), "status 503 instead of 200: upstream connect error"),
        // A sound body does not make up for the status.
        (500, sample("0"), "status 500 instead of 200"),
        (400, error, "parse error at char 4"),
        (200, range, "a range vector"),
        (200, sample("NaN"), "the value is NaN"),
        (200, sample("+Inf"), "not a measurement"),
        (200, sample("-3"), "the value -3 is negative"),
    ] {
        source.answer(status, answer);
        holds_because(&fleet, words).await;
    }
    asked_again(&source, 3).await;
    sizes.were(&[3]).await;
    // All of this is one matter, however many syncs it lasted.
    let events = fleet.events("FailedGetMetrics").await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(events[0].series.is_none(), "{events:?}");
    assert!(events[0].note.as_ref().unwrap().contains("cannot decode the answer as JSON"), "{events:?}");

    source.answer(200, sample("2"));
    fleet.has_size(6).await;
    fleet.condition("ScalingActive", "True", "ValidMetricFound").await;
}

#[rstest]
#[tokio::test]
async fn a_query_of_none_or_of_several_series_holds_the_fleet_and_says_which(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "series", 2).await else { return };
    let metric = |query: String| json!({"metrics": [{"name": "load", "query": query, "target": "1"}]});
    let each = format!(r#"load{{namespace="{}"}}"#, fleet.ns().name());
    fleet.scale_on_load(metric(each.clone())).await;
    let sizes = fleet.sizes().await;
    holds_because(&fleet, "empty vector").await;

    let exporter = fleet.ns().exporter();
    exporter.set("load", &[("pod", "left")], 9.0);
    exporter.set("load", &[("pod", "right")], 9.0);
    exporter.scraped().await;
    holds_because(&fleet, r#"pod="left""#).await;
    holds_because(&fleet, r#"pod="right""#).await;

    fleet.edit(metric(format!("avg({each}) / 0 * 0"))).await;
    holds_because(&fleet, "NaN").await;
    sizes.were(&[2]).await;

    fleet.edit(metric(format!("avg({each}) / 3"))).await;
    fleet.has_size(6).await;
}

#[rstest]
#[tokio::test]
async fn a_source_that_is_down_holds_the_fleet_until_it_is_back(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "down", 3).await else { return };
    let server = DecisionServer::start().await;
    server.decide("", "fleet", 3);
    fleet.scale_on_decisions(&server, json!({"minReplicas": 0})).await;
    fleet.condition("ScalingActive", "True", "ValidMetricFound").await;
    let address = server.address();
    drop(server);
    holds_because(&fleet, &address.to_string()).await;
    fleet.keeps_size(3).await;
    assert_eq!(fleet.events("FailedGetMetrics").await.len(), 1);

    let server = DecisionServer::start_at(address).await;
    server.decide("", "fleet", 5);
    fleet.has_size(5).await;
    fleet.condition("ScalingActive", "True", "ValidMetricFound").await;
}

#[rstest]
#[tokio::test]
async fn a_source_that_hangs_delays_nobody_elses_scalers(#[values(Real, Sandbox)] on: ApiServer) {
    const SLOW: u64 = 4;
    let Some(fleet) = Fleet::start(on, "hangs", 2).await else { return };
    let (slow, quick) = (DecisionServer::start().await, DecisionServer::start().await);
    fleet.ns().create(&deployment("quick", 1)).await;
    quick.decide("", "fleet", 1);
    let mut of_quick: Value = serde_json::from_str(&on_decisions(fleet.ns(), &quick, json!({"targetRef": {"name": "quick"}}))).unwrap();
    of_quick["metadata"]["name"] = json!("quick");
    fleet.ns().apply(&of_quick.to_string()).await;
    asked_again(&quick, 1).await;

    slow.hang();
    fleet.scale_on_decisions(&slow, json!({"syncPeriodSeconds": SLOW})).await;
    // Within the time that one question to the slow source takes, the other fleet is asked about and scaled.
    eventually("asked", SOON, || async { slow.requests().pop().ok_or("not yet") }).await;
    let asked = Instant::now();
    quick.decide("", "fleet", 4);
    fleet.ns().wait_for(&fleet.ns().deployments(), "quick", "4 replicas", SOON, |fleet| fleet["spec"]["replicas"] == 4).await;
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(SLOW), "the other fleet waited {took:?}");

    holds_because(&fleet, &format!("no complete answer from {}/decisions within {SLOW}s", slow.url())).await;
    slow.decide("", "fleet", 6);
    fleet.has_size(6).await;
}

#[rstest]
#[tokio::test]
async fn the_bounds_hold_although_nothing_is_known(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "bounds", 6).await else { return };
    let server = DecisionServer::start().await;
    fleet.scale_on_decisions(&server, json!({})).await;
    holds_because(&fleet, "404").await;
    let sizes = fleet.sizes().await;
    fleet.edit(json!({"maxReplicas": 4})).await;
    fleet.is_serving(4).await;
    fleet.edit(json!({"minReplicas": 5, "maxReplicas": 8})).await;
    fleet.is_serving(5).await;
    fleet.keeps_size(5).await;
    sizes.were(&[6, 4, 5]).await;
}

#[rstest]
#[tokio::test]
async fn of_two_metrics_the_known_one_decides_and_the_other_is_named(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "partly", 2).await else { return };
    fleet.load(2.0).await;
    let ns = fleet.ns().name();
    let metrics = json!([
        {"name": "queue", "query": format!(r#"sum(queue{{namespace="{ns}"}})"#), "target": "5"},
        {"name": "load", "query": format!(r#"avg(load{{namespace="{ns}"}})"#), "target": "1"},
    ]);
    fleet.scale_on_load(json!({"maxReplicas": 4, "metrics": metrics})).await;
    fleet.is_serving(4).await;
    let message = fleet.condition("ScalingActive", "True", "ValidMetricFound").await;
    assert!(message.contains("queue is unknown") && message.contains("no data"), "{message}");
    let states = |status: &Value| [status["metrics"][0]["state"].clone(), status["metrics"][1]["state"].clone()];
    let status = fleet.status("two metrics", |status| status["currentReplicas"] == 4).await;
    assert_eq!(states(&status), ["Unknown", "Value"]);
    assert_eq!(condition(&status, "Ready")["status"], "True", "{status}");
    let notes = fleet.notes("FailedGetMetrics", 1).await;
    assert!(notes[0].contains("queue is unknown"), "{notes:?}");

    fleet.ns().exporter().set("queue", &[], 0.0);
    fleet.ns().exporter().scraped().await;
    let known = fleet.status("both known", |status| states(status) == ["Value", "Value"]).await;
    let message = condition(&known, "ScalingActive")["message"].as_str().unwrap().to_owned();
    assert!(!message.contains("unknown"), "{message}");
}
