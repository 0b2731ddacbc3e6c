//! The hand-over: from one owner of the target to the other, in steps of which each can be taken back.

use serde::Serialize;

use llmscaler_api::Actuation;

use super::ledger::Fate;
use super::outcome::{Origin, Outcome};

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// What it is for.
    pub why: String,
    /// What to run, or to look at.
    pub commands: Vec<String>,
}

/// How the scalers that were made take over.
pub fn plan(outcomes: &[Outcome]) -> Vec<Step> {
    let made: Vec<&Outcome> = outcomes.iter().filter(|outcome| matches!(outcome.scaler, Some(Ok(_)))).collect();
    if made.is_empty() {
        return vec![];
    }
    let each = |command: &dyn Fn(&Outcome, &Origin) -> String| {
        let mut commands: Vec<String> = made.iter().map(|outcome| command(outcome, &outcome.origin)).collect();
        commands.dedup();
        commands
    };
    let mut steps = vec![
        step(
            "Keep what there is, to be able to go back.",
            each(&|_, origin| format!("kubectl get {} -o yaml > {}", object(origin), file(origin))),
        ),
        step(
            "Save the scalers that are printed here as scalers.yaml and apply them. They only recommend, so the old autoscaler goes on \
             undisturbed.",
            vec!["kubectl apply -f scalers.yaml".to_owned()],
        ),
        step(
            "Compare for a day, and through a peak: DesiredReplicas is what the scaler would do, beside the REPLICAS of the HPA. doctor \
             asks every query.",
            [
                each(&|_, origin| format!("kubectl get llmscalers,hpa{}", flag(origin))),
                each(&|outcome, origin| format!("llmscaler explain {}{}", outcome.scaler_name(), flag(origin))),
                each(&|_, origin| format!("llmscaler doctor{}", flag(origin))),
            ]
            .concat(),
        ),
        step(
            "Take the old object out of Argo CD, Flux or the chart that applies it, and spec.replicas out of the target's manifest; \
             otherwise they come back.",
            vec![],
        ),
    ];
    steps.extend(made.iter().map(|outcome| take_over(outcome)));
    steps.push(step(
        "See it work: one change of size up and one down.",
        each(&|_, origin| format!("kubectl get events{} --field-selector involvedObject.kind=LLMScaler", flag(origin))),
    ));
    let paused: Vec<&&Outcome> = made.iter().filter(|outcome| outcome.origin.kind == "ScaledObject").collect();
    if !paused.is_empty() {
        let deletes = paused.iter().flat_map(|outcome| delete(outcome)).collect();
        steps.push(step("Only then delete the ScaledObject. The target keeps its size.", deletes));
    }
    let by_hpa: Vec<&&Outcome> = made.iter().filter(|outcome| writes_by_hpa(outcome)).collect();
    if !by_hpa.is_empty() {
        let mut commands = vec!["kubectl get apiservice v1beta1.external.metrics.k8s.io".to_owned()];
        commands.extend(by_hpa.iter().map(|outcome| patch(outcome, r#""actuation":"HorizontalPodAutoscaler""#)));
        steps.push(step(
            "Let an HPA write, when nobody else has the External Metrics API any more: neither KEDA nor an adapter, of which the first command \
             names the one that has it. A cluster has one such API, and until then the scaler writes itself. The size stays as it is.",
            commands,
        ));
    }
    let back = made.iter().flat_map(|outcome| back(outcome)).collect();
    steps.push(step("To go back: let the scaler only recommend, then give the target back to its old owner.", back));
    steps
}

fn step(why: &str, commands: Vec<String>) -> Step {
    Step { why: why.to_owned(), commands }
}

/// The step in which the owner changes. The target keeps its size in between, and has never two owners.
fn take_over(outcome: &Outcome) -> Step {
    let origin = &outcome.origin;
    // The old owner may have the External Metrics API, without which our HPA has nothing to go by and nobody would scale.
    let auto = if writes_by_hpa(outcome) { patch(outcome, r#""mode":"Auto","actuation":"Direct""#) } else { mode(outcome, "Auto") };
    match origin.kind.as_str() {
        "ScaledObject" => {
            let hpa = outcome.generated_hpa.as_deref().unwrap_or_default();
            step(
                "Hand over: paused, KEDA deletes its HPA and leaves the size as it is, and the scaler takes over at its next sync, within \
                 15 s. Not paused-replicas, which sets a size.",
                vec![
                    format!("kubectl annotate {} autoscaling.keda.sh/paused=true", object(origin)),
                    format!("kubectl wait --for=delete hpa/{hpa}{} --timeout=60s", flag(origin)),
                    auto,
                ],
            )
        }
        "VariantAutoscaling" => step(
            "Hand over: delete the HPA or the ScaledObject that carries out wva_desired_replicas, which is the one that writes, and then the \
             variant. The size stays as it is, and the scaler takes over at its next sync, within 15 s.",
            vec![format!("kubectl get hpa,scaledobject{}", flag(origin)), format!("kubectl delete {}", object(origin)), auto],
        ),
        _ => step(
            "Hand over: without its owner the target keeps its size, and the scaler takes over at its next sync, within 15 s.",
            vec![format!("kubectl delete {}", object(origin)), auto],
        ),
    }
}

/// Whether KEDA would set the size that the target had when the object was created.
fn restores(outcome: &Outcome) -> bool {
    let field = "spec.advanced.restoreToOriginalReplicaCount";
    outcome.fields.iter().any(|entry| entry.field == field && matches!(entry.fate, Fate::Lost(_)))
}

fn delete(outcome: &Outcome) -> Vec<String> {
    let object = object(&outcome.origin);
    let keep = format!(r#"kubectl patch {object} --type merge -p '{{"spec":{{"advanced":{{"restoreToOriginalReplicaCount":false}}}}}}'"#);
    restores(outcome).then_some(keep).into_iter().chain([format!("kubectl delete {object}")]).collect()
}

fn back(outcome: &Outcome) -> Vec<String> {
    let origin = &outcome.origin;
    let restore = format!("kubectl apply -f {}", file(origin));
    if origin.kind == "ScaledObject" {
        let unpause = format!("kubectl annotate {} autoscaling.keda.sh/paused-", object(origin));
        return vec![mode(outcome, "Recommend"), format!("{unpause}    # or, once it is deleted: {restore}")];
    }
    vec![mode(outcome, "Recommend"), restore]
}

fn writes_by_hpa(outcome: &Outcome) -> bool {
    matches!(&outcome.scaler, Some(Ok(draft)) if draft.spec.actuation == Actuation::HorizontalPodAutoscaler)
}

fn mode(outcome: &Outcome, mode: &str) -> String {
    patch(outcome, &format!(r#""mode":"{mode}""#))
}

/// Sets fields of the scaler's spec.
fn patch(outcome: &Outcome, fields: &str) -> String {
    let (name, flag) = (outcome.scaler_name(), flag(&outcome.origin));
    format!(r#"kubectl patch llmscaler/{name}{flag} --type merge -p '{{"spec":{{{fields}}}}}'"#)
}

fn object(origin: &Origin) -> String {
    format!("{}/{}{}", origin.short_kind(), origin.name, flag(origin))
}

fn file(origin: &Origin) -> String {
    let namespace = origin.namespace.as_ref().map_or_else(String::new, |namespace| format!("{namespace}."));
    format!("{namespace}{}.{}.yaml", origin.name, origin.kind.to_lowercase())
}

fn flag(origin: &Origin) -> String {
    origin.namespace.as_ref().map_or_else(String::new, |namespace| format!(" -n {namespace}"))
}
