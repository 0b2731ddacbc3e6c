//! Policies by name.

use std::time::Duration;

use llmscaler_engine::{
    Activation, Band, Behavior, Bounds, Costs, Headroom, Law, Mode, Objective, ScaleDown, Source, Spec, Target, VictimOrder,
};
use thiserror::Error;

use super::seed::seed_behavior;
use super::{Fixed, Hpa, Keda, Kpa, Measure, Ours, Policy, Seed, Wva, in_flight};
use crate::Promised;
use crate::metrics::{Quantile, Signal, Values};

/// What a policy is told of its scenario.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// What was promised.
    pub promised: Promised,
    /// Fewest and most replicas.
    pub bounds: Bounds,
    /// What the steps of the engine cost, as far as the policy knows.
    pub costs: Costs,
    /// Whether these costs are those of the engine, or only a stand-in.
    pub profile_given: bool,
}

/// Why a text is not a policy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PolicyError {
    /// There is no policy of this name.
    #[error("there is no policy {0:?}")]
    Unknown(String),
    /// Its parameters are not what it takes.
    #[error("{text}: {problem}; write it as {notation}, {what}")]
    Parameters {
        /// What was written.
        text: String,
        /// What is wrong with it.
        problem: String,
        /// What it should look like.
        notation: &'static str,
        /// What that is.
        what: &'static str,
    },
}

/// The policy, or what is wrong with the parameters.
type Built = Result<Box<dyn Policy>, String>;

/// The largest fleet of fixed size.
const LARGEST: f64 = 1e5;

/// A policy by its name.
struct Entry {
    name: &'static str,
    /// How it is written, optional parameters in brackets.
    notation: &'static str,
    what: &'static str,
    build: fn(&[f64], &Setting) -> Built,
}

const ENTRIES: &[Entry] = &[
    Entry {
        name: "headroom",
        notation: "headroom[:OBJECTIVE]",
        what: "the operator's headroom law; OBJECTIVE is the share of requests to be in time, 0.99 unless given",
        build: |parameters, setting| headroom(one_or(parameters, 0.99)?, setting),
    },
    Entry {
        name: "band",
        notation: "band[:UP,DOWN]",
        what: "the operator's band of latency as a share of the promise, 0.55 and 0.4 unless given",
        build: |parameters, setting| band(marks(parameters, [0.55, 0.40])?, setting),
    },
    Entry {
        name: "ratio",
        notation: "ratio[:TARGET]",
        what: "the operator's ratio of KV cache usage to TARGET, 0.8 unless given, with a scale-down window of 180 s and steps of one",
        build: |parameters, setting| ratio(one_or(parameters, 0.8)?, setting),
    },
    Entry {
        name: "seed",
        notation: "seed[:UP,DOWN]",
        what: "llm-d's SLO law on predicted latencies, above 0.55 up and below 0.4 down unless given",
        build: |parameters, setting| seed(parameters, Seed::default(), setting),
    },
    Entry {
        name: "seed-measured",
        notation: "seed-measured[:UP,DOWN]",
        what: "the same on measured latencies",
        build: |parameters, setting| seed(parameters, Seed { signal: Signal::Measured, ..Seed::default() }, setting),
    },
    Entry {
        name: "seed-exact",
        notation: "seed-exact[:UP,DOWN]",
        what: "the same on predicted latencies one by one instead of in buckets, and without tolerance",
        build: |parameters, setting| seed(parameters, Seed { values: Values::Exact, ..Seed::default() }, setting),
    },
    Entry {
        name: "seed-exact-measured",
        notation: "seed-exact-measured[:UP,DOWN]",
        what: "the same on measured latencies one by one",
        build: |parameters, setting| seed(parameters, Seed { values: Values::Exact, signal: Signal::Measured, ..Seed::default() }, setting),
    },
    Entry {
        name: "in-flight",
        notation: "in-flight:TARGET",
        what: "TARGET requests in flight a replica, with the pace of llm-d's SLO guide",
        build: |parameters, _| built(in_flight(only(parameters)?)),
    },
    Entry {
        name: "keda",
        notation: "keda[:QUEUED,RUNNING]",
        what: "llm-d's KEDA guide: queued requests at 1 a replica and running ones at 16 unless given",
        build: |parameters, _| two_or(parameters, [1.0, 16.0]).and_then(|[queued, running]| built(Keda::queue(queued, running))),
    },
    Entry {
        name: "keda-saturation",
        notation: "keda-saturation[:SATURATION,RUNNING]",
        what: "llm-d's KEDA guide: saturation of the pool at 0.7 and running requests at 16 unless given",
        build: |parameters, _| two_or(parameters, [0.7, 16.0]).and_then(|[pool, running]| built(Keda::saturation(pool, running))),
    },
    Entry {
        name: "hpa-kv",
        notation: "hpa-kv[:TARGET]",
        what: "the HPA of Kubernetes with its defaults on KV cache usage, at 0.8 unless given",
        build: |parameters, _| built(Hpa::kv(one_or(parameters, 0.8)?)),
    },
    Entry {
        name: "kpa",
        notation: "kpa:TARGET",
        what: "Knative's autoscaler with TARGET requests in flight a replica, which is 70 % of what it can take",
        build: |parameters, _| built(Kpa::new(only(parameters)?)),
    },
    Entry {
        name: "wva",
        notation: "wva",
        what: "the saturation analyzer of llm-d's Workload Variant Autoscaler",
        build: |parameters, _| if parameters.is_empty() { built(Wva) } else { Err("it takes no settings".to_owned()) },
    },
    Entry {
        name: "static",
        notation: "static:REPLICAS",
        what: "a fleet that keeps its size",
        build: |parameters, _| {
            let count = only(parameters)?;
            let fits = count.fract() == 0.0 && count <= LARGEST;
            if fits { built(Fixed(count as u32)) } else { Err(format!("REPLICAS must be a whole number of 1 to {LARGEST}")) }
        },
    },
];

/// The policy that `text` names, fresh: a name, and after a colon its parameters with commas between them, all above 0.
///
/// # Errors
///
/// When there is no such policy, and when it does not take these parameters.
pub fn named(text: &str, setting: &Setting) -> Result<Box<dyn Policy>, PolicyError> {
    let (name, parameters) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
    let entry = ENTRIES.iter().find(|entry| entry.name == name).ok_or_else(|| PolicyError::Unknown(name.to_owned()))?;
    let parsed: Result<Vec<f64>, String> = parameters.map_or(Ok(Vec::new()), |text| text.split(',').map(parameter).collect());
    parsed.and_then(|parsed| (entry.build)(&parsed, setting)).map_err(|problem| PolicyError::Parameters {
        text: text.to_owned(),
        problem,
        notation: entry.notation,
        what: entry.what,
    })
}

/// How each policy is written, optional parameters in brackets, and what it is.
pub fn notations() -> impl Iterator<Item = (&'static str, &'static str)> {
    ENTRIES.iter().map(|entry| (entry.notation, entry.what))
}

fn parameter(text: &str) -> Result<f64, String> {
    let number = text.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| format!("{text:?} is no number above 0"))
}

fn only(parameters: &[f64]) -> Result<f64, String> {
    if let [only] = parameters { Ok(*only) } else { Err(format!("it takes one number, and {} are given", parameters.len())) }
}

fn one_or(parameters: &[f64], usual: f64) -> Result<f64, String> {
    if parameters.is_empty() { Ok(usual) } else { only(parameters) }
}

fn two_or(parameters: &[f64], usual: [f64; 2]) -> Result<[f64; 2], String> {
    if parameters.is_empty() {
        return Ok(usual);
    }
    let wrong = |_| format!("it takes two numbers, and {} {} given", parameters.len(), if parameters.len() == 1 { "is" } else { "are" });
    parameters.try_into().map_err(wrong)
}

/// The marks of a band, the upper one first.
fn marks(parameters: &[f64], usual: [f64; 2]) -> Result<[f64; 2], String> {
    let [up, down] = two_or(parameters, usual)?;
    if down < up { Ok([up, down]) } else { Err(format!("UP comes first and must be above DOWN, and {up} is not above {down}")) }
}

#[allow(clippy::unnecessary_wraps)] // what every entry answers
fn built(policy: impl Policy + 'static) -> Built {
    Ok(Box::new(policy))
}

fn seed(parameters: &[f64], seed: Seed, setting: &Setting) -> Built {
    let [up_at, down_at] = marks(parameters, [seed.up_at, seed.down_at])?;
    built(Seed { up_at, down_at, ..seed }.policy(setting.promised))
}

/// P90 of the latencies that requests had, over one minute.
const MEASURED: Quantile = Quantile { of: 0.9, signal: Signal::Measured, values: Values::Buckets, window: 60.0 };

fn target(number: f64) -> Result<Target, String> {
    Target::new(number).ok_or_else(|| format!("{number} is no number above 0"))
}

fn band([up, down]: [f64; 2], setting: &Setting) -> Built {
    let band = Band::new(target(up)?, target(down)?, target(2.0)?, Some(Duration::from_secs(45)))
        .ok_or_else(|| format!("UP must be at most 2, and is {up}"))?;
    // Where the router predicts, the operator asks for that.
    let measure = Measure::for_band(Quantile { signal: Signal::Predicted, ..MEASURED }, setting.promised, &band);
    let spec = spec("slo", Law::Band(band), Some(seed_behavior()), setting);
    built(Ours::new(format!("band {up}/{down}"), spec, vec![measure], setting.promised))
}

fn headroom(objective: f64, setting: &Setting) -> Built {
    let law = Law::Headroom(Headroom {
        ttft: target(setting.promised.ttft)?,
        tpot: target(setting.promised.tpot)?,
        objective: Objective::new(objective).ok_or_else(|| format!("OBJECTIVE must be at least 0.5 and below 1, and is {objective}"))?,
        costs: setting.costs,
        profile_is_given: setting.profile_given,
    });
    let spec = spec("slo", law, None, setting);
    let measure = Measure::Saturation { quantile: MEASURED, promised: setting.promised, up_at: target(0.55)? };
    built(Ours::new(format!("headroom {objective}"), spec, vec![measure], setting.promised))
}

fn ratio(at: f64, setting: &Setting) -> Built {
    let mut spec = spec("kv", Law::Ratio { target: target(at)? }, None, setting);
    spec.scale_down.window = Duration::from_secs(180);
    spec.scale_down.max_step = std::num::NonZeroU32::new(1);
    built(Ours::new(format!("ratio {at}"), spec, vec![Measure::KvUsage], setting.promised))
}

/// One source, synchronised every 15 s, the coldest pod first to go.
fn spec(source: &str, law: Law, behavior: Option<Behavior>, setting: &Setting) -> Spec {
    Spec {
        bounds: setting.bounds,
        sources: vec![Source { name: source.to_owned(), law, activation: Activation::ANY_LOAD, required: false }],
        sync_period: Duration::from_secs(15),
        scale_down: ScaleDown { window: Duration::ZERO, max_step: None, victims: VictimOrder::ColdestFirst },
        behavior,
        cooldown: Duration::ZERO,
        fallback: None,
        mode: Mode::Auto,
    }
}
