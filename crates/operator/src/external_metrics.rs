//! The External Metrics API, from which an HPA reads what a scaler has read.
//!
//! It is served behind the API server's aggregation layer, as `external.metrics.k8s.io/v1beta1`, and from the operator's last readings: no
//! source is asked, so a slow one keeps no HPA waiting. What is unknown, too old, or not this replica's to say is an error, on which the
//! HPA holds; it is never a number.
//!
//! Who asks is authenticated and authorised as in every server behind that layer: the aggregator shows a certificate of the authority
//! that `kube-system/extension-apiserver-authentication` names, and says in headers on whose behalf it asks; what that user may read
//! the API server is asked in a SubjectAccessReview, unless it is one of `system:masters`. Nobody else gets anything.
//!
//! A cluster has one such API. It is taken when nobody has it, kept while it is ours, and left alone when it is somebody else's.

mod access;
mod aggregator;
mod api_service;
mod identity;
mod keeper;
mod published;
mod quantity;
mod selector;
mod server;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;

pub use self::api_service::{API_SERVICE, ApiServiceState, state_of_api_service};
pub use self::identity::IdentityError;
pub(crate) use self::published::{Published, Readings};
pub(crate) use self::quantity::Milli;
pub(crate) use self::server::bind;

/// The group of the API.
const GROUP: &str = "external.metrics.k8s.io";
/// The only version of the API.
const VERSION: &str = "v1beta1";

/// How long a sync waits until it is known whose the API is.
const PATIENCE: Duration = Duration::from_secs(3);

/// How the External Metrics API is served.
#[derive(Clone, Debug)]
pub struct ExternalMetricsOptions {
    /// Where.
    pub addr: SocketAddr,
    /// The Service by which the API server reaches that place.
    pub service: ServiceRef,
    /// A folder with `tls.crt`, `tls.key` and perhaps `ca.crt`; without one a certificate is made, and renewed.
    pub cert: Option<PathBuf>,
}

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The port of the Service, not of the pod.
    pub port: u16,
}

/// Who has the API of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// It is not known yet.
    Pending,
    /// This operator, and the API server reaches it.
    Ours,
    /// This operator, and the API server does not reach it, in its own words.
    Unreached(String),
    /// Somebody else, named in words for people.
    Foreign(String),
    /// Nobody can tell, or nobody may take it.
    Failed(String),
}

impl Served {
    /// Whether the API is this operator's, reached or not.
    fn is_ours(&self) -> bool {
        matches!(self, Self::Ours | Self::Unreached(_))
    }
}

/// What scalers need of the External Metrics API.
#[derive(Clone, Debug)]
pub(crate) struct ExternalMetrics {
    pub published: Published,
    served: watch::Receiver<Served>,
}

impl ExternalMetrics {
    /// Who has the API of the cluster. At the start it takes a moment until that is known.
    pub(crate) async fn served(&self) -> Served {
        let mut served = self.served.clone();
        // Whether or not it is known by then, what is known is the answer.
        let _ = tokio::time::timeout(PATIENCE, served.wait_for(|served| *served != Served::Pending)).await;
        let known = served.borrow();
        known.clone()
    }
}
