//! Rates and quantiles of the Scrape provider against those of a real Prometheus.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what helps a test may fail it")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use llmscaler_e2e::{ControlPlane, Exporter, Prometheus};
use llmscaler_engine::{Reading, Time};
use llmscaler_signals::preset::{Aggregate, Latency, Preset, Signal};
use llmscaler_signals::scrape::{Access, PodAddress, PodPage, Scrape, ScrapeTargets};
use llmscaler_signals::{TlsSettings, Transport};

const WINDOW: Duration = Duration::from_secs(10);
const TOKENS: &str = "vllm:generation_tokens_total";
const TTFT: &str = "vllm:time_to_first_token_seconds_bucket";
/// Some bounds of vLLM's own.
const BOUNDS: [&str; 6] = ["0.1", "0.25", "0.5", "1.0", "2.5", "+Inf"];

fn scrape(window: Duration) -> Scrape {
    Scrape::new(Preset::named("vLLM").unwrap(), false, [Signal::GenerationTokens, Signal::Ttft], &BTreeMap::new(), window)
}

/// What a pod with an id has counted after some seconds: at different speeds, and with jumps.
fn count(exporter: &Exporter, pod: &str, id: u32, seconds: f64) {
    let pace = f64::from(id + 1);
    exporter.set(TOKENS, &[("pod", pod)], (1000.0 * pace + 70.0 * pace * seconds).floor());
    let mut sum = 0.0;
    for (le, i) in BOUNDS.iter().zip(0_u32..) {
        sum += (f64::from((i * 7 + id * 3) % 5 + 1) * seconds * 3.0).floor();
        exporter.set(TTFT, &[("pod", pod), ("le", le)], sum);
    }
}

/// Every sample of the namespace that Prometheus holds of the window before `at`: by moment in milliseconds, by pod, the page.
async fn stored(prometheus: &Prometheus, namespace: &str, at: f64) -> BTreeMap<i64, BTreeMap<String, String>> {
    let query = format!("{{__name__=~\"vllm:.+\", namespace=\"{namespace}\"}}[60s] @ {at:.3}");
    let answer = prometheus.query(&query).await;
    let mut pages = BTreeMap::<i64, BTreeMap<String, String>>::new();
    for series in answer["data"]["result"].as_array().unwrap() {
        let label = |name: &str| series["metric"][name].as_str().unwrap_or_default();
        let le = if label("le").is_empty() { String::new() } else { format!("{{le=\"{}\"}}", label("le")) };
        for sample in series["values"].as_array().unwrap() {
            let moment = (sample[0].as_f64().unwrap() * 1000.0).round() as i64;
            let page = pages.entry(moment).or_default().entry(label("pod").to_owned()).or_default();
            writeln!(page, "{}{le} {}", label("__name__"), sample[1].as_str().unwrap()).unwrap();
        }
    }
    pages
}

fn number(reading: Reading) -> Option<f64> {
    match reading {
        Reading::Value(value) => Some(value.get()),
        Reading::Idle => None,
        Reading::Unknown(why) => panic!("{why}"),
    }
}

#[tokio::test]
async fn rates_and_quantiles_are_those_of_prometheus() {
    let Some(plane) = ControlPlane::shared().await else { return };
    let ns = plane.namespace("scrape").await;
    let (exporter, prometheus) = (ns.exporter(), plane.prometheus());
    let address = exporter.listen(([127, 0, 0, 1], 0).into()).await;

    let access = Access::new(Transport::new(&TlsSettings::default()).unwrap());
    let pods = vec![PodAddress::new("all", "all", false, address)];
    let targets = ScrapeTargets { pods, pod_access: access.clone(), routers: Vec::new(), router_access: access };
    let mut live = scrape(Duration::from_secs(5));

    let started = Instant::now();
    let now = || Time::from_seconds(started.elapsed().as_secs_f64());
    let mut scraped = 0;
    while started.elapsed() < Duration::from_secs(16) {
        let seconds = started.elapsed().as_secs_f64();
        count(exporter, "a", 0, seconds);
        // One that restarts, and one that is new.
        count(exporter, "b", 1, if seconds < 9.0 { seconds } else { seconds - 9.0 });
        if seconds > 12.0 {
            count(exporter, "c", 2, seconds - 12.0);
        }
        if seconds < 9.0 && started.elapsed().as_millis() / 1000 >= scraped {
            scraped += 1;
            live.sync(&targets, Duration::from_millis(500), now()).await;
        }
        if seconds > 8.0 && scraped == 9 {
            scraped = u128::MAX;
            // The two at once, each with its own scrapes: 70 and 140 a second.
            let ours = number(live.signal(Signal::GenerationTokens, Aggregate::Total, now())).unwrap();
            let selector = format!("{TOKENS}{{namespace=\"{}\"}}", ns.name());
            let theirs = prometheus.value(&format!("sum(rate({selector}[5s]))")).await.unwrap();
            assert!((ours - 210.0).abs() < 10.0 && (ours - theirs).abs() < 20.0, "{ours} {theirs}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    // Now the very samples that Prometheus holds, at moments that lie anywhere between its scrapes.
    let end = Time::from_seconds(std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64() - 0.5);
    let (mut compared, mut differing) = (0, BTreeSet::new());
    for back in [0, 730, 1700, 3210, 4990] {
        let at = Time::from_millis(end.as_millis() - back);
        let pages = stored(prometheus, ns.name(), at.as_seconds()).await;
        let mut ours = scrape(WINDOW);
        for (moment, pods) in &pages {
            let pods: Vec<_> = pods.iter().map(|(name, page)| PodPage { name, uid: name, page: Ok(page.as_bytes()) }).collect();
            ours.read(&pods, &[], Time::from_millis(*moment));
        }
        let rate = |metric: &str| format!("rate({metric}{{namespace=\"{}\"}}[10s] @ {:.3})", ns.name(), at.as_seconds());
        let mut queries = vec![(format!("sum({})", rate(TOKENS)), ours.signal(Signal::GenerationTokens, Aggregate::Total, at))];
        for quantile in [0.5, 0.9, 0.95, 1.0] {
            let query = format!("histogram_quantile({quantile}, sum by (le) ({}))", rate(TTFT));
            queries.push((query, ours.latency(Latency::Ttft, quantile, at)));
        }
        for (query, reading) in queries {
            let (ours, theirs) = (number(reading).unwrap(), prometheus.value(&query).await.unwrap());
            assert!((ours - theirs).abs() <= 1e-9 * theirs.abs(), "{query}: {ours}, and Prometheus says {theirs}");
            differing.insert(format!("{theirs:.6}"));
            compared += 1;
        }
    }
    assert!(compared == 25 && differing.len() > 10, "{differing:?}");
}
