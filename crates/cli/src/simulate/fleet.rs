//! What serves it: the engine, its pods, and how metrics come about.

use clap::{Args, ValueEnum};
use llmscaler_engine::{Bounds, Profile, Replicas};
use llmscaler_simulator::metrics::{Histograms, PipelineSettings};
use llmscaler_simulator::scenario::{FleetSettings, Router, Warmup};
use llmscaler_simulator::{Scenario, Workload};

use crate::decide::suggestion;
use crate::failure::Failure;

/// The largest fleet that is simulated.
const LARGEST: i64 = 100_000;

/// The longest time that a pod can take to start or to leave, in seconds.
const LONGEST: f64 = 1e6;

/// Arguments about the fleet.
#[derive(Debug, Args)]
pub struct FleetArguments {
    /// The engine that policies are told of, as `slo.profile` does: model and hardware; --list tells them all
    #[arg(long, value_name = "NAME", help_heading = "Fleet")]
    profile: Option<String>,
    /// The engine that it really is; that of --profile unless given. Without --profile policies have what stands in where none is named
    #[arg(long, value_name = "NAME", help_heading = "Fleet")]
    engine: Option<String>,
    /// Fewest replicas; the workload's own, or 1, unless given
    #[arg(long, value_name = "REPLICAS", help_heading = "Fleet", value_parser = clap::value_parser!(u32).range(..=LARGEST), allow_hyphen_values = true)]
    min: Option<u32>,
    /// Most replicas; the workload's own, or 40, unless given
    #[arg(long, value_name = "REPLICAS", help_heading = "Fleet", value_parser = clap::value_parser!(u32).range(1..=LARGEST), allow_hyphen_values = true)]
    max: Option<u32>,
    /// Replicas that are ready at the start; the workload's own, or 4, unless given
    #[arg(long, value_name = "REPLICAS", help_heading = "Fleet", value_parser = clap::value_parser!(u32).range(..=LARGEST), allow_hyphen_values = true)]
    start: Option<u32>,
    /// Seconds from the creation of a pod until it is ready, or the name of a preset
    #[arg(long, value_name = "SECONDS|NAME", default_value = "100", help_heading = "Fleet", value_parser = warmup, allow_hyphen_values = true)]
    warmup: Warmup,
    /// Spread of the warm-up: standard deviation of its logarithm; 0.15 to 0.3 is usual
    #[arg(long, value_name = "SIGMA", default_value_t = 0.0, help_heading = "Fleet", value_parser = number(0.0, 2.0), allow_hyphen_values = true)]
    warmup_spread: f64,
    /// How requests find their replica
    #[arg(long, value_name = "RULE", default_value = "least-loaded", help_heading = "Fleet")]
    router: RouterName,
    /// GPUs that there are; no limit unless given
    #[arg(long, value_name = "COUNT", help_heading = "Fleet", allow_hyphen_values = true)]
    gpus: Option<u32>,
    /// Share of the pods that never become ready
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, help_heading = "Fleet", value_parser = number(0.0, 1.0), allow_hyphen_values = true)]
    start_failures: f64,
    /// Most seconds that a leaving pod has to finish its requests; no limit unless given
    #[arg(long, value_name = "SECONDS", help_heading = "Fleet", value_parser = number(0.0, LONGEST), allow_hyphen_values = true)]
    drain: Option<f64>,
    /// Share of a reusable prefix that the replica which has served it still has cached; for traces that have prefixes
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, help_heading = "Fleet", value_parser = number(0.0, 1.0), allow_hyphen_values = true)]
    prefix_hits: f64,
    /// How exactly metrics tell what happens
    #[arg(long, value_name = "KIND", default_value = "ideal", help_heading = "Metrics")]
    metrics: HistogramsName,
    /// Probability that a group of metrics is missing at a moment
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, help_heading = "Metrics", value_parser = number(0.0, 1.0), allow_hyphen_values = true)]
    missing: f64,
    /// There is no gateway that counts arrivals: they are known from what replicas have finished and hold
    #[arg(long, help_heading = "Metrics")]
    no_gateway: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RouterName {
    /// To the replica with the least to do
    LeastLoaded,
    /// To one after the other
    RoundRobin,
    /// To the replica that has the prefix cached, unless it has much more to do
    PrefixAffine,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum HistogramsName {
    /// Exact at the moment of the question
    Ideal,
    /// Scraped every 5 s, in the buckets of vLLM and the router
    Real,
}

impl FleetArguments {
    /// The workload on this fleet.
    pub fn scenario(&self, mut workload: Workload) -> Result<Scenario, Failure> {
        let name = self.engine.as_deref().or(self.profile.as_deref()).unwrap_or(Profile::DEFAULT);
        let profile = profile(name)?;
        workload.bounds = self.bounds_or(workload.bounds);
        let Bounds { min, max } = workload.bounds;
        if min > max {
            return Err(Failure::Simulation(format!("the least of {min} replicas is above the most of {max}; lower --min or raise --max")));
        }
        let start = self.start.map_or_else(|| workload.bounds.clamp(Replicas::new(workload.start)), Replicas::new);
        if start != workload.bounds.clamp(start) {
            return Err(Failure::Simulation(format!("--start {start} is not within {min} to {max} replicas; give one of these")));
        }
        workload.start = start.get();
        let router = match self.router {
            RouterName::LeastLoaded => Router::LeastLoaded,
            RouterName::RoundRobin => Router::RoundRobin,
            RouterName::PrefixAffine => Router::PrefixAffine,
        };
        let fleet = FleetSettings {
            warmup: Warmup { sigma: self.warmup_spread, ..self.warmup },
            router,
            drain_limit: self.drain.unwrap_or(f64::INFINITY),
            gpu_limit: self.gpus,
            start_failure: self.start_failures,
            prefix_hits: self.prefix_hits,
        };
        let histograms = match self.metrics {
            HistogramsName::Ideal => Histograms::Ideal,
            HistogramsName::Real => Histograms::Real,
        };
        let pipeline = PipelineSettings { missing: self.missing, histograms, gateway: !self.no_gateway, ..PipelineSettings::default() };
        Ok(Scenario { workload, profile: profile.clone(), fleet, pipeline })
    }

    /// What policies are told of the engine.
    pub fn told(&self) -> Result<Told, Failure> {
        let name = self.profile.as_deref().unwrap_or(Profile::DEFAULT);
        let given = self.profile.is_some() || self.engine.is_none();
        Ok(Told { profile: profile(name)?, given })
    }

    /// These bounds where the arguments have none.
    pub fn bounds_or(&self, bounds: Bounds) -> Bounds {
        Bounds { min: self.min.map_or(bounds.min, Replicas::new), max: self.max.map_or(bounds.max, Replicas::new) }
    }

    /// The warm-up for people.
    pub fn warmup_in_words(&self, warmup: Warmup) -> String {
        let spread = if warmup.sigma > 0.0 { format!(" with a spread of {}", warmup.sigma) } else { String::new() };
        let failing = if self.start_failures > 0.0 { format!(", {} % never", self.start_failures * 100.0) } else { String::new() };
        format!("{} s{spread}{failing}", warmup.median)
    }
}

/// What policies are told of the engine.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// A profile.
    pub profile: &'static Profile,
    /// Whether it was named, or only stands in.
    pub given: bool,
}

impl Told {
    /// It for people, where it is not the engine itself.
    pub fn in_words(self, engine: &Profile) -> String {
        match self {
            Self { profile, .. } if profile == engine => String::new(),
            Self { given: true, profile } => format!("; policies are told that it is {}", profile.name),
            Self { given: false, profile } => format!("; policies are told nothing and have {} stand in", profile.name),
        }
    }
}

fn profile(name: &str) -> Result<&'static Profile, Failure> {
    Profile::named(name).ok_or_else(|| {
        let known: Vec<&str> = Profile::all().iter().map(|profile| profile.name.as_str()).collect();
        let meant = suggestion(name, &known);
        Failure::Simulation(format!("there is no profile {name}{meant}; known are {}", known.join(", ")))
    })
}

/// The router for people.
pub fn router_in_words(router: Router) -> &'static str {
    match router {
        Router::LeastLoaded => "requests go to the least loaded replica",
        Router::RoundRobin => "requests go to one replica after the other",
        Router::PrefixAffine => "requests go to the replica that has their prefix cached, unless it has much more to do",
    }
}

fn warmup(text: &str) -> Result<Warmup, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.0..=LONGEST).contains(seconds));
    let preset = Warmup::named(text).or_else(|| seconds.map(|seconds| Warmup::fixed(seconds, 0.0)));
    preset
        .ok_or_else(|| format!("write seconds, 0 to {LONGEST}, or one of {}{}", Warmup::NAMES.join(", "), suggestion(text, &Warmup::NAMES)))
}

/// Takes numbers of a range.
fn number(least: f64, most: f64) -> impl Fn(&str) -> Result<f64, String> + Clone {
    move |text| {
        text.parse().ok().filter(|number| (least..=most).contains(number)).ok_or_else(|| format!("write a number of {least} to {most}"))
    }
}
