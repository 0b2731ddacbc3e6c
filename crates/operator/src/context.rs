//! What every scaler's task shares.

use kube::Client;
use kube::runtime::events::Recorder;
use llmscaler_signals::Transport;

use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::lease::Claim;
use crate::metrics::Metrics;
use crate::owners::Owners;

/// The field manager of everything that the operator writes.
pub(crate) const FIELD_MANAGER: &str = "llmscaler";

/// What every scaler's task shares.
pub(crate) struct Context {
    pub client: Client,
    pub cluster: Cluster,
    pub transport: Transport,
    pub metrics: Metrics,
    pub recorder: Recorder,
    pub clock: Clock,
    pub owners: Owners,
    pub claim: Claim,
}
