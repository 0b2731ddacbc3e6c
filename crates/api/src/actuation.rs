//! Who moves the target between one and many replicas, and what only the operator itself can carry out.

use serde::{Deserialize, Serialize};

use crate::invalid::Invalid;
use crate::number::decimal;
use crate::resource::{LLMScalerSpec, MetricProvider};
use crate::rules;

/// Who writes the number of replicas.
#[derive(Serialize, Deserialize, schemars::JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Actuation {
    /// The operator itself.
    #[default]
    Direct,
    /// A HorizontalPodAutoscaler that the operator generates, fed by the operator's External Metrics API. The operator itself moves the
    /// target between zero and one.
    HorizontalPodAutoscaler,
}

/// Refuses what the API of the HPA has no room for.
pub(crate) fn check(spec: &LLMScalerSpec) -> Result<(), Invalid> {
    if spec.actuation == Actuation::Direct {
        return Ok(());
    }
    if spec.max_replicas < 1 {
        return Err(Invalid::new("spec.maxReplicas", rules::HPA_MAX.message));
    }
    let asked = spec.metric_provider != MetricProvider::Custom;
    if let Some(index) = spec.metrics.iter().position(|metric| asked && !in_thousandths(&metric.target)) {
        return Err(Invalid::new(format!("spec.metrics[{index}].target"), rules::HPA_TARGETS.message));
    }
    // With behavior the windows and periods are those that it has.
    if spec.behavior.is_none() {
        let window = spec.scale_down.as_ref().and_then(|scale_down| scale_down.stabilization_window_seconds);
        if window.is_some_and(|window| window > 3600) {
            return Err(Invalid::new("spec.scaleDown.stabilizationWindowSeconds", rules::HPA_WINDOW.message));
        }
        if spec.sync_period_seconds > 1800 {
            return Err(Invalid::new("spec.syncPeriodSeconds", rules::HPA_PERIOD.message));
        }
    }
    Ok(())
}

/// Whether the HPA, which counts in thousandths, has this target as it is written.
fn in_thousandths(target: &str) -> bool {
    let (whole, fraction) = target.trim().split_once('.').unwrap_or((target.trim(), ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let exact = digits(whole.strip_prefix('+').unwrap_or(whole)) && digits(fraction) && fraction.trim_end_matches('0').len() <= 3;
    exact && decimal(target).is_some_and(|target| (0.001..=1e12).contains(&target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hpa_counts_in_thousandths() {
        for target in ["5", "0.8", " +0.125 ", ".5", "16.", "0.1000", "1000000000000"] {
            assert!(in_thousandths(target), "{target}");
        }
        for target in ["0.0005", "0.12345", "1e-3", "5e2", "0", "0.000", "1000000000001", ""] {
            assert!(!in_thousandths(target), "{target}");
        }
    }
}
