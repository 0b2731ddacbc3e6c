//! Prometheus, or whatever speaks its instant query API.
//!
//! An answer is read when it is HTTP 200, its `status` is `success`, and it is a scalar or a vector of exactly one well-formed
//! sample; malformed entries are dropped before they are counted. Several series are an error, not a choice.

mod answer;
pub(crate) mod number;

use std::collections::BTreeMap;

use llmscaler_engine::{Bucket, Reading};
use url::Url;
use url::form_urlencoded;

pub use self::answer::{Series, Unreadable};
use crate::excerpt::{LONGEST_NAME, excerpt};
use crate::transport::{self, Endpoint, Reply};

/// A query that gave nothing usable: which one, what came back, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("query `{query}`: {cause}")]
pub struct Error {
    query: String,
    cause: Cause,
}

/// What went wrong with a query.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// No answer came back.
    #[error(transparent)]
    Transport(#[from] transport::Error),
    /// An answer came back that cannot be used.
    #[error(transparent)]
    Answer(#[from] Unreadable),
}

impl Error {
    fn new(query: &str, cause: impl Into<Cause>) -> Self {
        Self { query: excerpt(query, LONGEST_NAME), cause: cause.into() }
    }

    /// What went wrong.
    #[must_use]
    pub fn cause(&self) -> &Cause {
        &self.cause
    }

    /// Whether the query was answered, and the answer is that no series matches.
    #[must_use]
    pub fn is_no_series(&self) -> bool {
        matches!(self.cause, Cause::Answer(Unreadable::Empty))
    }
}

/// Reads the answer to a query of one aggregated number. NaN, ±Inf and negative numbers are unknown, as is everything that is not
/// one number.
///
/// ```
/// use llmscaler_engine::Reading;
/// use llmscaler_signals::prometheus::read_value;
///
/// let body = br#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1435781451.781,"0.9"]}]}}"#;
/// assert_eq!(read_value("avg(vllm:kv_cache_usage_perc)", 200, body), Reading::from_number(0.9));
/// assert!(read_value("avg(vllm:kv_cache_usage_perc)", 500, body).is_unknown());
/// ```
#[must_use]
pub fn read_value(query: &str, status: u16, body: &[u8]) -> Reading {
    reading(query, read_number(query, status, body))
}

/// As [`read_value`], but NaN, infinities and negative numbers are handed out as they are. For signals in which NaN has a meaning:
/// a quantile over no observations.
///
/// # Errors
/// The answer is not one number.
pub fn read_number(query: &str, status: u16, body: &[u8]) -> Result<f64, Error> {
    answer::number(status, body).map_err(|why| Error::new(query, why))
}

/// Reads the answer to a query of several series (a histogram by `le`, say), in the order of the answer. A scalar is one series
/// without labels. The vector is never empty; samples may be NaN, infinite or negative.
///
/// # Errors
/// The answer cannot be read, or holds no sample.
pub fn read_series(query: &str, status: u16, body: &[u8]) -> Result<Vec<Series>, Error> {
    answer::series(status, body).map_err(|why| Error::new(query, why))
}

/// Reads the answer to a query of the buckets of one histogram, a series for each `le`: cumulative, lowest bound first, the last one
/// without end (`+Inf`).
///
/// Left out are series without a label `le` that is a number. Bounds that are the same number, differently written (`1` and `1.0`),
/// are kept apart; [`llmscaler_engine::histogram_quantile`] and its like add them up, as Prometheus does.
///
/// # Errors
/// The answer cannot be read, no bucket is left, one is there twice, has no count, or the one without end is missing.
pub fn read_buckets(query: &str, status: u16, body: &[u8]) -> Result<Vec<Bucket>, Error> {
    answer::buckets(status, body).map_err(|why| Error::new(query, why))
}

/// Reads the answer to a query of one series per pod (`deletionCostQuery`) as the sample of each pod, by name; every sample is
/// finite, and the map is never empty.
///
/// Left out are series without a `pod` label, those whose `namespace` label names another namespace than the pods', and samples
/// that are NaN or infinite. Of several series of one pod the highest sample counts: the samples rank pods for deletion, lowest
/// first, and it is better to spare a pod that is cold than to delete one that is warm.
///
/// # Errors
/// The answer cannot be read, or no series is left.
pub fn read_pods(query: &str, namespace: &str, status: u16, body: &[u8]) -> Result<BTreeMap<String, f64>, Error> {
    answer::pods(namespace, status, body).map_err(|why| Error::new(query, why))
}

fn reading(query: &str, number: Result<f64, Error>) -> Reading {
    match number.map(Reading::from_number) {
        Ok(Reading::Unknown(why)) => Reading::unknown(format!("query `{}`: {why}", excerpt(query, LONGEST_NAME))),
        Ok(known) => known,
        Err(error) => Reading::unknown(error.to_string()),
    }
}

/// Asks one Prometheus with the headers of one scaler.
#[derive(Clone, Debug)]
pub struct PrometheusClient {
    endpoint: Endpoint,
}

impl PrometheusClient {
    /// The longest URL that is sent as it is, in bytes. A longer query travels as the form of a POST to the same path, since
    /// proxies and gateways cut or refuse long request lines (the strictest in common use allow 2 KiB).
    pub const LONGEST_URL: usize = 2048;

    /// A client that asks at `{address}/api/v1/query`.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Self {
        Self { endpoint }
    }

    /// Asks for one aggregated number; see [`read_value`].
    pub async fn query_value(&self, query: &str) -> Reading {
        reading(query, self.query_number(query).await)
    }

    /// Asks for one aggregated number; see [`read_number`].
    ///
    /// # Errors
    /// No answer came back, or it is not one number.
    pub async fn query_number(&self, query: &str) -> Result<f64, Error> {
        let reply = self.ask(query).await?;
        read_number(query, reply.status, &reply.body)
    }

    /// Asks for several series; see [`read_series`].
    ///
    /// # Errors
    /// No answer came back, or no sample is in it.
    pub async fn query_series(&self, query: &str) -> Result<Vec<Series>, Error> {
        let reply = self.ask(query).await?;
        read_series(query, reply.status, &reply.body)
    }

    /// Asks for the buckets of a histogram; see [`read_buckets`].
    ///
    /// # Errors
    /// No answer came back, or no histogram is in it.
    pub async fn query_buckets(&self, query: &str) -> Result<Vec<Bucket>, Error> {
        let reply = self.ask(query).await?;
        read_buckets(query, reply.status, &reply.body)
    }

    /// Asks for the samples of the pods of `namespace`; see [`read_pods`].
    ///
    /// # Errors
    /// No answer came back, or no pod has a sample in it.
    pub async fn query_pods(&self, query: &str, namespace: &str) -> Result<BTreeMap<String, f64>, Error> {
        let reply = self.ask(query).await?;
        read_pods(query, namespace, reply.status, &reply.body)
    }

    async fn ask(&self, query: &str) -> Result<Reply, Error> {
        let path = self.endpoint.at("api/v1/query");
        let url = with_query(path.clone(), query);
        let asked = if url.as_str().len() <= Self::LONGEST_URL {
            self.endpoint.get(url).await
        } else {
            let form = form_urlencoded::Serializer::new(String::new()).append_pair("query", query).finish();
            self.endpoint.post_form(path, form).await
        };
        asked.map_err(|why| Error::new(query, why))
    }
}

fn with_query(mut url: Url, query: &str) -> Url {
    url.query_pairs_mut().append_pair("query", query);
    url
}
