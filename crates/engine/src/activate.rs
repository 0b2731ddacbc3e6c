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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::tests::{bounds, spec};

    #[test]
    fn the_count_and_the_reason() {
        use Activity::{Active, Inactive, Unknown};
        for (min, current, proposed, activity, quiet, expected, why) in [
            (1, 4, 0, Inactive, 900, (0, Reason::Active), "above zero by the minimum, which the next stage sees to"),
            (1, 4, 2, Unknown, 900, (2, Reason::Active), "whatever is known"),
            (0, 0, 3, Active, 0, (3, Reason::Active), "wakes with what is asked for"),
            (0, 0, 0, Active, 0, (1, Reason::Active), "and with no less than one"),
            (0, 0, 3, Inactive, 0, (0, Reason::Idle), "no cooldown wakes a fleet"),
            (0, 0, 3, Unknown, 0, (0, Reason::ActivityUnknown), "nor does what is unknown"),
            (0, 4, 0, Active, 0, (1, Reason::Active), "demand keeps one"),
            (0, 4, 3, Unknown, 900, (3, Reason::ActivityUnknown), "more than one is left as it is"),
            (0, 4, 0, Unknown, 900, (1, Reason::ActivityUnknown), "what is unknown may be active"),
            (0, 4, 3, Inactive, 299, (3, Reason::CooldownActive), "the last second of the cooldown"),
            (0, 4, 0, Inactive, 299, (1, Reason::CooldownActive), "keeps one"),
            (0, 4, 3, Inactive, 300, (0, Reason::Idle), "the cooldown has passed"),
        ] {
            let spec = Spec { bounds: bounds(min, 10), cooldown: Duration::from_secs(300), ..spec(&[1.0]) };
            let (last, now) = (Time::default(), Time::from_millis(quiet * 1000));
            let step = activate(&spec, Replicas::new(current), Replicas::new(proposed), activity, last, now);
            assert_eq!((step.out.get(), step.reason), expected, "{why}: {}", step.message);
        }
    }
}
