//! The `LLMScaler` resource, and its conversion into what the engine decides on.
//!
//! [`LLMScaler`] is what users write, checked by the API server as far as a schema and CEL reach. [`LLMScaler::parse`] turns it into a
//! [`Scaler`], in which nothing is left to doubt; it refuses the same things in the same words, so that a cluster with an older schema
//! and a file on disk are judged alike. [`parse_json`] reads a document as strictly as the API server does.

mod actuation;
mod address;
mod ask;
mod behavior;
mod document;
mod duration;
mod invalid;
mod likeness;
mod number;
mod parse;
mod preset;
mod resource;
mod rules;
mod scaler;
mod schema;
mod scrape;
mod server;
mod slo;
mod sources;
mod status;
mod target;

pub use actuation::Actuation;
pub use ask::{Ask, LatencyAsk, SloAsk};
pub use behavior::{Behavior, PolicyType, ScalingPolicy, ScalingRules, SelectPolicy};
pub use document::parse_json;
pub use invalid::Invalid;
pub use preset::{Preset, PresetName, Signal};
pub use resource::{
    CustomProvider, Fallback, Idle, LLMScaler, LLMScalerSpec, Metric, MetricProvider, MetricType, Mode, Preemption, ScaleDown,
    ScaleDownBehavior, TargetReference,
};
pub use scaler::{Provider, Scaler};
pub use schema::definition;
pub use scrape::{EppService, Port, Router, Scheme, Scrape, ScrapeSettings};
pub use server::{Access, CaReference, CaSource, HeaderSource, Headers, KeyReference, SecretHeader, Server, ServerTls, Tls};
pub use slo::{Slo, Strategy};
pub use status::{DecisionStatus, LLMScalerStatus, MetricState, MetricStatus, StageStatus, WarmupStatus};
pub use target::TargetRef;
