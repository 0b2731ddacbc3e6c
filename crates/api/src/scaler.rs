//! A scaler in which nothing is left to doubt.

use std::time::Duration;

use llmscaler_engine as engine;

use crate::actuation::Actuation;
use crate::ask::Ask;
use crate::preset::Preset;
use crate::scrape::Scrape;
use crate::server::{Access, Server};
use crate::target::TargetRef;

/// A scaler that can be run.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaler {
    /// The workload to scale, in the scaler's own namespace.
    pub target: TargetRef,
    /// What the engine decides on.
    pub spec: engine::Spec,
    /// What each of [`engine::Spec::sources`] is asked for, in their order; the source `slo` is the last one.
    pub asks: Vec<Ask>,
    /// Who is asked.
    pub provider: Provider,
    /// What the serving software is, for [`Ask::Signal`] and for an [`Ask::Slo`] without queries.
    pub preset: Option<Preset>,
    /// Time until the next attempt after an error, or when the target is missing.
    pub retry_period: Duration,
    /// PromQL that ranks the pods by the warmth of their cache. `None` also where nothing would read the ranking.
    pub deletion_cost_query: Option<String>,
    /// Who writes the number of replicas.
    pub actuation: Actuation,
}

/// Who is asked for readings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provider {
    /// A Prometheus. It is asked for [`Ask::Query`], [`Ask::Signal`] and [`Ask::Slo`].
    Prometheus(Server),
    /// A decision server. It is asked for [`Ask::Decision`], by the only source.
    DecisionServer(Server),
    /// The pods of the target themselves, and the router in front of them. They are asked for [`Ask::Signal`] and [`Ask::Slo`], neither
    /// with a query.
    Scrape {
        /// Where their pages are.
        scrape: Scrape,
        /// What goes with each request: headers to the router alone, certificates to all.
        access: Access,
    },
}
