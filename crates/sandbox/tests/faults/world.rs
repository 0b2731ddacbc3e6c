//! A cluster with fleets under load, operators that scale them, and somebody who keeps book of it all.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use llmscaler_api::LLMScaler;
use llmscaler_engine::Reading;
use llmscaler_operator::{Clock, LeaderElection, Options, Readings, run_with_readings};
use llmscaler_sandbox::{Controllers, PodView, Sandbox, Stage};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::book::Book;

/// Of each metric, what one replica takes.
pub const TARGET: f64 = 10.0;
/// The time between two syncs, in seconds.
pub const PERIOD: u64 = 15;
/// How long a pod takes to become ready, and to end.
const WARM_UP: Duration = Duration::from_secs(20);
const DRAIN: Duration = Duration::from_secs(5);
/// The time between two looks of the controllers. At each change they would look much more often than there is anything to do.
const STEP: Duration = Duration::from_secs(3);

/// What the metrics of a scaler show; `None` cannot be read.
pub type Load = Vec<Option<f64>>;

/// What befalls the pods.
#[derive(Default)]
pub struct Plight {
    /// New pods find no node.
    pub full: bool,
    /// These are not ready.
    pub sick: BTreeSet<String>,
    /// These end by themselves.
    pub doomed: BTreeSet<String>,
}

/// What the world's parts share.
#[derive(Default)]
pub struct Shared {
    pub loads: BTreeMap<String, Load>,
    metrics: BTreeMap<String, usize>,
    /// What was read, and when, in seconds.
    pub handed: BTreeMap<String, Vec<(f64, Load)>>,
    pub plight: Plight,
}

pub struct World {
    pub sandbox: Sandbox,
    pub shared: Arc<Mutex<Shared>>,
    pub book: Book,
    operators: BTreeMap<String, (CancellationToken, JoinHandle<()>)>,
    started: u32,
    users: u32,
    client: Client,
    end: CancellationToken,
}

impl World {
    pub fn new() -> Self {
        let sandbox = Sandbox::new().unwrap();
        let (shared, end) = (Arc::new(Mutex::new(Shared::default())), CancellationToken::new());
        let fate = shared.clone();
        let life = Box::new(move |pod: PodView<'_>| stage(&fate.lock().unwrap().plight, pod));
        let mut controllers = Controllers::new(&sandbox, life);
        tokio::spawn(end.clone().run_until_cancelled_owned(async move {
            loop {
                controllers.step();
                sleep(STEP).await;
            }
        }));
        let book = Book::new(&sandbox, shared.clone());
        let client = sandbox.client_as("user");
        Self { sandbox, shared, book, operators: BTreeMap::new(), started: 0, users: 0, client, end }
    }

    /// A Deployment with its scaler; `more` goes into the scaler's spec.
    pub async fn fleet(&mut self, name: &str, replicas: i64, metrics: usize, more: Value) {
        let template = json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "server", "image": "i:1"}]}});
        let spec = json!({"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template});
        let fleet = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec});
        let fleet: Deployment = serde_json::from_value(fleet).unwrap();
        Api::default_namespaced(self.client.clone()).create(&PostParams::default(), &fleet).await.unwrap();
        let metric = |n| json!({"name": format!("m{n}"), "query": "sum(x)", "metricType": "AverageValue", "target": TARGET.to_string()});
        let mut spec = json!({
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "serverAddress": "http://127.0.0.1:1",
            "minReplicas": 1, "maxReplicas": 8, "syncPeriodSeconds": PERIOD, "retryPeriodSeconds": 10,
            "scaleDown": {"behavior": "CacheAware"},
            "metrics": (0..metrics).map(metric).collect::<Vec<_>>(),
        });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let object =
            json!({"apiVersion": "autoscaling.modelsphere.dev/v1alpha1", "kind": "LLMScaler", "metadata": {"name": name}, "spec": spec});
        let scaler: LLMScaler = serde_json::from_value(object).unwrap();
        self.shared.lock().unwrap().metrics.insert(name.to_owned(), metrics);
        self.scalers().create(&PostParams::default(), &scaler).await.unwrap();
    }

    fn scalers(&self) -> Api<LLMScaler> {
        Api::default_namespaced(self.client.clone())
    }

    /// A user edits the spec of a scaler.
    pub async fn edit(&self, name: &str, spec: Value) -> bool {
        self.scalers().patch(name, &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await.is_ok()
    }

    /// A user scales the Deployment; each time another, as the size is left to one who keeps doing so.
    pub async fn scale(&mut self, name: &str, replicas: i64) {
        self.users += 1;
        let user = PatchParams { field_manager: Some(format!("user-{}", self.users)), ..PatchParams::default() };
        let deployments: Api<Deployment> = Api::default_namespaced(self.client.clone());
        let size = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        deployments.patch_scale(name, &user, &size).await.unwrap();
    }

    /// What the metrics of a scaler show from now on; those that it does not have are left out.
    pub fn load(&self, name: &str, mut load: Load) {
        let mut shared = self.shared.lock().unwrap();
        load.truncate(shared.metrics[name]);
        shared.loads.insert(name.to_owned(), load);
    }

    /// Starts a replica of the operator, which stands for election, and answers its name.
    pub fn operator(&mut self) -> String {
        self.started += 1;
        let agent = format!("operator-{}", self.started);
        let election = LeaderElection { namespace: "default".into(), name: "llmscaler".into(), identity: agent.clone() };
        let options = Options {
            health: None,
            metrics: None,
            dashboard: None,
            external_metrics: None,
            namespace: None,
            leader_election: Some(election),
            clock: Clock::start(),
        };
        let (shared, sandbox, stop) = (self.shared.clone(), self.sandbox.clone(), CancellationToken::new());
        let started = self.book.started;
        let readings = Readings::new(move |_, name| {
            let mut shared = shared.lock().unwrap();
            let load = shared.loads.get(name).cloned().unwrap_or_default();
            let at = sandbox.now().duration_since(started).as_secs_f64();
            shared.handed.entry(name.to_owned()).or_default().push((at, load.clone()));
            load.iter().map(|value| value.map_or_else(|| Reading::unknown("the source does not answer"), Reading::from_number)).collect()
        });
        let running = run_with_readings(self.sandbox.client_as(&agent), options, readings, stop.clone());
        let task = tokio::spawn(async move { running.await.unwrap() });
        self.operators.insert(agent.clone(), (stop, task));
        agent
    }

    pub fn operators(&self) -> Vec<String> {
        self.operators.keys().cloned().collect()
    }

    /// It is gone, at once.
    pub fn crash(&mut self, agent: &str) {
        let (_, task) = self.operators.remove(agent).unwrap();
        task.abort();
    }

    /// It is told to end, and does.
    pub async fn stop(&mut self, agent: &str) {
        let (stop, task) = self.operators.remove(agent).unwrap();
        stop.cancel();
        tokio::time::timeout(Duration::from_secs(30), task).await.expect("it ends soon").unwrap();
    }

    /// Lets so many seconds pass.
    pub async fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            sleep(Duration::from_secs(1)).await;
            self.audit();
        }
    }

    /// Looks through the book. Whatever is against the rules ends the test.
    pub fn audit(&mut self) {
        self.book.audit();
        for (agent, (_, task)) in &self.operators {
            assert!(!task.is_finished(), "{agent} has ended");
        }
    }

    /// Breaks every watch off, with no way to go on where it was.
    pub fn break_watches(&mut self) {
        self.audit();
        self.sandbox.forget_changes();
        self.sandbox.cut_watches();
    }

    /// Waits until the fleet has so many replicas, all of them ready, and answers how many seconds that took.
    pub async fn until(&mut self, name: &str, replicas: i64, most: u64) -> Result<u64, String> {
        self.audit();
        for second in 0..=most {
            if self.book.is_settled(name, replicas) {
                return Ok(second);
            }
            self.pass(1).await;
        }
        Err(format!("{name} has not come to {replicas} within {most} s: {}", self.book.describe(name)))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.end.cancel();
        for (_, task) in self.operators.values() {
            task.abort();
        }
    }
}

fn stage(plight: &Plight, pod: PodView<'_>) -> Stage {
    let placed = pod.object["spec"]["nodeName"].is_string();
    if pod.terminating.is_some_and(|time| time >= DRAIN) || plight.doomed.contains(pod.name()) {
        return Stage::Ended;
    }
    if plight.full && !placed {
        return Stage::Unschedulable("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.".to_owned());
    }
    let ready = pod.age >= WARM_UP && !plight.sick.contains(pod.name());
    Stage::Running { ip: IpAddr::V4(Ipv4Addr::LOCALHOST), port: None, ready }
}
