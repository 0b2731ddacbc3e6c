//! Deletion-cost marks on pods, and the record of which of them are ours.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The annotation that a ReplicaSet's controller ranks pods by when it removes some; the lowest goes first, 0 when absent.
pub(crate) const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// Says which deletion cost we put on the pod, and what stood there before: `mark:before`, with nothing after the colon when
/// nothing stood there.
pub(crate) const OUR_MARK: &str = "autoscaling.modelsphere.dev/deletion-cost-mark";

/// What a pod's annotations say of its deletion cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    cost: Option<String>,
    record: Option<String>,
}

impl Mark {
    /// Reads the two annotations.
    pub(crate) fn of(annotations: Option<&BTreeMap<String, String>>) -> Self {
        let get = |key| annotations.and_then(|map| map.get(key)).cloned();
        Self { cost: get(DELETION_COST), record: get(OUR_MARK) }
    }

    /// Whether a record of ours is on the pod.
    pub(crate) fn is_ours(&self) -> bool {
        self.record.is_some()
    }

    /// Whether the pod carries exactly this mark of ours.
    pub(crate) fn is(&self, mark: i32) -> bool {
        self.standing().is_some_and(|(ours, _)| ours == mark.to_string())
    }

    /// Our mark and what stood there before, if the mark still stands: a cost that somebody wrote over it is theirs.
    fn standing(&self) -> Option<(&str, &str)> {
        let (mark, before) = self.record.as_ref()?.split_once(':')?;
        (self.cost.as_deref() == Some(mark)).then_some((mark, before))
    }

    /// The cost apart from a mark of ours, as written; `None` when there is none.
    fn own(&self) -> Option<&str> {
        match self.standing() {
            Some((_, before)) => Some(before).filter(|text| !text.is_empty()),
            None => self.cost.as_deref(),
        }
    }

    /// The cost apart from a mark of ours. Kubernetes reads what is not a number as 0.
    pub(crate) fn own_cost(&self) -> i32 {
        self.own().and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// The merge patch that puts our mark on the pod.
    pub(crate) fn set(&self, mark: i32) -> Value {
        let record = format!("{mark}:{}", self.own().unwrap_or_default());
        json!({"metadata": {"annotations": {DELETION_COST: mark.to_string(), OUR_MARK: record}}})
    }

    /// The merge patch that takes our mark off the pod and restores what stood there.
    pub(crate) fn clear(&self) -> Value {
        json!({"metadata": {"annotations": {DELETION_COST: self.own(), OUR_MARK: null}}})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(cost: Option<&str>, record: Option<&str>) -> Mark {
        Mark { cost: cost.map(str::to_owned), record: record.map(str::to_owned) }
    }

    fn annotations(patch: &Value) -> (Option<&str>, Option<&str>) {
        let get = |key: &str| patch["metadata"]["annotations"][key].as_str();
        (get(DELETION_COST), get(OUR_MARK))
    }

    #[test]
    fn a_user_cost_survives_our_mark() {
        let user = mark(Some("7"), None);
        assert_eq!((user.own_cost(), user.is_ours()), (7, false));
        assert_eq!(annotations(&user.set(-100)), (Some("-100"), Some("-100:7")));
        let marked = mark(Some("-100"), Some("-100:7"));
        assert_eq!((marked.own_cost(), marked.is(-100), marked.is(-101)), (7, true, false));
        assert_eq!(annotations(&marked.clear()), (Some("7"), None));
        assert_eq!(annotations(&marked.set(-300)), (Some("-300"), Some("-300:7")), "a second mark keeps what was there first");
    }

    #[test]
    fn an_unmarked_pod_is_left_without_annotations() {
        assert_eq!(annotations(&mark(None, None).set(-100)), (Some("-100"), Some("-100:")));
        let marked = mark(Some("-100"), Some("-100:"));
        assert_eq!(marked.own_cost(), 0);
        let cleared = marked.clear();
        assert_eq!(annotations(&cleared), (None, None));
        assert!(cleared["metadata"]["annotations"].as_object().unwrap().contains_key(DELETION_COST), "null removes the annotation");
    }

    #[test]
    fn a_cost_written_over_our_mark_belongs_to_the_writer() {
        let overwritten = mark(Some("9"), Some("-100:7"));
        assert_eq!((overwritten.own_cost(), overwritten.is_ours(), overwritten.is(-100)), (9, true, false));
        assert_eq!(annotations(&overwritten.clear()), (Some("9"), None));
        assert_eq!(annotations(&mark(None, Some("-100:7")).clear()), (None, None));
    }

    #[test]
    fn a_cost_that_is_no_number_counts_as_zero() {
        assert_eq!(mark(Some("warm"), None).own_cost(), 0);
    }
}
