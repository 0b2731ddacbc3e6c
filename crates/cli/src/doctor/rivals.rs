//! Who else decides on the size of the target.

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::ResourceExt;
use kube::api::DynamicObject;
use llmscaler_api::{LLMScaler, Mode, Scaler, TargetRef};
use llmscaler_engine as engine;
use llmscaler_operator::diagnose::FIELD_MANAGER;
use serde_json::Value;

use super::finding::{Finding, Severity};
use super::gather::Fact;
use crate::scalers::Stored;

const CHECK: &str = "owner";

/// The name under which the Go operator of this API wrote.
const GO_OPERATOR: &str = "manager";

/// Field managers that write again what a repository says.
const GITOPS: [(&str, &str); 4] =
    [("argocd", "Argo CD"), ("kustomize-controller", "Flux"), ("helm-controller", "Flux"), ("fleet", "Fleet")];

/// Annotations of a `ScaledObject`: paused, it leaves its target alone, unless it is to keep a size.
const KEDA_PAUSED: &str = "autoscaling.keda.sh/paused";
const KEDA_PAUSED_AT: &str = "autoscaling.keda.sh/paused-replicas";

/// Somebody who decides on the size. With `mode: Recommend` that is how it is meant.
fn rival(scaler: &Scaler, who: &str, remove: &str) -> Finding {
    if scaler.spec.mode == engine::Mode::Recommend {
        return Finding::note(
            CHECK,
            format!("{who} scales the target; this one only recommends"),
            "nothing, until you have compared the two",
        );
    }
    let found = format!("{who} scales the target too, so nothing is written");
    Finding::new(Severity::Problem, CHECK, found, format!("{remove}, or set mode: Recommend here"))
}

/// Horizontal pod autoscalers of the same target. One that KEDA or we made is named by who made it.
pub fn check_autoscalers(ours: &str, scaler: &Scaler, hpas: &Fact<Vec<HorizontalPodAutoscaler>>) -> Vec<Finding> {
    let hpas = match hpas {
        Ok(hpas) => hpas,
        Err(why) => return vec![Finding::unseen(CHECK, "HorizontalPodAutoscalers", why)],
    };
    let same = |hpa: &&HorizontalPodAutoscaler| {
        hpa.spec.as_ref().is_some_and(|spec| {
            let target = &spec.scale_target_ref;
            target.kind == scaler.target.kind
                && target.name == scaler.target.name
                && group(target.api_version.as_deref().unwrap_or_default()) == scaler.target.group
        })
    };
    let maker = |hpa: &HorizontalPodAutoscaler| hpa.owner_references().iter().find(|owner| owner.controller == Some(true)).cloned();
    // With `actuation: HorizontalPodAutoscaler` it writes in the name of its scaler.
    let is_ours = |hpa: &&HorizontalPodAutoscaler| maker(hpa).is_some_and(|owner| owner.kind == "LLMScaler" && owner.name == ours);
    let findings = hpas.iter().filter(same).filter(|hpa| !is_ours(hpa)).map(|hpa| {
        let name = hpa.name_any();
        match maker(hpa) {
            Some(owner) => {
                let who = format!("HorizontalPodAutoscaler {name} of {} {}", owner.kind, owner.name);
                rival(scaler, &who, &format!("delete {} {}", owner.kind, owner.name))
            }
            None => rival(scaler, &format!("HorizontalPodAutoscaler {name}"), &format!("kubectl delete hpa {name}")),
        }
    });
    findings.collect()
}

/// `ScaledObject`s of KEDA, which have an autoscaler of their own, but not at zero.
pub fn check_scaled_objects(scaler: &Scaler, objects: &Fact<Vec<DynamicObject>>) -> Vec<Finding> {
    let objects = match objects {
        Ok(objects) => objects,
        Err(why) => return vec![Finding::unseen(CHECK, "KEDA's ScaledObjects", why)],
    };
    let same = |object: &&DynamicObject| {
        let target = &object.data["spec"]["scaleTargetRef"];
        let kind = target["kind"].as_str().unwrap_or("Deployment");
        let version = target["apiVersion"].as_str().unwrap_or("apps/v1");
        target["name"] == *scaler.target.name && kind == scaler.target.kind && group(version) == scaler.target.group
    };
    let findings = objects.iter().filter(same).filter(|object| !is_paused(object)).map(|object| {
        let name = object.name_any();
        rival(scaler, &format!("KEDA's ScaledObject {name}"), &format!("kubectl delete scaledobject {name}"))
    });
    findings.collect()
}

fn is_paused(object: &DynamicObject) -> bool {
    let annotations = object.annotations();
    annotations.get(KEDA_PAUSED).is_some_and(|paused| paused == "true") && !annotations.contains_key(KEDA_PAUSED_AT)
}

/// Other scalers of the same target, of which none writes then.
pub fn check_siblings(ours: &str, scaler: &Scaler, siblings: &[Stored]) -> Vec<Finding> {
    let same = |other: &LLMScaler| {
        let target = &other.spec.target_ref;
        other.spec.mode == Mode::Auto
            && target.kind == scaler.target.kind
            && target.name == scaler.target.name
            && group(&target.api_version) == scaler.target.group
    };
    let rivals = siblings.iter().filter(|other| other.name != ours && other.scaler.as_ref().is_ok_and(same));
    let findings =
        rivals.map(|other| rival(scaler, &format!("LLMScaler {}", other.name), &format!("kubectl delete llmscaler {}", other.name)));
    findings.collect()
}

/// Who wrote the size of the target, as the API server keeps book, and whose it is.
pub fn check_target(target: &TargetRef, object: &Value) -> Vec<Finding> {
    let mut findings: Vec<Finding> = managers(object).into_iter().filter_map(|manager| of_manager(manager, target)).collect();
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    if let Some(owner) = owners.and_then(|owners| owners.iter().find(|owner| owner["controller"] == true)) {
        let (kind, name) = (owner["kind"].as_str().unwrap_or_default(), owner["name"].as_str().unwrap_or_default());
        let found = format!("{} {} belongs to {kind} {name}, whose controller may write its size again", target.kind, target.name);
        findings.push(Finding::warning(
            CHECK,
            found,
            format!("leave the number of replicas out of {kind} {name}, or name it in targetRef"),
        ));
    }
    findings
}

/// The managers that own `spec.replicas`, ours left out.
fn managers(object: &Value) -> Vec<&str> {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let owning = entries.into_iter().flatten().filter(|entry| entry.pointer("/fieldsV1/f:spec/f:replicas").is_some());
    let mut names: Vec<&str> = owning.filter_map(|entry| entry["manager"].as_str()).filter(|name| *name != FIELD_MANAGER).collect();
    names.dedup();
    names
}

fn of_manager(manager: &str, target: &TargetRef) -> Option<Finding> {
    let TargetRef { kind, name, .. } = target;
    let found = format!("{manager} owns spec.replicas of {kind} {name} as well");
    if let Some((_, product)) = GITOPS.iter().find(|(known, _)| manager.starts_with(known)) {
        let advice = match *product {
            "Argo CD" => {
                "take replicas out of the manifest, or add to the Application: ignoreDifferences with jsonPointers [/spec/replicas], and \
                 syncOption RespectIgnoreDifferences=true"
            }
            _ => "take replicas out of the manifest in the repository, so that nobody but the scaler sets it",
        };
        return Some(Finding::warning(CHECK, format!("{found}: each sync of {product} sets it back"), advice));
    }
    match manager {
        "helm" => Some(Finding::warning(CHECK, format!("{found}: helm upgrade sets it back"), "leave replicas out of the chart's values")),
        // Whoever created it wrote the size once. The first write takes it over.
        _ if manager.starts_with("kubectl") => Some(Finding::note(
            CHECK,
            format!("{found}: kubectl apply sets it back"),
            "take replicas out of the file that is applied; if nobody applies it any more, all is well",
        )),
        GO_OPERATOR => Some(Finding::note(
            CHECK,
            format!("{found}, as the Go operator of this API does"),
            "see that it does not run any more; the next change of size takes the field over",
        )),
        "keda-operator" | "kube-controller-manager" => None,
        _ => Some(Finding::note(CHECK, found, "if it writes the size again and again, keep it from that")),
    }
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::doctor::tests::scaler;

    #[test]
    fn an_autoscaler_of_the_same_target_is_a_problem_and_of_another_none() {
        let hpa = |kind: &str, name: &str, owner: Value| -> HorizontalPodAutoscaler {
            let target = json!({"apiVersion": "apps/v1", "kind": kind, "name": name});
            serde_json::from_value(
                json!({"metadata": {"name": "cpu", "ownerReferences": owner}, "spec": {"scaleTargetRef": target, "maxReplicas": 3}}),
            )
            .unwrap()
        };
        let keda = json!([{"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "so", "uid": "u", "controller": true}]);
        let ours = json!([{"apiVersion": "x/v1", "kind": "LLMScaler", "name": "vllm", "uid": "u", "controller": true}]);
        assert_eq!(check_autoscalers("vllm", &scaler(json!({})), &Ok(vec![hpa("Deployment", "vllm", ours.clone())])), []);
        assert_eq!(check_autoscalers("other", &scaler(json!({})), &Ok(vec![hpa("Deployment", "vllm", ours)])).len(), 1);
        let all = Ok(vec![hpa("Deployment", "vllm", json!([])), hpa("StatefulSet", "vllm", json!([])), hpa("Deployment", "vllm", keda)]);
        let found = check_autoscalers("vllm", &scaler(json!({})), &all);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].found, "HorizontalPodAutoscaler cpu scales the target too, so nothing is written");
        assert_eq!(check_autoscalers("vllm", &scaler(json!({"mode": "Recommend"})), &all)[0].severity, Severity::Note);
        assert!(found[1].advice.as_ref().unwrap().starts_with("delete ScaledObject so"), "{found:?}");
    }

    #[test]
    fn a_scaled_object_of_the_same_target_is_a_problem() {
        let object = |target: Value| -> DynamicObject {
            serde_json::from_value(json!({"metadata": {"name": "so"}, "spec": {"scaleTargetRef": target}})).unwrap()
        };
        let all =
            Ok(vec![object(json!({"name": "vllm"})), object(json!({"name": "vllm", "kind": "StatefulSet"})), object(json!({"name": "x"}))]);
        assert_eq!(check_scaled_objects(&scaler(json!({})), &all).len(), 1);
        let mut paused = object(json!({"name": "vllm"}));
        paused.metadata.annotations = Some([(KEDA_PAUSED.to_owned(), "true".to_owned())].into());
        assert_eq!(check_scaled_objects(&scaler(json!({})), &Ok(vec![paused.clone()])), []);
        paused.annotations_mut().insert(KEDA_PAUSED_AT.to_owned(), "2".to_owned());
        assert_eq!(check_scaled_objects(&scaler(json!({})), &Ok(vec![paused])).len(), 1);
    }

    fn managed(entries: Value) -> Vec<Finding> {
        let target = scaler(json!({})).target;
        check_target(&target, &json!({"metadata": {"managedFields": entries}}))
    }

    #[test]
    fn field_managers_of_the_size_are_told_by_what_they_will_do() {
        let size = json!({"f:spec": {"f:replicas": {}}});
        for (manager, severity, words) in [
            ("argocd-controller", Severity::Warning, "Argo CD"),
            ("argocd-application-controller", Severity::Warning, "Argo CD"),
            ("kustomize-controller", Severity::Warning, "Flux"),
            ("helm", Severity::Warning, "helm upgrade"),
            ("kubectl-client-side-apply", Severity::Note, "kubectl apply"),
            ("manager", Severity::Note, "Go operator"),
            ("somebody", Severity::Note, "somebody owns"),
        ] {
            let found = managed(json!([{"manager": manager, "fieldsV1": size}]));
            assert_eq!((found[0].severity, found[0].found.contains(words)), (severity, true), "{manager}: {found:?}");
        }
        assert_eq!(managed(json!([{"manager": "llmscaler", "fieldsV1": size}])), []);
        assert_eq!(managed(json!([{"manager": "argocd-controller", "fieldsV1": {"f:spec": {"f:paused": {}}}}])), []);
    }

    #[test]
    fn a_target_of_a_larger_whole_is_told() {
        let owner = json!([{"kind": "LLMInferenceService", "name": "qwen", "controller": true}]);
        let found = check_target(&scaler(json!({})).target, &json!({"metadata": {"ownerReferences": owner}}));
        assert!(found[0].found.contains("belongs to LLMInferenceService qwen"), "{found:?}");
    }

    #[test]
    fn a_second_scaler_counts_unless_it_only_recommends() {
        let stored = |name: &str, mode: &str| {
            let spec = json!({"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "vllm"}, "minReplicas": 1,
                "maxReplicas": 2, "mode": mode});
            let object = json!({"apiVersion": "autoscaling.modelsphere.dev/v1alpha1", "kind": "LLMScaler", "metadata": {"name": name}, "spec": spec});
            Stored {
                namespace: "serving".to_owned(),
                name: name.to_owned(),
                scaler: serde_json::from_value(object).map_err(|e| e.to_string()),
            }
        };
        let all = [stored("ours", "Auto"), stored("other", "Auto"), stored("quiet", "Recommend")];
        let found = check_siblings("ours", &scaler(json!({})), &all);
        assert_eq!(found.len(), 1);
        assert!(found[0].found.contains("LLMScaler other"), "{found:?}");
    }
}
