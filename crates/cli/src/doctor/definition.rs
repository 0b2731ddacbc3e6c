//! Whether the resource is installed, and as this version knows it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::finding::Finding;
use super::gather::Fact;

const CHECK: &str = "definition";
const INSTALL: &str = "llmscaler crd | kubectl apply --server-side -f -";
/// How many fields a finding names.
const MOST_NAMED: usize = 4;

/// `installed` is the definition that the API server has, `None` where there is none, and `ours` is that of this binary.
pub fn check(installed: &Fact<Option<Value>>, ours: &Value) -> Vec<Finding> {
    let installed = match installed {
        Err(why) => return vec![Finding::unseen(CHECK, "the definition of LLMScaler", why)],
        Ok(None) => return vec![Finding::problem(CHECK, "the LLMScaler resource is not installed", INSTALL)],
        Ok(Some(installed)) => installed,
    };
    let version = ours.pointer("/spec/versions/0/name").and_then(Value::as_str).unwrap_or_default();
    let Some(served) = versions(installed).find(|one| one["name"] == version) else {
        return vec![Finding::problem(CHECK, format!("the API server does not know version {version} of LLMScaler"), INSTALL)];
    };
    if served["served"] != true {
        return vec![Finding::problem(CHECK, format!("version {version} of LLMScaler is not served"), INSTALL)];
    }
    let mut findings: Vec<Finding> = refusals(installed).collect();
    let (theirs, known) = (fields(served), versions(ours).next().map(fields).unwrap_or_default());
    let lacking: Vec<&String> = known.difference(&theirs).collect();
    let more: Vec<&String> = theirs.difference(&known).collect();
    if !lacking.is_empty() {
        let found = format!("the installed definition is of another version: it lacks {}", named(&lacking));
        findings.push(Finding::warning(CHECK, found, format!("such fields are dropped without a word; update it: {INSTALL}")));
    }
    if !more.is_empty() {
        let found = format!("the installed definition has fields that this llmscaler does not know: {}", named(&more));
        findings.push(Finding::note(CHECK, found, "use the llmscaler of the version that is installed"));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(CHECK, format!("LLMScaler {version} is installed, as this version knows it")));
    }
    findings
}

fn versions(definition: &Value) -> impl Iterator<Item = &Value> {
    definition["spec"]["versions"].as_array().into_iter().flatten()
}

/// The names of another definition may be taken.
fn refusals(definition: &Value) -> impl Iterator<Item = Finding> {
    let conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
    let bad = conditions.filter(|one| (one["type"] == "Established" || one["type"] == "NamesAccepted") && one["status"] != "True");
    bad.map(|one| {
        let text = |key: &str| one[key].as_str().unwrap_or_default();
        let found = format!("the definition is not in force, {}: {}", text("reason"), text("message"));
        Finding::problem(CHECK, found, "remove the definition that has the same names: kubectl get crd")
    })
}

/// Every field of a version's schema, as a path.
fn fields(version: &Value) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for part in ["spec", "status"] {
        collect(&version["schema"]["openAPIV3Schema"]["properties"][part], part, &mut all);
    }
    all
}

fn collect(schema: &Value, path: &str, all: &mut BTreeSet<String>) {
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        collect(member, &path, all);
        all.insert(path);
    }
    if schema["items"].is_object() {
        collect(&schema["items"], &format!("{path}[]"), all);
    }
}

fn named(fields: &[&String]) -> String {
    let some: Vec<&str> = fields.iter().take(MOST_NAMED).map(|field| field.as_str()).collect();
    match fields.len().saturating_sub(MOST_NAMED) {
        0 => some.join(", "),
        more => format!("{} and {more} more", some.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::doctor::finding::Severity;

    fn ours() -> Value {
        llmscaler_api::definition().unwrap()
    }

    fn found(change: impl FnOnce(&mut Value)) -> (Severity, String) {
        let mut installed = ours();
        change(&mut installed);
        let findings = check(&Ok(Some(installed)), &ours());
        let [finding] = findings.as_slice() else { panic!("{findings:?}") };
        (finding.severity, finding.found.clone())
    }

    const PROPERTIES: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";

    #[test]
    fn a_definition_is_as_this_version_has_it_or_it_is_told_how_not() {
        assert_eq!(found(|_| {}).0, Severity::Ok);
        let older = found(|crd| drop(crd.pointer_mut(PROPERTIES).unwrap().as_object_mut().unwrap().remove("idle")));
        assert_eq!(older.0, Severity::Warning);
        assert!(older.1.ends_with("it lacks spec.idle, spec.idle.cooldownSeconds"), "{older:?}");
        let newer = found(|crd| crd.pointer_mut(PROPERTIES).unwrap()["brandNew"] = json!({"type": "string"}));
        assert_eq!(newer.0, Severity::Note);
        assert!(newer.1.contains("spec.brandNew"), "{newer:?}");
        assert_eq!(found(|crd| crd["spec"]["versions"][0]["served"] = json!(false)).0, Severity::Problem);
        assert_eq!(found(|crd| crd["spec"]["versions"][0]["name"] = json!("v1")).0, Severity::Problem);
        let taken = json!({"conditions": [{"type": "NamesAccepted", "status": "False", "reason": "Conflict", "message": "taken"}]});
        assert_eq!(found(|crd| crd["status"] = taken), (Severity::Problem, "the definition is not in force, Conflict: taken".to_owned()));
    }

    #[test]
    fn none_is_a_problem_and_one_that_cannot_be_seen_a_note() {
        assert_eq!(check(&Ok(None), &ours())[0].severity, Severity::Problem);
        assert_eq!(check(&Err("forbidden".to_owned()), &ours())[0].severity, Severity::Note);
    }
}
