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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::bounds;

    #[test]
    fn the_count_and_the_reason() {
        use Reason::{DesiredWithinRange, ScalingDisabled, TooFewReplicas, TooManyReplicas};
        for (min, max, count, out, reason, message) in [
            (3, 8, 2, 3, TooFewReplicas, "2 is below minReplicas 3"),
            (3, 8, 3, 3, DesiredWithinRange, "3 is within 3 to 8"),
            (3, 8, 8, 8, DesiredWithinRange, "8 is within 3 to 8"),
            (3, 8, 9, 8, TooManyReplicas, "9 is above maxReplicas 8"),
            // Where the two contradict each other the upper one wins.
            (5, 2, 4, 2, TooManyReplicas, "4 is above maxReplicas 2"),
            (0, 0, 4, 0, ScalingDisabled, "maxReplicas 0 pins the fleet at zero"),
            (0, 0, 0, 0, DesiredWithinRange, "0 is within 0 to 0"),
        ] {
            let step = bound(bounds(min, max), Replicas::new(count));
            assert_eq!((step.out.get(), step.reason, step.message.as_str()), (out, reason, message));
        }
    }
}
