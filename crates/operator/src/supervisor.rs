//! Watches the LLMScalers and keeps one task for each.

mod tasks;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource};
use llmscaler_api::LLMScaler;
use tracing::{info, warn};

use self::tasks::Tasks;
use crate::context::Context;
use crate::deadline::watched;
use crate::health::Part;
use crate::metrics::Watched;
use crate::words;

/// How often the loop shows that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// Namespace and name.
type Key = (String, String);

/// Watches the LLMScalers and keeps one task for each. All tasks end with it.
pub(crate) struct Supervisor {
    context: Arc<Context>,
    /// The only namespace to look at, if it is not all of them.
    namespace: Option<String>,
    tasks: Tasks,
    /// The objects of a list under way.
    listing: Option<HashMap<Key, DeserializeGuard<LLMScaler>>>,
    /// Whether the first list is complete: what comes later is new.
    listed: bool,
}

impl Supervisor {
    pub(crate) fn new(context: Context, namespace: Option<String>) -> Self {
        let context = Arc::new(context);
        Self { tasks: Tasks::new(context.clone()), context, namespace, listing: None, listed: false }
    }

    /// Runs until the watch ends, which it does not by itself.
    pub(crate) async fn run(&mut self, part: &Part) {
        let client = self.context.client.clone();
        let api: Api<DeserializeGuard<LLMScaler>> = match &self.namespace {
            Some(namespace) => Api::namespaced(client, namespace),
            None => Api::all(client),
        };
        let mut events = std::pin::pin!(watcher(api, watched()).default_backoff());
        let watched = Watched::new(&LLMScaler::plural(&()), self.namespace.as_deref().unwrap_or_default());
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        loop {
            tokio::select! {
                _ = heartbeat.tick() => {
                    part.beat();
                    self.context.metrics.watch(&watched, part.is_failing());
                }
                event = events.next() => match event {
                    None => return,
                    Some(Ok(event)) => {
                        part.noted(&event);
                        let listed = self.take(event);
                        if listed {
                            part.ready();
                        }
                    }
                    Some(Err(error)) => {
                        let error = words::of_watch(&error);
                        if part.failed(error.clone()) {
                            warn!(error, "The watch of LLMScalers was interrupted; trying on");
                        }
                    }
                },
                () = self.tasks.tend() => {}
            }
        }
    }

    /// Ends all tasks, and returns when they have ended.
    pub(crate) async fn stop(&mut self) {
        self.tasks.stop().await;
    }

    /// Takes in an event. Answers whether the scalers have been listed.
    fn take(&mut self, event: Event<DeserializeGuard<LLMScaler>>) -> bool {
        match event {
            Event::Init => self.listing = Some(HashMap::new()),
            Event::InitApply(object) => {
                if let Some(listing) = &mut self.listing {
                    listing.insert(key(&object), object);
                }
            }
            Event::InitDone => {
                let listing = self.listing.take().unwrap_or_default();
                for gone in self.tasks.keys().iter().filter(|key| !listing.contains_key(*key)) {
                    self.tasks.forget(gone);
                }
                for (key, object) in listing {
                    self.apply(key, object);
                }
                if !std::mem::replace(&mut self.listed, true) {
                    info!(scalers = self.tasks.running(), "Scaling");
                }
            }
            Event::Apply(object) => self.apply(key(&object), object),
            Event::Delete(object) => self.tasks.forget(&key(&object)),
        }
        self.context.metrics.scalers(self.tasks.running());
        self.listed
    }

    fn apply(&mut self, key: Key, object: DeserializeGuard<LLMScaler>) {
        match object.0 {
            Ok(object) => self.tasks.apply(key, Arc::new(object), self.listed),
            Err(invalid) => self.tasks.report(key, invalid),
        }
    }
}

fn key(object: &DeserializeGuard<LLMScaler>) -> Key {
    let meta = object.meta();
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}
