//! The roles of config/rbac and of the chart, from the [table](super::rules).

use super::rules::{Role, as_yaml};

const HEADER: &str = "# Generated from xtask/src/generated/rules.rs by `cargo run -p xtask -- generate`; do not edit.\n";

/// The label by which `make undeploy` finds what `make deploy` has made.
const LABELS: &str = "  labels:\n    app.kubernetes.io/name: llmscaleoperator\n";

const LEADER_ELECTION: &str = "llmscaler-leader-election";

/// config/rbac/role.yaml
pub fn manager() -> String {
    let what = "What the operator may do: read what it decides on, write sizes through the scale subresource, mark pods, report.";
    role(what, "ClusterRole", "llmscaler-manager", &[Role::Scaling, Role::Credentials])
}

/// config/rbac/leader_election_role.yaml
pub fn leader_election() -> String {
    let what = "In the operator's own namespace: the Lease by which its replicas agree on which one acts.";
    role(what, "Role", LEADER_ELECTION, &[Role::LeaderElection])
}

/// The same as dist/install.yaml has it, where no kustomization adds the namespace.
pub fn leader_election_in(namespace: &str) -> String {
    let name = format!("  name: {LEADER_ELECTION}\n");
    leader_election().replace(&name, &format!("{name}  namespace: {namespace}\n"))
}

/// config/rbac/metrics_auth_role.yaml
pub fn metrics_auth() -> String {
    let what = "Secure metrics: who scrapes is authenticated and authorised by the API server.";
    role(what, "ClusterRole", "llmscaler-metrics-auth", &[Role::MetricsAuth])
}

/// config/rbac/external_metrics_role.yaml
pub fn external_metrics() -> String {
    let what =
        "For --external-metrics-bind-address alone; beside it kube-system's Role extension-apiserver-authentication-reader is bound.";
    role(what, "ClusterRole", "llmscaler-external-metrics", &[Role::ExternalMetrics])
}

fn role(what: &str, kind: &str, name: &str, roles: &[Role]) -> String {
    format!(
        "{HEADER}# {what}\napiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata:\n  name: {name}\n{LABELS}rules:\n{}",
        as_yaml(roles, 2)
    )
}

/// dist/chart/templates/_rules.tpl: a template of rules for each role.
pub fn templates() -> String {
    let mut text = format!("{{{{/*\n{}*/}}}}\n", HEADER.trim_start_matches("# "));
    for (name, role) in [
        ("scaling", Role::Scaling),
        ("credentials", Role::Credentials),
        ("leader-election", Role::LeaderElection),
        ("metrics-auth", Role::MetricsAuth),
        ("external-metrics", Role::ExternalMetrics),
    ] {
        text += &format!("\n{{{{- define \"llmscaleoperator.rules.{name}\" -}}}}\n{}{{{{- end }}}}\n", as_yaml(&[role], 0));
    }
    for (who, verbs) in PEOPLE {
        text += &format!("\n{{{{- define \"llmscaleoperator.rules.{who}\" -}}}}\n{}{{{{- end }}}}\n", of_people(verbs, 0));
    }
    text
}

/// What people may do with scalers.
const PEOPLE: [(&str, &str); 3] =
    [("admin", "\"*\""), ("editor", "create, delete, get, list, patch, update, watch"), ("viewer", "get, list, watch")];

fn of_people(verbs: &str, indent: usize) -> String {
    let pad = " ".repeat(indent);
    let rule = |resource: &str, verbs: &str| {
        format!("{pad}- apiGroups: [autoscaling.modelsphere.dev]\n{pad}  resources: [{resource}]\n{pad}  verbs: [{verbs}]\n")
    };
    rule("llmscalers", verbs) + &rule("llmscalers/status", "get")
}

/// config/rbac/llmscaler_admin_role.yaml and its like.
fn people(which: usize, aggregated: &str) -> String {
    let (who, verbs) = PEOPLE[which];
    let what = format!("For people: it is added to the cluster's own role `{aggregated}`.");
    format!(
        "{HEADER}# {what}\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: llmscaler-{who}\n{LABELS}    \
         rbac.authorization.k8s.io/aggregate-to-{aggregated}: \"true\"\nrules:\n{}",
        of_people(verbs, 2)
    )
}

/// config/rbac/llmscaler_admin_role.yaml
pub fn admin() -> String {
    people(0, "admin")
}

/// config/rbac/llmscaler_editor_role.yaml
pub fn editor() -> String {
    people(1, "edit")
}

/// config/rbac/llmscaler_viewer_role.yaml
pub fn viewer() -> String {
    people(2, "view")
}
