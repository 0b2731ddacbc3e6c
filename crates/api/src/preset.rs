//! `spec.preset` and what it makes possible: signals by name instead of queries.

use std::collections::BTreeMap;
use std::fmt;

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::rules;
use crate::schema::bounded_labels;

/// The serving software whose metrics are read. With a preset, signals and latencies need no PromQL.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Preset {
    /// Whose metrics these are: vLLM and SGLang are engines, llm-d-EPP is the endpoint picker in front of them.
    pub name: PresetName,

    /// Labels that the series of this target carry and those of its neighbours do not, beside the namespace, which is added anyway:
    /// model_name for an engine, service for the endpoint picker. A label that a metric does not have is left out of its query; where
    /// nothing but the namespace would be left, the metric is unknown. Under metricProvider Scrape the pods are known without.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = bounded_labels)]
    #[x_kube(validation = rules::MATCH_LABELS)]
    pub match_labels: BTreeMap<String, String>,
}

/// Software whose metrics are known.
#[derive(Serialize, Deserialize, schemars::JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PresetName {
    /// The vLLM engine.
    #[serde(rename = "vLLM")]
    Vllm,
    /// The endpoint picker of the llm-d router.
    #[serde(rename = "llm-d-EPP")]
    LlmdEpp,
    /// The SGLang engine.
    #[serde(rename = "SGLang")]
    Sglang,
}

impl PresetName {
    /// Every preset.
    pub const ALL: [Self; 3] = [Self::Vllm, Self::LlmdEpp, Self::Sglang];

    /// The name, as the resource has it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Vllm => "vLLM",
            Self::LlmdEpp => "llm-d-EPP",
            Self::Sglang => "SGLang",
        }
    }

    /// Whether the software emits a signal, in some version.
    #[must_use]
    pub const fn emits(self, signal: Signal) -> bool {
        match signal {
            Signal::PoolSaturation | Signal::InflightRequests | Signal::InflightTokens => matches!(self, Self::LlmdEpp),
            _ => true,
        }
    }
}

impl fmt::Display for PresetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a metric says, whatever the preset's software calls it.
#[derive(Serialize, Deserialize, schemars::JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
pub enum Signal {
    /// Requests that wait to be served.
    QueuedRequests,
    /// Requests that are being served.
    RunningRequests,
    /// Share of the KV cache in use, 0 to 1.
    KvCacheUsage,
    /// Requests per second.
    Requests,
    /// Prompt tokens per second.
    PromptTokens,
    /// Output tokens per second.
    GenerationTokens,
    /// The endpoint picker's own measure of how full the pool is; at 1 it stops dispatching.
    PoolSaturation,
    /// Requests that the endpoint picker has under way.
    InflightRequests,
    /// Prompt tokens that the endpoint picker has under way.
    InflightTokens,
}

impl Signal {
    /// Every signal.
    pub const ALL: [Self; 9] = [
        Self::QueuedRequests,
        Self::RunningRequests,
        Self::KvCacheUsage,
        Self::Requests,
        Self::PromptTokens,
        Self::GenerationTokens,
        Self::PoolSaturation,
        Self::InflightRequests,
        Self::InflightTokens,
    ];

    /// The name, as the resource has it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::QueuedRequests => "queuedRequests",
            Self::RunningRequests => "runningRequests",
            Self::KvCacheUsage => "kvCacheUsage",
            Self::Requests => "requests",
            Self::PromptTokens => "promptTokens",
            Self::GenerationTokens => "generationTokens",
            Self::PoolSaturation => "poolSaturation",
            Self::InflightRequests => "inflightRequests",
            Self::InflightTokens => "inflightTokens",
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_those_of_the_schema() {
        for signal in Signal::ALL {
            assert_eq!(serde_json::to_value(signal).unwrap(), json!(signal.as_str()));
        }
        for preset in PresetName::ALL {
            assert_eq!(serde_json::to_value(preset).unwrap(), json!(preset.as_str()));
        }
    }

    #[test]
    fn the_rule_knows_which_signals_are_the_endpoint_pickers_own() {
        let own: Vec<String> =
            Signal::ALL.into_iter().filter(|signal| !PresetName::Vllm.emits(*signal)).map(|signal| format!("'{signal}'")).collect();
        assert!(rules::SIGNAL_OF_PRESET.cel.contains(&format!("[{}]", own.join(", "))), "{own:?}");
    }
}
