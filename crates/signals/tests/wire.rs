//! The clients against small servers on the loopback interface that misbehave in all the ways the limits are for.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what helps a test may fail it")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use llmscaler_engine::Reading;
use llmscaler_signals::{DecisionClient, Endpoint, PrometheusClient, TlsSettings, Transport};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const ONE: &str = r#"{"status":"success","data":{"result":[{"value":[1,"1"]}]}}"#;
const DECISION: &str = r#"{"apiVersion":"llmscaling.inference.x-k8s.io/v1alpha1","decisions":[{"namespace":"chat","serviceId":"svc","replicas":{"active":3}}]}"#;

/// A request as it arrived; header names in lower case.
#[derive(Clone, Debug)]
struct Asked {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: String,
    connection: usize,
}

impl Asked {
    fn header(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(given, _)| given == name).map(|(_, value)| value.as_str()).collect()
    }
}

enum Does {
    Answer(u16, String),
    Redirect(u16, String),
    /// Never says a word.
    Hang,
    /// Says one byte every 20 ms, without end.
    Trickle,
    /// Announces more than it says, then closes.
    BreakOff,
    /// With this status, says 2 MiB in chunks, without announcing how much.
    Flood(u16),
}

struct Server {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    async fn start(does: impl Fn(&Asked) -> Does + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self { address: listener.local_addr().unwrap(), asked: Arc::default() };
        let (asked, does) = (Arc::clone(&server.asked), Arc::new(does));
        tokio::spawn(async move {
            for connection in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                let (asked, does) = (Arc::clone(&asked), Arc::clone(&does));
                // A client that hangs up is no failure of the server.
                tokio::spawn(async move { serve(stream, connection, &asked, &*does).await.ok() });
            }
        });
        server
    }

    async fn answering(status: u16, body: &'static str) -> Self {
        Self::start(move |_| Does::Answer(status, body.to_owned())).await
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

async fn serve(
    mut stream: TcpStream,
    connection: usize,
    log: &Mutex<Vec<Asked>>,
    does: &(dyn Fn(&Asked) -> Does + Sync),
) -> std::io::Result<()> {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        let head = String::from_utf8(head).unwrap();
        let (line, rest) = head.split_once("\r\n").unwrap();
        let mut line = line.split(' ').map(str::to_owned);
        let headers = rest.lines().filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        let mut asked = Asked {
            method: line.next().unwrap(),
            target: line.next().unwrap(),
            headers: headers.collect(),
            body: String::new(),
            connection,
        };
        let mut body = vec![0; asked.header("content-length").first().map_or(0, |length| length.parse().unwrap())];
        stream.read_exact(&mut body).await?;
        asked.body = String::from_utf8(body).unwrap();
        log.lock().unwrap().push(asked.clone());
        match does(&asked) {
            Does::Answer(status, body) => {
                stream.write_all(format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).await?;
            }
            Does::Redirect(status, location) => {
                stream.write_all(format!("HTTP/1.1 {status} X\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n").as_bytes()).await?;
            }
            Does::Hang => std::future::pending().await,
            Does::Trickle => {
                stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").await?;
                loop {
                    stream.write_all(b" ").await?;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            Does::BreakOff => {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"status\":\"success\"").await?;
                return stream.shutdown().await;
            }
            Does::Flood(status) => {
                stream.write_all(format!("HTTP/1.1 {status} X\r\nTransfer-Encoding: chunked\r\n\r\n").as_bytes()).await?;
                for _ in 0..32 {
                    stream.write_all(format!("10000\r\n{}\r\n", " ".repeat(0x10000)).as_bytes()).await?;
                }
                stream.write_all(b"0\r\n\r\n").await?;
            }
        }
    }
}

fn transport() -> Transport {
    Transport::new(&TlsSettings::default()).unwrap()
}

fn endpoint(address: &str, headers: &[(&str, &str)]) -> Endpoint {
    let headers: BTreeMap<_, _> = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Endpoint::new(transport(), address, &headers).unwrap()
}

fn prometheus(address: &str, headers: &[(&str, &str)]) -> PrometheusClient {
    PrometheusClient::new(endpoint(address, headers))
}

fn decisions(server: &Server) -> DecisionClient {
    DecisionClient::new(endpoint(&server.url(), &[("Authorization", "Bearer t")]))
}

/// The reason, with the server's port made stable.
fn why(reading: Reading) -> String {
    let Reading::Unknown(why) = reading else { panic!("{reading:?}") };
    let mut stable = String::new();
    for (i, part) in why.split("127.0.0.1:").enumerate() {
        let rest = part.trim_start_matches(|c: char| i > 0 && c.is_ascii_digit());
        stable += if i > 0 { "127.0.0.1:PORT" } else { "" };
        stable += rest;
    }
    stable
}

#[tokio::test]
async fn a_query_is_a_get_with_the_query_form_encoded() {
    let server = Server::answering(200, ONE).await;
    let client = prometheus(
        &server.url(),
        &[("Authorization", "Bearer t"), ("X-Scope-OrgID", "a|b"), ("User-Agent", "mine"), ("Accept", "application/json")],
    );
    assert_eq!(client.query_value(r#"sum(rate(x{a="b+c"}[1m])) > 0"#).await, Reading::from_number(1.0));

    let [asked] = &server.asked()[..] else { panic!() };
    assert_eq!((asked.method.as_str(), asked.body.as_str()), ("GET", ""));
    assert_eq!(asked.target, "/api/v1/query?query=sum%28rate%28x%7Ba%3D%22b%2Bc%22%7D%5B1m%5D%29%29+%3E+0");
    assert_eq!(asked.header("authorization"), ["Bearer t"]);
    assert_eq!(asked.header("x-scope-orgid"), ["a|b"]);
    assert_eq!(asked.header("user-agent"), ["mine"]);
    assert_eq!(asked.header("accept"), ["application/json"]);
    assert!(asked.header("accept-encoding").is_empty() && asked.header("content-type").is_empty());
}

#[tokio::test]
async fn our_own_headers_are_few() {
    let server = Server::answering(200, ONE).await;
    prometheus(&server.url(), &[]).query_value("x").await;
    let mut names: Vec<_> = server.asked().remove(0).headers;
    names.sort();
    let agent = concat!("llmscaler/", env!("CARGO_PKG_VERSION"));
    let expected = [("accept", "*/*".to_owned()), ("host", server.address.to_string()), ("user-agent", agent.to_owned())];
    assert_eq!(names, expected.map(|(name, value)| (name.to_owned(), value)));
}

#[tokio::test]
async fn a_long_query_is_a_post_of_a_form() {
    let server = Server::answering(200, ONE).await;
    let client = prometheus(&server.url(), &[("X-Scope-OrgID", "a"), ("Content-Type", "text/plain")]);
    let fits = PrometheusClient::LONGEST_URL - format!("{}/api/v1/query?query=", server.url()).len();
    for length in [fits, fits + 1] {
        assert_eq!(client.query_value(&"x".repeat(length)).await, Reading::from_number(1.0));
    }
    let [get, post] = &server.asked()[..] else { panic!() };
    assert_eq!(get.method, "GET");
    assert_eq!((post.method.as_str(), post.target.as_str()), ("POST", "/api/v1/query"));
    assert_eq!(post.header("content-type"), ["application/x-www-form-urlencoded"]);
    assert_eq!(post.header("x-scope-orgid"), ["a"]);
    assert_eq!(post.body, format!("query={}", "x".repeat(fits + 1)));
}

#[tokio::test]
async fn base_path_and_user_info_of_the_address_are_used() {
    let server = Server::answering(200, ONE).await;
    let address = server.url().replace("http://", "http://user:pass@") + "/prometheus//";
    prometheus(&address, &[]).query_value("x").await;
    prometheus(&address, &[("authorization", "Bearer t")]).query_value("x").await;
    let [basic, bearer] = &server.asked()[..] else { panic!() };
    assert_eq!(basic.target, "/prometheus/api/v1/query?query=x");
    assert_eq!(basic.header("authorization"), ["Basic dXNlcjpwYXNz"]);
    assert_eq!(bearer.header("authorization"), ["Bearer t"]);
}

#[tokio::test]
async fn pods_and_series_come_over_the_wire() {
    let body = r#"{"status":"success","data":{"result":[{"metric":{"pod":"a","namespace":"chat"},"value":[1,"40"]},{"metric":{"pod":"b","namespace":"x"},"value":[1,"2"]}]}}"#;
    let server = Server::answering(200, body).await;
    let client = prometheus(&server.url(), &[]);
    assert_eq!(client.query_pods("kv", "chat").await.unwrap(), BTreeMap::from([("a".to_owned(), 40.0)]));
    assert_eq!(client.query_series("kv").await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_decision_is_asked_for_at_the_path_and_by_service() {
    let server = Server::answering(200, DECISION).await;
    let client = DecisionClient::new(endpoint(&(server.url() + "/"), &[("Authorization", "Bearer t")]));
    for path in ["", "/v2/decisions", "decisions", "/decisions"] {
        assert_eq!(client.decision("svc", Some("chat"), path).await, Reading::from_number(3.0), "{path}");
    }
    assert!(why(client.decision("a b&c", None, "").await).contains("no decision for serviceId \"a b&c\""));
    let targets: Vec<_> = server.asked().into_iter().map(|asked| asked.target).collect();
    assert_eq!(
        targets,
        [
            "/decisions?serviceId=svc",
            "/v2/decisions?serviceId=svc",
            "/decisions?serviceId=svc",
            "/decisions?serviceId=svc",
            "/decisions?serviceId=a+b%26c"
        ]
    );
    assert!(server.asked().iter().all(|asked| asked.method == "GET" && asked.header("authorization") == ["Bearer t"]));
}

#[tokio::test]
async fn without_a_service_id_or_with_a_broken_path_nothing_is_asked() {
    let server = Server::answering(200, DECISION).await;
    let client = decisions(&server);
    assert!(why(client.decision("", None, "").await).contains("customProvider.serviceId is empty"));
    assert!(
        why(client.decision("svc", None, "/decisions?namespace=chat").await)
            .contains("customProvider.path \"/decisions\" has a query string")
    );
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn a_valid_body_under_another_status_decides_nothing() {
    let server = Server::answering(503, DECISION).await;
    let reason = why(decisions(&server).decision("svc", None, "").await);
    assert!(reason.contains("status 503"), "{reason}");
    let server = Server::answering(202, ONE).await;
    assert!(why(prometheus(&server.url(), &[]).query_value("x").await).contains("status 202"));
}

#[tokio::test]
async fn a_deadline_covers_silence_and_trickle() {
    for does in [|| Does::Hang, || Does::Trickle] {
        let server = Server::start(move |_| does()).await;
        let client = PrometheusClient::new(endpoint(&server.url(), &[]).within(Duration::from_millis(300)));
        let started = Instant::now();
        let reason = why(client.query_value("up").await);
        assert!((Duration::from_millis(300)..Duration::from_secs(3)).contains(&started.elapsed()), "{:?}", started.elapsed());
        assert_eq!(
            reason,
            "query `up`: no complete answer from http://127.0.0.1:PORT/api/v1/query within 300ms; check that it is up, that network \
             policies let the operator reach it, and that it is not overloaded"
        );
    }
}

#[tokio::test]
async fn a_deadline_covers_a_chain_of_redirects() {
    let server = Server::start(|_| {
        std::thread::sleep(Duration::from_millis(100));
        Does::Redirect(302, "/again".to_owned())
    })
    .await;
    let client = PrometheusClient::new(endpoint(&server.url(), &[]).within(Duration::from_millis(250)));
    assert!(why(client.query_value("up").await).contains("within 250ms"));
}

#[tokio::test]
async fn bodies_are_capped() {
    let fits = " ".repeat(Transport::LARGEST_BODY - ONE.len()) + ONE;
    let server = Server::start(move |_| Does::Answer(200, fits.clone())).await;
    assert_eq!(prometheus(&server.url(), &[]).query_value("up").await, Reading::from_number(1.0));

    let too_large = " ".repeat(Transport::LARGEST_BODY) + ONE;
    let announced = Server::start(move |_| Does::Answer(200, too_large.clone())).await;
    let unannounced = Server::start(|_| Does::Flood(200)).await;
    for server in [announced, unannounced] {
        assert_eq!(
            why(prometheus(&server.url(), &[]).query_value("up").await),
            "query `up`: the answer from http://127.0.0.1:PORT/api/v1/query is larger than 1048576 bytes; aggregate in the query, so that \
             few series come back"
        );
    }
}

#[tokio::test]
async fn the_body_of_an_error_may_be_endless() {
    let server = Server::start(|_| Does::Flood(502)).await;
    let reason = why(decisions(&server).decision("svc", None, "").await);
    assert!(reason.contains("status 502") && reason.len() < 2048, "{reason}");
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_answer() {
    let server = Server::start(|_| Does::BreakOff).await;
    let reason = why(prometheus(&server.url(), &[]).query_value("up").await);
    assert!(reason.starts_with("query `up`: the answer from http://127.0.0.1:PORT/api/v1/query broke off: "), "{reason}");
    let reason = why(decisions(&server).decision("svc", Some("chat"), "").await);
    assert!(reason.starts_with("decision for serviceId \"svc\" in namespace \"chat\": the answer from "), "{reason}");
}

#[tokio::test]
async fn a_refused_connection_says_what_was_tried_and_keeps_secrets() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let client = prometheus(&format!("http://user:s3cret@{nobody}/prom"), &[("X-Api-Key", "s3cret")]);
    assert_eq!(
        why(client.query_value("up").await),
        "query `up`: cannot connect to http://127.0.0.1:PORT/prom/api/v1/query: Connection refused (os error 111); check its host and port, \
         the Service behind it, and network policies"
    );
    assert!(!format!("{:?}", client.query_number("up").await).contains("s3cret"));
}

#[tokio::test]
async fn redirects_within_the_origin_are_followed_with_method_body_and_headers() {
    for status in [301, 302, 303, 307, 308] {
        let server = Server::start(move |asked| match asked.target.split_once("/old") {
            Some((_, rest)) => Does::Redirect(status, format!("/new{rest}")),
            None => Does::Answer(200, ONE.to_owned()),
        })
        .await;
        let client = prometheus(&(server.url() + "/old"), &[("X-Api-Key", "s3cret")]);
        let query = "x".repeat(3000);
        assert_eq!(client.query_value(&query).await, Reading::from_number(1.0), "{status}");
        let [_, moved] = &server.asked()[..] else { panic!() };
        assert_eq!((moved.method.as_str(), moved.target.as_str()), ("POST", "/new/api/v1/query"));
        assert_eq!(moved.body, format!("query={query}"));
        assert_eq!(moved.header("x-api-key"), ["s3cret"]);
    }
}

#[tokio::test]
async fn a_redirect_cannot_bring_its_own_credentials() {
    let server = Server::start(|asked| match asked.target.starts_with("/new") {
        true => Does::Answer(200, ONE.to_owned()),
        false => Does::Redirect(302, format!("http://mallory:word@{}/new", asked.header("host")[0])),
    })
    .await;
    assert_eq!(prometheus(&server.url(), &[]).query_value("x").await, Reading::from_number(1.0));
    assert!(server.asked().iter().all(|asked| asked.header("authorization").is_empty()));
}

#[tokio::test]
async fn headers_never_travel_to_another_origin() {
    let other = Server::answering(200, ONE).await;
    let port = other.address.port();
    for location in [
        other.url() + "/api/v1/query",
        format!("//127.0.0.1:{port}/"),
        format!("http://localhost:{port}/"),
        format!("https://127.0.0.1:{port}/"),
        "http://169.254.169.254/latest/meta-data".to_owned(),
        "file:///etc/passwd".to_owned(),
    ] {
        let to = location.clone();
        let server = Server::start(move |_| Does::Redirect(307, to.clone())).await;
        let reason = why(prometheus(&server.url(), &[("X-Api-Key", "s3cret")]).query_value("up").await);
        assert!(reason.contains("a redirect to another scheme, host or port is not followed"), "{location}: {reason}");
        assert_eq!(server.asked().len(), 1);
    }
    assert!(other.asked().is_empty());
}

#[tokio::test]
async fn the_same_port_under_another_scheme_or_name_is_another_origin() {
    for (scheme, host) in [("https", "127.0.0.1"), ("http", "localhost")] {
        let server = Server::start(move |asked| {
            let port = asked.header("host")[0].rsplit(':').next().unwrap().to_owned();
            Does::Redirect(302, format!("{scheme}://{host}:{port}/api/v1/query?query=up"))
        })
        .await;
        let reason = why(prometheus(&server.url(), &[]).query_value("up").await);
        assert!(reason.contains(&format!("redirects to {scheme}://{host}:")), "{reason}");
        assert_eq!(server.asked().len(), 1);
    }
}

#[tokio::test]
async fn redirects_come_to_an_end() {
    let server = Server::start(|_| Does::Redirect(302, "/again".to_owned())).await;
    let reason = why(prometheus(&server.url(), &[]).query_value("up").await);
    assert!(reason.contains("http://127.0.0.1:PORT/again redirects more than 10 times"), "{reason}");
    assert_eq!(server.asked().len(), 11);
}

#[tokio::test]
async fn scalers_share_connections() {
    let server = Server::answering(200, ONE).await;
    let shared = transport();
    for _ in 0..3 {
        let endpoint = Endpoint::new(shared.clone(), &server.url(), &BTreeMap::new()).unwrap();
        assert_eq!(PrometheusClient::new(endpoint).query_value("up").await, Reading::from_number(1.0));
    }
    assert!(server.asked().iter().all(|asked| asked.connection == 0));
}

#[tokio::test]
async fn the_environment_names_a_proxy_except_for_loopback() {
    let proxy = Server::answering(200, ONE).await;
    // The environment is that of a process, so the other half of the test runs in its own.
    let child = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "behind_a_proxy", "--ignored"])
        .env("http_proxy", proxy.url())
        .env_remove("no_proxy")
        .env_remove("NO_PROXY")
        .output()
        .await
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    let [asked] = &proxy.asked()[..] else { panic!("{:?}", proxy.asked()) };
    assert_eq!(asked.target, "http://prometheus.invalid/api/v1/query?query=up");
}

#[tokio::test]
#[ignore = "the_environment_names_a_proxy_except_for_loopback runs it"]
async fn behind_a_proxy() {
    let server = Server::answering(200, ONE).await;
    assert_eq!(prometheus(&server.url(), &[]).query_value("up").await, Reading::from_number(1.0));
    assert_eq!(prometheus("http://prometheus.invalid", &[]).query_value("up").await, Reading::from_number(1.0));
}
