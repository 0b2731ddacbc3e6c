//! Helm, kubectl and promtool as child processes.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use llmscaler_e2e::{ADMIN_TOKEN, ControlPlane, built};
use tempfile::TempDir;

/// Both, since both are in use.
pub const HELMS: [&str; 2] = ["helm-v3", "helm-v4"];

/// What a chart that is rendered without a cluster takes the cluster for.
const KUBERNETES: &str = "--kube-version=1.36.3";

/// The root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A client with a home of its own, so that nothing of the developer's is used.
pub struct Client {
    binary: PathBuf,
    home: TempDir,
    kubeconfig: Option<PathBuf>,
}

impl Client {
    /// The client of this name, or `None`, with a sentence on stderr, when it was never built.
    ///
    /// # Panics
    /// When it is missing under `LLMSCALER_E2E=require`.
    pub fn new(name: &str) -> Option<Self> {
        Self::built_by("helm", name)
    }

    /// The tool that checks rules for Prometheus; otherwise as [`new`](Self::new).
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub fn promtool() -> Option<Self> {
        Self::built_by("control-plane", "promtool")
    }

    fn built_by(target: &str, name: &str) -> Option<Self> {
        Some(Self { binary: built(target, &[name])?.join(name), home: TempDir::new().unwrap(), kubeconfig: None })
    }

    /// Lets it act on a control plane as the administrator.
    pub fn on(mut self, plane: &Arc<ControlPlane>) -> Self {
        self.kubeconfig = Some(plane.kubeconfig(ADMIN_TOKEN));
        self
    }

    /// A command of it, whose arguments are up to the caller.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        self.equip(&mut command);
        command
    }

    /// Gives another program, such as make, this client's environment.
    pub fn equip(&self, command: &mut Command) {
        command.current_dir(repository()).env("HOME", self.home.path());
        for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(variable, self.home.path());
        }
        command.env("KUBECONFIG", self.kubeconfig.as_deref().unwrap_or(Path::new("/dev/null")));
    }

    /// What it is, for make.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// Its output.
    ///
    /// # Errors
    /// When it fails, with all that it said.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Result<String, String> {
        outcome(self.command().args(arguments))
    }

    /// The chart rendered as release `llm` in namespace `scaling`, and its values given as Helm's own flags.
    ///
    /// # Errors
    /// When it does not render, with Helm's words.
    pub fn template(&self, values: &[&str]) -> Result<String, String> {
        self.template_as("llm", values)
    }

    /// As [`template`](Self::template), of another release.
    ///
    /// # Errors
    /// As [`template`](Self::template).
    pub fn template_as(&self, release: &str, values: &[&str]) -> Result<String, String> {
        let fixed = ["template", release, "dist/chart", "--namespace=scaling", KUBERNETES];
        self.run(fixed.iter().chain(values))
    }
}

/// The output of a command, or all that it said when it failed.
pub fn outcome(command: &mut Command) -> Result<String, String> {
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr).into_owned());
    if output.status.success() { Ok(out) } else { Err(format!("{out}{err}")) }
}
