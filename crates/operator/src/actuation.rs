//! What is left to the operator where an HPA moves the target: zero and one, and to tell what the HPA says.

mod reflection;

use std::time::Duration;

use kube::ResourceExt;
use llmscaler_api::{Actuation, LLMScaler, Scaler};
use llmscaler_engine::{ConditionType, Decision, Mode, Reason, Replicas, Spec, Stage, StageTrace, Victims};
use tokio::time::Instant;
use tracing::debug;

use crate::apply::{HpaError, OwnHpa, keep_hpa, remove_hpa};
use crate::context::Context;
use crate::external_metrics::Readings;
use crate::hpa::{label_of, values};

pub(crate) use self::reflection::Reflection;

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

#[cfg(test)]
mod tests {
    use llmscaler_engine::{Memory, Observation, Reading, Time, Workload, decide};
    use serde_json::{Value, json};

    use super::*;

    pub(super) fn spec(more: Value) -> Spec {
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
}
