//! Deletions: at once, after a grace period, or when the last finalizer is gone.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::api::Api;
use crate::object;
use crate::refusal::Refusal;
use crate::request::{Ask, Request};
use crate::resources::Resource;
use crate::selector::Selector;
use crate::store::Key;

impl Api {
    /// Deletes an object and answers what it was last, or that it is gone.
    pub(crate) fn delete(&mut self, ask: &Ask, request: &Request, now: Timestamp) -> Result<Value, Refusal> {
        let resource = ask.resource.stored_as();
        stays_defined(resource)?;
        let name = ask.name.as_deref().unwrap_or_default();
        let key = Key::new(resource, ask.namespace.as_deref().unwrap_or_default(), name);
        let live = self.store.get(&key).cloned().ok_or_else(|| Refusal::not_found(ask.resource, name))?;
        let options = if request.body.is_empty() { json!({}) } else { request.json()? };
        for (field, what) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
            let (wanted, found) = (object::text(&options["preconditions"], &format!("/{field}")), &live["metadata"][field]);
            if !wanted.is_empty() && found != wanted {
                let found = found.as_str().unwrap_or_default();
                let why = format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}");
                return Err(Refusal::conflict(ask.resource, name, &why));
            }
        }
        let grace = request.number("gracePeriodSeconds")?.or_else(|| options["gracePeriodSeconds"].as_u64());
        if request.param("dryRun").is_none() {
            self.end(resource, &key, grace, now);
        }
        Ok(match self.store.get(&key) {
            Some(waiting) => waiting.as_ref().clone(),
            None => {
                let details = json!({"name": name, "group": resource.group, "kind": resource.plural, "uid": object::uid(&live)});
                json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
            }
        })
    }

    /// Deletes what a list would show.
    pub(crate) fn delete_collection(&mut self, ask: &Ask, request: &Request, now: Timestamp) -> Result<Value, Refusal> {
        let selector = Selector::of(ask, request)?;
        let resource = ask.resource.stored_as();
        stays_defined(resource)?;
        for object in self.store.list(resource, ask.namespace.as_deref()) {
            if selector.matches(&object) {
                let key = Key::new(resource, object::namespace(&object), object::name(&object));
                self.end(resource, &key, None, now);
            }
        }
        Ok(json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}))
    }

    /// Begins or completes the deletion of an object.
    pub(crate) fn end(&mut self, resource: &'static Resource, key: &Key, grace: Option<u64>, now: Timestamp) {
        let Some(live) = self.store.get(key).cloned() else { return };
        let is_pod = resource.kind == "Pod";
        let running = is_pod && !object::text(&live, "/spec/nodeName").is_empty();
        let seconds = grace.or_else(|| live.pointer("/spec/terminationGracePeriodSeconds")?.as_u64()).filter(|_| running).unwrap_or(0);
        let held = !object::list(&live, "/metadata/finalizers").is_empty();
        if seconds == 0 && !held {
            self.store.remove(key);
            if resource.kind == "Namespace" {
                self.empty(&key.name);
            }
            return;
        }
        // A second deletion may only hasten the end.
        let end = now.saturating_add(SignedDuration::from_secs(seconds.min(i32::MAX as u64) as i64)).unwrap_or(now);
        if object::time(&live, "/metadata/deletionTimestamp").is_some_and(|before| before <= end) {
            return;
        }
        let mut ending = live.as_ref().clone();
        let metadata = object::child(&mut ending, "metadata");
        metadata.insert("deletionTimestamp".into(), object::stamp(end).into());
        if is_pod {
            metadata.insert("deletionGracePeriodSeconds".into(), seconds.into());
        }
        if resource.generation {
            let generation = metadata.get("generation").and_then(Value::as_i64).unwrap_or(0) + 1;
            metadata.insert("generation".into(), generation.into());
        }
        self.store.put(key.clone(), ending);
    }

    /// Removes all that is in a namespace.
    fn empty(&mut self, namespace: &str) {
        let keys: Vec<Key> = self.store.all().map(|(key, _)| key.clone()).filter(|key| key.namespace == namespace).collect();
        keys.iter().for_each(|key| drop(self.store.remove(key)));
    }
}

/// The kinds that are served are always the same, and so are their definitions.
fn stays_defined(resource: &Resource) -> Result<(), Refusal> {
    match resource.kind.as_str() {
        "CustomResourceDefinition" => Err(Refusal::forbidden("this API always serves its kinds: the definition of one cannot be deleted")),
        _ => Ok(()),
    }
}
