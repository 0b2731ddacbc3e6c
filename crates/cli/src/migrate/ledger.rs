//! The books of one object of the input: what became of each of its fields. What nobody has accounted for in the end is not carried.

use std::cell::RefCell;

use llmscaler_api::Invalid;
use serde::Serialize;
use serde_json::Value;

/// What became of a field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Fate {
    /// It is this field of the scaler now.
    Carried(String),
    /// It needs no counterpart, for this reason.
    Left(String),
    /// It has no counterpart: why, and what to do.
    Lost(String),
}

/// One field and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Its path in the object, such as `spec.triggers[0].metadata.query`.
    pub field: String,
    /// What became of it.
    #[serde(flatten)]
    pub fate: Fate,
}

/// The entries of one object.
#[derive(Debug, Default)]
pub struct Ledger(RefCell<Vec<Entry>>);

impl Ledger {
    /// The last word on a field counts.
    fn enter(&self, field: String, fate: Fate) {
        let entry = Entry { field, fate };
        let mut entries = self.0.borrow_mut();
        entries.retain(|before| !entry.covers(&before.field));
        entries.push(entry);
    }

    /// The entries by field, and one for each field of the object that none of them covers.
    pub fn close(&self, object: &Value) -> Vec<Entry> {
        let mut leaves = vec![];
        collect_leaves(object, String::new(), &mut leaves);
        for (field, empty) in leaves {
            if self.covers(&field) {
                continue;
            }
            let fate = if empty {
                Fate::Left("it is empty".to_owned())
            } else {
                Fate::Lost("nothing of an LLMScaler corresponds to it, and it is not known to migrate".to_owned())
            };
            self.enter(field, fate);
        }
        let mut entries = self.0.borrow().clone();
        entries.sort_by(|a, b| a.field.cmp(&b.field));
        entries
    }

    fn covers(&self, field: &str) -> bool {
        self.0.borrow().iter().any(|entry| entry.covers(field))
    }
}

impl Entry {
    /// A carried field is accounted for by itself; whatever is left or lost is so with all that is below it.
    fn covers(&self, field: &str) -> bool {
        match (&self.fate, field.strip_prefix(self.field.as_str())) {
            (_, Some("")) => true,
            (Fate::Carried(_), _) | (_, None) => false,
            (_, Some(rest)) => self.field.is_empty() || rest.starts_with(['.', '[']),
        }
    }
}

/// Every value that holds no other, and whether it says anything.
fn collect_leaves(value: &Value, path: String, leaves: &mut Vec<(String, bool)>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            members.iter().for_each(|(name, member)| collect_leaves(member, below(&path, name), leaves));
        }
        Value::Array(items) if !items.is_empty() => {
            items.iter().enumerate().for_each(|(index, item)| collect_leaves(item, format!("{path}[{index}]"), leaves));
        }
        Value::Null | Value::Object(_) | Value::Array(_) => leaves.push((path, true)),
        _ => leaves.push((path, false)),
    }
}

/// The path of a member. Names that would be taken for a path themselves, as those of annotations, stand in brackets.
fn below(path: &str, name: &str) -> String {
    let plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'));
    match (plain, path) {
        (true, "") => name.to_owned(),
        (true, path) => format!("{path}.{name}"),
        (false, path) => format!("{path}[\"{name}\"]"),
    }
}

/// A value of the object, with its place and its books.
#[derive(Clone, Debug)]
pub struct Node<'a> {
    value: &'a Value,
    path: String,
    ledger: &'a Ledger,
}

impl<'a> Node<'a> {
    /// The whole object.
    pub fn root(value: &'a Value, ledger: &'a Ledger) -> Self {
        Self { value, path: String::new(), ledger }
    }

    /// The value itself.
    pub fn value(&self) -> &'a Value {
        self.value
    }

    /// The member of this name; `null` is none.
    pub fn get(&self, name: &str) -> Option<Self> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        Some(Self { value, path: below(&self.path, name), ledger: self.ledger })
    }

    /// The member at the end of this way of names.
    pub fn at(&self, names: &[&str]) -> Option<Self> {
        names.iter().try_fold(self.clone(), |node, name| node.get(name))
    }

    /// The member that an object of this kind must have.
    pub fn need(&self, name: &str) -> Result<Self, Invalid> {
        self.get(name).ok_or_else(|| Invalid { field: below(&self.path, name), message: "is required".to_owned() })
    }

    /// The members of a mapping, by name.
    pub fn members(&self) -> Vec<(&'a str, Self)> {
        let members = self.value.as_object().into_iter().flatten();
        members.map(|(name, value)| (name.as_str(), Self { value, path: below(&self.path, name), ledger: self.ledger })).collect()
    }

    /// The items of a list.
    pub fn items(&self) -> Vec<Self> {
        let items = self.value.as_array().into_iter().flatten().enumerate();
        items.map(|(index, value)| Self { value, path: format!("{}[{index}]", self.path), ledger: self.ledger }).collect()
    }

    /// A text; numbers and truth values are read as they would be written.
    pub fn text(&self) -> Result<String, Invalid> {
        match self.value {
            Value::String(text) => Ok(text.clone()),
            Value::Number(number) => Ok(number.to_string()),
            Value::Bool(truth) => Ok(truth.to_string()),
            _ => Err(self.invalid("must be a text")),
        }
    }

    /// A whole number of the API's size.
    pub fn int(&self) -> Result<i32, Invalid> {
        let number = self.value.as_i64().and_then(|number| i32::try_from(number).ok());
        number.ok_or_else(|| self.invalid(&format!("must be a whole number of at most {}", i32::MAX)))
    }

    /// A number of replicas, at least `least`.
    pub fn replicas(&self, least: i32) -> Result<i32, Invalid> {
        let number = self.int()?;
        if number < least { Err(self.invalid(&format!("must be at least {least}, and is {number}"))) } else { Ok(number) }
    }

    /// A truth value, as Go reads it from a text where it is one.
    pub fn truth(&self) -> Result<bool, Invalid> {
        match self.text()?.as_str() {
            "true" | "True" | "TRUE" | "t" | "T" | "1" => Ok(true),
            "false" | "False" | "FALSE" | "f" | "F" | "0" => Ok(false),
            _ => Err(self.invalid("must be true or false")),
        }
    }

    /// That this value cannot be what it is.
    pub fn invalid(&self, message: &str) -> Invalid {
        Invalid { field: self.path.clone(), message: message.to_owned() }
    }

    /// Enters that this value, which holds no others, is this field of the scaler now.
    pub fn carried(&self, to: impl Into<String>) {
        self.ledger.enter(self.path.clone(), Fate::Carried(to.into()));
    }

    /// Enters that this value and all below it need no counterpart.
    pub fn left(&self, why: impl Into<String>) {
        self.ledger.enter(self.path.clone(), Fate::Left(why.into()));
    }

    /// Enters that this value and all below it have no counterpart.
    pub fn lost(&self, why: impl Into<String>) {
        self.ledger.enter(self.path.clone(), Fate::Lost(why.into()));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_nobody_accounts_for_is_lost() {
        let object = json!({"a": {"b": 1, "c": [2, {"d": true}]}, "x": {"y.z/w": "v", "e": {}}});
        let ledger = Ledger::default();
        let root = Node::root(&object, &ledger);
        root.at(&["a", "b"]).unwrap().carried("minReplicas");
        root.at(&["a", "c"]).unwrap().items()[0].lost("no");
        let entries = ledger.close(&object);
        let fields: Vec<&str> = entries.iter().map(|entry| entry.field.as_str()).collect();
        assert_eq!(fields, ["a.b", "a.c[0]", "a.c[1].d", "x.e", "x[\"y.z/w\"]"]);
        assert!(matches!(&entries[2].fate, Fate::Lost(_)) && matches!(&entries[3].fate, Fate::Left(_)), "{entries:?}");
    }

    #[test]
    fn a_carried_parent_covers_no_child_and_a_lost_one_covers_all() {
        let object = json!({"a": {"b": 1}, "ab": 2});
        let ledger = Ledger::default();
        let a = Node::root(&object, &ledger).get("a").unwrap();
        a.carried("x");
        assert_eq!(ledger.close(&object).len(), 3);
        let ledger = Ledger::default();
        Node::root(&object, &ledger).get("a").unwrap().lost("no");
        let fields: Vec<String> = ledger.close(&object).into_iter().map(|entry| entry.field).collect();
        assert_eq!(fields, ["a", "ab"]);
    }
}
