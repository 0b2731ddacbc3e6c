//! The files, and where their content comes from.

use anyhow::Result;
use kube::CustomResourceExt;
use llmscaler_api::LLMScaler;
use serde_json::Value;

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
    let mut crd = serde_json::to_value(LLMScaler::crd())?;
    shorten_numbers(&mut crd);
    Ok(format!("{HEADER}---\n{}", serde_saphyr::to_string(&crd)?))
}

/// Writes 0.0 as 0: bounds of a schema are floats, whatever they bound.
fn shorten_numbers(value: &mut Value) {
    match value {
        Value::Object(members) => members.values_mut().for_each(shorten_numbers),
        Value::Array(items) => items.iter_mut().for_each(shorten_numbers),
        Value::Number(number) => {
            if let Some(whole) = number.as_f64().filter(|x| number.is_f64() && x.fract() == 0.0 && x.abs() < 1e15) {
                *value = Value::from(whole as i64);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_yaml_of_the_crd_reads_back_as_the_crd() {
        let read: k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition =
            serde_saphyr::from_str(&crd().unwrap()).unwrap();
        assert_eq!(read, LLMScaler::crd());
    }
}
