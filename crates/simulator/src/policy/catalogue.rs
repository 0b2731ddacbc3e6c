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
    #[error("there is no policy {name}; did you mean {nearest}? Known are: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The name that is most like it.
        nearest: &'static str,
        /// All of them.
        known: String,
    },
    /// Its parameters are not what it takes.
    #[error("{text}: write it as {notation}, {what}")]
    Parameters {
        /// What was written.
        text: String,
        /// What it should look like.
        notation: &'static str,
        /// What that is.
        what: &'static str,
    },
}

type Built = Option<Box<dyn Policy>>;

/// A policy by its name.
struct Entry {
    name: &'static str,
    /// How it is written, optional parameters in brackets.
    notation: &'static str,
    what: &'static str,
    /// `None` when the parameters are not what it takes.
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
        build: |parameters, setting| band(two_or(parameters, [0.55, 0.40])?, setting),
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
        build: |parameters, _| if parameters.is_empty() { built(Wva) } else { None },
    },
    Entry {
        name: "static",
        notation: "static:REPLICAS",
        what: "a fleet that keeps its size",
        build: |parameters, _| {
            only(parameters).filter(|count| count.fract() == 0.0 && *count <= 1e6).and_then(|count| built(Fixed(count as u32)))
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
    let entry = ENTRIES.iter().find(|entry| entry.name == name).ok_or_else(|| unknown(name))?;
    let parsed: Option<Vec<f64>> = parameters.map_or(Some(Vec::new()), |text| text.split(',').map(parameter).collect());
    let refused = || PolicyError::Parameters { text: text.to_owned(), notation: entry.notation, what: entry.what };
    parsed.and_then(|parsed| (entry.build)(&parsed, setting)).ok_or_else(refused)
}

/// How each policy is written, optional parameters in brackets, and what it is.
pub fn notations() -> impl Iterator<Item = (&'static str, &'static str)> {
    ENTRIES.iter().map(|entry| (entry.notation, entry.what))
}

fn parameter(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0)
}

fn unknown(name: &str) -> PolicyError {
    let alike = |known: &str| strsim::jaro_winkler(known, name);
    let nearest = ENTRIES.iter().map(|entry| entry.name).max_by(|a, b| alike(a).total_cmp(&alike(b))).unwrap_or_default();
    let known: Vec<&str> = ENTRIES.iter().map(|entry| entry.notation).collect();
    PolicyError::Unknown { name: name.to_owned(), nearest, known: known.join(", ") }
}

fn only(parameters: &[f64]) -> Option<f64> {
    if let [only] = parameters { Some(*only) } else { None }
}

fn one_or(parameters: &[f64], usual: f64) -> Option<f64> {
    if parameters.is_empty() { Some(usual) } else { only(parameters) }
}

fn two_or(parameters: &[f64], usual: [f64; 2]) -> Option<[f64; 2]> {
    if parameters.is_empty() { Some(usual) } else { parameters.try_into().ok() }
}

#[allow(clippy::unnecessary_wraps)] // what every entry answers
fn built(policy: impl Policy + 'static) -> Built {
    Some(Box::new(policy))
}

fn seed(parameters: &[f64], seed: Seed, setting: &Setting) -> Built {
    let [up_at, down_at] = two_or(parameters, [seed.up_at, seed.down_at]).filter(|[up, down]| down < up)?;
    built(Seed { up_at, down_at, ..seed }.policy(setting.promised))
}

/// P90 of the latencies that requests had, over one minute.
const MEASURED: Quantile = Quantile { of: 0.9, signal: Signal::Measured, values: Values::Buckets, window: 60.0 };

fn band([up, down]: [f64; 2], setting: &Setting) -> Built {
    let band = Band::new(Target::new(up)?, Target::new(down)?, Target::new(2.0)?, Some(Duration::from_secs(45)))?;
    // Where the router predicts, the operator asks for that.
    let measure = Measure::for_band(Quantile { signal: Signal::Predicted, ..MEASURED }, setting.promised, &band);
    let spec = spec("slo", Law::Band(band), Some(seed_behavior()), setting);
    built(Ours::new(format!("band {up}/{down}"), spec, vec![measure], setting.promised))
}

fn headroom(objective: f64, setting: &Setting) -> Built {
    let law = Law::Headroom(Headroom {
        ttft: Target::new(setting.promised.ttft)?,
        tpot: Target::new(setting.promised.tpot)?,
        objective: Objective::new(objective)?,
        costs: setting.costs,
        profile_is_given: setting.profile_given,
    });
    let spec = spec("slo", law, None, setting);
    let measure = Measure::Saturation { quantile: MEASURED, promised: setting.promised, up_at: Target::new(0.55)? };
    built(Ours::new(format!("headroom {objective}"), spec, vec![measure], setting.promised))
}

fn ratio(target: f64, setting: &Setting) -> Built {
    let mut spec = spec("kv", Law::Ratio { target: Target::new(target)? }, None, setting);
    spec.scale_down.window = Duration::from_secs(180);
    spec.scale_down.max_step = std::num::NonZeroU32::new(1);
    built(Ours::new(format!("ratio {target}"), spec, vec![Measure::KvUsage], setting.promised))
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
