//! Scrapes of small servers on the loopback interface: hung, broken, huge, encrypted, restarted.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what helps a test may fail it")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use llmscaler_engine::{Reading, Time};
use llmscaler_signals::preset::{Aggregate, Latency, Preset, Signal};
use llmscaler_signals::scrape::{Access, LARGEST_PAGE, PodAddress, Scrape, ScrapeTargets};
use llmscaler_signals::{TlsSettings, Transport};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const DEADLINE: Duration = Duration::from_millis(400);

#[derive(Clone, Debug)]
enum Does {
    /// A page with this status.
    Page(u16, String),
    /// Never says a word.
    Hang,
    /// Begins the page, and never ends it.
    Trickle,
    /// Announces more than it says, then closes.
    BreakOff,
    /// Says more than any page may have.
    Flood,
    Redirect(String),
}

/// A server, what it does next, and the requests that it had.
#[derive(Clone)]
struct Server {
    address: SocketAddr,
    does: Arc<Mutex<Does>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start(does: Does) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self { address: listener.local_addr().unwrap(), does: Arc::new(Mutex::new(does)), asked: Arc::default() };
        let served = server.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let server = served.clone();
                // A client that hangs up is no failure of the server.
                tokio::spawn(async move { server.serve(stream).await.ok() });
            }
        });
        server
    }

    async fn queued(queued: u32) -> Self {
        Self::start(Does::Page(200, format!("vllm:num_requests_waiting {queued}\nvllm:num_requests_running 0\n"))).await
    }

    fn now(&self, does: Does) {
        *self.does.lock().unwrap() = does;
    }

    async fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        self.asked.lock().unwrap().push(String::from_utf8(head).unwrap().to_lowercase());
        let does = self.does.lock().unwrap().clone();
        match does {
            Does::Page(status, body) => {
                stream.write_all(format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).await?;
            }
            Does::Hang => std::future::pending().await,
            Does::Trickle => {
                stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nvllm:num_requests_waiting 0\n").await?;
                loop {
                    stream.write_all(b"#").await?;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            Does::BreakOff => stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nvllm:num_requests_waiting 0\n").await?,
            Does::Flood => {
                stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").await?;
                let lines = "# nothing of interest\n".repeat(1000);
                for _ in 0..=LARGEST_PAGE / lines.len() {
                    stream.write_all(lines.as_bytes()).await?;
                }
            }
            Does::Redirect(to) => {
                stream.write_all(format!("HTTP/1.1 302 X\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n").as_bytes()).await?;
            }
        }
        stream.shutdown().await
    }
}

fn access() -> Access {
    Access::new(Transport::new(&TlsSettings::default()).unwrap())
}

fn targets(servers: &[Server]) -> ScrapeTargets {
    let pods = servers.iter().enumerate().map(|(i, server)| PodAddress::new(format!("web-{i}"), format!("uid-{i}"), false, server.address));
    ScrapeTargets { pods: pods.collect(), pod_access: access(), routers: Vec::new(), router_access: access() }
}

fn scrape() -> Scrape {
    beside_router(false)
}

fn beside_router(router: bool) -> Scrape {
    Scrape::new(Preset::named("vLLM").unwrap(), router, [], &BTreeMap::new(), Scrape::SHORTEST_WINDOW)
}

fn queued(scrape: &Scrape, at: Time) -> Reading {
    scrape.signal(Signal::QueuedRequests, Aggregate::Total, at)
}

fn seconds(seconds: i64) -> Time {
    Time::from_millis(seconds * 1000)
}

#[tokio::test]
async fn a_hung_pod_of_twenty_delays_nobody_and_is_named() {
    for hung in [Does::Hang, Does::Trickle] {
        let mut servers = Vec::new();
        for i in 0..20 {
            servers.push(if i == 7 { Server::start(hung.clone()).await } else { Server::queued(2).await });
        }
        let (mut scrape, targets) = (scrape(), targets(&servers));
        let started = Instant::now();
        // As the operator does it, in a task of its own.
        let syncing = tokio::spawn(async move {
            scrape.sync(&targets, DEADLINE, seconds(0)).await;
            scrape
        });
        let scrape = syncing.await.unwrap();
        let elapsed = started.elapsed();
        assert!((DEADLINE..DEADLINE * 3).contains(&elapsed), "{elapsed:?}");
        assert_eq!(queued(&scrape, seconds(0)), Reading::from_number(40.0));
        let [problem] = &scrape.problems(seconds(0))[..] else { panic!() };
        assert_eq!(problem.name, "web-7");
        let address = servers[7].address;
        assert_eq!(
            problem.why,
            format!("no complete page from http://{address}/metrics within 400ms; it hangs, or a network policy keeps the operator away")
        );
    }
}

#[tokio::test]
async fn a_page_is_asked_for_once_and_plainly() {
    let server = Server::queued(1).await;
    let mut targets = targets(std::slice::from_ref(&server));
    targets.pod_access.path = "/custom/metrics".to_owned();
    targets.pod_access.headers = BTreeMap::from([("X-Api-Key".to_owned(), "s3cret".to_owned())]);
    let mut scrape = scrape();
    scrape.sync(&targets, DEADLINE, seconds(0)).await;
    scrape.sync(&targets, DEADLINE, seconds(15)).await;
    assert!(!format!("{targets:?} {scrape:?}").contains("s3cret"));
    let asked = server.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 2);
    for asked in asked {
        assert!(asked.starts_with("get /custom/metrics http/1.1\r\n"), "{asked}");
        assert!(asked.contains("accept: text/plain;version=0.0.4, */*;q=0.1\r\n") && asked.contains("x-api-key: s3cret\r\n"), "{asked}");
        assert!(!asked.contains("accept-encoding") && asked.contains("connection: close\r\n"), "{asked}");
    }
}

#[tokio::test]
async fn every_way_to_fail_is_told() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    for (does, expected) in [
        (Does::Page(200, "<html>".to_owned()), "its page is not metrics in the text format of Prometheus: line 1, `<html>`"),
        (Does::Page(200, "vllm:num_requests_waiting many\n".to_owned()), "its value is not a number"),
        (Does::Page(404, "nothing here".to_owned()), "status 404: nothing here; check scrape.port and scrape.path"),
        (Does::Page(401, String::new()), "status 401: an empty body; check the credentials for the metrics"),
        (Does::Page(503, "vllm:num_requests_waiting 0\n".to_owned()), "status 503: vllm:num_requests_waiting 0; see its log"),
        (Does::BreakOff, "broke off"),
        (Does::Flood, "is larger than 8388608 bytes; check scrape.path"),
        (Does::Redirect(format!("http://{nobody}/metrics")), "which is not followed; check scrape.port and scrape.scheme"),
        (Does::Redirect("http://169.254.169.254/".to_owned()), "redirects to http://169.254.169.254, which is not followed"),
        (Does::Redirect("/metrics".to_owned()), "redirects more than 10 times"),
    ] {
        let server = Server::start(does.clone()).await;
        let mut scrape = scrape();
        // Long enough for a flood on a busy machine.
        scrape.sync(&targets(&[server]), Duration::from_secs(5), seconds(0)).await;
        let Reading::Unknown(why) = queued(&scrape, seconds(0)) else { panic!("{does:?}") };
        assert!(why.starts_with("signal queuedRequests: only 0 of 1 ready pods gave a usable answer"), "{why}");
        let [problem] = &scrape.problems(seconds(0))[..] else { panic!() };
        assert!(problem.why.contains(expected), "{does:?}: {}", problem.why);
        assert!(!problem.why.contains("serverAddress") && problem.why.len() < 2048, "{}", problem.why);
    }
}

#[tokio::test]
async fn addresses_that_nobody_may_ask_are_not_asked() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    for (address, expected) in [
        ("169.254.169.254:80".parse().unwrap(), "its address 169.254.169.254 is link-local, and these are refused"),
        ("[fe80::1]:80".parse().unwrap(), "its address [fe80::1] is link-local, and these are refused"),
        (nobody, "Connection refused (os error 111); check scrape.port and network policies"),
    ] {
        let mut targets = targets(&[]);
        targets.pods = vec![PodAddress::new("web-0", "uid", false, address)];
        let mut scrape = scrape();
        scrape.sync(&targets, DEADLINE, seconds(0)).await;
        let [problem] = &scrape.problems(seconds(0))[..] else { panic!() };
        assert!(problem.why.ends_with(expected), "{}", problem.why);
    }
}

#[tokio::test]
async fn a_pod_that_does_not_speak_tls_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    });
    let mut targets = targets(&[]);
    targets.pods = vec![PodAddress::new("web-0", "uid", true, address)];
    let mut scrape = scrape();
    scrape.sync(&targets, DEADLINE, seconds(0)).await;
    let [problem] = &scrape.problems(seconds(0))[..] else { panic!() };
    assert!(problem.why.starts_with(&format!("no TLS connection to https://{}/metrics: ", address)), "{}", problem.why);
    assert!(problem.why.ends_with("; check scrape.scheme and serverTLS"), "{}", problem.why);
}

#[tokio::test]
async fn a_pod_recovers_and_another_comes_in_its_place() {
    let server = Server::queued(5).await;
    let mut targets = targets(std::slice::from_ref(&server));
    let mut scrape = scrape();
    scrape.sync(&targets, DEADLINE, seconds(0)).await;
    assert_eq!(queued(&scrape, seconds(0)), Reading::from_number(5.0));
    server.now(Does::Hang);
    scrape.sync(&targets, DEADLINE, seconds(15)).await;
    assert!(queued(&scrape, seconds(15)).is_unknown());
    let another = Server::queued(3).await;
    targets.pods = vec![PodAddress::new("web-0", "another", false, another.address)];
    scrape.sync(&targets, DEADLINE, seconds(30)).await;
    assert_eq!(queued(&scrape, seconds(30)), Reading::from_number(3.0));
}

#[tokio::test]
async fn a_router_is_read_with_its_own_credentials() {
    let (pod, router) = (Server::queued(1).await, Server::start(Does::Page(200, String::new())).await);
    let mut targets = targets(std::slice::from_ref(&pod));
    targets.routers = vec![format!("http://{}", router.address)];
    targets.router_access.headers = BTreeMap::from([("Authorization".to_owned(), "Bearer t".to_owned())]);
    router.now(Does::Page(200, "llm_d_epp_flow_control_queue_size 7\nllm_d_epp_ready_endpoints 1\n".to_owned()));
    let mut scrape = beside_router(true);
    scrape.sync(&targets, DEADLINE, seconds(0)).await;
    assert_eq!(queued(&scrape, seconds(0)), Reading::from_number(8.0));
    assert!(router.asked.lock().unwrap()[0].contains("authorization: bearer t"));
    assert!(!pod.asked.lock().unwrap()[0].contains("authorization"));
    // A router that is down takes its part of the queue out of sight.
    router.now(Does::Page(503, String::new()));
    scrape.sync(&targets, DEADLINE, seconds(15)).await;
    assert!(queued(&scrape, seconds(15)).is_unknown());
    assert_eq!(scrape.problems(seconds(15))[0].name, format!("http://{}", router.address));
    assert!(scrape.latency(Latency::Ttft, 0.9, seconds(15)).is_unknown());
}
