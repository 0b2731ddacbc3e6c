//! docs/reference.md, from the schema of the resource: every field, what it takes, and what is refused with which words.

use std::fmt::Write;

use anyhow::{Context, Result};
use serde_json::{Map, Value};

const HEAD: &str = "\
<!-- Generated from crates/api by `cargo run -p xtask -- generate`; do not edit. -->
# Reference of LLMScaler

`autoscaling.modelsphere.dev/v1alpha1`, kind `LLMScaler`, short name `llms`, in a namespace. `kubectl explain llms.spec` has the same
descriptions, and [conditions.md](conditions.md) what the conditions mean.

Numbers in quotes are strings in YAML: `target: \"0.8\"`. A field that is not in these tables is refused by `kubectl apply` with its
strict validation, and by `llmscaler decide`. *Refused* lists the rules that the API server checks with CEL: the words with which it
refuses an object, and the rule itself, in which `self` is the field.
";

/// The page.
pub fn page() -> Result<String> {
    let definition = llmscaler_api::definition()?;
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    let mut text = HEAD.to_owned();
    for part in ["spec", "status"] {
        section(&mut text, part, &schema[part], 2).with_context(|| format!("writing the reference of {part}"))?;
    }
    Ok(text)
}

/// An object: its fields, what is refused, and then the objects in it.
fn section(text: &mut String, path: &str, schema: &Value, depth: usize) -> Result<()> {
    let fields = schema["properties"].as_object().with_context(|| format!("{path} has no fields"))?;
    write!(text, "\n{} {path}\n\n{}\n\n", "#".repeat(depth), description(schema))?;
    text.push_str("| field | type | default | meaning |\n|---|---|---|---|\n");
    for (name, field) in fields {
        let default = match field.get("default") {
            Some(default) => format!("`{default}`"),
            None if is_required(schema, name) => "**required**".to_owned(),
            None => String::new(),
        };
        writeln!(text, "| `{name}` | {} | {default} | {} |", type_of(path, name, field), meaning(field))?;
    }
    let mut refused = String::new();
    rules(&mut refused, "", schema)?;
    for (name, field) in fields {
        rules(&mut refused, name, field)?;
        if is_leaf(&field["items"]) {
            rules(&mut refused, &format!("{name}[]"), &field["items"])?;
        }
    }
    if !refused.is_empty() {
        write!(text, "\nRefused:\n\n{refused}")?;
    }
    for (name, field) in fields {
        if !is_leaf(field) {
            section(text, &format!("{path}.{name}"), field, 3)?;
        } else if !is_leaf(&field["items"]) {
            section(text, &format!("{path}.{name}[]"), &field["items"], 3)?;
        }
    }
    Ok(())
}

fn is_leaf(schema: &Value) -> bool {
    schema.get("properties").is_none()
}

fn is_required(schema: &Value, name: &str) -> bool {
    schema["required"].as_array().is_some_and(|names| names.iter().any(|required| required == name))
}

/// In one line of Markdown. Kubernetes' own descriptions have two blanks between sentences.
fn description(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|").replace('<', "&lt;")
}

/// The type of a field, with a link to its own table where it has one.
fn type_of(path: &str, name: &str, field: &Value) -> String {
    let link = |word: &str, suffix: &str| {
        // As GitHub and mdBook make anchors of headings.
        let anchor = format!("{path}{name}").replace(['.', '[', ']'], "").to_lowercase();
        format!("[{word}](#{anchor}){suffix}")
    };
    let simple = |schema: &Value| match (schema["format"].as_str(), schema["type"].as_str()) {
        (Some(format @ ("int32" | "int64")), _) => format.to_owned(),
        (Some("date-time"), _) => "time".to_owned(),
        (_, Some(kind)) => kind.to_owned(),
        (_, None) => "integer or string".to_owned(),
    };
    match field["type"].as_str() {
        Some("array") if !is_leaf(&field["items"]) => link("list", ""),
        Some("array") => format!("list of {}", simple(&field["items"])),
        Some("object") if is_leaf(field) => format!("map of {}", simple(&field["additionalProperties"])),
        Some("object") => link("object", ""),
        _ => simple(field),
    }
}

/// What a field means, and the values that its type leaves out.
fn meaning(field: &Value) -> String {
    let mut text = description(field);
    if let Some(values) = field["enum"].as_array() {
        let values: Vec<String> = values.iter().filter_map(Value::as_str).map(|value| format!("`{value}`")).collect();
        let _ = write!(text, " One of {}.", values.join(", "));
    }
    let number = |key: &str| field[key].as_i64();
    if let Some(least) = number("minimum") {
        let _ = write!(text, " At least {least}.");
    }
    // What fits in an int32 is said by the type.
    if let Some(most) = number("maximum").filter(|most| *most != i64::from(i32::MAX)) {
        let _ = write!(text, " At most {most}.");
    }
    for (key, what) in [("maxLength", "characters"), ("maxItems", "items"), ("maxProperties", "entries")] {
        if let Some(most) = number(key) {
            let _ = write!(text, " At most {most} {what}.");
        }
    }
    text.trim_start().to_owned()
}

/// The rules of a field, or of the object itself where it has no name.
fn rules(text: &mut String, name: &str, schema: &Value) -> Result<()> {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        let Some((message, expression)) = words(rule) else { continue };
        let name = if name.is_empty() { String::new() } else { format!("`{name}`: ") };
        writeln!(text, "* {name}{}<br>`` {expression} ``", message.replace('<', "&lt;"))?;
    }
    Ok(())
}

fn words(rule: &Value) -> Option<(&str, String)> {
    let rule: &Map<String, Value> = rule.as_object()?;
    let expression = rule.get("rule")?.as_str()?;
    Some((rule.get("message")?.as_str()?, expression.split_whitespace().collect::<Vec<_>>().join(" ")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Every field of the schema by its name, and every message.
    fn collect(schema: &Value, fields: &mut BTreeSet<String>, messages: &mut BTreeSet<String>) {
        for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
            messages.insert(rule["message"].as_str().unwrap().to_owned());
        }
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            fields.insert(format!("| `{name}` | "));
            collect(field, fields, messages);
        }
        if let Some(items) = schema.get("items") {
            collect(items, fields, messages);
        }
    }

    #[test]
    fn every_field_and_every_rule_is_on_the_page() {
        let (definition, page) = (llmscaler_api::definition().unwrap(), page().unwrap());
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let (mut fields, mut messages) = (BTreeSet::new(), BTreeSet::new());
        for part in ["spec", "status"] {
            collect(&schema["properties"][part], &mut fields, &mut messages);
        }
        assert!(fields.len() > 80 && messages.len() > 40, "{} fields, {} messages", fields.len(), messages.len());
        for found in fields.iter().chain(&messages) {
            assert!(page.contains(found.as_str()), "{found}");
        }
    }

    #[test]
    fn every_row_has_a_type_and_a_meaning() {
        for row in page().unwrap().lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = row.split(" | ").collect();
            assert!(cells.len() == 4 && !cells[1].is_empty() && cells[3].len() > 3, "{row}");
        }
    }

    #[test]
    fn a_field_says_its_range_its_values_and_its_default() {
        let page = page().unwrap();
        let row = |name: &str| page.lines().find(|line| line.starts_with(&format!("| `{name}` |"))).unwrap().to_owned();
        assert!(
            row("minReplicas").contains("| int32 | **required** |") && row("minReplicas").ends_with("At least 0. |"),
            "{}",
            row("minReplicas")
        );
        assert!(row("mode").contains("| `\"Auto\"` |") && row("mode").contains("One of `Auto`, `Recommend`."), "{}", row("mode"));
        assert!(
            row("metrics").contains("| [list](#specmetrics) |") && row("metrics").ends_with("At most 32 items. |"),
            "{}",
            row("metrics")
        );
    }
}
