//! What a field must fulfil: once as CEL for the API server, and once as the sentence that both the API server and
//! [`crate::LLMScaler::parse`] answer with.

/// A rule of the schema.
#[derive(Clone, Copy)]
pub(crate) struct Rule {
    /// True for what is accepted; `self` is the field that carries the rule.
    pub(crate) cel: &'static str,
    /// What to write instead.
    pub(crate) message: &'static str,
    /// Whether `cel` lets through what was stored before the rule existed (`oldSelf` is optional then).
    pub(crate) spares_stored: bool,
}

impl Rule {
    const fn new(cel: &'static str, message: &'static str) -> Self {
        Self { cel, message, spares_stored: false }
    }
}

impl From<Rule> for kube::core::Rule {
    fn from(rule: Rule) -> Self {
        let cel = Self::new(rule.cel).message(rule.message);
        if rule.spares_stored { cel.optional_old_self(true) } else { cel }
    }
}

pub(crate) const METRICS: Rule = Rule::new(
    "self.metricProvider == 'Custom' || has(self.slo) || (has(self.metrics) && size(self.metrics) > 0)",
    "spec.metrics must be non-empty unless metricProvider is Custom; add an entry with a query and a target, or set spec.slo",
);
pub(crate) const SERVER_ADDRESS: Rule = Rule::new(
    "self.metricProvider == 'Scrape' || has(self.serverAddress)",
    "spec.serverAddress is required unless metricProvider is Scrape; write the base URL of the Prometheus or of the decision server",
);
pub(crate) const CUSTOM_PROVIDER: Rule = Rule::new(
    "self.metricProvider != 'Custom' || has(self.customProvider)",
    "spec.customProvider is required when metricProvider is Custom; name the service in customProvider.serviceId",
);
pub(crate) const SLO_PROVIDER: Rule = Rule::new(
    "self.metricProvider != 'Custom' || !has(self.slo)",
    "spec.slo needs metricProvider Prometheus or Scrape; under Custom the decision server alone says how many replicas there should be",
);
pub(crate) const SLO_QUERIES: Rule = Rule::new(
    "!has(self.slo) || has(self.preset) || has(self.slo.saturationQuery) \
     || ((!has(self.slo.ttft) || has(self.slo.ttftQuery)) && (!has(self.slo.tpot) || has(self.slo.tpotQuery)))",
    "spec.slo needs spec.preset, which knows how its latencies are queried; set preset.name, or write ttftQuery and tpotQuery yourself",
);
pub(crate) const HEADROOM_PRESET: Rule = Rule::new(
    "!has(self.slo) || self.slo.strategy != 'Headroom' || has(self.preset)",
    "spec.slo.strategy Headroom needs spec.preset, which knows how requests and tokens are counted; set preset.name, or use strategy Band",
);
pub(crate) const HEADROOM_PERIOD: Rule = Rule::new(
    "!has(self.slo) || self.slo.strategy != 'Headroom' || self.syncPeriodSeconds == 0 || self.syncPeriodSeconds == 15",
    "spec.slo.strategy Headroom reckons in steps of 15 s; set syncPeriodSeconds to 15 or leave it out, or use strategy Band",
);
pub(crate) const SIGNAL_PRESET: Rule = Rule::new(
    "self.metricProvider == 'Custom' || has(self.preset) || !has(self.metrics) || self.metrics.all(metric, !has(metric.signal))",
    "metrics[].signal needs spec.preset, which knows what the signal is called; set preset.name, or write a query instead",
);
pub(crate) const SIGNAL_OF_PRESET: Rule = Rule::new(
    "self.metricProvider == 'Custom' || !has(self.preset) || self.preset.name == 'llm-d-EPP' || !has(self.metrics) \
     || self.metrics.all(metric, !has(metric.signal) || !(metric.signal in ['poolSaturation', 'inflightRequests', 'inflightTokens']))",
    "poolSaturation, inflightRequests and inflightTokens are measured by the endpoint picker; use preset llm-d-EPP or another signal",
);
pub(crate) const SCRAPE_PRESET: Rule = Rule::new(
    "self.metricProvider != 'Scrape' || has(self.preset)",
    "spec.preset is required when metricProvider is Scrape; say in preset.name what the pods run, vLLM or SGLang",
);
pub(crate) const SCRAPE_QUERIES: Rule = Rule::new(
    "self.metricProvider != 'Scrape' || ((!has(self.metrics) || self.metrics.all(metric, !has(metric.query))) && (!has(self.slo) \
     || !(has(self.slo.ttftQuery) || has(self.slo.tpotQuery) || has(self.slo.saturationQuery))))",
    "there is no Prometheus to answer a query when metricProvider is Scrape; name a signal instead, and leave the queries of spec.slo out",
);
pub(crate) const SCRAPE_COST: Rule = Rule::new(
    "self.metricProvider != 'Scrape' || !has(self.scaleDown) || !has(self.scaleDown.deletionCostQuery)",
    "there is no Prometheus to answer deletionCostQuery when metricProvider is Scrape; leave it out",
);
pub(crate) const SCRAPE_EPP: Rule = Rule::new(
    "self.metricProvider != 'Scrape' || !has(self.preset) || self.preset.name != 'llm-d-EPP' \
     || (has(self.scrape) && has(self.scrape.eppService))",
    "preset llm-d-EPP under metricProvider Scrape needs scrape.eppService; name the Service of the endpoint picker",
);
pub(crate) const BOUNDS: Rule = Rule {
    cel: "self.minReplicas <= self.maxReplicas || (oldSelf.hasValue() && oldSelf.value().minReplicas == self.minReplicas \
          && oldSelf.value().maxReplicas == self.maxReplicas)",
    message: "minReplicas must not be above maxReplicas; lower minReplicas or raise maxReplicas",
    spares_stored: true,
};

pub(crate) const HPA_MAX: Rule = Rule::new(
    "self.actuation == 'Direct' || self.maxReplicas > 0",
    "maxReplicas must be at least 1 with actuation HorizontalPodAutoscaler, which knows no other; to pin at zero, use actuation Direct",
);
pub(crate) const HPA_TARGETS: Rule = Rule::new(
    "self.actuation == 'Direct' || self.metricProvider == 'Custom' || !has(self.metrics) || self.metrics.all(metric, \
     metric.target.trim().matches('^[+]?([0-9]+([.][0-9]{0,3}0*)?|[.][0-9]{1,3}0*)$') && double(metric.target.trim()) >= 0.001 \
     && double(metric.target.trim()) <= 1e12)",
    "must have at most three decimals and no exponent with actuation HorizontalPodAutoscaler, which counts in thousandths: \
     0.001 to 1000000000000; scale the query and its target up, or use actuation Direct",
);
pub(crate) const HPA_WINDOW: Rule = Rule::new(
    "self.actuation == 'Direct' || has(self.behavior) || !has(self.scaleDown) || !has(self.scaleDown.stabilizationWindowSeconds) \
     || self.scaleDown.stabilizationWindowSeconds <= 3600",
    "scaleDown.stabilizationWindowSeconds must not be above 3600 with actuation HorizontalPodAutoscaler, which has no longer window",
);
pub(crate) const HPA_PERIOD: Rule = Rule::new(
    "self.actuation == 'Direct' || has(self.behavior) || self.syncPeriodSeconds <= 1800",
    "syncPeriodSeconds must not be above 1800 with actuation HorizontalPodAutoscaler, whose policies have no longer period; set behavior",
);

pub(crate) const API_VERSION: Rule = Rule::new(
    r"self.matches('^[^/\\s]+(/[^/\\s]+)?$')",
    "must be the target's group and version with one slash between them, such as apps/v1, or the version alone for the core group",
);
pub(crate) const KIND: Rule = Rule::new("self.trim() != ''", "must name the target's kind, such as Deployment");
pub(crate) const NAME: Rule = Rule::new("self.trim() != ''", "must name the target, an object in the scaler's own namespace");

pub(crate) const ADDRESS: Rule = Rule::new(
    r"self.matches('^[hH][tT][tT][pP][sS]?://[^/?#\\s]+(/[^?#\\s]*)?$') && isURL(self) && url(self).getHostname() != ''",
    "must be an http:// or https:// URL with a host and without a query or fragment, such as http://prometheus.monitoring.svc:9090",
);
pub(crate) const HEADER_NAMES: Rule = Rule::new(
    r#"self.all(name, name.matches("^[-!#$%&'*+.^_`|~0-9A-Za-z]+$"))"#,
    "the name of an HTTP header may only hold letters, digits and any of !#$%&'*+-.^_`|~, such as Authorization or X-Scope-OrgID",
);
pub(crate) const HEADER_VALUES: Rule = Rule::new(
    r"self.all(name, !self[name].matches('[\\x00-\\x08\\x0a-\\x1f\\x7f]'))",
    "the value of an HTTP header must be one line without control characters; remove the line break, which often ends a copied token",
);

pub(crate) const HEADER_NAME: Rule = Rule::new(r#"self.matches("^[-!#$%&'*+.^_`|~0-9A-Za-z]+$")"#, HEADER_NAMES.message);
pub(crate) const HEADER_PREFIX: Rule =
    Rule::new(r"!self.matches('[\\x00-\\x08\\x0a-\\x1f\\x7f]')", "must be one line without control characters, such as \"Bearer \"");
pub(crate) const HEADERS_ONCE: Rule = Rule::new(
    "self.all(header, self.exists_one(other, other.name.lowerAscii() == header.name.lowerAscii()))",
    "no two headers may have the same name, in capitals or not; take one of them out",
);
pub(crate) const OBJECT_NAME: Rule = Rule::new("self.trim() != ''", "must name an object in the scaler's own namespace");
pub(crate) const OBJECT_KEY: Rule = Rule::new("self.trim() != ''", "must name a key of the object's data, such as token or ca.crt");
pub(crate) const CA_SOURCE: Rule =
    Rule::new("has(self.secretKeyRef) != has(self.configMapKeyRef)", "must have exactly one of secretKeyRef and configMapKeyRef");
pub(crate) const SERVER_NAME: Rule =
    Rule::new("self.trim() != ''", "must be the name in the server's certificate; leave it out for the host");

pub(crate) const MATCH_LABELS: Rule =
    Rule::new("self.all(name, name != '')", "must be names and values of labels of the series, such as model_name: qwen3-32b");

pub(crate) const PORT: Rule = Rule::new(
    "string(self).matches('^[0-9]{1,5}$') ? int(string(self)) >= 1 && int(string(self)) <= 65535 \
     : string(self).matches('^[a-z0-9](-?[a-z0-9])*$') && string(self).matches('[a-z]') && size(string(self)) <= 15",
    "must be a port from 1 to 65535, or the name of a container port, such as http",
);
pub(crate) const SCRAPE_PATH: Rule =
    Rule::new(r"self.matches('^/[^?#\\s]*$')", "must be a path that begins with / and has no query or fragment, such as /metrics");
pub(crate) const EPP_NAME: Rule =
    Rule::new("self.trim() != ''", "must name the Service of the endpoint picker, in the scaler's own namespace");
pub(crate) const EPP_PORT: Rule = Rule::new("self >= 1 && self <= 65535", "must be a port from 1 to 65535");

pub(crate) const MIN_REPLICAS: &str = "must be 0 or more; 0 allows scale to zero";
pub(crate) const MAX_REPLICAS: &str = "must be 0 or more; 0 together with minReplicas 0 pins the target at zero";
pub(crate) const MAX_STEP: &str = "must be 0 or more replicas; 0 is no limit";

pub(crate) const SYNC_PERIOD: Rule =
    Rule::new("self >= 0", "must be a number of seconds above 0; leave it out, or write 0, for the default of 15");
pub(crate) const RETRY_PERIOD: Rule =
    Rule::new("self >= 0", "must be a number of seconds above 0; leave it out, or write 0, for the default of 10");
pub(crate) const WINDOW: Rule = Rule::new("self >= 0", "must be 0 or more seconds; 0 turns the window off");

pub(crate) const QUERY: Rule =
    Rule::new("self.trim() != ''", "must be PromQL that returns one value, such as avg(vllm:kv_cache_usage_perc)");
pub(crate) const TARGET: Rule = Rule::new(
    "self.trim().matches('^[+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?$') && double(self.trim()) > 0.0 \
     && double(self.trim()) <= 1.7976931348623157e308",
    "must be a finite number above 0 in quotes, such as \"0.8\"; instead of a per cent sign use the scale of the query, \"0.8\" or \"80\"",
);
pub(crate) const ACTIVATION: Rule = Rule::new(
    "self.trim().matches('^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?$') && double(self.trim()) >= -1.7976931348623157e308 \
     && double(self.trim()) <= 1.7976931348623157e308",
    "must be a finite number in quotes on the scale of the query, such as \"0\"",
);

pub(crate) const QUERY_OR_SIGNAL: Rule = Rule::new(
    "has(self.query) != has(self.signal)",
    "must have exactly one of query and signal: PromQL, or the name of what spec.preset knows",
);

pub(crate) const SLO_SIGNAL: Rule = Rule::new(
    "has(self.ttft) || has(self.tpot) || has(self.saturationQuery)",
    "must promise a latency; write ttft, such as 3s, or tpot, such as 100ms, or both, or measure the saturation with saturationQuery",
);
pub(crate) const SLO_OVERRIDES: Rule = Rule::new(
    "!has(self.saturationQuery) || !(has(self.ttftQuery) || has(self.tpotQuery))",
    "saturationQuery measures the saturation itself, so that ttftQuery and tpotQuery would never be asked; take either out",
);
pub(crate) const SLO_PROMISED: Rule = Rule::new(
    "(!has(self.ttftQuery) || has(self.ttft)) && (!has(self.tpotQuery) || has(self.tpot))",
    "ttftQuery needs ttft, and tpotQuery needs tpot: the latency that was promised, to compare with",
);
pub(crate) const SLO_ORDER: Rule = Rule::new(
    // A text that is no number has a sentence of its own.
    "[self.scaleDownAt, self.scaleUpAt, self.clamp].exists(mark, \
     !mark.trim().matches('^[+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?$')) \
     || (double(self.scaleDownAt.trim()) < double(self.scaleUpAt.trim()) && double(self.scaleUpAt.trim()) <= double(self.clamp.trim()))",
    "scaleDownAt must be below scaleUpAt, and scaleUpAt no more than clamp, such as \"0.40\", \"0.55\" and \"2\"",
);
pub(crate) const HEADROOM_PROMISES: Rule = Rule::new(
    "self.strategy != 'Headroom' || (has(self.ttft) && has(self.tpot))",
    "strategy Headroom needs both promises; write ttft, such as 3s, and tpot, such as 100ms, or use strategy Band",
);
pub(crate) const HEADROOM_ALONE: Rule = Rule::new(
    "self.strategy == 'Headroom' || !(has(self.profile) || has(self.objective))",
    "profile and objective are for strategy Headroom; remove them, or set strategy: Headroom",
);
pub(crate) const OBJECTIVE: Rule = Rule::new(
    "self.trim().matches('^[+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?$') && double(self.trim()) >= 0.5 \
     && double(self.trim()) < 1.0",
    "must be a number of at least 0.5 and below 1 in quotes, such as \"0.99\" for ninety-nine requests of a hundred",
);
pub(crate) const LATENCY: Rule = Rule::new(
    "self.matches('^([0-9]{1,6}([.][0-9]{1,6})?h)?([0-9]{1,6}([.][0-9]{1,6})?m)?([0-9]{1,6}([.][0-9]{1,6})?s)?\
     ([0-9]{1,6}([.][0-9]{1,6})?ms)?$') && self.matches('[1-9]')",
    "must be a length of time above 0, such as 3s or 100ms",
);
pub(crate) const SMOOTHING: Rule = Rule::new(
    "self != '' && self.matches('^([0-9]{1,6}([.][0-9]{1,6})?h)?([0-9]{1,6}([.][0-9]{1,6})?m)?([0-9]{1,6}([.][0-9]{1,6})?s)?\
     ([0-9]{1,6}([.][0-9]{1,6})?ms)?$') && duration(self) <= duration('1h')",
    "must be a length of time of at most 1h, such as 45s or 1m30s; 0s does not smooth",
);
pub(crate) const QUANTILE: Rule = Rule::new(
    "self.trim().matches('^[+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?$') && double(self.trim()) > 0.0 \
     && double(self.trim()) < 1.0",
    "must be a number between 0 and 1 in quotes, such as \"0.9\" for nine requests of ten",
);
pub(crate) const SATURATION: Rule =
    Rule::new(TARGET.cel, "must be a finite number above 0 in quotes: the latency as a share of what was promised, such as \"0.55\"");

pub(crate) const SERVICE_ID: Rule =
    Rule::new("self.trim() != ''", "must name the service as the decision server knows it in decisions[].serviceId");
pub(crate) const PATH: Rule = Rule::new(
    "!self.contains('?') && !self.contains('#')",
    "must be a path without a query or fragment, such as /decisions; serviceId is added to it as a query parameter",
);

pub(crate) const BEHAVIOR_WINDOW: Rule = Rule::new("self >= 0 && self <= 3600", "must be between 0 and 3600 seconds");
pub(crate) const POLICIES: Rule =
    Rule::new("size(self) > 0", "must hold at least one policy; leave the list out for the defaults, or set selectPolicy to Disabled");
pub(crate) const POLICY_VALUE: Rule = Rule::new("self > 0", "must be above 0; to close the direction, set selectPolicy to Disabled");
pub(crate) const POLICY_PERIOD: Rule = Rule::new("self >= 1 && self <= 1800", "must be between 1 and 1800 seconds");
pub(crate) const TOLERANCE: Rule = Rule::new(
    // The API server also takes "." and "m" for quantities, of nothing.
    "string(self).matches('^[+-]?[.]?[0-9]') && isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('0')) >= 0",
    "must be a number of at least 0 in quotes, such as \"0.1\" for ten per cent",
);

pub(crate) const COOLDOWN: Rule = Rule::new("self >= 0", "must be 0 or more seconds; 0 goes to zero as soon as nothing is active");
pub(crate) const FAILURE_THRESHOLD: Rule = Rule::new("self >= 0", "must be 0 or more syncs in a row");
pub(crate) const FALLBACK_REPLICAS: Rule = Rule::new("self >= 0", "must be 0 or more replicas");

#[cfg(test)]
mod tests {
    use kube::core::cel::Validator;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::address::address;
    use crate::duration::duration;
    use crate::number::{decimal, quantity};
    use crate::resource::TargetReference;
    use crate::scrape::port;
    use crate::server::plain_headers;

    fn holds(rule: Rule, schema: Value, value: &Value) -> bool {
        let mut schema = schema;
        schema["x-kubernetes-validations"] = json!([{"rule": rule.cel, "message": rule.message}]);
        Validator::new().validate(&schema, value, None).is_ok()
    }

    fn holds_for_text(rule: Rule, text: &str) -> bool {
        holds(rule, json!({"type": "string"}), &json!(text))
    }

    proptest! {
        #[test]
        fn numbers_are_judged_alike(text in "[ ]?[-+]?[0-9]{0,3}[.]?[0-9]{0,2}([eE][-+]?[0-9]{1,3})?[ %x_]?") {
            let number = decimal(&text);
            prop_assert_eq!(holds_for_text(TARGET, &text), number.is_some_and(|number| number > 0.0), "{:?}", text);
            prop_assert_eq!(holds_for_text(ACTIVATION, &text), number.is_some(), "{:?}", text);
            let objective = number.is_some_and(|number| (0.5..1.0).contains(&number));
            prop_assert_eq!(holds_for_text(OBJECTIVE, &text), objective, "{:?}", text);
            prop_assert_eq!(holds_for_text(QUANTILE, &text), number.is_some_and(|number| number > 0.0 && number < 1.0), "{:?}", text);
        }

        #[test]
        fn quantities_are_judged_alike(text in "[-+]?[0-9]{0,3}[.]?[0-9]{0,2}(m|u|k|M|Ki|e-?[0-9]|%)?") {
            let parsed = quantity(&k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::String(text.clone()));
            let tolerance = holds(TOLERANCE, json!({"x-kubernetes-int-or-string": true}), &json!(text));
            prop_assert_eq!(tolerance, parsed.is_some_and(|number| number >= 0.0), "{:?}", text);
        }

        #[test]
        fn addresses_are_judged_alike(text in "(https?|HTTP|ftp|)(://|:/|:|)(user@|)(prometheus|10[.]0[.]0[.]1|\\[::1\\]|)(:9090|)(/|/a/b|)([?#]x|)") {
            prop_assert_eq!(holds_for_text(ADDRESS, &text), address(&text).is_ok(), "{:?}", text);
        }

        #[test]
        fn versions_are_judged_alike(text in "[a1./ ]{0,6}") {
            let reference = TargetReference { api_version: text.clone(), kind: "Deployment".into(), name: "vllm".into() };
            prop_assert_eq!(holds_for_text(API_VERSION, &text), reference.parse().is_ok(), "{:?}", text);
        }

        #[test]
        fn headers_are_judged_alike(name in "[ -~é]{0,3}", value in "[ -~é\\t\\n\\r\\x00\\x7f]{0,3}") {
            let schema = json!({"type": "object", "additionalProperties": {"type": "string"}});
            let given = json!({ &name: &value });
            let accepted = holds(HEADER_NAMES, schema.clone(), &given) && holds(HEADER_VALUES, schema, &given);
            prop_assert_eq!(accepted, plain_headers(&[(name, value)].into()).is_ok());
        }

        #[test]
        fn lengths_of_time_are_judged_alike(text in "[ ]?([0-9]{1,7}([.][0-9]{0,2})?(h|m|s|ms|us| s)?){0,3}") {
            let length = duration(&text);
            prop_assert_eq!(holds_for_text(LATENCY, &text), length.is_some_and(|length| !length.is_zero()), "{:?}", text);
            prop_assert_eq!(holds_for_text(SMOOTHING, &text), length.is_some_and(|length| length.as_secs_f64() <= 3600.0), "{:?}", text);
        }

        #[test]
        fn ports_are_judged_alike(text in "[0-9]{0,6}|[a-zA-Z0-9_-]{0,17}", number in -1..70_000_i32) {
            use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
            let schema = || json!({"x-kubernetes-int-or-string": true});
            prop_assert_eq!(holds(PORT, schema(), &json!(text)), port(&IntOrString::String(text.clone())).is_some(), "{:?}", text);
            prop_assert_eq!(holds(PORT, schema(), &json!(number)), port(&IntOrString::Int(number)).is_some(), "{}", number);
        }
    }
}
