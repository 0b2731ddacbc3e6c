use std::sync::atomic::Ordering;

use llmscaler_api::parse_json;
use serde_json::{Value, json};

use super::super::autoscalers::tests::{Server, fleet, hpa, owner, to};
use super::super::{first_rival, written};
use super::*;

/// The objects around Deployment `fleet` in `serving`, whose scaler is `chat`, and whom it is left to.
struct Case {
    what: &'static str,
    scalers: Vec<(&'static str, &'static str)>,
    hpas: Vec<Value>,
    scaled_objects: Vec<Value>,
    /// Who applies the size of the target, and is its controller.
    parent: Option<&'static str>,
    expected: Option<&'static str>,
}

impl Case {
    fn new(what: &'static str, expected: Option<&'static str>) -> Self {
        Self { what, scalers: vec![("chat", "Auto")], hpas: vec![], scaled_objects: vec![], parent: None, expected }
    }

    fn object(&self) -> DynamicObject {
        let size = json!({"f:spec": {"f:replicas": {}}});
        let (fields, owners) = match self.parent {
            Some(manager) => {
                (json!([{"manager": manager, "operation": "Apply", "fieldsV1": size}]), json!([owner("ray.io/v1", "RayService", "chat")]))
            }
            None => (json!([{"manager": "kubectl-create", "operation": "Update", "fieldsV1": size}]), json!([])),
        };
        let metadata = json!({"name": "fleet", "uid": "f", "managedFields": fields, "ownerReferences": owners});
        serde_json::from_value(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"replicas": 2}}))
            .unwrap()
    }

    /// What a look finds: all rivals, of which the first counts.
    fn looked(&self) -> Vec<Rival> {
        let scalers: Vec<(String, Scaler)> = self.scalers.iter().map(|(name, mode)| ((*name).to_owned(), scaler(mode))).collect();
        let parse = |value: &Value| serde_json::from_value(value.clone()).unwrap();
        rivals(&Around {
            namespace: "serving",
            scaler: "chat",
            target: &fleet(),
            object: Some(&self.object()),
            scalers: &scalers,
            hpas: &self.hpas.iter().map(|value| serde_json::from_value(value.clone()).unwrap()).collect::<Vec<_>>(),
            scaled_objects: &self.scaled_objects.iter().map(parse).collect::<Vec<_>>(),
        })
    }

    /// What a sync finds, whose watches have the same objects.
    async fn synced(&self) -> Option<Rival> {
        let owners = Owners::new();
        for (name, mode) in &self.scalers {
            if let Some(target) = written(&scaler(mode)) {
                owners.add("serving", name, target);
            }
        }
        let server = Server::new(self.hpas.clone().into());
        *server.scaled_objects.lock().unwrap() = self.scaled_objects.clone().into();
        server.keda.store(!self.scaled_objects.is_empty(), Ordering::Relaxed);
        let autoscalers = server.watched(None);
        autoscalers.listed().await;
        first_rival(&owners, &autoscalers, "serving", "chat", &Target::of(&self.object()), &fleet())
    }
}

fn scaler(mode: &str) -> Scaler {
    let spec = json!({"targetRef": to("apps/v1", "Deployment", "fleet"), "minReplicas": 1, "maxReplicas": 8, "mode": mode,
        "serverAddress": "http://prometheus:9090", "metrics": [{"query": "q", "target": "1"}]});
    let object = json!({"apiVersion": "autoscaling.modelsphere.dev/v1alpha1", "kind": "LLMScaler",
        "metadata": {"name": "x", "namespace": "serving"}, "spec": spec});
    parse_json(object).unwrap().parse().unwrap()
}

fn scaled_object(name: &str, annotations: &Value) -> Value {
    let metadata = json!({"name": name, "namespace": "serving", "uid": name, "annotations": annotations});
    json!({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": metadata, "spec": {"scaleTargetRef": {"name": "fleet"}}})
}

fn cases() -> Vec<Case> {
    let deployment = || to("apps/v1", "Deployment", "fleet");
    let of = |kind: &str, name: &str, maker: Option<Value>| hpa(name, "serving", to("apps/v1", kind, "fleet"), maker);
    let ours = owner("autoscaling.modelsphere.dev/v1alpha1", "LLMScaler", "chat");
    let others = owner("autoscaling.modelsphere.dev/v1alpha1", "LLMScaler", "other");
    let namesake = owner("example.com/v1", "LLMScaler", "chat");
    let keda = owner("keda.sh/v1alpha1", "ScaledObject", "so");
    let (of_hpa, of_keda) = (Some("HorizontalPodAutoscaler cpu scales"), Some("ScaledObject so scales"));
    let paused = json!({"autoscaling.keda.sh/paused": "True"});
    let kept = json!({"autoscaling.keda.sh/paused": "true", "autoscaling.keda.sh/paused-replicas": "2"});
    let running = json!({"autoscaling.keda.sh/paused": "False"});
    vec![
        Case::new("alone", None),
        Case { scalers: vec![("chat", "Auto"), ("other", "Auto")], ..Case::new("a scaler", Some("LLMScaler other scales")) },
        Case { scalers: vec![("chat", "Auto"), ("other", "Recommend")], ..Case::new("one that recommends", None) },
        Case { scalers: vec![("chat", "Recommend"), ("other", "Auto")], ..Case::new("beside one", Some("LLMScaler other scales")) },
        Case { hpas: vec![of("Deployment", "cpu", None)], ..Case::new("an HPA", of_hpa) },
        Case {
            hpas: vec![hpa("cpu", "serving", to("apps/v1beta1", "Deployment", "fleet"), None)],
            ..Case::new("by another version", of_hpa)
        },
        Case { hpas: vec![of("StatefulSet", "cpu", None)], ..Case::new("an HPA of another kind", None) },
        Case { hpas: vec![hpa("cpu", "elsewhere", deployment(), None)], ..Case::new("an HPA elsewhere", None) },
        Case { hpas: vec![of("Deployment", "llmscaler-chat", Some(ours))], ..Case::new("its own HPA", None) },
        Case {
            hpas: vec![of("Deployment", "llmscaler-other", Some(others))],
            ..Case::new("the HPA of a scaler, which is known as itself", None)
        },
        Case { hpas: vec![of("Deployment", "cpu", Some(namesake))], ..Case::new("an HPA of a namesake", Some("LLMScaler chat scales")) },
        Case { hpas: vec![of("Deployment", "keda-hpa-so", Some(keda.clone()))], ..Case::new("KEDA's HPA", of_keda) },
        Case { scaled_objects: vec![scaled_object("so", &json!({}))], ..Case::new("KEDA at zero", of_keda) },
        Case {
            hpas: vec![of("Deployment", "keda-hpa-so", Some(keda))],
            scaled_objects: vec![scaled_object("so", &json!({}))],
            ..Case::new("KEDA above zero, once", of_keda)
        },
        Case { scaled_objects: vec![scaled_object("so", &paused)], ..Case::new("KEDA, paused", None) },
        Case { scaled_objects: vec![scaled_object("so", &kept)], ..Case::new("KEDA, which keeps a size", of_keda) },
        Case { scaled_objects: vec![scaled_object("so", &running)], ..Case::new("KEDA, not paused", of_keda) },
        Case { parent: Some("ray-operator"), ..Case::new("its controller", Some("Deployment fleet belongs to RayService chat")) },
        Case { parent: Some("kubectl"), ..Case::new("a person", None) },
        Case {
            hpas: vec![of("Deployment", "cpu", None)],
            scalers: vec![("chat", "Auto"), ("other", "Auto")],
            parent: Some("ray-operator"),
            ..Case::new("everybody", Some("LLMScaler other scales"))
        },
    ]
}

#[tokio::test(start_paused = true)]
async fn a_look_and_a_sync_come_to_the_same() {
    for case in cases() {
        let (looked, synced) = (case.looked(), case.synced().await);
        assert_eq!(looked.first(), synced.as_ref(), "{}", case.what);
        let fact = synced.as_ref().map(|rival| rival.fact.as_str());
        match case.expected {
            Some(expected) => assert!(fact.is_some_and(|fact| fact.starts_with(expected)), "{}: {fact:?}", case.what),
            None => assert_eq!(fact, None, "{}", case.what),
        }
        let all = if case.what == "everybody" { 3 } else { usize::from(case.expected.is_some()) };
        assert_eq!(looked.len(), all, "{}: each once", case.what);
    }
}

/// The managers of the size, in their order, and what is suspected.
fn suspected(managers: &[&str], owners: Value) -> Vec<Suspect> {
    let size = json!({"f:spec": {"f:replicas": {}}});
    let fields: Vec<Value> = managers.iter().map(|name| json!({"manager": name, "operation": "Update", "fieldsV1": size})).collect();
    let metadata = json!({"name": "fleet", "managedFields": fields, "ownerReferences": owners});
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"replicas": 2}});
    suspects(&serde_json::from_value(object).unwrap(), &fleet())
}

#[test]
fn who_may_write_again_is_told_by_what_they_will_do() {
    for (manager, returns, fact, advice) in [
        ("argocd-controller", true, "each sync of Argo CD sets it back", "ignoreDifferences"),
        ("kustomize-controller", true, "Flux", "manifests"),
        ("helm", true, "helm upgrade", "template"),
        ("Terraform", true, "terraform apply", "ignore_changes"),
        ("kubectl-client-side-apply", false, "kubectl apply", "manifest"),
        ("manager", false, "Go operator", "does not run any more"),
        ("somebody", false, "somebody owns spec.replicas", "keep somebody from"),
    ] {
        let found = suspected(&[manager, manager], json!([]));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].returns, returns, "{found:?}");
        assert!(found[0].fact.contains(fact) && found[0].advice.contains(advice), "{found:?}");
    }
    assert_eq!(suspected(&["llmscaler", "kube-controller-manager", "keda-operator"], json!([])), []);
}

#[test]
fn a_target_of_a_larger_whole_is_told_unless_that_is_a_rival() {
    let owners = json!([owner("x/v1", "LLMInferenceService", "qwen")]);
    let found = suspected(&[], owners.clone());
    assert!(found[0].fact.contains("belongs to LLMInferenceService qwen") && found[0].returns, "{found:?}");
    let case = Case { parent: Some("ray-operator"), ..Case::new("its controller", None) };
    assert_eq!(suspects(&case.object(), &fleet()), []);
}
