//! The command lines of the four servers, and the order in which they start.

use crate::certificates::Certificates;
use crate::kubeconfig;
use crate::process::Process;
use crate::run_folder::RunFolder;
use anyhow::{Context as _, Result};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Generous, because the machine may be compiling at the same time.
const START: Duration = Duration::from_secs(90);

/// What the operator's targets, its scale-downs and its generated HPAs need; the rest would only cost memory.
const CONTROLLERS: [&str; 9] = [
    "clusterrole-aggregation-controller",
    "deployment-controller",
    "endpoints-controller",
    "endpointslice-controller",
    "garbage-collector-controller",
    "horizontal-pod-autoscaler-controller",
    "namespace-controller",
    "replicaset-controller",
    "statefulset-controller",
];

/// The running servers and where they listen.
#[derive(Debug)]
pub(crate) struct Servers {
    pub(crate) api_url: String,
    pub(crate) prometheus_url: String,
    _processes: [Process; 4],
}

/// Starts all servers on free ports and waits until each of them is ready.
///
/// # Errors
/// When a server ends or is not ready in time, with the end of its log.
pub(crate) async fn start(bin: &Path, run: &RunFolder, certificates: &Certificates, prometheus_config: &Path) -> Result<Servers> {
    let [store, peers, api, controllers, prometheus] = free_ports()?;
    let api_url = format!("https://127.0.0.1:{api}");
    let prometheus_url = format!("http://127.0.0.1:{prometheus}");
    let client = client(certificates)?;
    let spawn = |name: &str, arguments: Vec<String>| -> Result<Process> {
        let mut command = Command::new(bin.join(name));
        Process::spawn(name, command.args(arguments), &run.logs().join(format!("{name}.log")))
            .with_context(|| format!("cannot start {name}"))
    };

    let etcd = spawn("etcd", etcd(run.data(), store, peers))?;
    let metrics = spawn("prometheus", prometheus_arguments(run.data(), prometheus, prometheus_config))?;
    etcd.ready(&client, &format!("http://127.0.0.1:{store}/readyz"), START).await?;
    let server = spawn("kube-apiserver", api_server(run.data(), certificates, store, api)?)?;
    server.ready(&client, &format!("{api_url}/readyz"), START).await?;
    let manager = spawn("kube-controller-manager", controller_manager(run.data(), certificates, &api_url, controllers)?)?;
    manager.ready(&client, &format!("https://127.0.0.1:{controllers}/healthz"), START).await?;
    metrics.ready(&client, &format!("{prometheus_url}/-/ready"), START).await?;
    Ok(Servers { api_url, prometheus_url, _processes: [manager, server, metrics, etcd] })
}

/// Ports that were free a moment ago. All are held until the last is known, so that they differ.
fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let listeners: Vec<TcpListener> = (0..N).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
    let mut ports = [0; N];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}

/// A client that trusts the run's authority and speaks as the administrator.
fn client(certificates: &Certificates) -> Result<reqwest::Client> {
    let authority = reqwest::Certificate::from_der(&certificates.authority_der)?;
    let bearer = format!("Bearer {}", kubeconfig::ADMIN_TOKEN).parse()?;
    Ok(reqwest::Client::builder()
        .tls_certs_only([authority])
        .default_headers([(reqwest::header::AUTHORIZATION, bearer)].into_iter().collect())
        .build()?)
}

fn etcd(data: &Path, store: u16, peers: u16) -> Vec<String> {
    let store = format!("http://127.0.0.1:{store}");
    let peers = format!("http://127.0.0.1:{peers}");
    vec![
        format!("--data-dir={}", data.join("etcd").display()),
        format!("--listen-client-urls={store}"),
        format!("--advertise-client-urls={store}"),
        format!("--listen-peer-urls={peers}"),
        format!("--initial-advertise-peer-urls={peers}"),
        format!("--initial-cluster=default={peers}"),
        "--log-level=warn".into(),
        // The data is thrown away with the run: waiting for the disk buys nothing.
        "--unsafe-no-fsync".into(),
    ]
}

fn api_server(data: &Path, certificates: &Certificates, store: u16, port: u16) -> Result<Vec<String>> {
    let tokens = data.join("tokens.csv");
    std::fs::write(&tokens, kubeconfig::token_file())?;
    let path = |path: &Path| path.display().to_string();
    Ok(vec![
        format!("--etcd-servers=http://127.0.0.1:{store}"),
        format!("--secure-port={port}"),
        "--bind-address=127.0.0.1".into(),
        // Loopback cannot be advertised; nothing ever connects to this one (a documentation address).
        "--advertise-address=192.0.2.1".into(),
        "--endpoint-reconciler-type=none".into(),
        "--external-hostname=localhost".into(),
        format!("--cert-dir={}", path(data)),
        format!("--tls-cert-file={}", path(&certificates.serving)),
        format!("--tls-private-key-file={}", path(&certificates.serving_key)),
        format!("--client-ca-file={}", path(&certificates.authority)),
        format!("--token-auth-file={}", path(&tokens)),
        "--authorization-mode=RBAC".into(),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        format!("--service-account-key-file={}", path(&certificates.accounts_public)),
        format!("--service-account-signing-key-file={}", path(&certificates.accounts_key)),
        "--service-cluster-ip-range=10.0.0.0/20".into(),
        // Pods would wait for a default account that no controller makes here.
        "--disable-admission-plugins=ServiceAccount".into(),
        format!("--requestheader-client-ca-file={}", path(&certificates.front_proxy_authority)),
        "--requestheader-allowed-names=front-proxy-client".into(),
        "--requestheader-username-headers=X-Remote-User".into(),
        "--requestheader-group-headers=X-Remote-Group".into(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".into(),
        format!("--proxy-client-cert-file={}", path(&certificates.front_proxy)),
        format!("--proxy-client-key-file={}", path(&certificates.front_proxy_key)),
    ])
}

fn controller_manager(data: &Path, certificates: &Certificates, api_url: &str, port: u16) -> Result<Vec<String>> {
    let kubeconfig = data.join("controller-manager.kubeconfig");
    std::fs::write(&kubeconfig, kubeconfig::file(api_url, &certificates.authority, kubeconfig::ADMIN_TOKEN))?;
    Ok(vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--controllers={}", CONTROLLERS.join(",")),
        "--leader-elect=false".into(),
        "--bind-address=127.0.0.1".into(),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", certificates.serving.display()),
        format!("--tls-private-key-file={}", certificates.serving_key.display()),
        // Many tests at once must not queue behind the client's own limit.
        "--kube-api-qps=500".into(),
        "--kube-api-burst=1000".into(),
        "--horizontal-pod-autoscaler-sync-period=2s".into(),
    ])
}

fn prometheus_arguments(data: &Path, port: u16, config: &Path) -> Vec<String> {
    vec![
        format!("--config.file={}", config.display()),
        format!("--storage.tsdb.path={}", data.join("tsdb").display()),
        format!("--web.listen-address=127.0.0.1:{port}"),
        "--log.level=warn".into(),
    ]
}
