//! What the operator's service account has to be allowed.

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use llmscaler_api::{Access, Actuation, CaReference, Provider, Scaler};
use llmscaler_operator::diagnose::API_SERVICE;

use super::finding::Finding;
use super::gather::Fact;

const CHECK: &str = "rights";

/// One thing that the operator does for a scaler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    pub group: String,
    /// With its subresource.
    pub resource: String,
    pub verb: &'static str,
    /// The only object; `None` is every one.
    pub name: Option<&'static str>,
    pub place: Place,
}

/// Where something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the namespace of the scaler.
    Scaler,
    /// In `kube-system`.
    System,
    /// In the cluster as a whole.
    Cluster,
}

/// How the aggregation layer shows itself: a ConfigMap of `kube-system`.
const AGGREGATOR: &str = "extension-apiserver-authentication";
/// Roles that grant what a scaler takes.
const ROLE: &str = "config/rbac/role.yaml has what it takes for the usual targets";
const ROLE_OF_EXTERNAL_METRICS: &str = "with actuation HorizontalPodAutoscaler also what config/rbac/external_metrics_role.yaml has, and in \
                                        kube-system Role extension-apiserver-authentication-reader; externalMetrics.enabled in the chart adds \
                                        them all";

/// Everything that the operator does for this scaler, whose target is of the resource `plural`.
pub fn needs(scaler: &Scaler, plural: &str, has_scale: bool) -> Vec<Need> {
    const OURS: &str = "autoscaling.modelsphere.dev";
    let read = ["get", "list", "watch"];
    let mut needs = vec![];
    let mut add = |group: &str, resource: &str, verbs: &[&'static str]| {
        let place = Place::Scaler;
        needs.extend(verbs.iter().map(|&verb| Need { group: group.to_owned(), resource: resource.to_owned(), verb, name: None, place }));
    };
    add(OURS, "llmscalers", &read);
    add(OURS, "llmscalers/status", &["patch"]);
    add(&scaler.target.group, plural, &read);
    if has_scale {
        add(&scaler.target.group, &format!("{plural}/scale"), &["get", "patch"]);
    } else {
        add(&scaler.target.group, plural, &["patch"]);
    }
    add("apps", "replicasets", &read);
    add("", "pods", &["get", "list", "watch", "patch"]);
    add("events.k8s.io", "events", &["create"]);
    // Without these it would not see who else scales the target.
    add("autoscaling", "horizontalpodautoscalers", &read);
    add("keda.sh", "scaledobjects", &read);
    let access = match &scaler.provider {
        Provider::Prometheus(server) | Provider::DecisionServer(server) => &server.access,
        Provider::Scrape { access, .. } => access,
    };
    let (secrets, maps) = referred(access);
    if secrets {
        add("", "secrets", &["get"]);
    }
    if maps {
        add("", "configmaps", &["get"]);
    }
    if matches!(&scaler.provider, Provider::Scrape { scrape, .. } if scrape.router.is_some()) {
        add("", "services", &["get"]);
    }
    if scaler.actuation == Actuation::HorizontalPodAutoscaler {
        needs.extend(of_external_metrics());
    }
    needs
}

/// What it takes to have an HPA scale.
fn of_external_metrics() -> Vec<Need> {
    let need =
        |group: &str, resource: &str, verb, name, place| Need { group: group.to_owned(), resource: resource.to_owned(), verb, name, place };
    let hpas = ["create", "patch", "delete"].map(|verb| need("autoscaling", "horizontalpodautoscalers", verb, None, Place::Scaler));
    let entry = ["get", "create", "patch"];
    let entry = entry.map(|verb| need("apiregistration.k8s.io", "apiservices", verb, Some(API_SERVICE), Place::Cluster));
    let readers = need("authorization.k8s.io", "subjectaccessreviews", "create", None, Place::Cluster);
    let aggregator = need("", "configmaps", "get", Some(AGGREGATOR), Place::System);
    hpas.into_iter().chain(entry).chain([readers, aggregator]).collect()
}

/// Whether the scaler refers to Secrets, and whether to ConfigMaps.
fn referred(access: &Access) -> (bool, bool) {
    let ca = access.tls.ca.as_ref();
    let secrets =
        !access.secret_headers.is_empty() || access.tls.client_certificate_secret.is_some() || matches!(ca, Some(CaReference::Secret(_)));
    (secrets, matches!(ca, Some(CaReference::ConfigMap(_))))
}

/// The question whether a service account may do this.
pub fn review(need: &Need, namespace: &str, account: &(String, String)) -> SubjectAccessReview {
    let (resource, subresource) = match need.resource.split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
        None => (need.resource.as_str(), None),
    };
    let (home, name) = account;
    let groups = ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{home}"), "system:authenticated".to_owned()];
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(format!("system:serviceaccount:{home}:{name}")),
            groups: Some(groups.to_vec()),
            resource_attributes: Some(ResourceAttributes {
                group: Some(need.group.clone()),
                resource: Some(resource.to_owned()),
                subresource,
                verb: Some(need.verb.to_owned()),
                name: need.name.map(str::to_owned),
                namespace: match need.place {
                    Place::Scaler => Some(namespace.to_owned()),
                    Place::System => Some("kube-system".to_owned()),
                    Place::Cluster => None,
                },
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

/// `denied` are the needs that are not met; `account` is nobody where the operator's service account is not known.
pub fn check(account: Option<&(String, String)>, denied: &Fact<Vec<Need>>) -> Finding {
    let Some((home, name)) = account else {
        let advice = "name its service account to have its rights checked: --operator-account NAMESPACE/NAME";
        return Finding::note(CHECK, "as whom the operator runs is not known, so its rights were not checked", advice);
    };
    match denied {
        Err(why) => Finding::unseen(CHECK, "the rights of the operator", why),
        Ok(denied) if denied.is_empty() => Finding::ok(CHECK, format!("service account {home}/{name} may do all that this scaler takes")),
        Ok(denied) => {
            let mut list: Vec<String> = denied.iter().map(in_words).collect();
            list.dedup();
            let found = format!("service account {home}/{name} may not {}", list.join(", nor "));
            let of_external_metrics = of_external_metrics();
            let more = if denied.iter().any(|need| of_external_metrics.contains(need)) { ROLE_OF_EXTERNAL_METRICS } else { "" };
            let semicolon = if more.is_empty() { "" } else { "; " };
            Finding::problem(CHECK, found, format!("add it to the operator's role: {ROLE}{semicolon}{more}"))
        }
    }
}

fn in_words(need: &Need) -> String {
    let group = if need.group.is_empty() { String::new() } else { format!(".{}", need.group) };
    let (resource, subresource) = need.resource.split_once('/').unwrap_or((&need.resource, ""));
    let slash = if subresource.is_empty() { "" } else { "/" };
    let name = need.name.map(|name| format!(" {name}")).unwrap_or_default();
    format!("{} {resource}{group}{slash}{subresource}{name}", need.verb)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
    use llmscaler_api::parse_json;
    use serde_json::json;

    use super::*;
    use crate::doctor::finding::Severity;

    fn scaler(actuation: &str) -> Scaler {
        let key = json!({"name": "x", "key": "y"});
        let spec = json!({"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}, "minReplicas": 1, "maxReplicas": 8,
            "metricProvider": "Scrape", "preset": {"name": "vLLM"}, "metrics": [{"signal": "queuedRequests", "target": "5"}],
            "scrape": {"eppService": {"name": "epp"}}, "serverTLS": {"caFrom": {"configMapKeyRef": key}}, "actuation": actuation,
            "serverHeadersFrom": [{"name": "Authorization", "secretKeyRef": key}]});
        parse_json(json!({"apiVersion": "autoscaling.modelsphere.dev/v1alpha1", "kind": "LLMScaler",
            "metadata": {"name": "x", "namespace": "serving"}, "spec": spec}))
        .unwrap()
        .parse()
        .unwrap()
    }

    /// What none of these roles of config/rbac grants.
    fn missing(needs: &[Need], roles: &[&str]) -> Vec<String> {
        let rules: Vec<PolicyRule> = roles
            .iter()
            .flat_map(|file| {
                let role = std::fs::read_to_string(format!("{}/../../config/rbac/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap();
                serde_saphyr::from_str::<ClusterRole>(&role).unwrap().rules.unwrap()
            })
            .collect();
        let granted = |need: &&Need| {
            rules.iter().any(|rule| {
                let has = |list: &Option<Vec<String>>, what: &str| list.iter().flatten().any(|one| one == what);
                let named = rule.resource_names.is_none() || need.name.is_some_and(|name| has(&rule.resource_names, name));
                named
                    && has(&rule.api_groups, &need.group)
                    && has(&rule.resources, &need.resource)
                    && rule.verbs.iter().any(|verb| verb == need.verb)
            })
        };
        needs.iter().filter(|need| !granted(need)).map(in_words).collect()
    }

    #[test]
    fn the_roles_grant_all_that_is_needed_and_nothing_less_would() {
        let direct = needs(&scaler("Direct"), "deployments", true);
        assert!(direct.len() > 15, "{direct:?}");
        assert_eq!(missing(&direct, &["role.yaml"]), [""; 0]);
        // A role of the cluster's own has the last one; ours are bound in the namespaces of scalers, or everywhere.
        let mut by_hpa = needs(&scaler("HorizontalPodAutoscaler"), "deployments", true);
        by_hpa.retain(|need| need.place != Place::System);
        assert_eq!(by_hpa.len(), direct.len() + 7);
        assert_eq!(missing(&by_hpa, &["role.yaml", "external_metrics_role.yaml"]), [""; 0]);
        let without = missing(&by_hpa, &["role.yaml"]);
        assert!(without.contains(&"delete horizontalpodautoscalers.autoscaling".to_owned()), "{without:?}");
        assert!(without.contains(&"patch apiservices.apiregistration.k8s.io v1beta1.external.metrics.k8s.io".to_owned()), "{without:?}");
    }

    #[test]
    fn what_an_hpa_takes_is_asked_for_where_it_is_done() {
        let account = ("system".to_owned(), "scaler".to_owned());
        let asked = |need: &Need| review(need, "serving", &account).spec.resource_attributes.unwrap();
        let needs = of_external_metrics();
        let of = |resource: &str| asked(needs.iter().find(|need| need.resource == resource).unwrap());
        assert_eq!(of("horizontalpodautoscalers").namespace.as_deref(), Some("serving"));
        assert_eq!((of("apiservices").namespace, of("apiservices").name.as_deref()), (None, Some(API_SERVICE)));
        let map = of("configmaps");
        assert_eq!((map.namespace.as_deref(), map.name.as_deref()), (Some("kube-system"), Some("extension-apiserver-authentication")));
        let advice = check(Some(&account), &Ok(needs)).advice.unwrap();
        assert!(advice.contains("external_metrics_role.yaml") && advice.contains("extension-apiserver-authentication-reader"), "{advice}");
    }

    #[test]
    fn what_is_denied_is_named() {
        let account = ("system".to_owned(), "scaler".to_owned());
        let denied =
            needs(&scaler("Direct"), "deployments", true).into_iter().filter(|need| need.resource == "deployments/scale").collect();
        let finding = check(Some(&account), &Ok(denied));
        assert_eq!(finding.severity, Severity::Problem);
        assert_eq!(finding.found, "service account system/scaler may not get deployments.apps/scale, nor patch deployments.apps/scale");
        assert_eq!(check(Some(&account), &Ok(vec![])).severity, Severity::Ok);
        assert_eq!(check(None, &Ok(vec![])).severity, Severity::Note);
    }

    #[test]
    fn a_subresource_is_asked_for_as_one() {
        let need =
            Need { group: "apps".to_owned(), resource: "deployments/scale".to_owned(), verb: "patch", name: None, place: Place::Scaler };
        let spec = review(&need, "serving", &("system".to_owned(), "scaler".to_owned())).spec;
        assert_eq!(spec.user.as_deref(), Some("system:serviceaccount:system:scaler"));
        let asked = spec.resource_attributes.unwrap();
        assert_eq!((asked.resource.as_deref(), asked.subresource.as_deref()), (Some("deployments"), Some("scale")));
    }
}
