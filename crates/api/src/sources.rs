//! Metrics as the engine's sources.

use std::collections::BTreeSet;

use llmscaler_engine as engine;

use crate::number::decimal;
use crate::parse::{Invalid, not_blank};
use crate::resource::{Metric, MetricType};
use crate::rules;

/// The source of a decision server, by name.
const DECISION: &str = "decision";
/// Names that readings go by which are not those of a metric.
const RESERVED: [&str; 2] = ["slo", DECISION];

pub(crate) fn decision_source() -> engine::Source {
    engine::Source { name: DECISION.into(), law: engine::Law::Absolute, activation: engine::Measurement::ZERO, required: false }
}

/// One source for each metric, in their order.
pub(crate) fn sources(metrics: &[Metric]) -> Result<Vec<engine::Source>, Invalid> {
    if metrics.is_empty() {
        return Err(Invalid::new("spec.metrics", rules::METRICS.message));
    }
    let names = source_names(metrics);
    metrics.iter().zip(names).enumerate().map(|(index, (metric, name))| source(index, metric, name)).collect()
}

fn source(index: usize, metric: &Metric, name: String) -> Result<engine::Source, Invalid> {
    let field = |field: &str| format!("spec.metrics[{index}].{field}");
    not_blank(field("query"), &metric.query, rules::QUERY.message)?;
    let target =
        decimal(&metric.target).and_then(engine::Target::new).ok_or_else(|| Invalid::new(field("target"), rules::TARGET.message))?;
    let activation = decimal(&metric.activation).ok_or_else(|| Invalid::new(field("activation"), rules::ACTIVATION.message))?;
    Ok(engine::Source {
        name,
        law: match metric.metric_type {
            MetricType::Value => engine::Law::Ratio { target },
            MetricType::AverageValue => engine::Law::Average { target },
        },
        activation: engine::Measurement::new(activation).unwrap_or(engine::Measurement::ZERO),
        required: metric.required,
    })
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
