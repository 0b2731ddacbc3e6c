//! One usable generation of a scaler: what it asks for, where its target is, and how its readings come.

use std::sync::Arc;

use llmscaler_api::Scaler;
use llmscaler_engine::Replicas;

use crate::clock::Clock;
use crate::context::Context;
use crate::dereference::{Place, Unreachable, View};
use crate::observe::Observer;

/// A usable generation of the object.
pub(super) struct Current {
    pub scaler: Scaler,
    pub observer: Observer,
    pub place: Option<Arc<Place>>,
    /// The size of the target when it was last written or looked at.
    pub size: Option<Replicas>,
}

impl Current {
    /// The next generation, with what goes on from the one before: the watches on an unchanged target, and what was read of pages.
    pub(super) fn succeed(before: Option<Self>, scaler: Scaler, namespace: &str, clock: Clock) -> Self {
        let (observer, place, size) = match before {
            Some(before) if before.scaler.target == scaler.target => (Some(before.observer), before.place, before.size),
            Some(before) => (Some(before.observer), None, None),
            None => (None, None, None),
        };
        Self { observer: Observer::new(&scaler, namespace, clock, observer), scaler, place, size }
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
        if self.size.is_some_and(|known| known != replicas) || place.targets.failing().is_some() {
            (view, replicas, _) = place.look_live(context).await?;
        }
        self.size = Some(replicas);
        Ok((view, replicas))
    }
}
