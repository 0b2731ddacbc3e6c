//! Presets: what the serving software calls its metrics, so that nobody has to write PromQL.
//!
//! A preset is a file of `presets/`, compiled in: one row per [`Signal`] with the names under which versions emit it, the labels of
//! its series, and what has to be switched on. From a row and a [`Scope`] a [`Preset`] writes one PromQL query that gives one value.
//!
//! # What every query keeps to
//!
//! * **Its pool only.** The namespace is in each selector, and at least one label that tells the pool from its neighbours. Where
//!   there is none, there is no query but [`NoQuery::Unscoped`]. See [`Scope`].
//! * **Each pod once.** In the middle of an upgrade some pods emit an old name, some the new one, and some both; and two scrape
//!   jobs may read the same pod. Gauges are added up per pod *and name and job*, and of these the largest counts. For rates, which
//!   have no name any more, an older name counts only for pods that lack the newer one.
//! * **A pod is a replica**, however many engines it runs (data parallelism) and however many ports are scraped. Engines are
//!   combined first, added or averaged as the row says, then pods. A pod is told by its `pod` label, else by the host in `instance`.
//! * **No invented zero.** An absent series is no result, and never 0, except where another series of the same process proves that
//!   the process is there and has nothing to count (the row's `zero`). A quantile over no observations is NaN.
//!
//! ```
//! use llmscaler_signals::preset::{Aggregate, Preset, Scope, Signal};
//!
//! let vllm = Preset::named("vLLM").unwrap();
//! let scope = Scope::new("serving", [("model_name", "qwen")]);
//! assert_eq!(
//!     vllm.query(Signal::QueuedRequests, Aggregate::Total, &scope).unwrap(),
//!     "sum(max by (instance, pod) (sum by (job, instance, pod) \
//!      (vllm:num_requests_waiting{model_name=\"qwen\", namespace=\"serving\"})))"
//! );
//! ```

mod promql;
mod scope;
mod signal;
mod table;
#[cfg(test)]
mod tests;
mod traffic;

use std::sync::LazyLock;

pub use self::scope::{Scope, Unscoped};
pub use self::signal::{Signal, UnknownSignal};
pub use self::table::{Combine, Kind, Metric, Per, Preset, Row};

const FILES: [&str; 3] =
    [include_str!("../presets/vllm.yaml"), include_str!("../presets/llm-d-epp.yaml"), include_str!("../presets/sglang.yaml")];

/// A test proves that every file parses; here a file that does not would only be missing.
static PRESETS: LazyLock<Vec<Preset>> = LazyLock::new(|| FILES.iter().filter_map(|text| serde_saphyr::from_str(text).ok()).collect());

/// What the one number of a query is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// The whole pool: for `metricType: AverageValue`, where the target is what one replica should carry of it.
    Total,
    /// The mean replica: for `metricType: Value`, where the target is compared with it.
    ///
    /// What a router counts for the whole pool is divided by the endpoints that the same router holds ready, at least 1. So a pool
    /// whose pods serve on several ports each, with an endpoint for every port, reads too low: ask for the total there. A level of
    /// the pool (a share of the cache, a saturation) is the mean already.
    PerReplica,
}

/// The two latencies that users are promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latency {
    /// Time to first token.
    Ttft,
    /// Time per output token, after the first.
    Tpot,
}

impl Latency {
    /// The signals to take it from, the preferred one first.
    pub(crate) fn signals(self) -> [Signal; 2] {
        match self {
            Self::Ttft => [Signal::PredictedTtft, Signal::Ttft],
            Self::Tpot => [Signal::PredictedTpot, Signal::Tpot],
        }
    }
}

/// Why a preset writes no query. The texts say what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoQuery {
    /// Nothing but the namespace would tell the pool from others.
    #[error(transparent)]
    Unscoped(#[from] Unscoped),
    /// The software does not emit the signal.
    #[error("{software} has no metric for signal {signal}; it has {}", list(.has))]
    NotEmitted {
        /// Whose metrics these are.
        software: &'static str,
        /// What was asked for.
        signal: Signal,
        /// What can be asked for.
        has: Vec<Signal>,
    },
    /// The signal is not one number.
    #[error("signal {signal} of preset {preset} is {kind}, not one number; {}", .kind.instead())]
    NotOneNumber {
        /// The preset.
        preset: &'static str,
        /// What was asked for.
        signal: Signal,
        /// What it is.
        kind: Kind,
    },
}

fn list(signals: &[Signal]) -> String {
    signals.iter().map(|signal| signal.name()).collect::<Vec<_>>().join(", ")
}

impl Preset {
    /// The preset of this name (`vLLM`, `llm-d-EPP`, `SGLang`), as written.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// Every preset's name.
    pub fn names() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|preset| preset.name.as_str())
    }

    /// The row of a signal.
    #[must_use]
    pub fn row(&self, signal: Signal) -> Option<&Row> {
        self.rows.iter().find(|row| row.signal == signal)
    }

    /// Every row, in the order of the file.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The signals that [`query`](Self::query) can give, those that are one number, without the ones that only
    /// [`traffic_queries`](Self::traffic_queries) are for.
    pub fn signals(&self) -> impl Iterator<Item = Signal> {
        let numbers = self.rows.iter().filter(|row| matches!(row.kind, Kind::Gauge | Kind::Counter)).map(|row| row.signal);
        numbers.filter(|signal| !signal.is_of_the_law())
    }
}
