//! The bound on paper.

use super::{Need, Plan, Rounding};
use crate::{Arrivals, Scenario};

/// Seconds of an interval in which traffic counts as even.
const BIN: f64 = 60.0;

/// Seconds after the last arrival that are billed.
const BILLED_AFTER: f64 = 600.0;

/// The cheapest plan on paper: traffic comes evenly within each minute and must be served in it, a replica takes what the closed form
/// says, and pods that go are gone at once. Chance within a minute is not in it, so runs that keep a strict promise cost more; but a
/// promise that lets work wait for a busy minute to pass can be kept for less. What a run can reach is for [`super::Foresight`] to say.
#[derive(Clone, Debug, PartialEq)]
pub struct Fluid {
    /// The plan.
    pub plan: Plan,
    /// What it costs until 600 s after the last arrival, warm-up included.
    pub gpu_hours: f64,
}

impl Fluid {
    /// The cheapest plan for `arrivals` in `scenario`.
    #[must_use]
    pub fn of(scenario: &Scenario, arrivals: &Arrivals) -> Self {
        let workload = &scenario.workload;
        let need = Need::of(arrivals, &scenario.profile.costs, workload.promised, BIN);
        let plan = need.plan(1.0, Rounding::Up, scenario.fleet.warmup.median, workload.bounds, workload.start);
        let seconds = plan.replica_seconds(workload.span() + BILLED_AFTER);
        Self { plan, gpu_hours: seconds * f64::from(scenario.profile.gpus) / 3600.0 }
    }
}
