//! The codes that say why.

use serde::{Serialize, Serializer};

/// Why a stage, a decision or a condition is as it is. The same code stands in the trace, the condition, the event and the
/// metric label. Where the horizontal pod autoscaler has a code for the same thing, it is that one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    // recommend
    /// At least one source is known, and the largest known proposal stands.
    ValidMetricFound,
    /// No source is known: the current size stands.
    FailedGetMetrics,
    /// A required metric is unknown, so the proposal is at least the current size.
    RequiredMetricUnknown,
    /// A source has been unknown for too long, so the proposal is at least the fallback.
    FallbackReplicas,
    // activate
    /// A source is active, or the minimum is above zero.
    Active,
    /// Every source is known and none is active: nothing is needed.
    Idle,
    /// Nothing is active, but the cooldown since the last activity has not passed.
    CooldownActive,
    /// Nothing is known to be active, and a source is unknown: the fleet neither goes to zero nor wakes.
    ActivityUnknown,
    // bound, pace
    /// The count is within the bounds and within the policies.
    DesiredWithinRange,
    /// The count was raised to `minReplicas`.
    TooFewReplicas,
    /// The count was lowered to `maxReplicas`.
    TooManyReplicas,
    /// A scale-up policy allows no more at present.
    ScaleUpLimit,
    /// A scale-down policy or `maxStepReplicas` allows no less at present.
    ScaleDownLimit,
    /// Scaling is switched off: `maxReplicas` is 0, or the direction is `Disabled`.
    ScalingDisabled,
    // stabilise
    /// No window holds the count.
    ReadyForNewScale,
    /// A recent lower recommendation holds back scaling up.
    ScaleUpStabilized,
    /// A recent higher recommendation holds back scaling down.
    ScaleDownStabilized,
    // guard
    /// Nothing stands against the write.
    Settled,
    /// Pods are being replaced, so neither the metrics nor the victims could be trusted.
    RolloutInProgress,
    /// Not all replicas are ready, or some are still shutting down.
    NotSettled,
    /// Pods that were asked for earlier find no node.
    Unschedulable,
    /// Somebody else writes the target's `spec.replicas`.
    TargetOwned,
    /// `mode: Recommend`: decisions are shown and not written.
    RecommendOnly,
    // write
    /// The count stays.
    NoChange,
    /// A new count is written.
    SuccessfulRescale,
    // conditions
    /// There is room for the pods that were asked for.
    CapacityFound,
    /// Nobody else writes the target's `spec.replicas`.
    OnlyOwner,
    // conditions of the headroom law
    /// Requests cost less than half of what the profile says.
    ProfileTooSlow,
    /// Requests cost more than twice what the profile says.
    ProfileTooFast,
    /// Requests cost about what the profile says.
    ProfileFits,
    /// More than `maxReplicas` has been needed for some time.
    DemandAboveMax,
    /// What is needed fits into `maxReplicas`.
    DemandWithinMax,
    /// More prompts than may be late are too long to be answered in time even by an idle replica.
    PromptsTooLong,
    /// Even the shortest step of the engine takes almost all of the promised time per output token, or more.
    StepsTooSlow,
    /// Requests are late whatever the size of the fleet.
    LateAtAnySize,
    /// Nothing is known that would put the objective out of reach.
    TargetReachable,
    /// The history is too short to shrink by as usual.
    HistoryShort,
    /// The history is long enough.
    HistoryLongEnough,
    /// What arrives is unknown, so the headroom law cannot plan.
    ArrivalsUnknown,
    /// An input that the headroom law can do without has been missing for long.
    InputsUnknown,
    /// No input of the headroom law has been missing for long.
    InputsKnown,
}

impl Reason {
    /// Every code, in the order of the stages.
    pub const ALL: [Self; 41] = [
        Self::ValidMetricFound,
        Self::FailedGetMetrics,
        Self::RequiredMetricUnknown,
        Self::FallbackReplicas,
        Self::Active,
        Self::Idle,
        Self::CooldownActive,
        Self::ActivityUnknown,
        Self::DesiredWithinRange,
        Self::TooFewReplicas,
        Self::TooManyReplicas,
        Self::ScaleUpLimit,
        Self::ScaleDownLimit,
        Self::ScalingDisabled,
        Self::ReadyForNewScale,
        Self::ScaleUpStabilized,
        Self::ScaleDownStabilized,
        Self::Settled,
        Self::RolloutInProgress,
        Self::NotSettled,
        Self::Unschedulable,
        Self::TargetOwned,
        Self::RecommendOnly,
        Self::NoChange,
        Self::SuccessfulRescale,
        Self::CapacityFound,
        Self::OnlyOwner,
        Self::ProfileTooSlow,
        Self::ProfileTooFast,
        Self::ProfileFits,
        Self::DemandAboveMax,
        Self::DemandWithinMax,
        Self::PromptsTooLong,
        Self::StepsTooSlow,
        Self::LateAtAnySize,
        Self::TargetReachable,
        Self::HistoryShort,
        Self::HistoryLongEnough,
        Self::ArrivalsUnknown,
        Self::InputsUnknown,
        Self::InputsKnown,
    ];

    /// The code, as conditions, events and metric labels carry it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ValidMetricFound => "ValidMetricFound",
            Self::FailedGetMetrics => "FailedGetMetrics",
            Self::RequiredMetricUnknown => "RequiredMetricUnknown",
            Self::FallbackReplicas => "FallbackReplicas",
            Self::Active => "Active",
            Self::Idle => "Idle",
            Self::CooldownActive => "CooldownActive",
            Self::ActivityUnknown => "ActivityUnknown",
            Self::DesiredWithinRange => "DesiredWithinRange",
            Self::TooFewReplicas => "TooFewReplicas",
            Self::TooManyReplicas => "TooManyReplicas",
            Self::ScaleUpLimit => "ScaleUpLimit",
            Self::ScaleDownLimit => "ScaleDownLimit",
            Self::ScalingDisabled => "ScalingDisabled",
            Self::ReadyForNewScale => "ReadyForNewScale",
            Self::ScaleUpStabilized => "ScaleUpStabilized",
            Self::ScaleDownStabilized => "ScaleDownStabilized",
            Self::Settled => "Settled",
            Self::RolloutInProgress => "RolloutInProgress",
            Self::NotSettled => "NotSettled",
            Self::Unschedulable => "Unschedulable",
            Self::TargetOwned => "TargetOwned",
            Self::RecommendOnly => "RecommendOnly",
            Self::NoChange => "NoChange",
            Self::SuccessfulRescale => "SuccessfulRescale",
            Self::CapacityFound => "CapacityFound",
            Self::OnlyOwner => "OnlyOwner",
            Self::ProfileTooSlow => "ProfileTooSlow",
            Self::ProfileTooFast => "ProfileTooFast",
            Self::ProfileFits => "ProfileFits",
            Self::DemandAboveMax => "DemandAboveMax",
            Self::DemandWithinMax => "DemandWithinMax",
            Self::PromptsTooLong => "PromptsTooLong",
            Self::StepsTooSlow => "StepsTooSlow",
            Self::LateAtAnySize => "LateAtAnySize",
            Self::TargetReachable => "TargetReachable",
            Self::HistoryShort => "HistoryShort",
            Self::HistoryLongEnough => "HistoryLongEnough",
            Self::ArrivalsUnknown => "ArrivalsUnknown",
            Self::InputsUnknown => "InputsUnknown",
            Self::InputsKnown => "InputsKnown",
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_all() {
        assert!(Reason::ALL.iter().enumerate().all(|(index, reason)| *reason as usize == index));
        assert_eq!(Reason::InputsKnown as usize + 1, Reason::ALL.len(), "the last variant is the last of the list");
    }

    #[test]
    fn a_code_is_the_name_that_is_documented() {
        for reason in Reason::ALL {
            let name = format!("{reason:?}");
            assert_eq!((reason.as_str(), reason.to_string()), (name.as_str(), name.clone()));
            assert_eq!(serde_json::to_value(reason).unwrap(), name);
        }
    }
}
