//! A fleet under traffic, in virtual time.

#[cfg(test)]
mod tests;

use crate::clients::Clients;
use crate::fleet::{Fleet, Holder, PodLife};
use crate::gateway::Gateway;
use crate::policy::PodView;
use crate::replica::{Effects, Job, Replica};
use crate::router::Routes;
use crate::scenario::Scenario;
use crate::{Arrivals, EngineMeters, GatewayMeters, Request, Served};

/// What happened, in the order of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Happening {
    /// A request arrived.
    Arrived(Request),
    /// A request was answered to its end.
    Served(Served),
    /// The request that arrived at this time will not be answered: its replica went, or it is longer than any replica's KV cache.
    Lost(f64),
    /// So many tokens are processed again that had been cached.
    Recomputed(u64),
    /// A pod is gone.
    Pod(PodLife),
}

/// A fleet under traffic, in virtual time: it goes on as far as it is told to, and can be resized in between.
///
/// At the same moment pods change first, then requests arrive, then replicas end their steps.
#[derive(Debug)]
pub struct Simulation {
    now: f64,
    fleet: Fleet,
    gateway: Gateway,
    routes: Routes,
    clients: Clients,
    effects: Effects,
    happenings: Vec<Happening>,
    /// The longest request, prompt and answer, that the replicas take.
    longest: u64,
    prefixes: bool,
}

impl Simulation {
    /// At time 0, with the replicas that the scenario's workload starts with. `arrivals` are those of the workload, or others.
    #[must_use]
    pub fn new(scenario: &Scenario, arrivals: Arrivals, seed: u64) -> Self {
        let Scenario { workload, profile, fleet, .. } = scenario;
        Self {
            now: 0.0,
            fleet: Fleet::new(*fleet, profile.clone(), workload.start, seed),
            gateway: Gateway::default(),
            routes: Routes::new(fleet.router),
            clients: Clients::new(arrivals, seed),
            effects: Effects::default(),
            happenings: Vec::new(),
            longest: Replica::longest(&profile.costs),
            prefixes: fleet.prefix_hits > 0.0,
        }
    }

    /// Goes on until `time`, which is not before the present; what is due then is done too.
    pub fn run_until(&mut self, time: f64) {
        loop {
            let (transition, arrival) = (self.fleet.next_transition(), self.clients.due());
            let (slot, step) = self.fleet.next_advance();
            let next = transition.min(arrival).min(step);
            if next > time || next == f64::INFINITY {
                break;
            }
            if transition <= next {
                self.transition(next);
            } else if arrival <= next {
                self.arrive();
            } else {
                self.advance(slot, next);
            }
        }
        self.now = self.now.max(time);
        self.fleet.read_meters(self.now);
    }

    fn transition(&mut self, now: f64) {
        if self.fleet.transition(now) {
            while let Some(job) = self.gateway.release() {
                self.route(now, job);
            }
        }
        self.account_for_pods(now);
    }

    fn arrive(&mut self) {
        let Some((request, user)) = self.clients.take() else { return };
        let now = request.at;
        self.gateway.arrived(&request);
        self.happenings.push(Happening::Arrived(request));
        if u64::from(request.prompt) + u64::from(request.output) > self.longest {
            self.happenings.push(Happening::Lost(now));
            self.clients.answered(user, now);
        } else {
            self.route(now, Job { request, cached: 0, user });
        }
    }

    fn route(&mut self, now: f64, mut job: Job) {
        let holder = if self.prefixes { self.fleet.holder(job.request.reusable_prefix, now) } else { Holder::Nobody };
        let cached = if let Holder::Serving(cached) = holder { Some(cached) } else { None };
        let Some(slot) = self.routes.choose(now, self.fleet.serving(), self.fleet.loads(), cached) else {
            self.gateway.hold(job);
            return;
        };
        match holder {
            Holder::Serving(cached) if cached.slot == slot => job.cached = (cached.tokens as u32).min(job.request.prompt - 1),
            Holder::Gone { tokens } => self.happenings.push(Happening::Recomputed(tokens)),
            Holder::Serving(_) | Holder::Nobody => {}
        }
        let forecast = self.fleet.accept(slot, now, job);
        self.gateway.routed(now, forecast);
    }

    fn advance(&mut self, slot: usize, now: f64) {
        self.fleet.advance(slot, now, &mut self.effects);
        for ttft in self.effects.first_tokens.drain(..) {
            self.gateway.first_token(now, ttft);
        }
        let finished = !self.effects.finished.is_empty();
        for (served, user) in self.effects.finished.drain(..) {
            self.gateway.finished(now, &served);
            self.happenings.push(Happening::Served(served));
            self.clients.answered(user, served.finished);
        }
        let recomputed = std::mem::take(&mut self.effects.recomputed);
        if recomputed > 0 {
            self.happenings.push(Happening::Recomputed(recomputed));
        }
        if finished {
            self.account_for_pods(now);
        }
    }

    fn account_for_pods(&mut self, now: f64) {
        self.happenings.extend(self.fleet.take_gone().map(Happening::Pod));
        for job in self.fleet.take_lost() {
            self.gateway.lost();
            self.happenings.push(Happening::Lost(job.request.at));
            self.clients.answered(job.user, now);
        }
    }

    /// Asks for so many replicas. Where that takes pods away, `victims` go first, in their order, then pods that are not ready, then the
    /// newest ones. They get no more requests and are gone when they have finished what they have.
    pub fn resize(&mut self, replicas: u32, victims: &[u64]) {
        self.fleet.resize(replicas, victims, self.now);
        self.account_for_pods(self.now);
    }

    /// Asks for one replica more and tells the id of its pod, for those who make pods one by one.
    pub fn add(&mut self) -> u64 {
        self.fleet.add(self.now)
    }

    /// Asks for one replica less: this pod gets no more requests and is gone when it has finished what it has.
    pub fn remove(&mut self, pod: u64) {
        self.fleet.dismiss(pod, self.now);
        self.account_for_pods(self.now);
    }

    /// Ends a pod at once. What it has is lost.
    pub fn kill(&mut self, pod: u64) {
        self.fleet.kill(pod, self.now);
        self.account_for_pods(self.now);
    }

    /// More requests of an open workload, in the order of time, none before the last of those that there are. Closed loops have users
    /// who ask by themselves, and take none.
    pub fn send(&mut self, requests: impl IntoIterator<Item = Request>) {
        self.clients.send(requests);
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> f64 {
        self.now
    }

    /// Replicas that are asked for.
    #[must_use]
    pub fn replicas(&self) -> u32 {
        self.fleet.asked()
    }

    /// Replicas that take requests.
    #[must_use]
    pub fn ready(&self) -> u32 {
        self.fleet.serving().len() as u32
    }

    /// Every pod that is there, oldest first; those that are leaving too.
    #[must_use]
    pub fn pods(&self) -> Vec<PodView> {
        self.fleet.views()
    }

    /// One pod, if it is there.
    #[must_use]
    pub fn pod(&self, id: u64) -> Option<PodView> {
        self.fleet.view(id)
    }

    /// Seconds that the pod which became ready last took from its creation.
    #[must_use]
    pub fn warmup(&self) -> Option<f64> {
        self.fleet.warmup()
    }

    /// What a pod has counted by now; `None` where there is no such pod or it was never ready.
    #[must_use]
    pub fn engine_meters(&self, pod: u64) -> Option<&EngineMeters> {
        self.engines().find_map(|(id, meters)| (id == pod).then_some(meters))
    }

    /// What every pod that serves or finishes what it has counted by now, with its id, oldest first.
    pub fn engines(&self) -> impl Iterator<Item = (u64, &EngineMeters)> {
        self.fleet.meters()
    }

    /// What the gateway has counted by now.
    #[must_use]
    pub fn gateway_meters(&self) -> &GatewayMeters {
        self.gateway.meters()
    }

    /// Requests that wait, at the gateway and at replicas.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        self.gateway.meters().queued + self.engines().map(|(_, meters)| meters.waiting).sum::<u32>()
    }

    /// Share of the KV cache of the pods that have one which is in use, 0 to 1; 0 where there is none.
    #[must_use]
    pub fn kv_usage(&self) -> f64 {
        let (tokens, pods) = self.engines().fold((0, 0_u32), |(tokens, pods), (_, meters)| (tokens + meters.kv_tokens, pods + 1));
        tokens as f64 / (f64::from(pods.max(1)) * f64::from(self.fleet.profile().costs.kv_tokens))
    }

    /// Whether no request is here, and none is to be expected.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let meters = self.gateway.meters();
        meters.queued == 0 && meters.in_flight == 0 && self.clients.due() == f64::INFINITY
    }

    /// What happened since this was last asked. It is kept until then.
    pub fn happenings(&mut self) -> impl Iterator<Item = Happening> {
        self.happenings.drain(..)
    }

    /// The courses of the pods that are still there, as if they went now.
    pub fn lives(&self) -> impl Iterator<Item = PodLife> {
        self.fleet.lives(self.now)
    }
}
