//! What is left to the operator where an HPA moves the target: zero and one, and to tell what the HPA says.

use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerStatus;
use kube::ResourceExt;
use llmscaler_api::{Actuation, LLMScaler, Scaler};
use llmscaler_engine::{ConditionType, Decision, Mode, Reason, Replicas, Spec, Stage, StageTrace, Victims};
use tokio::time::Instant;
use tracing::debug;

use crate::apply::{HpaError, OwnHpa, keep_hpa, remove_hpa};
use crate::context::Context;
use crate::external_metrics::Readings;
use crate::hpa::{label_of, lost_without_tolerance, values};
use crate::report::Said;

/// For how many sync periods a reading stands.
const PERIODS: u32 = 3;
/// How late a sync may be besides.
const LATENESS: Duration = Duration::from_secs(5);

/// The condition that says whether the HPA is as the scaler asks for.
pub(crate) const HPA_IN_STEP: &str = "HPAInStep";

/// Whether an HPA stands in for the operator.
pub(crate) fn by_hpa(scaler: &Scaler) -> bool {
    scaler.actuation == Actuation::HorizontalPodAutoscaler && scaler.spec.mode == Mode::Auto
}

/// The decision, as far as it is the operator's to carry out: from zero to one when there is demand, from one to zero when there has been
/// none for the cooldown. Windows, policies and guards are left out, for those of the HPA hold, or none.
pub(crate) fn zero_or_one(spec: &Spec, mut decision: Decision) -> Decision {
    let current = decision.replicas;
    let bounded = decision.out_of(Stage::Bound);
    let wanted = match current {
        Replicas::ZERO => bounded.min(Replicas::ONE),
        Replicas::ONE if bounded == Replicas::ZERO => Replicas::ZERO,
        _ => current,
    };
    let owner = decision.conditions.iter().find(|condition| condition.kind == ConditionType::TargetOwned && !condition.status);
    let count = if owner.is_some() { current } else { wanted };
    let because = |stage| decision.stages.iter().find(|trace| trace.stage == stage).map_or_else(String::new, |trace| trace.message.clone());

    let left = format!("the sources ask for {bounded}; between one and {} the HPA decides", spec.bounds.max);
    let (reason, message) = match owner {
        Some(owner) if wanted != current => (Reason::TargetOwned, format!("the target is left alone: {}", owner.message)),
        _ if count != current => {
            let direction = if count > current { "up" } else { "down" };
            let why = because(Stage::Activate);
            (Reason::SuccessfulRescale, format!("{direction} from {current} to {count}: {why}"))
        }
        _ if current == Replicas::ZERO => (Reason::Idle, because(Stage::Activate)),
        _ if bounded == current => (Reason::DesiredWithinRange, left),
        _ => (Reason::NoChange, left),
    };
    decision.stages.retain(|trace| matches!(trace.stage, Stage::Recommend | Stage::Activate | Stage::Bound));
    let mut add = |stage, count_in, out, reason, message: &str| {
        decision.stages.push(StageTrace { stage, count_in, out, reason, message: message.to_owned() });
    };
    add(Stage::Stabilise, bounded, bounded, Reason::ReadyForNewScale, "the windows are the HPA's");
    add(Stage::Pace, bounded, count, Reason::DesiredWithinRange, "the operator moves between zero and one, and the HPA from one up");
    let (guarded, written) =
        if count == current { (Reason::NoChange, Reason::NoChange) } else { (Reason::Settled, Reason::SuccessfulRescale) };
    add(Stage::Guard, count, count, guarded, if owner.is_some() { &message } else { "nothing is waited for" });
    add(Stage::Write, count, count, written, &message);
    decision.conditions.retain(|condition| !matches!(condition.kind, ConditionType::AbleToScale | ConditionType::ScalingLimited));
    Decision { desired: bounded, write: (count != current).then_some(count), victims: Victims::default(), reason, message, ..decision }
}

/// Hands what was read to the HPA. It stands for a few periods: longer than a sync may be late, and shorter than a fleet may rely on it.
pub(crate) fn feed(context: &Context, object: &LLMScaler, scaler: &Scaler, decision: &Decision) {
    let Some(external) = &context.external_metrics else { return };
    let name = object.name_any();
    let readings = Readings {
        label: label_of(object),
        metrics: values(&name, &scaler.spec, decision),
        at: context.clock.timestamp(),
        until: Instant::now() + context.clock.lasts(scaler.spec.sync_period * PERIODS) + LATENESS,
    };
    external.published.put(&object.namespace().unwrap_or_default(), &name, readings);
}

/// Keeps the HPA as the scaler asks for, and answers what it says. Where somebody else writes the target there is none.
pub(crate) async fn stand_in(
    context: &Context,
    object: &LLMScaler,
    scaler: &Scaler,
    own: &mut OwnHpa,
    decision: &Decision,
    other_owner: Option<&str>,
) -> Reflection {
    let kept = match other_owner {
        None => keep_hpa(context, object, scaler, own).await,
        Some(owner) => remove_hpa(context, object, own).await.and_then(|()| Err(HpaError::TargetOwned(owner.to_owned()))),
    };
    if let Err(error) = &kept {
        debug!(%error, "The HPA is not as the scaler asks for");
    }
    Reflection::of(&scaler.spec, decision.replicas, kept, own.tolerance)
}

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
        HpaError::Api { .. } => "HPAFailed",
        HpaError::NotLeader => "NotLeader",
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerCondition;
    use llmscaler_engine::{Memory, Observation, Reading, Time, Workload, decide};
    use serde_json::{Value, json};

    use super::*;

    fn spec(more: Value) -> Spec {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "fleet"});
        let metrics = json!([{"name": "queue", "query": "q", "target": "1", "metricType": "AverageValue"}]);
        let mut spec = json!({"targetRef": target, "serverAddress": "http://prometheus", "minReplicas": 0, "maxReplicas": 9,
            "actuation": "HorizontalPodAutoscaler", "metrics": metrics});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let object: LLMScaler = serde_json::from_value(json!({"metadata": {"name": "fleet"}, "spec": spec})).unwrap();
        object.parse().unwrap().spec
    }

    fn decided(spec: &Spec, replicas: u32, reading: Reading, other_owner: Option<String>) -> Decision {
        let (replicas, ready) = (Replicas::new(replicas), Replicas::new(replicas));
        let seen = Observation {
            workload: Workload { replicas, ready, other_owner, ..Workload::default() },
            readings: vec![reading],
            traffic: None,
        };
        zero_or_one(spec, decide(spec, &seen, &Memory::default(), Time::default()))
    }

    #[test]
    fn the_operator_moves_between_zero_and_one_alone() {
        let (eager, patient) = (spec(json!({})), spec(json!({"idle": {"cooldownSeconds": 300}})));
        let at_least_two = spec(json!({"minReplicas": 2}));
        let unknown = || Reading::unknown("no answer");
        for (spec, replicas, reading, write) in [
            (&eager, 0, Reading::from_number(7.0), Some(1)),
            (&eager, 0, Reading::Idle, None),
            (&eager, 0, unknown(), None),
            (&eager, 1, Reading::from_number(7.0), None),
            (&eager, 1, Reading::Idle, Some(0)),
            (&eager, 1, unknown(), None),
            (&eager, 4, Reading::Idle, None),
            (&eager, 40, Reading::from_number(3.0), None),
            (&patient, 1, Reading::Idle, None),
            (&at_least_two, 0, Reading::Idle, Some(1)),
            (&at_least_two, 1, Reading::Idle, None),
        ] {
            let decision = decided(spec, replicas, reading.clone(), None);
            assert_eq!(decision.write.map(Replicas::get), write, "{replicas} {reading:?}: {decision:#?}");
            assert!(!decision.deferred(), "what is the HPA's is not waited for");
            assert_eq!(decision.stages.len(), 7);
            assert!(decision.stages.windows(2).all(|pair| pair[0].out == pair[1].count_in), "{:#?}", decision.stages);
        }
    }

    #[test]
    fn a_target_of_somebody_else_is_left_alone() {
        let decision = decided(&spec(json!({})), 0, Reading::from_number(7.0), Some("LLMScaler b scales it".to_owned()));
        assert_eq!((decision.write, decision.reason, decision.deferred()), (None, Reason::TargetOwned, false));
        assert!(decision.message.contains("LLMScaler b"), "{}", decision.message);
    }

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
