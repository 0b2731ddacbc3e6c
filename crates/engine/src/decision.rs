//! The answer, with the account of how it came about.

use serde::Serialize;

use crate::{Measurement, Memory, Reason, Replicas};

/// The answer of [`crate::decide`], with the account of how it came about.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// `spec.replicas` when the decision was taken.
    pub replicas: Replicas,
    /// Ready replicas when the decision was taken.
    pub ready: Replicas,
    /// The count after *recommend*.
    pub recommended: Replicas,
    /// The count after *stabilise*: where the fleet is headed. A step cap or a guard may still delay it.
    pub desired: Replicas,
    /// The count to write, or `None` when nothing is to be written.
    pub write: Option<Replicas>,
    /// The pods that a downward write should remove.
    pub victims: Victims,
    /// Why the outcome is as it is.
    pub reason: Reason,
    /// The same, in one sentence for people.
    pub message: String,
    /// The seven stages in order.
    pub stages: Vec<StageTrace>,
    /// What each source said.
    pub readings: Vec<ReadingTrace>,
    /// The state of the scaler under the condition types of the resource.
    pub conditions: Vec<Condition>,
    /// What to hand in next time. A write is not in it until [`Memory::record_write`] is called.
    pub memory: Memory,
}

impl Decision {
    /// Whether a guard kept back a change that was ready to be written.
    #[must_use]
    pub fn deferred(&self) -> bool {
        let paced = self.out_of(Stage::Pace);
        paced != self.replicas && self.write != Some(paced)
    }

    /// The count that left `stage`.
    #[must_use]
    pub fn out_of(&self, stage: Stage) -> Replicas {
        self.stages.iter().find(|trace| trace.stage == stage).map_or(self.replicas, |trace| trace.out)
    }
}

/// A stage of the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Each source proposes a count.
    Recommend,
    /// Zero and one.
    Activate,
    /// Minimum and maximum.
    Bound,
    /// Windows over past recommendations.
    Stabilise,
    /// Policies and step caps.
    Pace,
    /// Reasons to wait.
    Guard,
    /// The integer to write, or none.
    Write,
}

impl Stage {
    /// The name, as traces carry it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Recommend => "recommend",
            Self::Activate => "activate",
            Self::Bound => "bound",
            Self::Stabilise => "stabilise",
            Self::Pace => "pace",
            Self::Guard => "guard",
            Self::Write => "write",
        }
    }
}

impl Serialize for Stage {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// What one stage did to the count.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageTrace {
    /// Which stage.
    pub stage: Stage,
    /// The count that came in.
    #[serde(rename = "in")]
    pub count_in: Replicas,
    /// The count that went out.
    pub out: Replicas,
    /// Why.
    pub reason: Reason,
    /// Why, in one sentence for people.
    pub message: String,
}

/// What one source said.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadingTrace {
    /// The source.
    pub name: String,
    /// What it said; for [`crate::Law::Band`] after clamping and smoothing.
    pub state: ReadingState,
    /// What the value is compared with, where the law has a target.
    pub target: Option<f64>,
    /// The count that it proposes; `None` while it is unknown.
    pub replicas: Option<Replicas>,
    /// How the law came to the count, in words, where value and target alone do not tell.
    pub account: Option<String>,
}

/// What one source said.
#[derive(Clone, Debug, PartialEq)]
pub enum ReadingState {
    /// A measurement.
    Value(Measurement),
    /// No traffic, proved.
    Idle,
    /// Unknown, with the reason.
    Unknown(String),
}

/// The pods that a downward write should remove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Victims {
    /// Names, first to go first.
    pub names: Vec<String>,
    /// The deletion cost that marks them: below that of every survivor, and at most −100.
    pub mark: i32,
}

/// The state of the scaler under one heading.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Condition {
    /// The heading.
    #[serde(rename = "type")]
    pub kind: ConditionType,
    /// Whether it holds.
    #[serde(serialize_with = "as_word")]
    pub status: bool,
    /// Why.
    pub reason: Reason,
    /// Why, in words.
    pub message: String,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature that serde asks for
fn as_word<S: serde::Serializer>(status: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(if *status { "True" } else { "False" })
}

/// The heading of a condition; the first three mean what they mean on a horizontal pod autoscaler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionType {
    /// Whether recommendations can be made.
    ScalingActive,
    /// Whether a new count could be written.
    AbleToScale,
    /// Whether a bound or a policy holds the count away from what is asked for.
    ScalingLimited,
    /// Whether the cluster has room for what was asked for.
    CapacityAvailable,
    /// Whether this scaler alone writes the target's `spec.replicas`.
    TargetOwned,
    /// Whether the engine costs far more or less than its profile says. This and what follows exist only with
    /// [`crate::Law::Headroom`], and are well while they are False.
    ModelOff,
    /// Whether more replicas are needed than the maximum.
    AtMax,
    /// Whether the objective is out of reach of any fleet.
    TargetUnreachable,
    /// Whether the history is too short to shrink by.
    ColdHistory,
    /// Whether an input of the law is missing.
    SignalMissing,
}

impl ConditionType {
    /// The name on the resource.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ScalingActive => "ScalingActive",
            Self::AbleToScale => "AbleToScale",
            Self::ScalingLimited => "ScalingLimited",
            Self::CapacityAvailable => "CapacityAvailable",
            Self::TargetOwned => "TargetOwned",
            Self::ModelOff => "ModelOff",
            Self::AtMax => "AtMax",
            Self::TargetUnreachable => "TargetUnreachable",
            Self::ColdHistory => "ColdHistory",
            Self::SignalMissing => "SignalMissing",
        }
    }

    /// Those of [`crate::Law::Headroom`], which tell of trouble while they are True.
    pub const OF_HEADROOM: [Self; 5] = [Self::ModelOff, Self::AtMax, Self::TargetUnreachable, Self::ColdHistory, Self::SignalMissing];
}

impl Serialize for ConditionType {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_is_written_as_kubernetes_writes_one() {
        use ConditionType::{AbleToScale, CapacityAvailable, ScalingActive, ScalingLimited, TargetOwned};
        let kinds = [ScalingActive, AbleToScale, ScalingLimited, CapacityAvailable, TargetOwned];
        for kind in kinds.into_iter().chain(ConditionType::OF_HEADROOM) {
            let name = format!("{kind:?}");
            assert_eq!(kind.as_str(), name);
            for (status, word) in [(true, "True"), (false, "False")] {
                let condition = Condition { kind, status, reason: Reason::Settled, message: "why".to_owned() };
                let expected = json!({"type": name, "status": word, "reason": "Settled", "message": "why"});
                assert_eq!(serde_json::to_value(condition).unwrap(), expected);
            }
        }
    }

    #[test]
    fn a_stage_is_written_as_documented() {
        use Stage::{Activate, Bound, Guard, Pace, Recommend, Stabilise, Write};
        for (stage, name) in [Recommend, Activate, Bound, Stabilise, Pace, Guard, Write].into_iter().zip([
            "recommend",
            "activate",
            "bound",
            "stabilise",
            "pace",
            "guard",
            "write",
        ]) {
            let (count_in, out) = (Replicas::new(4), Replicas::new(5));
            let trace = StageTrace { stage, count_in, out, reason: Reason::Active, message: "why".to_owned() };
            let expected = json!({"stage": name, "in": 4, "out": 5, "reason": "Active", "message": "why"});
            assert_eq!((stage.as_str(), serde_json::to_value(trace).unwrap()), (name, expected));
        }
    }
}
