//! Starts the parts of the operator and ends them together.

use std::net::SocketAddr;
use std::time::Duration;

use kube::Client;
use kube::runtime::events::Reporter;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::context::Context;
use crate::credentials::Credentials;
use crate::dashboard::{Dashboard, History};
use crate::external_metrics::{self, ExternalMetrics, ExternalMetricsOptions};
use crate::health::Health;
use crate::lease::{Claim, Election};
use crate::metrics::Metrics;
use crate::owners::Owners;
use crate::readings::Readings;
use crate::serve::{MetricsOptions, ServeError, bind_health, bind_metrics};
use crate::services::Services;
use crate::supervisor::Supervisor;

/// A loop that has shown no sign of life for so long is dead.
const LOOP_SILENCE: Duration = Duration::from_secs(60);

/// How the operator runs.
pub struct Options {
    /// Where `/healthz` and `/readyz` are served; `None` is nowhere.
    pub health: Option<SocketAddr>,
    /// Where `/metrics` is served, and how; `None` is nowhere.
    pub metrics: Option<MetricsOptions>,
    /// The dashboard to feed and to serve; `None` is none.
    pub dashboard: Option<Dashboard>,
    /// The External Metrics API to serve, for scalers with actuation HorizontalPodAutoscaler; `None` is none.
    pub external_metrics: Option<ExternalMetricsOptions>,
    /// The only namespace whose scalers are run; `None` is all of them.
    pub namespace: Option<String>,
    /// How several replicas agree on which one acts; `None` is for a single one.
    pub leader_election: Option<LeaderElection>,
    /// The time that decisions are taken at. It is the dashboard's, too.
    pub clock: Clock,
}

/// How several replicas agree on which one acts.
#[derive(Clone, Debug)]
pub struct LeaderElection {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Who this replica is; unique among them.
    pub identity: String,
}

/// Why the operator ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A server could not be started.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// A server has crashed.
    #[error("one of the servers for health, metrics and the dashboard crashed; the process has to be started again")]
    ServerCrashed,
    /// The watch of LLMScalers has ended, and with it everything else.
    #[error("the watch of LLMScalers has ended; the process has to be started again")]
    WatchEnded,
}

/// Runs the operator until `shutdown` is cancelled.
///
/// # Errors
/// A port cannot be bound, or the main loop has ended.
pub async fn run(client: Client, options: Options, shutdown: CancellationToken) -> Result<(), RunError> {
    start(client, options, None, shutdown).await
}

/// As [`run`], but sources are not asked: `readings` are handed over.
///
/// # Errors
/// As [`run`].
pub async fn run_with_readings(client: Client, options: Options, readings: Readings, shutdown: CancellationToken) -> Result<(), RunError> {
    start(client, options, Some(readings), shutdown).await
}

async fn start(client: Client, options: Options, readings: Option<Readings>, shutdown: CancellationToken) -> Result<(), RunError> {
    let (health, metrics) = (Health::new(), Metrics::new());
    let mut servers = JoinSet::new();
    if let Some(address) = options.health {
        servers.spawn(bind_health(address, health.clone()).await?.run(shutdown.clone()));
    }
    if let Some(metrics_options) = options.metrics {
        servers.spawn(bind_metrics(metrics_options, metrics.clone(), client.clone()).await?.run(shutdown.clone()));
    }
    let mut external_metrics = None;
    if let Some(external_options) = options.external_metrics {
        let bound = external_metrics::bind(external_options, client.clone(), metrics.clone()).await?;
        external_metrics = Some(bound.metrics());
        servers.spawn(bound.run(shutdown.clone()));
    }
    let history = options.dashboard.as_ref().map(Dashboard::history);
    if let Some(dashboard) = options.dashboard {
        servers.spawn(dashboard.run(shutdown.clone()));
    }

    let (namespace, clock) = (options.namespace, options.clock);
    let operator = Operator { client, health, metrics, external_metrics, history, namespace, clock, readings };
    let scaling = async {
        match options.leader_election {
            Some(election) => operator.stand_for_election(election, &shutdown).await,
            None => operator.lead(Claim::always(), &shutdown).await,
        }
    };
    // A server ends by itself only when something is wrong: better a restart than an operator that nobody can look into. At the
    // shutdown they all end, which must not keep the lease from being handed over.
    let server = async {
        match servers.join_next().await {
            Some(ended) if !shutdown.is_cancelled() => ended,
            _ => std::future::pending().await,
        }
    };
    tokio::select! {
        ended = scaling => ended,
        ended = server => match ended {
            Ok(result) => Ok(result?),
            Err(_) => Err(RunError::ServerCrashed),
        },
    }
}

/// What outlives a term of leadership.
struct Operator {
    client: Client,
    health: Health,
    metrics: Metrics,
    external_metrics: Option<ExternalMetrics>,
    history: Option<History>,
    namespace: Option<String>,
    clock: Clock,
    readings: Option<Readings>,
}

impl Operator {
    /// Leads whenever it is elected, until `shutdown`.
    async fn stand_for_election(&self, election: LeaderElection, shutdown: &CancellationToken) -> Result<(), RunError> {
        let LeaderElection { namespace, name, identity } = election;
        let election = Election::new(self.client.clone(), &namespace, &name, identity.clone());
        loop {
            info!(lease = name, namespace, identity, "Waiting to become the leader");
            // A standby has nothing else to do: it is healthy while it waits.
            let candidate = self.health.part("leader election", Duration::MAX);
            candidate.ready();
            let claim = tokio::select! {
                claim = election.acquire() => claim,
                () = shutdown.cancelled() => return Ok(()),
            };
            candidate.finished();
            info!("Leading");
            let ended = self.lead(claim.clone(), shutdown).await;
            claim.release().await;
            if shutdown.is_cancelled() || ended.is_err() {
                return ended;
            }
            warn!("Leadership was lost; another replica acts now");
        }
    }

    /// Scales for as long as the claim holds.
    async fn lead(&self, claim: Claim, shutdown: &CancellationToken) -> Result<(), RunError> {
        let part = self.health.part("watch of LLMScalers", LOOP_SILENCE);
        let reporter = Reporter { controller: "llmscaler".to_owned(), instance: std::env::var("POD_NAME").ok() };
        let context = Context {
            client: self.client.clone(),
            cluster: Cluster::new(self.client.clone(), self.health.clone(), self.metrics.clone(), self.namespace.clone()),
            credentials: Credentials::new(self.client.clone()),
            services: Services::new(self.client.clone()),
            readings: self.readings.clone(),
            metrics: self.metrics.clone(),
            external_metrics: self.external_metrics.clone(),
            history: self.history.clone(),
            reporter,
            clock: self.clock,
            owners: Owners::new(),
            claim: claim.clone(),
        };
        let mut supervisor = Supervisor::new(context, self.namespace.clone());
        self.metrics.leader(true);
        if let Some(history) = &self.history {
            history.leading(true);
        }
        if let Some(external) = &self.external_metrics {
            external.published.lead(true);
        }
        tokio::select! {
            () = supervisor.run(&part) => return Err(RunError::WatchEnded),
            () = claim.lost() => {}
            () = shutdown.cancelled() => {}
        }
        // Whoever leads next must not meet a request that is still under way.
        if let Some(external) = &self.external_metrics {
            external.published.lead(false);
        }
        supervisor.stop().await;
        self.metrics.leader(false);
        if let Some(history) = &self.history {
            history.leading(false);
            history.clear();
        }
        part.finished();
        Ok(())
    }
}
