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
    "self.metricProvider == 'Custom' || (has(self.metrics) && size(self.metrics) > 0)",
    "spec.metrics must be non-empty unless metricProvider is Custom; add an entry with a query and a target",
);
pub(crate) const CUSTOM_PROVIDER: Rule = Rule::new(
    "self.metricProvider != 'Custom' || has(self.customProvider)",
    "spec.customProvider is required when metricProvider is Custom; name the service in customProvider.serviceId",
);
pub(crate) const BOUNDS: Rule = Rule {
    cel: "self.minReplicas <= self.maxReplicas || (oldSelf.hasValue() && oldSelf.value().minReplicas == self.minReplicas \
          && oldSelf.value().maxReplicas == self.maxReplicas)",
    message: "minReplicas must not be above maxReplicas; lower minReplicas or raise maxReplicas",
    spares_stored: true,
};

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
    use crate::number::{decimal, quantity};
    use crate::parse::{address, headers, target_ref};
    use crate::resource::TargetReference;

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
            prop_assert_eq!(holds_for_text(API_VERSION, &text), target_ref(&reference).is_ok(), "{:?}", text);
        }

        #[test]
        fn headers_are_judged_alike(name in "[ -~é]{0,3}", value in "[ -~é\\t\\n\\r\\x00\\x7f]{0,3}") {
            let schema = json!({"type": "object", "additionalProperties": {"type": "string"}});
            let given = json!({ &name: &value });
            let accepted = holds(HEADER_NAMES, schema.clone(), &given) && holds(HEADER_VALUES, schema, &given);
            prop_assert_eq!(accepted, headers(&[(name, value)].into()).is_ok());
        }
    }
}
