//! A fleet that follows a plan which was made with the future known.

use super::{Policy, Verdict, View};
use crate::bound::Plan;

/// Follows a plan, whatever it sees: no policy for a cluster, but what policies are measured by.
#[derive(Clone, Debug, PartialEq)]
pub struct Clairvoyant {
    name: String,
    plan: Plan,
}

impl Clairvoyant {
    /// Follows `plan`; `name` tells how it was made.
    #[must_use]
    pub fn new(name: String, plan: Plan) -> Self {
        Self { name, plan }
    }
}

impl Policy for Clairvoyant {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn period(&self) -> f64 {
        Plan::GRAIN
    }

    fn decide(&mut self, view: &View<'_>) -> Verdict {
        let replicas = view.bounds.clamp(self.plan.at(view.now).into()).get();
        let write = (replicas != view.replicas).then_some(replicas);
        let why = write.map(|_| "the plan says so".to_owned()).unwrap_or_default();
        Verdict { write, why, ..Verdict::default() }
    }
}
