//! A decision server: it has worked out how many replicas a service should have, and hands out the absolute count.
//!
//! A reply counts when it is HTTP 200, its `apiVersion` is [`SCHEMA`], exactly one of its `decisions` is about the service asked
//! for, and that one has an integer `replicas.active` from 0 to [`LARGEST_COUNT`]. 0 is a real decision.

mod reply;

use llmscaler_engine::Reading;

pub use self::reply::{LARGEST_COUNT, SCHEMA, Undecided};
use crate::transport::{self, Endpoint};

/// Why there is no decision. The texts name the service, say what came back, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The service id is empty; nothing was asked.
    #[error("customProvider.serviceId is empty; write the id under which the decision server knows the service")]
    NoServiceId,
    /// The path is not a path; nothing was asked.
    #[error("customProvider.path {0:?} has a query string or fragment; write the path only, for example /decisions")]
    NotPath(String),
    /// No answer came back.
    #[error("decision for {service}: {cause}")]
    Transport {
        /// `serviceId "…"`, and the namespace if one is asked for.
        service: String,
        /// What went wrong.
        cause: transport::Error,
    },
    /// An answer came back that gives no count.
    #[error(transparent)]
    Reply(#[from] Undecided),
}

/// Reads the reply to a question for `service_id`. An empty `namespace` is none: then decisions of every namespace match.
///
/// ```
/// use llmscaler_engine::Reading;
/// use llmscaler_signals::decision::read_count;
///
/// let body = br#"{"apiVersion": "llmscaling.inference.x-k8s.io/v1alpha1",
///                 "decisions": [{"namespace": "chat", "serviceId": "qwen", "replicas": {"active": 15}}]}"#;
/// assert_eq!(read_count("qwen", None, 200, body), Reading::from_number(15.0));
/// assert!(read_count("llama", None, 200, body).is_unknown());
/// ```
#[must_use]
pub fn read_count(service_id: &str, namespace: Option<&str>, status: u16, body: &[u8]) -> Reading {
    reading(reply::count(service_id, chosen(namespace), status, body).map_err(Error::from))
}

fn reading(count: Result<u32, Error>) -> Reading {
    match count {
        Ok(count) => Reading::from_number(f64::from(count)),
        Err(error) => Reading::unknown(error.to_string()),
    }
}

fn chosen(namespace: Option<&str>) -> Option<&str> {
    namespace.filter(|namespace| !namespace.is_empty())
}

/// Asks one decision server with the headers of one scaler.
#[derive(Clone, Debug)]
pub struct DecisionClient {
    endpoint: Endpoint,
}

impl DecisionClient {
    /// The path that is asked when a scaler gives none.
    pub const DEFAULT_PATH: &str = "/decisions";

    /// A client that asks below the address of `endpoint`.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Self {
        Self { endpoint }
    }

    /// The absolute count for a service; see [`read_count`]. It is asked at `{address}{path}?serviceId={service_id}`, at
    /// [`DEFAULT_PATH`](Self::DEFAULT_PATH) when `path` is empty. The namespace is not sent; it only selects from the reply.
    pub async fn decision(&self, service_id: &str, namespace: Option<&str>, path: &str) -> Reading {
        reading(self.count(service_id, chosen(namespace), path).await)
    }

    async fn count(&self, service_id: &str, namespace: Option<&str>, path: &str) -> Result<u32, Error> {
        if service_id.is_empty() {
            return Err(Error::NoServiceId);
        }
        if path.contains(['?', '#']) {
            return Err(Error::NotPath(path.split(['?', '#']).next().unwrap_or_default().to_owned()));
        }
        let mut url = self.endpoint.at(if path.is_empty() { Self::DEFAULT_PATH } else { path });
        url.query_pairs_mut().append_pair("serviceId", service_id);
        let reply =
            self.endpoint.get(url).await.map_err(|cause| Error::Transport { service: reply::described(service_id, namespace), cause })?;
        Ok(reply::count(service_id, namespace, reply.status, &reply.body)?)
    }
}
