//! The controllers of workloads: Deployments become ReplicaSets, those become pods, and the pods live as they are told.

mod deployment;
mod garbage;
mod pods;
mod replica_set;
mod rollout;

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::sandbox::Sandbox;

pub use pods::{Life, PodView, Stage, after};

/// A change may have consequences, each of which is a change. More rounds than these would be a quarrel.
const ROUNDS: usize = 10;

/// Stand-ins for the Deployment, ReplicaSet and garbage controllers, the scheduler and the kubelet.
pub struct Controllers {
    sandbox: Sandbox,
    life: Life,
}

impl Controllers {
    /// Of this API. `life` says of each pod, whenever it is looked at, which stage of its life it is in; it must not call the API.
    #[must_use]
    pub fn new(sandbox: &Sandbox, life: Life) -> Self {
        Self { sandbox: sandbox.clone(), life }
    }

    /// Does all that is to be done now.
    pub fn step(&mut self) {
        let life = &mut self.life;
        self.sandbox.with(|api, now| {
            for _ in 0..ROUNDS {
                let before = api.store.version();
                deployment::reconcile_all(api, now);
                replica_set::reconcile_all(api, now);
                pods::reconcile_all(api, life, now);
                garbage::collect(api, now);
                if api.store.version() == before {
                    break;
                }
            }
        });
    }

    /// Steps whenever something changes, and every `period`, until `shutdown`.
    pub async fn run(mut self, period: Duration, shutdown: CancellationToken) {
        let mut changes = self.sandbox.changes();
        loop {
            self.step();
            changes.borrow_and_update();
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(period) => {}
                changed = changes.changed() => if changed.is_err() { return },
            }
        }
    }
}
