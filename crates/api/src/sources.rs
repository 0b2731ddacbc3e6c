//! Metrics as the engine's sources.

use std::collections::BTreeSet;

use llmscaler_engine as engine;

use crate::ask::Ask;
use crate::invalid::{Invalid, not_blank};
use crate::number::decimal;
use crate::preset::{PresetName, Signal};
use crate::resource::{Metric, MetricType};
use crate::rules;
use crate::slo::SLO;

/// The source of a decision server, by name.
const DECISION: &str = "decision";
/// Names that readings go by which are not those of a metric.
const RESERVED: [&str; 2] = [SLO, DECISION];

pub(crate) fn decision_source() -> engine::Source {
    engine::Source { name: DECISION.into(), law: engine::Law::Absolute, activation: engine::Activation::ANY_LOAD, required: false }
}

/// One source for each metric, in their order, and what each asks for.
pub(crate) fn sources(metrics: &[Metric], preset: Option<PresetName>) -> Result<Vec<(engine::Source, Ask)>, Invalid> {
    let names = source_names(metrics);
    metrics.iter().zip(names).enumerate().map(|(index, (metric, name))| source(index, metric, name, preset)).collect()
}

fn source(index: usize, metric: &Metric, name: String, preset: Option<PresetName>) -> Result<(engine::Source, Ask), Invalid> {
    let field = |field: &str| format!("spec.metrics[{index}].{field}");
    let ask = match (&metric.query, metric.signal) {
        (Some(query), None) => Ask::Query(not_blank(field("query"), query, rules::QUERY.message)?),
        (None, Some(signal)) => self::signal(field("signal"), signal, metric.metric_type, preset)?,
        _ => return Err(Invalid::new(format!("spec.metrics[{index}]"), rules::QUERY_OR_SIGNAL.message)),
    };
    let target =
        decimal(&metric.target).and_then(engine::Target::new).ok_or_else(|| Invalid::new(field("target"), rules::TARGET.message))?;
    let activation = decimal(&metric.activation)
        .and_then(engine::Activation::new)
        .ok_or_else(|| Invalid::new(field("activation"), rules::ACTIVATION.message))?;
    let law = match metric.metric_type {
        MetricType::Value => engine::Law::Ratio { target },
        MetricType::AverageValue => engine::Law::Average { target },
    };
    Ok((engine::Source { name, law, activation, required: metric.required }, ask))
}

fn signal(field: String, signal: Signal, metric_type: MetricType, preset: Option<PresetName>) -> Result<Ask, Invalid> {
    match preset {
        None => Err(Invalid::new(field, rules::SIGNAL_PRESET.message)),
        Some(preset) if !preset.emits(signal) => Err(Invalid::new(field, rules::SIGNAL_OF_PRESET.message)),
        Some(_) => Ok(Ask::Signal { signal, total: metric_type == MetricType::AverageValue }),
    }
}

/// For each metric the name that its source goes by: its own, or its index where it has none, shares it, or would be taken for
/// another reading. No two are the same.
fn source_names(metrics: &[Metric]) -> Vec<String> {
    let names: Vec<&str> = metrics.iter().map(|metric| metric.name.as_deref().unwrap_or("")).collect();
    let mut seen = BTreeSet::new();
    let repeated: BTreeSet<&str> = names.iter().copied().filter(|name| !seen.insert(*name)).collect();
    let unfit = |name: &str| name.is_empty() || RESERVED.contains(&name) || repeated.contains(name);
    let mut by_index: BTreeSet<String> = (0..names.len()).filter(|&index| unfit(names[index])).map(|index| index.to_string()).collect();
    // A metric may be named as the index of one that goes by its index; then it goes by its own index too.
    while let Some(index) = (0..names.len())
        .map(|index| index.to_string())
        .zip(&names)
        .find_map(|(index, name)| (!by_index.contains(&index) && by_index.contains(*name)).then_some(index))
    {
        by_index.insert(index);
    }
    (0..)
        .map(|index: usize| index.to_string())
        .zip(names)
        .map(|(index, name)| if by_index.contains(&index) { index } else { name.to_owned() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(name: Option<&str>, target: &str) -> Metric {
        Metric {
            name: name.map(Into::into),
            query: Some("avg(kv)".into()),
            signal: None,
            target: target.into(),
            metric_type: MetricType::Value,
            activation: "0".into(),
            required: false,
        }
    }

    #[test]
    fn targets_are_finite_numbers_above_zero() {
        for (text, number) in [("5", 5.0), ("0.8", 0.8), ("  2.5 ", 2.5), (".5", 0.5), ("+0.8", 0.8), ("1e-3", 0.001)] {
            let sources = sources(&[metric(None, text)], None).unwrap();
            assert_eq!(sources[0].0.law.target().map(engine::Target::get), Some(number), "{text:?}");
        }
        for text in ["80%", "80 %", "0", "-1", "NaN", "+Inf", "abc", "", "1e400", "1e-400", "0x1p-2", "1_000"] {
            let refusal = sources(&[metric(None, "1"), metric(None, text)], None).unwrap_err();
            assert_eq!(refusal, Invalid::new("spec.metrics[1].target", rules::TARGET.message), "{text:?}");
        }
    }

    #[test]
    fn each_source_has_a_name_of_its_own() {
        let rows: &[(&[Option<&str>], &[&str])] = &[
            (&[Some("kv"), Some("queue")], &["kv", "queue"]),
            (&[None, Some(""), Some("kv")], &["0", "1", "kv"]),
            (&[Some("kv"), Some("queue"), Some("kv")], &["0", "queue", "2"]),
            (&[Some("slo"), Some("decision")], &["0", "1"]),
            // Named as the index of another one: only a trouble where that one goes by its index.
            (&[Some("1"), Some("kv")], &["1", "kv"]),
            (&[Some("1"), None], &["0", "1"]),
            (&[Some("1"), Some("2"), None], &["0", "1", "2"]),
        ];
        for (given, expected) in rows {
            let metrics: Vec<Metric> = given.iter().map(|name| metric(*name, "1")).collect();
            assert_eq!(source_names(&metrics), *expected, "{given:?}");
        }
    }

    #[test]
    fn the_metric_type_chooses_the_law() {
        let total = Metric { metric_type: MetricType::AverageValue, required: true, activation: "5".into(), ..metric(Some("queue"), "10") };
        let (source, _) = sources(&[total], None).unwrap().remove(0);
        assert!(matches!(source.law, engine::Law::Average { .. }));
        assert_eq!((source.activation, source.required), (engine::Activation::new(5.0).unwrap(), true));
    }

    #[test]
    fn a_signal_is_a_total_or_the_mean_of_the_replicas() {
        let signal = |signal, metric_type, preset| {
            let metric = Metric { query: None, signal: Some(signal), metric_type, ..metric(None, "10") };
            sources(&[metric], preset).map(|mut sources| sources.remove(0).1)
        };
        let vllm = Some(PresetName::Vllm);
        let ask = |signal, total| Ok(Ask::Signal { signal, total });
        assert_eq!(signal(Signal::QueuedRequests, MetricType::AverageValue, vllm), ask(Signal::QueuedRequests, true));
        assert_eq!(signal(Signal::KvCacheUsage, MetricType::Value, vllm), ask(Signal::KvCacheUsage, false));
        assert_eq!(signal(Signal::PoolSaturation, MetricType::Value, Some(PresetName::LlmdEpp)), ask(Signal::PoolSaturation, false));
        assert_eq!(signal(Signal::PoolSaturation, MetricType::Value, vllm).unwrap_err().field, "spec.metrics[0].signal");
        assert_eq!(signal(Signal::QueuedRequests, MetricType::Value, None).unwrap_err().message, rules::SIGNAL_PRESET.message);
    }
}
