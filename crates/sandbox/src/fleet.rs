//! Simulated vLLM replicas behind the pods, for the demo: each pod of a fleet's Deployment is one replica of the simulator, serves its
//! own `/metrics`, and goes through its life in the sandbox's time.
//!
//! A [`Fleet`] has its own traffic, its own Deployment and its own endpoint picker (EPP); several under the same traffic can be held
//! against each other. [`Fleets`] runs them all: it is the scheduler and the kubelet of their pods.
//!
//! # What is where
//!
//! All pods are at 127.0.0.1, each with a port of its own under the name `metrics`; the EPP's Service is an `ExternalName` for the same
//! address. That works wherever there is a loopback address, and nothing is reached from elsewhere.
//!
//! # What is simulated
//!
//! What requests go through, and when, is the simulator's. Its time is that of the sandbox since the fleet began: whoever looks at a
//! page first brings the fleet up to date. A pod is ready when its warm-up is over. One that is deleted takes no more requests, and is
//! gone when it has finished what it has, or when its grace period is over: what it still has then is lost.

mod books;
mod cluster;
mod epp;
mod lag;
mod objects;
mod page;
mod replicas;
mod serve;
mod vllm;

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use llmscaler_engine::Profile;
use llmscaler_simulator::scenario::FleetSettings;
use llmscaler_simulator::{Promised, Request};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use self::books::Books;
pub use self::cluster::Fleets;
pub use self::lag::Lag;
use self::replicas::Replicas;
use crate::controllers::{PodView, Stage};
use crate::sandbox::Sandbox;

/// What a fleet is.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The namespace of its objects.
    pub namespace: String,
    /// What it is called: its Deployment, and the label `app` of its pods.
    pub name: String,
    /// The engine, its model and its hardware.
    pub profile: Profile,
    /// How its pods start, share the traffic and go. How long they may take to go is the pods' own grace period.
    pub settings: FleetSettings,
    /// The latencies that requests are held against.
    pub promised: Promised,
    /// Replicas that are ready from the start.
    pub start: u32,
    /// The seed of all chance.
    pub seed: u64,
}

/// A fleet of simulated replicas. Clones are the same fleet.
#[derive(Clone)]
pub struct Fleet(Arc<Shared>);

struct Shared {
    plan: Plan,
    sandbox: Sandbox,
    began: Timestamp,
    replicas: Mutex<Replicas>,
    /// Whether its pages are there to be read.
    told: AtomicBool,
}

impl Fleet {
    /// A fleet of this API, whose time begins `began`.
    #[must_use]
    pub fn new(sandbox: &Sandbox, plan: Plan, began: Timestamp) -> Self {
        let replicas = Mutex::new(Replicas::new(&plan));
        Self(Arc::new(Shared { plan, sandbox: sandbox.clone(), began, replicas, told: AtomicBool::new(true) }))
    }

    /// What it is.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.0.plan
    }

    /// Its Deployment, as it is created.
    #[must_use]
    pub fn deployment(&self) -> Value {
        objects::deployment(&self.0.plan)
    }

    /// The Service of its endpoint picker, which is served at this port of 127.0.0.1.
    #[must_use]
    pub fn service(&self, port: u16) -> Value {
        objects::service(&self.0.plan, port)
    }

    /// The name of that Service.
    #[must_use]
    pub fn service_name(&self) -> String {
        objects::service_name(&self.0.plan)
    }

    /// More requests, their times in seconds since the fleet began, in the order of time, none before the last that was sent.
    pub fn send(&self, requests: &[Request]) {
        self.up_to_date().send(requests);
    }

    /// Whether its pages can be read; without, they answer 503.
    pub fn tell(&self, told: bool) {
        self.0.told.store(told, Ordering::Relaxed);
    }

    /// What it has done so far.
    #[must_use]
    pub fn books(&self) -> Books {
        self.up_to_date().books()
    }

    /// The page of its endpoint picker as it is now; `None` while nothing is told.
    #[must_use]
    pub fn router_page(&self) -> Option<String> {
        let page = self.is_told().then(|| self.up_to_date().router_page(&self.0.plan))?;
        Some(page.text())
    }

    /// The page of one of its pods by its UID, as it is now; `None` while nothing is told or the pod does not serve.
    #[must_use]
    pub fn pod_page(&self, uid: &str) -> Option<String> {
        let page = self.is_told().then(|| self.up_to_date().pod_page(uid, &self.0.plan))??;
        Some(page.text())
    }

    /// Serves the page of its endpoint picker until `shutdown`.
    ///
    /// # Errors
    /// The listener fails.
    pub async fn serve_router(self, listener: TcpListener, shutdown: CancellationToken) -> io::Result<()> {
        let sandbox = self.0.sandbox.clone();
        serve::page(&sandbox, listener, Arc::new(move || self.router_page()), shutdown)?.await
    }

    /// Whether the pod is one of its own.
    fn owns(&self, pod: PodView<'_>) -> bool {
        let app = pod.object.pointer("/metadata/labels/app").and_then(Value::as_str);
        pod.namespace() == self.0.plan.namespace && app == Some(&self.0.plan.name)
    }

    /// Where in its life one of its pods is. A new one gets a replica and a page.
    fn stage(&self, pod: PodView<'_>) -> Stage {
        let uid = pod.uid();
        let mut replicas = self.up_to_date();
        if !replicas.has(uid) && pod.terminating.is_none() {
            let (fleet, owned) = (Arc::downgrade(&self.0), uid.to_owned());
            match serve::page_on_loopback(&self.0.sandbox, Arc::new(move || Self(fleet.upgrade()?).pod_page(&owned))) {
                Ok(served) => replicas.add(uid, served),
                Err(error) => {
                    tracing::warn!(pod = pod.name(), %error, "No port for the metrics of a pod; trying again");
                    return Stage::Starting;
                }
            }
        }
        if pod.terminating.is_some() {
            replicas.dismiss(uid);
        }
        replicas.stage(uid)
    }

    /// Ends the replicas whose pods were not looked at since this was last called.
    fn bury(&self) {
        self.up_to_date().bury();
    }

    fn is_told(&self) -> bool {
        self.0.told.load(Ordering::Relaxed)
    }

    /// The replicas as they are now.
    fn up_to_date(&self) -> MutexGuard<'_, Replicas> {
        let mut replicas = self.0.replicas.lock().unwrap_or_else(PoisonError::into_inner);
        replicas.go_on(self.0.sandbox.now().duration_since(self.0.began).as_secs_f64().max(0.0));
        replicas
    }
}

/// Where all pods and the endpoint pickers are.
const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
