//! Stage *activate*: whether the fleet may be at zero, and whether it wakes.

use crate::decide::Step;
use crate::recommend::Activity;
use crate::{Reason, Replicas, Spec, Time};

/// Decides between zero and one. `last_active` is when a source was last active, now for a fleet that is seen first.
pub(crate) fn activate(spec: &Spec, current: Replicas, proposed: Replicas, activity: Activity, last_active: Time, now: Time) -> Step {
    if current == Replicas::ZERO {
        return match activity {
            Activity::Active => {
                let count = proposed.max(Replicas::ONE);
                Step::new(count, Reason::Active, format!("there is demand, so a fleet of zero wakes with {count}"))
            }
            Activity::Inactive => Step::new(Replicas::ZERO, Reason::Idle, "no source is active, so none asks a fleet of zero to wake"),
            Activity::Unknown => Step::new(
                Replicas::ZERO,
                Reason::ActivityUnknown,
                "no source is known to be active, and what is unknown does not wake a fleet",
            ),
        };
    }
    if spec.bounds.min > Replicas::ZERO {
        return Step::new(proposed, Reason::Active, format!("minReplicas {} keeps the fleet above zero", spec.bounds.min));
    }
    let at_least_one = proposed.max(Replicas::ONE);
    match activity {
        Activity::Active => Step::new(at_least_one, Reason::Active, "a source is active"),
        Activity::Unknown => Step::new(
            at_least_one,
            Reason::ActivityUnknown,
            "no source is known to be active, but one is unknown, so the fleet keeps at least one",
        ),
        Activity::Inactive => {
            let idle = now.since(last_active);
            if idle >= spec.cooldown {
                Step::new(Replicas::ZERO, Reason::Idle, "every source is known and none is active, so nothing is needed")
            } else {
                let (idle, cooldown) = (idle.as_secs(), spec.cooldown.as_secs());
                let message =
                    format!("no source has been active for {idle} s of the {cooldown} s of cooldown, so the fleet keeps at least one");
                Step::new(at_least_one, Reason::CooldownActive, message)
            }
        }
    }
}
