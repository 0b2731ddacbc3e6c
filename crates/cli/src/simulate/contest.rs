//! Runs of many policies with many seeds, on all cores, in an order that does not depend on them.

use std::io::{self, IsTerminal};
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use llmscaler_engine::Replicas;
use llmscaler_simulator::Scenario;
use llmscaler_simulator::bound::{Fluid, Foresight, Reached};
use llmscaler_simulator::outcome::Outcome;
use llmscaler_simulator::policy::{Fixed, Policy, PolicyError, Setting, named, notations};
use llmscaler_simulator::report::{Bound, Kind, Point};

use super::fleet::Told;
use super::scaler::Simulated;
use crate::decide::suggestion;
use crate::failure::Failure;

/// Runs in which the clairvoyant may try to do with less.
const THINNINGS: usize = 24;

/// What takes part.
#[derive(Clone, Debug)]
pub struct Entry {
    kind: Kind,
    recipe: Recipe,
}

#[derive(Clone, Debug)]
enum Recipe {
    /// A policy of the catalogue.
    Named(String),
    /// An LLMScaler.
    Scaler(Box<Simulated>),
    /// So many replicas from the start.
    Fixed(u32),
    /// As many replicas as the busiest minute takes.
    Peak,
    /// Foresight.
    Clairvoyant,
}

/// What takes part and is no policy of the catalogue, with what it is.
pub const OWN: [(&str, &str); 2] = [
    ("static:peak", "a fleet of the size that the busiest minute takes"),
    ("clairvoyant", "the cheapest fleet found that meets the objective, with everything known in advance"),
];

/// What to write instead of a name that nothing has.
fn known(error: &PolicyError) -> String {
    let PolicyError::Unknown(name) = error else { return String::new() };
    let known: Vec<&str> = notations().chain(OWN).map(|(notation, _)| notation).collect();
    let names: Vec<&str> = known.iter().map(|notation| notation.split(['[', ':']).next().unwrap_or(notation)).collect();
    format!("{}; known are {}", suggestion(name, &names), known.join(", "))
}

/// What came of the runs: the kind of each policy with its outcomes by seed, and what was possible.
pub type Results = (Vec<(Kind, Vec<Outcome>)>, Bound);

impl Entry {
    /// The policy of this name and these settings.
    pub fn named(text: &str, scenario: &Scenario, told: Told) -> Result<Self, Failure> {
        match text {
            "clairvoyant" => return Ok(Self { kind: Kind::Clairvoyant, recipe: Recipe::Clairvoyant }),
            "static:peak" => return Ok(Self { kind: Kind::Fixed, recipe: Recipe::Peak }),
            _ => {}
        }
        let policy =
            named(text, &knows(scenario, told)).map_err(|error| Failure::Simulation(format!("--policy {error}{}", known(&error))))?;
        if let Some(count) = text.strip_prefix("static:").and_then(|count| count.parse().ok()) {
            return Ok(Self { kind: Kind::Fixed, recipe: Recipe::Fixed(count) });
        }
        drop(policy);
        let ours = ["headroom", "band", "ratio"].contains(&text.split(':').next().unwrap_or(text));
        Ok(Self { kind: if ours { Kind::Ours } else { Kind::Peer }, recipe: Recipe::Named(text.to_owned()) })
    }

    /// An LLMScaler.
    pub fn scaler(scaler: Simulated) -> Self {
        Self { kind: Kind::Ours, recipe: Recipe::Scaler(Box::new(scaler)) }
    }

    /// Whether both are the same policy with the same settings.
    pub fn is(&self, other: &Self) -> bool {
        matches!((&self.recipe, &other.recipe), (Recipe::Named(one), Recipe::Named(other)) if one == other)
    }

    /// One run; the clairvoyant has its own way.
    fn run(&self, scenario: &Scenario, told: Told, peak: u32, seed: u64) -> Option<Outcome> {
        Some(match &self.recipe {
            Recipe::Named(text) => {
                let mut policy: Box<dyn Policy> = named(text, &knows(scenario, told)).ok()?;
                scenario.run(policy.as_mut(), seed)
            }
            Recipe::Scaler(scaler) => {
                let mut scenario = scenario.clone();
                scenario.workload.bounds = scaler.bounds();
                scenario.workload.start = scaler.bounds().clamp(Replicas::new(scenario.workload.start)).get();
                scenario.run(&mut scaler.policy(), seed)
            }
            Recipe::Fixed(count) => fixed(scenario, *count, seed),
            Recipe::Peak => fixed(scenario, peak, seed),
            Recipe::Clairvoyant => return None,
        })
    }
}

/// A fleet that has its size from the start, whatever the bounds are.
fn fixed(scenario: &Scenario, count: u32, seed: u64) -> Outcome {
    let mut scenario = scenario.clone();
    let bounds = &mut scenario.workload.bounds;
    (bounds.min, bounds.max) = (Replicas::new(count), Replicas::new(count));
    scenario.workload.start = count;
    scenario.run(&mut Fixed(count), seed)
}

/// What a policy is told.
fn knows(scenario: &Scenario, told: Told) -> Setting {
    let workload = &scenario.workload;
    Setting { promised: workload.promised, bounds: workload.bounds, costs: told.profile.costs, profile_given: told.given }
}

/// What foresight made of a seed.
struct Foreseen {
    best: Option<Outcome>,
    bound: Bound,
}

impl Foreseen {
    /// Whoever knows everything can also do what a policy did: its runs with the seed in this `place` count too. Fixed fleets do not,
    /// whose start is their own.
    fn bound_with(&self, runs: &[(Kind, Vec<Outcome>)], place: usize) -> Bound {
        let followed = runs.iter().filter(|(kind, _)| *kind != Kind::Fixed).filter_map(|(_, outcomes)| outcomes.get(place));
        let points = followed.map(|run| Point { attainment: run.attainment, gpu_hours: run.gpu_hours });
        Bound::new(None, self.bound.clairvoyant.iter().copied().chain(points).collect())
    }
}

/// Runs policies.
#[derive(Debug)]
pub struct Contest {
    threads: usize,
    objective: f64,
    told: Told,
}

impl Contest {
    /// With as many threads as there are cores unless `threads` says otherwise.
    pub fn new(threads: Option<u16>, objective: f64, told: Told) -> Self {
        let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
        Self { threads: threads.map_or_else(cores, usize::from), objective, told }
    }

    /// The share of requests to be in time.
    pub fn objective(&self) -> f64 {
        self.objective
    }

    /// What policies are told of the engine.
    pub fn told(&self) -> Told {
        self.told
    }

    /// Every entry with every seed.
    pub fn run(&mut self, scenario: &Scenario, entries: &[Entry], seeds: &[u64]) -> Result<Results, Failure> {
        let fluid: Vec<Fluid> = seeds.iter().map(|seed| Fluid::of(scenario, &scenario.workload.arrivals(*seed))).collect();
        let peak = fluid.iter().flat_map(|fluid| fluid.plan.steps()).map(|(_, count)| *count).max().unwrap_or(scenario.workload.start);
        let foresees = entries.iter().any(|entry| entry.kind == Kind::Clairvoyant);
        let foreseen = if foresees { self.each("foresight", seeds, |seed| self.foresee(scenario, *seed)) } else { Vec::new() };
        let pairs: Vec<(&Entry, u64)> = entries
            .iter()
            .filter(|entry| entry.kind != Kind::Clairvoyant)
            .flat_map(|entry| seeds.iter().map(move |seed| (entry, *seed)))
            .collect();
        let mut outcomes = self.each("policies", &pairs, |(entry, seed)| entry.run(scenario, self.told, peak, *seed)).into_iter();
        let mut runs = Vec::new();
        for entry in entries {
            let of_entry: Option<Vec<Outcome>> = if entry.kind == Kind::Clairvoyant {
                foreseen.iter().map(|seed| seed.best.clone()).collect()
            } else {
                outcomes.by_ref().take(seeds.len()).collect()
            };
            runs.extend(of_entry.map(|outcomes| (entry.kind, outcomes)));
        }
        let bounds: Vec<Bound> = foreseen.iter().enumerate().map(|(place, seed)| seed.bound_with(&runs, place)).collect();
        let fluid = fluid.iter().map(|fluid| fluid.gpu_hours).sum::<f64>() / seeds.len() as f64;
        Ok((runs, Bound { fluid_gpu_hours: Some(fluid), ..Bound::mean(&bounds) }))
    }

    fn foresee(&self, scenario: &Scenario, seed: u64) -> Foreseen {
        let foresight = Foresight::new(scenario, seed);
        let front = foresight.front();
        let best = foresight.cheapest(&front, self.objective, THINNINGS);
        let point = |reached: &Reached| Point { attainment: reached.outcome.attainment, gpu_hours: reached.outcome.gpu_hours };
        let points = front.iter().chain(&best).map(point).collect();
        let named = |reached: Reached| Outcome { policy: "clairvoyant".to_owned(), ..reached.outcome };
        Foreseen { best: best.or_else(|| front.last().cloned()).map(named), bound: Bound::new(None, points) }
    }

    /// The answers to all tasks in their order, with a progress bar for whoever watches.
    pub fn each<T: Sync, A: Send>(&self, what: &'static str, tasks: &[T], answer: impl Fn(&T) -> A + Sync) -> Vec<A> {
        let bar = progress(what, tasks.len());
        let next = AtomicUsize::new(0);
        let answers: Mutex<Vec<(usize, A)>> = Mutex::new(Vec::with_capacity(tasks.len()));
        std::thread::scope(|scope| {
            for _ in 0..self.threads.min(tasks.len()) {
                scope.spawn(|| {
                    while let Some((index, task)) =
                        Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|index| Some((index, tasks.get(index)?)))
                    {
                        let answer = answer(task);
                        // A thread that panics takes the program with it, so nobody meets what it left behind.
                        answers.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((index, answer));
                        bar.inc(1);
                    }
                });
            }
        });
        bar.finish_and_clear();
        let mut answers = answers.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        answers.sort_by_key(|(index, _)| *index);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }
}

fn progress(what: &'static str, tasks: usize) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(tasks as u64), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{msg:>10} {wide_bar} {pos}/{len} runs, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(what);
    bar
}
