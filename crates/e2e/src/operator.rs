//! The binary under test as a child process.

use crate::control_plane::ControlPlane;
use crate::kubeconfig::ADMIN_TOKEN;
use crate::process::{Process, tail};
use crate::{background, binaries};
use serde_json::Value;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// From SIGTERM to SIGKILL, Kubernetes gives 30 seconds unless told otherwise.
const GRACE: Duration = Duration::from_secs(30);
const START: Duration = Duration::from_secs(60);

/// How an operator is to be started.
#[derive(Debug)]
#[must_use = "nothing runs before `start`"]
pub struct Launch {
    plane: Arc<ControlPlane>,
    binary: Option<PathBuf>,
    kubeconfig: Option<PathBuf>,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

/// A running `llmscaler operator`, killed on drop.
#[derive(Debug)]
pub struct Operator {
    process: Process,
    health: u16,
    metrics: u16,
}

impl Operator {
    /// An operator of the administrator, without leader election, that serves plain metrics.
    pub fn launch(plane: &Arc<ControlPlane>) -> Launch {
        Launch { plane: Arc::clone(plane), binary: None, kubeconfig: None, arguments: Vec::new(), environment: Vec::new() }
    }

    /// Ends it as Kubernetes does and returns how it ended.
    ///
    /// # Panics
    /// When it is still there after 30 seconds.
    pub async fn stop(self) -> ExitStatus {
        self.process.terminate();
        self.process.wait(GRACE).await.unwrap_or_else(|| panic!("does not end on SIGTERM:\n{}", self.log_tail(30)))
    }

    /// Ends it without a chance to clean up, as a lost node does.
    pub fn kill(self) {
        self.process.kill();
    }

    /// How it ended, when it has.
    #[must_use]
    pub fn exited(&self) -> Option<ExitStatus> {
        self.process.exited()
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Its log file.
    #[must_use]
    pub fn log(&self) -> &Path {
        self.process.log()
    }

    /// The last `lines` of its log.
    #[must_use]
    pub fn log_tail(&self, lines: usize) -> String {
        tail(self.process.log(), lines)
    }

    /// The status of one of its probes, `/readyz` or `/healthz`, or `None` when nothing answers.
    pub async fn probe(&self, path: &str) -> Option<u16> {
        let request = background::client().get(format!("http://127.0.0.1:{}{path}", self.health));
        background::run(async move { Some(request.send().await.ok()?.status().as_u16()) }).await
    }

    /// Where it serves its metrics.
    #[must_use]
    pub fn metrics_url(&self) -> String {
        format!("http://127.0.0.1:{}/metrics", self.metrics)
    }

    /// The text of its metrics.
    ///
    /// # Panics
    /// When it does not serve them.
    pub async fn metrics(&self) -> String {
        let request = background::client().get(self.metrics_url());
        background::run(async move { request.send().await.unwrap().text().await.unwrap() }).await
    }

    /// The value of one of its series, written as in the text format, labels included.
    ///
    /// # Panics
    /// When it does not serve metrics.
    pub async fn metric(&self, series: &str) -> Option<f64> {
        let text = self.metrics().await;
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
        line.split(' ').next()?.parse().ok()
    }
}

impl Launch {
    /// Another binary than the one under test, such as an earlier release in a test of an upgrade.
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.binary = Some(path.into());
        self
    }

    /// Runs it as whoever has `token`, such as a service account with no more than the chart's RBAC.
    pub fn token(self, token: &str) -> Self {
        let kubeconfig = self.plane.kubeconfig(token);
        self.kubeconfig(kubeconfig)
    }

    /// Runs it against another API server than the plane's.
    pub(crate) fn kubeconfig(mut self, file: PathBuf) -> Self {
        self.kubeconfig = Some(file);
        self
    }

    /// Adds an argument, after those that the harness gives.
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.environment.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Elects a leader first, with a lease in `namespace`.
    pub fn leader_elect(self, namespace: &str) -> Self {
        self.argument("--leader-elect").env("POD_NAMESPACE", namespace)
    }

    /// Starts it and waits until it is ready.
    ///
    /// # Panics
    /// When it is not within a minute, with the end of its log.
    pub async fn start(self) -> Operator {
        let operator = self.spawn();
        let url = format!("http://127.0.0.1:{}/readyz", operator.health);
        if let Err(error) = operator.process.ready(&reqwest::Client::new(), &url, START).await {
            panic!("{error:#}");
        }
        operator
    }

    /// Starts it and does not wait, for one that must not become ready.
    ///
    /// # Panics
    /// When there is no binary.
    #[must_use]
    pub fn spawn(self) -> Operator {
        let [health, metrics] = [free_port(), free_port()];
        let mut command = Command::new(self.binary.as_deref().unwrap_or_else(|| binary()));
        command
            .arg("operator")
            .arg(format!("--health-probe-bind-address=127.0.0.1:{health}"))
            .arg(format!("--metrics-bind-address=127.0.0.1:{metrics}"))
            .arg("--metrics-secure=false")
            .args(self.arguments)
            .env("KUBECONFIG", self.kubeconfig.unwrap_or_else(|| self.plane.kubeconfig(ADMIN_TOKEN)))
            .env("NO_COLOR", "1")
            .envs(self.environment);
        let process = Process::spawn("operator", &command, &self.plane.add_operator_log()).unwrap();
        Operator { process, health, metrics }
    }
}

/// A port that nobody listens on at any address. It is from below the range that the system takes ports from by itself,
/// and no two callers get the same, so that it is still free when it is taken.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn free_port() -> u16 {
    const RANGE: std::ops::Range<u16> = 10_000..30_000;
    static COUNT: AtomicU16 = AtomicU16::new(0);
    let width = RANGE.end - RANGE.start;
    // Other test processes, which run at the same time, start elsewhere.
    let start = u16::try_from(std::process::id() % u32::from(width / 100)).unwrap() * 100;
    let candidates = std::iter::repeat_with(|| RANGE.start + (start + COUNT.fetch_add(1, Ordering::Relaxed) % width) % width);
    candidates.take(width.into()).find(|port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)).is_ok()).expect("a free port")
}

/// The binary under test: `LLMSCALER_BIN`, or else what cargo builds from the sources as they are.
///
/// # Panics
/// When it cannot be built.
#[must_use]
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| std::env::var_os("LLMSCALER_BIN").map_or_else(build, PathBuf::from))
}

fn build() -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    // What cargo tells a test of its own package. Build scripts that depend on it (ring's) would run again each time.
    for (key, _) in std::env::vars_os().filter(|(key, _)| key.to_str().is_some_and(is_of_package)) {
        cargo.env_remove(key);
    }
    let output = cargo
        .args(["build", "--package=llmscaler", "--bin=llmscaler", "--message-format=json-render-diagnostics"])
        .current_dir(binaries::repository())
        .stderr(std::process::Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "cannot build llmscaler; LLMSCALER_BIN names one that is built");
    let messages = String::from_utf8(output.stdout).unwrap();
    let mut executables = messages.lines().filter_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        message["executable"].as_str().map(PathBuf::from)
    });
    executables.next_back().expect("cargo names the executable")
}

/// Whether cargo sets this variable to describe a package, unlike those by which users configure cargo.
fn is_of_package(key: &str) -> bool {
    const PREFIXES: [&str; 4] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_"];
    PREFIXES.iter().any(|prefix| key.starts_with(prefix)) || matches!(key, "CARGO_PRIMARY_PACKAGE" | "CARGO_TARGET_TMPDIR" | "OUT_DIR")
}
