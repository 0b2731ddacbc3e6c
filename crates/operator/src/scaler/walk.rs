//! The five steps of a sync.

use llmscaler_engine::{Mode, Observation, Replicas, Stage, Time, Warmth, Workload, decide};
use tokio::time::Instant;
use tracing::info;

use super::deferral::{Awaited, Decided, Versions};
use super::failed::Failed;
use super::{Current, Task};
use crate::actuation::{by_hpa, feed, stand_in, zero_or_one};
use crate::apply::{Applied, Order, WriteError, apply, clear_marks, remove_hpa};
use crate::context::Context;
use crate::dashboard::{Lateness, Synced};
use crate::dereference::{Place, View};
use crate::metrics::WriteOutcome;
use crate::observe::Observed;
use crate::owners::{Contest, Rival, first_rival};
use crate::report::Conclusion;
use crate::target::Target;

impl Task {
    /// The five steps. The decision is taken as of the moment that the sync was due at: what happened eight periods of 15 s ago is
    /// then 120 s old, and not some milliseconds less or more.
    pub(super) async fn walk(&mut self, due: Instant) -> Result<(), Failed> {
        let context = self.context.clone();
        let now = context.clock.at(due);
        self.awaited = Awaited::Nothing;

        // dereference
        let Some(current) = &mut self.current else { return Ok(()) };
        let place = current.place(&context, &self.namespace).await?;
        self.versions = Some(Versions::of(&context, &place));
        let (view, replicas) = current.look(&context, &place).await?;
        let Current { scaler, observer, .. } = current;

        let by_hpa = by_hpa(scaler);
        if !by_hpa {
            // Before anything else is written: two would undo each other's work.
            remove_hpa(&context, &self.object, &mut self.own_hpa).await.map_err(Failed::Hpa)?;
        }

        // observe
        let pods: Vec<_> = view.pods.iter().map(|(pod, _)| pod.clone()).collect();
        let Observed { readings, traffic, problems } = observer.observe(&context, &self.name, &pods).await;
        // What an HPA of our own does to the size is no contest.
        if !by_hpa {
            self.contest.look(context.clock.now(), &view.target, replicas);
        }
        let other_owner = other_owner(&context, &place, &self.name, scaler.spec.mode, &view.target, &self.contest);
        // Sources may take their time, and pods go on meanwhile.
        let view = View { pods: place.pods(&view.target), ..view };
        self.warmup.look(&view.target.uid, view.pods.iter().map(|(pod, _)| pod));
        let warmup = self.warmup.last();
        let workload = Workload { warmup, ..view.workload(context.clock.timestamp(), replicas, other_owner.clone(), Warmth::NotAsked) };

        // decide
        let (spec, memory) = (&scaler.spec, std::mem::take(&mut self.memory));
        let mut seen = Observation { workload, readings, traffic };
        let judged = |decision| if by_hpa { zero_or_one(spec, decision) } else { decision };
        let mut decision = judged(decide(spec, &seen, &memory, now));
        if !by_hpa && decision.out_of(Stage::Pace) < replicas {
            seen.workload.warmth = observer.warmth(context.clock.now()).await;
            decision = decide(spec, &seen, &memory, now);
        }
        let warmth = std::mem::take(&mut seen.workload.warmth);
        let lateness = Lateness::of(seen.traffic.as_deref());

        if by_hpa {
            feed(&context, &self.object, scaler, &decision);
        }

        // apply
        clear_marks(&context, &place, &view, replicas, &decision.victims).await;
        let mut outcome = Ok(None);
        if decision.write.is_some() {
            let again = |workload| {
                seen.workload = Workload { warmup, ..workload };
                Some(judged(decide(spec, &seen, &memory, now)))
            };
            let (other_owner, patience) = (other_owner.as_deref(), spec.sync_period);
            let order = Order { object: &self.object, place: &place, other_owner, warmth: &warmth, patience };
            match apply(&context, order, again).await {
                Ok(Some(Applied { decision: done, generation })) => {
                    if let Some(count) = done.write {
                        self.contest.wrote(context.clock.now(), &view.target, count, generation);
                    }
                    outcome = Ok(done.write);
                    decision = done;
                }
                Ok(None) => {}
                Err(error) => outcome = Err(error),
            }
        }

        self.reporter.reflection = match by_hpa {
            true => Some(stand_in(&context, &self.object, scaler, &mut self.own_hpa, &decision, other_owner.as_deref()).await),
            false => None,
        };

        // report
        self.reporter.problems(&context, &self.object, &problems).await;
        self.settle_accounts(Decided { decision, warmth, view, other_owner, lateness }, outcome, now).await
    }

    /// Remembers and reports a decision, and what became of its write, which counts as made `at` this moment.
    pub(super) async fn settle_accounts(
        &mut self,
        done: Decided,
        outcome: Result<Option<Replicas>, WriteError>,
        at: Time,
    ) -> Result<(), Failed> {
        let decision = &done.decision;
        if let (Some(current), Ok(Some(count))) = (&mut self.current, &outcome) {
            current.size = Some(*count);
        }
        let Some(Current { scaler, .. }) = &self.current else { return Ok(()) };
        let context = &self.context;
        self.memory = decision.memory.clone();
        context.metrics.decision(&self.namespace, &self.name, &scaler.spec, decision);
        if let Some(history) = &context.history {
            let (spec, written, lateness) = (&scaler.spec, outcome.as_ref().ok().copied().flatten(), done.lateness);
            history.decided(&self.namespace, &self.name, &Synced { at, target: &scaler.target, spec, decision, written, lateness });
        }
        match outcome {
            Ok(written) => {
                if let Some(count) = written {
                    self.memory.record_write(&scaler.spec, at, decision.replicas, count);
                    context.metrics.write(&self.namespace, &self.name, WriteOutcome::Ok);
                }
                let scoped = self.current.as_ref().and_then(|current| current.observer.scoped.as_ref());
                let conclusion = Conclusion { decision, written, warmup: self.warmup.status(), scoped };
                let news = self.reporter.decision(context, &self.object, conclusion).await;
                if decision.deferred() && written.is_none() {
                    if news {
                        info!(reason = %decision.reason, "Deferring scaling: {}", decision.message);
                    }
                    self.awaited = Awaited::Release(Box::new(done));
                }
                Ok(())
            }
            Err(error) => {
                context.metrics.write(&self.namespace, &self.name, error.outcome());
                Err(Failed::Write(error))
            }
        }
    }
}

/// Who else writes the size of the target, in words.
pub(super) fn other_owner(context: &Context, place: &Place, name: &str, mode: Mode, target: &Target, contest: &Contest) -> Option<String> {
    let Place { namespace, target: named, autoscalers, .. } = place;
    let rival = first_rival(&context.owners, autoscalers, namespace, name, target, named)
        .or_else(|| contest.taker().map(|taker| Rival::taker(taker, target, named)))?;
    Some(rival.words(mode))
}
