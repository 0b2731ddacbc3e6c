//! Lists, in whole or in pages, of now or of then.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::Api;
use crate::form::{Form, Shown};
use crate::refusal::Refusal;
use crate::request::{Ask, Request};
use crate::selector::Selector;
use crate::{events, object};

impl Api {
    /// The list that is asked for.
    pub(crate) fn list(&self, ask: &Ask, request: &Request, form: Form, now: Timestamp) -> Result<Value, Refusal> {
        let selector = Selector::of(ask, request)?;
        let limit = request.number("limit")?.and_then(|limit| usize::try_from(limit).ok()).filter(|limit| *limit > 0);
        let (version, after) = match request.param("continue") {
            Some(token) => continued(token).ok_or_else(|| Refusal::bad_request("continue key is not valid"))?,
            None => (self.version_to_list(request)?, None),
        };
        let all = self.objects_at(version, ask).ok_or_else(Refusal::expired_continue)?;
        let mut page: Vec<Arc<Value>> = all
            .into_iter()
            .filter(|object| after.as_ref().is_none_or(|after| place(object) > *after))
            .filter(|stored| selector.matches(&events::shown(ask.resource, stored)))
            .collect();
        let remaining = limit.map_or(0, |limit| page.len().saturating_sub(limit));
        page.truncate(limit.unwrap_or(page.len()));

        let mut metadata = json!({"resourceVersion": version.to_string()});
        if remaining > 0
            && let Some(last) = page.last()
        {
            let (namespace, name) = place(last);
            metadata["continue"] = json!(format!("{version}/{namespace}/{name}"));
            metadata["remainingItemCount"] = json!(remaining);
        }
        let items: Vec<Value> = page.iter().map(|stored| events::shown(ask.resource, stored)).collect();
        Ok(Shown { tables: &self.tables, resource: ask.resource, form, now }.list(&items, metadata))
    }

    /// The version that the list is to be of. Any version that is new enough is answered by the newest, but for an exact match.
    fn version_to_list(&self, request: &Request) -> Result<u64, Refusal> {
        let current = self.store.version();
        let Some(asked) = request.number("resourceVersion")? else { return Ok(current) };
        if asked > current {
            return Err(Refusal::too_large(asked, current));
        }
        if request.param("resourceVersionMatch") != Some("Exact") {
            return Ok(current);
        }
        if asked < self.store.oldest() { Err(Refusal::too_old(asked, self.store.oldest())) } else { Ok(asked) }
    }

    fn objects_at(&self, version: u64, ask: &Ask) -> Option<Vec<Arc<Value>>> {
        let namespace = ask.namespace.as_deref();
        if version == self.store.version() {
            return Some(self.store.list(ask.resource, namespace));
        }
        self.store.list_at(version, ask.resource, namespace)
    }
}

fn place(object: &Value) -> (String, String) {
    (object::namespace(object).to_owned(), object::name(object).to_owned())
}

/// The version and the last place of a list that is continued.
fn continued(token: &str) -> Option<(u64, Option<(String, String)>)> {
    let mut parts = token.splitn(3, '/');
    let version = parts.next()?.parse().ok()?;
    Some((version, Some((parts.next()?.to_owned(), parts.next()?.to_owned()))))
}
