//! The replicas of a fleet, and which pod each of them is.

use std::collections::{HashMap, VecDeque};

use llmscaler_engine::{Bounds, Replicas as Count};
use llmscaler_simulator::metrics::PipelineSettings;
use llmscaler_simulator::scenario::FleetSettings;
use llmscaler_simulator::workload::{Curve, Length, Lengths, Open, Shape};
use llmscaler_simulator::{Arrivals, Promised, Request, Scenario, Simulation, Workload};

use super::books::Books;
use super::page::Page;
use super::serve::Served;
use super::{LOOPBACK, Plan, epp, vllm};
use crate::controllers::Stage;

/// What the scheduler says when no GPU is left.
const NO_GPU: &str = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.";

/// The replicas of a fleet.
#[derive(Debug)]
pub(super) struct Replicas {
    simulation: Simulation,
    promised: Promised,
    gpus: u32,
    books: Books,
    /// Replicas that were there from the start, for which no pod has come yet.
    unassigned: VecDeque<u64>,
    pods: HashMap<String, Pod>,
}

#[derive(Debug)]
struct Pod {
    id: u64,
    page: Served,
    looked_at: bool,
}

impl Replicas {
    pub(super) fn new(plan: &Plan) -> Self {
        let simulation = Simulation::new(&scenario(plan), Arrivals::Open(vec![]), plan.seed);
        let unassigned = simulation.pods().iter().map(|pod| pod.id).collect();
        let (promised, gpus) = (plan.promised, plan.profile.gpus);
        Self { simulation, promised, gpus, books: Books::default(), unassigned, pods: HashMap::new() }
    }

    /// Goes on until `time`, in seconds since the fleet began.
    pub(super) fn go_on(&mut self, time: f64) {
        if time > self.simulation.now() {
            self.simulation.run_until(time);
        }
        for happening in self.simulation.happenings() {
            self.books.enter(&happening, &self.promised, self.gpus);
        }
    }

    /// More requests; those whose time has passed come now.
    pub(super) fn send(&mut self, requests: &[Request]) {
        let now = self.simulation.now();
        self.simulation.send(requests.iter().map(|request| Request { at: request.at.max(now), ..*request }));
    }

    pub(super) fn has(&self, uid: &str) -> bool {
        self.pods.contains_key(uid)
    }

    /// Takes a new pod, whose page is served: it is one of the replicas that were there from the start, or a new one.
    pub(super) fn add(&mut self, uid: &str, page: Served) {
        let id = self.unassigned.pop_front().unwrap_or_else(|| self.simulation.add());
        self.pods.insert(uid.to_owned(), Pod { id, page, looked_at: true });
    }

    /// Tells the pod to go, if it is there.
    pub(super) fn dismiss(&mut self, uid: &str) {
        if let Some(pod) = self.pods.get(uid) {
            self.simulation.remove(pod.id);
        }
    }

    /// Where in its life a pod is.
    pub(super) fn stage(&mut self, uid: &str) -> Stage {
        let Some(pod) = self.pods.get_mut(uid) else { return Stage::Ended };
        pod.looked_at = true;
        match self.simulation.pod(pod.id) {
            None => Stage::Ended,
            Some(view) if view.unschedulable => Stage::Unschedulable(NO_GPU.to_owned()),
            Some(view) => Stage::Running { ip: LOOPBACK, port: Some(pod.page.port()), ready: view.ready_since.is_some() },
        }
    }

    /// Ends the replicas of pods that were not looked at since this was last called: they are not in the API any more.
    pub(super) fn bury(&mut self) {
        let simulation = &mut self.simulation;
        self.pods.retain(|_, pod| {
            if !pod.looked_at {
                simulation.kill(pod.id);
            }
            std::mem::take(&mut pod.looked_at)
        });
    }

    pub(super) fn books(&self) -> Books {
        let alive = self.simulation.lives().map(|life| life.gone - life.created).sum::<f64>() * f64::from(self.gpus) / 3600.0;
        Books {
            gpu_hours: self.books.gpu_hours + alive,
            waiting: self.simulation.waiting(),
            ready: self.simulation.ready(),
            replicas: self.simulation.replicas(),
            ..self.books
        }
    }

    pub(super) fn pod_page(&self, uid: &str, plan: &Plan) -> Option<Page> {
        let meters = self.simulation.engine_meters(self.pods.get(uid)?.id)?;
        Some(vllm::page(meters, &plan.profile))
    }

    pub(super) fn router_page(&self, plan: &Plan) -> Page {
        let serving: Vec<u64> = self.simulation.pods().iter().filter(|pod| !pod.terminating).map(|pod| pod.id).collect();
        let engines: Vec<_> = self.simulation.engines().filter(|(id, _)| serving.contains(id)).map(|(_, meters)| meters).collect();
        epp::page(self.simulation.gateway_meters(), &engines, plan)
    }
}

/// What the simulator is told. The requests come by themselves, and the API server keeps the time that pods have to go.
fn scenario(plan: &Plan) -> Scenario {
    let lengths = Lengths { prompt: Length::Fixed(1), output: Length::Fixed(1) };
    let nothing = Open { curve: Curve::Steps(vec![]), noise: None, batch: 1, lengths };
    let workload = Workload {
        name: plan.name.clone(),
        promised: plan.promised,
        bounds: Bounds { min: Count::ZERO, max: Count::new(u32::MAX) },
        start: plan.start,
        shape: Shape::Open(nothing),
    };
    let fleet = FleetSettings { drain_limit: f64::INFINITY, ..plan.settings };
    Scenario { workload, profile: plan.profile.clone(), fleet, pipeline: PipelineSettings::default() }
}
