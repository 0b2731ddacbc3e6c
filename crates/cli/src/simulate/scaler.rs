//! An LLMScaler as a policy.

use std::path::Path;

use llmscaler_api::{Ask, Invalid, LatencyAsk, PresetName, Scaler, Signal, SloAsk, parse_json};
use llmscaler_engine::{Bounds, Law, Spec};
use llmscaler_simulator::Promised;
use llmscaler_simulator::metrics::{Quantile, Signal as Latencies, Values};
use llmscaler_simulator::policy::{Gauge, Measure, Ours};

use super::fleet::FleetArguments;
use crate::decide::{text, yaml};
use crate::failure::Failure;

/// Window of the quantiles that presets ask for, in seconds.
const WINDOW: f64 = 60.0;

/// A promise that everything keeps, for a latency of which nothing was promised.
const ANY: f64 = 1e9;

/// A scaler that can be simulated.
#[derive(Clone, Debug)]
pub struct Simulated {
    name: String,
    spec: Spec,
    measures: Vec<Measure>,
    promised: Promised,
}

impl Simulated {
    /// A fresh policy.
    pub fn policy(&self) -> Ours {
        Ours::new(self.name.clone(), self.spec.clone(), self.measures.clone(), self.promised)
    }

    /// Fewest and most replicas.
    pub fn bounds(&self) -> Bounds {
        self.spec.bounds
    }
}

/// The scaler of a file. Its bounds count unless the arguments have others.
pub fn read(file: &Path, fleet: &FleetArguments) -> Result<Simulated, Failure> {
    let shown = file.display().to_string();
    let bytes = std::fs::read(file).map_err(|cause| Failure::Unreadable { file: shown.clone(), cause })?;
    let name = file.file_stem().map_or_else(|| shown.clone(), |name| name.to_string_lossy().into_owned());
    let read = text(bytes)
        .and_then(|text| yaml(&text))
        .and_then(parse_json)
        .and_then(|resource| resource.parse())
        .and_then(|scaler| simulated(name, scaler));
    let mut simulated = read.map_err(|invalid| Failure::Invalid { file: shown, invalid })?;
    simulated.spec.bounds = fleet.bounds_or(simulated.spec.bounds);
    Ok(simulated)
}

fn simulated(name: String, scaler: Scaler) -> Result<Simulated, Invalid> {
    let preset = scaler.preset.as_ref().map(|preset| preset.name);
    let mut promised = Promised { ttft: ANY, tpot: ANY };
    let mut measures = Vec::new();
    for (index, (source, ask)) in scaler.spec.sources.iter().zip(&scaler.asks).enumerate() {
        measures.push(match ask {
            Ask::Query(_) => {
                return Err(refused(index, "query", "a query cannot be simulated; use signal, which the preset turns into the query"));
            }
            Ask::Decision { .. } => {
                return Err(invalid("spec.customProvider", "a decision server cannot be simulated; simulate metrics or an slo"));
            }
            Ask::Signal { signal, total } => gauge(index, *signal, *total, preset)?,
            Ask::Slo(ask) => {
                promised = promise(ask)?;
                saturation(ask, &source.law, promised, preset)
            }
        });
    }
    Ok(Simulated { name, spec: scaler.spec, measures, promised })
}

fn gauge(index: usize, signal: Signal, total: bool, preset: Option<PresetName>) -> Result<Measure, Invalid> {
    let gauge = match signal {
        // The gateway's queue is its own; an engine's is what waits at the pods.
        Signal::QueuedRequests if preset == Some(PresetName::LlmdEpp) => Gauge::Queued,
        Signal::QueuedRequests => Gauge::Waiting,
        Signal::RunningRequests => Gauge::Running,
        Signal::InflightRequests => Gauge::InFlight,
        Signal::KvCacheUsage if !total => return Ok(Measure::KvUsage),
        Signal::KvCacheUsage => {
            return Err(refused(
                index,
                "metricType",
                "the sum of shares of the KV cache cannot be simulated; use metricType Value for kvCacheUsage",
            ));
        }
        _ => {
            let known = "queuedRequests, runningRequests, inflightRequests and kvCacheUsage";
            return Err(refused(index, "signal", &format!("this signal cannot be simulated; use one of {known}, or an slo")));
        }
    };
    Ok(if total { Measure::Total(gauge) } else { Measure::PerReplica(gauge) })
}

/// What the scaler promises, which need not be what requests are held against.
fn promise(ask: &SloAsk) -> Result<Promised, Invalid> {
    if ask.saturation.is_some() {
        return Err(invalid("spec.slo.saturationQuery", "a query cannot be simulated; leave it out, and the latencies are taken"));
    }
    let seconds = |latency: Option<&LatencyAsk>, field: &str| match latency {
        Some(LatencyAsk { query: Some(_), .. }) => {
            Err(invalid(field, "a query cannot be simulated; leave it out, and the preset's is taken"))
        }
        Some(LatencyAsk { promised, query: None }) => Ok(promised.get()),
        None => Ok(ANY),
    };
    Ok(Promised { ttft: seconds(ask.ttft.as_ref(), "spec.slo.ttftQuery")?, tpot: seconds(ask.tpot.as_ref(), "spec.slo.tpotQuery")? })
}

fn saturation(ask: &SloAsk, law: &Law, promised: Promised, preset: Option<PresetName>) -> Measure {
    // The band takes the router's predictions where there is a router; the headroom law what was measured.
    let predicted = preset == Some(PresetName::LlmdEpp) && matches!(law, Law::Band(_));
    let signal = if predicted { Latencies::Predicted } else { Latencies::Measured };
    let quantile = Quantile { of: ask.quantile, signal, values: Values::Buckets, window: WINDOW };
    Measure::Saturation { quantile, promised, up_at: ask.up_at }
}

fn refused(index: usize, field: &str, message: &str) -> Invalid {
    invalid(&format!("spec.metrics[{index}].{field}"), message)
}

fn invalid(field: &str, message: &str) -> Invalid {
    Invalid { field: field.to_owned(), message: message.to_owned() }
}
