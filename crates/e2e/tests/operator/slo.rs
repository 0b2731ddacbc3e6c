//! Document B's object: a promise of latency, kept by the endpoint picker's own histograms.

use std::time::Duration;

use llmscaler_e2e::ApiServer::{Real, Sandbox};
use llmscaler_e2e::{ApiServer, Relay};
use rstest::rstest;
use serde_json::{Value, json};

use crate::epp::{self, Epp, HEALTHY, OVERRUN};
use crate::fleet::{Fleet, condition};
use crate::scaler::merge;

/// The guide's down policy takes one replica each 120 s; here each of these.
const PACE: Duration = Duration::from_secs(1);
const DOWN_WINDOW: Duration = Duration::from_secs(3);

/// The guide's object with its windows and periods at less than a tenth.
async fn scale(fleet: &Fleet, more: Value) {
    let mut spec = json!({
        "metrics": null,
        "minReplicas": 3,
        "maxReplicas": 8,
        "preset": epp::preset(),
        "slo": {"ttft": "3s", "tpot": "100ms", "quantile": "0.9", "scaleUpAt": "0.55", "scaleDownAt": "0.40", "clamp": "2", "smoothing": "3s"},
        "behavior": {
            "scaleUp": {"stabilizationWindowSeconds": 1, "selectPolicy": "Max", "policies": [
                {"type": "Percent", "value": 100, "periodSeconds": 2}, {"type": "Pods", "value": 4, "periodSeconds": 2}]},
            "scaleDown": {"stabilizationWindowSeconds": DOWN_WINDOW.as_secs(), "policies": [
                {"type": "Pods", "value": 1, "periodSeconds": PACE.as_secs()}]},
        },
    });
    merge(&mut spec, more);
    fleet.scale_on_load(spec).await;
}

/// As the preset's queries of latency, but over five seconds.
fn over_seconds(fleet: &Fleet) -> Value {
    let query = |histogram: &str| {
        let scope = format!(r#"namespace="{}", service="{}""#, fleet.ns().name(), epp::SERVICE);
        format!("histogram_quantile(0.9, sum by (le) (rate({histogram}_bucket{{{scope}}}[5s])))")
    };
    json!({"slo": {
        "ttftQuery": query("llm_d_epp_request_ttft_seconds"),
        "tpotQuery": query("llm_d_epp_request_streaming_tpot_seconds"),
    }})
}

/// Answers requests with these latencies while something is waited for, as a picker under load does.
async fn under_load<T>(epp: &Epp<'_>, latencies: (f64, f64), waited_for: impl Future<Output = T>) -> T {
    let answering = async {
        loop {
            epp.answered(5.0, latencies);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::select! {
        waited_for = waited_for => waited_for,
        () = answering => unreachable!(),
    }
}

async fn reads(fleet: &Fleet, state: &str) -> Value {
    fleet.status(&format!("slo is {state}"), |status| status["metrics"][0]["state"] == state).await
}

fn saturation(status: &Value) -> f64 {
    status["metrics"][0]["value"].as_str().unwrap().parse().unwrap()
}

#[rstest]
#[tokio::test]
async fn the_presets_own_query_takes_the_fleet_from_3_to_8_and_drains_it_one_by_one(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "slo", 3).await else { return };
    let epp = Epp::start(fleet.ns().exporter());
    fleet.ns().exporter().scraped().await;
    let sizes = fleet.sizes().await;
    // The queries are over a minute. Much that comes later outweighs what came before.
    epp.load(90, 30);
    epp.answered(1e3, OVERRUN);
    fleet.ns().exporter().scraped().await;
    scale(&fleet, json!({})).await;
    let status = reads(&fleet, "Value").await;
    // Nine seconds are three times the promise, and the clamp is at two.
    assert_eq!(saturation(&status), 2.0, "{status}");
    assert_eq!(condition(&status, "QueriesScoped")["status"], "True", "{status}");
    fleet.is_serving(8).await;
    sizes.were(&[3, 7, 8]).await;

    epp.load(12, 0);
    epp.answered(1e6, HEALTHY);
    fleet.ns().exporter().scraped().await;
    fleet.is_serving(3).await;
    sizes.were(&[3, 7, 8, 7, 6, 5, 4, 3]).await;
    let steps = sizes.steps();
    // Syncs are a second apart, give or take what a busy machine adds.
    let least = PACE - Duration::from_millis(500);
    assert!(steps[3..].iter().all(|step| *step >= least), "{steps:?}");
    let status = fleet.status("back at the floor", |status| status["currentReplicas"] == 3).await;
    // All first tokens came within (0.2, 0.4], of which the quantile is 0.38; all others within (0.01, 0.02]: a share of 0.19.
    assert!((saturation(&status) - 0.19).abs() < 1e-3, "{status}");
    fleet.keeps_size(3).await;
}

#[rstest]
#[tokio::test]
async fn an_outage_of_prometheus_at_the_peak_shrinks_nothing_and_the_drain_goes_on_after_it(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "slo-outage", 3).await else { return };
    let relay = Relay::to(fleet.ns().plane().prometheus().url()).await;
    let epp = Epp::start(fleet.ns().exporter());
    fleet.ns().exporter().scraped().await;
    epp.load(90, 30);
    let mut more = over_seconds(&fleet);
    merge(&mut more, json!({"serverAddress": relay.url()}));
    under_load(&epp, OVERRUN, async {
        scale(&fleet, more).await;
        fleet.is_serving(8).await;
    })
    .await;
    let sizes = fleet.sizes().await;
    relay.cut();
    epp.load(0, 0);
    let unknown = reads(&fleet, "Unknown").await;
    assert_eq!(condition(&unknown, "ScalingActive")["reason"], "FailedGetMetrics", "{unknown}");
    // Longer than a pool that can be read would take to begin its drain.
    tokio::time::sleep(DOWN_WINDOW + Duration::from_secs(2)).await;
    sizes.were(&[8]).await;

    relay.restore().await;
    fleet.is_serving(3).await;
    sizes.were(&[8, 7, 6, 5, 4, 3]).await;
}

#[rstest]
#[tokio::test]
async fn a_picker_that_is_gone_or_whose_pool_is_stuck_holds_the_fleet_and_an_idle_one_lets_it_go(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "slo-epp", 5).await else { return };
    let epp = Epp::start(fleet.ns().exporter());
    epp.load(60, 0);
    // All tokens within (0.02, 0.04] read as 38 ms whatever they took, which is within the band.
    let steady = (0.3, 0.03);
    let status = under_load(&epp, steady, async {
        fleet.ns().exporter().scraped().await;
        scale(&fleet, over_seconds(&fleet)).await;
        reads(&fleet, "Value").await
    })
    .await;
    assert!((saturation(&status) - 0.38).abs() < 1e-3, "{status}");
    let sizes = fleet.sizes().await;
    epp.counts_from_zero();
    under_load(&epp, steady, fleet.keeps_size(5)).await;

    epp.goes();
    let unknown = reads(&fleet, "Unknown").await;
    let why = unknown["metrics"][0]["message"].as_str().unwrap();
    assert!(why.contains("has no series") && why.contains("whether the pool is idle is not known"), "{why}");
    fleet.keeps_size(5).await;

    // Back, with requests under way of which none has finished.
    epp.comes_back();
    epp.load(7, 0);
    let stuck = |status: &Value| {
        let message = status["metrics"][0]["message"].as_str().unwrap_or_default();
        message.contains("7 requests are running or queued") && message.contains("may be stuck")
    };
    fleet.status("stuck", stuck).await;
    fleet.keeps_size(5).await;
    sizes.were(&[5]).await;

    epp.load(0, 0);
    reads(&fleet, "Idle").await;
    fleet.is_serving(3).await;
    sizes.were(&[5, 4, 3]).await;
}

#[rstest]
#[tokio::test]
async fn without_a_prometheus_the_pickers_own_page_takes_the_fleet_up_and_down(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "slo-page", 3).await else { return };
    let page = fleet.ns().plane().exporter();
    let address = page.listen(([127, 0, 0, 1], 0).into()).await;
    let relay = Relay::to(&format!("http://{address}")).await;
    let port: u16 = relay.url().rsplit(':').next().unwrap().parse().unwrap();
    let epp = Epp::start(&page);
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": epp::SERVICE},
        "spec": {"type": "ExternalName", "externalName": "localhost"}});
    fleet.ns().apply(&service.to_string()).await;
    let scrape = json!({"eppService": {"name": epp::SERVICE, "port": port}});
    let sizes = fleet.sizes().await;
    epp.load(90, 30);
    let status = under_load(&epp, OVERRUN, async {
        scale(&fleet, json!({"metricProvider": "Scrape", "serverAddress": null, "scrape": scrape})).await;
        reads(&fleet, "Value").await
    })
    .await;
    assert_eq!(saturation(&status), 2.0, "{status}");
    // Nobody is asked anything in PromQL.
    assert_eq!(condition(&status, "QueriesScoped"), &Value::Null, "{status}");
    fleet.is_serving(8).await;

    // The picker restarts: its page is away for a while, and then counts from zero.
    relay.cut();
    reads(&fleet, "Unknown").await;
    let notes = fleet.notes("FailedScrape", 1).await;
    assert!(notes[0].contains(&format!("localhost:{port}")), "{notes:?}");
    fleet.keeps_size(8).await;
    epp.goes();
    epp.comes_back();
    epp.load(12, 0);
    relay.restore().await;
    fleet.status("read again", |status| status["metrics"][0]["state"] != "Unknown").await;
    epp.answered(1e6, HEALTHY);
    fleet.is_serving(3).await;
    sizes.were(&[3, 7, 8, 7, 6, 5, 4, 3]).await;
}
