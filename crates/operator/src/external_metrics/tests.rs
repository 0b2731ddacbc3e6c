//! The whole server, on loopback, with an API server that is made up.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::fake_api;
use crate::metrics::Metrics;

/// An authority of the aggregator, and the certificate with its key of a client called `name`, in PEM.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    fn client(&self, name: &str) -> reqwest::Client {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let pem = params.signed_by(&key, &self.issuer).unwrap().pem() + &key.serialize_pem();
        let identity = reqwest::Identity::from_pem(pem.as_bytes()).unwrap();
        reqwest::Client::builder().identity(identity).danger_accept_invalid_certs(true).build().unwrap()
    }
}

struct Running {
    addr: SocketAddr,
    metrics: ExternalMetrics,
    /// How often the API server was asked what somebody may read.
    reviews: Arc<AtomicUsize>,
    _shutdown: tokio_util::sync::DropGuard,
}

/// A server that leads, whose aggregator has certificates of `authority` by the name of `front-proxy`.
async fn started(authority: &Authority) -> Running {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let reviews = Arc::new(AtomicUsize::new(0));
    let (asked_for, pem) = (reviews.clone(), authority.pem.clone());
    let client = fake_api::client(move |asked| {
        if asked.path.contains("configmaps/extension-apiserver-authentication") {
            let data = json!({
                "requestheader-client-ca-file": pem,
                "requestheader-allowed-names": r#"["front-proxy"]"#,
                "requestheader-username-headers": r#"["X-Remote-User"]"#,
                "requestheader-group-headers": r#"["X-Remote-Group"]"#,
            });
            return Some((200, json!({"metadata": {}, "data": data})));
        }
        if asked.path.contains("subjectaccessreviews") {
            asked_for.fetch_add(1, Ordering::Relaxed);
            let mut review = asked.body;
            let allowed = review["spec"]["user"] == "hpa" && review["spec"]["resourceAttributes"]["namespace"] == "serving";
            review["status"] = json!({"allowed": allowed});
            return Some((201, review));
        }
        match asked.method.as_str() {
            "GET" => fake_api::refusal(404, "NotFound", "not found"),
            _ => Some((200, asked.body)),
        }
    });
    let service = ServiceRef { namespace: "scaling".into(), name: "llmscaler".into(), port: 443 };
    let options = ExternalMetricsOptions { addr: (Ipv4Addr::LOCALHOST, 0).into(), service, cert: None };
    let bound = bind(options, client, Metrics::new()).await.unwrap();
    let (addr, metrics, shutdown) = (bound.addr(), bound.metrics(), CancellationToken::new());
    metrics.published.lead(true);
    tokio::spawn(bound.run(shutdown.clone()));
    let mut served = metrics.served.clone();
    tokio::time::timeout(Duration::from_secs(20), served.wait_for(Served::is_ours)).await.unwrap().unwrap();
    Running { addr, metrics, reviews, _shutdown: shutdown.drop_guard() }
}

impl Running {
    fn read(&self, value: Result<f64, &str>) {
        let metric = ("llmscaler-pool-queue".to_owned(), value.map(Milli::of).map_err(ToOwned::to_owned));
        let readings = Readings {
            label: "pool".to_owned(),
            metrics: vec![metric],
            at: Timestamp::UNIX_EPOCH,
            until: Instant::now() + Duration::from_secs(60),
        };
        self.metrics.published.put("serving", "pool", readings);
    }

    async fn get(&self, client: &reqwest::Client, headers: &[(&str, &str)], path: &str) -> (u16, Value) {
        let url = format!("https://{}/apis{path}", self.addr);
        let request = headers.iter().fold(client.get(url), |request, (name, value)| request.header(*name, *value));
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }
}

const HPA: &[(&str, &str)] = &[("X-Remote-User", "hpa"), ("X-Remote-Group", "system:authenticated")];
const QUEUE: &str = "/external.metrics.k8s.io/v1beta1/namespaces/serving/llmscaler-pool-queue?labelSelector=scaler%3Dpool";

#[tokio::test]
async fn the_aggregator_reads_on_behalf_of_those_whom_the_cluster_lets() {
    let authority = Authority::new();
    let server = started(&authority).await;
    server.read(Ok(2.5));
    let aggregator = authority.client("front-proxy");
    let (code, list) = server.get(&aggregator, HPA, QUEUE).await;
    let item = json!({"metricName": "llmscaler-pool-queue", "metricLabels": {"scaler": "pool"}, "timestamp": "1970-01-01T00:00:00Z", "value": "2500m"});
    let (kind, version) = ("ExternalMetricValueList", "external.metrics.k8s.io/v1beta1");
    assert_eq!((code, list), (200, json!({"kind": kind, "apiVersion": version, "metadata": {}, "items": [item]})));
    server.get(&aggregator, HPA, QUEUE).await;
    assert_eq!(server.reviews.load(Ordering::Relaxed), 1, "the answer is remembered");

    let elsewhere = QUEUE.replace("serving", "elsewhere");
    let code = async |client: &reqwest::Client, headers, path| server.get(client, headers, path).await.0;
    let masters = &[("X-Remote-User", "system:kube-aggregator"), ("X-Remote-Group", "system:masters")];
    assert_eq!(code(&aggregator, masters, "/external.metrics.k8s.io/v1beta1").await, 200);
    assert_eq!(code(&aggregator, &[("X-Remote-User", "somebody")], QUEUE).await, 403);
    assert_eq!(code(&aggregator, HPA, elsewhere.as_str()).await, 403);
    assert_eq!(code(&aggregator, &[], QUEUE).await, 401, "on nobody's behalf");
    assert_eq!(code(&authority.client("somebody"), masters, QUEUE).await, 401, "another client of that authority");
    let bare = reqwest::Client::builder().danger_accept_invalid_certs(true).build().unwrap();
    assert_eq!(code(&bare, masters, QUEUE).await, 401);
    let forged = Authority::new().client("front-proxy").get(format!("https://{}/apis", server.addr)).send().await;
    assert!(forged.is_err(), "an authority of somebody else's");
}

#[tokio::test]
async fn what_has_no_value_is_an_error() {
    let authority = Authority::new();
    let (server, aggregator) = (started(&authority).await, authority.client("front-proxy"));
    let answer = async |path: &str| {
        let (code, status) = server.get(&aggregator, HPA, path).await;
        (code, status["kind"].clone(), status["message"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(answer(QUEUE).await.0, 404, "before the first sync");
    server.read(Err("connection refused"));
    let (code, kind, message) = answer(QUEUE).await;
    assert_eq!((code, kind), (503, json!("Status")));
    assert!(message.contains("connection refused"), "{message}");
    server.read(Ok(0.0));
    assert_eq!(answer(QUEUE).await.0, 200);
    assert_eq!(answer(&QUEUE.replace("scaler%3Dpool", "a%20b")).await.0, 400);
    server.metrics.published.lead(false);
    assert_eq!(answer(QUEUE).await.0, 503);
}

#[tokio::test]
async fn discovery_is_that_of_an_adapter() {
    let authority = Authority::new();
    let (server, aggregator) = (started(&authority).await, authority.client("front-proxy"));
    let masters = &[("X-Remote-User", "system:kube-aggregator"), ("X-Remote-Group", "system:masters")];
    for (path, kind) in
        [("", "APIGroupList"), ("/external.metrics.k8s.io", "APIGroup"), ("/external.metrics.k8s.io/v1beta1", "APIResourceList")]
    {
        let (code, found) = server.get(&aggregator, masters, path).await;
        assert_eq!((code, &found["kind"]), (200, &json!(kind)), "{path}");
    }
    assert_eq!(server.get(&aggregator, masters, "/other").await.0, 404);
}
