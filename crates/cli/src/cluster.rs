//! Which cluster a command looks at: the flags of kubectl, and the connection.

use std::error::Error;
use std::io;
use std::iter::successors;
use std::path::PathBuf;
use std::time::Duration;

use axum::http::HeaderValue;
use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use llmscaler_operator::diagnose::{CallError, within};
use secrecy::ExposeSecret;
use tokio::runtime::Builder;

use crate::dns;
use crate::failure::Failure;

/// A cluster that does not answer for so long is not there.
const CONNECT: Duration = Duration::from_secs(5);

/// What every pod has in its environment.
const POD: &str = "KUBERNETES_SERVICE_HOST";

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
    #[arg(short, long, value_name = "NAMESPACE", value_parser = dns::label, conflicts_with = "all_namespaces")]
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
    /// The namespace, where one is given.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Whether every namespace was asked for.
    pub fn everywhere(&self) -> bool {
        self.all_namespaces
    }

    /// Connects, and makes sure that it is a Kubernetes API that answers: to another server everything would seem not to be installed.
    pub async fn connect(&self) -> Result<Cluster, Failure> {
        // Once for the process, before the first connection. It fails only when there is one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut config = self.config().await.map_err(|why| {
            Failure::Cluster(format!("no cluster to look at: {why}; name one with --kubeconfig and --context, or set KUBECONFIG"))
        })?;
        check(&config).map_err(Failure::Cluster)?;
        let address = config.cluster_url.to_string();
        config.connect_timeout = Some(CONNECT);
        // Whoever waits at a terminal wants to see a failure, not to wait until it is over.
        config.default_retry = false;
        let namespace = if self.all_namespaces { None } else { Some(self.namespace_in(&config)?) };
        let client = Client::try_from(config)
            .map_err(|error| Failure::Cluster(format!("the client for the API server cannot be built: {error}; check the kubeconfig")))?;
        check_api(&client, &address).await?;
        Ok(Cluster { client, namespace })
    }

    /// The namespace that is given, or that of the context.
    fn namespace_in(&self, config: &Config) -> Result<String, Failure> {
        if let Some(given) = &self.namespace {
            return Ok(given.clone());
        }
        dns::label(&config.default_namespace).map_err(|why| {
            let of_context = &config.default_namespace;
            Failure::Cluster(format!("the namespace of the context is {of_context:?}: {why}; correct the kubeconfig, or name one with -n"))
        })
    }

    async fn config(&self) -> Result<Config, String> {
        if self.kubeconfig.is_none() && self.context.is_none() {
            return inferred().await;
        }
        let file = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        Config::from_custom_kubeconfig(file.map_err(|error| error.to_string())?, &options).await.map_err(|error| error.to_string())
    }
}

/// The connection that the environment has: that of the kubeconfig, or that of the pod.
///
/// # Errors
/// There is neither. The text is about the one that was to be expected.
pub async fn inferred() -> Result<Config, String> {
    Config::infer().await.map_err(|error| {
        let in_pod = std::env::var_os(POD).is_some();
        // In words it begins with what a pod lacks, which means nothing to whoever is at a terminal.
        error.source().filter(|_| !in_pod).map_or_else(|| error.to_string(), ToString::to_string)
    })
}

/// Whether requests can be sent to the server of this connection: the client would panic.
///
/// # Errors
/// The address has no scheme, no host, or another scheme than that of an API server; or the token cannot be sent.
pub fn check(config: &Config) -> Result<(), String> {
    let token = config.auth_info.token.as_ref().map(|token| HeaderValue::from_str(token.expose_secret()));
    if let Some(Err(_)) = token {
        return Err("users[].user.token in the kubeconfig has a line break or another character that no HTTP header can have; write the \
                    token again, on one line and without anything around it"
            .to_owned());
    }
    let address = &config.cluster_url;
    if matches!(address.scheme_str(), Some("https" | "http")) && address.authority().is_some() {
        return Ok(());
    }
    let host = address.authority().map_or("HOST:PORT", |authority| authority.as_str());
    Err(format!("the server of the cluster in the kubeconfig is {address}, which is no address of an API server; write https://{host}"))
}

/// Asks for the version, which every API server tells. One that only refuses to is told of by what is asked of it next.
async fn check_api(client: &Client, address: &str) -> Result<(), Failure> {
    let other = |said: &str| {
        Failure::Cluster(format!("{address} is no Kubernetes API: asked for /version, it {said}; check the server in the kubeconfig"))
    };
    match within(client.apiserver_version()).await {
        // Fields that are missing are taken for empty.
        Ok(version) if version.git_version.is_empty() => Err(other("answers with something else")),
        Ok(_) => Ok(()),
        Err(CallError::Api(kube::Error::Api(status))) if matches!(status.code, 401 | 403 | 429 | 500..) => Ok(()),
        Err(CallError::Api(kube::Error::Api(status))) if status.message.contains("HTTP request to an HTTPS server") => {
            Err(Failure::Cluster(format!("{address} speaks HTTPS only; write https:// for the server in the kubeconfig")))
        }
        // An error in a form that is not that of Kubernetes has no code, whatever it has besides.
        Err(CallError::Api(kube::Error::Api(status))) if status.code == 0 => Err(other("answers with an error in a form of its own")),
        Err(CallError::Api(kube::Error::Api(status))) => Err(other(&format!("answers with {}", status.code))),
        Err(CallError::Api(kube::Error::SerdeError(_) | kube::Error::FromUtf8(_))) => Err(other("answers with something else")),
        Err(error) => Err(Failure::Cluster(unreached(address, &error))),
    }
}

/// Why no answer came from this address.
fn unreached(address: &str, error: &CallError) -> String {
    let causes = || successors(Some(error as &(dyn Error + 'static)), |&error| cause(error));
    if causes().filter_map(<dyn Error>::downcast_ref).any(|error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused) {
        return format!(
            "nothing listens at {address}: the connection was refused; check the server in the kubeconfig, and whether it runs"
        );
    }
    let in_clear = rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType);
    if causes().any(|error| error.downcast_ref() == Some(&in_clear)) {
        return format!("{address} speaks plain HTTP, and not TLS; check the scheme and the port of the server in the kubeconfig");
    }
    format!("{address} could not be asked: {error}; check the server and the user in the kubeconfig")
}

/// What caused an error. An I/O error skips what it is made of when it is asked for its source.
fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let within = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    within.map(|inner| inner as &(dyn Error + 'static)).or_else(|| error.source())
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        let check = match error {
            CallError::Api(kube::Error::Api(_)) => "the kubeconfig and what you may do there",
            _ => "whether it still runs and can be reached",
        };
        Self::Cluster(format!("the API server could not be asked: {error}; check {check}"))
    }
}

/// Runs a command that talks to a cluster.
pub fn block_on<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(|error| Failure::Cluster(error.to_string()))?.block_on(command)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use axum::Router;
    use axum::http::StatusCode;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_server_that_is_no_kubernetes_api_is_told_from_one_that_refuses() {
        let version = r#"{"major":"1","minor":"35","gitVersion":"v1.35.0","gitCommit":"","gitTreeState":"","buildDate":"","goVersion":"",
            "compiler":"","platform":""}"#;
        let refusal = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"no","code":403}"#;
        for (code, body, said) in [
            (200, version, None),
            (403, refusal, None),
            (503, "try later", None),
            (404, "404 page not found", Some("answers with 404")),
            (405, "", Some("answers with 405")),
            (404, r#"{"detail":"Not Found"}"#, Some("answers with an error in a form of its own")),
            (200, "<html>It works!</html>", Some("answers with something else")),
            (200, "{}", Some("answers with something else")),
        ] {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let address = format!("http://{}/", listener.local_addr().unwrap());
            let status = StatusCode::from_u16(code).unwrap();
            let server = tokio::spawn(async move { axum::serve(listener, Router::new().fallback(async move || (status, body))).await });
            let mut config = Config::new(address.parse().unwrap());
            config.default_retry = false;
            let checked = check_api(&Client::try_from(config).unwrap(), &address).await.map_err(|failure| failure.to_string());
            let expected = said
                .map(|said| format!("{address} is no Kubernetes API: asked for /version, it {said}; check the server in the kubeconfig"));
            assert_eq!(checked.err(), expected, "{code} {body}");
            server.abort();
        }
    }

    /// What is said of an address at which there is no Kubernetes API.
    async fn refusal(address: &str) -> String {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut config = Config::new(address.parse().unwrap());
        config.default_retry = false;
        config.accept_invalid_certs = true;
        check_api(&Client::try_from(config).unwrap(), address).await.unwrap_err().to_string()
    }

    #[tokio::test]
    async fn where_nothing_answers_the_address_is_told_and_nothing_of_rights() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let clear = Router::new().fallback(async || (StatusCode::BAD_REQUEST, "Client sent an HTTP request to an HTTPS server.\n"));
        let server = tokio::spawn(async move { axum::serve(listener, clear).await });
        let secure = refusal(&format!("http://127.0.0.1:{port}/")).await;
        assert!(secure.starts_with(&format!("http://127.0.0.1:{port}/ speaks HTTPS only; write https://")), "{secure}");
        let clear = refusal(&format!("https://127.0.0.1:{port}/")).await;
        assert!(clear.starts_with(&format!("https://127.0.0.1:{port}/ speaks plain HTTP, and not TLS")), "{clear}");
        server.abort();
        let _ = server.await;
        let gone = refusal(&format!("http://127.0.0.1:{port}/")).await;
        assert!(gone.starts_with(&format!("nothing listens at http://127.0.0.1:{port}/: the connection was refused")), "{gone}");
        let unknown = refusal("http://llmscaler.invalid/").await;
        assert!(unknown.starts_with("http://llmscaler.invalid/ could not be asked: "), "{unknown}");
        for told in [secure, clear, gone, unknown] {
            assert!(told.contains("server") && !told.contains("you may do"), "{told}");
        }
    }

    #[test]
    fn a_token_that_no_header_can_have_is_refused_and_not_shown() {
        let with_token = |token: &str| {
            let mut config = Config::new("https://127.0.0.1:6443".parse().unwrap());
            config.auth_info.token = Some(token.to_owned().into());
            check(&config)
        };
        assert_eq!(with_token("c2VjcmV0.x_y-z"), Ok(()));
        for token in ["c2VjcmV0\n", "c2Vj\ncmV0", "c2VjcmV0\u{7f}"] {
            let why = with_token(token).unwrap_err();
            assert!(why.contains("users[].user.token") && !why.contains("c2Vj"), "{why}");
        }
    }

    #[test]
    fn the_namespace_of_a_context_is_one_name() {
        let mut config = Config::new("https://127.0.0.1:6443".parse().unwrap());
        let asked = |namespace: Option<&str>, config: &Config| {
            let namespace = namespace.map(str::to_owned);
            let arguments = ClusterArguments { kubeconfig: None, context: None, namespace, all_namespaces: false };
            arguments.namespace_in(config).map_err(|failure| failure.to_string())
        };
        assert_eq!(asked(None, &config).as_deref(), Ok("default"));
        config.default_namespace = "a/b".to_owned();
        assert!(asked(None, &config).unwrap_err().contains(r#"the namespace of the context is "a/b""#));
        assert_eq!(asked(Some("serving"), &config).as_deref(), Ok("serving"));
    }

    #[test]
    fn an_address_to_which_nothing_can_be_sent_is_refused_with_one_that_would_do() {
        let checked = |address: &str| check(&Config::new(address.parse().unwrap()));
        for address in ["https://127.0.0.1:6443", "http://localhost:8080/clusters/a", "https://api.example.com/"] {
            assert_eq!(checked(address), Ok(()), "{address}");
        }
        for (address, instead) in [
            ("localhost:6443", "https://localhost:6443"),
            ("notaurl", "https://notaurl"),
            ("ftp://api:1/x", "https://api:1"),
            ("/api", "https://HOST"),
        ] {
            let why = checked(address).unwrap_err();
            assert!(why.contains(&format!(" is {address}, ")) && why.contains(&format!("write {instead}")), "{why}");
        }
    }
}
