//! Watches: the changes since a version, as the resource, the selectors and the form show them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::Api;
use crate::events;
use crate::form::{Form, Shown};
use crate::refusal::Refusal;
use crate::request::{Ask, Request};
use crate::selector::Selector;

/// How long a watch without `timeoutSeconds` lasts; the API server takes half an hour to an hour.
const LIFETIME: Duration = Duration::from_secs(1800);

/// One watch, and how far it has come.
#[derive(Debug)]
pub(crate) struct Watch {
    ask: Ask,
    selector: Selector,
    form: Form,
    /// The version up to which changes have been shown.
    seen: u64,
    /// The version that its reader can go on from.
    told: u64,
    pub bookmarks: bool,
    pub timeout: Duration,
    ready: VecDeque<Value>,
    over: bool,
}

impl Watch {
    /// As it is asked for. Without a version, and with 0, it begins with what is there.
    pub(crate) fn new(api: &Api, ask: &Ask, request: &Request, form: Form, now: Timestamp) -> Result<Self, Refusal> {
        let asked = request.number("resourceVersion")?;
        let initial = request.flag("sendInitialEvents");
        if initial && request.param("resourceVersionMatch") != Some("NotOlderThan") {
            return Err(Refusal::bad_request("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
        }
        let mut watch = Self {
            ask: ask.clone(),
            selector: Selector::of(ask, request)?,
            form,
            seen: asked.unwrap_or(0),
            told: asked.unwrap_or(0),
            bookmarks: request.flag("allowWatchBookmarks"),
            timeout: request.number("timeoutSeconds")?.map_or(LIFETIME, Duration::from_secs),
            ready: VecDeque::new(),
            over: false,
        };
        if initial || watch.seen == 0 {
            watch.begin(api, initial, now);
        }
        Ok(watch)
    }

    fn begin(&mut self, api: &Api, announces_end: bool, now: Timestamp) {
        self.seen = api.store.version();
        for stored in api.store.list(self.ask.resource, self.ask.namespace.as_deref()) {
            let object = events::shown(self.ask.resource, &stored);
            if self.selector.matches(&object) {
                let event = self.event("ADDED", &object, api, now);
                self.ready.push_back(event);
            }
        }
        if announces_end && self.bookmarks {
            self.told = self.seen;
            self.ready.push_back(self.bookmark(json!({"k8s.io/initial-events-end": "true"})));
        }
    }

    /// The next event, if there is one now.
    pub(crate) fn next(&mut self, api: &Api, now: Timestamp) -> Option<Value> {
        if self.ready.is_empty() && !self.over {
            self.catch_up(api, now);
        }
        self.ready.pop_front()
    }

    /// Whether nothing will come any more.
    pub(crate) fn is_over(&self) -> bool {
        self.over && self.ready.is_empty()
    }

    /// Ends with this error.
    pub(crate) fn fail(&mut self, refusal: &Refusal) {
        self.ready.push_back(json!({"type": "ERROR", "object": refusal.status()}));
        self.over = true;
    }

    /// Ends because its time is over. One with bookmarks says how far it has come, as the API server does, if it has come further since
    /// it last said so: the next one can go on from there even if nothing has changed for it in a long time.
    pub(crate) fn end(&mut self) {
        if self.bookmarks && self.seen > self.told {
            self.mark();
        }
        self.over = true;
    }

    /// Says how far the watch has come.
    pub(crate) fn mark(&mut self) {
        let mark = self.bookmark(json!({}));
        self.told = self.seen;
        self.ready.push_back(mark);
    }

    fn catch_up(&mut self, api: &Api, now: Timestamp) {
        let Some(changes) = api.store.since(self.seen) else {
            return self.fail(&Refusal::too_old(self.seen, api.store.oldest()));
        };
        let mut fresh = vec![];
        for change in changes {
            self.seen = change.version;
            if change.key.plural != self.ask.resource.stored_as().plural
                || self.ask.namespace.as_ref().is_some_and(|namespace| *namespace != change.key.namespace)
            {
                continue;
            }
            let shown = |object: &Option<Arc<Value>>| {
                let object = events::shown(self.ask.resource, object.as_ref()?);
                self.selector.matches(&object).then_some(object)
            };
            match (shown(&change.before), shown(&change.after)) {
                (None, Some(object)) => fresh.push(self.event("ADDED", &object, api, now)),
                (Some(_), Some(object)) => fresh.push(self.event("MODIFIED", &object, api, now)),
                (Some(mut object), None) => {
                    // What it was last, under the version of the change that took it away.
                    object["metadata"]["resourceVersion"] = json!(change.version.to_string());
                    fresh.push(self.event("DELETED", &object, api, now));
                }
                (None, None) => {}
            }
        }
        self.ready.extend(fresh);
    }

    fn event(&self, kind: &str, object: &Value, api: &Api, now: Timestamp) -> Value {
        let shown = Shown { tables: &api.tables, resource: self.ask.resource, form: self.form, now };
        json!({"type": kind, "object": shown.one(object)})
    }

    fn bookmark(&self, annotations: Value) -> Value {
        let resource = self.ask.resource;
        let mut metadata = json!({"resourceVersion": self.seen.to_string(), "creationTimestamp": null});
        if annotations != json!({}) {
            metadata["annotations"] = annotations;
        }
        let object = match self.form {
            Form::Table(_) => {
                json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": [], "rows": []})
            }
            Form::Metadata => json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}),
            Form::Whole => json!({"kind": resource.kind, "apiVersion": resource.api_version(), "metadata": metadata}),
        };
        json!({"type": "BOOKMARK", "object": object})
    }
}
