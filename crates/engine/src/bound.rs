//! Stage *bound*: minimum and maximum.

use crate::decide::Step;
use crate::{Bounds, Reason, Replicas};

/// Raises to the minimum, then lowers to the maximum.
pub(crate) fn bound(bounds: Bounds, count: Replicas) -> Step {
    let Bounds { min, max } = bounds;
    let out = bounds.clamp(count);
    if out < count {
        if max == Replicas::ZERO {
            return Step::new(out, Reason::ScalingDisabled, "maxReplicas 0 pins the fleet at zero");
        }
        Step::new(out, Reason::TooManyReplicas, format!("{count} is above maxReplicas {max}"))
    } else if out > count {
        Step::new(out, Reason::TooFewReplicas, format!("{count} is below minReplicas {min}"))
    } else {
        Step::new(out, Reason::DesiredWithinRange, format!("{count} is within {min} to {max}"))
    }
}
