use std::{
    convert::Infallible,
    fs,
    net::Ipv4Addr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use kube::client::Body;
use reqwest::{Version, tls::TlsInfo};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
};
use tower::service_fn;

use super::*;

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// An API server that knows two tokens and counts the questions.
#[derive(Clone, Default)]
struct ApiServer {
    questions: Arc<AtomicUsize>,
    broken: bool,
}

impl ApiServer {
    fn client(&self) -> Client {
        let server = self.clone();
        Client::new(service_fn(move |request| server.clone().answer(request)), "default")
    }

    async fn answer(self, request: axum::http::Request<Body>) -> Result<axum::http::Response<Body>, Infallible> {
        self.questions.fetch_add(1, Ordering::Relaxed);
        let (head, body) = request.into_parts();
        assert_eq!(head.method, "POST");
        let mut review: Value = serde_json::from_slice(&body.collect_bytes().await.unwrap()).unwrap();
        let mut code = 201;
        review["status"] = match head.uri.path() {
            _ if self.broken => {
                code = 403;
                review =
                    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "message": "no", "code": 403});
                json!("Failure")
            }
            "/apis/authentication.k8s.io/v1/tokenreviews" => match review["spec"]["token"].as_str().unwrap() {
                "prometheus" | "stranger" => {
                    let user = review["spec"]["token"].clone();
                    json!({"authenticated": true, "user": {"username": user, "uid": "7", "groups": ["g"], "extra": {"e": ["1"]}}})
                }
                "revoked" => json!({"authenticated": false, "user": {"username": "prometheus"}}),
                _ => json!({"authenticated": false, "error": "no such token"}),
            },
            "/apis/authorization.k8s.io/v1/subjectaccessreviews" => {
                let spec = &review["spec"];
                assert_eq!(spec["nonResourceAttributes"], json!({"path": "/metrics", "verb": "get"}));
                assert_eq!((&spec["uid"], &spec["groups"], &spec["extra"]), (&json!("7"), &json!(["g"]), &json!({"e": ["1"]})));
                json!({"allowed": spec["user"] == "prometheus"})
            }
            path => panic!("{path}"),
        };
        let body = Body::from(serde_json::to_vec(&review).unwrap());
        Ok(axum::http::Response::builder().status(code).body(body).unwrap())
    }
}

struct Running {
    addr: SocketAddr,
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), ServeError>>,
}

impl Running {
    fn start(bound: Bound) -> Self {
        let (addr, shutdown) = (bound.addr(), CancellationToken::new());
        Self { addr, task: tokio::spawn(bound.run(shutdown.clone())), shutdown }
    }

    async fn metrics(secure: bool, cert: Option<CertFiles>, http2: bool, api: &ApiServer) -> Self {
        let options = MetricsOptions { addr: LOOPBACK, secure, cert, http2 };
        Self::start(bind_metrics(options, Metrics::new(), api.client()).await.unwrap())
    }

    async fn scrape(&self, token: Option<&str>) -> reqwest::Response {
        let mut request = client().get(format!("https://{}/metrics", self.addr));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        request.send().await.unwrap()
    }

    async fn stop(self) {
        self.shutdown.cancel();
        timeout(Duration::from_secs(5), self.task).await.unwrap().unwrap().unwrap();
    }
}

fn client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().tls_danger_accept_invalid_certs(true).tls_info(true).build().unwrap()
}

#[tokio::test]
async fn probes_tell_what_is_wrong() {
    let health = Health::new();
    let server = Running::start(bind_health(LOOPBACK, health.clone()).await.unwrap());
    let get = async |path: &str| {
        let answer = client().get(format!("http://{}{path}", server.addr)).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    let watch = health.part("watch LLMScalers", Duration::from_secs(60));
    assert_eq!(get("/healthz").await, (200, "ok\n".to_owned()));
    assert_eq!(get("/readyz").await, (503, "watch LLMScalers is not ready yet\n".to_owned()));
    watch.ready();
    assert_eq!(get("/readyz").await, (200, "ok\n".to_owned()));
    drop(watch);
    assert_eq!(get("/healthz").await, (503, "watch LLMScalers stopped 0 s ago\n".to_owned()));
    assert_eq!(get("/metrics").await.0, 404);
    server.stop().await;
}

#[tokio::test]
async fn plain_metrics_are_for_everybody() {
    let api = ApiServer::default();
    let server = Running::metrics(false, None, false, &api).await;
    let answer = client().get(format!("http://{}/metrics", server.addr)).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()[CONTENT_TYPE], Metrics::CONTENT_TYPE);
    assert!(answer.text().await.unwrap().contains("llmscaler_build_info"));
    assert_eq!(api.questions.load(Ordering::Relaxed), 0);
    server.stop().await;
}

#[tokio::test]
async fn secure_metrics_are_for_whom_the_cluster_lets() {
    let api = ApiServer::default();
    let server = Running::metrics(true, None, false, &api).await;

    let answer = server.scrape(None).await;
    assert_eq!(answer.status(), 401);
    assert_eq!(answer.headers()["www-authenticate"], "Bearer");
    assert!(answer.text().await.unwrap().contains("Authorization: Bearer"));
    assert_eq!(api.questions.load(Ordering::Relaxed), 0);

    // The second time the answer is remembered, yes and no alike.
    for _ in 0..2 {
        let answer = server.scrape(Some("guess")).await;
        assert_eq!((answer.status().as_u16(), api.questions.load(Ordering::Relaxed)), (401, 1));
        let why = answer.text().await.unwrap();
        assert!(why.contains("not valid") && !why.contains("no such token"), "{why}");
    }
    assert_eq!(server.scrape(Some("revoked")).await.status(), 401);
    for _ in 0..2 {
        let answer = server.scrape(Some("stranger")).await;
        assert_eq!((answer.status().as_u16(), api.questions.load(Ordering::Relaxed)), (403, 4));
        assert!(answer.text().await.unwrap().starts_with("stranger may not read the metrics"));
    }
    for _ in 0..2 {
        let answer = server.scrape(Some("prometheus")).await;
        assert_eq!((answer.status().as_u16(), api.questions.load(Ordering::Relaxed)), (200, 6));
        assert_eq!(answer.version(), Version::HTTP_11);
        assert!(answer.text().await.unwrap().contains("llmscaler_build_info"));
    }
    server.stop().await;
}

#[tokio::test]
async fn an_answer_that_could_not_be_had_is_a_refusal_and_is_not_remembered() {
    let api = ApiServer { broken: true, ..ApiServer::default() };
    let server = Running::metrics(true, None, false, &api).await;
    for questions in 1..=2 {
        let answer = server.scrape(Some("prometheus")).await;
        assert_eq!((answer.status().as_u16(), api.questions.load(Ordering::Relaxed)), (503, questions));
        assert!(answer.text().await.unwrap().contains("the operator's log"));
    }
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn answers_are_remembered_for_a_while_and_up_to_a_number() {
    let api = ApiServer::default();
    let gate = Gate::new(api.client());
    let headers = |token: &str| HeaderMap::from_iter([("authorization".parse().unwrap(), format!("bearer {token}").parse().unwrap())]);
    assert_eq!(gate.admit(&headers("prometheus")).await, Ok(()));
    tokio::time::advance(Duration::from_secs(9)).await;
    assert_eq!(gate.admit(&headers("prometheus")).await, Ok(()));
    assert_eq!(api.questions.load(Ordering::Relaxed), 2);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(gate.admit(&headers("prometheus")).await, Ok(()));
    assert_eq!(api.questions.load(Ordering::Relaxed), 4);
    for i in 0..1000 {
        assert!(gate.admit(&headers(&i.to_string())).await.is_err());
    }
    assert!(gate.remembered() <= 256);
    for scheme in ["", "prometheus", "Basic prometheus", "Bearer ", "Bearer  "] {
        let headers = HeaderMap::from_iter([("authorization".parse().unwrap(), scheme.parse().unwrap())]);
        assert_eq!(gate.admit(&headers).await, Err(gate::Refusal::NoToken), "{scheme}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_answer_is_given_up() {
    let client = Client::new(
        service_fn(|_: axum::http::Request<Body>| std::future::pending::<Result<axum::http::Response<Body>, Infallible>>()),
        "default",
    );
    let gate = Gate::new(client);
    let headers = HeaderMap::from_iter([("authorization".parse().unwrap(), "Bearer prometheus".parse().unwrap())]);
    let start = tokio::time::Instant::now();
    assert_eq!(gate.admit(&headers).await, Err(gate::Refusal::CannotTell));
    assert!(start.elapsed() < Duration::from_secs(4));
}

#[tokio::test]
async fn http2_is_spoken_when_it_is_switched_on() {
    let server = Running::metrics(true, None, true, &ApiServer::default()).await;
    assert_eq!(server.scrape(Some("prometheus")).await.version(), Version::HTTP_2);
    server.stop().await;
}

/// Lays a pair out as the kubelet does: the files link into `..data`, which links into a folder of its own, and is swapped.
fn mount(folder: &Path, generation: &str) -> rcgen::CertifiedKey<rcgen::KeyPair> {
    let pair = rcgen::generate_simple_self_signed(["metrics".to_owned()]).unwrap();
    let data = folder.join(generation);
    fs::create_dir(&data).unwrap();
    fs::write(data.join("tls.crt"), pair.cert.pem()).unwrap();
    fs::write(data.join("tls.key"), pair.signing_key.serialize_pem()).unwrap();
    std::os::unix::fs::symlink(generation, folder.join("..new")).unwrap();
    fs::rename(folder.join("..new"), folder.join("..data")).unwrap();
    pair
}

#[tokio::test]
async fn a_given_certificate_is_served_and_followed() {
    let folder = tempfile::tempdir().unwrap();
    let first = mount(folder.path(), "1");
    for name in ["tls.crt", "tls.key"] {
        std::os::unix::fs::symlink(Path::new("..data").join(name), folder.path().join(name)).unwrap();
    }
    let files = CertFiles { cert: folder.path().join("tls.crt"), key: folder.path().join("tls.key") };
    let server = Running::metrics(true, Some(files), false, &ApiServer::default()).await;
    let served = async || {
        let answer = server.scrape(None).await;
        answer.extensions().get::<TlsInfo>().unwrap().peer_certificate().unwrap().to_vec()
    };
    assert_eq!(served().await, first.cert.der().as_ref());

    let second = mount(folder.path(), "2");
    let followed = async {
        while served().await != second.cert.der().as_ref() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(10), followed).await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn a_port_in_use_says_which_flag_to_change() {
    let bound = bind_health(LOOPBACK, Health::new()).await.unwrap();
    let taken = bound.addr();
    let error = bind_health(taken, Health::new()).await.err().unwrap().to_string();
    assert!(error.contains(&taken.to_string()) && error.ends_with("--health-probe-bind-address"), "{error}");
    let options = MetricsOptions { addr: taken, secure: true, cert: None, http2: false };
    let error = serve_metrics(options, Metrics::new(), ApiServer::default().client(), CancellationToken::new()).await;
    assert!(error.unwrap_err().to_string().ends_with("--metrics-bind-address"));
}

#[tokio::test]
async fn headers_without_end_are_cut_off() {
    let server = Running::start(bind_health(LOOPBACK, Health::new()).await.unwrap());
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\nx: ").await.unwrap();
    let mut answer = Vec::new();
    let (mut reader, mut writer) = stream.split();
    let mut written = 0;
    let endless = async {
        while writer.write_all(&[b'a'; 1024]).await.is_ok() {
            written += 1024;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        std::future::pending::<()>().await;
    };
    let cut_off = async {
        tokio::select! {
            result = reader.read_to_end(&mut answer) => drop(result),
            () = endless => {}
        }
    };
    timeout(Duration::from_secs(10), cut_off).await.unwrap();
    assert!(written < 4 * HEADERS, "{written} bytes were taken");
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    server.stop().await;
}

#[tokio::test]
async fn shutdown_does_not_wait_for_idle_connections() {
    let server = Running::start(bind_health(LOOPBACK, Health::new()).await.unwrap());
    let client = client();
    assert_eq!(client.get(format!("http://{}/healthz", server.addr)).send().await.unwrap().status(), 200);
    let _silent = TcpStream::connect(server.addr).await.unwrap();
    let start = std::time::Instant::now();
    server.stop().await;
    assert!(start.elapsed() < GRACE + Duration::from_secs(1));
}
