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
