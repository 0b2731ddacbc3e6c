//! Stage *stabilise*: windows over past recommendations.

use std::time::Duration;

use crate::decide::Step;
use crate::{Reason, Recommendation, Replicas, Spec, Time};

/// Damps `count` by the recommendations within the windows, and adds it to them.
///
/// `None` is no history, as after a restart: the current size is recorded first, so that a restart never shrinks early.
pub(crate) fn stabilise(spec: &Spec, current: Replicas, count: Replicas, history: &mut Option<Vec<Recommendation>>, now: Time) -> Step {
    let (up_window, down_window) = match &spec.behavior {
        None => (Duration::ZERO, spec.scale_down.window),
        Some(behavior) => (behavior.up.window, behavior.down.window),
    };
    let history = history.get_or_insert_with(|| vec![Recommendation { at: now, replicas: current }]);
    let (mut up, mut down) = (count, count);
    for entry in history.iter() {
        let age = now.since(entry.at);
        if age < up_window {
            up = up.min(entry.replicas);
        }
        if age < down_window {
            down = down.max(entry.replicas);
        }
    }
    history.push(Recommendation { at: now, replicas: count });

    let damped = current.max(up).min(down);
    let out = spec.bounds.clamp(damped);
    if out > count {
        let message = format!(
            "{count} would do, but {down} was needed within the last {} s, so the fleet does not go below {out}",
            down_window.as_secs()
        );
        Step::new(out, Reason::ScaleDownStabilized, message)
    } else if out < count {
        let message = format!(
            "{count} is asked for, but {up} was enough within the last {} s, so the fleet does not go above {out}",
            up_window.as_secs()
        );
        Step::new(out, Reason::ScaleUpStabilized, message)
    } else {
        Step::new(out, Reason::ReadyForNewScale, "no window holds the count")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{bounds, spec, window};
    use crate::{Behavior, Measurement, ScalingRules, SelectPolicy};

    #[test]
    fn the_count_and_the_reason() {
        use Reason::{ReadyForNewScale, ScaleDownStabilized, ScaleUpStabilized};
        let rules = |seconds| ScalingRules {
            window: Duration::from_secs(seconds),
            select: SelectPolicy::Max,
            policies: vec![],
            tolerance: Measurement::ZERO,
        };
        let down = Spec { scale_down: window(120, 0), ..spec(&[1.0]) };
        let both = Spec { behavior: Some(Behavior { up: rules(60), down: rules(120) }), ..spec(&[1.0]) };
        let small = Spec { bounds: bounds(1, 4), ..down.clone() };
        let needed = "1 would do, but 6 was needed within the last 120 s, so the fleet does not go below 6";
        let enough = "9 is asked for, but 5 was enough within the last 60 s, so the fleet does not go above 5";
        let free = "no window holds the count";
        for (spec, current, asked, count, out, reason, message) in [
            (&down, 6, Some((119, 6)), 1, 6, ScaleDownStabilized, needed),
            (&down, 6, Some((120, 6)), 1, 1, ReadyForNewScale, free),
            (&down, 6, None, 1, 6, ScaleDownStabilized, needed),
            (&down, 6, Some((30, 1)), 9, 9, ReadyForNewScale, free),
            (&down, 6, Some((30, 6)), 6, 6, ReadyForNewScale, free),
            (&both, 6, Some((119, 6)), 1, 6, ScaleDownStabilized, needed),
            (&both, 5, Some((59, 5)), 9, 5, ScaleUpStabilized, enough),
            (&both, 5, Some((60, 5)), 9, 9, ReadyForNewScale, free),
            // No window keeps a fleet above a maximum that was lowered.
            (&small, 6, Some((30, 6)), 4, 4, ReadyForNewScale, free),
        ] {
            let mut history = asked.map(|(age, replicas): (i64, u32)| {
                vec![Recommendation { at: Time::from_millis(-age * 1000), replicas: Replicas::new(replicas) }]
            });
            let step = stabilise(spec, Replicas::new(current), Replicas::new(count), &mut history, Time::default());
            assert_eq!((step.out.get(), step.reason, step.message.as_str()), (out, reason, message), "{asked:?}, then {count}");
            let last = history.and_then(|mut history| history.pop());
            assert_eq!(last, Some(Recommendation { at: Time::default(), replicas: Replicas::new(count) }), "what was asked for");
        }
    }
}
