//! The answer of Prometheus' instant query API, from bytes to numbers.

use std::collections::BTreeMap;
use std::fmt;

use llmscaler_engine::Bucket;
use serde_json::Value;

use super::number;
use crate::body::{self, LONGEST_QUOTE};
use crate::excerpt::{LONGEST_NAME, excerpt};

/// One sample of an instant vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Label names and values. Empty where the answer has no `metric`, as some stand-ins for Prometheus leave it out.
    pub labels: BTreeMap<String, String>,
    /// The sample, which may be NaN, infinite or negative.
    pub value: f64,
}

/// `{a="1", b="2"}`, sorted by label name, as Prometheus shows a series.
impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (i, (name, value)) in self.labels.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{name}={value:?}")?;
        }
        f.write_str("}")
    }
}

/// Why an answer cannot be used. The texts follow the name of the query and say what came back and what to do.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// The HTTP status is not 200.
    #[error("the server answered with status {status} instead of 200: {said}; {}", advice_on_status(*.status))]
    Status {
        /// The HTTP status.
        status: u16,
        /// What the body says, at most 1 KiB.
        said: String,
    },
    /// The body is not JSON.
    #[error(
        "cannot decode the answer as JSON ({why}): {said}; check that serverAddress is the base of a Prometheus API and not a \
         login page or another service"
    )]
    NotJson {
        /// What the JSON parser says.
        why: String,
        /// The beginning of the body.
        said: String,
    },
    /// The body's own `status` is not `success`, and it says why.
    #[error("Prometheus could not answer: {said}; run the query in the Prometheus UI to see why")]
    Failed {
        /// `errorType: error` of the body, at most 1 KiB.
        said: String,
    },
    /// The body has neither the status `success` nor an error.
    #[error("the answer is JSON, but not an answer of Prometheus: its status is not \"success\"; check serverAddress")]
    NotPrometheus,
    /// There is no `data.result` of a known form.
    #[error("the answer has no data.result list; check that serverAddress is the base of a Prometheus API")]
    NoResult,
    /// The vector is empty.
    #[error(
        "no data: the result is an empty vector, so nothing matches the query now; check its metric name and label filters, and \
         that the pods are up and scraped"
    )]
    Empty,
    /// There are entries, and none is a sample.
    #[error("no readable sample: none of the {count} series has a value of the form [time, \"number\"]; check what serves serverAddress")]
    Malformed {
        /// Number of entries.
        count: usize,
    },
    /// The samples are native histograms.
    #[error("the result is a native histogram, not a number; wrap the query in histogram_quantile(...), histogram_avg(...) or the like")]
    Histogram,
    /// A range vector, of which each series has many samples.
    #[error("the result is a matrix (a range vector), not one number; make it instant, for example avg(avg_over_time(...[1m]))")]
    Matrix,
    /// A string literal.
    #[error("the result is a string, not a number; write a query of numbers")]
    Text,
    /// A scalar whose text is no number.
    #[error("the result is a scalar that cannot be read as a number; check what serves serverAddress")]
    BadScalar,
    /// Several series where one number is needed.
    #[error(
        "{count} series came back where one number is needed, among them {first} and {second}; aggregate every label away, for \
         example with avg(...) or sum(...)"
    )]
    Several {
        /// Number of well-formed series.
        count: usize,
        /// The label set that sorts first.
        first: String,
        /// The label set that sorts second.
        second: String,
    },
    /// A scalar where one series per pod is needed.
    #[error("the result is a scalar where one series per pod is needed; write a query that keeps the pod label")]
    OneScalar,
    /// No series has a pod label, or none of this namespace.
    #[error(
        "none of the {count} series has a pod label and belongs to namespace {namespace:?}; keep the pod label in the query, for \
         example with max by (pod) (...), and filter on the namespace"
    )]
    NoPod {
        /// Number of well-formed series.
        count: usize,
        /// The namespace of the pods that were asked about.
        namespace: String,
    },
    /// A scalar where the buckets of a histogram are needed.
    #[error("the result is a scalar where the buckets of a histogram are needed; keep the label le, for example with sum by (le) (...)")]
    NoBuckets,
    /// No series has a label `le` that is a number.
    #[error("none of the {count} series has a label le that is a number; keep it, for example with sum by (le) (...)")]
    NoBound {
        /// Number of well-formed series.
        count: usize,
    },
    /// A bucket came twice.
    #[error("bucket le={le:?} came twice; aggregate all other labels away, for example with sum by (le) (...)")]
    SameBound {
        /// The bound as it is written.
        le: String,
    },
    /// The sample of a bucket is no count.
    #[error("bucket le={le:?} holds {value}, which is no count; check the query for a division by zero")]
    BadCount {
        /// The bound as it is written.
        le: String,
        /// The sample.
        value: f64,
    },
    /// The bucket without end is missing.
    #[error("the bucket le=\"+Inf\" is missing, so nobody knows of how many observations; keep every le in the query")]
    NoEnd,
    /// Every sample of a pod of this namespace is NaN or infinite.
    #[error("the samples of all pods are NaN or infinite, so they rank nothing; check the query for a division by zero")]
    NoFiniteSample,
}

fn advice_on_status(status: u16) -> &'static str {
    match status {
        300..=399 => "write the address that it redirects to into serverAddress",
        400 | 422 => "run the query in the Prometheus UI to see why",
        401 | 403 | 407 => "check the credentials in serverHeaders or serverHeadersFrom",
        404 | 405 => "check that serverAddress is the base of a Prometheus API, with its path prefix if it has one",
        429 | 500..=599 => "check that the server is up and not overloaded",
        _ => "check that serverAddress is the base of a Prometheus API",
    }
}

/// What an answer holds.
#[derive(Debug)]
pub(super) enum Answer {
    Scalar(f64),
    /// Never empty.
    Vector(Vec<Series>),
}

/// Reads an answer as leniently as is safe: entries that are not samples are dropped, `resultType` and `metric` may be absent, and
/// bytes after the document are ignored. The timestamp is not judged, and neither are `warnings`.
pub(super) fn decode(status: u16, body: &[u8]) -> Result<Answer, Unreadable> {
    let document = body::json(body);
    if status != 200 {
        let said = document.ok().as_ref().and_then(error_of).unwrap_or_else(|| body::quoted(body));
        return Err(Unreadable::Status { status, said });
    }
    let document = document.map_err(|why| Unreadable::NotJson { why, said: body::quoted(body) })?;
    if document.get("status").and_then(Value::as_str) != Some("success") {
        return Err(error_of(&document).map_or(Unreadable::NotPrometheus, |said| Unreadable::Failed { said }));
    }
    let data = document.get("data").ok_or(Unreadable::NoResult)?;
    let result = data.get("result").and_then(Value::as_array).ok_or(Unreadable::NoResult)?;
    match data.get("resultType").and_then(Value::as_str) {
        Some("matrix") => Err(Unreadable::Matrix),
        Some("string") => Err(Unreadable::Text),
        Some("scalar") => sample(result).map(Answer::Scalar).ok_or(Unreadable::BadScalar),
        // Entries of a vector are objects, so a pair of a number and a string can only be a scalar.
        None if matches!(result.as_slice(), [Value::Number(_), Value::String(_)]) => {
            sample(result).map(Answer::Scalar).ok_or(Unreadable::BadScalar)
        }
        _ => vector(result).map(Answer::Vector),
    }
}

fn vector(entries: &[Value]) -> Result<Vec<Series>, Unreadable> {
    let series: Vec<Series> = entries.iter().filter_map(one_series).collect();
    let any_has = |member| entries.iter().any(|entry| entry.get(member).is_some());
    match (series.is_empty(), entries.len()) {
        (false, _) => Ok(series),
        (true, 0) => Err(Unreadable::Empty),
        (true, _) if any_has("values") => Err(Unreadable::Matrix),
        (true, _) if any_has("histogram") => Err(Unreadable::Histogram),
        (true, count) => Err(Unreadable::Malformed { count }),
    }
}

fn one_series(entry: &Value) -> Option<Series> {
    let value = sample(entry.get("value")?.as_array()?)?;
    let labels = entry.get("metric").and_then(Value::as_object).into_iter().flatten();
    let labels = labels.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect();
    Some(Series { labels, value })
}

/// `[time, "number"]`.
fn sample(pair: &[Value]) -> Option<f64> {
    match pair {
        [_, Value::String(text)] => number::parse(text),
        _ => None,
    }
}

/// `errorType: error` of an error body.
fn error_of(document: &Value) -> Option<String> {
    let member = |name| document.get(name).and_then(Value::as_str);
    let said = match (member("errorType"), member("error")) {
        (Some(kind), Some(error)) => format!("{kind}: {error}"),
        (None, Some(text)) | (Some(text), None) => text.to_owned(),
        (None, None) => return None,
    };
    Some(excerpt(&said, LONGEST_QUOTE))
}

/// The one number of an answer, NaN and infinities included.
pub(super) fn number(status: u16, body: &[u8]) -> Result<f64, Unreadable> {
    match decode(status, body)? {
        Answer::Scalar(value) => Ok(value),
        Answer::Vector(series) => match series.as_slice() {
            [one] => Ok(one.value),
            several => {
                let mut names: Vec<String> = several.iter().map(|series| excerpt(&series.to_string(), LONGEST_NAME)).collect();
                names.sort_unstable();
                let mut names = names.into_iter();
                Err(Unreadable::Several {
                    count: several.len(),
                    first: names.next().unwrap_or_default(),
                    second: names.next().unwrap_or_default(),
                })
            }
        },
    }
}

/// Every series of an answer; never empty.
pub(super) fn series(status: u16, body: &[u8]) -> Result<Vec<Series>, Unreadable> {
    match decode(status, body)? {
        Answer::Scalar(value) => Ok(vec![Series { labels: BTreeMap::new(), value }]),
        Answer::Vector(series) => Ok(series),
    }
}

/// The finite sample of each pod of one namespace, by pod name; never empty.
pub(super) fn pods(namespace: &str, status: u16, body: &[u8]) -> Result<BTreeMap<String, f64>, Unreadable> {
    let series = match decode(status, body)? {
        Answer::Scalar(_) => return Err(Unreadable::OneScalar),
        Answer::Vector(series) => series,
    };
    let mut samples = BTreeMap::new();
    let (count, mut of_pods) = (series.len(), 0);
    for Series { mut labels, value } in series {
        let elsewhere = labels.get("namespace").is_some_and(|theirs| !theirs.is_empty() && theirs != namespace);
        let Some(pod) = labels.remove("pod").filter(|pod| !pod.is_empty() && !elsewhere) else {
            continue;
        };
        of_pods += 1;
        if value.is_finite() {
            // Of several samples the highest: it is better to spare a pod that is cold than to delete one that is warm.
            samples.entry(pod).and_modify(|highest: &mut f64| *highest = highest.max(value)).or_insert(value);
        }
    }
    match (samples.is_empty(), of_pods) {
        (false, _) => Ok(samples),
        (true, 0) => Err(Unreadable::NoPod { count, namespace: excerpt(namespace, LONGEST_NAME) }),
        (true, _) => Err(Unreadable::NoFiniteSample),
    }
}

/// The cumulative buckets of one histogram, lowest first; never empty, the last one without end.
pub(super) fn buckets(status: u16, body: &[u8]) -> Result<Vec<Bucket>, Unreadable> {
    let series = match decode(status, body)? {
        Answer::Scalar(_) => return Err(Unreadable::NoBuckets),
        Answer::Vector(series) => series,
    };
    let (count, mut written) = (series.len(), BTreeMap::new());
    for Series { mut labels, value } in series {
        let Some(le) = labels.remove("le") else { continue };
        let Some(upper) = number::parse(&le).filter(|upper| !upper.is_nan()) else { continue };
        if !value.is_finite() || value < 0.0 {
            return Err(Unreadable::BadCount { le: excerpt(&le, LONGEST_NAME), value });
        }
        if written.insert(le.clone(), Bucket { upper, count: value }).is_some() {
            return Err(Unreadable::SameBound { le: excerpt(&le, LONGEST_NAME) });
        }
    }
    let mut buckets: Vec<Bucket> = written.into_values().collect();
    buckets.sort_by(|a, b| a.upper.total_cmp(&b.upper));
    match buckets.last() {
        None => Err(Unreadable::NoBound { count }),
        Some(last) if last.upper == f64::INFINITY => Ok(buckets),
        Some(_) => Err(Unreadable::NoEnd),
    }
}

#[cfg(test)]
mod tests;
