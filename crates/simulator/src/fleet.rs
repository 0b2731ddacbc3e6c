//! The pods of a fleet: how they start, serve and go.

mod pod;
mod prefixes;

use std::cmp::Reverse;

use llmscaler_engine::Profile;
use rand::RngExt;
use rand_pcg::Pcg64;

use crate::EngineMeters;
use crate::events::{Events, Timers};
use crate::policy::PodView;
use crate::random::stream;
use crate::replica::{Effects, Forecast, Job, Load, Replica};
use crate::scenario::FleetSettings;
use pod::Pod;
pub use pod::PodLife;
pub(crate) use prefixes::Holder;
use prefixes::Prefixes;

/// What becomes of a pod at a time that is known beforehand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Transition {
    /// It becomes ready.
    Ready(u64),
    /// It has had its time to finish what it has.
    Killed(u64),
}

#[derive(Debug)]
struct Slot {
    replica: Replica,
    pod: u64,
    leaving: bool,
}

#[derive(Debug)]
pub(crate) struct Fleet {
    settings: FleetSettings,
    profile: Profile,
    /// Replicas that are asked for.
    asked: u32,
    /// Every pod that is there, oldest first.
    pods: Vec<Pod>,
    created: u64,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// By slot: what the router goes by.
    loads: Vec<Load>,
    /// By slot: when its replica's state changes next.
    timers: Timers,
    /// Slots of those that take requests, the one that has been ready longest first.
    serving: Vec<u32>,
    transitions: Events<Transition>,
    /// Seconds that the pod which became ready last took.
    warmup: Option<f64>,
    warmups: Pcg64,
    failures: Pcg64,
    prefixes: Prefixes,
    /// Pods that are gone, and jobs that went with them, since these were last asked for.
    gone: Vec<PodLife>,
    lost: Vec<Job>,
}

impl Fleet {
    /// Of `start` pods that are ready from the start.
    pub fn new(settings: FleetSettings, profile: Profile, start: u32, seed: u64) -> Self {
        let mut fleet = Self {
            settings,
            profile,
            asked: start,
            pods: Vec::new(),
            created: 0,
            slots: Vec::new(),
            free: Vec::new(),
            loads: Vec::new(),
            timers: Timers::new(),
            serving: Vec::new(),
            transitions: Events::new(),
            warmup: None,
            warmups: stream(seed, "warm-ups"),
            failures: stream(seed, "failed starts"),
            prefixes: Prefixes::new(settings.prefix_hits, seed),
            gone: Vec::new(),
            lost: Vec::new(),
        };
        for _ in 0..start {
            let id = fleet.create(0.0);
            if fleet.has_gpus() {
                fleet.pods[id as usize].scheduled = Some(0.0);
                fleet.serve(id, 0.0);
            }
        }
        fleet
    }

    fn create(&mut self, now: f64) -> u64 {
        let id = self.created;
        self.created += 1;
        self.pods.push(Pod::new(id, now));
        id
    }

    fn has_gpus(&self) -> bool {
        let used = self.pods.iter().filter(|pod| pod.scheduled.is_some()).count() as u64;
        self.settings.gpu_limit.is_none_or(|limit| (used + 1) * u64::from(self.profile.gpus) <= u64::from(limit))
    }

    /// Asks for `replicas`. Where that takes pods away, `victims` go first, then those that are not ready, then the newest.
    pub fn resize(&mut self, replicas: u32, victims: &[u64], now: f64) {
        let mut staying: Vec<&Pod> = self.pods.iter().filter(|pod| pod.leaving.is_none()).collect();
        let present = staying.len() as u32;
        staying.sort_by_key(|pod| {
            let wanted = victims.iter().position(|id| *id == pod.id).unwrap_or(victims.len());
            (wanted, pod.ready.is_some(), Reverse(pod.id))
        });
        let leaving: Vec<u64> = staying.iter().take(present.saturating_sub(replicas) as usize).map(|pod| pod.id).collect();
        self.asked = replicas;
        for id in leaving {
            self.remove(id, now);
        }
        for _ in present..replicas {
            self.create(now);
        }
        self.start_pods(now);
    }

    /// Asks for one more, and tells which it is.
    pub fn add(&mut self, now: f64) -> u64 {
        self.asked += 1;
        let id = self.create(now);
        self.start_pods(now);
        id
    }

    /// Asks for one less, and lets this one go as [`Self::resize`] does.
    pub fn dismiss(&mut self, id: u64, now: f64) {
        if self.index(id).is_some_and(|index| self.pods[index].leaving.is_none()) {
            self.asked = self.asked.saturating_sub(1);
            self.remove(id, now);
        }
    }

    /// Ends a pod without letting it finish what it has.
    pub fn kill(&mut self, id: u64, now: f64) {
        self.dismiss(id, now);
        if let Some(index) = self.index(id) {
            self.exit(index, now);
        }
    }

    /// Gives GPUs to the pods that have none, the oldest first, as far as there are some.
    fn start_pods(&mut self, now: f64) {
        let mut starting = Vec::new();
        while let Some(index) = self.pods.iter().position(|pod| pod.scheduled.is_none())
            && self.has_gpus()
        {
            self.pods[index].scheduled = Some(now);
            starting.push(self.pods[index].id);
        }
        let loading = self.pods.iter().filter(|pod| pod.scheduled.is_some() && pod.ready.is_none()).count();
        for id in starting {
            let seconds = self.settings.warmup.sample(loading, &mut self.warmups);
            if self.failures.random::<f64>() >= self.settings.start_failure {
                self.transitions.add(now + seconds, Transition::Ready(id));
            }
        }
    }

    fn index(&self, id: u64) -> Option<usize> {
        self.pods.binary_search_by_key(&id, |pod| pod.id).ok()
    }

    /// Lets a pod take requests.
    fn serve(&mut self, id: u64, now: f64) {
        let Some(index) = self.index(id) else { return };
        let replica = Replica::new(self.profile.costs, now);
        let load = replica.load();
        let new = Slot { replica, pod: id, leaving: false };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = new;
                self.loads[slot as usize] = load;
                slot
            }
            None => {
                self.slots.push(new);
                self.loads.push(load);
                self.slots.len() as u32 - 1
            }
        };
        self.serving.push(slot);
        let pod = &mut self.pods[index];
        pod.ready = Some(now);
        pod.slot = Some(slot);
    }

    /// Tells a pod to go. What it has it finishes; a pod that is not ready has nothing.
    fn remove(&mut self, id: u64, now: f64) {
        let Some(index) = self.index(id) else { return };
        let Some(slot) = self.pods[index].slot else {
            self.exit(index, now);
            return;
        };
        self.pods[index].leaving = Some(now);
        self.slots[slot as usize].leaving = true;
        self.serving.retain(|serving| *serving != slot);
        if self.slots[slot as usize].replica.in_flight() == 0 {
            self.exit(index, now);
        } else if self.settings.drain_limit < f64::INFINITY {
            self.transitions.add(now + self.settings.drain_limit, Transition::Killed(id));
        }
    }

    /// The end of a pod, and of what it has.
    fn exit(&mut self, index: usize, now: f64) {
        let pod = self.pods.remove(index);
        if let Some(slot) = pod.slot {
            self.lost.append(&mut self.slots[slot as usize].replica.abandon());
            self.timers.set(slot as usize, f64::INFINITY);
            self.free.push(slot);
            self.prefixes.depart(now);
        }
        self.gone.extend(pod.life(now));
        self.start_pods(now);
    }

    /// When the next pod changes, infinite if none will.
    pub fn next_transition(&self) -> f64 {
        self.transitions.due()
    }

    /// Does what is due first. Tells whether there is a replica more that serves.
    pub fn transition(&mut self, now: f64) -> bool {
        match self.transitions.take() {
            Some(Transition::Ready(id)) => {
                // It may have been told to go before it was ready.
                let Some(index) = self.index(id) else { return false };
                self.warmup = Some(now - self.pods[index].created);
                self.serve(id, now);
                true
            }
            Some(Transition::Killed(id)) => {
                if let Some(index) = self.index(id) {
                    self.exit(index, now);
                }
                false
            }
            None => false,
        }
    }

    /// The slot whose replica changes next, and when; infinite if none will.
    pub fn next_advance(&self) -> (usize, f64) {
        self.timers.first()
    }

    /// Ends the work of a replica that is due, and begins its next.
    pub fn advance(&mut self, slot: usize, now: f64, effects: &mut Effects) {
        let Slot { replica, pod, leaving } = &mut self.slots[slot];
        replica.advance(now, effects);
        if *leaving && replica.in_flight() == 0 {
            let id = *pod;
            if let Some(index) = self.index(id) {
                self.exit(index, now);
            }
        } else {
            self.loads[slot] = replica.load();
            self.timers.set(slot, replica.due());
        }
    }

    /// Gives a request to a replica, and tells what is to be expected.
    pub fn accept(&mut self, slot: u32, now: f64, job: Job) -> Forecast {
        let replica = &mut self.slots[slot as usize].replica;
        replica.accept(now, job);
        self.loads[slot as usize] = replica.load();
        self.timers.set(slot as usize, replica.due());
        replica.forecast(now, job.request.prompt)
    }

    /// Which replica has the prefix of a request cached.
    pub fn holder(&mut self, prefix: u32, now: f64) -> Holder {
        self.prefixes.holder(prefix, &self.serving, now)
    }

    pub fn serving(&self) -> &[u32] {
        &self.serving
    }

    pub fn loads(&self) -> &[Load] {
        &self.loads
    }

    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    pub fn asked(&self) -> u32 {
        self.asked
    }

    pub fn warmup(&self) -> Option<f64> {
        self.warmup
    }

    /// Brings the meters of all replicas up to date.
    pub fn read_meters(&mut self, now: f64) {
        for slot in self.pods.iter().filter_map(|pod| pod.slot) {
            self.slots[slot as usize].replica.read_meters(now);
        }
    }

    /// The meters of the pods that serve or finish what they have, as last read, with their ids.
    pub fn meters(&self) -> impl Iterator<Item = (u64, &EngineMeters)> {
        self.pods.iter().filter_map(|pod| Some((pod.id, self.slots[pod.slot? as usize].replica.meters())))
    }

    /// Every pod that is there, oldest first.
    pub fn views(&self) -> Vec<PodView> {
        self.pods.iter().map(|pod| self.view_of(pod)).collect()
    }

    /// The pod of this id, if it is there.
    pub fn view(&self, id: u64) -> Option<PodView> {
        self.index(id).map(|index| self.view_of(&self.pods[index]))
    }

    fn view_of(&self, pod: &Pod) -> PodView {
        let usage = |slot: u32| self.slots[slot as usize].replica.meters().kv_tokens as f64 / f64::from(self.profile.costs.kv_tokens);
        pod.view(pod.slot.map_or(0.0, usage))
    }

    /// The pods that went since this was last asked.
    pub fn take_gone(&mut self) -> impl Iterator<Item = PodLife> {
        self.gone.drain(..)
    }

    /// The requests that went with them.
    pub fn take_lost(&mut self) -> Vec<Job> {
        std::mem::take(&mut self.lost)
    }

    /// The courses of the pods that are still there.
    pub fn lives(&self, now: f64) -> impl Iterator<Item = PodLife> {
        self.pods.iter().filter_map(move |pod| pod.life(now))
    }
}
