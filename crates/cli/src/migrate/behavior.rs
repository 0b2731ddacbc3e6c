//! The behaviour of an autoscaling/v2 HPA with its defaults written out, as KEDA hands it on as well.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use llmscaler_api::{Behavior, Invalid, PolicyType, ScalingPolicy, ScalingRules, SelectPolicy};
use serde::de::DeserializeOwned;

use super::ledger::Node;

/// The tolerance of the HPA, unless its controller is run with another.
const TOLERANCE: &str = "0.1";

/// What is left out of a direction.
struct Defaults {
    window: i32,
    policies: Vec<ScalingPolicy>,
}

fn policy(kind: PolicyType, value: i32) -> ScalingPolicy {
    ScalingPolicy { kind, value, period_seconds: 15 }
}

fn up() -> Defaults {
    Defaults { window: 0, policies: vec![policy(PolicyType::Pods, 4), policy(PolicyType::Percent, 100)] }
}

fn down() -> Defaults {
    Defaults { window: 300, policies: vec![policy(PolicyType::Percent, 100)] }
}

/// The behaviour at `node`, or the defaults where there is none. `tolerant` says whether a metric is compared with a target, so that a
/// tolerance has something to apply to.
pub fn behavior(node: Option<&Node<'_>>, tolerant: bool) -> Result<Behavior, Invalid> {
    let direction = |name: &str, defaults: Defaults| rules(node.and_then(|node| node.get(name)).as_ref(), name, defaults, tolerant);
    Ok(Behavior { scale_up: Some(direction("scaleUp", up())?), scale_down: Some(direction("scaleDown", down())?) })
}

fn rules(node: Option<&Node<'_>>, direction: &str, defaults: Defaults, tolerant: bool) -> Result<ScalingRules, Invalid> {
    let to = |name: &str| format!("behavior.{direction}.{name}");
    let get = |name: &str| node.and_then(|node| node.get(name)).inspect(|field| field.carried(to(name)));
    let window = get("stabilizationWindowSeconds").map(|field| field.int()).transpose()?;
    let select = get("selectPolicy").map(|field| typed(&field, "must be Max, Min or Disabled")).transpose()?;
    let tolerance = get("tolerance").map(|field| field.text()).transpose()?;
    let policies = node.and_then(|node| node.get("policies")).map(|list| {
        list.items().iter().enumerate().map(|(index, item)| one(item, &to(&format!("policies[{index}]")))).collect::<Result<Vec<_>, _>>()
    });
    Ok(ScalingRules {
        stabilization_window_seconds: Some(window.unwrap_or(defaults.window)),
        select_policy: Some(select.unwrap_or(SelectPolicy::Max)),
        policies: Some(policies.transpose()?.filter(|list| !list.is_empty()).unwrap_or(defaults.policies)),
        tolerance: tolerance.or(tolerant.then(|| TOLERANCE.to_owned())).map(IntOrString::String),
    })
}

fn one(item: &Node<'_>, to: &str) -> Result<ScalingPolicy, Invalid> {
    let need = |name: &str| item.need(name).inspect(|field| field.carried(format!("{to}.{name}")));
    Ok(ScalingPolicy {
        kind: typed(&need("type")?, "must be Pods or Percent")?,
        value: need("value")?.int()?,
        period_seconds: need("periodSeconds")?.int()?,
    })
}

fn typed<T: DeserializeOwned>(node: &Node<'_>, expected: &str) -> Result<T, Invalid> {
    serde_json::from_value(node.value().clone()).map_err(|_| node.invalid(expected))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::migrate::ledger::{Fate, Ledger};

    fn read(given: &Value) -> (Behavior, Vec<Fate>) {
        let ledger = Ledger::default();
        let read = behavior(Some(&Node::root(given, &ledger)), true).unwrap();
        (read, ledger.close(given).into_iter().map(|entry| entry.fate).collect())
    }

    #[test]
    fn what_is_left_out_is_written_out() {
        let (written, _) = read(&json!({}));
        assert_eq!(
            serde_json::to_value(written).unwrap(),
            json!({
                "scaleUp": {
                    "stabilizationWindowSeconds": 0, "selectPolicy": "Max", "tolerance": "0.1",
                    "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}],
                },
                "scaleDown": {
                    "stabilizationWindowSeconds": 300, "selectPolicy": "Max", "tolerance": "0.1",
                    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
                },
            })
        );
    }

    #[test]
    fn what_is_given_stays_and_is_accounted_for() {
        let given = json!({
            "scaleUp": {"selectPolicy": "Disabled", "tolerance": "50m"},
            "scaleDown": {"stabilizationWindowSeconds": 60, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 120}]},
        });
        let (written, fates) = read(&given);
        let up = written.scale_up.unwrap();
        assert_eq!((up.select_policy, up.tolerance), (Some(SelectPolicy::Disabled), Some(IntOrString::String("50m".into()))));
        let down = written.scale_down.unwrap();
        assert_eq!(down.stabilization_window_seconds, Some(60));
        assert_eq!(down.policies.unwrap(), [ScalingPolicy { kind: PolicyType::Pods, value: 1, period_seconds: 120 }]);
        assert!(fates.len() == 6 && fates.iter().all(|fate| matches!(fate, Fate::Carried(_))), "{fates:?}");
    }
}
