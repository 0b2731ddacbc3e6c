//! The kinds of patches, but for server-side apply.

use serde_json::{Map, Value};

use crate::fields::{self, ListKind};
use crate::refusal::Refusal;
use crate::{body, object};

/// RFC 6902, RFC 7396 and the strategic merge of Kubernetes, by the content type.
pub(crate) fn patched(before: &Value, patch: &Value, content_type: &str, custom: bool) -> Result<Value, Refusal> {
    let mut after = before.clone();
    match content_type {
        "application/merge-patch+json" => {
            body::merges(patch, "error decoding patch: ")?;
            json_patch::merge(&mut after, patch);
        }
        "application/json-patch+json" => {
            let patch: json_patch::Patch = serde_json::from_value(patch.clone()).map_err(|_| Refusal::unfit_patch())?;
            json_patch::patch(&mut after, &patch).map_err(|_| Refusal::unfit_patch())?;
        }
        "application/strategic-merge-patch+json" if !custom => {
            body::merges(patch, "")?;
            strategic(&mut after, patch, "")?;
        }
        _ => {
            let strategic = if custom { "" } else { "application/strategic-merge-patch+json, " };
            let accepted = format!("application/json-patch+json, application/merge-patch+json, {strategic}application/apply-patch+yaml");
            return Err(Refusal::unsupported_media_type(&accepted));
        }
    }
    Ok(after)
}

/// Merges lists by the keys of their elements, and obeys the directives that kubectl writes. `$setElementOrder` only asks for an order.
fn strategic(into: &mut Value, patch: &Value, name: &str) -> Result<(), Refusal> {
    match patch {
        Value::Object(patch) => {
            if patch.get("$patch").is_some_and(|directive| directive == "replace") {
                let kept: Map<String, Value> = patch.clone().into_iter().filter(|(key, _)| key != "$patch").collect();
                *into = Value::Object(kept);
                return Ok(());
            }
            let members = object::map(into);
            if let Some(Value::Array(keys)) = patch.get("$retainKeys") {
                members.retain(|key, _| keys.iter().any(|kept| kept == key));
            }
            for (key, value) in patch {
                match key.split_once('/') {
                    Some(("$deleteFromPrimitiveList", list)) => {
                        if let (Some(Value::Array(have)), Value::Array(gone)) = (members.get_mut(list), value) {
                            have.retain(|element| !gone.contains(element));
                        }
                    }
                    _ if key.starts_with('$') => {}
                    _ if value.is_null() => drop(members.remove(key)),
                    _ => strategic(members.entry(key.clone()).or_insert(Value::Null), value, key)?,
                }
            }
        }
        Value::Array(patch) => return strategic_list(into, patch, name),
        other => *into = other.clone(),
    }
    Ok(())
}

fn strategic_list(into: &mut Value, patch: &[Value], name: &str) -> Result<(), Refusal> {
    let (ListKind::Map(keys), Value::Array(have)) = (fields::list_kind(name), &mut *into) else {
        *into = patch.to_vec().into();
        return Ok(());
    };
    // The first of the keys alone tells the elements of a strategic merge.
    let key = |element: &Value| keys.iter().find_map(|key| element.get(*key).cloned());
    if patch.iter().any(|element| element["$patch"] == "replace") {
        *have = patch.iter().filter(|element| element["$patch"] != "replace").cloned().collect();
        return Ok(());
    }
    for element in patch {
        let wanted = key(element);
        if wanted.is_none() {
            let why = format!("map: {element} does not contain declared merge key: {}", keys.join(" or "));
            return Err(Refusal::bad_request(why));
        }
        let found = have.iter().position(|other| key(other) == wanted);
        match (found, element["$patch"] == "delete") {
            (Some(index), true) => drop(have.remove(index)),
            (None, true) => {}
            (Some(index), false) => strategic(&mut have[index], element, "")?,
            (None, false) => have.push(element.clone()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const STRATEGIC: &str = "application/strategic-merge-patch+json";

    #[test]
    fn a_strategic_patch_merges_lists_by_key() {
        let before = json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}], "args": ["x"]}});
        let patch = json!({"spec": {"$setElementOrder/containers": [{"name": "a"}], "args": ["y"],
            "containers": [{"name": "a", "image": "2"}, {"name": "b", "$patch": "delete"}, {"name": "c"}]}});
        let after = patched(&before, &patch, STRATEGIC, false).unwrap();
        assert_eq!(after, json!({"spec": {"containers": [{"name": "a", "image": "2"}, {"name": "c"}], "args": ["y"]}}));
        assert!(patched(&before, &json!({"spec": {"containers": [{"image": "2"}]}}), STRATEGIC, false).is_err());
    }

    #[test]
    fn each_content_type_has_its_meaning() {
        let before = json!({"a": {"b": 1, "c": [1, 2]}});
        let merged = patched(&before, &json!({"a": {"b": null, "c": [3]}}), "application/merge-patch+json", true).unwrap();
        assert_eq!(merged, json!({"a": {"c": [3]}}));
        let patch = json!([{"op": "replace", "path": "/a/b", "value": 2}]);
        assert_eq!(patched(&before, &patch, "application/json-patch+json", true).unwrap()["a"]["b"], 2);
        let absent = json!([{"op": "test", "path": "/a/b", "value": 7}]);
        assert!(patched(&before, &absent, "application/json-patch+json", true).is_err());
        assert_eq!(patched(&before, &json!({}), STRATEGIC, true).unwrap_err().code, 415);
        assert_eq!(patched(&before, &json!({}), "application/json", false).unwrap_err().code, 415);
    }
}
