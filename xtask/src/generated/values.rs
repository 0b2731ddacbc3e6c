//! docs/chart-values.md, from the schema by which Helm checks the chart's values.

use std::fmt::Write;

use anyhow::{Context, Result};
use serde_json::{Map, Value};

use crate::in_repository;

const SCHEMA: &str = "dist/chart/values.schema.json";

const HEAD: &str = "\
<!-- Generated from dist/chart/values.schema.json by `cargo run -p xtask -- generate`; do not edit. -->
# Values of the chart

Helm refuses every key that is not in this table, and values of another type. What they are for, and which belong together, is told in
[install.md](install.md).

| value | default | meaning |
|---|---|---|
";

/// The page.
pub fn page() -> Result<String> {
    let mut text = HEAD.to_owned();
    for (path, leaf) in leaves()? {
        let default = serde_json::to_string(leaf.get("default").unwrap_or(&Value::Null))?;
        let meaning = leaf.get("description").and_then(Value::as_str).unwrap_or_default();
        writeln!(text, "| `{path}` | `{default}` | {meaning} |")?;
    }
    Ok(text)
}

/// What the schema says of each value, and the value's path.
fn leaves() -> Result<Vec<(String, Map<String, Value>)>> {
    let schema = std::fs::read_to_string(in_repository(SCHEMA)).with_context(|| format!("reading {SCHEMA}"))?;
    let mut leaves = vec![];
    collect("", serde_json::from_str(&schema)?, &mut leaves);
    Ok(leaves)
}

fn collect(path: &str, mut schema: Map<String, Value>, leaves: &mut Vec<(String, Map<String, Value>)>) {
    let Some(Value::Object(properties)) = schema.remove("properties") else {
        leaves.push((path.to_owned(), schema));
        return;
    };
    for (name, property) in properties {
        let path = if path.is_empty() { name } else { format!("{path}.{name}") };
        if let Value::Object(property) = property {
            collect(&path, property, leaves);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paths and defaults of values.yaml, whose tables that the schema leaves open are values themselves.
    fn flatten(path: &str, values: &Value, known: &[String], into: &mut Vec<(String, Value)>) {
        match values {
            Value::Object(table) if !known.iter().any(|leaf| leaf == path) => {
                for (name, value) in table {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    flatten(&path, value, known, into);
                }
            }
            value => into.push((path.to_owned(), value.clone())),
        }
    }

    #[test]
    fn the_schema_and_the_values_have_the_same_keys_and_defaults() {
        let mut schema: Vec<(String, Value)> =
            leaves().unwrap().into_iter().map(|(path, leaf)| (path, leaf.get("default").cloned().unwrap_or_default())).collect();
        // A parent chart's, which is in no values.yaml.
        schema.retain(|(path, _)| path != "global");
        let known: Vec<String> = schema.iter().map(|(path, _)| path.clone()).collect();
        let text = std::fs::read_to_string(in_repository("dist/chart/values.yaml")).unwrap();
        let mut values = vec![];
        flatten("", &serde_saphyr::from_str(&text).unwrap(), &known, &mut values);
        schema.sort_by(|one, other| one.0.cmp(&other.0));
        values.sort_by(|one, other| one.0.cmp(&other.0));
        assert!(values.len() > 50, "{}", values.len());
        assert_eq!(schema, values);
    }

    #[test]
    fn every_value_is_explained_and_every_table_is_closed_or_a_value() {
        for (path, leaf) in leaves().unwrap() {
            assert!(leaf.get("description").is_some_and(|text| !text.as_str().unwrap().contains('|')), "{path}");
        }
        let schema = std::fs::read_to_string(in_repository(SCHEMA)).unwrap();
        assert_eq!(schema.matches("\"properties\"").count(), schema.matches("\"additionalProperties\": false").count());
    }

    #[test]
    fn the_chart_the_installer_and_the_workspace_have_the_same_version() {
        let read = |path: &str| std::fs::read_to_string(in_repository(path)).unwrap();
        let version = env!("CARGO_PKG_VERSION");
        assert!(read("dist/chart/Chart.yaml").contains(&format!("\nappVersion: \"{version}\"\n")));
        assert!(read("config/manager/manager.yaml").contains(&format!("image: 4pdosc/llm-operator:{version}\n")));
    }
}
