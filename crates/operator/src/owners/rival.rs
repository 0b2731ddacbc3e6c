//! Somebody else who writes the size of a target, in words.

use llmscaler_api::TargetRef;
use llmscaler_engine::Mode;

use super::claim::{Named, PAUSED};
use super::contest::Taker;
use super::fields::Holder;
use super::product::Product;
use crate::target::Target;

/// What everybody can do about a rival.
const STEP_ASIDE: &str = "or set mode: Recommend on this LLMScaler";

/// Somebody else who decides on the size of a target. While there is one, nothing is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
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

    /// Another autoscaler.
    pub(super) fn autoscaler(Named { kind, name }: &Named, target: &TargetRef) -> Self {
        let remedy = match kind.as_str() {
            "HorizontalPodAutoscaler" => format!("delete it with kubectl delete hpa {name}"),
            "ScaledObject" => format!("pause it with the annotation {PAUSED}: \"true\", or delete it"),
            _ => format!("turn off the autoscaling of {kind} {name}"),
        };
        Self { fact: format!("{kind} {name} scales {} {} too", target.kind, target.name), advice: format!("{remedy}, {STEP_ASIDE}") }
    }

    /// The controller that the target belongs to, when it claims the size.
    pub(crate) fn parent(target: &Target, named: &TargetRef) -> Option<Self> {
        let (parent, claims) = (target.parent.as_ref()?, claim_of_parent(target)?);
        let fact = format!("{} {} belongs to {parent}, which applies its spec.replicas as {}", named.kind, named.name, claims.manager);
        Some(Self { fact, advice: advice_on_parent(&parent.to_string()) })
    }

    /// Who takes back each size that is written.
    pub(crate) fn taker(taker: &Taker, target: &Target, named: &TargetRef) -> Self {
        let fact = format!("{} of {} {} back", taker.words(), named.kind, named.name);
        let advice = match &target.parent {
            Some(parent) => advice_on_parent(&parent.to_string()),
            None => format!("{}, {STEP_ASIDE}", Product::of(&taker.manager).remedy(&taker.manager)),
        };
        Self { fact, advice: format!("{advice}. It is tried again when it has been quiet for long, and at an edit of this LLMScaler") }
    }
}

/// The field that shows that a target's controller claims its size.
pub(super) fn claim_of_parent(target: &Target) -> Option<&Holder> {
    target.parent.as_ref()?;
    target.holders.iter().find(|holder| holder.applied && !holder.is_ours() && !holder.is_person())
}

/// What to do about the controller that a target belongs to.
pub(super) fn advice_on_parent(parent: &str) -> String {
    format!("name {parent} in targetRef if it can be scaled, or leave the number of replicas out of it, {STEP_ASIDE}")
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
        let watched = Rival::autoscaler(&Named { kind: "HorizontalPodAutoscaler".to_owned(), name: "chat".to_owned() }, &named())
            .words(Mode::Recommend);
        assert_eq!(watched, "HorizontalPodAutoscaler chat scales Deployment fleet too");
    }
}
