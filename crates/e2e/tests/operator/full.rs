//! The guides' objects with the guides' own values. They take some twenty minutes, so `make e2e-full` runs them and `make test` does not.

#![allow(clippy::print_stdout, reason = "what these tests are for is their timeline")]

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::epp::{self, Epp};
use crate::fleet::Fleet;
use llmscaler_e2e::ApiServer::Real;

/// Set to 1, these tests run.
const FULL: &str = "LLMSCALER_E2E_FULL";

/// How long a pod of the guides takes from its node to Ready.
const WARM_UP: Duration = Duration::from_secs(100);

/// Requests per second that a replica of the guide serves at most.
const CAPACITY: f64 = 1.45;

fn wanted() -> bool {
    let wanted = std::env::var(FULL).is_ok_and(|value| value == "1");
    if !wanted {
        println!("not run: it takes the time of the guides' own windows; {FULL}=1 (make e2e-full) runs it");
    }
    wanted
}

/// A replica pool of the guide's benchmark, from second to second: what is beyond its capacity waits.
#[derive(Default)]
struct Pool {
    backlog: f64,
}

impl Pool {
    /// A second with so many arrivals and ready replicas. Answers how many were served, with which latencies, and how many run and wait.
    fn second(&mut self, arrivals: f64, ready: f64) -> (f64, (f64, f64), u32, u32) {
        let able = CAPACITY * ready;
        let served = able.min(self.backlog + arrivals);
        self.backlog += arrivals - served;
        // TPOT grows with the requests that a replica has under way, which stay for a thousand tokens each.
        let (base, slope, tokens, first) = (0.0153, 0.000_398, 1000.0, 0.3);
        let each = served / ready;
        let running = each * (first + tokens * base) / (1.0 - tokens * slope * each);
        let latencies = (first + self.backlog / able, base + slope * running);
        (served, latencies, (running * ready).round() as u32, self.backlog.round() as u32)
    }
}

/// What is seen of a scaler and its fleet, as rows of a table.
struct Timeline {
    name: &'static str,
    started: Instant,
    last: Option<[Value; 3]>,
    said: Duration,
}

impl Timeline {
    fn start(name: &'static str, load: &str, reading: &str) -> Self {
        println!("{name}: | time | {load} | ready | {reading} | desired | written | reason |");
        println!("{name}: |---|---|---|---|---|---|---|");
        Self { name, started: Instant::now(), last: None, said: Duration::ZERO }
    }

    /// A row when something has changed, and each half minute.
    async fn note(&mut self, fleet: &Fleet, load: &str) -> (i64, i64) {
        let (deployment, status) = fleet.looked_at().await;
        let written = deployment["spec"]["replicas"].as_i64().unwrap_or_default();
        let ready = deployment["status"]["readyReplicas"].as_i64().unwrap_or_default();
        let reason = status["decision"]["reason"].clone();
        let now = Some([json!(written), status["desiredReplicas"].clone(), reason]);
        let elapsed = self.started.elapsed();
        if now != self.last || elapsed >= self.said + Duration::from_secs(30) {
            let readings: Vec<_> = status["metrics"].as_array().into_iter().flatten().map(reading).collect();
            let (minutes, seconds) = (elapsed.as_secs() / 60, elapsed.as_secs() % 60);
            let (desired, reason) = (&status["desiredReplicas"], status["decision"]["reason"].as_str().unwrap_or("-"));
            println!(
                "{}: | {minutes}:{seconds:02} | {load} | {ready} | {} | {desired} | {written} | {reason} |",
                self.name,
                readings.join(", ")
            );
            (self.last, self.said) = (now, elapsed);
        }
        (written, ready)
    }
}

fn reading(metric: &Value) -> String {
    match metric["value"].as_str() {
        Some(value) => format!("{:.3}", value.parse::<f64>().unwrap()).trim_end_matches('0').trim_end_matches('.').to_owned(),
        None => metric["state"].as_str().unwrap_or("-").to_owned(),
    }
}

#[tokio::test]
async fn the_slo_object_of_the_guide_follows_a_surge_up_and_drains_at_the_documented_pace() {
    if !wanted() {
        return;
    }
    let Some(fleet) = Fleet::start(Real, "full-slo", 3).await else { return };
    fleet.ns().kubelet().ready_after(WARM_UP);
    let epp = Epp::start(fleet.ns().exporter());
    fleet
        .scale_on_load(json!({
            "metrics": null,
            "minReplicas": 3, "maxReplicas": 8, "syncPeriodSeconds": 15,
            "preset": epp::preset(),
            "slo": {"ttft": "3s", "tpot": "100ms", "quantile": "0.9", "scaleUpAt": "0.55", "scaleDownAt": "0.40", "clamp": "2",
                "smoothing": "45s"},
            "behavior": {
                "scaleUp": {"stabilizationWindowSeconds": 30, "selectPolicy": "Max", "policies": [
                    {"type": "Percent", "value": 100, "periodSeconds": 60}, {"type": "Pods", "value": 4, "periodSeconds": 60}]},
                "scaleDown": {"stabilizationWindowSeconds": 180, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 120}]},
            },
        }))
        .await;
    let sizes = fleet.sizes().await;
    let mut timeline = Timeline::start("slo", "requests/s", "saturation");
    let (mut pool, mut ready, mut second) = (Pool::default(), 3, tokio::time::interval(Duration::from_secs(1)));
    let surge = Duration::from_secs(60)..Duration::from_secs(360);
    let mut surged = false;
    loop {
        second.tick().await;
        let elapsed = timeline.started.elapsed();
        let arrivals = if surge.contains(&elapsed) { 10.0 } else { 2.0 };
        let (served, latencies, running, waiting) = pool.second(arrivals, f64::from(i32::try_from(ready).unwrap()));
        epp.answered(served, latencies);
        epp.load(running, waiting);
        let (written, now_ready) = timeline.note(&fleet, &arrivals.to_string()).await;
        ready = now_ready;
        surged |= written == 8;
        if surged && written == 3 && ready == 3 {
            break;
        }
        assert!(elapsed < Duration::from_secs(30 * 60), "not drained: {:?}", sizes.steps());
    }
    let (seen, steps) = (sizes.seen(), sizes.steps());
    // To at most seven within a minute, by way of six where the window's oldest sync asked for no more, and then to eight.
    assert!(seen.starts_with(&[3, 6, 7, 8]) || seen.starts_with(&[3, 7, 8]), "{seen:?}");
    assert!(seen.ends_with(&[8, 7, 6, 5, 4, 3]) && seen.len() <= 9, "{seen:?}");
    // The last four steps are of one replica in two minutes, and a sync later when two minutes are not quite over.
    let paced = &steps[steps.len() - 4..];
    assert!(paced.iter().all(|step| (115..150).contains(&step.as_secs())), "{steps:?}");
}

#[tokio::test]
async fn the_dual_metric_object_of_the_guide_goes_from_zero_up_and_to_zero_after_its_cooldown() {
    if !wanted() {
        return;
    }
    let Some(fleet) = Fleet::start(Real, "full-dual", 0).await else { return };
    fleet.ns().kubelet().ready_after(WARM_UP);
    let epp = Epp::start(fleet.ns().exporter());
    fleet
        .scale_on_load(json!({
            "minReplicas": 0, "maxReplicas": 8, "syncPeriodSeconds": 15,
            "preset": epp::preset(),
            "metrics": [
                {"name": "queue", "signal": "queuedRequests", "target": "1", "metricType": "AverageValue", "activation": "0"},
                {"name": "running", "signal": "runningRequests", "target": "16", "metricType": "AverageValue", "activation": "0"},
            ],
            "idle": {"cooldownSeconds": 300},
        }))
        .await;
    let sizes = fleet.sizes().await;
    let mut timeline = Timeline::start("dual", "running + queued", "queue, running");
    let mut second = tokio::time::interval(Duration::from_secs(1));
    let (mut woken, mut idle_since) = (None, None);
    loop {
        second.tick().await;
        let elapsed = timeline.started.elapsed();
        // One request wakes the fleet and runs as soon as there is a replica; a minute later many come, for three minutes; then none.
        let (running, queued) = match woken.map(|at: Instant| at.elapsed().as_secs()) {
            None if elapsed < Duration::from_secs(30) => (0, 0),
            None => (0, 1),
            Some(0..60) => (10, 0),
            Some(60..240) => (60, 0),
            Some(_) => (0, 0),
        };
        epp.load(running, queued);
        let (written, ready) = timeline.note(&fleet, &format!("{running} + {queued}")).await;
        if ready > 0 && woken.is_none() {
            woken = Some(Instant::now());
        }
        if woken.is_some_and(|at| at.elapsed() >= Duration::from_secs(240)) {
            idle_since.get_or_insert_with(Instant::now);
        }
        if idle_since.is_some() && written == 0 {
            break;
        }
        assert!(elapsed < Duration::from_secs(30 * 60), "not at zero: {:?}", sizes.steps());
    }
    // Without a window one replica is left as soon as there are no requests, and it stays for the cooldown.
    sizes.were(&[0, 1, 4, 1, 0]).await;
    let idle = idle_since.unwrap().elapsed();
    assert!((285..360).contains(&idle.as_secs()), "went to zero {idle:?} after the last request");
}
