//! No Prometheus at all: the operator reads the pods' own pages, and that of the endpoint picker.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt as _};
use llmscaler_e2e::ApiServer::{Real, Sandbox};
use llmscaler_e2e::{ApiServer, ControlPlane, DecisionServer, Exporter, eventually, free_port};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use crate::epp::Epp;
use crate::fleet::{Fleet, SOON};
use crate::scaler::merge;

/// Long enough to serve a pod's page before the pod is ready.
const WARM_UP: Duration = Duration::from_millis(1500);

/// The engines in a fleet's pods, each with a page at its pod's own address, which share the fleet's requests out among them.
struct Engines {
    port: u16,
    shared: Arc<Mutex<Shared>>,
    task: AbortHandle,
}

#[derive(Default)]
struct Shared {
    pages: BTreeMap<String, Exporter>,
    ready: Vec<String>,
    /// Pods whose pages the test serves itself.
    apart: Vec<String>,
    running: f64,
    queued: f64,
    tokens: f64,
}

impl Engines {
    /// Serves a page for every pod that gets an address, until it is dropped.
    fn start(plane: &Arc<ControlPlane>, pods: Api<Pod>) -> Self {
        // One that is free at every address: whoever runs these tests may run an engine at its usual port.
        let port = free_port();
        let shared = Arc::<Mutex<Shared>>::default();
        let (kept, plane) = (Arc::clone(&shared), Arc::clone(plane));
        let task = tokio::spawn(async move {
            loop {
                if let Ok(pods) = pods.list(&ListParams::default()).await {
                    serve(&plane, &kept, pods.items, port).await;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        Self { port, shared, task: task.abort_handle() }
    }

    /// Requests of the whole fleet from now on.
    fn load(&self, running: u32, queued: u32) {
        let mut shared = self.shared.lock().unwrap();
        (shared.running, shared.queued) = (running.into(), queued.into());
        shared.state();
    }

    /// Leaves this pod's page as it is from now on, as that of the caller.
    fn leave(&self, pod: &Pod) -> Option<Exporter> {
        let mut shared = self.shared.lock().unwrap();
        shared.apart.push(uid(pod));
        shared.pages.remove(&uid(pod))
    }
}

impl Drop for Engines {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(plane: &Arc<ControlPlane>, shared: &Mutex<Shared>, pods: Vec<Pod>, port: u16) {
    let mine: Vec<(String, SocketAddr)> = {
        let mut shared = shared.lock().unwrap();
        let with_address = pods.iter().filter_map(|pod| Some((uid(pod), address(pod, port)?)));
        let mine: Vec<_> = with_address.filter(|(uid, _)| !shared.apart.contains(uid)).collect();
        shared.pages.retain(|uid, _| mine.iter().any(|(other, _)| other == uid));
        mine
    };
    for (uid, address) in &mine {
        if !shared.lock().unwrap().pages.contains_key(uid) {
            let page = plane.exporter();
            page.listen(*address).await;
            shared.lock().unwrap().pages.insert(uid.clone(), page);
        }
    }
    let mut shared = shared.lock().unwrap();
    shared.ready = pods.iter().filter(|pod| is_ready(pod)).map(uid).collect();
    shared.tokens += 10.0;
    shared.state();
}

impl Shared {
    /// States on the page of each ready pod the same share of what there is.
    fn state(&self) {
        let serving = self.pages.keys().filter(|uid| self.ready.contains(uid)).count();
        let each = 1.0 / f64::from(u32::try_from(serving.max(1)).unwrap());
        for (uid, page) in &self.pages {
            let share = if self.ready.contains(uid) { each } else { 0.0 };
            state(page, self.running * share, self.queued * share, self.tokens);
        }
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    pod.metadata.deletion_timestamp.is_none() && { conditions }.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// What vLLM says.
fn state(page: &Exporter, running: f64, queued: f64, tokens: f64) {
    let labels = [("model_name", "qwen3-32b"), ("engine", "0")];
    for (metric, value) in [
        ("vllm:num_requests_running", running),
        ("vllm:num_requests_waiting", queued),
        ("vllm:kv_cache_usage_perc", 0.5),
        ("vllm:generation_tokens_total", tokens),
        ("vllm:prompt_tokens_total", tokens),
    ] {
        page.set(metric, &labels, value);
    }
}

fn uid(pod: &Pod) -> String {
    pod.uid().unwrap_or_default()
}

fn address(pod: &Pod, port: u16) -> Option<SocketAddr> {
    let ip: IpAddr = pod.status.as_ref()?.pod_ip.as_ref()?.parse().ok()?;
    Some((ip, port).into())
}

/// A fleet whose pods serve their own pages, with these requests.
async fn start(on: ApiServer, purpose: &str, replicas: i32, running: u32, queued: u32) -> Option<(Fleet, Engines)> {
    let fleet = Fleet::start(on, purpose, replicas).await?;
    fleet.ns().kubelet().ready_after(WARM_UP);
    let engines = Engines::start(fleet.ns().plane(), fleet.ns().api());
    engines.load(running, queued);
    eventually("served", SOON, || async {
        let served = engines.shared.lock().unwrap().pages.len();
        let all = i32::try_from(served) == Ok(replicas) && engines.shared.lock().unwrap().ready.len() == served;
        if all { Ok(()) } else { Err(served) }
    })
    .await;
    Some((fleet, engines))
}

/// Five queued requests a replica, without a word on a Prometheus.
async fn scale(fleet: &Fleet, engines: &Engines, more: Value) {
    let mut spec = json!({
        "metricProvider": "Scrape",
        "serverAddress": null,
        "scrape": {"port": engines.port},
        "preset": {"name": "vLLM"},
        "metrics": [{"name": "queue", "signal": "queuedRequests", "target": "5", "metricType": "AverageValue"}],
    });
    merge(&mut spec, more);
    fleet.scale_on_load(spec).await;
}

async fn queue_is(fleet: &Fleet, value: f64) -> Value {
    let reads =
        |status: &Value| status["metrics"][0]["value"].as_str().is_some_and(|text| (text.parse::<f64>().unwrap() - value).abs() < 1e-9);
    fleet.status(&format!("a queue of {value}"), reads).await
}

#[rstest]
#[tokio::test]
async fn the_pods_own_pages_take_the_fleet_up_and_down_and_one_that_hangs_is_named_and_delays_nobody(
    #[values(Real, Sandbox)] on: ApiServer,
) {
    let Some((fleet, engines)) = start(on, "pages", 4, 40, 18).await else { return };
    scale(&fleet, &engines, json!({"minReplicas": 2})).await;
    queue_is(&fleet, 18.0).await;
    let sizes = fleet.sizes().await;

    let hung = fleet.ns().pods("app=fleet").await.remove(0);
    drop(engines.leave(&hung));
    let silent = DecisionServer::start_at(address(&hung, engines.port).unwrap()).await;
    silent.hang();
    let notes = fleet.notes("FailedScrape", 1).await;
    assert!(notes[0].contains(&hung.name_any()) && notes[0].matches("no complete page").count() == 1, "{notes:?}");
    // The three that answer share the queue out among them, and the fourth counts as the busiest of them.
    queue_is(&fleet, 24.0).await;
    fleet.is_serving(5).await;
    // Four share it out among them, and the fifth is counted as one of them: 38.75. With eight it is 35.4.
    engines.load(40, 31);
    fleet.has_size(8).await;
    engines.load(2, 0);
    fleet.is_serving(2).await;
    // The pages are stated one after another, and a sync that comes in between adds up a mixture: one size more for a moment.
    let seen = sizes.seen();
    let (up, down) = (&seen[..seen.len() - 1], seen[seen.len() - 1]);
    assert!(up[0] == 4 && up.contains(&5) && up.iter().all(|size| (4..=8).contains(size)) && down == 2, "{seen:?}");
}

#[rstest]
#[tokio::test]
async fn a_pod_that_is_replaced_takes_its_page_with_it(#[values(Real, Sandbox)] on: ApiServer) {
    let Some((fleet, engines)) = start(on, "replaced", 3, 30, 12).await else { return };
    scale(&fleet, &engines, json!({})).await;
    queue_is(&fleet, 12.0).await;
    let sizes = fleet.sizes().await;

    // It is on its way out for a while, and its page goes on to be served and says that it is overrun.
    fleet.ns().kubelet().drain_for(Duration::from_secs(3));
    let old = fleet.ns().pods("app=fleet").await.remove(1);
    let page = engines.leave(&old).unwrap();
    fleet.ns().api::<Pod>().delete(&old.name_any(), &DeleteParams::default()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    state(&page, 500.0, 500.0, 1.0);
    let replaced = |pods: &[Pod]| pods.len() == 3 && pods.iter().all(|pod| uid(pod) != uid(&old));
    eventually("replaced", SOON, || async {
        let pods = fleet.ns().pods("app=fleet").await;
        if replaced(&pods) { Ok(()) } else { Err(pods.len()) }
    })
    .await;
    fleet.is_serving(3).await;
    queue_is(&fleet, 12.0).await;
    fleet.keeps_size(3).await;
    sizes.were(&[3]).await;
}

#[rstest]
#[tokio::test]
async fn the_pickers_page_wakes_a_fleet_from_zero_and_the_fleet_goes_back_to_zero(#[values(Real, Sandbox)] on: ApiServer) {
    let Some((fleet, engines)) = start(on, "pages-zero", 0, 0, 0).await else { return };
    let router = fleet.ns().plane().exporter();
    let port = router.listen(([127, 0, 0, 1], 0).into()).await.port();
    let epp = Epp::start(&router);
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "pool-epp"},
        "spec": {"type": "ExternalName", "externalName": "localhost"}});
    fleet.ns().apply(&service.to_string()).await;
    let running = json!({"name": "running", "signal": "runningRequests", "target": "16", "metricType": "AverageValue"});
    let queue = json!({"name": "queue", "signal": "queuedRequests", "target": "5", "metricType": "AverageValue"});
    scale(
        &fleet,
        &engines,
        json!({
            "minReplicas": 0,
            "scrape": {"eppService": {"name": "pool-epp", "port": port}},
            "metrics": [queue, running],
            "idle": {"cooldownSeconds": 3},
        }),
    )
    .await;
    queue_is(&fleet, 0.0).await;
    let sizes = fleet.sizes().await;
    fleet.keeps_size(0).await;

    // The picker goes and comes back: nobody knows of a queue, and nothing wakes.
    epp.goes();
    fleet.status("unknown", |status| status["metrics"][0]["state"] == "Unknown").await;
    fleet.keeps_size(0).await;
    epp.comes_back();

    epp.load(0, 7);
    fleet.has_size(2).await;
    // What waited runs in the engines as soon as they are there.
    engines.load(20, 0);
    fleet.is_serving(2).await;
    epp.load(20, 0);
    queue_is(&fleet, 0.0).await;
    fleet.keeps_size(2).await;
    epp.load(0, 0);
    engines.load(0, 0);
    fleet.is_serving(0).await;
    queue_is(&fleet, 0.0).await;
    fleet.keeps_size(0).await;
    // Nobody is there any more, and until the cooldown is over one replica waits for somebody to come.
    sizes.were(&[0, 2, 1, 0]).await;
}
