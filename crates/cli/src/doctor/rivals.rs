//! Who else decides on the size of the target, by the operator's own rules.

use kube::api::DynamicObject;
use llmscaler_api::Scaler;
use llmscaler_engine::Mode;
use llmscaler_operator::diagnose::{Around, Rival, Suspect, rivals, suspects};

use super::finding::{Finding, Severity};
use super::gather::{Surroundings, Target};
use crate::scalers::Stored;

const CHECK: &str = "owner";

/// Rivals, who keep the scaler from writing, and those who may undo what it writes.
pub fn check(stored: &Stored, scaler: &Scaler, around: &Surroundings) -> Vec<Finding> {
    let unseen = |what, why: &String| Finding::unseen(CHECK, what, why);
    let mut findings: Vec<Finding> = vec![];
    findings.extend(around.autoscalers.as_ref().err().map(|why| unseen("HorizontalPodAutoscalers", why)));
    findings.extend(around.scaled_objects.as_ref().err().map(|why| unseen("KEDA's ScaledObjects", why)));
    let object: Option<DynamicObject> = match &around.target {
        // It was one before it was shown.
        Ok(Target::Found { object, .. }) => serde_json::from_value(object.clone()).ok(),
        _ => None,
    };
    let readable = around.siblings.iter().filter_map(|other| Some((other.name.clone(), other.scaler.as_ref().ok()?.parse().ok()?)));
    let looked = Around {
        namespace: &stored.namespace,
        scaler: &stored.name,
        target: &scaler.target,
        object: object.as_ref(),
        scalers: &readable.collect::<Vec<_>>(),
        hpas: around.autoscalers.as_deref().unwrap_or_default(),
        scaled_objects: around.scaled_objects.as_deref().unwrap_or_default(),
    };
    findings.extend(rivals(&looked).into_iter().map(|rival| of_rival(rival, scaler.spec.mode)));
    findings.extend(object.iter().flat_map(|object| suspects(object, &scaler.target)).map(of_suspect));
    if findings.is_empty() {
        findings.push(Finding::ok(CHECK, "nobody else is known to decide on the size"));
    }
    findings
}

/// With `mode: Recommend` it is meant that somebody else decides.
fn of_rival(Rival { fact, advice }: Rival, mode: Mode) -> Finding {
    match mode {
        Mode::Auto => Finding::problem(CHECK, format!("{fact}, so nothing is written"), advice),
        Mode::Recommend => Finding::note(CHECK, format!("{fact}; this one only recommends"), "nothing, until you have compared the two"),
    }
}

fn of_suspect(Suspect { fact, advice, returns }: Suspect) -> Finding {
    let severity = if returns { Severity::Warning } else { Severity::Note };
    Finding::new(severity, CHECK, fact, advice)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::doctor::tests::{object, scaler};

    fn around(hpas: Value, manager: &str, siblings: &[(&str, &str)]) -> Surroundings {
        let fields = json!([{"manager": manager, "fieldsV1": {"f:spec": {"f:replicas": {}}}}]);
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "vllm", "managedFields": fields}});
        let stored = |(name, mode): &(&str, &str)| {
            let mut object = object(json!({"mode": mode}));
            object["metadata"]["name"] = json!(name);
            Stored {
                namespace: "serving".to_owned(),
                name: (*name).to_owned(),
                scaler: serde_json::from_value(object).map_err(|error| error.to_string()),
            }
        };
        Surroundings {
            target: Ok(Target::Found { object: target, has_scale: true, plural: "deployments".to_owned() }),
            pods: Ok(vec![]),
            autoscalers: Ok(serde_json::from_value(hpas).unwrap()),
            scaled_objects: Ok(vec![]),
            siblings: siblings.iter().map(stored).collect(),
            budgets: Ok(vec![]),
            denied: Ok(vec![]),
            external_metrics: None,
        }
    }

    fn checked(mode: &str, around: &Surroundings) -> Vec<(Severity, String)> {
        let stored = Stored { namespace: "serving".to_owned(), name: "vllm".to_owned(), scaler: Err("not asked for".to_owned()) };
        let told = |finding: Finding| (finding.severity, format!("{} → {}", finding.found, finding.advice.unwrap_or_default()));
        check(&stored, &scaler(json!({"mode": mode})), around).into_iter().map(told).collect()
    }

    #[test]
    fn a_rival_is_a_problem_unless_the_scaler_only_recommends() {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "vllm"});
        let hpas = json!([{"metadata": {"name": "cpu", "namespace": "serving"}, "spec": {"scaleTargetRef": target, "maxReplicas": 3}}]);
        let around = around(hpas, "llmscaler", &[("vllm", "Auto"), ("other", "Auto"), ("quiet", "Recommend")]);
        let found = checked("Auto", &around);
        assert_eq!(found.len(), 2, "{found:?}");
        for ((severity, text), words) in found.iter().zip(["LLMScaler other scales", "HorizontalPodAutoscaler cpu scales"]) {
            assert!(*severity == Severity::Problem && text.starts_with(words), "{text}");
            assert!(text.contains("Deployment vllm too, so nothing is written → delete"), "{text}");
        }
        assert!(checked("Recommend", &around).iter().all(|(severity, _)| *severity == Severity::Note));
    }

    #[test]
    fn who_may_undo_a_write_is_a_warning_and_who_wrote_once_a_note() {
        for (manager, severity) in [("helm", Severity::Warning), ("kubectl-create", Severity::Note), ("llmscaler", Severity::Ok)] {
            let found = checked("Auto", &around(json!([]), manager, &[]));
            assert_eq!(found.iter().map(|(severity, _)| *severity).collect::<Vec<_>>(), [severity], "{manager}: {found:?}");
        }
    }

    #[test]
    fn what_may_not_be_read_is_a_note() {
        let mut around = around(json!([]), "llmscaler", &[]);
        around.autoscalers = Err("forbidden".to_owned());
        let found = checked("Auto", &around);
        assert!(found.len() == 1 && found[0].0 == Severity::Note && found[0].1.contains("HorizontalPodAutoscalers"), "{found:?}");
    }
}
