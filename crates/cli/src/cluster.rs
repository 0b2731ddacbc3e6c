//! Which cluster a command looks at: the flags of kubectl, and the connection.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use llmscaler_operator::diagnose::CallError;
use tokio::runtime::Builder;

use crate::failure::Failure;

/// A cluster that does not answer for so long is not there.
const CONNECT: Duration = Duration::from_secs(5);

/// Which cluster, and where in it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterArguments {
    /// The kubeconfig file; that of $KUBECONFIG or ~/.kube/config unless given
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; its current one unless given
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The namespace to look in; that of the context unless given
    #[arg(short, long, value_name = "NAMESPACE", conflicts_with = "all_namespaces")]
    namespace: Option<String>,
    /// Look in every namespace
    #[arg(short = 'A', long)]
    all_namespaces: bool,
}

/// A connection to a cluster.
#[derive(Clone)]
pub struct Cluster {
    /// The API server.
    pub client: Client,
    /// The namespace to look in; `None` is all of them.
    pub namespace: Option<String>,
}

impl ClusterArguments {
    /// Whether every namespace was asked for.
    pub fn everywhere(&self) -> bool {
        self.all_namespaces
    }

    /// Connects. Nothing is asked yet.
    pub async fn connect(&self) -> Result<Cluster, Failure> {
        // Once for the process, before the first connection. It fails only when there is one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut config = self.config().await.map_err(|why| {
            Failure::Cluster(format!("no cluster to look at: {why}; name one with --kubeconfig and --context, or set KUBECONFIG"))
        })?;
        config.connect_timeout = Some(CONNECT);
        // Whoever waits at a terminal wants to see a failure, not to wait until it is over.
        config.default_retry = false;
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config)
            .map_err(|error| Failure::Cluster(format!("the client for the API server cannot be built: {error}; check the kubeconfig")))?;
        Ok(Cluster { client, namespace: (!self.all_namespaces).then_some(namespace) })
    }

    async fn config(&self) -> Result<Config, String> {
        if self.kubeconfig.is_none() && self.context.is_none() {
            return Config::infer().await.map_err(|error| error.to_string());
        }
        let file = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        Config::from_custom_kubeconfig(file.map_err(|error| error.to_string())?, &options).await.map_err(|error| error.to_string())
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        Self::Cluster(format!("the API server could not be asked: {error}; check the kubeconfig and what you may do there"))
    }
}

/// Runs a command that talks to a cluster.
pub fn block_on<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(|error| Failure::Cluster(error.to_string()))?.block_on(command)
}
