//! So many requests in flight a replica, paced as the SLO law of llm-d is: the plainest law that does well where prompts and answers
//! keep their lengths.

use super::seed::seed_behavior;
use super::{Hpa, Metric, Per};

/// A horizontal pod autoscaler with the `AverageValue` `target` of requests in flight, held back, waiting or running, and the
/// behaviour of the SLO guide.
#[must_use]
pub fn in_flight(target: f64) -> Hpa {
    let metric = Metric::new("requests in flight", Per::Replica(target), |view| view.metrics.in_flight(view.now));
    Hpa::new(format!("in-flight {target}"), vec![metric], seed_behavior())
}
