//! Whether the target is there, can be scaled, and its pods get along.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use llmscaler_api::Scaler;
use serde_json::Value;

use super::finding::Finding;
use super::gather::{Fact, Target};

const CHECK: &str = "target";

/// What to do about pods that are not ready.
const NOT_READY: &str = "wait, or kubectl describe pod";

/// Whether there is a target with a size.
pub fn check(scaler: &Scaler, namespace: &str, target: &Fact<Target>) -> Vec<Finding> {
    let reference = &scaler.target;
    let what = format!("{} {}", reference.kind, reference.name);
    match target {
        Err(why) => vec![Finding::unseen(CHECK, &what, why)],
        Ok(Target::Unserved) => vec![Finding::problem(
            CHECK,
            format!("the API server serves no {} in {}", reference.kind, reference.api_version()),
            "correct spec.targetRef, or install the definition of that kind",
        )],
        Ok(Target::Missing { others }) => {
            let others = if others.is_empty() { String::new() } else { format!("; there is {}", others.join(", ")) };
            let found = format!("there is no {what} in namespace {namespace}{others}");
            vec![Finding::problem(CHECK, found, "correct spec.targetRef.name, or create it: the scaler picks it up by itself")]
        }
        Ok(Target::Found { object, has_scale, .. }) => {
            let mut findings: Vec<Finding> = refused_pods(object).into_iter().collect();
            findings.push(of_size(&what, object, *has_scale));
            findings
        }
    }
}

fn of_size(what: &str, object: &Value, has_scale: bool) -> Finding {
    let size = object.pointer("/spec/replicas").and_then(Value::as_i64);
    let ready = object.pointer("/status/readyReplicas").and_then(Value::as_i64).unwrap_or(0);
    match (size, has_scale) {
        (None, false) => Finding::problem(
            CHECK,
            format!("{what} has neither spec.replicas nor a scale subresource, so nothing can scale it"),
            "name what makes its pods in spec.targetRef",
        ),
        (Some(1), _) if ready < 1 => Finding::note(CHECK, format!("{what} has 1 replica, which is not ready"), NOT_READY),
        (Some(size), _) if ready < size => Finding::note(CHECK, format!("{what} has {size} replicas, {ready} of them ready"), NOT_READY),
        (Some(0), _) => Finding::ok(CHECK, format!("{what} has 0 replicas")),
        (Some(1), _) => Finding::ok(CHECK, format!("{what} has 1 replica, which is ready")),
        (Some(size), _) => Finding::ok(CHECK, format!("{what} has {size} replicas, all ready")),
        (None, true) => Finding::ok(CHECK, format!("{what} is scaled through its scale subresource")),
    }
}

/// A quota or a webhook may refuse pods.
fn refused_pods(object: &Value) -> Option<Finding> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    let refused = conditions.iter().find(|one| one["type"] == "ReplicaFailure" && one["status"] == "True")?;
    let message = refused["message"].as_str().unwrap_or_default();
    Some(Finding::problem(CHECK, format!("its pods are refused: {message}"), "raise the quota, or lower maxReplicas to what it allows"))
}

/// Pods that find no node.
pub fn check_pods(pods: &Fact<Vec<Pod>>) -> Option<Finding> {
    let pods = match pods {
        Ok(pods) => pods,
        Err(why) => return Some(Finding::unseen("pods", "the pods of the target", why)),
    };
    let waiting: Vec<(String, String)> = pods.iter().filter_map(|pod| Some((pod.name_any(), unschedulable(pod)?))).collect();
    let (name, why) = waiting.first()?;
    let more = if waiting.len() > 1 { format!(" and {} more find no node", waiting.len() - 1) } else { " finds no node".to_owned() };
    let advice = "add nodes with free GPUs, or lower maxReplicas; meanwhile the scaler asks for no more";
    Some(Finding::warning("pods", format!("pod {name}{more}: {why}"), advice))
}

fn unschedulable(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let scheduled = conditions.iter().find(|condition| condition.type_ == "PodScheduled")?;
    let waits = scheduled.status == "False" && scheduled.reason.as_deref() == Some("Unschedulable");
    waits.then(|| scheduled.message.clone().unwrap_or_default())
}

/// Budgets that let no pod go. They keep nodes from being drained, and never a scale-down.
pub fn check_budgets(target: &Fact<Target>, budgets: &Fact<Vec<PodDisruptionBudget>>) -> Vec<Finding> {
    let (Ok(Target::Found { object, .. }), Ok(budgets)) = (target, budgets) else { return vec![] };
    let labels = pod_template(object).and_then(|template| template.pointer("/metadata/labels"));
    let blocking = budgets.iter().filter(|budget| is_about(budget, labels) && lets_nobody_go(budget));
    let findings = blocking.map(|budget| {
        let found = format!("PodDisruptionBudget {} lets no pod go at present", budget.name_any());
        Finding::note("budget", found, "scaling is not held up by it, draining a node is; keep minAvailable below minReplicas")
    });
    findings.collect()
}

fn is_about(budget: &PodDisruptionBudget, labels: Option<&Value>) -> bool {
    let wanted = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref()?.match_labels.as_ref());
    wanted.is_some_and(|wanted| !wanted.is_empty() && wanted.iter().all(|(key, value)| labels.is_some_and(|labels| labels[key] == **value)))
}

fn lets_nobody_go(budget: &PodDisruptionBudget) -> bool {
    budget.status.as_ref().is_some_and(|status| status.disruptions_allowed == 0 && status.expected_pods > 0)
}

/// What the pods of a target are made from: of a LeaderWorkerSet, its leaders.
pub fn pod_template(object: &Value) -> Option<&Value> {
    let places = ["/spec/template", "/spec/leaderWorkerTemplate/leaderTemplate", "/spec/leaderWorkerTemplate/workerTemplate"];
    places.iter().find_map(|place| object.pointer(place))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::doctor::finding::Severity;
    use crate::doctor::tests::scaler;

    fn found(object: Value, has_scale: bool) -> Vec<(Severity, String)> {
        let target = Ok(Target::Found { object, has_scale, plural: "deployments".to_owned() });
        check(&scaler(json!({})), "serving", &target).into_iter().map(|finding| (finding.severity, finding.found)).collect()
    }

    #[test]
    fn a_target_is_there_or_what_is_there_instead_is_told() {
        let severity = |target| check(&scaler(json!({})), "serving", &target)[0].clone();
        assert_eq!(severity(Ok(Target::Unserved)).severity, Severity::Problem);
        let missing = severity(Ok(Target::Missing { others: vec!["vllm-2".to_owned()] }));
        assert_eq!(missing.found, "there is no Deployment vllm in namespace serving; there is vllm-2");
        let alone = severity(Ok(Target::Missing { others: vec![] }));
        assert_eq!(alone.found, "there is no Deployment vllm in namespace serving");
        assert_eq!(severity(Err("forbidden".to_owned())).severity, Severity::Note);
    }

    #[test]
    fn a_target_has_a_size_and_pods_that_are_ready() {
        let ready = |ready: i64| json!({"spec": {"replicas": 3}, "status": {"readyReplicas": ready}});
        assert_eq!(found(ready(3), true), [(Severity::Ok, "Deployment vllm has 3 replicas, all ready".to_owned())]);
        assert_eq!(found(ready(1), true), [(Severity::Note, "Deployment vllm has 3 replicas, 1 of them ready".to_owned())]);
        for (size, ready, told) in [(1, 1, "1 replica, which is ready"), (1, 0, "1 replica, which is not ready"), (0, 0, "0 replicas")] {
            let object = json!({"spec": {"replicas": size}, "status": {"readyReplicas": ready}});
            assert_eq!(found(object, true)[0].1, format!("Deployment vllm has {told}"));
        }
        assert_eq!(found(json!({}), false)[0].0, Severity::Problem);
        assert_eq!(found(json!({}), true)[0].0, Severity::Ok);
        let quota = json!([{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: gpus"}]);
        let refused = found(json!({"spec": {"replicas": 3}, "status": {"conditions": quota}}), true);
        assert_eq!(refused[0], (Severity::Problem, "its pods are refused: exceeded quota: gpus".to_owned()));
    }

    #[test]
    fn a_pod_without_a_node_is_named_with_the_schedulers_words() {
        let pod = |name: &str, reason: &str| -> Pod {
            let condition =
                json!({"type": "PodScheduled", "status": "False", "reason": reason, "message": "0/4 nodes: Insufficient nvidia.com/gpu"});
            serde_json::from_value(json!({"metadata": {"name": name}, "status": {"conditions": [condition]}})).unwrap()
        };
        let finding = check_pods(&Ok(vec![pod("a", "Unschedulable"), pod("b", "Unschedulable"), pod("c", "SchedulerError")])).unwrap();
        assert_eq!(finding.found, "pod a and 1 more find no node: 0/4 nodes: Insufficient nvidia.com/gpu");
        assert_eq!(check_pods(&Ok(vec![pod("c", "SchedulerError")])), None);
    }

    #[test]
    fn only_a_budget_of_these_pods_that_lets_nobody_go_is_told() {
        let budget = |app: &str, allowed: i32| -> PodDisruptionBudget {
            let status = json!({"disruptionsAllowed": allowed, "expectedPods": 3, "currentHealthy": 3, "desiredHealthy": 3});
            let spec = json!({"selector": {"matchLabels": {"app": app}}});
            serde_json::from_value(json!({"metadata": {"name": app}, "spec": spec, "status": status})).unwrap()
        };
        let object = json!({"spec": {"template": {"metadata": {"labels": {"app": "vllm", "x": "y"}}}}});
        let target = Ok(Target::Found { object, has_scale: true, plural: "deployments".to_owned() });
        let found = check_budgets(&target, &Ok(vec![budget("vllm", 0), budget("vllm", 1), budget("other", 0)]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].severity, Severity::Note);
    }
}
