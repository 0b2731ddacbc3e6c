//! Which metrics of a page a scaler wants.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::exposition::Sample;
use crate::preset::{Kind, Per, Preset, Row, Signal};
use crate::traffic::{BLOCK_SIZE, BLOCKS, tokens_of};

/// What the headroom law measures over longer than a window, and what proves a zero of it.
const LASTING: [Signal; 11] = [
    Signal::Requests,
    Signal::RunningRequests,
    Signal::QueuedRequests,
    Signal::KvCacheTokens,
    Signal::Prompts,
    Signal::PromptTokens,
    Signal::CachedTokens,
    Signal::PromptLength,
    Signal::FinishedRequests,
    Signal::FinishedTokens,
    Signal::OutputLength,
];

/// The families that are kept of a page. Of the thousands of lines of an inference server these are some dozens.
#[derive(Debug)]
pub(super) struct Wanted {
    families: Vec<Family>,
    by_name: HashMap<String, Vec<Role>>,
    /// See [`LASTING`]; none unless the headroom law asks.
    lasting: Vec<u8>,
}

/// The metric of one signal, under whatever name.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) row: &'static Row,
    /// The labels that its series must have, if they have them at all.
    matches: Vec<(String, String)>,
}

/// What a sample of a certain name is to a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Role {
    /// Which family.
    pub(super) family: u8,
    /// Which of its names, the preferred one first.
    pub(super) alias: u8,
    /// Whether it is one bucket of a histogram.
    pub(super) bucket: bool,
}

impl Wanted {
    /// Those of `signals` that the preset has, each under all its names. Of the labels of `match_labels` those count that a row has;
    /// the others are labels that scraping would add, and here it is the address that says whose a page is.
    pub(super) fn new(preset: &'static Preset, signals: &BTreeSet<Signal>, match_labels: &BTreeMap<String, String>) -> Self {
        let (mut families, mut by_name) = (Vec::<Family>::new(), HashMap::<_, Vec<_>>::new());
        for (row, family) in signals.iter().filter_map(|&signal| preset.row(signal)).zip(0_u8..) {
            let matches = match_labels.iter().filter_map(|(label, value)| {
                let here = row.renamed.get(label).unwrap_or(label);
                row.labels.contains(here).then(|| (here.clone(), value.clone()))
            });
            let bucket = row.kind == Kind::Histogram;
            for (metric, alias) in row.metrics.iter().zip(0_u8..) {
                let name = if bucket { format!("{}_bucket", metric.name) } else { metric.name.clone() };
                by_name.entry(name).or_default().push(Role { family, alias, bucket });
            }
            families.push(Family { row, matches: matches.collect() });
        }
        let of_the_law = signals.contains(&Signal::FinishedRequests);
        let numbered = families.iter().zip(0_u8..).filter(|(family, _)| of_the_law && LASTING.contains(&family.row.signal));
        let lasting = numbered.map(|(_, number)| number).collect();
        Self { families, by_name, lasting }
    }

    /// The families that are kept for longer than a window, in their order.
    pub(super) fn lasting(&self) -> &[u8] {
        &self.lasting
    }

    /// What samples of this name are wanted for.
    pub(super) fn roles(&self, name: &str) -> &[Role] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// The family that `role` speaks of.
    pub(super) fn family(&self, role: Role) -> Option<&Family> {
        self.families.get(usize::from(role.family))
    }

    /// The family of a signal, and its number.
    pub(super) fn signal(&self, signal: Signal) -> Option<(u8, &'static Row)> {
        self.families.iter().zip(0_u8..).find(|(family, _)| family.row.signal == signal).map(|(family, number)| (number, family.row))
    }
}

impl Family {
    /// Whether a series with these labels counts. A label that a series lacks is empty, as in PromQL, for the preset's own conditions;
    /// for those of the user it is one that this version does not have, and then the page is the pool's anyway.
    pub(super) fn counts(&self, alias: u8, labels: &[(&str, Cow<'_, str>)]) -> bool {
        let value = |label: &str| labels.iter().find(|(name, _)| *name == label).map(|(_, value)| value.as_ref());
        let only = self.row.metrics.get(usize::from(alias)).map(|metric| &metric.only);
        only.into_iter().flatten().all(|(label, allowed)| allowed.split('|').any(|allowed| allowed == value(label).unwrap_or_default()))
            && self.matches.iter().all(|(label, wanted)| value(label).is_none_or(|value| value == wanted))
    }

    /// What a sample says: its value, or the tokens of a KV cache where those are in its labels. `None` where these cannot be read.
    pub(super) fn value(&self, sample: &Sample<'_>) -> Option<f64> {
        let label = |label: &str| sample.labels.iter().find(|(name, _)| *name == label).map(|(_, value)| value.as_ref());
        if self.row.kind == Kind::Info { tokens_of(label(BLOCKS)?, label(BLOCK_SIZE)?) } else { Some(sample.value) }
    }

    /// The endpoint that a series is about, where the row's series are about endpoints.
    pub(super) fn endpoint<'a>(&self, labels: &'a [(&str, Cow<'_, str>)]) -> Option<&'a str> {
        let label = labels.iter().find(|(name, _)| self.row.per == Per::Endpoint && *name == "endpoint_name");
        label.map(|(_, value)| value.as_ref())
    }
}

/// The pod of an endpoint: a data-parallel pod has one for each rank, or for each port (`pod-0-rank-3`, `pod-0:8003`).
pub(super) fn pod_of(endpoint: &str) -> &str {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let pod = endpoint.rsplit_once(':').filter(|(_, port)| digits(port)).map_or(endpoint, |(pod, _)| pod);
    pod.rsplit_once("-rank-").filter(|(_, rank)| digits(rank)).map_or(pod, |(pod, _)| pod)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(preset: &str, signals: &[Signal], match_labels: &[(&str, &str)]) -> Wanted {
        let match_labels = match_labels.iter().map(|(label, value)| ((*label).to_owned(), (*value).to_owned())).collect();
        Wanted::new(Preset::named(preset).unwrap(), &signals.iter().copied().collect(), &match_labels)
    }

    fn counts(wanted: &Wanted, name: &str, labels: &[(&'static str, &'static str)]) -> bool {
        let labels: Vec<_> = labels.iter().map(|&(name, value)| (name, Cow::Borrowed(value))).collect();
        wanted.roles(name).iter().any(|&role| wanted.family(role).unwrap().counts(role.alias, &labels))
    }

    #[test]
    fn all_names_of_a_signal_are_wanted_and_nothing_else() {
        let wanted = wanted("vLLM", &[Signal::KvCacheUsage, Signal::Ttft, Signal::PoolSaturation], &[]);
        let (kv, row) = wanted.signal(Signal::KvCacheUsage).unwrap();
        assert_eq!(row.metrics.len(), 2);
        assert_eq!(wanted.roles("vllm:kv_cache_usage_perc"), [Role { family: kv, alias: 0, bucket: false }]);
        assert_eq!(wanted.roles("vllm:gpu_cache_usage_perc"), [Role { family: kv, alias: 1, bucket: false }]);
        assert_eq!(wanted.roles("vllm:time_to_first_token_seconds_bucket").len(), 1);
        assert!(wanted.roles("vllm:time_to_first_token_seconds_sum").is_empty());
        assert!(wanted.roles("vllm:num_requests_waiting").is_empty());
        assert!(wanted.signal(Signal::PoolSaturation).is_none());
    }

    #[test]
    fn conditions_of_the_preset_and_labels_of_the_user_select_series() {
        let wanted = wanted(
            "llm-d-EPP",
            &[Signal::PoolSaturation, Signal::RunningRequests, Signal::ReadyEndpoints],
            &[("inference_pool", "mine"), ("service", "epp"), ("model_name", "m")],
        );
        let saturation = "llm_d_epp_flow_control_pool_saturation";
        assert!(counts(&wanted, saturation, &[("stage", "effective"), ("inference_pool", "mine")]));
        assert!(counts(&wanted, saturation, &[("inference_pool", "mine")]));
        assert!(!counts(&wanted, saturation, &[("stage", "decode"), ("inference_pool", "mine")]));
        assert!(!counts(&wanted, saturation, &[("inference_pool", "theirs")]));
        // The pool's label has another name here.
        assert!(!counts(&wanted, "llm_d_epp_ready_endpoints", &[("name", "theirs")]));
        assert!(counts(&wanted, "llm_d_epp_ready_endpoints", &[("name", "mine")]));
        // What these series do not carry cannot select among them.
        assert!(counts(&wanted, "llm_d_epp_request_running", &[("model_name", "m")]));
        assert!(!counts(&wanted, "llm_d_epp_request_running", &[("model_name", "n")]));
    }

    #[test]
    fn endpoints_are_of_pods() {
        for (endpoint, pod) in [
            ("web-7c9-x", "web-7c9-x"),
            ("web-7c9-x-rank-0", "web-7c9-x"),
            ("web-7c9-x-rank-12", "web-7c9-x"),
            ("web-7c9-x:8003", "web-7c9-x"),
            ("web-7c9-x-rank-1:8001", "web-7c9-x"),
            ("web-rank-a", "web-rank-a"),
            ("", ""),
        ] {
            assert_eq!(pod_of(endpoint), pod);
        }
    }
}
