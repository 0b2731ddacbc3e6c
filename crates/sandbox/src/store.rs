//! The objects, and the log of their changes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::Value;

use crate::object;
use crate::resources::Resource;

/// How many changes are remembered, each with the whole object, which may take tens of kilobytes. A watch from before them has to list
/// again, so they reach back further than it takes to ask for a watch again: 20 s in the fastest demo, in which some 40 come a second.
pub(crate) const LOG: usize = 1000;

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// The plural is unique among what is stored.
    pub plural: &'static str,
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub(crate) fn new(resource: &'static Resource, namespace: &str, name: &str) -> Self {
        Self { plural: &resource.stored_as().plural, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// One change. Both are `None` never: without an object before it is an addition, without one after a deletion.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub version: u64,
    pub key: Key,
    pub before: Option<Arc<Value>>,
    pub after: Option<Arc<Value>>,
}

/// Every object at its newest version, and the latest changes.
#[derive(Debug, Default)]
pub(crate) struct Store {
    objects: BTreeMap<Key, Arc<Value>>,
    log: VecDeque<Change>,
    version: u64,
    /// Changes up to this version are forgotten.
    forgotten: u64,
    /// How many UIDs and names have been given out.
    given: u64,
}

impl Store {
    /// The version of the newest change.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The version before which nothing is remembered.
    pub(crate) fn oldest(&self) -> u64 {
        self.forgotten
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Value>> {
        self.objects.get(key)
    }

    /// The objects of a resource, in all namespaces or in one, by namespace and name.
    pub(crate) fn list(&self, resource: &'static Resource, namespace: Option<&str>) -> Vec<Arc<Value>> {
        select(&self.objects, resource, namespace)
    }

    /// The same as it was at an older version; `None` if that is forgotten.
    pub(crate) fn list_at(&self, version: u64, resource: &'static Resource, namespace: Option<&str>) -> Option<Vec<Arc<Value>>> {
        if version < self.forgotten {
            return None;
        }
        let mut objects = self.objects.clone();
        for change in self.log.iter().rev().take_while(|change| change.version > version) {
            match &change.before {
                Some(before) => objects.insert(change.key.clone(), before.clone()),
                None => objects.remove(&change.key),
            };
        }
        Some(select(&objects, resource, namespace))
    }

    /// Every object.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        self.objects.iter()
    }

    /// The changes after `version`; `None` if some of them are forgotten.
    pub(crate) fn since(&self, version: u64) -> Option<impl Iterator<Item = &Change>> {
        let first = self.log.partition_point(|change| change.version <= version);
        (version >= self.forgotten).then(|| self.log.iter().skip(first))
    }

    /// Stores an object under a new version, which is written into it, and answers it.
    pub(crate) fn put(&mut self, key: Key, mut object: Value) -> Arc<Value> {
        self.version += 1;
        object::child(&mut object, "metadata").insert("resourceVersion".into(), self.version.to_string().into());
        let object = Arc::new(object);
        let before = self.objects.insert(key.clone(), object.clone());
        self.record(key, before, Some(object.clone()));
        object
    }

    /// Removes an object and answers it as it was last, under the version of its removal.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<Arc<Value>> {
        let before = self.objects.remove(key)?;
        self.version += 1;
        self.record(key.clone(), Some(before.clone()), None);
        Some(before)
    }

    /// Forgets all changes, so that no watch can be resumed.
    pub(crate) fn forget(&mut self) {
        self.log.clear();
        self.forgotten = self.version;
    }

    /// A number that was not given out before.
    pub(crate) fn next_number(&mut self) -> u64 {
        self.given += 1;
        self.given
    }

    fn record(&mut self, key: Key, before: Option<Arc<Value>>, after: Option<Arc<Value>>) {
        self.log.push_back(Change { version: self.version, key, before, after });
        if self.log.len() > LOG
            && let Some(oldest) = self.log.pop_front()
        {
            self.forgotten = oldest.version;
        }
    }
}

fn select(objects: &BTreeMap<Key, Arc<Value>>, resource: &'static Resource, namespace: Option<&str>) -> Vec<Arc<Value>> {
    let first = Key::new(resource, namespace.unwrap_or_default(), "");
    let of_it = objects.range(first.clone()..).take_while(|(key, _)| key.plural == first.plural);
    of_it.take_while(|(key, _)| namespace.is_none_or(|namespace| key.namespace == namespace)).map(|(_, object)| object.clone()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pods() -> &'static Resource {
        Resource::of_kind("Pod").unwrap()
    }

    fn put(store: &mut Store, namespace: &str, name: &str) -> Key {
        let key = Key::new(pods(), namespace, name);
        store.put(key.clone(), json!({"metadata": {"name": name, "namespace": namespace}}));
        key
    }

    #[test]
    fn versions_count_every_change() {
        let mut store = Store::default();
        let a = put(&mut store, "x", "a");
        put(&mut store, "y", "b");
        assert_eq!(store.get(&a).unwrap()["metadata"]["resourceVersion"], "1");
        store.remove(&a);
        let changes: Vec<_> = store.since(1).unwrap().map(|change| (change.version, change.after.is_some())).collect();
        assert_eq!(changes, [(2, true), (3, false)]);
        assert_eq!(store.list(pods(), None).len(), 1);
        assert!(store.list(pods(), Some("x")).is_empty());
    }

    #[test]
    fn the_past_can_be_listed_until_it_is_forgotten() {
        let mut store = Store::default();
        let a = put(&mut store, "x", "a");
        put(&mut store, "x", "b");
        store.remove(&a);
        let names = |version| -> Option<Vec<String>> {
            Some(store.list_at(version, pods(), None)?.iter().map(|pod| object::name(pod).to_owned()).collect())
        };
        assert_eq!(names(1).unwrap(), ["a"]);
        assert_eq!(names(2).unwrap(), ["a", "b"]);
        assert_eq!(names(3).unwrap(), ["b"]);
        store.forget();
        assert!(store.since(2).is_none() && store.since(3).unwrap().next().is_none());
        assert!(store.list_at(2, pods(), None).is_none());
    }

    #[test]
    fn the_log_is_bounded() {
        let mut store = Store::default();
        for n in 0..LOG + 5 {
            put(&mut store, "x", &format!("{n}"));
        }
        assert_eq!((store.oldest(), store.since(4).is_none(), store.since(5).unwrap().count()), (5, true, LOG));
    }
}
