//! The files, and where their content comes from.

mod alerts;
mod installer;
mod law_pictures;
mod reference;
mod roles;
mod rules;
mod values;

use anyhow::Result;

/// A file that is derived from code.
pub struct File {
    /// Path from the root of the repository.
    pub path: &'static str,
    /// Its content, the same on every run.
    pub content: fn() -> Result<String>,
}

const fn file(path: &'static str, content: fn() -> Result<String>) -> File {
    File { path, content }
}

/// Every file that is derived from code.
pub const FILES: &[File] = &[
    file("config/crd/bases/autoscaling.modelsphere.dev_llmscalers.yaml", crd),
    file("config/prometheus/alerts.yaml", alerts::rule),
    file("config/rbac/role.yaml", || Ok(roles::manager())),
    file("config/rbac/leader_election_role.yaml", || Ok(roles::leader_election())),
    file("config/rbac/metrics_auth_role.yaml", || Ok(roles::metrics_auth())),
    file("config/rbac/external_metrics_role.yaml", || Ok(roles::external_metrics())),
    file("config/rbac/llmscaler_admin_role.yaml", || Ok(roles::admin())),
    file("config/rbac/llmscaler_editor_role.yaml", || Ok(roles::editor())),
    file("config/rbac/llmscaler_viewer_role.yaml", || Ok(roles::viewer())),
    file("dist/chart/files/autoscaling.modelsphere.dev_llmscalers.yaml", crd),
    file("dist/chart/templates/_rules.tpl", || Ok(roles::templates())),
    file("dist/install.yaml", installer::yaml),
    file("docs/chart-values.md", values::page),
    file("docs/reference.md", reference::page),
    file("docs/pictures/law-ratio.svg", law_pictures::ratio),
    file("docs/pictures/law-band.svg", law_pictures::band),
];

const HEADER: &str = "# Generated from crates/api by `cargo run -p xtask -- generate`; do not edit.\n";

fn crd() -> Result<String> {
    Ok(format!("{HEADER}---\n{}", serde_saphyr::to_string(&llmscaler_api::definition()?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_yaml_of_the_crd_reads_back_as_the_crd() {
        let read: serde_json::Value = serde_saphyr::from_str(&crd().unwrap()).unwrap();
        assert_eq!(read, llmscaler_api::definition().unwrap());
    }
}
