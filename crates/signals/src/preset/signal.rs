//! The names of signals, as they are written after `signal:`.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// What a metric says, whoever emits it and whatever it is called there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Signal {
    /// Requests that wait to be served.
    QueuedRequests,
    /// Requests that are being served.
    RunningRequests,
    /// Share of the KV cache in use, 0 to 1.
    KvCacheUsage,
    /// The router's own saturation of a pool: at 1 it stops dispatching.
    PoolSaturation,
    /// Endpoints that the router holds ready.
    ReadyEndpoints,
    /// Prompt tokens on their way through an endpoint.
    InflightTokens,
    /// Requests on their way through an endpoint.
    InflightRequests,
    /// Time to first token in seconds, measured.
    Ttft,
    /// Time per output token in seconds, measured.
    Tpot,
    /// Time to first token in seconds, predicted when a request is routed.
    PredictedTtft,
    /// Time per output token in seconds, predicted when a request is routed.
    PredictedTpot,
    /// Seconds in the queue.
    QueueTime,
    /// Count of requests.
    Requests,
    /// Count of prompt tokens.
    PromptTokens,
    /// Count of output tokens.
    GenerationTokens,
    /// Tokens of a prompt.
    PromptLength,
    /// Tokens of an answer.
    OutputLength,
    /// Size of the KV cache in tokens.
    KvCacheTokens,
    /// Size of the KV cache in labels.
    CacheConfig,
    /// Count of the requests whose prompts are in [`PromptTokens`](Self::PromptTokens).
    Prompts,
    /// Count of those prompt tokens that were found in a cache, so that nobody computed them.
    CachedTokens,
    /// Count of the requests that have finished.
    FinishedRequests,
    /// Count of the output tokens of the requests that have finished.
    FinishedTokens,
    /// Mean time per output token of a request in seconds.
    RequestTpot,
    /// Seconds between one token of a request and its next, added up.
    InterTokenTime,
    /// Count of what [`InterTokenTime`](Self::InterTokenTime) adds up.
    InterTokens,
    /// Requests that wait at the mean endpoint, as its router sees it.
    EndpointQueue,
}

/// The text is no signal's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no signal; the signals are {all}", all = super::list(&Signal::ALL))]
pub struct UnknownSignal(String);

impl Signal {
    /// Every signal.
    pub const ALL: [Self; 27] = [
        Self::QueuedRequests,
        Self::RunningRequests,
        Self::KvCacheUsage,
        Self::PoolSaturation,
        Self::ReadyEndpoints,
        Self::InflightTokens,
        Self::InflightRequests,
        Self::Ttft,
        Self::Tpot,
        Self::PredictedTtft,
        Self::PredictedTpot,
        Self::QueueTime,
        Self::Requests,
        Self::PromptTokens,
        Self::GenerationTokens,
        Self::PromptLength,
        Self::OutputLength,
        Self::KvCacheTokens,
        Self::CacheConfig,
        Self::Prompts,
        Self::CachedTokens,
        Self::FinishedRequests,
        Self::FinishedTokens,
        Self::RequestTpot,
        Self::InterTokenTime,
        Self::InterTokens,
        Self::EndpointQueue,
    ];

    /// Whether only the headroom law reads it, for one of its inputs, and no `signal:` names it.
    pub(crate) fn is_of_the_law(self) -> bool {
        matches!(
            self,
            Self::Prompts
                | Self::CachedTokens
                | Self::FinishedRequests
                | Self::FinishedTokens
                | Self::RequestTpot
                | Self::InterTokenTime
                | Self::InterTokens
                | Self::EndpointQueue
        )
    }

    /// The name after `signal:`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::QueuedRequests => "queuedRequests",
            Self::RunningRequests => "runningRequests",
            Self::KvCacheUsage => "kvCacheUsage",
            Self::PoolSaturation => "poolSaturation",
            Self::ReadyEndpoints => "readyEndpoints",
            Self::InflightTokens => "inflightTokens",
            Self::InflightRequests => "inflightRequests",
            Self::Ttft => "ttft",
            Self::Tpot => "tpot",
            Self::PredictedTtft => "predictedTtft",
            Self::PredictedTpot => "predictedTpot",
            Self::QueueTime => "queueTime",
            Self::Requests => "requests",
            Self::PromptTokens => "promptTokens",
            Self::GenerationTokens => "generationTokens",
            Self::PromptLength => "promptLength",
            Self::OutputLength => "outputLength",
            Self::KvCacheTokens => "kvCacheTokens",
            Self::CacheConfig => "cacheConfig",
            Self::Prompts => "prompts",
            Self::CachedTokens => "cachedTokens",
            Self::FinishedRequests => "finishedRequests",
            Self::FinishedTokens => "finishedTokens",
            Self::RequestTpot => "requestTpot",
            Self::InterTokenTime => "interTokenTime",
            Self::InterTokens => "interTokens",
            Self::EndpointQueue => "endpointQueue",
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Signal {
    type Err = UnknownSignal;

    fn from_str(text: &str) -> Result<Self, UnknownSignal> {
        Self::ALL.into_iter().find(|signal| signal.name() == text).ok_or_else(|| UnknownSignal(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_files() {
        for signal in Signal::ALL {
            assert_eq!(signal.name().parse(), Ok(signal));
            assert_eq!(serde_saphyr::from_str::<Signal>(signal.name()).unwrap(), signal);
        }
        let error = "queue".parse::<Signal>().unwrap_err().to_string();
        assert!(error.starts_with("\"queue\" is no signal; the signals are queuedRequests, runningRequests, "), "{error}");
    }
}
