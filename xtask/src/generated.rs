//! The files, and where their content comes from.

use anyhow::Result;

/// A file that is derived from code.
pub struct File {
    /// Path from the root of the repository.
    pub path: &'static str,
    /// Its content, the same on every run.
    pub content: fn() -> Result<String>,
}

/// Every file that is derived from code.
pub const FILES: &[File] = &[File { path: "config/crd/bases/autoscaling.modelsphere.dev_llmscalers.yaml", content: crd }];

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
