//! What the operator may do in a cluster: one table, from which config/rbac and the chart have their roles.

use Role::{ExternalMetrics, LeaderElection, MetricsAuth, Scaling};

/// What of the operator takes a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// What scalers need, in each namespace that has some.
    Scaling,
    /// `serverHeadersFrom` and `serverTLS`, in the namespaces of scalers that use them.
    Credentials,
    /// `--leader-elect`, in the operator's own namespace.
    LeaderElection,
    /// `--metrics-secure`, in the whole cluster.
    MetricsAuth,
    /// `--external-metrics-bind-address`, in the whole cluster.
    ExternalMetrics,
}

/// What a role allows, and what for.
#[derive(Debug)]
pub struct Rule {
    /// The role that it is in.
    pub role: Role,
    /// A sentence for whoever reads the role.
    pub reason: &'static str,
    /// The API group; the core group is empty.
    pub group: &'static str,
    /// With their subresources.
    pub resources: &'static [&'static str],
    /// The only objects; none is every one.
    pub names: &'static [&'static str],
    /// What may be done.
    pub verbs: &'static [&'static str],
}

const fn rule(
    role: Role,
    reason: &'static str,
    group: &'static str,
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
) -> Rule {
    Rule { role, reason, group, resources, names: &[], verbs }
}

const READ: &[&str] = &["get", "list", "watch"];
const LEASE: &[&str] = &["0abb3156.modelsphere.dev"];
const API_SERVICE: &[&str] = &["v1beta1.external.metrics.k8s.io"];
const LEADER_WORKER_SETS: &str = "leaderworkerset.x-k8s.io";

/// Every rule, in the order in which roles list them.
pub const RULES: &[Rule] = &[
    rule(Scaling, "The scalers.", "autoscaling.modelsphere.dev", &["llmscalers"], READ),
    rule(Scaling, "What it reports in them.", "autoscaling.modelsphere.dev", &["llmscalers/status"], &["get", "patch"]),
    rule(Scaling, "Targets, and how far their rollouts are.", "apps", &["deployments", "statefulsets"], READ),
    rule(Scaling, "The size of a target, and nothing else of it.", "apps", &["deployments/scale", "statefulsets/scale"], &["get", "patch"]),
    rule(Scaling, "Which pods are of a Deployment's newest revision.", "apps", &["replicasets"], READ),
    rule(Scaling, "Targets of several pods a replica.", LEADER_WORKER_SETS, &["leaderworkersets"], READ),
    rule(Scaling, "Their size.", LEADER_WORKER_SETS, &["leaderworkersets/scale"], &["get", "patch"]),
    rule(
        Scaling,
        "Which pods start, serve, drain; patch is for the deletion-cost annotation of those that a scale-down removes.",
        "",
        &["pods"],
        &["get", "list", "watch", "patch"],
    ),
    rule(Scaling, "The Service of an endpoint picker (scrape.eppService).", "", &["services"], &["get"]),
    rule(Scaling, "Other autoscalers: nobody's target is scaled twice.", "autoscaling", &["horizontalpodautoscalers"], READ),
    rule(Scaling, "KEDA's, for the same reason.", "keda.sh", &["scaledobjects"], READ),
    rule(Scaling, "An event for each change of size and of a condition.", "events.k8s.io", &["events"], &["create"]),
    rule(
        Role::Credentials,
        "Header values and certificates that scalers refer to (serverHeadersFrom, serverTLS), by name and never listed.",
        "",
        &["secrets", "configmaps"],
        &["get"],
    ),
    rule(LeaderElection, "A lease that does not exist yet has no name to be allowed by.", "coordination.k8s.io", &["leases"], &["create"]),
    Rule {
        role: LeaderElection,
        reason: "The lease by which the operator's replicas agree on which one acts.",
        group: "coordination.k8s.io",
        resources: &["leases"],
        names: LEASE,
        verbs: &["get", "update"],
    },
    rule(MetricsAuth, "Who scrapes.", "authentication.k8s.io", &["tokenreviews"], &["create"]),
    rule(MetricsAuth, "Whether they may.", "authorization.k8s.io", &["subjectaccessreviews"], &["create"]),
    rule(ExternalMetrics, "Whether who reads a metric may.", "authorization.k8s.io", &["subjectaccessreviews"], &["create"]),
    Rule {
        role: ExternalMetrics,
        reason: "The API's entry in the aggregation layer: made where nobody has it, and its authority renewed. Applying has a name, even to create.",
        group: "apiregistration.k8s.io",
        resources: &["apiservices"],
        names: API_SERVICE,
        verbs: &["get", "create", "patch"],
    },
    rule(
        ExternalMetrics,
        "The HPA of a scaler with actuation HorizontalPodAutoscaler.",
        "autoscaling",
        &["horizontalpodautoscalers"],
        &["create", "patch", "delete"],
    ),
];

/// The rules of these roles as the items of a YAML list, each below its reason, indented by so many spaces.
pub fn as_yaml(roles: &[Role], indent: usize) -> String {
    let mut text = String::new();
    let pad = " ".repeat(indent);
    for Rule { reason, group, resources, names, verbs, .. } in RULES.iter().filter(|rule| roles.contains(&rule.role)) {
        let group = if group.is_empty() { "\"\"" } else { group };
        text += &format!("{pad}# {reason}\n{pad}- apiGroups: [{group}]\n{pad}  resources: [{}]\n", resources.join(", "));
        if !names.is_empty() {
            text += &format!("{pad}  resourceNames: [{}]\n", names.join(", "));
        }
        text += &format!("{pad}  verbs: [{}]\n", verbs.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rule_is_for_everything_and_credentials_are_never_listed() {
        for rule in RULES {
            let lists = [rule.resources, rule.verbs, &[rule.group]];
            assert!(lists.iter().all(|list| !list.is_empty() && !list.iter().any(|word| word.contains('*'))), "{rule:?}");
            if rule.resources.contains(&"secrets") {
                assert_eq!((rule.role, rule.verbs), (Role::Credentials, &["get"][..]));
            }
        }
    }

    #[test]
    fn a_rule_as_yaml() {
        let yaml = as_yaml(&[LeaderElection], 2);
        assert!(yaml.ends_with(
            "  # The lease by which the operator's replicas agree on which one acts.\n  - apiGroups: [coordination.k8s.io]\n    \
             resources: [leases]\n    resourceNames: [0abb3156.modelsphere.dev]\n    verbs: [get, update]\n"
        ));
        assert!(as_yaml(&[Scaling], 0).contains("- apiGroups: [\"\"]\n  resources: [pods]\n"));
    }
}
