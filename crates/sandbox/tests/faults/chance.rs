//! What chance brings: load, faults, users, pods and operators that come and go, by a seed.
//!
//! A seed gives the schedule. What the operator itself leaves to chance, as the spread of its retries, differs from run to run.

use std::time::Duration;

use llmscaler_sandbox::{Fault, On, Verb};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::json;

use crate::book::RETRY_AFTER;
use crate::world::World;

/// Replays one seed.
const SEED: &str = "LLMSCALER_FAULT_SEED";
/// How many seeds to run, instead of a few.
const SEEDS: &str = "LLMSCALER_FAULT_SEEDS";

const FLEETS: [&str; 3] = ["plain", "paced", "paired"];
/// How many things happen in a run.
const STEPS: usize = 120;

struct Chance {
    rng: Pcg64Mcg,
    world: World,
    full_for: usize,
    told: Vec<String>,
}

impl Chance {
    async fn new(seed: u64) -> Self {
        let mut world = World::new();
        world.fleet("plain", 2, 1, json!({})).await;
        let paced = json!({"scaleDown": {"behavior": "CacheAware", "maxStepReplicas": 2, "stabilizationWindowSeconds": 45}});
        world.fleet("paced", 4, 1, paced).await;
        world.fleet("paired", 3, 2, json!({"minReplicas": 2, "maxReplicas": 6})).await;
        for name in FLEETS {
            world.load(name, vec![Some(25.0); 2]);
        }
        world.operator();
        world.operator();
        Self { rng: Pcg64Mcg::seed_from_u64(seed), world, full_for: 0, told: vec![] }
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.rng.random_range(0..from.len())]
    }

    fn tell(&mut self, what: String) {
        let now = self.world.book.now();
        self.told.push(format!("{now:.0} s: {what}"));
    }

    /// A fault that hits some kind of request for a while.
    fn fault(&mut self) {
        let retry_after = RETRY_AFTER;
        let faults = [
            Fault::Conflict,
            Fault::TooManyRequests { retry_after },
            Fault::InternalError,
            Fault::Hang,
            Fault::LostAnswer,
            Fault::Slow(Duration::from_secs(2)),
        ];
        let of_watches = [Fault::Gone, Fault::CutWatch { after: Duration::from_secs(4) }, Fault::StaleList { behind: 15 }];
        let requests = [
            (Verb::Get, "deployments", ""),
            (Verb::Patch, "deployments", "scale"),
            (Verb::Patch, "pods", ""),
            (Verb::Patch, "llmscalers", "status"),
            (Verb::Create, "events", ""),
            (Verb::Update, "leases", ""),
            (Verb::Get, "leases", ""),
        ];
        let watched = ["llmscalers", "deployments", "pods", "replicasets"];
        let times = self.pick(&[1, 2, 5, 20]);
        let (fault, verb, resource, subresource) = if self.rng.random_bool(0.3) {
            let (verb, resource) = (self.pick(&[Verb::List, Verb::Watch]), self.pick(&watched));
            let fault = self.pick(&[faults.as_slice(), of_watches.as_slice()].concat());
            (fault, verb, resource, "")
        } else {
            let (verb, resource, subresource) = self.pick(&requests);
            (self.pick(&faults), verb, resource, subresource)
        };
        let on = On::any().agent("operator*").verb(verb).resource(resource).subresource(subresource);
        // A watch that keeps silent does so for minutes.
        let times = if fault == Fault::Hang && matches!(verb, Verb::List | Verb::Watch) { 1 } else { times };
        self.world.sandbox.faults().arm(on, fault, times);
        self.tell(format!("{fault:?} for {times} times {verb:?} {resource} {subresource}"));
    }

    async fn step(&mut self) {
        let name = self.pick(&FLEETS);
        match self.rng.random_range(0..100) {
            0..30 => {
                let load: Vec<Option<f64>> =
                    (0..2).map(|_| self.rng.random_bool(0.85).then(|| f64::from(self.rng.random_range(1..90_u32)))).collect();
                self.tell(format!("{name} has load {load:?}"));
                self.world.load(name, load);
            }
            30..55 => self.fault(),
            55..60 => {
                self.tell("the watches break off".to_owned());
                self.world.break_watches();
            }
            60..67 => {
                let replicas = self.rng.random_range(0..12);
                self.tell(format!("a user scales {name} to {replicas}"));
                self.world.scale(name, replicas).await;
            }
            67..75 => {
                let min = self.rng.random_range(1..6);
                let (max, mode) = (min + self.rng.random_range(0..5), self.pick(&["Auto", "Auto", "Auto", "Recommend"]));
                self.tell(format!("a user sets {name} to {mode}, {min} to {max}"));
                assert!(self.world.edit(name, json!({"minReplicas": min, "maxReplicas": max, "mode": mode})).await);
            }
            75..82 => {
                let pods: Vec<String> =
                    self.world.book.pods(name).iter().filter_map(|pod| pod["metadata"]["name"].as_str()).map(str::to_owned).collect();
                if !pods.is_empty() {
                    let pod = pods[self.rng.random_range(0..pods.len())].clone();
                    let ends = self.rng.random_bool(0.5);
                    self.tell(format!("{pod} {}", if ends { "ends" } else { "is not ready" }));
                    let plight = &mut self.world.shared.lock().unwrap().plight;
                    if ends {
                        plight.doomed.insert(pod)
                    } else {
                        plight.sick.insert(pod)
                    };
                }
            }
            82..86 => {
                self.tell("there are no more nodes".to_owned());
                self.world.shared.lock().unwrap().plight.full = true;
                self.full_for = 4;
            }
            86..91 => self.world.shared.lock().unwrap().plight.sick.clear(),
            _ => {
                let operators = self.world.operators();
                let one = operators[self.rng.random_range(0..operators.len())].clone();
                let crash = self.rng.random_bool(0.5);
                self.tell(format!("{one} {}", if crash { "crashes" } else { "is ended" }));
                if crash {
                    self.world.crash(&one)
                } else {
                    self.world.stop(&one).await
                }
                self.world.operator();
            }
        }
        self.full_for = self.full_for.saturating_sub(1);
        if self.full_for == 0 {
            self.world.shared.lock().unwrap().plight.full = false;
        }
        let seconds = self.rng.random_range(1..40);
        self.world.pass(seconds).await;
    }

    /// Nothing goes wrong any more: all comes to what is asked for.
    async fn calm(&mut self) {
        self.tell("all is calm".to_owned());
        self.world.sandbox.faults().disarm();
        let plight = &mut *self.world.shared.lock().unwrap();
        (plight.plight.full, plight.plight.sick) = (false, std::collections::BTreeSet::new());
        for load in plight.loads.values_mut() {
            for value in load.iter_mut() {
                value.get_or_insert(35.0);
            }
        }
    }

    async fn converges(&mut self) {
        for name in FLEETS {
            assert!(self.world.edit(name, json!({"mode": "Auto"})).await);
        }
        // A silent list is waited for two minutes, and a silent watch that follows it as long again.
        self.world.pass(140).await;
        for name in FLEETS {
            let wanted = self.world.book.wanted(name);
            let came = self.world.until(name, wanted, 420).await;
            if let Err(error) = came {
                panic!("{error}\n{:#?}", self.told);
            }
        }
    }
}

/// Tells what has happened when the run does not end well.
struct Confession<'a>(u64, &'a std::sync::Mutex<Vec<String>>);

impl Drop for Confession<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!(
                "{SEED}={} brought this about:\n{}",
                self.0,
                self.1.lock().unwrap_or_else(std::sync::PoisonError::into_inner).join("\n")
            );
        }
    }
}

async fn run(seed: u64) {
    let story = std::sync::Mutex::default();
    let _confession = Confession(seed, &story);
    let mut chance = Chance::new(seed).await;
    chance.world.pass(60).await;
    for _ in 0..STEPS {
        let before = chance.told.len();
        // Told before it has its effects.
        chance.step().await;
        story.lock().unwrap().extend(chance.told[before..].iter().cloned());
    }
    chance.calm().await;
    chance.converges().await;
    let book = &chance.world.book;
    println!("seed {seed}: {:.0} s, {} calls, {} writes, at most {} calls a minute", book.now(), book.calls, book.writes, book.busiest);
}

#[test]
fn whatever_happens_the_rules_hold_and_the_fleets_come_to_what_is_asked_for() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seeds = match (number(SEED), number(SEEDS)) {
        (Some(seed), _) => seed..seed + 1,
        (None, Some(count)) => 0..count,
        (None, None) => 0..4,
    };
    for seed in seeds {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(run(seed));
    }
}
