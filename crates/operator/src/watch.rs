//! What a watch of one resource in one namespace knows now, shared by every scaler that needs it.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::Resource;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{debug, warn};

use crate::deadline::watched;
use crate::health::{Failures, Part};
use crate::metrics::{Metrics, Watched};
use crate::words;

/// How often a quiet watch shows that its task is alive.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// What is kept of a watched object.
pub(crate) trait Kept: Send + Sync + Sized + 'static {
    /// The object as the API serves it.
    type Object: Resource + Clone + Debug + DeserializeOwned + Send + 'static;

    /// The part that decisions need. The rest is dropped at once: thousands of full objects would not fit into memory.
    fn keep(object: Self::Object) -> Self;

    /// What it is looked up by besides its name: the UID of the controller that owns it or, for an autoscaler, its target.
    fn owner(&self) -> Option<&str>;

    /// The name that no other has in its collection.
    fn name(meta: &ObjectMeta) -> String {
        meta.name.clone().unwrap_or_default()
    }
}

/// The objects of one resource in one namespace, as the last watch event left them. The watch ends with the last handle.
pub(crate) struct Collection<T> {
    shared: Arc<Shared<T>>,
    _watch: DropGuard,
}

struct Shared<T> {
    state: RwLock<State<T>>,
    version: watch::Sender<u64>,
}

struct State<T> {
    /// In the order of their names, so that whoever looks twice sees the same.
    by_name: BTreeMap<String, Arc<T>>,
    by_owner: HashMap<String, BTreeMap<String, Arc<T>>>,
    /// Whether a full list has been seen, without which an empty collection means nothing.
    listed: bool,
    failure: Option<String>,
    /// Why it has been failing, or not answered, for a minute, so that what is known may be long past.
    failing: Option<String>,
}

impl<T> Default for State<T> {
    fn default() -> Self {
        Self { by_name: BTreeMap::new(), by_owner: HashMap::new(), listed: false, failure: None, failing: None }
    }
}

impl<T: Kept> State<T> {
    fn insert(&mut self, name: String, kept: T) {
        self.remove(&name);
        let kept = Arc::new(kept);
        if let Some(owner) = kept.owner() {
            self.by_owner.entry(owner.to_owned()).or_default().insert(name.clone(), kept.clone());
        }
        self.by_name.insert(name, kept);
    }

    fn remove(&mut self, name: &str) {
        let Some(kept) = self.by_name.remove(name) else { return };
        if let Some(owner) = kept.owner()
            && let Some(owned) = self.by_owner.get_mut(owner)
        {
            owned.remove(name);
            if owned.is_empty() {
                self.by_owner.remove(owner);
            }
        }
    }
}

/// Why a collection cannot be relied on.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NotListed(String);

impl<T: Kept> Collection<T> {
    /// Starts to watch; `part` reports whether it lives, `metrics` whether it fails, and `complete` adds to an object what the API server
    /// leaves out.
    pub(crate) fn watch(
        api: Api<T::Object>,
        what: Watched,
        part: Part,
        metrics: Metrics,
        complete: impl Fn(&mut T::Object) + Send + 'static,
    ) -> Self {
        let (version, _) = watch::channel(0);
        let shared = Arc::new(Shared { state: RwLock::default(), version });
        let cancel = CancellationToken::new();
        tokio::spawn(run(api, shared.clone(), what, part, metrics, complete, cancel.clone()));
        Self { shared, _watch: cancel.drop_guard() }
    }

    /// Waits until the objects have been listed once, at most for `patience`.
    pub(crate) async fn listed(&self, patience: Duration) -> Result<(), NotListed> {
        let mut version = self.shared.version.subscribe();
        let wait = version.wait_for(|_| self.read(|state| state.listed));
        if tokio::time::timeout(patience, wait).await.is_ok() {
            return Ok(());
        }
        let why = self.read(|state| state.failure.clone());
        Err(NotListed(why.unwrap_or_else(|| format!("the API server has not answered a list within {} s", patience.as_secs()))))
    }

    /// Why it cannot be watched, if that has failed for a minute: what it shows may be long past.
    pub(crate) fn failing(&self) -> Option<String> {
        self.read(|state| state.failing.clone())
    }

    /// Waits until the API server has answered the first list, if only with a refusal.
    pub(crate) async fn answered(&self) {
        let mut version = self.shared.version.subscribe();
        // A sender that is gone tells nothing more.
        let _ = version.wait_for(|_| self.read(|state| state.listed || state.failure.is_some())).await;
    }

    /// The object of that name.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<T>> {
        self.read(|state| state.by_name.get(name).cloned())
    }

    /// The objects that the controller with this UID owns, by name.
    pub(crate) fn owned_by(&self, uid: &str) -> Vec<Arc<T>> {
        self.read(|state| state.by_owner.get(uid).map(|owned| owned.values().cloned().collect()).unwrap_or_default())
    }

    /// Those that `wanted` picks, by name.
    pub(crate) fn select(&self, wanted: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        self.read(|state| state.by_name.values().filter(|kept| wanted(kept)).cloned().collect())
    }

    /// Moves with each change.
    pub(crate) fn version(&self) -> watch::Receiver<u64> {
        self.shared.version.subscribe()
    }

    fn read<R>(&self, look: impl FnOnce(&State<T>) -> R) -> R {
        look(&self.shared.state.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T: Kept> Shared<T> {
    fn change(&self, change: impl FnOnce(&mut State<T>)) {
        change(&mut self.state.write().unwrap_or_else(PoisonError::into_inner));
        self.version.send_modify(|version| *version = version.wrapping_add(1));
    }
}

async fn run<T: Kept>(
    api: Api<T::Object>,
    shared: Arc<Shared<T>>,
    what: Watched,
    part: Part,
    metrics: Metrics,
    complete: impl Fn(&mut T::Object),
    cancel: CancellationToken,
) {
    let mut events = std::pin::pin!(watcher(api, watched()).default_backoff().modify(complete));
    let mut heartbeat = tokio::time::interval(HEARTBEAT);
    // One watch that is refused, for a kind that may not be read, must not make the whole operator unready: it shows in the metrics,
    // and on the scalers that need it.
    part.ready();
    let mut failures = Failures::default();
    // Objects of a list under way replace the others together, when the list is complete.
    let mut listing = State::default();
    loop {
        tokio::select! {
            () = cancel.cancelled() => {
                part.finished();
                metrics.forget_watch(&what);
                return;
            }
            _ = heartbeat.tick() => {
                part.beat();
                metrics.watch(&what, failures.lasting().is_some());
            }
            event = events.next() => match event {
                // The part is dropped without being finished, which health reports.
                None => return,
                Some(Ok(event)) => {
                    failures.noted(&event);
                    take(event, &shared, &mut listing);
                }
                Some(Err(error)) => {
                    let error = words::of_watch(&error);
                    if failures.failed(error.clone()) {
                        warn!(watch = %what, error, "Watch interrupted; trying on");
                    }
                    shared.change(|state| state.failure = Some(error));
                }
            },
        }
        let failing = failures.lasting().map(str::to_owned);
        if shared.state.read().unwrap_or_else(PoisonError::into_inner).failing != failing {
            shared.change(|state| state.failing = failing);
        }
    }
}

/// Resolves at the next change.
pub(crate) async fn change(version: &mut watch::Receiver<u64>) {
    if version.changed().await.is_err() {
        // A sender that is gone is a watch that has ended; nothing more comes from it.
        std::future::pending().await
    }
}

fn take<T: Kept>(event: Event<T::Object>, shared: &Shared<T>, listing: &mut State<T>) {
    let name = |object: &T::Object| T::name(object.meta());
    match event {
        Event::Init => *listing = State::default(),
        Event::InitApply(object) => listing.insert(name(&object), T::keep(object)),
        Event::InitDone => {
            let mut complete = std::mem::take(listing);
            complete.listed = true;
            debug!(objects = complete.by_name.len(), "Listed");
            shared.change(|state| *state = complete);
        }
        Event::Apply(object) => {
            let (name, kept) = (name(&object), T::keep(object));
            shared.change(|state| {
                state.failure = None;
                state.insert(name, kept);
            });
        }
        Event::Delete(object) => shared.change(|state| state.remove(&name(&object))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use k8s_openapi::api::core::v1::ConfigMap;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
    use serde_json::json;

    use super::*;
    use crate::fake_api;
    use crate::health::Health;

    struct Map {
        owner: Option<String>,
    }

    impl Kept for Map {
        type Object = ConfigMap;

        fn keep(object: ConfigMap) -> Self {
            Self { owner: object.metadata.owner_references.and_then(|owners| owners.into_iter().next()).map(|owner| owner.uid) }
        }

        fn owner(&self) -> Option<&str> {
            self.owner.as_deref()
        }
    }

    fn map(name: &str, owner: Option<&str>) -> ConfigMap {
        let owners = owner.map(|uid| vec![OwnerReference { uid: uid.to_owned(), ..OwnerReference::default() }]);
        let metadata = ObjectMeta { name: Some(name.to_owned()), owner_references: owners, ..ObjectMeta::default() };
        ConfigMap { metadata, ..ConfigMap::default() }
    }

    fn after(events: Vec<Event<ConfigMap>>) -> Collection<Map> {
        let (version, _) = watch::channel(0);
        let shared = Arc::new(Shared { state: RwLock::default(), version });
        let mut listing = State::default();
        for event in events {
            take(event, &shared, &mut listing);
        }
        Collection { shared, _watch: CancellationToken::new().drop_guard() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_collection_counts_as_listed_when_the_list_is_complete() {
        let patience = Duration::from_secs(1);
        assert!(after(vec![Event::Init, Event::InitApply(map("a", None))]).listed(patience).await.is_err());
        let listed = after(vec![Event::Init, Event::InitApply(map("a", None)), Event::InitDone]);
        assert!(listed.listed(patience).await.is_ok());
        assert!(listed.get("a").is_some() && listed.get("b").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_has_failed_for_a_minute_says_so_until_it_works_again() {
        let refused = Arc::new(AtomicBool::new(false));
        let asked_for = refused.clone();
        let client = fake_api::client(move |_| match asked_for.load(Ordering::Relaxed) {
            true => fake_api::refusal(403, "Forbidden", "configmaps is forbidden"),
            false => Some((200, json!({"metadata": {"resourceVersion": "1"}, "items": []}))),
        });
        let (api, part) = (Api::namespaced(client, "serving"), Health::new().part("maps", Duration::MAX));
        let maps: Collection<Map> = Collection::watch(api, Watched::new("configmaps", "serving"), part, Metrics::new(), |_| {});
        assert!(maps.listed(Duration::from_secs(1)).await.is_ok());
        let after = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
        after(400).await;
        assert_eq!(maps.failing(), None);
        refused.store(true, Ordering::Relaxed);
        after(400).await;
        assert_eq!(maps.failing().as_deref(), Some("configmaps is forbidden"));
        refused.store(false, Ordering::Relaxed);
        after(200).await;
        assert_eq!(maps.failing(), None);
    }

    #[test]
    fn a_new_list_replaces_what_was_known() {
        let gone = Event::Apply(map("gone", Some("x")));
        let maps = after(vec![gone, Event::Init, Event::InitApply(map("kept", Some("x"))), Event::InitDone]);
        assert!(maps.get("gone").is_none());
        assert_eq!(maps.owned_by("x").len(), 1);
    }

    #[test]
    fn owners_follow_changes_and_deletions() {
        let maps = after(vec![
            Event::Apply(map("a", Some("x"))),
            Event::Apply(map("b", Some("x"))),
            Event::Apply(map("a", Some("y"))),
            Event::Delete(map("b", Some("x"))),
        ]);
        assert_eq!((maps.owned_by("x").len(), maps.owned_by("y").len()), (0, 1));
        assert_eq!(maps.select(|_| true).len(), 1);
    }

    #[test]
    fn objects_come_in_the_order_of_their_names() {
        let names = ["d", "a", "e", "c", "b", "f", "h", "g"];
        let maps = after(names.map(|name| Event::Apply(map(name, Some(name)))).into());
        let found: Vec<_> = maps.select(|_| true).iter().filter_map(|map| map.owner.clone()).collect();
        assert_eq!(found, ["a", "b", "c", "d", "e", "f", "g", "h"]);
    }
}
