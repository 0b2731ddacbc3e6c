//! What is said of a scaler under each heading, and the conditions of the status that say it.

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use llmscaler_engine::{Condition, ConditionType, Reason};

use super::status::shortened;
use crate::questions::Scoped;

/// The condition that sums up the others.
pub(crate) const READY: &str = "Ready";
/// The condition that says whether the queries keep to the pool.
pub(crate) const QUERIES_SCOPED: &str = "QueriesScoped";

/// What is said of one condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub kind: &'static str,
    /// `None` when nobody knows.
    pub status: Option<bool>,
    pub reason: Cow<'static, str>,
    pub message: String,
}

impl From<&Condition> for Said {
    fn from(condition: &Condition) -> Self {
        let Condition { kind, status, reason, message } = condition;
        Self { kind: kind.as_str(), status: Some(*status), reason: reason.as_str().into(), message: message.clone() }
    }
}

/// The status of a condition in the word that the API has for it.
pub(super) const fn word(status: Option<bool>) -> &'static str {
    match status {
        Some(true) => "True",
        Some(false) => "False",
        None => "Unknown",
    }
}

/// The sum of the conditions for `kubectl wait` and GitOps tools: a scaler that cannot do its work is not ready.
pub(super) fn ready(conditions: &[Condition]) -> Said {
    let fatal = |condition: &&Condition| match condition.kind {
        ConditionType::ScalingActive => !condition.status && condition.reason != Reason::ScalingDisabled,
        // Who only watches needs no target for itself.
        ConditionType::TargetOwned => !condition.status && condition.reason != Reason::RecommendOnly,
        _ => false,
    };
    let active = conditions.iter().find(|condition| condition.kind == ConditionType::ScalingActive);
    let decisive = conditions.iter().find(fatal);
    let (reason, message) = decisive.or(active).map_or((Reason::NoChange, ""), |condition| (condition.reason, condition.message.as_str()));
    Said { kind: READY, status: Some(decisive.is_none()), reason: reason.as_str().into(), message: message.to_owned() }
}

/// Whether the queries keep to the pool.
pub(super) fn queries_scoped(scoped: &Scoped) -> Said {
    let (status, reason, message) = match scoped {
        Scoped::Yes => (Some(true), "AllScoped", "every query keeps to this target's own series"),
        Scoped::No(why) => (Some(false), "PoolsMayMix", why.as_str()),
        Scoped::Unknown(why) => (None, "UnreadableQuery", why.as_str()),
    };
    Said { kind: QUERIES_SCOPED, status, reason: reason.into(), message: message.to_owned() }
}

/// Puts what an HPA says in the place of what is said under the same heading. That no source is known is said in our own words.
pub(super) fn reflect(said: &mut Vec<Said>, theirs: &[Said]) {
    for one in theirs {
        match said.iter().position(|ours| ours.kind == one.kind) {
            Some(ours) if said[ours].status == Some(false) => {}
            Some(ours) => said[ours] = one.clone(),
            None => said.push(one.clone()),
        }
    }
}

/// Sets a condition; its transition time moves only when its status flips.
pub(super) fn set(conditions: &mut Vec<meta::Condition>, said: Said, generation: Option<i64>, now: Timestamp) {
    let status = word(said.status);
    let before = conditions.iter().position(|condition| condition.type_ == said.kind);
    let since = before.map(|index| &conditions[index]).filter(|condition| condition.status == status);
    let condition = meta::Condition {
        type_: said.kind.to_owned(),
        status: status.to_owned(),
        reason: said.reason.into_owned(),
        message: shortened(&said.message),
        last_transition_time: since.map_or_else(|| meta::Time(now), |condition| condition.last_transition_time.clone()),
        observed_generation: generation,
    };
    match before {
        Some(index) => conditions[index] = condition,
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(kind: ConditionType, status: bool, reason: Reason) -> Condition {
        Condition { kind, status, reason, message: "m".to_owned() }
    }

    #[test]
    fn ready_needs_a_metric_and_the_target_for_itself() {
        let active = |status, reason| condition(ConditionType::ScalingActive, status, reason);
        let owned = |status, reason| condition(ConditionType::TargetOwned, status, reason);
        let sum = |conditions: &[Condition]| (ready(conditions).status, ready(conditions).reason.into_owned());
        assert_eq!(sum(&[active(true, Reason::ValidMetricFound), owned(true, Reason::OnlyOwner)]), (Some(true), "ValidMetricFound".into()));
        assert_eq!(sum(&[active(false, Reason::FailedGetMetrics)]), (Some(false), "FailedGetMetrics".into()));
        assert_eq!(sum(&[active(false, Reason::ScalingDisabled)]), (Some(true), "ScalingDisabled".into()), "pinned at zero on purpose");
        assert_eq!(sum(&[active(true, Reason::ValidMetricFound), owned(false, Reason::TargetOwned)]), (Some(false), "TargetOwned".into()));
        let watching = [active(true, Reason::ValidMetricFound), owned(false, Reason::RecommendOnly)];
        assert_eq!(sum(&watching), (Some(true), "ValidMetricFound".into()), "it needs no target for itself");
    }

    fn said(status: Option<bool>, reason: &'static str) -> Said {
        Said { kind: READY, status, reason: reason.into(), message: String::new() }
    }

    #[test]
    fn the_transition_time_moves_when_the_status_flips() {
        let mut conditions = vec![];
        set(&mut conditions, said(Some(true), "A"), Some(1), Timestamp::now());
        let long_ago = meta::Time("2020-01-01T00:00:00Z".parse().unwrap());
        conditions[0].last_transition_time = long_ago.clone();
        set(&mut conditions, said(Some(true), "B"), Some(2), Timestamp::now());
        assert_eq!((conditions[0].reason.as_str(), &conditions[0].last_transition_time), ("B", &long_ago));
        set(&mut conditions, said(Some(false), "C"), Some(2), Timestamp::now());
        assert_ne!(conditions[0].last_transition_time, long_ago);
        assert_eq!(conditions.len(), 1);
    }

    #[test]
    fn what_an_hpa_says_stands_in_for_what_holds_and_for_nothing_that_does_not() {
        for (ours, expected) in [(vec![], "theirs"), (vec![said(Some(true), "ours")], "theirs"), (vec![said(Some(false), "ours")], "ours")]
        {
            let mut said_of_ready = ours.clone();
            reflect(&mut said_of_ready, &[said(None, "theirs")]);
            let reasons: Vec<_> = said_of_ready.iter().map(|one| one.reason.as_ref()).collect();
            assert_eq!(reasons, [expected], "{ours:?}");
        }
    }
}
