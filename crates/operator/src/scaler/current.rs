//! One usable generation of a scaler: what it asks for, where its target is, and how its readings come.

use std::sync::Arc;
use std::time::Duration;

use llmscaler_api::Scaler;
use llmscaler_engine::Replicas;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::context::Context;
use crate::dereference::{Place, Unreachable, View};
use crate::observe::Observer;

/// For how long a watch that shows nothing new is believed. An autoscaler of Kubernetes asks for the size every 15 s.
const TRUST: Duration = Duration::from_secs(120);

/// A usable generation of the object.
pub(super) struct Current {
    pub scaler: Scaler,
    pub observer: Observer,
    pub place: Option<Arc<Place>>,
    /// The size of the target when it was last written or looked at.
    pub size: Option<Replicas>,
    /// When the target itself was last asked, or its watch begun.
    looked: Instant,
}

impl Current {
    /// The next generation, with what goes on from the one before: the watches on an unchanged target, and what was read of pages.
    pub(super) fn succeed(before: Option<Self>, scaler: Scaler, namespace: &str, clock: Clock) -> Self {
        let (observer, place, size, looked) = match before {
            Some(before) if before.scaler.target == scaler.target => (Some(before.observer), before.place, before.size, before.looked),
            before => (before.map(|before| before.observer), None, None, Instant::now()),
        };
        Self { observer: Observer::new(&scaler, namespace, clock, observer), scaler, place, size, looked }
    }

    /// The target's place, found once for each generation of the object.
    pub(super) async fn place(&mut self, context: &Context, namespace: &str) -> Result<Arc<Place>, Unreachable> {
        if let Some(place) = &self.place {
            return Ok(place.clone());
        }
        let place = Arc::new(Place::find(&context.cluster, namespace, &self.scaler.target).await?);
        self.place = Some(place.clone());
        Ok(place)
    }

    /// The target and its size, as its watch shows them, or as the API server has them where the watch may be wrong.
    pub(super) async fn look(&mut self, context: &Context, place: &Place) -> Result<(View, Replicas), Unreachable> {
        let (mut view, mut replicas) = place.look(context).await?;
        // Somebody has scaled the target, or its watch has fallen silent and shows it as it was before our last write: a dead connection
        // takes minutes to be noticed, in which a fleet would be held to be right that is not. The same goes for a watch that fails.
        let doubtful = self.size.is_some_and(|known| known != replicas) || place.targets.failing().is_some();
        if doubtful || self.looked.elapsed() >= TRUST {
            (view, replicas, _) = place.look_live(context).await?;
            self.looked = Instant::now();
        }
        self.size = Some(replicas);
        Ok((view, replicas))
    }
}
