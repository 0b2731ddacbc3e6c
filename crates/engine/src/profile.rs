//! What the steps of a serving engine cost, by model and hardware.

use std::sync::LazyLock;

use serde::Deserialize;

/// What the steps of one replica of an engine cost: iteration-level continuous batching, as vLLM does it.
///
/// A step that processes p prompt tokens, in chunks that attend to a context before them, and decodes n sequences with K tokens in the
/// KV cache takes
///
/// > overhead + max(weights, prompt_token × (p + n)) + sequence × n + kv_token × K + attention × Σ chunk × context
///
/// seconds. The maximum is the roofline: reading the weights and the matrix work overlap.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Profile {
    /// The name that `spec.slo.profile` goes by.
    pub name: String,
    /// What it is of, in words.
    pub title: String,
    /// Where the coefficients come from.
    pub source: String,
    /// How well they fit what was published.
    pub fit: String,
    /// GPUs of one replica.
    pub gpus: u32,
    /// What the steps cost.
    pub costs: Costs,
}

/// The coefficients of a [`Profile`].
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Costs {
    /// Seconds per step at any rate.
    pub overhead: f64,
    /// Seconds to read the weights.
    pub weights: f64,
    /// Seconds per token of matrix work.
    pub prompt_token: f64,
    /// Seconds per token and token of context before it, while a prompt is processed.
    pub attention: f64,
    /// Seconds per step and sequence that is being decoded.
    pub sequence: f64,
    /// Seconds per step and token in the KV cache that is read.
    pub kv_token: f64,
    /// KV cache of one replica in tokens.
    pub kv_tokens: u32,
    /// Most sequences that run at once.
    pub max_sequences: u32,
    /// Most tokens that one step processes.
    pub max_batched_tokens: u32,
}

impl Costs {
    /// Seconds of the shortest step there is, with one sequence and nothing to read: a = overhead + weights.
    #[must_use]
    pub fn base(&self) -> f64 {
        self.overhead + self.weights
    }
}

const FILES: [&str; 5] = [
    include_str!("../profiles/qwen3-32b-h100-tp2.yaml"),
    include_str!("../profiles/llama-3.1-8b-h100.yaml"),
    include_str!("../profiles/llama-3.1-8b-a100-40.yaml"),
    include_str!("../profiles/llama-3-70b-h100-tp4.yaml"),
    include_str!("../profiles/llama-3.1-8b-l4.yaml"),
];

/// A test proves that every file parses; here a file that does not would only be missing.
static PROFILES: LazyLock<Vec<Profile>> = LazyLock::new(|| FILES.iter().filter_map(|text| serde_saphyr::from_str(text).ok()).collect());

impl Profile {
    /// The profile that stands in where none is named.
    pub const DEFAULT: &'static str = "qwen3-32b-h100-tp2";

    /// The built-in profile of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PROFILES.iter().find(|profile| profile.name == name)
    }

    /// Every built-in profile.
    #[must_use]
    pub fn all() -> &'static [Self] {
        &PROFILES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_a_profile() {
        for text in FILES {
            serde_saphyr::from_str::<Profile>(text).unwrap();
        }
        assert_eq!(Profile::all().len(), FILES.len());
        assert!(Profile::named(Profile::DEFAULT).is_some());
    }

    #[test]
    fn costs_are_costs() {
        for profile in Profile::all() {
            let costs = profile.costs;
            let all = [costs.overhead, costs.weights, costs.prompt_token, costs.attention, costs.sequence, costs.kv_token];
            assert!(all.iter().all(|cost| cost.is_finite() && *cost > 0.0 && *cost < 0.1), "{}", profile.name);
            assert!(costs.max_batched_tokens >= costs.max_sequences && costs.kv_tokens > costs.max_batched_tokens, "{}", profile.name);
        }
    }
}
