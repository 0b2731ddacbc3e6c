//! What each source of the engine is asked for.

use llmscaler_engine::Target;

use crate::preset::Signal;

/// What one source of [`llmscaler_engine::Spec::sources`] is asked for at each sync.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// PromQL that gives one value.
    Query(String),
    /// A signal of the preset.
    Signal {
        /// Which.
        signal: Signal,
        /// Whether it is the total of the pool (`metricType: AverageValue`); otherwise the mean of its replicas.
        total: bool,
    },
    /// The latencies that were promised.
    Slo(SloAsk),
    /// The count of a service, from a decision server.
    Decision {
        /// The service whose decision counts.
        service_id: String,
        /// The namespace that the decision must carry, if it matters.
        namespace: Option<String>,
        /// Path below the server's base URL.
        path: String,
    },
}

/// What the source `slo` is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct SloAsk {
    /// The quantile of each latency that counts, above 0 and below 1.
    pub quantile: f64,
    /// Time to first token, if one was promised.
    pub ttft: Option<LatencyAsk>,
    /// Time per output token, if one was promised.
    pub tpot: Option<LatencyAsk>,
    /// PromQL that gives the saturation itself. When there is one, the latencies are not asked for.
    pub saturation: Option<String>,
    /// A latency above this share of its promise tells by itself that the pool is saturated, also while the other one is unknown.
    pub up_at: Target,
}

/// What is asked for one latency.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyAsk {
    /// What was promised, in seconds.
    pub promised: Target,
    /// PromQL that gives the quantile in seconds; without it the preset's.
    pub query: Option<String>,
}
