//! Changes to objects: what comes in, what of it may be changed, and what is stored.

use axum::http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::Api;
use crate::managed::{self, Writer};
use crate::patch::patched;
use crate::refusal::{FieldError, Refusal};
use crate::request::{APPLY, Ask, Request, Subresource, Verb};
use crate::resources::Resource;
use crate::store::Key;
use crate::{body, builtin, events, object, scale, workload};

/// Members of metadata that only the server writes.
const FIXED: [&str; 7] = ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"];

impl Api {
    /// Creates an object from the body, and answers it.
    pub(crate) fn create(&mut self, ask: &Ask, request: &Request, now: Timestamp) -> Result<Value, Refusal> {
        let given = request.json()?;
        body::fits(ask, request, &given)?;
        let mut object = events::stored(ask.resource, &given);
        if !object::text(&object, "/metadata/resourceVersion").is_empty() {
            return Err(Refusal::bad_request("resourceVersion should not be set on objects to be created"));
        }
        let metadata = object::child(&mut object, "metadata");
        metadata.remove("managedFields");
        let prefix = metadata.get("generateName").and_then(Value::as_str).map(str::to_owned);
        if let (None, Some(prefix)) = (metadata.get("name").and_then(Value::as_str), prefix) {
            let suffix = name_suffix(self.store.next_number());
            metadata.insert("name".into(), format!("{prefix}{suffix}").into());
        }
        let writer = writer(ask, request, now, false);
        self.make(ask, request, object, &writer)
    }

    /// The steps of a creation that an applied object takes, too.
    fn make(&mut self, ask: &Ask, request: &Request, mut object: Value, writer: &Writer) -> Result<Value, Refusal> {
        let resource = ask.resource.stored_as();
        let name = object::name(&object).to_owned();
        if name.is_empty() {
            return Err(Refusal::nameless(resource));
        }
        let namespace = self.namespace_of(ask, &object)?;
        let key = Key::new(resource, &namespace, &name);
        if resource.status {
            object::map(&mut object).remove("status");
        }
        self.complete(resource, &mut object, request)?;
        match resource.kind.as_str() {
            "Pod" => drop(object::map(&mut object).insert("status".into(), json!({"phase": "Pending", "qosClass": "BestEffort"}))),
            "Namespace" => drop(object::map(&mut object).insert("status".into(), json!({"phase": "Active"}))),
            _ => {}
        }
        if !writer.applies {
            managed::updated(None, &mut object, writer);
        }
        let uid = self.next_uid();
        let metadata = object::child(&mut object, "metadata");
        metadata.insert("uid".into(), uid.into());
        metadata.insert("creationTimestamp".into(), writer.now.clone().into());
        if !namespace.is_empty() {
            metadata.insert("namespace".into(), namespace.into());
        }
        if resource.generation {
            metadata.insert("generation".into(), 1.into());
        }
        if !is_subdomain(&name) {
            return Err(Refusal::invalid(resource, &name, &[FieldError::invalid("metadata.name", &json!(name), NO_SUBDOMAIN)]));
        }
        self.judge(resource, &object, None)?;
        if self.store.get(&key).is_some() {
            return Err(Refusal::already_exists(resource, &name));
        }
        self.check_quota(resource, &key.namespace, &object)?;
        Ok(events::shown(ask.resource, &self.keep(request, key, object)))
    }

    /// Replaces, patches or applies an object or a subresource of it, and answers it with its status code.
    pub(crate) fn change(&mut self, ask: &Ask, request: &Request, now: Timestamp) -> Result<(u16, Value), Refusal> {
        let resource = ask.resource;
        let name = ask.name.as_deref().unwrap_or_default();
        let key = Key::new(resource, ask.namespace.as_deref().unwrap_or_default(), name);
        let applies = ask.verb == Verb::Patch && request.content_type == APPLY;
        let writer = writer(ask, request, now, applies);
        let Some(live) = self.store.get(&key).cloned() else {
            let creates = applies && ask.subresource.is_none();
            return if creates {
                let given = request.json()?;
                body::fits(ask, request, &given)?;
                let config = own_part(ask, &given);
                let object = managed::applied(None, &config, &writer, false)?;
                Ok((201, self.make(ask, request, object, &writer)?))
            } else {
                Err(Refusal::not_found(resource, name))
            };
        };

        let body = request.json()?;
        let before = self.get(ask)?;
        let after = match (ask.verb, applies) {
            (_, true) => {
                if request.param("fieldManager").is_none() {
                    return Err(Refusal::no_manager());
                }
                body::fits(ask, request, &body)?;
                if ask.subresource == Some(Subresource::Scale) {
                    scale::onto(&live, &body)?;
                }
                body.clone()
            }
            (Verb::Update, _) => body.clone(),
            _ => patched(&before, &body, &request.content_type, resource.custom)?,
        };
        body::fits(ask, request, &after)?;
        identity_kept(ask, &live, &after, applies)?;
        let mut new = match (applies, ask.subresource) {
            (true, _) => managed::applied(Some(&live), &own_part(ask, &body), &writer, request.flag("force"))?,
            (false, Some(Subresource::Scale)) => scale::onto(&live, &after)?,
            (false, _) => events::stored(resource, &after),
        };
        let managed_fields = object::child(&mut new, "metadata").remove("managedFields").unwrap_or_default();
        self.complete(resource.stored_as(), &mut new, request)?;
        new = restricted(ask, &live, new);
        if applies {
            object::child(&mut new, "metadata").insert("managedFields".into(), managed_fields);
        } else {
            // kubectl hands the fields of its client-side apply over to its server-side apply by a patch.
            let mut recorded = live.as_ref().clone();
            if managed_fields.as_array().is_some_and(|entries| !entries.is_empty()) {
                object::child(&mut recorded, "metadata").insert("managedFields".into(), managed_fields);
            }
            managed::updated(Some(&recorded), &mut new, &writer);
        }
        if resource.generation && content(&live) != content(&new) {
            let generation = object::number(&live, "/metadata/generation").unwrap_or(0) + 1;
            object::child(&mut new, "metadata").insert("generation".into(), generation.into());
        }
        self.judge(resource, &new, Some(&live))?;
        let kept = if managed::same(&live, &new) { live.as_ref().clone() } else { self.keep(request, key.clone(), new) };
        self.release(&key);
        let answer = match ask.subresource {
            Some(Subresource::Scale) => scale::of(&kept),
            _ => events::shown(resource, &kept),
        };
        Ok((200, answer))
    }

    /// Stores an object, unless that is only tried.
    fn keep(&mut self, request: &Request, key: Key, object: Value) -> Value {
        if request.param("dryRun").is_some() { object } else { self.store.put(key, object).as_ref().clone() }
    }

    /// What was only kept by finalizers goes with the last of them.
    fn release(&mut self, key: &Key) {
        let free = |object: &Value| {
            let graceful = !object["metadata"]["deletionGracePeriodSeconds"].is_null();
            object::is_terminating(object) && !graceful && object::list(object, "/metadata/finalizers").is_empty()
        };
        if self.store.get(key).is_some_and(|object| free(object)) {
            self.store.remove(key);
        }
    }

    fn namespace_of(&self, ask: &Ask, object: &Value) -> Result<String, Refusal> {
        if !ask.resource.namespaced {
            return Ok(String::new());
        }
        let namespace = ask.namespace.clone().ok_or_else(Refusal::method_not_allowed)?;
        if !object::namespace(object).is_empty() && object::namespace(object) != namespace {
            let why = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Refusal::bad_request(why));
        }
        let Some(namespaces) = Resource::of_kind("Namespace") else { return Ok(namespace) };
        match self.store.get(&Key::new(namespaces, "", &namespace)) {
            Some(_) => Ok(namespace),
            None => Err(Refusal::not_found(namespaces, &namespace)),
        }
    }

    fn complete(&self, resource: &Resource, object: &mut Value, request: &Request) -> Result<(), Refusal> {
        let handled = |why: String| Refusal::unlike(&resource.kind, &resource.version, &why);
        let unknown = if resource.custom {
            object::map(object).insert("apiVersion".into(), resource.api_version().into());
            object::map(object).insert("kind".into(), resource.kind.clone().into());
            self.rules.complete(object)
        } else {
            let patches = request.method == Method::PATCH && request.content_type != APPLY;
            let given = object.clone();
            builtin::complete(resource, object).map_err(|why| if patches { Refusal::unfit_result(&given, &why) } else { handled(why) })?
        };
        if request.param("fieldValidation") == Some("Strict") && !unknown.is_empty() {
            let unknown: Vec<String> = unknown.iter().map(|field| format!("unknown field {field:?}")).collect();
            return Err(handled(format!("strict decoding error: {}", unknown.join(", "))));
        }
        // Only what the schema knows can be merged with what others own.
        if let (true, Some(field)) = (resource.custom && request.content_type == APPLY, unknown.first()) {
            return Err(Refusal::untyped(resource, object::name(object), field));
        }
        Ok(())
    }

    fn judge(&self, resource: &Resource, object: &Value, old: Option<&Value>) -> Result<(), Refusal> {
        match resource.custom {
            true => self.rules.judge(resource, object, old),
            false if workload::is_one(resource) => workload::judge(resource, object, old),
            false => Ok(()),
        }
    }
}

/// What is said of a name that is none.
const NO_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end \
    with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

fn is_subdomain(name: &str) -> bool {
    let end = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| match label.as_bytes() {
        [] => false,
        [one] => end(*one),
        [first, middle @ .., last] => end(*first) && end(*last) && middle.iter().all(|byte| end(*byte) || *byte == b'-'),
    };
    name.split('.').all(is_label)
}

fn writer(ask: &Ask, request: &Request, now: Timestamp, applies: bool) -> Writer {
    let (manager, api_version) = (request.field_manager(), ask.resource.stored_as().api_version());
    Writer { manager, applies, subresource: ask.subresource, api_version, now: object::stamp(now) }
}

/// Of what is applied, the part that the address is about.
fn own_part(ask: &Ask, config: &Value) -> Value {
    let mut config = config.clone();
    let members = object::map(&mut config);
    match ask.subresource {
        Some(Subresource::Status) => members.retain(|name, _| name == "status"),
        Some(Subresource::Scale) => members.retain(|name, _| name == "spec"),
        None if ask.resource.status => drop(members.remove("status")),
        None => {}
    }
    let metadata = object::child(&mut config, "metadata");
    metadata.remove("resourceVersion");
    if ask.subresource.is_none()
        && let Some(name) = &ask.name
    {
        metadata.insert("name".into(), name.clone().into());
    }
    config
}

/// The change is one of the object that it is sent to, at the version that it names.
fn identity_kept(ask: &Ask, live: &Value, after: &Value, applies: bool) -> Result<(), Refusal> {
    let name = object::name(live);
    let given = object::name(after);
    if given.is_empty() && !applies {
        let why = format!("the name of the object ({name} based on URL) was undeterminable: name must be provided");
        return Err(Refusal::bad_request(why));
    }
    if !given.is_empty() && given != name {
        let why = format!("the name of the object ({given}) does not match the name on the URL ({name})");
        return Err(Refusal::bad_request(why));
    }
    let uid = object::uid(after);
    if !uid.is_empty() && uid != object::uid(live) {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", object::uid(live));
        return Err(Refusal::conflict(ask.resource, name, &why));
    }
    let version = object::text(after, "/metadata/resourceVersion");
    if version.is_empty() && ask.verb == Verb::Update && ask.resource.needs_version() {
        let error = FieldError::invalid("metadata.resourceVersion", &json!(0), "must be specified for an update");
        return Err(Refusal::invalid_update(ask.resource, name, &error));
    }
    if !version.is_empty() && version != object::text(live, "/metadata/resourceVersion") {
        return Err(Refusal::modified(ask.resource, name));
    }
    Ok(())
}

/// The new object with what the address is not about as it was.
fn restricted(ask: &Ask, live: &Value, mut new: Value) -> Value {
    if ask.subresource == Some(Subresource::Status) {
        let status = object::map(&mut new).remove("status").unwrap_or_default();
        new = live.clone();
        match status {
            Value::Null => drop(object::map(&mut new).remove("status")),
            status => drop(object::map(&mut new).insert("status".into(), status)),
        }
    } else if ask.resource.status {
        match live.get("status") {
            Some(status) => drop(object::map(&mut new).insert("status".into(), status.clone())),
            None => drop(object::map(&mut new).remove("status")),
        }
    }
    let metadata = object::child(&mut new, "metadata");
    for name in FIXED {
        match live["metadata"].get(name) {
            Some(value) => drop(metadata.insert(name.to_owned(), value.clone())),
            None => drop(metadata.remove(name)),
        }
    }
    new
}

/// What `metadata.generation` counts the changes of.
fn content(object: &Value) -> Vec<(&String, &Value)> {
    let members = object.as_object().into_iter().flatten();
    members.filter(|(name, _)| !matches!(name.as_str(), "metadata" | "status")).collect()
}

/// Five letters and digits of those that the API server uses, by a number.
pub(crate) fn name_suffix(number: u64) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut rest = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let mut suffix = String::new();
    for _ in 0..5 {
        suffix.push(char::from(LETTERS[(rest % LETTERS.len() as u64) as usize]));
        rest /= LETTERS.len() as u64;
    }
    suffix
}
