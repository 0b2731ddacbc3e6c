//! Simulated replicas behind the sandbox's pods: what their pages say, and how they live.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what helps a test may fail it")]

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use llmscaler_engine::{Profile, Reading, Time};
use llmscaler_sandbox::Sandbox;
use llmscaler_sandbox::fleet::{Fleet, Fleets, Plan};
use llmscaler_signals::preset::{Aggregate, Latency, Preset, Signal};
use llmscaler_signals::scrape::PodPage;
use llmscaler_signals::scrape::exposition::Line;
use llmscaler_signals::{Promised as Limits, Scrape, TRAFFIC_SIGNALS};
use llmscaler_simulator::scenario::FleetSettings;
use llmscaler_simulator::{Promised, Request};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// A sandbox whose time the test moves, with one fleet.
struct World {
    milliseconds: Arc<AtomicI64>,
    client: Client,
    fleet: Fleet,
    fleets: Fleets,
}

impl World {
    async fn new(start: u32, settings: FleetSettings) -> Self {
        let (milliseconds, began) = (Arc::new(AtomicI64::new(0)), "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap());
        let passed = milliseconds.clone();
        let now = move || began.saturating_add(SignedDuration::from_millis(passed.load(Ordering::Relaxed))).unwrap();
        let sandbox = Sandbox::with_clock(now).unwrap();
        let plan = Plan {
            namespace: "default".to_owned(),
            name: "chat".to_owned(),
            profile: Profile::named(Profile::DEFAULT).unwrap().clone(),
            settings,
            promised: Promised { ttft: 3.0, tpot: 0.1 },
            start,
            seed: 1,
        };
        let fleet = Fleet::new(&sandbox, plan, began);
        let client = sandbox.client();
        let deployment = serde_json::from_value(fleet.deployment()).unwrap();
        Api::<Deployment>::default_namespaced(client.clone()).create(&PostParams::default(), &deployment).await.unwrap();
        let fleets = Fleets::new(&sandbox, vec![fleet.clone()]);
        let mut world = Self { milliseconds, client, fleet, fleets };
        world.fleets.step();
        world
    }

    fn now(&self) -> Time {
        Time::from_millis(self.milliseconds.load(Ordering::Relaxed))
    }

    fn pass(&mut self, seconds: i64) {
        self.milliseconds.fetch_add(seconds * 1000, Ordering::Relaxed);
        self.fleets.step();
    }

    async fn pods(&self) -> Vec<Pod> {
        Api::<Pod>::default_namespaced(self.client.clone()).list(&ListParams::default()).await.unwrap().items
    }

    async fn scale(&mut self, replicas: u32) {
        let size = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        let api = Api::<Deployment>::default_namespaced(self.client.clone());
        api.patch("chat", &PatchParams::default(), &size).await.unwrap();
        self.fleets.step();
    }

    async fn ready(&self) -> usize {
        let ready = |pod: &Pod| {
            let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
            conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
        };
        self.pods().await.iter().filter(|pod| ready(pod)).count()
    }
}

/// So many requests per second, of 2,000 tokens each way about.
fn steady(per_second: u32, from: u32, until: u32) -> Vec<Request> {
    let at = |n: u32| f64::from(n) / f64::from(per_second);
    let request = |n| Request { at: at(n), prompt: 1900 + n % 200, output: 150 + n % 100, reusable_prefix: 0 };
    (from * per_second..until * per_second).map(request).collect()
}

/// The sums of all series of a page by the name of the metric.
fn sums(page: &str) -> HashMap<String, f64> {
    let mut sums = HashMap::new();
    for line in page.lines() {
        if let Some(line) = Line::of(line.as_bytes()).unwrap_or_else(|error| panic!("{line}: {error}")) {
            let name = line.name.to_owned();
            *sums.entry(name).or_insert(0.0) += line.sample().unwrap().value;
        }
    }
    sums
}

#[tokio::test]
async fn pages_have_the_numbers_of_the_simulator_in_a_form_that_we_read() {
    let mut world = World::new(2, FleetSettings::default()).await;
    world.fleet.send(&steady(4, 0, 600));
    world.pass(300);
    let books = world.fleet.books();
    assert_eq!(books.arrived, 1201, "one at 0, and 4 a second up to 300 s");
    let router = sums(&world.fleet.router_page().unwrap());
    assert_eq!(router["llm_d_epp_request_total"], 1201.0);
    assert_eq!((router["llm_d_epp_ready_endpoints"], router["llm_d_epp_flow_control_queue_size"]), (2.0, 0.0));
    let done = (books.in_time + books.late) as f64;
    assert_eq!(router["llm_d_epp_request_running"], 1201.0 - done);
    assert_eq!(router["llm_d_epp_request_output_tokens_count"], done);
    let mut pods: HashMap<String, f64> = HashMap::new();
    for pod in world.pods().await {
        for (name, value) in sums(&world.fleet.pod_page(&pod.uid().unwrap()).unwrap()) {
            *pods.entry(name).or_insert(0.0) += value;
        }
    }
    assert_eq!(pods["vllm:request_success_total"], done);
    assert_eq!(pods["vllm:num_requests_running"] + pods["vllm:num_requests_waiting"], router["llm_d_epp_request_running"]);
    assert_eq!(pods["vllm:request_generation_tokens_count"], done);
    assert_eq!(pods["vllm:request_generation_tokens_sum"], router["llm_d_epp_request_output_tokens_sum"]);
    assert_eq!(pods["vllm:time_to_first_token_seconds_count"], router["llm_d_epp_request_ttft_seconds_count"]);
    assert!((pods["vllm:kv_cache_usage_perc"] / 2.0 - router["llm_d_epp_average_kv_cache_utilization"]).abs() < 1e-12);
}

#[tokio::test]
async fn every_signal_that_the_scalers_of_the_demo_ask_for_is_on_the_pages() {
    let mut world = World::new(2, FleetSettings::default()).await;
    world.fleet.send(&steady(4, 0, 600));
    let latencies = [Signal::PredictedTtft, Signal::PredictedTpot, Signal::Ttft, Signal::Tpot];
    let signals = || latencies.into_iter().chain(TRAFFIC_SIGNALS);
    let scrape = |preset| Scrape::new(Preset::named(preset).unwrap(), true, signals(), &BTreeMap::new(), Scrape::SHORTEST_WINDOW);
    let (mut engines, mut router) = (scrape("vLLM"), scrape("llm-d-EPP"));
    for _ in 0..12 {
        world.pass(15);
        let pods = world.pods().await;
        let pages: Vec<(String, String, String)> =
            pods.iter().map(|pod| (pod.name_any(), pod.uid().unwrap(), world.fleet.pod_page(&pod.uid().unwrap()).unwrap())).collect();
        let page = |(name, uid, page): &'static (String, String, String)| PodPage { name, uid, page: Ok(page.as_bytes()) };
        let pages: &'static [_] = pages.leak();
        let routers = [("epp".to_owned(), Ok(&*world.fleet.router_page().unwrap().into_bytes().leak()))];
        let read: Vec<PodPage<'_>> = pages.iter().map(page).collect();
        engines.read(&read, &routers, world.now());
        router.read(&read, &routers, world.now());
    }
    let now = world.now();
    assert_eq!((engines.problems(now), router.problems(now)), (vec![], vec![]));
    for (what, reading) in [
        ("kv", engines.signal(Signal::KvCacheUsage, Aggregate::PerReplica, now)),
        ("queue", engines.signal(Signal::QueuedRequests, Aggregate::Total, now)),
        ("running", engines.signal(Signal::RunningRequests, Aggregate::Total, now)),
        ("measured TTFT", engines.latency(Latency::Ttft, 0.9, now)),
        ("predicted TTFT", router.latency(Latency::Ttft, 0.9, now)),
        ("predicted TPOT", router.latency(Latency::Tpot, 0.9, now)),
    ] {
        assert!(matches!(reading, Reading::Value(_)), "{what}: {reading:?}");
    }
    let traffic = engines.traffic(&Limits { ttft: 3.0, tpot: 0.1 }, now);
    let rate = traffic.arrivals.over_60s.unwrap().get();
    assert!((rate - 4.0).abs() < 0.1, "{rate}");
    let prompt = traffic.prompt_tokens.over_60s.unwrap().get() / rate;
    assert!((prompt - 2000.0).abs() < 50.0, "{prompt}");
    let costs = Profile::named(Profile::DEFAULT).unwrap().costs;
    assert_eq!(traffic.kv_capacity.unwrap().get(), f64::from(costs.kv_tokens / 16 * 16));
    assert!(traffic.inter_token.is_some() && traffic.late_ttft.is_some() && traffic.late_tpot.is_some() && traffic.finished.is_some());
}

#[tokio::test]
async fn a_new_pod_is_ready_after_its_warm_up_and_a_deleted_one_goes_when_it_has_finished() {
    let mut world = World::new(2, FleetSettings::default()).await;
    world.fleet.send(&steady(4, 0, 2000));
    assert_eq!(world.ready().await, 2, "those of the start are ready at once");
    world.scale(3).await;
    world.pass(99);
    assert_eq!((world.pods().await.len(), world.ready().await), (3, 2));
    world.pass(2);
    assert_eq!(world.ready().await, 3);
    world.pass(60);
    world.scale(1).await;
    let leaving = |pods: &[Pod]| pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some()).count();
    assert_eq!(leaving(&world.pods().await), 2, "they finish what they have");
    assert_eq!((world.fleet.books().ready, world.fleet.books().replicas), (1, 1));
    world.pass(120);
    assert_eq!((world.pods().await.len(), world.fleet.books().lost), (1, 0));
}

#[tokio::test]
async fn what_a_pod_has_when_its_time_is_over_is_lost() {
    let mut world = World::new(2, FleetSettings::default()).await;
    world.fleet.send(&steady(4, 0, 2000));
    world.pass(60);
    let pods = world.pods().await;
    let at_once = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    Api::<Pod>::default_namespaced(world.client.clone()).delete(&pods[0].name_any(), &at_once).await.unwrap();
    // The first step looks at the pods that there are, the second finds that one is missing.
    world.fleets.step();
    world.fleets.step();
    let books = world.fleet.books();
    assert!(books.lost > 0, "{books:?}");
    assert_eq!((books.ready, books.replicas), (1, 2), "and another one is started");
}

#[tokio::test]
async fn pods_without_gpus_are_unschedulable() {
    let gpus = Profile::named(Profile::DEFAULT).unwrap().gpus;
    let mut world = World::new(1, FleetSettings { gpu_limit: Some(2 * gpus), ..FleetSettings::default() }).await;
    world.scale(3).await;
    world.pass(200);
    assert_eq!((world.pods().await.len(), world.ready().await), (3, 2));
    let unscheduled = |pod: &Pod| {
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions.into_iter().flatten().any(|condition| condition.reason.as_deref() == Some("Unschedulable"))
    };
    assert_eq!(world.pods().await.iter().filter(|pod| unscheduled(pod)).count(), 1);
}

#[tokio::test]
async fn pages_are_served_where_the_pods_say_and_nothing_is_told_in_an_outage() {
    let mut world = World::new(1, FleetSettings::default()).await;
    world.pass(1);
    let pod = world.pods().await.remove(0);
    let port = pod.spec.unwrap().containers[0].ports.as_ref().unwrap()[0].clone();
    assert_eq!((port.name.as_deref(), pod.status.unwrap().pod_ip.as_deref()), (Some("metrics"), Some("127.0.0.1")));
    let ask = async || {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let address = ("127.0.0.1", u16::try_from(port.container_port).unwrap());
        let mut connection = tokio::time::timeout(Duration::from_secs(5), tokio::net::TcpStream::connect(address)).await.unwrap().unwrap();
        connection.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.unwrap();
        answer
    };
    assert!(ask().await.contains("vllm:num_requests_running{engine=\"0\",model_name=\"qwen3-32b-h100-tp2\"} 0.0\n"));
    world.fleet.tell(false);
    assert!(ask().await.starts_with("HTTP/1.1 503"));
    assert_eq!(world.fleet.router_page(), None);
    world.fleet.tell(true);
    assert!(ask().await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn pages_can_be_read_through_the_api_and_nothing_else_of_this_machine() {
    let mut world = World::new(1, FleetSettings::default()).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let router = listener.local_addr().unwrap().port();
    let shutdown = CancellationToken::new();
    tokio::spawn(world.fleet.clone().serve_router(listener, shutdown.clone()));
    let services = Api::<Service>::default_namespaced(world.client.clone());
    services.create(&PostParams::default(), &serde_json::from_value(world.fleet.service(router)).unwrap()).await.unwrap();
    world.pass(1);
    let pod = world.pods().await.remove(0);
    let (name, port) = (pod.name_any(), pod.spec.unwrap().containers[0].ports.as_ref().unwrap()[0].container_port);
    let client = world.client.clone();
    let read = async |place: &str| {
        let request = axum::http::Request::get(format!("/api/v1/namespaces/default/{place}")).body(vec![]).unwrap();
        client.request_text(request).await.map_err(|error| match error {
            kube::Error::Api(status) => status.code,
            error => panic!("{error}"),
        })
    };
    for place in [format!("http:{name}:{port}"), format!("{name}:{port}"), format!("{name}:metrics"), name.clone()] {
        assert!(read(&format!("pods/{place}/proxy/metrics")).await.unwrap().contains("vllm:num_requests_running"), "{place}");
    }
    for place in [format!("http:chat-epp:{router}"), "chat-epp".to_owned()] {
        assert!(read(&format!("services/{place}/proxy/metrics")).await.unwrap().contains("llm_d_epp_ready_endpoints"), "{place}");
    }
    for (place, code) in [
        (format!("pods/{name}:{router}/proxy/metrics"), 503),
        (format!("pods/{name}:{port}/proxy/other"), 404),
        ("pods/nobody/proxy/metrics".to_owned(), 404),
    ] {
        assert_eq!(read(&place).await, Err(code), "{place}");
    }
    // A page that another process serves is not for the API to give away.
    let other = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = other.local_addr().unwrap().port();
    let service = json!({"metadata": {"name": "other"},
        "spec": {"type": "ExternalName", "externalName": "127.0.0.1", "ports": [{"port": port}]}});
    services.create(&PostParams::default(), &serde_json::from_value(service).unwrap()).await.unwrap();
    assert_eq!(read("services/other/proxy/metrics").await, Err(503));
    world.fleet.tell(false);
    assert_eq!(read("services/chat-epp/proxy/metrics").await, Err(503));
    world.fleet.tell(true);
    shutdown.cancel();
    while read("services/chat-epp/proxy/metrics").await.is_ok() {
        tokio::task::yield_now().await;
    }
}
