//! `spec.behavior`, with the field names of autoscaling/v2.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use llmscaler_engine as engine;
use serde::{Deserialize, Serialize};

use crate::invalid::{Invalid, count, seconds};
use crate::number::quantity;
use crate::rules;

/// How the number of replicas may move, for each direction. A direction that is left out has the defaults of autoscaling/v2.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Behavior {
    /// Rules for growing. By default no window, and the larger of 4 pods and 100 per cent within 15 seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_up: Option<ScalingRules>,

    /// Rules for shrinking. By default a window of 300 seconds, and 100 per cent within 15 seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_down: Option<ScalingRules>,
}

/// Rules for one direction.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ScalingRules {
    /// Seconds, 0 to 3600, whose recommendations hold the number of replicas back: growing takes the lowest of them, shrinking the
    /// highest. 0 for scaleUp and 300 for scaleDown by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rules::BEHAVIOR_WINDOW)]
    pub stabilization_window_seconds: Option<i32>,

    /// Which policy counts: Max, the default, is the one that allows the largest change, Min the smallest. Disabled closes the direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub select_policy: Option<SelectPolicy>,

    /// Limits on the change within a period. At least one where the list is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = rules::POLICIES)]
    pub policies: Option<Vec<ScalingPolicy>>,

    /// How far the metric may be off its target, as a part of the target, before this direction acts: a number of at least 0 in quotes.
    /// "0.1", ten per cent, by default. It does not apply while the target has no replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rules::TOLERANCE)]
    pub tolerance: Option<IntOrString>,
}

/// Which policy of a direction counts.
#[derive(Serialize, Deserialize, schemars::JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SelectPolicy {
    /// The one that allows the largest change.
    #[default]
    Max,
    /// The one that allows the smallest change.
    Min,
    /// None: the direction is closed.
    Disabled,
}

/// A limit on the change within a period.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ScalingPolicy {
    /// What value counts: Pods, or Percent of the replicas at the start of the period.
    #[serde(rename = "type")]
    pub kind: PolicyType,

    /// Largest change within the period, above 0.
    #[x_kube(validation = rules::POLICY_VALUE)]
    pub value: i32,

    /// Length of the period in seconds, 1 to 1800.
    #[x_kube(validation = rules::POLICY_PERIOD)]
    pub period_seconds: i32,
}

/// What a policy counts.
#[derive(Serialize, Deserialize, schemars::JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyType {
    /// Replicas.
    Pods,
    /// Per cent of the replicas at the start of the period.
    Percent,
}

/// The tolerance of autoscaling/v2 on either side.
const DEFAULT_TOLERANCE: f64 = 0.1;

impl Behavior {
    /// The behaviour with the defaults of autoscaling/v2 filled in.
    pub(crate) fn parse(&self) -> Result<engine::Behavior, Invalid> {
        use engine::PolicyLimit::{Percent, Pods};
        let within_15_s = |limit| engine::Policy { limit, period: Duration::from_secs(15) };
        let up = self.scale_up.clone().unwrap_or_default();
        let down = self.scale_down.clone().unwrap_or_default();
        Ok(engine::Behavior {
            up: up.parse("spec.behavior.scaleUp", 0, vec![within_15_s(Pods(4)), within_15_s(Percent(100))])?,
            down: down.parse("spec.behavior.scaleDown", 300, vec![within_15_s(Percent(100))])?,
        })
    }
}

impl ScalingRules {
    fn parse(&self, field: &str, default_window: i32, default_policies: Vec<engine::Policy>) -> Result<engine::ScalingRules, Invalid> {
        let window = self.stabilization_window_seconds.unwrap_or(default_window);
        let window_field = format!("{field}.stabilizationWindowSeconds");
        if window > 3600 {
            return Err(Invalid::new(window_field, rules::BEHAVIOR_WINDOW.message));
        }
        let policies = match &self.policies {
            None => default_policies,
            Some(list) if list.is_empty() => return Err(Invalid::new(format!("{field}.policies"), rules::POLICIES.message)),
            Some(list) => list
                .iter()
                .enumerate()
                .map(|(index, policy)| policy.parse(&format!("{field}.policies[{index}]")))
                .collect::<Result<_, _>>()?,
        };
        let tolerance = self.tolerance.as_ref().map_or(Some(DEFAULT_TOLERANCE), quantity).and_then(engine::Measurement::new);
        Ok(engine::ScalingRules {
            window: seconds(window_field, window, rules::BEHAVIOR_WINDOW.message)?,
            select: match self.select_policy.unwrap_or_default() {
                SelectPolicy::Max => engine::SelectPolicy::Max,
                SelectPolicy::Min => engine::SelectPolicy::Min,
                SelectPolicy::Disabled => engine::SelectPolicy::Disabled,
            },
            policies,
            tolerance: tolerance.ok_or_else(|| Invalid::new(format!("{field}.tolerance"), rules::TOLERANCE.message))?,
        })
    }
}

impl ScalingPolicy {
    fn parse(&self, field: &str) -> Result<engine::Policy, Invalid> {
        let invalid = |name: &str, rule: rules::Rule| Invalid::new(format!("{field}.{name}"), rule.message);
        if self.value < 1 {
            return Err(invalid("value", rules::POLICY_VALUE));
        }
        if !(1..=1800).contains(&self.period_seconds) {
            return Err(invalid("periodSeconds", rules::POLICY_PERIOD));
        }
        let value = count(format!("{field}.value"), self.value, rules::POLICY_VALUE.message)?;
        Ok(engine::Policy {
            limit: match self.kind {
                PolicyType::Pods => engine::PolicyLimit::Pods(value),
                PolicyType::Percent => engine::PolicyLimit::Percent(value),
            },
            period: seconds(format!("{field}.periodSeconds"), self.period_seconds, rules::POLICY_PERIOD.message)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use engine::PolicyLimit::{Percent, Pods};
    use serde_json::{Value, json};

    use super::*;

    fn parsed(behavior: Value) -> engine::Behavior {
        serde_json::from_value::<Behavior>(behavior).unwrap().parse().unwrap()
    }

    fn policy(limit: engine::PolicyLimit, seconds: u64) -> engine::Policy {
        engine::Policy { limit, period: Duration::from_secs(seconds) }
    }

    #[test]
    fn what_is_left_out_has_the_defaults_of_autoscaling_v2() {
        let tolerance = engine::Measurement::new(0.1).unwrap();
        let up = engine::ScalingRules {
            window: Duration::ZERO,
            select: engine::SelectPolicy::Max,
            policies: vec![policy(Pods(4), 15), policy(Percent(100), 15)],
            tolerance,
        };
        let down = engine::ScalingRules { window: Duration::from_secs(300), policies: vec![policy(Percent(100), 15)], ..up.clone() };
        let expected = engine::Behavior { up, down };
        assert_eq!(parsed(json!({})), expected);
        assert_eq!(parsed(json!({"scaleUp": {}, "scaleDown": {}})), expected);
    }

    #[test]
    fn what_is_given_is_kept() {
        let behavior = parsed(json!({
            "scaleUp": {"tolerance": 0, "selectPolicy": "Disabled"},
            "scaleDown": {
                "stabilizationWindowSeconds": 0,
                "selectPolicy": "Min",
                "policies": [{"type": "Percent", "value": 10, "periodSeconds": 60}, {"type": "Pods", "value": 5, "periodSeconds": 1800}],
                "tolerance": "50m",
            },
        }));
        assert_eq!((behavior.up.tolerance.get(), behavior.up.select), (0.0, engine::SelectPolicy::Disabled));
        assert_eq!((behavior.down.tolerance.get(), behavior.down.select), (0.05, engine::SelectPolicy::Min));
        assert_eq!(behavior.down.window, Duration::ZERO);
        assert_eq!(behavior.down.policies, [policy(Percent(10), 60), policy(Pods(5), 1800)]);
    }
}
