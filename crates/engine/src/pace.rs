//! Stage *pace*: how much one write may change.

use std::time::Duration;

use crate::decide::Step;
use crate::{Behavior, PolicyLimit, Reason, Replicas, ScaleEvent, ScalingRules, SelectPolicy, Spec, Time};

/// The headroom law grows within [`LAW_PERIOD`] by no more than this share in per cent, or by [`LAW_PODS`] where that is more.
const LAW_PERCENT: u32 = 100;
const LAW_PODS: u32 = 8;
const LAW_PERIOD: Duration = Duration::from_secs(30);

/// Limits the way from `current` to `desired` by the policies of `behavior`, then by `maxStepReplicas`.
pub(crate) fn pace(spec: &Spec, current: Replicas, desired: Replicas, events: &[ScaleEvent], now: Time) -> Step {
    let mut step = Step::new(desired, Reason::DesiredWithinRange, "the step is within every limit");
    let by_policies = match &spec.behavior {
        Some(behavior) => Some(by_policies(behavior, current, desired, events, now)),
        None => spec.headroom().and_then(|_| by_headroom(current, desired, events, now)),
    };
    if let Some(paced) = by_policies {
        step = paced;
        // Neither a policy nor a closed direction keeps a fleet outside its bounds.
        let bounded = spec.bounds.clamp(step.out);
        if bounded > step.out {
            step = Step::new(bounded, Reason::TooFewReplicas, format!("policies do not keep a fleet below minReplicas {bounded}"));
        } else if bounded < step.out {
            step = Step::new(bounded, Reason::TooManyReplicas, format!("policies do not keep a fleet above maxReplicas {bounded}"));
        }
    }
    if let Some(most) = spec.scale_down.max_step {
        let least = current.minus(most.get());
        if step.out < least {
            let message = format!("maxStepReplicas {most} removes no more than that at once, so {least} comes before {}", step.out);
            step = Step::new(least, Reason::ScaleDownLimit, message);
        }
    }
    step
}

/// The headroom law's own limit, where `behavior` sets none: up by no more than the larger of 100 % and 8 pods within 30 s. No
/// load that is real outruns it, and a reading that is wrong cannot ask for a whole cluster at once. `None` where it changes nothing.
fn by_headroom(current: Replicas, desired: Replicas, events: &[ScaleEvent], now: Time) -> Option<Step> {
    let start = start(current, events, LAW_PERIOD, now);
    let by = |most| limit(most, true, start);
    let furthest = by(PolicyLimit::Percent(LAW_PERCENT)).max(by(PolicyLimit::Pods(LAW_PODS))).max(current);
    let message = || {
        let period = LAW_PERIOD.as_secs();
        format!(
            "the headroom law adds no more than the larger of {LAW_PERCENT} % and {LAW_PODS} pods within {period} s, so {furthest} comes \
             before {desired}"
        )
    };
    (desired > furthest).then(|| Step::new(furthest, Reason::ScaleUpLimit, message()))
}

fn by_policies(behavior: &Behavior, current: Replicas, desired: Replicas, events: &[ScaleEvent], now: Time) -> Step {
    let up = desired > current;
    let (rules, closed) = if up { (&behavior.up, "scaleUp") } else { (&behavior.down, "scaleDown") };
    if desired == current {
        return Step::new(desired, Reason::DesiredWithinRange, "the count stays");
    }
    if rules.select == SelectPolicy::Disabled {
        return Step::new(current, Reason::ScalingDisabled, format!("{closed} is Disabled"));
    }
    if up {
        // One replica is what wakes a fleet; a percentage of zero would never do it.
        let limit = select(rules, true, current, events, now).max(current).max(Replicas::ONE);
        if desired > limit {
            return Step::new(limit, Reason::ScaleUpLimit, format!("the scaleUp policies allow no more than {limit} at present"));
        }
    } else {
        let limit = select(rules, false, current, events, now).min(current);
        if desired < limit {
            return Step::new(limit, Reason::ScaleDownLimit, format!("the scaleDown policies allow no less than {limit} at present"));
        }
    }
    Step::new(desired, Reason::DesiredWithinRange, "the step is within the policies")
}

/// The furthest count that the selected policy allows.
fn select(rules: &ScalingRules, up: bool, current: Replicas, events: &[ScaleEvent], now: Time) -> Replicas {
    let limits = rules.policies.iter().map(|policy| limit(policy.limit, up, start(current, events, policy.period, now)));
    // The largest change upwards is the highest limit, downwards the lowest one.
    let highest = up == (rules.select == SelectPolicy::Max);
    let selected = if highest { limits.max() } else { limits.min() };
    // Without a policy nothing limits the direction.
    selected.unwrap_or(if up { Replicas::MAX } else { Replicas::ZERO })
}

/// The count at the start of the period that ends now, in wide arithmetic: it may lie below zero.
fn start(current: Replicas, events: &[ScaleEvent], period: Duration, now: Time) -> i64 {
    let changed: i64 = events.iter().filter(|event| now.since(event.at) < period).map(|event| i64::from(event.change)).sum();
    i64::from(current.get()) - changed
}

fn limit(limit: PolicyLimit, up: bool, start: i64) -> Replicas {
    Replicas::saturating(match (limit, up) {
        (PolicyLimit::Pods(pods), true) => start.saturating_add(i64::from(pods)),
        (PolicyLimit::Pods(pods), false) => start.saturating_sub(i64::from(pods)),
        // Whole numbers: up rounds up, down rounds down.
        (PolicyLimit::Percent(percent), true) => ceil_hundredth(start.saturating_mul(100 + i64::from(percent))),
        (PolicyLimit::Percent(percent), false) => start.saturating_mul(100 - i64::from(percent)).div_euclid(100),
    })
}

fn ceil_hundredth(x: i64) -> i64 {
    x.div_euclid(100).saturating_add(i64::from(x.rem_euclid(100) > 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::headroom::headroom;
    use crate::tests::{bounds, spec, window};
    use crate::{Measurement, Policy};

    fn rules(select: SelectPolicy, pods: u32) -> ScalingRules {
        let policies = vec![Policy { limit: PolicyLimit::Pods(pods), period: Duration::from_secs(60) }];
        ScalingRules { window: Duration::ZERO, select, policies, tolerance: Measurement::ZERO }
    }

    #[test]
    fn the_count_and_the_reason() {
        use Reason::{DesiredWithinRange, ScaleDownLimit, ScaleUpLimit, ScalingDisabled, TooFewReplicas, TooManyReplicas};
        let capped = || Spec { bounds: bounds(3, 10), scale_down: window(0, 2), ..spec(&[1.0]) };
        let behavior = |select| Some(Behavior { up: rules(select, 4), down: rules(select, 2) });
        let paced = || Spec { bounds: bounds(3, 10), behavior: behavior(SelectPolicy::Max), ..spec(&[1.0]) };
        let closed = || Spec { behavior: behavior(SelectPolicy::Disabled), ..paced() };
        let (free, within) = ("the step is within every limit", "the step is within the policies");
        for (spec, from, to, out, reason, message) in [
            (capped(), 5, 10, 10, DesiredWithinRange, free),
            (capped(), 5, 5, 5, DesiredWithinRange, free),
            (capped(), 7, 5, 5, DesiredWithinRange, free),
            (capped(), 7, 4, 5, ScaleDownLimit, "maxStepReplicas 2 removes no more than that at once, so 5 comes before 4"),
            (paced(), 5, 5, 5, DesiredWithinRange, "the count stays"),
            (paced(), 5, 9, 9, DesiredWithinRange, within),
            (paced(), 5, 10, 9, ScaleUpLimit, "the scaleUp policies allow no more than 9 at present"),
            (paced(), 8, 6, 6, DesiredWithinRange, within),
            (paced(), 8, 5, 6, ScaleDownLimit, "the scaleDown policies allow no less than 6 at present"),
            (closed(), 5, 5, 5, DesiredWithinRange, "the count stays"),
            (closed(), 5, 6, 5, ScalingDisabled, "scaleUp is Disabled"),
            (closed(), 5, 4, 5, ScalingDisabled, "scaleDown is Disabled"),
            (closed(), 1, 3, 3, TooFewReplicas, "policies do not keep a fleet below minReplicas 3"),
            (paced(), 20, 10, 10, TooManyReplicas, "policies do not keep a fleet above maxReplicas 10"),
        ] {
            let step = pace(&spec, Replicas::new(from), Replicas::new(to), &[], Time::default());
            assert_eq!((step.out.get(), step.reason, step.message.as_str()), (out, reason, message), "{from} to {to}");
        }
    }

    #[test]
    fn what_the_headroom_law_allows_at_once_is_not_limited() {
        let spec = Spec { bounds: bounds(1, 100), ..headroom() };
        for (from, most) in [(2, 10), (12, 24)] {
            for (to, reason) in [(most, Reason::DesiredWithinRange), (most + 1, Reason::ScaleUpLimit)] {
                let step = pace(&spec, Replicas::new(from), Replicas::new(to), &[], Time::default());
                assert_eq!((step.out.get(), step.reason), (most, reason), "{from} to {to}");
            }
        }
    }

    #[test]
    fn percentages_are_whole_number_arithmetic() {
        for (start, percent, up, down) in [(7, 10, 8, 6), (10, 10, 11, 9), (3, 100, 6, 0), (1, 1, 2, 0), (0, 50, 0, 0), (3, 200, 9, 0)] {
            assert_eq!(limit(PolicyLimit::Percent(percent), true, start), Replicas::new(up), "{start} + {percent} %");
            assert_eq!(limit(PolicyLimit::Percent(percent), false, start), Replicas::new(down), "{start} - {percent} %");
        }
        assert_eq!(limit(PolicyLimit::Percent(u32::MAX), true, i64::from(i32::MAX)), Replicas::MAX);
    }
}
