//! The preStop hook as the chart renders it, run against an engine on loopback.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

use futures::future::join_all;
use llmscaler_e2e::DecisionServer;
use tempfile::NamedTempFile;
use tokio::time::sleep;

use super::{has_python, rendered, texts};
use crate::client::{Client, HELMS};
use crate::objects::container;

/// How long a Python may take to start where everything else is running as well.
const SLACK: Duration = Duration::from_secs(8);

/// A hook that is going to run.
struct Hook {
    command: Command,
    log: NamedTempFile,
}

/// One that has ended.
struct Drained {
    took: Duration,
    log: String,
}

impl Hook {
    /// The hook of a pod at this port with so many seconds for endpointSync, drain and poll. `None` where it cannot run.
    fn new(port: u16, [sync, drain, poll]: [u32; 3]) -> Option<Self> {
        let helm = Client::new(HELMS[1]).filter(|_| has_python())?;
        let seconds =
            format!("endpointSyncSeconds={sync},lifecycle.preStop.drainSeconds={drain},lifecycle.preStop.pollIntervalSeconds={poll}");
        let set = format!("service.port={port},terminationGracePeriodSeconds=600,lifecycle.preStop.{seconds}");
        let words = texts(&container(&rendered(&helm, &set).unwrap())["lifecycle"]["preStop"]["exec"]["command"]);
        // Its process 1 is not the tests'.
        let (to, words) = words.split_last().unwrap();
        assert_eq!(to, "--log=/proc/1/fd/1");
        let log = NamedTempFile::new().unwrap();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(format!("--log={}", log.path().display()));
        Some(Self { command, log })
    }

    /// Gives up on a server that has refused every connection after a second, not half a minute: of two such flags the last one counts.
    fn impatient(mut self) -> Self {
        self.command.arg("--give-up=1");
        self
    }

    fn env(mut self, key: &str, value: &str) -> Self {
        self.command.env(key, value);
        self
    }

    async fn run(mut self) -> Drained {
        tokio::task::spawn_blocking(move || {
            let start = Instant::now();
            let output = self.command.output().unwrap();
            let took = start.elapsed();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let mut log = String::new();
            self.log.read_to_string(&mut log).unwrap();
            Drained { took, log }
        })
        .await
        .unwrap()
    }
}

impl Drained {
    /// It said this, and took at least so many seconds and hardly more.
    #[track_caller]
    fn after(&self, seconds: u64, words: &str) {
        let Self { took, log } = self;
        assert!(log.contains(words), "no {words:?} in\n{log}");
        let least = Duration::from_secs(seconds);
        assert!((least..least + SLACK).contains(took), "took {took:?}, not {least:?}\n{log}");
    }
}

/// The page of an engine with two models, one of whose names is hard to read.
fn page(running: [u32; 2], waiting: u32) -> String {
    let [a, b] = running;
    format!(
        "# HELP vllm:num_requests_running Number of requests in model execution batches.\n# TYPE vllm:num_requests_running gauge\n\
         vllm:num_requests_running{{engine=\"0\",model_name=\"a\"}} {a}.0\n\
         vllm:num_requests_running{{engine=\"0\",model_name=\"b}} 7 \\\"b\\\"\"}} {b}.0\n\
         # TYPE vllm:num_requests_waiting gauge\n\
         vllm:num_requests_waiting{{engine=\"0\",model_name=\"a\"}} {waiting}.0 1395066363000\n\
         vllm:num_requests_waiting{{engine=\"0\",model_name=\"b}} 7 \\\"b\\\"\"}} 0.0\n\
         vllm:num_requests_waiting_by_reason{{engine=\"0\",model_name=\"a\",reason=\"deferred\"}} 3.0\n"
    )
}

async fn engine(page: &str) -> (DecisionServer, u16) {
    let server = DecisionServer::start().await;
    server.answer(200, page);
    let port = server.address().port();
    (server, port)
}

#[tokio::test]
async fn an_idle_pod_ends_as_soon_as_the_routers_had_their_time() {
    let (server, port) = engine(&page([0, 0], 0)).await;
    let Some(hook) = Hook::new(port, [2, 60, 1]) else { return };
    hook.run().await.after(2, "idle after");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_busy_pod_ends_once_it_has_become_idle() {
    let (server, port) = engine(&page([1, 2], 4)).await;
    let Some(hook) = Hook::new(port, [0, 60, 1]) else { return };
    let (drained, ()) = tokio::join!(hook.run(), async {
        while server.requests().is_empty() {
            sleep(Duration::from_millis(20)).await;
        }
        server.answer(200, page([0, 1], 0));
        sleep(Duration::from_secs(2)).await;
        server.answer(200, page([0, 0], 0));
    });
    drained.after(2, "preStop: 3 running, 4 waiting\npreStop: 1 running, 0 waiting\npreStop: idle after");
}

#[tokio::test]
async fn whatever_is_not_known_to_be_idle_is_waited_for_to_the_end_and_no_longer() {
    let good = page([0, 0], 0);
    let cases = [
        (page([0, 1], 0), "1 running, 0 waiting"),
        (page([0, 0], 1), "0 running, 1 waiting"),
        (good.replace("vllm:num_requests_running{", "vllm:running{"), "no vllm:num_requests_running"),
        (good.replace("vllm:num_requests_waiting{", "vllm:num_requests_waiting_by_reason{"), "no vllm:num_requests_waiting"),
        (good.replace(" 0.0 1395066363000", " NaN"), "vllm:num_requests_waiting is nan"),
        (good.replace(" 0.0 1395066363000", " many"), "could not convert"),
        (String::new(), "no vllm:num_requests_running"),
    ];
    // A poll that is not cut short would outlast the test.
    let drains = cases.map(|(body, words)| async move {
        let (_server, port) = engine(&body).await;
        let hook = Hook::new(port, [1, 2, 600])?;
        Some((hook.run().await, words))
    });
    for (drained, words) in join_all(drains).await.into_iter().flatten() {
        drained.after(3, words);
        drained.after(3, "preStop: not idle after 3 s");
    }
}

#[tokio::test]
async fn neither_silence_nor_a_page_without_end_outlasts_the_budget() {
    let (silent, port) = engine("").await;
    silent.hang();
    let Some(hook) = Hook::new(port, [0, 3, 1]) else { return };
    let endless = TcpListener::bind("127.0.0.1:0").unwrap();
    let Some(other) = Hook::new(endless.local_addr().unwrap().port(), [0, 3, 1]) else { return };
    std::thread::spawn(move || {
        for connection in endless.incoming() {
            std::thread::spawn(move || {
                let mut connection = connection.unwrap();
                let _ = connection.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
                while connection.write_all(b"#\n").is_ok() {
                    std::thread::sleep(Duration::from_millis(300));
                }
            });
        }
    });
    let (silent, endless) = tokio::join!(hook.run(), other.run());
    silent.after(3, "not idle after 3 s");
    endless.after(3, "not idle after 3 s");
    assert!(endless.log.contains("no answer in time"), "{}", endless.log);
}

#[tokio::test]
async fn a_server_that_was_never_there_is_given_up() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let Some(hook) = Hook::new(nobody, [1, 60, 1]) else { return };
    let drained = hook.impatient().run().await;
    drained.after(2, "refused every connection for 1 s");
    assert!(drained.log.contains("preStop: unknown: <urlopen error [Errno 111] Connection refused>"), "{}", drained.log);
}

#[tokio::test]
async fn a_server_that_answers_anything_or_nothing_is_not_given_up() {
    // Too late, with an error from the first, and no longer after it was read: each may be an engine with requests.
    let (late, late_port) = engine(&page([40, 0], 0)).await;
    late.hang();
    let (failing, failing_port) = engine("").await;
    failing.answer(503, "");
    let (lost, lost_port) = engine(&page([1, 0], 0)).await;
    let closing = TcpListener::bind("127.0.0.1:0").unwrap();
    let closing_port = closing.local_addr().unwrap().port();
    std::thread::spawn(move || closing.incoming().for_each(drop));
    let cases = [
        (late_port, "no answer in time"),
        (failing_port, "HTTP Error 503"),
        (lost_port, "HTTP Error 500"),
        (closing_port, "not idle after 4 s (unknown: "),
    ];
    let drains = cases.map(|(port, words)| async move { Some((Hook::new(port, [0, 4, 1])?.impatient().run().await, words)) });
    let (drains, ()) = tokio::join!(join_all(drains), async {
        if has_python() && Client::new(HELMS[1]).is_some() {
            while lost.requests().is_empty() {
                sleep(Duration::from_millis(20)).await;
            }
            lost.answer(500, "");
        }
    });
    for (drained, words) in drains.into_iter().flatten() {
        drained.after(4, "preStop: not idle after 4 s");
        drained.after(4, words);
    }
}

#[tokio::test]
async fn a_proxy_of_the_environment_is_not_asked() {
    let (_server, port) = engine(&page([0, 0], 0)).await;
    let (proxy, _) = engine(&page([1, 0], 0)).await;
    let Some(hook) = Hook::new(port, [0, 60, 1]) else { return };
    let hook = ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"].iter().fold(hook, |hook, key| hook.env(key, proxy.url()));
    hook.env("no_proxy", "").env("NO_PROXY", "").run().await.after(0, "idle after");
    assert!(proxy.requests().is_empty());
}
