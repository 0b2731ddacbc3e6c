//! What the operator's service account has to be allowed.

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use llmscaler_api::{Access, CaReference, Provider, Scaler};

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
}

/// Everything that the operator does for this scaler, whose target is of the resource `plural`.
pub fn needs(scaler: &Scaler, plural: &str, has_scale: bool) -> Vec<Need> {
    const OURS: &str = "autoscaling.modelsphere.dev";
    let read = ["get", "list", "watch"];
    let mut needs = vec![];
    let mut add = |group: &str, resource: &str, verbs: &[&'static str]| {
        needs.extend(verbs.iter().map(|&verb| Need { group: group.to_owned(), resource: resource.to_owned(), verb }));
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
    needs
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
                namespace: Some(namespace.to_owned()),
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
            Finding::problem(CHECK, found, "add it to the operator's role: config/rbac/role.yaml has what it takes for the usual targets")
        }
    }
}

fn in_words(need: &Need) -> String {
    let group = if need.group.is_empty() { String::new() } else { format!(".{}", need.group) };
    let (resource, subresource) = need.resource.split_once('/').unwrap_or((&need.resource, ""));
    let slash = if subresource.is_empty() { "" } else { "/" };
    format!("{} {resource}{group}{slash}{subresource}", need.verb)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::rbac::v1::ClusterRole;
    use llmscaler_api::parse_json;
    use serde_json::json;

    use super::*;
    use crate::doctor::finding::Severity;

    fn scaler() -> Scaler {
        let key = json!({"name": "x", "key": "y"});
        let spec = json!({"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}, "minReplicas": 1, "maxReplicas": 8,
            "metricProvider": "Scrape", "preset": {"name": "vLLM"}, "metrics": [{"signal": "queuedRequests", "target": "5"}],
            "scrape": {"eppService": {"name": "epp"}}, "serverTLS": {"caFrom": {"configMapKeyRef": key}},
            "serverHeadersFrom": [{"name": "Authorization", "secretKeyRef": key}]});
        parse_json(json!({"apiVersion": "autoscaling.modelsphere.dev/v1alpha1", "kind": "LLMScaler",
            "metadata": {"name": "x", "namespace": "serving"}, "spec": spec}))
        .unwrap()
        .parse()
        .unwrap()
    }

    #[test]
    fn the_role_grants_all_that_is_needed() {
        let role = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/rbac/role.yaml")).unwrap();
        let role: ClusterRole = serde_saphyr::from_str(&role).unwrap();
        let needs = needs(&scaler(), "deployments", true);
        assert!(needs.len() > 15, "{needs:?}");
        for need in needs {
            let granted = role.rules.iter().flatten().any(|rule| {
                let has = |list: &Option<Vec<String>>, what: &str| list.iter().flatten().any(|one| one == what);
                has(&rule.api_groups, &need.group)
                    && has(&rule.resources, &need.resource)
                    && rule.verbs.iter().any(|verb| verb == need.verb)
            });
            assert!(granted, "{need:?}");
        }
    }

    #[test]
    fn what_is_denied_is_named() {
        let account = ("system".to_owned(), "scaler".to_owned());
        let denied = needs(&scaler(), "deployments", true).into_iter().filter(|need| need.resource == "deployments/scale").collect();
        let finding = check(Some(&account), &Ok(denied));
        assert_eq!(finding.severity, Severity::Problem);
        assert_eq!(finding.found, "service account system/scaler may not get deployments.apps/scale, nor patch deployments.apps/scale");
        assert_eq!(check(Some(&account), &Ok(vec![])).severity, Severity::Ok);
        assert_eq!(check(None, &Ok(vec![])).severity, Severity::Note);
    }

    #[test]
    fn a_subresource_is_asked_for_as_one() {
        let need = Need { group: "apps".to_owned(), resource: "deployments/scale".to_owned(), verb: "patch" };
        let spec = review(&need, "serving", &("system".to_owned(), "scaler".to_owned())).spec;
        assert_eq!(spec.user.as_deref(), Some("system:serviceaccount:system:scaler"));
        let asked = spec.resource_attributes.unwrap();
        assert_eq!((asked.resource.as_deref(), asked.subresource.as_deref()), (Some("deployments"), Some("scale")));
    }
}
