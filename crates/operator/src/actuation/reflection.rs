//! What an HPA that stands in for the operator says, in the words of the status.

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerStatus;
use llmscaler_engine::{ConditionType, Reason, Replicas, Spec};

use super::HPA_IN_STEP;
use crate::apply::HpaError;
use crate::hpa::lost_without_tolerance;
use crate::report::Said;

/// What the HPA says of itself, or what is wrong with it.
#[derive(Debug, Default)]
pub(crate) struct Reflection {
    /// Where it heads for; `None` while it says nothing.
    pub desired: Option<i32>,
    pub conditions: Vec<Said>,
    /// Why the scaler cannot do its work.
    pub trouble: Option<(String, String)>,
}

impl Reflection {
    /// Of the HPA of a target of this size.
    pub(crate) fn of(
        spec: &Spec,
        replicas: Replicas,
        kept: Result<Option<HorizontalPodAutoscalerStatus>, HpaError>,
        tolerance: bool,
    ) -> Self {
        let in_step =
            |status, reason: &'static str, message| Said { kind: HPA_IN_STEP, status: Some(status), reason: reason.into(), message };
        let status = match kept {
            Ok(status) => status.unwrap_or_default(),
            Err(error) => {
                let (reason, message) = (reason(&error), error.to_string());
                let trouble = Some((reason.to_owned(), message.clone()));
                return Self { desired: None, conditions: vec![in_step(false, reason, message)], trouble };
            }
        };
        let lost = if tolerance { None } else { lost_without_tolerance(spec) };
        let mut conditions = vec![match lost {
            Some(lost) => in_step(true, "WithoutTolerance", lost),
            None => in_step(true, "InStep", "the HPA is as the scaler asks for".to_owned()),
        }];
        let known = [ConditionType::AbleToScale, ConditionType::ScalingActive, ConditionType::ScalingLimited].map(ConditionType::as_str);
        let told = status.conditions.unwrap_or_default();
        let seen = !told.is_empty();
        for condition in told {
            let Some(kind) = known.into_iter().find(|kind| *kind == condition.type_) else { continue };
            let status = match condition.status.as_str() {
                "True" => Some(true),
                "False" => Some(false),
                _ => None,
            };
            let (reason, message) = (condition.reason.unwrap_or_default(), condition.message.unwrap_or_default());
            conditions.push(Said { kind, status, reason: reason.into(), message: format!("the HPA: {message}") });
        }
        let disabled = Reason::ScalingDisabled.as_str();
        let active = conditions.iter().find(|condition| condition.kind == ConditionType::ScalingActive.as_str());
        let trouble = active
            .filter(|active| active.status == Some(false) && active.reason != disabled)
            .map(|active| (active.reason.to_string(), active.message.clone()));
        // At zero the HPA stands aside, and says so.
        let desired = (seen && replicas > Replicas::ZERO).then_some(status.desired_replicas);
        Self { desired, conditions, trouble }
    }
}

fn reason(error: &HpaError) -> &'static str {
    match error {
        HpaError::NotServed => "NotServed",
        HpaError::Pending => "Pending",
        HpaError::Foreign(_) => "APIServiceOwned",
        HpaError::ServeFailed(_) => "APIServiceFailed",
        HpaError::TargetOwned(_) => Reason::TargetOwned.as_str(),
        HpaError::NameTaken(_) => "NameTaken",
        HpaError::Api { .. } | HpaError::NotStanding(_) => "HPAFailed",
        HpaError::NotLeader => "NotLeader",
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerCondition;
    use serde_json::json;

    use super::super::tests::spec;
    use super::*;

    fn told(conditions: &[(&str, &str, &str)]) -> HorizontalPodAutoscalerStatus {
        let condition = |(kind, status, reason): &(&str, &str, &str)| HorizontalPodAutoscalerCondition {
            type_: (*kind).to_owned(),
            status: (*status).to_owned(),
            reason: Some((*reason).to_owned()),
            message: Some("why".to_owned()),
            ..HorizontalPodAutoscalerCondition::default()
        };
        let conditions = Some(conditions.iter().map(condition).collect());
        HorizontalPodAutoscalerStatus { conditions, desired_replicas: 5, ..HorizontalPodAutoscalerStatus::default() }
    }

    #[test]
    fn what_the_hpa_says_is_said() {
        let (spec, three) = (spec(json!({})), Replicas::new(3));
        let silent = Reflection::of(&spec, three, Ok(None), true);
        assert_eq!((silent.desired, silent.trouble.is_none(), silent.conditions.len()), (None, true, 1));
        let well = told(&[
            ("AbleToScale", "True", "ReadyForNewScale"),
            ("ScalingActive", "True", "ValidMetricFound"),
            ("ScaledToZero", "False", "x"),
        ]);
        let well = Reflection::of(&spec, three, Ok(Some(well)), true);
        let kinds: Vec<_> = well.conditions.iter().map(|one| (one.kind, one.status, one.reason.as_ref())).collect();
        let expected = [
            ("HPAInStep", Some(true), "InStep"),
            ("AbleToScale", Some(true), "ReadyForNewScale"),
            ("ScalingActive", Some(true), "ValidMetricFound"),
        ];
        assert_eq!((kinds.as_slice(), well.desired, well.trouble.is_none()), (&expected[..], Some(5), true));
        let aside = || told(&[("ScalingActive", "False", "ScalingDisabled")]);
        let aside = Reflection::of(&spec, Replicas::ZERO, Ok(Some(aside())), true);
        assert_eq!((aside.desired, aside.trouble), (None, None), "at zero it stands aside");
        let failing = told(&[("ScalingActive", "False", "FailedGetExternalMetric")]);
        let failing = Reflection::of(&spec, three, Ok(Some(failing)), true);
        assert_eq!(failing.trouble.unwrap().0, "FailedGetExternalMetric");
    }

    #[test]
    fn what_is_wrong_with_the_hpa_or_lost_is_said() {
        let (spec, three) = (spec(json!({})), Replicas::new(3));
        let foreign = Reflection::of(&spec, three, Err(HpaError::Foreign("KEDA has it".to_owned())), true);
        assert_eq!(foreign.trouble, Some(("APIServiceOwned".to_owned(), "KEDA has it".to_owned())));
        assert_eq!((foreign.conditions[0].status, foreign.conditions[0].reason.as_ref()), (Some(false), "APIServiceOwned"));
        let lossy = Reflection::of(&spec, three, Ok(None), false);
        assert_eq!((lossy.conditions[0].status, lossy.conditions[0].reason.as_ref()), (Some(true), "WithoutTolerance"));
        assert!(lossy.conditions[0].message.contains("behavior.tolerance"), "{:?}", lossy.conditions[0]);
    }
}
