//! What every scaler's task shares.

use kube::Client;
use kube::runtime::events::Reporter;

use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::credentials::Credentials;
use crate::dashboard::History;
use crate::external_metrics::ExternalMetrics;
use crate::lease::Claim;
use crate::metrics::Metrics;
use crate::owners::Owners;
use crate::readings::Readings;
use crate::services::Services;

/// The field manager of everything that the operator writes.
pub const FIELD_MANAGER: &str = "llmscaler";

/// What every scaler's task shares.
pub(crate) struct Context {
    pub client: Client,
    pub cluster: Cluster,
    pub credentials: Credentials,
    pub services: Services,
    /// Handed over in place of what sources answer; `None` asks the sources.
    pub readings: Option<Readings>,
    pub metrics: Metrics,
    /// What HPAs are fed with; `None` where nothing is served to them.
    pub external_metrics: Option<ExternalMetrics>,
    /// What the dashboard shows; `None` while there is none.
    pub history: Option<History>,
    /// In whose name events are published.
    pub reporter: Reporter,
    pub clock: Clock,
    pub owners: Owners,
    pub claim: Claim,
}
