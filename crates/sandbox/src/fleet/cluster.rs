//! Runs the fleets of an API.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Fleet, Lag};
use crate::controllers::{Controllers, PodView, Stage};
use crate::sandbox::Sandbox;

/// The fleets of an API, with the controllers that make their pods.
pub struct Fleets {
    sandbox: Sandbox,
    fleets: Vec<Fleet>,
    controllers: Controllers,
    lag: Lag,
}

impl Fleets {
    /// These fleets. Pods that belong to none of them start at no time.
    #[must_use]
    pub fn new(sandbox: &Sandbox, fleets: Vec<Fleet>) -> Self {
        let theirs = fleets.clone();
        let life = Box::new(move |pod: PodView<'_>| match theirs.iter().find(|fleet| fleet.owns(pod)) {
            Some(fleet) => fleet.stage(pod),
            None if pod.terminating.is_some() => Stage::Ended,
            None => Stage::Starting,
        });
        Self { sandbox: sandbox.clone(), fleets, controllers: Controllers::new(sandbox, life), lag: Lag::default() }
    }

    /// How late they are looked at while they [run](Self::run).
    #[must_use]
    pub fn lag(&self) -> Lag {
        self.lag.clone()
    }

    /// Does all that is to be done now.
    pub fn step(&mut self) {
        self.controllers.step();
        self.fleets.iter().for_each(Fleet::bury);
    }

    /// Steps whenever an object changes, and every `period` of real time, until `shutdown`.
    pub async fn run(mut self, period: Duration, shutdown: CancellationToken) {
        let mut changes = self.sandbox.changes();
        let mut last = self.sandbox.now();
        loop {
            let now = self.sandbox.now();
            self.lag.enter(now.duration_since(last));
            last = now;
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
