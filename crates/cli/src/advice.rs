//! What to do about the state that a scaler reports, in one sentence for each reason. docs/conditions.md says it at more length.

/// How much a state matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// It passes, or is meant.
    Note,
    /// The fleet does not do what was asked of it, or may not soon.
    Warning,
    /// The scaler cannot do its work.
    Problem,
}

/// What a condition in this state weighs and what to do about it; `None` when all is well. `Ready` only sums up the others.
pub fn on(kind: &str, status: &str, reason: &str) -> Option<(Weight, &'static str)> {
    use Weight::{Note, Problem, Warning};
    Some(match (kind, status, reason) {
        ("Ready" | "AbleToScale" | "ScalingActive", "False", "InvalidSpec") => {
            (Problem, "edit the object: the message names the field and what to write there")
        }
        ("AbleToScale", "False", "FailedGetScale") => (Problem, "check targetRef, and that the operator may read the target"),
        ("AbleToScale", "False", "FailedUpdateScale") => {
            (Problem, "the API server refused the new size: look for a quota, a webhook, or missing rights of the operator")
        }
        ("ScalingActive", "False", "FailedGetMetrics") => {
            (Problem, "no source is known and the fleet keeps its size: each metric's message says what was asked and what came back")
        }
        ("ScalingActive", "False", "ScalingDisabled") => (Note, "maxReplicas is 0; raise it if that is not meant"),
        ("AbleToScale", "True", "ScaleUpStabilized" | "ScaleDownStabilized") => {
            (Note, "wait: the stabilization window holds the count; shorten it if it is always in your way")
        }
        ("AbleToScale", "False", "RolloutInProgress") => (Note, "wait for the rollout; kubectl rollout status tells how far it is"),
        ("AbleToScale", "False", "NotSettled") => (Note, "wait until the pods are ready or gone"),
        ("AbleToScale", "False", "RecommendOnly") => (Note, "set mode: Auto when you like what it recommends"),
        ("CapacityAvailable", "False", _) | ("AbleToScale", "False", "Unschedulable") => {
            (Warning, "add nodes, or lower maxReplicas; kubectl describe pod tells what the scheduler misses")
        }
        ("TargetOwned", "False", "RecommendOnly") => (Note, "nothing: it watches what somebody else scales"),
        ("TargetOwned", "False", _) | ("AbleToScale", "False", "TargetOwned") => {
            (Problem, "remove the other one, keep it from spec.replicas, or set mode: Recommend; docs/ownership.md tells how")
        }
        ("ScalingLimited", "True", "TooManyReplicas") => (Warning, "raise maxReplicas, if the load is real"),
        ("ScalingLimited", "True", "TooFewReplicas") => (Note, "nothing: less would do, and minReplicas is kept"),
        ("ScalingLimited", "True", "ScaleUpLimit" | "ScaleDownLimit") => {
            (Note, "allow larger steps in behavior, or a larger maxStepReplicas, if this is too slow")
        }
        ("ScalingLimited", "True", "ScalingDisabled") => {
            (Note, "selectPolicy is Disabled in this direction; change it if that is not meant")
        }
        ("QueriesScoped", "False", _) => (Warning, "add the label that the message names, to preset.matchLabels or to the query"),
        ("QueriesScoped", "Unknown", _) => (Note, "run the query in the Prometheus UI; if it is of a dialect, all is well"),
        ("ModelOff", "True", _) => (Warning, "name a slo.profile that is measured on this engine"),
        ("AtMax", "True", _) => (Warning, "raise maxReplicas, if the load is real"),
        ("TargetUnreachable", "True", "PromptsTooLong") => (Warning, "raise slo.ttft, lower slo.objective, or serve long prompts apart"),
        ("TargetUnreachable", "True", "StepsTooSlow") => (Warning, "raise slo.tpot, or serve a faster engine"),
        ("TargetUnreachable", "True", _) => {
            (Warning, "look for a cause that replicas do not cure, such as a slow gateway; else raise the promise or lower slo.objective")
        }
        ("ColdHistory", "True", _) => (Note, "nothing: it passes within 15 minutes"),
        ("SignalMissing", "True", "ArrivalsUnknown") => {
            (Warning, "check the metrics of the gateway, or those that count the engine's requests")
        }
        ("SignalMissing", "True", _) => (Warning, "check the metrics of the engine; the strategy goes on with what it learned last"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows `| `KIND` STATUS, `REASON` | do |` of the page.
    fn rows() -> Vec<(String, String, String)> {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/conditions.md")).unwrap();
        let mut rows = vec![];
        for line in page.lines().filter(|line| line.starts_with("| `")) {
            let Some((kind, rest)) = line.trim_start_matches("| `").split_once("` ") else { continue };
            let Some((status, rest)) = rest.split_once(", `") else { continue };
            let state = rest.split('|').next().unwrap_or_default();
            if !matches!(status, "True" | "False" | "Unknown") {
                continue;
            }
            for reason in state.trim().trim_end_matches('`').split("` or `") {
                rows.push((kind.to_owned(), status.to_owned(), reason.to_owned()));
            }
        }
        rows
    }

    #[test]
    fn every_state_that_the_page_advises_on_is_advised_on_here() {
        let rows = rows();
        assert!(rows.len() > 20, "{rows:?}");
        for (kind, status, reason) in rows {
            assert!(on(&kind, &status, &reason).is_some(), "{kind} {status} {reason}");
        }
    }

    #[test]
    fn nothing_is_said_of_what_is_well() {
        for (kind, status, reason) in
            [("Ready", "True", "ValidMetricFound"), ("AbleToScale", "True", "ReadyForNewScale"), ("AtMax", "False", "DemandWithinMax")]
        {
            assert_eq!(on(kind, status, reason), None);
        }
    }
}
