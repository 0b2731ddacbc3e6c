//! Somebody else who writes the size of a target, in words.

use llmscaler_api::TargetRef;
use llmscaler_engine::Mode;

use super::contest::Taker;
use crate::target::Target;

/// What everybody can do about a rival.
const STEP_ASIDE: &str = "or set mode: Recommend on this LLMScaler";

/// Somebody else who writes the size of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rival {
    /// Who, and that it does.
    pub fact: String,
    /// What to do.
    pub advice: String,
}

impl Rival {
    /// The text of the condition. Who only watches has nothing to do.
    pub(crate) fn words(self, mode: Mode) -> String {
        match mode {
            Mode::Auto => format!("{}; {}", self.fact, self.advice),
            Mode::Recommend => self.fact,
        }
    }

    /// An autoscaler of this kind and name.
    pub(crate) fn autoscaler(kind: &str, name: &str, target: &TargetRef) -> Self {
        let remedy = match kind {
            "HorizontalPodAutoscaler" => format!("delete it with kubectl delete hpa {name}"),
            "ScaledObject" => "delete it, or pause it with the annotation autoscaling.keda.sh/paused: \"true\"".to_owned(),
            _ => format!("turn off the autoscaling of {kind} {name}"),
        };
        Self { fact: format!("{kind} {name} scales {} {} too", target.kind, target.name), advice: format!("{remedy}, {STEP_ASIDE}") }
    }

    /// The controller that the target belongs to, when it claims the size.
    pub(crate) fn parent(target: &Target, named: &TargetRef) -> Option<Self> {
        let parent = target.parent.as_ref()?;
        let claims = target.holders.iter().find(|holder| holder.applied && !holder.is_ours() && !holder.is_person())?;
        let fact = format!("{} {} belongs to {parent}, which applies its spec.replicas as {}", named.kind, named.name, claims.manager);
        Some(Self { fact, advice: advice_on_parent(&parent.to_string()) })
    }

    /// Who takes back each size that is written.
    pub(crate) fn taker(taker: &Taker, target: &Target, named: &TargetRef) -> Self {
        let fact = format!("{} of {} {} back", taker.words(), named.kind, named.name);
        let advice = match &target.parent {
            Some(parent) => advice_on_parent(&parent.to_string()),
            None => format!("{}, {STEP_ASIDE}", advice_on(&taker.manager)),
        };
        Self { fact, advice: format!("{advice}. It is tried again when it has been quiet for long, and at an edit of this LLMScaler") }
    }
}

fn advice_on_parent(parent: &str) -> String {
    format!("name {parent} in targetRef if it can be scaled, or leave the number of replicas out of it, {STEP_ASIDE}")
}

/// How to keep a field manager from `spec.replicas`. The names are those that the products write under.
fn advice_on(manager: &str) -> String {
    let is = |prefix: &str| manager.starts_with(prefix);
    if is("argocd") {
        "in the Application of Argo CD, add ignoreDifferences with jsonPointers [/spec/replicas] and the syncOption \
         RespectIgnoreDifferences=true"
            .to_owned()
    } else if is("kustomize-controller") {
        "take spec.replicas out of the manifests that Flux applies".to_owned()
    } else if is("helm-controller") {
        "take replicas out of the chart's template, or ignore /spec/replicas in the driftDetection of Flux's HelmRelease".to_owned()
    } else if is("helm") {
        "take replicas out of the chart's template".to_owned()
    } else if is("kubectl") {
        "take spec.replicas out of the manifest that is applied again and again".to_owned()
    } else if is("Terraform") || is("HashiCorp") {
        "add spec[0].replicas to ignore_changes in Terraform's lifecycle block".to_owned()
    } else if is("pulumi") {
        "add spec.replicas to Pulumi's ignoreChanges".to_owned()
    } else if is("kube-controller-manager") {
        "look for its HorizontalPodAutoscaler with kubectl get hpa, and delete it".to_owned()
    } else if manager.is_empty() {
        "look for it in the audit log of the API server, and keep it from spec.replicas".to_owned()
    } else {
        format!("keep {manager} from spec.replicas")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn named() -> TargetRef {
        TargetRef { group: "apps".into(), version: "v1".into(), kind: "Deployment".into(), name: "fleet".into() }
    }

    fn target(manager: &str, operation: &str, owned: bool) -> Target {
        let fields = json!([{"manager": manager, "operation": operation, "fieldsV1": {"f:spec": {"f:replicas": {}}}}]);
        let owner =
            |controller| json!({"apiVersion": "ray.io/v1", "kind": "RayService", "name": "chat", "uid": "r", "controller": controller});
        let owners: Vec<Value> = if owned { vec![owner(true)] } else { vec![owner(false)] };
        let metadata = json!({"name": "fleet", "uid": "u", "managedFields": fields, "ownerReferences": owners});
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"replicas": 2}});
        Target::of(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn a_parent_owns_the_size_that_it_applies_and_not_one_that_it_created_once() {
        let parent = |manager, operation, owned| Rival::parent(&target(manager, operation, owned), &named()).map(|rival| rival.fact);
        let fact = "Deployment fleet belongs to RayService chat, which applies its spec.replicas as ray-operator";
        assert_eq!(parent("ray-operator", "Apply", true).as_deref(), Some(fact));
        assert_eq!(parent("ray-operator", "Update", true), None, "the API server books defaults to whoever creates");
        assert_eq!(parent("argocd-controller", "Apply", false), None, "no controller");
        assert_eq!(parent("kubectl", "Apply", true), None, "a person's edit");
        assert_eq!(parent("llmscaler", "Apply", true), None);
    }

    #[test]
    fn each_product_is_told_its_own_remedy() {
        let told = |manager: &str| {
            let taker = Taker { manager: manager.to_owned() };
            Rival::taker(&taker, &target(manager, "Apply", false), &named()).words(Mode::Auto)
        };
        for (manager, words) in [
            ("argocd-controller", "ignoreDifferences with jsonPointers [/spec/replicas]"),
            ("kustomize-controller", "Flux"),
            ("helm-controller", "driftDetection"),
            ("helm", "chart's template"),
            ("kubectl-client-side-apply", "manifest"),
            ("Terraform", "ignore_changes"),
            ("", "audit log"),
            ("mine", "keep mine from spec.replicas"),
        ] {
            let told = told(manager);
            assert!(told.contains(words) && told.contains("mode: Recommend"), "{told}");
            assert!(told.contains("spec.replicas of Deployment fleet back"), "{told}");
        }
        let of_parent = Rival::taker(&Taker { manager: "ray-operator".to_owned() }, &target("ray-operator", "Update", true), &named());
        assert!(of_parent.advice.contains("name RayService chat in targetRef"), "{}", of_parent.advice);
        let watched = Rival::autoscaler("HorizontalPodAutoscaler", "chat", &named()).words(Mode::Recommend);
        assert_eq!(watched, "HorizontalPodAutoscaler chat scales Deployment fleet too");
    }
}
