//! What a run is made of, and the run.

use llmscaler_engine::{Profile, Replicas};

use crate::capacity;
use crate::metrics::{Metrics, PipelineSettings, PodMeters};
use crate::outcome::{Outcome, Recorder};
use crate::policy::{Policy, View};
use crate::simulation::{Happening, Simulation};
use crate::workload::Workload;

/// Seconds after the last possible arrival for which unfinished requests are waited for.
const PATIENCE: f64 = 3600.0;

/// Everything that a run depends on but its policy and its seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// What comes, what is promised, and what the fleet may be.
    pub workload: Workload,
    /// The engine, its model and its hardware.
    pub profile: Profile,
    /// How pods start, share the traffic and go.
    pub fleet: FleetSettings,
    /// How metrics come about.
    pub pipeline: PipelineSettings,
}

impl Scenario {
    /// Runs the workload under a policy until everything is answered, and at least until the end of what is billed; what is not
    /// answered an hour after the last arrival never will be.
    ///
    /// The policy is asked first at time 0, then once in each of its periods. The same seed gives the same outcome.
    pub fn run(&self, policy: &mut dyn Policy, seed: u64) -> Outcome {
        let mut run = Run::new(self, seed);
        let (mut scrapes, mut ticks, mut samples) = (Clock::new(self.pipeline.scrape_interval), Clock::new(policy.period()), run.samples());
        let (billed, patience) = (run.recorder.billed_until(), self.workload.span() + PATIENCE);
        loop {
            let now = scrapes.due().min(ticks.due()).min(samples.due()).min(patience);
            run.go_on(now);
            if scrapes.strikes(now) {
                run.scrape(now);
            }
            if ticks.strikes(now) {
                run.decide(policy, now);
            }
            if samples.strikes(now) && now <= billed {
                run.sample(now);
            }
            if now >= patience || (now >= billed && run.simulation.is_over()) {
                return run.end(policy.name(), seed);
            }
        }
    }
}

/// Strikes at time 0 and then at every multiple of a period.
#[derive(Clone, Copy, Debug)]
struct Clock {
    period: f64,
    strikes: u64,
}

impl Clock {
    fn new(period: f64) -> Self {
        Self { period, strikes: 0 }
    }

    fn due(&self) -> f64 {
        if self.strikes == 0 { 0.0 } else { self.strikes as f64 * self.period }
    }

    /// Whether it is due at `now`; then it has struck.
    fn strikes(&mut self, now: f64) -> bool {
        let due = self.due() <= now;
        self.strikes += u64::from(due);
        due
    }
}

/// A run at work.
struct Run<'a> {
    scenario: &'a Scenario,
    simulation: Simulation,
    metrics: Metrics,
    recorder: Recorder,
}

impl<'a> Run<'a> {
    fn new(scenario: &'a Scenario, seed: u64) -> Self {
        let Scenario { workload, profile, pipeline, .. } = scenario;
        let (costs, promised) = (profile.costs, workload.promised);
        let need = move |rate: f64, prompt: f64, output: f64| rate / capacity(&costs, prompt, output, promised);
        Self {
            scenario,
            simulation: Simulation::new(scenario, workload.arrivals(seed), seed),
            metrics: Metrics::new(*pipeline, &profile.costs, seed),
            recorder: Recorder::new(promised, workload.span(), profile.gpus, need),
        }
    }

    fn samples(&self) -> Clock {
        Clock::new(self.recorder.interval())
    }

    fn go_on(&mut self, now: f64) {
        self.simulation.run_until(now);
        self.take_down();
    }

    fn take_down(&mut self) {
        for happening in self.simulation.happenings() {
            match happening {
                Happening::Arrived(request) => self.recorder.arrived(&request),
                Happening::Served(served) => self.recorder.served(&served),
                Happening::Lost(_) => self.recorder.lost(),
                Happening::Recomputed(tokens) => self.recorder.recomputed(tokens),
                Happening::Pod(life) => self.recorder.pod(life.created, life.ready, life.leaving, life.gone),
            }
        }
    }

    fn scrape(&mut self, now: f64) {
        let leaving: Vec<u64> = self.simulation.pods().iter().filter(|pod| pod.terminating).map(|pod| pod.id).collect();
        let state = |(id, meters)| PodMeters { id, serving: !leaving.contains(&id), meters };
        let pods: Vec<_> = self.simulation.engines().map(state).collect();
        self.metrics.scrape(now, self.simulation.gateway_meters(), &pods);
    }

    fn decide(&mut self, policy: &mut dyn Policy, now: f64) {
        let bounds = self.scenario.workload.bounds;
        let (replicas, pods) = (self.simulation.replicas(), self.simulation.pods());
        let verdict = policy.decide(&View {
            now,
            bounds,
            replicas,
            ready: self.simulation.ready(),
            pods: &pods,
            warmup: self.simulation.warmup(),
            metrics: &self.metrics,
        });
        if verdict.on_missing {
            self.recorder.decided_on_missing();
        }
        if let Some(write) = verdict.write {
            let write = bounds.clamp(Replicas::new(write)).get();
            self.recorder.resized(now, replicas, write, &verdict.why);
            self.simulation.resize(write, &verdict.victims);
            self.take_down();
        }
    }

    fn sample(&mut self, now: f64) {
        let simulation = &self.simulation;
        self.recorder.sample(now, simulation.replicas(), simulation.ready(), simulation.waiting(), simulation.kv_usage());
    }

    fn end(mut self, policy: String, seed: u64) -> Outcome {
        for life in self.simulation.lives() {
            self.recorder.pod(life.created, life.ready, life.leaving, life.gone);
        }
        self.recorder.finish(policy, seed, self.simulation.now())
    }
}

/// How the pods of a fleet start, share the traffic and go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FleetSettings {
    /// How long pods take to become ready.
    pub warmup: Warmup,
    /// Which replica gets a request.
    pub router: Router,
    /// Most seconds that a leaving pod takes to finish what it has; what is not finished then is lost.
    pub drain_limit: f64,
    /// GPUs that there are; pods beyond that stay unschedulable. `None`: as many as it takes.
    pub gpu_limit: Option<u32>,
    /// Share of the starts that never become ready, 0 to 1.
    pub start_failure: f64,
    /// Share of a request's reusable prefix that the replica which has served it before still has cached, 0 to 1.
    pub prefix_hits: f64,
}

impl Default for FleetSettings {
    /// As the published tables of the headroom law were made: 100 s to start, the least loaded replica, no prefix cache, and time enough
    /// to finish every answer.
    fn default() -> Self {
        Self {
            warmup: Warmup::SEED,
            router: Router::LeastLoaded,
            drain_limit: f64::INFINITY,
            gpu_limit: None,
            start_failure: 0.0,
            prefix_hits: 0.0,
        }
    }
}

/// Which replica gets a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Router {
    /// The one with the fewest prompt tokens to process, then the emptiest KV cache, then the fewest requests that wait.
    #[default]
    LeastLoaded,
    /// One after the other.
    RoundRobin,
    /// The one that has the request's prefix cached, unless it has much more to do than the least loaded one.
    PrefixAffine,
}

/// Seconds from the creation of a pod until it is ready.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Warmup {
    /// The median.
    pub median: f64,
    /// Standard deviation of its logarithm; 0: always the median. Observed: 0.15 to 0.3.
    pub sigma: f64,
    /// Seconds of the median that go into loading weights from storage which all starting pods share.
    pub load: f64,
    /// Pods that load at once without slowing each other; with k of them the loading takes k ÷ this times as long. At least 1.
    pub loading_at_once: u32,
}

impl Warmup {
    /// A sleeping engine wakes up.
    pub const HOT: Self = Self::fixed(5.0, 0.0);
    /// Image and weights are streamed, compilation is cached.
    pub const WARM: Self = Self::fixed(35.0, 10.0);
    /// The published benchmark of the SLO law: compilation cached on the node.
    pub const SEED: Self = Self::fixed(100.0, 11.0);
    /// The same without that cache.
    pub const PLAIN: Self = Self::fixed(135.0, 11.0);
    /// A large model with nothing cached but its weights.
    pub const UNCACHED: Self = Self::fixed(215.0, 10.0);
    /// The image has to be pulled first.
    pub const IMAGE_PULL: Self = Self::fixed(480.0, 40.0);

    /// Their names.
    pub const NAMES: [&str; 6] = ["hot", "warm", "seed", "plain", "uncached", "image-pull"];

    /// The preset of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let presets = [Self::HOT, Self::WARM, Self::SEED, Self::PLAIN, Self::UNCACHED, Self::IMAGE_PULL];
        Self::NAMES.iter().position(|preset| *preset == name).map(|index| presets[index])
    }

    /// Always so many seconds, of which `load` go into loading weights, however many pods do that.
    #[must_use]
    pub const fn fixed(seconds: f64, load: f64) -> Self {
        Self { median: seconds, sigma: 0.0, load, loading_at_once: u32::MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Fixed;

    fn ramp() -> Scenario {
        let profile = Profile::named(Profile::DEFAULT).unwrap().clone();
        let workload = Workload::named("ramp").unwrap();
        Scenario { workload, profile, fleet: FleetSettings::default(), pipeline: PipelineSettings::default() }
    }

    /// Simulation.md 6.5: eight replicas are enough for the whole ramp.
    #[test]
    fn eight_replicas_serve_the_ramp() {
        let mut ramp = ramp();
        ramp.workload.start = 8;
        let outcome = ramp.run(&mut Fixed(8), 1);
        assert_eq!((outcome.finished, outcome.killed, outcome.scale_events), (outcome.offered, 0, 0));
        assert!(outcome.attainment > 0.999, "{}", outcome.attainment);
        let billed = 8.0 * 2.0 * (ramp.workload.span() + 600.0) / 3600.0;
        assert!((outcome.gpu_hours - billed).abs() < 1e-9, "{} instead of {billed}", outcome.gpu_hours);
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        let fleet = FleetSettings {
            warmup: Warmup { sigma: 0.3, ..Warmup::PLAIN },
            start_failure: 0.1,
            drain_limit: 10.0,
            ..FleetSettings::default()
        };
        let scenario = Scenario { fleet, ..ramp() };
        let bytes = |seed| serde_json::to_string(&scenario.run(&mut Fixed(5), seed)).unwrap();
        assert_eq!(bytes(1), bytes(1));
        assert_ne!(bytes(1), bytes(2));
    }

    #[test]
    fn warm_ups_have_names() {
        assert_eq!(Warmup::named("seed"), Some(FleetSettings::default().warmup));
        assert_eq!(Warmup::named("cold"), None);
        assert!(Warmup::NAMES.iter().all(|name| Warmup::named(name).is_some()));
    }
}
