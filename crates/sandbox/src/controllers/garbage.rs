//! What nobody owns any more, and events that are too old to matter.

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};

use crate::api::Api;
use crate::object;
use crate::resources::RESOURCES;

/// As long as the API server keeps events.
const EVENTS: SignedDuration = SignedDuration::from_hours(1);

pub(super) fn collect(api: &mut Api, now: Timestamp) {
    let uids: HashSet<String> = api.store.all().map(|(_, object)| object::uid(object).to_owned()).collect();
    let mut gone = vec![];
    for (key, one) in api.store.all() {
        let owners = object::list(one, "/metadata/ownerReferences");
        let orphaned = !owners.is_empty() && !owners.iter().any(|owner| owner["uid"].as_str().is_some_and(|uid| uids.contains(uid)));
        let old = key.plural == "events"
            && object::time(one, "/metadata/creationTimestamp").is_some_and(|created| now.duration_since(created) > EVENTS);
        if (orphaned && !object::is_terminating(one)) || old {
            gone.push(key.clone());
        }
    }
    for key in gone {
        if let Some(resource) = RESOURCES.iter().find(|resource| resource.plural == key.plural) {
            api.end(resource.stored_as(), &key, None, now);
        }
    }
}
