//! The pod autoscaler of Knative (KPA).
//!
//! Source: Knative Serving, `pkg/autoscaler/scaling/autoscaler.go` and `config-autoscaler`: every 2 s; concurrency averaged over a
//! stable window of 60 s and a panic window of 6 s; panic when the short one asks for at least twice the ready pods, until it has not
//! for 60 s; at most 1000 times as many and no less than half as many as are ready. In panic the fleet only grows. Started over a
//! fleet of more than one it begins in panic, so that a restart does not shrink it. There, concurrency is sampled each second; here it
//! is as often as metrics are scraped.

use super::{Policy, Verdict, View};

/// The pod autoscaler of Knative.
#[derive(Clone, Debug)]
pub struct Kpa {
    /// Requests in flight that a pod should have: the concurrency that it can take times a utilisation of 70 %.
    target: f64,
    panic: Panic,
}

/// Whether the fleet only grows.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Panic {
    /// Not yet known: nothing was decided so far.
    Unstarted,
    Calm,
    /// Since `since` the short window has not asked for more, and `most` pods were wanted.
    Panicking {
        since: f64,
        most: u32,
    },
}

const STABLE_WINDOW: f64 = 60.0;
const PANIC_WINDOW: f64 = 6.0;
/// Panic when so many times the ready pods are wanted.
const PANIC_THRESHOLD: f64 = 2.0;
const MAX_SCALE_UP: f64 = 1000.0;
const MAX_SCALE_DOWN: f64 = 2.0;

impl Kpa {
    /// With this many requests in flight a pod, above 0.
    #[must_use]
    pub fn new(target: f64) -> Self {
        Self { target, panic: Panic::Unstarted }
    }

    /// The pods that these means of the concurrency ask for, at `now` and with so many ready.
    fn desired(&mut self, now: f64, ready: u32, stable: f64, panic: f64) -> u32 {
        let pods = f64::from(ready.max(1));
        let (least, most) = ((pods / MAX_SCALE_DOWN).floor(), (pods * MAX_SCALE_UP).ceil());
        let limited = |concurrency: f64| (concurrency / self.target).ceil().clamp(least, most) as u32;
        let over = (panic / self.target).ceil() / pods >= PANIC_THRESHOLD;
        let (for_stable, for_panic) = (limited(stable), limited(panic));

        self.panic = match self.panic {
            Panic::Unstarted if ready > 1 => Panic::Panicking { since: now, most: ready },
            Panic::Unstarted => Panic::Calm,
            before => before,
        };
        self.panic = match self.panic {
            Panic::Panicking { most, .. } if over => Panic::Panicking { since: now, most },
            _ if over => Panic::Panicking { since: now, most: 0 },
            Panic::Panicking { since, .. } if since + STABLE_WINDOW < now => Panic::Calm,
            before => before,
        };
        match &mut self.panic {
            Panic::Panicking { most, .. } => {
                *most = for_stable.max(for_panic).max(*most);
                *most
            }
            _ => for_stable,
        }
    }
}

impl Policy for Kpa {
    fn name(&self) -> String {
        format!("kpa {}", self.target)
    }

    fn period(&self) -> f64 {
        2.0
    }

    fn decide(&mut self, view: &View<'_>) -> Verdict {
        let mean = |seconds| view.metrics.in_flight_mean(view.now, seconds);
        let (Some(stable), Some(panic)) = (mean(STABLE_WINDOW), mean(PANIC_WINDOW)) else {
            return Verdict { why: "the concurrency is missing".to_owned(), on_missing: true, ..Verdict::default() };
        };
        let desired = self.desired(view.now, view.ready, stable, panic).clamp(view.bounds.min.get(), view.bounds.max.get());
        let mood = if matches!(self.panic, Panic::Panicking { .. }) { ", panicking" } else { "" };
        let why = format!("{stable:.1} in flight over 60 s and {panic:.1} over 6 s at {} a pod ask for {desired}{mood}", self.target);
        Verdict { write: (desired != view.replicas).then_some(desired), why, ..Verdict::default() }
    }
}
