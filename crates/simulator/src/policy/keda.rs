//! KEDA with the dual metric of llm-d's KEDA and EPP guide.
//!
//! Source: llm-d, `guides/workload-autoscaling/keda-epp` of 2026: the router's queue at `AverageValue` 1, or the saturation of its pool
//! at 0.7, and running requests at 16; polled every 15 s; up by 100 % within 15 s without a window, down to the largest proposal of
//! 300 s. Between 0 and 1 KEDA scales itself: up when a metric is above 0, down to 0 when none has been for 300 s, whatever the size.
//! What the guide's saturation overlay lacks it lacks here: a mean of the pool does not grow with it, so beyond two replicas only
//! running requests scale.

use llmscaler_engine::{Behavior, Bounds, PolicyLimit, Replicas};

use super::hpa::rules;
use super::{Hpa, Metric, Per, Policy, Verdict, View};

/// KEDA and the horizontal pod autoscaler that it keeps.
pub struct Keda {
    hpa: Hpa,
    /// When a metric was last above 0; the first poll counts as such.
    last_active: Option<f64>,
}

/// Seconds without activity until the fleet goes to zero.
const COOLDOWN: f64 = 300.0;

impl Keda {
    /// By the queue of the gateway and the requests that are with pods.
    #[must_use]
    pub fn queue(queued: f64, running: f64) -> Self {
        let queue = Metric::new("queued requests", Per::Replica(queued), |view| view.metrics.queued(view.now));
        Self::with(format!("keda {queued}/{running}"), queue, running)
    }

    /// By the saturation of the pool and the requests that are with pods.
    #[must_use]
    pub fn saturation(saturation: f64, running: f64) -> Self {
        let pool = Metric::new("pool saturation", Per::Replica(saturation), |view| view.metrics.pool_saturation(view.now));
        Self::with(format!("keda-saturation {saturation}/{running}"), pool, running)
    }

    fn with(name: String, first: Metric, running: f64) -> Self {
        let running = Metric::new("running requests", Per::Replica(running), |view| view.metrics.with_pods(view.now));
        let behavior = Behavior { up: rules(0, &[(PolicyLimit::Percent(100), 15)]), down: rules(300, &[(PolicyLimit::Percent(100), 15)]) };
        Self { hpa: Hpa::new(name, vec![first, running], behavior), last_active: None }
    }

    /// Whether there is work; `None` when that is not known.
    fn active(view: &View<'_>) -> Option<bool> {
        let (queued, running) = (view.metrics.queued(view.now), view.metrics.with_pods(view.now));
        if queued.is_some_and(|x| x > 0.0) || running.is_some_and(|x| x > 0.0) {
            return Some(true);
        }
        queued.and(running).map(|_| false)
    }
}

impl Policy for Keda {
    fn name(&self) -> String {
        self.hpa.name()
    }

    fn period(&self) -> f64 {
        Hpa::PERIOD
    }

    fn decide(&mut self, view: &View<'_>) -> Verdict {
        let to_zero = view.bounds.min == Replicas::ZERO;
        let active = Self::active(view);
        if active == Some(true) {
            self.last_active = Some(view.now);
        }
        let idle = view.now - *self.last_active.get_or_insert(view.now);
        match (view.replicas, active) {
            (0, Some(true)) => {
                Verdict { write: Some(view.bounds.min.max(Replicas::ONE).get()), why: "active".to_owned(), ..Verdict::default() }
            }
            (0, _) => Verdict { why: "inactive".to_owned(), on_missing: active.is_none(), ..Verdict::default() },
            (_, Some(false)) if to_zero && idle >= COOLDOWN => {
                Verdict { write: Some(0), why: format!("inactive for {idle:.0} s"), ..Verdict::default() }
            }
            _ => {
                let bounds = Bounds { min: view.bounds.min.max(Replicas::ONE), ..view.bounds };
                self.hpa.decide(&View { bounds, ..*view })
            }
        }
    }
}
