//! A document's values, each with the place where it stands, so that every refusal can name it.

use std::time::Duration;

use llmscaler_api::Invalid;
use llmscaler_engine::{Replicas, Time};
use serde_json::{Map, Value};

use super::suggest::suggestion;

/// How far from 0 a time may lie: beyond, seconds as a double no longer tell milliseconds apart.
const FURTHEST_SECONDS: f64 = 9e12;

/// One value of a document.
#[derive(Clone, Debug)]
pub struct Node<'a> {
    value: &'a Value,
    path: String,
}

/// A mapping whose keys are all known.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    map: &'a Map<String, Value>,
    path: String,
}

impl<'a> Node<'a> {
    /// The document as a whole.
    pub fn root(value: &'a Value) -> Self {
        Self { value, path: String::new() }
    }

    /// The plain value.
    pub fn value(&self) -> &'a Value {
        self.value
    }

    /// A refusal of this value.
    pub fn invalid(&self, message: impl Into<String>) -> Invalid {
        Invalid { field: self.path.clone(), message: message.into() }
    }

    fn expected(&self, what: &str) -> Invalid {
        let whole = if self.path.is_empty() { "the document " } else { "" };
        self.invalid(format!("{whole}is {}; write {what}", described(self.value)))
    }

    /// A mapping with no keys but `known`.
    pub fn fields(&self, known: &[&str]) -> Result<Fields<'a>, Invalid> {
        let map = self.map(&format!("a mapping with {}", known.join(", ")))?;
        if let Some(key) = map.keys().find(|key| !known.contains(&key.as_str())) {
            let message = format!("there is no such field{}; the fields here are {}", suggestion(key, known), known.join(", "));
            return Err(Invalid { field: below(&self.path, key), message });
        }
        Ok(Fields { map, path: self.path.clone() })
    }

    /// A mapping with free keys, in their order.
    pub fn entries(&self) -> Result<impl Iterator<Item = (&'a str, Node<'a>)>, Invalid> {
        let path = self.path.clone();
        let map = self.map("a mapping")?;
        Ok(map.iter().map(move |(key, value)| (key.as_str(), Node { value, path: below(&path, key) })))
    }

    fn map(&self, what: &str) -> Result<&'a Map<String, Value>, Invalid> {
        self.value.as_object().ok_or_else(|| self.expected(what))
    }

    /// A list.
    pub fn list(&self) -> Result<impl Iterator<Item = Node<'a>>, Invalid> {
        let path = self.path.clone();
        let list = self.value.as_array().ok_or_else(|| self.expected("a list"))?;
        Ok(list.iter().enumerate().map(move |(index, value)| Node { value, path: format!("{path}[{index}]") }))
    }

    /// A text.
    pub fn text(&self) -> Result<&'a str, Invalid> {
        self.value.as_str().ok_or_else(|| self.expected("a text, in quotes if need be"))
    }

    /// true or false.
    pub fn flag(&self) -> Result<bool, Invalid> {
        self.value.as_bool().ok_or_else(|| self.expected("true or false"))
    }

    /// A whole number within a range, ends included.
    pub fn integer(&self, least: i64, most: i64) -> Result<i64, Invalid> {
        let number = self.value.as_i64().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| self.expected(&format!("a whole number from {least} to {most}")))
    }

    /// A number of replicas, 0 to 2³¹−1.
    pub fn count(&self) -> Result<Replicas, Invalid> {
        self.integer(0, i32::MAX.into()).map(Replicas::saturating)
    }

    /// Any number, also NaN and ±Inf, which YAML writes .nan and .inf and JSON as texts.
    pub fn number(&self) -> Result<f64, Invalid> {
        self.number_of("a plain number without quotes, leading zeros or underscores, or NaN, Inf or -Inf")
    }

    /// Any number, where only those are meant that `what` says.
    pub fn number_of(&self, what: &str) -> Result<f64, Invalid> {
        let number = match self.value {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => not_finite(text),
            _ => None,
        };
        number.ok_or_else(|| self.expected(what))
    }

    /// A moment in seconds.
    pub fn time(&self) -> Result<Time, Invalid> {
        self.seconds(-FURTHEST_SECONDS, "a number of seconds").map(Time::from_seconds)
    }

    /// A length of time in seconds, 0 or more.
    pub fn duration(&self) -> Result<Duration, Invalid> {
        self.seconds(0.0, "a number of seconds, 0 or more").map(Duration::from_secs_f64)
    }

    fn seconds(&self, least: f64, what: &str) -> Result<f64, Invalid> {
        let seconds = self.value.as_f64().filter(|seconds| (least..=FURTHEST_SECONDS).contains(seconds));
        seconds.ok_or_else(|| self.expected(&format!("{what}, at most {FURTHEST_SECONDS:e}")))
    }
}

impl<'a> Fields<'a> {
    /// The value under `key`; `None` when it is absent or null.
    pub fn get(&self, key: &str) -> Option<Node<'a>> {
        let value = self.map.get(key).filter(|value| !value.is_null())?;
        Some(Node { value, path: below(&self.path, key) })
    }

    /// The value under `key`, which must be there; `why` says what it is.
    pub fn need(&self, key: &str, why: &str) -> Result<Node<'a>, Invalid> {
        self.get(key).ok_or_else(|| Invalid { field: below(&self.path, key), message: format!("is missing; {why}") })
    }
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn not_finite(text: &str) -> Option<f64> {
    let (sign, word) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    match word.trim_start_matches('.').to_ascii_lowercase().as_str() {
        "nan" => Some(f64::NAN),
        "inf" | "infinity" => Some(sign * f64::INFINITY),
        _ => None,
    }
}

/// A value as a refusal shows it, short.
fn described(value: &Value) -> String {
    match value {
        Value::Null => "empty".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) if text.chars().count() > 40 => format!("the text {:?}…", text.chars().take(40).collect::<String>()),
        Value::String(text) => format!("the text {text:?}"),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a mapping".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_names_the_place_and_the_next_name() {
        let document = json!({"ticks": [{"targt": 1}]});
        let ticks = Node::root(&document).fields(&["ticks"]).unwrap().get("ticks").unwrap();
        let tick = ticks.list().unwrap().next().unwrap();
        let refused = tick.fields(&["at", "target"]).unwrap_err();
        assert_eq!(refused.field, "ticks[0].targt");
        assert!(refused.message.contains("(did you mean target?)"), "{}", refused.message);
    }

    #[test]
    fn counts_are_whole_and_bounded() {
        for good in [json!(0), json!(2_147_483_647)] {
            assert!(Node::root(&good).count().is_ok(), "{good}");
        }
        for bad in [json!(2_147_483_648_u64), json!(-1), json!(1.5), json!(4.0), json!("4"), json!(true), json!(u64::MAX), json!(1e300)] {
            assert!(Node::root(&bad).count().is_err(), "{bad}");
        }
    }

    #[test]
    fn times_are_bounded() {
        assert_eq!(Node::root(&json!(-1.5)).time().unwrap(), Time::from_millis(-1500));
        for bad in [json!(1e300), json!(-1e300), json!("5")] {
            assert!(Node::root(&bad).time().is_err(), "{bad}");
        }
        assert!(Node::root(&json!(-1)).duration().is_err());
    }

    #[test]
    fn numbers_need_not_be_finite() {
        for (text, expected) in
            [(".inf", f64::INFINITY), ("+Inf", f64::INFINITY), ("-.Inf", f64::NEG_INFINITY), ("-Infinity", f64::NEG_INFINITY)]
        {
            assert_eq!(Node::root(&json!(text)).number().unwrap(), expected, "{text}");
        }
        assert!(Node::root(&json!("NaN")).number().unwrap().is_nan() && Node::root(&json!(".nan")).number().unwrap().is_nan());
        for text in ["0.9", "0755", "1_000", "", "infinite"] {
            assert!(Node::root(&json!(text)).number().is_err(), "{text}");
        }
    }
}
