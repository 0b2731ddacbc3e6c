//! One pod: how long it takes to start, and the course of its life.

use rand::RngExt;
use rand_distr::StandardNormal;
use rand_pcg::Pcg64;

use crate::policy::PodView;
use crate::scenario::Warmup;

/// The course of one pod, all in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PodLife {
    /// When it got its GPUs.
    pub created: f64,
    /// When it became ready.
    pub ready: Option<f64>,
    /// When it was told to go, if it served then.
    pub leaving: Option<f64>,
    /// When it was gone.
    pub gone: f64,
}

#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub id: u64,
    pub created: f64,
    /// When it got its GPUs; `None`: it found none.
    pub scheduled: Option<f64>,
    pub ready: Option<f64>,
    pub leaving: Option<f64>,
    /// Where its replica is, once it is ready.
    pub slot: Option<u32>,
}

impl Pod {
    /// One that is asked for at `now` and has no GPUs yet.
    pub fn new(id: u64, now: f64) -> Self {
        Self { id, created: now, scheduled: None, ready: None, leaving: None, slot: None }
    }

    /// What a policy sees of it, with the share of its KV cache that is in use, 0 to 1.
    pub fn view(&self, kv_usage: f64) -> PodView {
        PodView {
            id: self.id,
            created: self.created,
            ready_since: self.ready,
            terminating: self.leaving.is_some(),
            unschedulable: self.scheduled.is_none(),
            kv_usage,
        }
    }

    /// Its course, if it had GPUs.
    pub fn life(&self, gone: f64) -> Option<PodLife> {
        Some(PodLife { created: self.scheduled?, ready: self.ready, leaving: self.leaving, gone })
    }
}

impl Warmup {
    /// Seconds that a pod takes which starts while `loading` do, itself included.
    pub(super) fn sample(&self, loading: usize, random: &mut Pcg64) -> f64 {
        let slowed = (loading as f64 / f64::from(self.loading_at_once.max(1))).max(1.0);
        let seconds = self.median + self.load * (slowed - 1.0);
        let normal: f64 = random.sample(StandardNormal);
        if self.sigma > 0.0 { seconds * (self.sigma * normal).exp() } else { seconds }
    }
}
