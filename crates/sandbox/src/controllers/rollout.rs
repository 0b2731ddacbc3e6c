//! How large the ReplicaSets of a Deployment are to be while its template changes.

use serde_json::Value;

use crate::object::number;

/// What a rollout must keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub wanted: i64,
    pub surge: i64,
    pub unavailable: i64,
}

/// One ReplicaSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub spec: i64,
    /// Pods that exist.
    pub pods: i64,
    pub available: i64,
}

impl Limits {
    /// Of a Deployment; `None` where all old pods go before the first new one comes.
    pub(super) fn of(deployment: &Value) -> (Self, bool) {
        let wanted = number(deployment, "/spec/replicas").unwrap_or(1);
        let strategy = &deployment["spec"]["strategy"];
        if strategy["type"] == "Recreate" {
            return (Self { wanted, surge: 0, unavailable: wanted }, true);
        }
        let share = |name: &str, up: bool| match &strategy["rollingUpdate"][name] {
            Value::Number(whole) => whole.as_i64().unwrap_or(0),
            Value::String(text) => {
                let hundredths = text.trim_end_matches('%').parse::<i64>().unwrap_or(0).saturating_mul(wanted);
                if up { hundredths.saturating_add(99) / 100 } else { hundredths / 100 }
            }
            _ => 0,
        };
        let (surge, unavailable) = (share("maxSurge", true), share("maxUnavailable", false));
        // Without any room nothing could ever move.
        (Self { wanted, surge, unavailable: if surge == 0 { unavailable.max(1) } else { unavailable } }, false)
    }

    /// The sizes of the new ReplicaSet and of the old ones, the oldest first.
    pub(super) fn roll(self, new: Size, old: &[Size], recreate: bool) -> (i64, Vec<i64>) {
        if recreate {
            let gone = old.iter().all(|one| one.pods == 0);
            return (if gone { self.wanted } else { 0 }, vec![0; old.len()]);
        }
        let total = new.spec + old.iter().map(|one| one.spec).sum::<i64>();
        if old.iter().all(|one| one.spec == 0) {
            return (self.wanted, vec![0; old.len()]);
        }
        let room = (self.wanted + self.surge - total).max(0);
        let grown = if new.spec > self.wanted { self.wanted } else { new.spec + room.min(self.wanted - new.spec) };

        let fewest = self.wanted - self.unavailable;
        let new_unavailable = (new.spec - new.available).max(0);
        let mut unhealthy_room = (total - fewest - new_unavailable).max(0);
        let mut sizes: Vec<i64> = old.iter().map(|one| one.spec).collect();
        for (size, one) in sizes.iter_mut().zip(old) {
            let cut = (one.spec - one.available).clamp(0, unhealthy_room);
            *size -= cut;
            unhealthy_room -= cut;
        }
        let available = new.available + old.iter().map(|one| one.available).sum::<i64>();
        let mut room = (available - fewest).max(0).min(unhealthy_room);
        for size in &mut sizes {
            let cut = (*size).clamp(0, room);
            *size -= cut;
            room -= cut;
        }
        (grown, sizes)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn size(spec: i64, available: i64) -> Size {
        Size { spec, pods: spec, available }
    }

    #[test]
    fn shares_round_up_for_more_and_down_for_less() {
        let spec = json!({"replicas": 5, "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}});
        let limits = Limits { wanted: 5, surge: 2, unavailable: 1 };
        assert_eq!(Limits::of(&json!({"spec": spec})), (limits, false));
        let none = json!({"spec": {"replicas": 5, "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}}});
        assert_eq!(Limits::of(&none).0.unavailable, 1);
    }

    #[test]
    fn a_rollout_goes_on_as_pods_become_available() {
        let limits = Limits { wanted: 4, surge: 1, unavailable: 1 };
        assert_eq!(limits.roll(size(0, 0), &[size(4, 4)], false), (1, vec![3]));
        assert_eq!(limits.roll(size(1, 0), &[size(3, 3)], false), (2, vec![3]), "three stay available");
        assert_eq!(limits.roll(size(2, 2), &[size(3, 3)], false), (2, vec![1]));
        assert_eq!(limits.roll(size(4, 4), &[size(0, 0)], false), (4, vec![0]));
        assert_eq!(limits.roll(size(2, 0), &[size(3, 1)], false), (2, vec![3]), "there is no room for a cut while too few are available");
    }

    #[test]
    fn recreating_waits_for_the_old_pods() {
        let limits = Limits { wanted: 4, surge: 0, unavailable: 4 };
        assert_eq!(limits.roll(size(0, 0), &[size(4, 4)], true), (0, vec![0]));
        assert_eq!(limits.roll(size(0, 0), &[Size { spec: 0, pods: 0, available: 0 }], true), (4, vec![0]));
    }
}
