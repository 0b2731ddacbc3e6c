//! `llmscaler operator`: the flags of the manager, in the names that the Go operator gave them.

mod bind;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::IsTerminal;
use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};
use kube::Client;
use llmscaler_operator::dashboard::{Dashboard, HostName};
use llmscaler_operator::external_metrics::{ExternalMetricsOptions, ServiceRef};
use llmscaler_operator::serve::{CertFiles, MetricsOptions};
use llmscaler_operator::{Clock, LeaderElection, Options, run};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use self::bind::{Bind, each_apart};
use crate::cluster::{check, inferred};
use crate::dns;
use crate::failure::Failure;

/// The Lease of the Go operator of this API, so that the two never act at once.
pub const LEASE: &str = "0abb3156.modelsphere.dev";

/// Where a pod finds its own namespace.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Arguments of `llmscaler operator`.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools)] // they are the flags of document A
pub struct OperatorArguments {
    /// Where /metrics is served, such as :8443; 0 is nowhere
    #[arg(long, value_name = "ADDRESS", default_value = "0", value_parser = Bind::parse)]
    metrics_bind_address: Bind,
    /// Serve metrics over HTTPS, to those that the API server authorises
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    metrics_secure: bool,
    /// Folder of the certificate for metrics; a self-signed one is made when there is none
    #[arg(long, value_name = "DIR")]
    metrics_cert_path: Option<PathBuf>,
    /// Name of the certificate's file
    #[arg(long, value_name = "FILE", default_value = "tls.crt")]
    metrics_cert_name: String,
    /// Name of the key's file
    #[arg(long, value_name = "FILE", default_value = "tls.key")]
    metrics_cert_key: String,
    /// Where /healthz and /readyz are served; 0 is nowhere
    #[arg(long, value_name = "ADDRESS", default_value = ":8081", value_parser = Bind::parse)]
    health_probe_bind_address: Bind,
    /// Where the dashboard is served, such as 127.0.0.1:8082; 0 is nowhere. Whoever reaches it may read it
    #[arg(long, value_name = "ADDRESS", default_value = "0", value_parser = Bind::parse)]
    dashboard_bind_address: Bind,
    /// Names by which the dashboard is asked, such as that of an Ingress, beside addresses, localhost and names of Services
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    dashboard_hosts: Vec<HostName>,
    /// Where external metrics are served to HPAs, such as :6443; 0 is nowhere. Needed by scalers with actuation HorizontalPodAutoscaler
    #[arg(long, value_name = "ADDRESS", default_value = "0", value_parser = Bind::parse)]
    external_metrics_bind_address: Bind,
    /// Service by which the API server reaches them. The cluster's APIService for external metrics is led there, unless it is somebody else's
    #[arg(long, value_name = "NAME", value_parser = dns::label)]
    external_metrics_service_name: Option<String>,
    /// Namespace of that Service; the pod's own when it runs in a cluster
    #[arg(long, value_name = "NAMESPACE", env = "POD_NAMESPACE", value_parser = dns::label_or_empty)]
    external_metrics_service_namespace: Option<String>,
    /// Port of that Service
    #[arg(long, value_name = "PORT", default_value_t = 443)]
    external_metrics_service_port: u16,
    /// Folder of the certificate for external metrics, as tls.crt, tls.key and perhaps ca.crt; one is made and renewed when there is none
    #[arg(long, value_name = "DIR")]
    external_metrics_cert_path: Option<PathBuf>,
    /// Act only while holding the Lease, for several replicas of the operator
    #[arg(long, value_name = "BOOL", default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    leader_elect: bool,
    /// Namespace of the Lease; the pod's own when it runs in a cluster
    #[arg(long, value_name = "NAMESPACE", env = "POD_NAMESPACE", value_parser = dns::label_or_empty)]
    leader_election_namespace: Option<String>,
    /// Run only the scalers of this namespace; a Role instead of a ClusterRole is enough then
    #[arg(long, value_name = "NAMESPACE", env = "WATCH_NAMESPACE", value_parser = watched)]
    watch_namespace: Option<String>,
    /// Serve metrics over HTTP/2 as well
    #[arg(long, value_name = "BOOL", default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    enable_http2: bool,
    /// Least severe level that is logged: error, warn, info, debug, trace, or a filter such as info,llmscaler_signals=debug
    #[arg(long, value_name = "LEVEL", default_value = "info", env = "RUST_LOG", value_parser = log_filter)]
    zap_log_level: String,
    /// Form of the log
    #[arg(long, value_name = "FORM", value_enum, default_value_t = Encoder::Console)]
    zap_encoder: Encoder,
    /// Accepted and without effect: there is no webhook, and logs have one mode and no stack traces
    #[arg(long, value_name = "…", hide_short_help = true, aliases = ["webhook-cert-name", "webhook-cert-key", "zap-devel", "zap-stacktrace-level", "zap-time-encoding"], num_args = 0..=1, require_equals = false, action = ArgAction::Append)]
    webhook_cert_path: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Encoder {
    /// Lines for people
    Console,
    /// One JSON object a line
    Json,
}

/// The namespace to watch; empty is all of them.
fn watched(text: &str) -> Result<String, String> {
    if text.contains(',') {
        return Err("one namespace only: run one operator for each, or leave it out to watch all of them".to_owned());
    }
    dns::label_or_empty(text)
}

/// A filter for the log from a level, a list of them by module, or what Go's zap takes: numbers from 1 on are ever finer debug levels.
fn log_filter(text: &str) -> Result<String, String> {
    let filter = match text.trim() {
        "" => "info",
        "panic" | "dpanic" | "fatal" => "error",
        "1" => "debug",
        number if number.parse::<u32>().is_ok_and(|number| number > 1) => "trace",
        filter => filter,
    };
    // A word that is no level would be taken for a module, and everything else would not be logged.
    let is_level = |part: &str| !part.is_empty() && part.parse::<LevelFilter>().is_ok();
    let understood = filter.split(',').all(|part| part.contains(['=', '[']) || is_level(part.trim()));
    if !understood || EnvFilter::try_new(filter).is_err() {
        return Err("write error, warn, info, debug or trace, or a list such as info,llmscaler_signals=debug".to_owned());
    }
    Ok(filter.to_owned())
}

/// What the libraries log of failures that the operator tells of itself, in fewer words. A filter by the same name goes before this.
const ECHOES: &str = "kube_client::client::builder=off,kube_runtime::watcher=error";

/// The filter without what would be told twice.
fn without_echoes(filter: &str) -> String {
    format!("{ECHOES},{filter}")
}

/// Runs until it is told to end.
pub fn run_operator(arguments: &OperatorArguments) -> Result<(), Failure> {
    each_apart(&[
        ("--metrics-bind-address", arguments.metrics_bind_address),
        ("--health-probe-bind-address", arguments.health_probe_bind_address),
        ("--dashboard-bind-address", arguments.dashboard_bind_address),
        ("--external-metrics-bind-address", arguments.external_metrics_bind_address),
    ])
    .map_err(Failure::Arguments)?;
    start_logging(arguments)?;
    // Once for the process, before the first connection. It fails only when there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| Failure::Operator(error.to_string()))?;
    runtime.block_on(async {
        let mut config = inferred().await.map_err(|why| {
            Failure::Operator(format!("no API server to talk to: {why}; run in a pod with a service account, or set KUBECONFIG"))
        })?;
        check(&config).map_err(Failure::Operator)?;
        // A first list that is never answered would keep its watch waiting for ever.
        config.read_timeout = Some(llmscaler_operator::API_SILENCE);
        config.reset_reader_on_write = true;
        let client = Client::try_from(config)
            .map_err(|error| Failure::Operator(format!("the client for the API server cannot be built: {error}")))?;
        run(client, options(arguments).await?, shutdown()?).await.map_err(|error| Failure::Operator(error.to_string()))
    })
}

async fn options(arguments: &OperatorArguments) -> Result<Options, Failure> {
    let file = |name: &String| arguments.metrics_cert_path.as_ref().map(|folder| folder.join(name));
    let cert = file(&arguments.metrics_cert_name).zip(file(&arguments.metrics_cert_key)).map(|(cert, key)| CertFiles { cert, key });
    let metrics = arguments.metrics_bind_address.0.map(|addr| MetricsOptions {
        addr,
        secure: arguments.metrics_secure,
        cert,
        http2: arguments.enable_http2,
    });
    let leader_election = if arguments.leader_elect { Some(leader_election(arguments)?) } else { None };
    let clock = Clock::start();
    let dashboard = match arguments.dashboard_bind_address.0 {
        Some(addr) => {
            let dashboard = Dashboard::bind(addr, arguments.dashboard_hosts.clone(), clock).await;
            Some(dashboard.map_err(|error| Failure::Operator(error.to_string()))?)
        }
        None => None,
    };
    let health = arguments.health_probe_bind_address.0;
    let namespace = arguments.watch_namespace.clone().filter(|namespace| !namespace.is_empty());
    let external_metrics = external_metrics(arguments)?;
    Ok(Options { health, metrics, dashboard, external_metrics, namespace, leader_election, clock })
}

/// A namespace that was given, or that of the pod; `None` outside a cluster.
fn own_namespace(given: Option<&String>) -> Option<String> {
    let given = given.filter(|namespace| !namespace.is_empty()).cloned();
    let namespace = given.or_else(|| std::fs::read_to_string(NAMESPACE_FILE).ok());
    namespace.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn external_metrics(arguments: &OperatorArguments) -> Result<Option<ExternalMetricsOptions>, Failure> {
    let Some(addr) = arguments.external_metrics_bind_address.0 else { return Ok(None) };
    let lacks =
        |flag: &str| Failure::Arguments(format!("--external-metrics-bind-address needs {flag}, by which the API server reaches it"));
    let name = arguments.external_metrics_service_name.clone().ok_or_else(|| lacks("--external-metrics-service-name"))?;
    let namespace = own_namespace(arguments.external_metrics_service_namespace.as_ref());
    let namespace = namespace.ok_or_else(|| lacks("--external-metrics-service-namespace outside a cluster"))?;
    let service = ServiceRef { namespace, name, port: arguments.external_metrics_service_port };
    Ok(Some(ExternalMetricsOptions { addr, service, cert: arguments.external_metrics_cert_path.clone() }))
}

fn leader_election(arguments: &OperatorArguments) -> Result<LeaderElection, Failure> {
    let Some(namespace) = own_namespace(arguments.leader_election_namespace.as_ref()) else {
        return Err(Failure::Arguments("--leader-elect outside a cluster needs --leader-election-namespace".to_owned()));
    };
    // A pod's host name is its own name, and for people. Pods may share one, and all of them are process 1, so chance tells them apart:
    // whoever finds its own identity in the lease acts.
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let chance = RandomState::new().build_hasher().finish();
    let identity = format!("{}_{chance:016x}_{}", host.trim(), std::process::id());
    Ok(LeaderElection { namespace, name: LEASE.to_owned(), identity })
}

fn start_logging(arguments: &OperatorArguments) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(without_echoes(&arguments.zap_log_level))
        .map_err(|error| Failure::Arguments(format!("--zap-log-level: {error}")))?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    match arguments.zap_encoder {
        Encoder::Console => log.init(),
        Encoder::Json => log.json().flatten_event(true).init(),
    }
    Ok(())
}

/// Cancelled by the signals that ask a process to end.
pub fn shutdown() -> Result<CancellationToken, Failure> {
    let token = CancellationToken::new();
    let hangup = (!hangups_are_ignored()).then(SignalKind::hangup);
    for kind in [SignalKind::terminate(), SignalKind::interrupt()].into_iter().chain(hangup) {
        let mut signal = signal(kind).map_err(|error| Failure::Operator(error.to_string()))?;
        let token = token.clone();
        tokio::spawn(async move {
            signal.recv().await;
            token.cancel();
        });
    }
    Ok(token)
}

/// Whether nohup started this process. It is to go on then when its terminal is closed.
fn hangups_are_ignored() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores_hangups(&status))
}

/// The same, by the status of the process. Hangup is the first of the signals, which are bits of a hexadecimal number.
fn ignores_hangups(status: &str) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).is_some_and(|bits| bits & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_operator_tells_itself_is_not_logged_twice_unless_it_is_asked_for() {
        let filter = |text: &str| EnvFilter::try_new(without_echoes(text)).unwrap().to_string();
        let debug = filter("debug");
        let mut directives: Vec<_> = debug.split(',').collect();
        directives.sort_unstable();
        assert_eq!(directives, ["debug", "kube_client::client::builder=off", "kube_runtime::watcher=error"]);
        let asked = filter("info,kube_client::client::builder=debug");
        assert!(asked.contains("builder=debug") && !asked.contains("builder=off"), "{asked}");
    }

    #[test]
    fn what_nohup_started_is_known_by_the_signals_that_it_ignores() {
        let status =
            |ignored: &str| format!("Name:\tllmscaler\nSigBlk:\t0000000000000001\nSigIgn:\t{ignored}\nSigCgt:\t0000000000000001\n");
        assert!(ignores_hangups(&status("0000000000001001")));
        assert!(!ignores_hangups(&status("0000000000001000")) && !ignores_hangups("Name:\tllmscaler\n"));
    }

    #[test]
    fn one_namespace_is_watched_or_all() {
        for text in ["serving", ""] {
            assert_eq!(watched(text), Ok(text.to_owned()));
        }
        assert!(watched("a,b").unwrap_err().contains("run one operator for each"));
        for text in ["a/b", " ", "*"] {
            assert!(watched(text).unwrap_err().contains("1 to 63 characters"), "{text:?}");
        }
    }

    #[test]
    fn log_levels_as_go_writes_them_and_no_word_that_would_silence_the_log() {
        for (text, filter) in [("", "info"), ("warn", "warn"), ("INFO", "INFO"), ("1", "debug"), ("5", "trace"), ("panic", "error")] {
            assert_eq!(log_filter(text), Ok(filter.to_owned()), "{text}");
        }
        assert_eq!(log_filter("info,llmscaler_signals=debug").unwrap(), "info,llmscaler_signals=debug");
        for text in ["foo", "info,hyper", "0.5", "info,", "a=b=c", "-1"] {
            assert!(log_filter(text).unwrap_err().contains("debug or trace"), "{text}");
        }
    }
}
