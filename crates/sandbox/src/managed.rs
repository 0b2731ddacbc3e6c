//! Who owns which field: `metadata.managedFields`, and server-side apply by them.

use serde_json::{Value, json};

use crate::fields::{self, ListKind, Path, Set};
use crate::object;
use crate::refusal::Refusal;
use crate::request::Subresource;

/// In whose name a change is made, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Writer {
    pub manager: String,
    pub applies: bool,
    pub subresource: Option<Subresource>,
    /// That of the object.
    pub api_version: String,
    /// The time, as it is written.
    pub now: String,
}

struct Entry {
    manager: String,
    operation: String,
    subresource: String,
    api_version: String,
    time: String,
    set: Set,
}

impl Entry {
    fn of(value: &Value) -> Self {
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        Self {
            manager: text("manager"),
            operation: text("operation"),
            subresource: text("subresource"),
            api_version: text("apiVersion"),
            time: text("time"),
            set: fields::from_tree(&value["fieldsV1"]),
        }
    }

    fn value(&self) -> Value {
        let mut value = json!({"manager": self.manager, "operation": self.operation, "apiVersion": self.api_version, "time": self.time,
            "fieldsType": "FieldsV1", "fieldsV1": fields::to_tree(&self.set)});
        if !self.subresource.is_empty() {
            value["subresource"] = json!(self.subresource);
        }
        value
    }

    /// As it is called in a conflict, with a writer of this part of the object.
    fn shown(&self, part: Option<Subresource>) -> String {
        let mut shown = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            shown += &format!(" with subresource {:?}", self.subresource);
        }
        if self.operation == "Update" {
            // Whoever writes a scale sees all owners as such of a scale.
            let version = if part == Some(Subresource::Scale) { "autoscaling/v1" } else { &self.api_version };
            shown += &format!(" using {version}");
        }
        shown
    }
}

impl Writer {
    fn owns(&self, entry: &Entry) -> bool {
        let subresource = self.subresource.map(Subresource::as_str).unwrap_or_default();
        let operation = if self.applies { "Apply" } else { "Update" };
        // Whoever applies is the same in each version.
        let version = self.applies || entry.api_version == self.api_version;
        entry.manager == self.manager && entry.operation == operation && entry.subresource == subresource && version
    }

    fn entry(&self, set: Set) -> Entry {
        Entry {
            manager: self.manager.clone(),
            operation: if self.applies { "Apply" } else { "Update" }.to_owned(),
            subresource: self.subresource.map(Subresource::as_str).unwrap_or_default().to_owned(),
            api_version: self.api_version.clone(),
            time: self.now.clone(),
            set,
        }
    }
}

/// Records on `new` who owns what after a change that was not applied: what it changed is the writer's alone.
pub(crate) fn updated(old: Option<&Value>, new: &mut Value, writer: &Writer) {
    let before = old.map(fields::of).unwrap_or_default();
    let after = fields::of(new);
    let changed: Set = after.iter().filter(|(path, value)| before.get(*path) != Some(value)).map(|(path, _)| path.clone()).collect();
    let mut entries = entries(old);
    for entry in &mut entries {
        let own = writer.owns(entry);
        entry.set.retain(|path| after.contains_key(path) && (own || !changed.contains(path)));
    }
    match entries.iter_mut().find(|entry| writer.owns(entry)) {
        Some(own) if !changed.is_empty() => {
            own.set.extend(changed);
            own.time.clone_from(&writer.now);
        }
        None if !changed.is_empty() => entries.push(writer.entry(changed)),
        _ => {}
    }
    record(new, entries);
}

/// The object after `config` is applied to it: its fields are set, those that the writer applied before and left out now are removed
/// unless another owns them too, and others' ownership is respected or, by force, taken.
pub(crate) fn applied(live: Option<&Value>, config: &Value, writer: &Writer, force: bool) -> Result<Value, Refusal> {
    let mut config = config.clone();
    object::child(&mut config, "metadata").remove("managedFields");
    let wanted = fields::of(&config);
    let mut merged = live.cloned().unwrap_or_else(|| json!({}));
    merge(&mut merged, &config, "");

    let before = live.map(fields::of).unwrap_or_default();
    let after = fields::of(&merged);
    let contested = |path: &Path| wanted.contains_key(path) && before.get(path) != after.get(path);
    let mut entries = entries(live);
    let mut conflicts = vec![];
    for entry in entries.iter_mut().filter(|entry| !writer.owns(entry)) {
        let shown = entry.shown(writer.subresource);
        conflicts.extend(entry.set.iter().filter(|path| contested(path)).map(|path| (shown.clone(), fields::shown(path))));
        // A scale has one owner, though both want the same.
        let of_scale = writer.subresource == Some(Subresource::Scale);
        entry.set.retain(|path| !contested(path) && (!of_scale || !wanted.contains_key(path)));
    }
    if !force && !conflicts.is_empty() {
        return Err(Refusal::apply_conflict(&conflicts));
    }

    let last = entries.iter().find(|entry| writer.owns(entry)).map(|entry| entry.set.clone()).unwrap_or_default();
    let others: Vec<&Path> = entries.iter().filter(|entry| !writer.owns(entry)).flat_map(|entry| &entry.set).collect();
    // What held the fields goes with the last of them, and with what it had by default.
    let dropped: Set =
        last.iter().filter(|path| !wanted.contains_key(*path)).flat_map(|path| (2..=path.len()).map(|end| path[..end].to_vec())).collect();
    for path in dropped {
        let used = wanted.keys().chain(others.iter().copied()).any(|other| other.starts_with(&path));
        if !used {
            fields::remove(&mut merged, &path);
        }
    }
    let set: Set = wanted.into_keys().collect();
    let unchanged = last == set;
    match entries.iter_mut().find(|entry| writer.owns(entry)) {
        Some(own) => {
            if !unchanged || before != fields::of(&merged) {
                own.time.clone_from(&writer.now);
            }
            own.set = set;
            own.api_version.clone_from(&writer.api_version);
        }
        None => entries.push(writer.entry(set)),
    }
    record(&mut merged, entries);
    Ok(merged)
}

/// Merges what is applied into what is there, list elements by their keys.
fn merge(into: &mut Value, from: &Value, name: &str) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) if name != "selector" && name != "nodeSelector" => {
            for (name, member) in from {
                merge(into.entry(name.clone()).or_insert(Value::Null), member, name);
            }
        }
        (Value::Array(into), Value::Array(from)) => match fields::list_kind(name) {
            ListKind::Map(keys) => {
                for element in from {
                    let key = fields::key_of(element, keys);
                    match into.iter_mut().find(|other| key.is_some() && fields::key_of(other, keys) == key) {
                        Some(same) => merge(same, element, ""),
                        None => into.push(element.clone()),
                    }
                }
            }
            ListKind::Set => into.extend(from.iter().filter(|element| !into.contains(element)).cloned().collect::<Vec<_>>()),
            ListKind::Atomic => into.clone_from(from),
        },
        (into, from) => *into = from.clone(),
    }
}

fn entries(object: Option<&Value>) -> Vec<Entry> {
    object.map(|object| object::list(object, "/metadata/managedFields").iter().map(Entry::of).collect()).unwrap_or_default()
}

fn record(object: &mut Value, entries: Vec<Entry>) {
    let list: Vec<Value> = entries.iter().filter(|entry| !entry.set.is_empty()).map(Entry::value).collect();
    object::child(object, "metadata").insert("managedFields".into(), list.into());
}

/// Whether two versions of an object say the same, apart from when they were written.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    let timeless = |object: &Value| {
        let mut object = object.clone();
        let metadata = object::child(&mut object, "metadata");
        metadata.remove("resourceVersion");
        for entry in metadata.get_mut("managedFields").and_then(Value::as_array_mut).into_iter().flatten() {
            object::map(entry).remove("time");
        }
        object
    };
    timeless(a) == timeless(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer(manager: &str, applies: bool) -> Writer {
        Writer { manager: manager.into(), applies, subresource: None, api_version: "apps/v1".into(), now: "2026-01-01T00:00:00Z".into() }
    }

    fn fleet(replicas: i64) -> Value {
        let mut object = json!({"metadata": {"name": "fleet"}, "spec": {"replicas": replicas, "paused": false}});
        updated(None, &mut object, &writer("kubectl", false));
        object
    }

    fn size(replicas: i64) -> Value {
        json!({"metadata": {"name": "fleet"}, "spec": {"replicas": replicas}})
    }

    fn owners(object: &Value, field: &str) -> Vec<String> {
        let path: Path = vec!["f:spec".into(), format!("f:{field}")];
        entries(Some(object)).into_iter().filter(|entry| entry.set.contains(&path)).map(|entry| entry.manager).collect()
    }

    #[test]
    fn a_field_of_another_is_a_conflict_unless_it_is_forced_or_the_same() {
        let live = fleet(3);
        let refusal = applied(Some(&live), &size(5), &writer("llmscaler", true), false).unwrap_err();
        assert_eq!(refusal.message, r#"Apply failed with 1 conflict: conflict with "kubectl" using apps/v1: .spec.replicas"#);
        assert_eq!(refusal.details["causes"][0]["field"], ".spec.replicas");
        let same = applied(Some(&live), &size(3), &writer("llmscaler", true), false).unwrap();
        assert_eq!(owners(&same, "replicas"), ["kubectl", "llmscaler"]);
        let forced = applied(Some(&live), &size(5), &writer("llmscaler", true), true).unwrap();
        assert_eq!((forced["spec"]["replicas"].as_i64(), owners(&forced, "replicas")), (Some(5), vec!["llmscaler".to_owned()]));
        assert_eq!(owners(&forced, "paused"), ["kubectl"]);
    }

    #[test]
    fn several_conflicts_are_listed_by_manager() {
        let mut live = fleet(3);
        let before = live.clone();
        live["spec"]["paused"] = json!(true);
        updated(Some(&before), &mut live, &writer("edit", false));
        let config = json!({"metadata": {"name": "fleet"}, "spec": {"replicas": 1, "paused": false}});
        let refusal = applied(Some(&live), &config, &writer("a", true), false).unwrap_err();
        let expected = "Apply failed with 2 conflicts: conflicts with \"edit\" using apps/v1:\n- .spec.paused\n\
                        conflicts with \"kubectl\" using apps/v1:\n- .spec.replicas";
        assert_eq!(refusal.message, expected);
    }

    #[test]
    fn what_is_applied_no_more_goes_unless_it_is_shared() {
        let both = json!({"metadata": {"name": "fleet"}, "spec": {"replicas": 3, "size": 1}});
        let live = applied(Some(&fleet(3)), &both, &writer("a", true), false).unwrap();
        let left = applied(Some(&live), &json!({"metadata": {"name": "fleet"}}), &writer("a", true), false).unwrap();
        assert_eq!(left["spec"], json!({"replicas": 3, "paused": false}));
        assert!(owners(&left, "replicas") == ["kubectl"]);
    }

    #[test]
    fn defaults_go_with_what_they_belong_to() {
        let config = |spec: Value| json!({"metadata": {"name": "x"}, "spec": spec});
        let mut live = applied(None, &config(json!({"a": 1, "inner": {"name": "n"}})), &writer("a", true), false).unwrap();
        live["spec"]["inner"]["port"] = json!(80);
        let left = applied(Some(&live), &config(json!({"a": 1})), &writer("a", true), false).unwrap();
        assert_eq!(left["spec"], json!({"a": 1}));
    }

    #[test]
    fn an_update_takes_what_it_changes() {
        let live = applied(Some(&fleet(3)), &size(5), &writer("llmscaler", true), true).unwrap();
        let mut edited = live.clone();
        edited["spec"]["replicas"] = json!(9);
        updated(Some(&live), &mut edited, &writer("kubectl-edit", false));
        assert_eq!(owners(&edited, "replicas"), ["kubectl-edit"]);
    }

    #[test]
    fn elements_with_keys_belong_to_those_who_apply_them() {
        let conditions = |list: Value| json!({"metadata": {"name": "x"}, "status": {"conditions": list}});
        let a = applied(None, &conditions(json!([{"type": "A", "status": "True"}])), &writer("a", true), false).unwrap();
        let b = applied(Some(&a), &conditions(json!([{"type": "B", "status": "False"}])), &writer("b", true), false).unwrap();
        assert_eq!(b["status"]["conditions"].as_array().unwrap().len(), 2);
        let left = applied(Some(&b), &conditions(json!([])), &writer("a", true), false).unwrap();
        assert_eq!(left["status"]["conditions"], json!([{"type": "B", "status": "False"}]));
    }
}
