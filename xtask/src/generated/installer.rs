//! dist/install.yaml: what `kubectl apply -k config/default` installs, for those who have no checkout.

use anyhow::{Context, Result};

use super::{crd, roles};
use crate::in_repository;

const NAMESPACE: &str = "llmscaleoperator-system";

const HEADER: &str = "\
# Generated from config by `cargo run -p xtask -- generate`; do not edit.
# kubectl apply --server-side -f install.yaml
";

/// Everything, the namespace first. An object's own comments go along.
pub fn yaml() -> Result<String> {
    let hand_written = |path: &str| {
        let path = in_repository(&format!("config/{path}.yaml"));
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    };
    let documents = [
        hand_written("manager/namespace")?,
        crd()?.replace("---\n", ""),
        hand_written("rbac/service_account")?,
        roles::manager(),
        hand_written("rbac/role_binding")?,
        roles::leader_election_in(NAMESPACE),
        hand_written("rbac/leader_election_role_binding")?,
        roles::metrics_auth(),
        hand_written("rbac/metrics_auth_role_binding")?,
        hand_written("rbac/metrics_reader_role")?,
        roles::admin(),
        roles::editor(),
        roles::viewer(),
        hand_written("manager/manager")?,
        hand_written("manager/metrics_service")?,
    ];
    // That a part of it is generated is said once, at the top.
    let is_header = |line: &str| line.starts_with("# Generated from ");
    let documents = documents.map(|text| text.lines().filter(|line| !is_header(line)).map(|line| format!("{line}\n")).collect::<String>());
    Ok(format!("{HEADER}---\n{}", documents.join("---\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_but_the_crd_carries_the_label_by_which_it_is_removed() {
        let documents: Vec<serde_json::Value> = serde_saphyr::from_multiple(&yaml().unwrap()).unwrap();
        assert_eq!(documents.len(), 15);
        for object in documents {
            let label = &object["metadata"]["labels"]["app.kubernetes.io/name"];
            assert_eq!(label == "llmscaleoperator", object["kind"] != "CustomResourceDefinition", "{object}");
        }
    }
}
