//! Answers requests: which part of the crate is asked, and in which form the answer goes out.

use axum::http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::form::{Form, Shown};
use crate::refusal::Refusal;
use crate::request::{Ask, Request, Subresource, Verb};
use crate::resources::Resource;
use crate::rules::Rules;
use crate::store::{Key, Store};
use crate::table::Tables;
use crate::watch::Watch;
use crate::write::name_suffix;
use crate::{builtin, discovery, events, object, scale};

/// What is answered.
#[derive(Debug)]
pub(crate) enum Answer {
    /// An object, with its status code.
    Object(u16, Value),
    /// Words, with their status code.
    Text(u16, &'static str),
    /// Changes, as they come.
    Watch(Box<Watch>),
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        Self::Object(refusal.code, refusal.status())
    }
}

/// The API over a store.
pub(crate) struct Api {
    pub store: Store,
    pub rules: Rules,
    pub tables: Tables,
}

impl Api {
    /// With this definition of the custom resource, and the namespaces that a cluster begins with.
    pub(crate) fn new(definition: &Value, now: Timestamp) -> Self {
        let mut api = Self { store: Store::default(), rules: Rules::of(definition), tables: Tables::of(definition) };
        for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
                "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
            api.insert("Namespace", object, now);
        }
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "sandbox"},
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}});
        api.insert("Node", node, now);
        let mut definition = definition.clone();
        let established = |kind: &str| json!({"type": kind, "status": "True", "reason": "InitialNamesAccepted", "message": ""});
        definition["status"] = json!({
            "conditions": [established("NamesAccepted"), established("Established")],
            "acceptedNames": definition["spec"]["names"],
            "storedVersions": [definition["spec"]["versions"][0]["name"]],
        });
        api.insert("CustomResourceDefinition", definition, now);
        api
    }

    /// Answers a request, at this time.
    pub(crate) fn respond(&mut self, request: &Request, now: Timestamp) -> Answer {
        self.answer(request, now).unwrap_or_else(Answer::from)
    }

    fn answer(&mut self, request: &Request, now: Timestamp) -> Result<Answer, Refusal> {
        match request.ask() {
            Some(ask) => self.of_resource(&ask?, request, now),
            None if request.method != Method::GET => Err(Refusal::method_not_allowed()),
            None => Ok(discovery::answer(&request.path).unwrap_or(Answer::Text(404, "404 page not found\n"))),
        }
    }

    fn of_resource(&mut self, ask: &Ask, request: &Request, now: Timestamp) -> Result<Answer, Refusal> {
        if ask.resource.review {
            return Ok(Answer::Object(201, reviewed(ask.resource, request.json()?)));
        }
        let form = Form::asked(request);
        let shown = |api: &Self, object: &Value| Shown { tables: &api.tables, resource: ask.resource, form, now }.one(object);
        Ok(match ask.verb {
            Verb::Watch => Answer::Watch(Box::new(Watch::new(self, ask, request, form, now)?)),
            Verb::List => Answer::Object(200, self.list(ask, request, form, now)?),
            Verb::Get => Answer::Object(200, shown(self, &self.get(ask)?)),
            Verb::Create => {
                let created = self.create(ask, request, now)?;
                Answer::Object(201, shown(self, &created))
            }
            Verb::Update | Verb::Patch => {
                let (code, changed) = self.change(ask, request, now)?;
                Answer::Object(code, shown(self, &changed))
            }
            Verb::Delete => Answer::Object(200, self.delete(ask, request, now)?),
            Verb::DeleteCollection => Answer::Object(200, self.delete_collection(ask, request, now)?),
        })
    }

    /// One object or subresource, as its resource shows it.
    pub(crate) fn get(&self, ask: &Ask) -> Result<Value, Refusal> {
        let name = ask.name.as_deref().unwrap_or_default();
        let stored = self.store.get(&Key::new(ask.resource, ask.namespace.as_deref().unwrap_or_default(), name));
        let stored = stored.ok_or_else(|| Refusal::not_found(ask.resource, name))?;
        Ok(match ask.subresource {
            Some(Subresource::Scale) => scale::of(stored),
            _ => events::shown(ask.resource, stored),
        })
    }

    /// Stores an object of one of the sandbox's own controllers.
    pub(crate) fn insert(&mut self, kind: &str, mut object: Value, now: Timestamp) {
        let Some(resource) = Resource::of_kind(kind) else { return };
        if builtin::complete(resource, &mut object).is_err() {
            return;
        }
        let (uid, suffix) = (self.next_uid(), name_suffix(self.store.next_number()));
        let metadata = object::child(&mut object, "metadata");
        if let Some(prefix) = metadata.get("generateName").and_then(Value::as_str) {
            let name = format!("{prefix}{suffix}");
            metadata.insert("name".into(), name.into());
        }
        metadata.insert("uid".into(), uid.into());
        metadata.insert("creationTimestamp".into(), object::stamp(now).into());
        if resource.generation {
            metadata.insert("generation".into(), 1.into());
        }
        let key = Key::new(resource, object::namespace(&object), object::name(&object));
        self.store.put(key, object);
    }

    /// Changes an object for one of the sandbox's own controllers; what stays the same is not stored again.
    pub(crate) fn modify(&mut self, kind: &str, live: &Value, change: impl FnOnce(&mut Value)) {
        let Some(resource) = Resource::of_kind(kind) else { return };
        let mut changed = live.clone();
        change(&mut changed);
        if changed == *live {
            return;
        }
        if resource.generation && changed["spec"] != live["spec"] {
            let generation = object::number(live, "/metadata/generation").unwrap_or(0) + 1;
            object::child(&mut changed, "metadata").insert("generation".into(), generation.into());
        }
        self.store.put(Key::new(resource, object::namespace(live), object::name(live)), changed);
    }

    /// A UID that no object has or had. They follow from each other, so that runs can be repeated.
    pub(crate) fn next_uid(&mut self) -> String {
        let number = self.store.next_number();
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        format!("{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}", mixed >> 32, (mixed >> 16) & 0xffff, mixed & 0xfff, (mixed >> 12) & 0xfff, number)
    }
}

/// Whoever asks may do anything, and is the administrator.
fn reviewed(resource: &Resource, mut review: Value) -> Value {
    let status = match resource.kind.as_str() {
        "TokenReview" => json!({"authenticated": true, "user": {"username": "admin", "groups": ["system:masters"]}}),
        _ => json!({"allowed": true, "reason": "the sandbox allows everything"}),
    };
    object::map(&mut review).insert("status".into(), status);
    review
}
