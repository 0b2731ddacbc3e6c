//! The demo from outside: what it says, what is in its API, and how it ends.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt};
use llmscaler_api::LLMScaler;

use crate::running::{run, texts};

/// A demo that runs, with what it said at the beginning.
struct Demo {
    child: Child,
    lines: BufReader<ChildStdout>,
    said: String,
    dashboard: SocketAddr,
    kubeconfig: PathBuf,
}

impl Demo {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_llmscaler")).arg("demo").args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        while !said.contains("own clock:\n\n") {
            assert!(lines.read_line(&mut said).unwrap() > 0, "{said}");
        }
        let after = |mark: &str| said.split_once(mark).unwrap().1.split([' ', '\n', '/']).next().unwrap().to_owned();
        let dashboard = after("dashboard  http://").parse().unwrap();
        let kubeconfig = said.split_once("KUBECONFIG=").unwrap().1.split(' ').next().unwrap().into();
        Self { child, lines, said, dashboard, kubeconfig }
    }

    /// The rest of what it says, and its exit code.
    fn end(mut self) -> (String, Option<i32>) {
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        (self.said.clone() + &rest, self.child.wait().unwrap().code())
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap().success());
    }

    async fn client(&self) -> Client {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig).unwrap();
        Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()).unwrap()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The status line of the answer to a GET.
fn get(address: SocketAddr, path: &str) -> String {
    let mut connection = TcpStream::connect(address).unwrap();
    connection.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    write!(connection, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut status = String::new();
    BufReader::new(connection).read_line(&mut status).unwrap();
    status
}

/// The changes of size that were told: from, to, by the name of the scaler.
fn changes(said: &str) -> BTreeMap<String, Vec<(i32, i32)>> {
    let mut changes: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for line in said.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [_, name, from, "->", to, ..] = words[..] {
            changes.entry(name.to_owned()).or_default().push((from.parse().unwrap(), to.parse().unwrap()));
        }
    }
    changes
}

#[test]
fn the_scenarios_are_listed() {
    let (out, _, code) = texts(&run(&["demo", "--list"], ""));
    assert_eq!(code, 0);
    for name in ["day", "ramp", "bursts", "outage", "rollout", "idle", "full"] {
        assert!(out.lines().any(|line| line.starts_with(name)), "{name}: {out}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fleets_grow_under_load_and_shrink_after_it_within_their_bounds() {
    let demo = Demo::start(&["--scenario", "ramp", "--speed", "60", "--port", "0"]);
    let client = demo.client().await;
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let mut seen: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    let went = |sizes: &Vec<i32>| sizes.iter().position(|size| *size > 4).is_some_and(|top| sizes[top..].iter().any(|size| *size <= 4));
    // At this speed it takes forty seconds. On a busy machine syncs are left out, and one fleet is late, or another round is needed.
    let end = Instant::now() + Duration::from_secs(240);
    while !seen.values().any(went) {
        for fleet in deployments.list(&ListParams::default()).await.unwrap() {
            seen.entry(fleet.name_any()).or_default().push(fleet.spec.unwrap().replicas.unwrap());
        }
        assert!(Instant::now() < end, "{seen:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(seen.keys().collect::<Vec<_>>(), ["band", "headroom", "kv-cache"]);
    for (fleet, sizes) in &seen {
        assert!(sizes.iter().all(|size| (3..=8).contains(size)), "{fleet}: {sizes:?}");
    }
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let pod = pods.list(&ListParams::default()).await.unwrap().items.into_iter().next().unwrap();
    let port = pod.spec.unwrap().containers[0].ports.as_ref().unwrap()[0].container_port;
    assert!(get(format!("127.0.0.1:{port}").parse().unwrap(), "/metrics").contains("200"));
    let scalers: Api<LLMScaler> = Api::default_namespaced(client);
    for scaler in scalers.list(&ListParams::default()).await.unwrap() {
        assert!(scaler.status.as_ref().is_some_and(|status| status.decision.is_some()), "{}", scaler.name_any());
    }
    demo.signal("INT");
    let (said, code) = demo.end();
    assert_eq!(code, Some(0), "{said}");
    let changes = changes(&said);
    for (fleet, changes) in &changes {
        assert!(changes.iter().all(|(from, to)| (3..=8).contains(from) && (3..=8).contains(to)), "{fleet}: {changes:?}");
        assert!(changes.windows(2).all(|pair| pair[0].1 == pair[1].0), "{fleet}: {changes:?}");
    }
    assert!(changes.values().flatten().any(|(from, to)| to > from) && changes.values().flatten().any(|(from, to)| to < from), "{said}");
    let table = said.split_once("requests to each fleet").unwrap().1;
    for fleet in ["headroom", "band", "kv-cache"] {
        assert!(table.lines().any(|line| line.trim_start().starts_with(fleet) && line.contains('%')), "{table}");
    }
}

#[test]
fn a_demo_ends_by_itself_when_it_is_told_for_how_long() {
    let before = Instant::now();
    let (said, code) = Demo::start(&["--port", "0", "--duration", "2s"]).end();
    assert!(code == Some(0) && before.elapsed() >= Duration::from_secs(2), "{said}");
    assert!(said.contains("requests to each fleet"), "{said}");
}

#[test]
fn two_run_side_by_side_and_a_signal_ends_one_without_a_trace() {
    let (one, other) = (Demo::start(&[]), Demo::start(&["--scenario", "idle"]));
    assert_ne!(one.dashboard, other.dashboard);
    for demo in [&one, &other] {
        assert!(get(demo.dashboard, "/").contains("200") && get(demo.dashboard, "/api/scalers").contains("200"));
    }
    for (demo, signal) in [(one, "INT"), (other, "TERM")] {
        let (dashboard, kubeconfig) = (demo.dashboard, demo.kubeconfig.clone());
        let text = std::fs::read_to_string(&kubeconfig).unwrap();
        let api: SocketAddr = text.split_once("http://").unwrap().1.split('"').next().unwrap().parse().unwrap();
        assert!(get(api, "/version").contains("200"));
        let before = Instant::now();
        demo.signal(signal);
        let (said, code) = demo.end();
        assert_eq!(code, Some(0), "{said}");
        assert!(before.elapsed() < Duration::from_secs(8) && said.contains("requests to each fleet"), "{said}");
        assert!(TcpStream::connect(dashboard).is_err() && TcpStream::connect(api).is_err());
        assert!(!kubeconfig.parent().unwrap().exists(), "its folder is gone");
    }
}

#[test]
fn a_port_that_is_taken_is_told_with_what_to_do() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let (_, errors, code) = texts(&run(&["demo", "--port", &port], ""));
    assert!(code == 1 && errors.contains(&port) && errors.contains("--port"), "{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scaler_of_the_users_plays_along() {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/samples/autoscaling_v1alpha1_llmscaler_queueandrunning.yaml");
    let demo = Demo::start(&["--scenario", "idle", "--port", "0", "--scaler", sample]);
    let name = "my-llmscaler-queue-and-running-sample";
    assert!(demo.said.contains(&format!("{name} is yours")), "{}", demo.said);
    let scalers: Api<LLMScaler> = Api::default_namespaced(demo.client().await);
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let status = scalers.get(name).await.unwrap().status.unwrap_or_default();
        if status.metrics.iter().filter(|metric| metric.value.is_some()).count() == 2 {
            break;
        }
        assert!(Instant::now() < end, "{status:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    demo.signal("TERM");
    assert_eq!(demo.end().1, Some(0));
    let query = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/samples/autoscaling_v1alpha1_llmscaler.yaml");
    let (_, errors, code) = texts(&run(&["demo", "--scaler", query], ""));
    assert!(code == 2 && errors.contains("spec.metrics[0].query") && errors.contains("use a signal"), "{errors}");
}
