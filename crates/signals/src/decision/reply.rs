//! A decision server's reply, from bytes to a count.

use serde_json::{Number, Value};

use crate::body;
use crate::excerpt::{LONGEST_NAME, excerpt};

/// The only schema that is understood. A later one is free to use `replicas` for something that is not an absolute count.
pub const SCHEMA: &str = "llmscaling.inference.x-k8s.io/v1alpha1";

/// The largest count, which is that of a Kubernetes scale.
pub const LARGEST_COUNT: u32 = i32::MAX as u32;

/// Why a reply gives no count. The texts say what came back and what to do.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Undecided {
    /// The HTTP status is not 200.
    #[error("the decision server answered with status {status} instead of 200: {said}; {}", advice_on_status(*.status))]
    Status {
        /// The HTTP status.
        status: u16,
        /// The beginning of the body, at most 1 KiB.
        said: String,
    },
    /// The body is no JSON object.
    #[error(
        "cannot decode the reply as a JSON object ({why}): {said}; check that serverAddress and customProvider.path lead to a \
         decision server"
    )]
    NotJson {
        /// What is wrong with it.
        why: String,
        /// The beginning of the body, at most 1 KiB.
        said: String,
    },
    /// Another `apiVersion`, or none.
    #[error("unsupported schema: apiVersion is {found}, and only {SCHEMA:?} is understood; check the version of the decision server")]
    Schema {
        /// What is there instead.
        found: String,
    },
    /// `decisions` is there and is no list.
    #[error("cannot decode the reply: its decisions are not a list; check the version of the decision server")]
    NoList,
    /// No decision is about the service.
    #[error(
        "no decision for {service} in the reply, which has {among} decision{}; check customProvider, and that the decision server \
         knows the service", if *.among == 1 { "" } else { "s" }
    )]
    NoDecision {
        /// `serviceId "…"`, and the namespace if one is asked for.
        service: String,
        /// Number of decisions in the reply.
        among: usize,
    },
    /// Several decisions are about the service.
    #[error("{count} decisions match {service}, in the namespaces {}; {}", .namespaces.join(", "), advice_on_several(.namespaces))]
    Several {
        /// Number of matching decisions.
        count: usize,
        /// `serviceId "…"`, and the namespace if one is asked for.
        service: String,
        /// The first few different namespaces of the matching decisions.
        namespaces: Vec<String>,
    },
    /// The decision has no `replicas.active`.
    #[error("the decision for {service} has no active count (replicas.active); check the decision server")]
    NoCount {
        /// `serviceId "…"`, and the namespace if one is asked for.
        service: String,
    },
    /// `replicas.active` is not a JSON integer.
    #[error("the decision for {service} has replicas.active {found}, which is not a whole JSON number; check the decision server")]
    NotInteger {
        /// `serviceId "…"`, and the namespace if one is asked for.
        service: String,
        /// What is there instead.
        found: String,
    },
    /// `replicas.active` is negative or too large.
    #[error(
        "the decision for {service} has replicas.active {found}, which is out of range (0 to {LARGEST_COUNT}); check the decision server"
    )]
    OutOfRange {
        /// `serviceId "…"`, and the namespace if one is asked for.
        service: String,
        /// The number.
        found: String,
    },
}

fn advice_on_status(status: u16) -> &'static str {
    match status {
        300..=399 => "write the address that it redirects to into serverAddress",
        401 | 403 | 407 => "check the credentials in serverHeaders or serverHeadersFrom",
        404 | 405 => "check serverAddress and customProvider.path",
        503 => "it may have just started and not decided yet; check its log if this lasts",
        _ => "check the decision server's log",
    }
}

fn advice_on_several(namespaces: &[String]) -> &'static str {
    match namespaces {
        [_, _, ..] => "choose one with customProvider.namespace",
        _ => "the decision server reports one service more than once",
    }
}

/// The count for a service, in `namespace` if that is given. Each decision is judged by itself: what is wrong with those of other
/// services is their own affair.
pub(super) fn count(service_id: &str, namespace: Option<&str>, status: u16, body: &[u8]) -> Result<u32, Undecided> {
    if status != 200 {
        return Err(Undecided::Status { status, said: body::quoted(body) });
    }
    let undecodable = |why| Undecided::NotJson { why, said: body::quoted(body) };
    let document = body::json(body).map_err(undecodable)?;
    if !document.is_object() {
        return Err(undecodable("it is another JSON value".to_owned()));
    }
    match document.get("apiVersion") {
        Some(Value::String(schema)) if schema == SCHEMA => {}
        found => return Err(Undecided::Schema { found: found.map_or_else(|| "absent".to_owned(), shown) }),
    }
    let decisions = match document.get("decisions") {
        None | Some(Value::Null) => &[],
        Some(Value::Array(decisions)) => decisions.as_slice(),
        Some(_) => return Err(Undecided::NoList),
    };
    let member = |decision: &Value, name| decision.get(name).and_then(Value::as_str).map(str::to_owned);
    let matches = |decision: &&Value| {
        member(decision, "serviceId").as_deref() == Some(service_id)
            && namespace.is_none_or(|asked| member(decision, "namespace").as_deref() == Some(asked))
    };
    let matching: Vec<&Value> = decisions.iter().filter(matches).collect();
    let service = described(service_id, namespace);
    match matching.as_slice() {
        [] => Err(Undecided::NoDecision { service, among: decisions.len() }),
        [decision] => active(decision, service),
        several => {
            let mut namespaces: Vec<String> =
                several.iter().map(|decision| decision.get("namespace").map_or_else(|| "(none)".to_owned(), shown)).collect();
            namespaces.sort_unstable();
            namespaces.dedup();
            namespaces.truncate(3);
            Err(Undecided::Several { count: several.len(), service, namespaces })
        }
    }
}

fn active(decision: &Value, service: String) -> Result<u32, Undecided> {
    match decision.get("replicas").and_then(|replicas| replicas.get("active")) {
        None | Some(Value::Null) => Err(Undecided::NoCount { service }),
        Some(Value::Number(number)) => match in_range(number) {
            Some(count) => Ok(count),
            None if is_whole(number) => Err(Undecided::OutOfRange { service, found: number.to_string() }),
            None => Err(Undecided::NotInteger { service, found: number.to_string() }),
        },
        Some(other) => Err(Undecided::NotInteger { service, found: shown(other) }),
    }
}

fn in_range(number: &Number) -> Option<u32> {
    number.as_u64().and_then(|count| u32::try_from(count).ok()).filter(|&count| count <= LARGEST_COUNT)
}

/// Whether the number is written as an integer, or is so large that it can only be one.
fn is_whole(number: &Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|large| large.abs() > 9e15)
}

/// `serviceId "svc" in namespace "ns"`.
pub(super) fn described(service_id: &str, namespace: Option<&str>) -> String {
    let service = excerpt(service_id, LONGEST_NAME);
    match namespace {
        Some(namespace) => format!("serviceId {service:?} in namespace {:?}", excerpt(namespace, LONGEST_NAME)),
        None => format!("serviceId {service:?}"),
    }
}

fn shown(value: &Value) -> String {
    excerpt(&value.to_string(), LONGEST_NAME)
}

#[cfg(test)]
mod tests;
