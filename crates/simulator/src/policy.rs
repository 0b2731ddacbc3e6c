//! Who decides how large the fleet should be.

mod catalogue;
mod clairvoyant;
mod fixed;
mod hpa;
mod in_flight;
mod keda;
mod kpa;
mod measure;
mod ours;
mod seed;
#[cfg(test)]
mod tests;
mod wva;

pub use catalogue::{PolicyError, Setting, named, notations};
pub use clairvoyant::Clairvoyant;
pub use fixed::Fixed;
pub use hpa::{Hpa, Metric, Per};
pub use in_flight::in_flight;
pub use keda::Keda;
pub use kpa::Kpa;
pub use measure::{Gauge, Measure};
pub use ours::Ours;
pub use seed::Seed;
pub use wva::Wva;

use llmscaler_engine::Bounds;

use crate::metrics::Metrics;

/// A way to decide how large the fleet should be.
pub trait Policy {
    /// Its name, with the settings that tell it from others of its kind: `in-flight 32`.
    fn name(&self) -> String;

    /// Seconds between two decisions.
    fn period(&self) -> f64;

    /// Looks at the fleet and its metrics and decides.
    fn decide(&mut self, view: &View<'_>) -> Verdict;
}

/// What a policy sees.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The time.
    pub now: f64,
    /// Fewest and most replicas.
    pub bounds: Bounds,
    /// Replicas that are asked for, `spec.replicas`.
    pub replicas: u32,
    /// Replicas that serve.
    pub ready: u32,
    /// Every pod that is there, oldest first; those that are leaving too.
    pub pods: &'a [PodView],
    /// Seconds that the pod which became ready last took from its creation.
    pub warmup: Option<f64>,
    /// What can be known of the load.
    pub metrics: &'a Metrics,
}

/// A pod as the API shows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PodView {
    /// Tells it from every other pod of the run; its name is `replica-<id>`.
    pub id: u64,
    /// When it was created.
    pub created: f64,
    /// Since when it has been ready; `None` while it is not.
    pub ready_since: Option<f64>,
    /// Whether it is leaving.
    pub terminating: bool,
    /// Whether it found no GPU.
    pub unschedulable: bool,
    /// Share of its KV cache in use as last scraped, 0 to 1.
    pub kv_usage: f64,
}

/// What a policy decides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// The number of replicas to write; `None` leaves it.
    pub write: Option<u32>,
    /// Pods that should go first if the number falls, first to go first; the newest ones where there is none.
    pub victims: Vec<u64>,
    /// Why, in one sentence for people; empty where there is nothing to say.
    pub why: String,
    /// Whether it was decided without some metric.
    pub on_missing: bool,
}
