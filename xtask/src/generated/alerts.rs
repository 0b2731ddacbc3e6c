//! The chart's alerts, for kustomize, which reads no file outside of its folder.

use std::fmt::Write;

use anyhow::{Context, Result};

use crate::in_repository;

const RULES: &str = "dist/chart/files/alerts.yaml";

const HEAD: &str = "\
# Generated from dist/chart/files/alerts.yaml by `cargo run -p xtask -- generate`; do not edit.
#
# Needs the Prometheus operator, whose Prometheus has to select this.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: llmscaleoperator-alerts
  namespace: llmscaleoperator-system
  labels:
    app.kubernetes.io/name: llmscaleoperator
spec:
";

/// The PrometheusRule.
pub fn rule() -> Result<String> {
    let rules = std::fs::read_to_string(in_repository(RULES)).with_context(|| format!("reading {RULES}"))?;
    let mut text = HEAD.to_owned();
    for line in rules.lines() {
        if line.is_empty() { text.push('\n') } else { writeln!(text, "  {line}")? }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn it_has_the_charts_alerts() {
        let rules: Value = serde_saphyr::from_str(&std::fs::read_to_string(in_repository(RULES)).unwrap()).unwrap();
        let rule: Value = serde_saphyr::from_str(&rule().unwrap()).unwrap();
        assert!(rules["groups"].is_array());
        assert_eq!(rule["spec"], rules);
    }
}
