//! Where a reader sits: a checkout in which the binary is built, with kubectl, Helm and llmscaler on the PATH, and a kubeconfig.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use llmscaler_e2e::{binary, built};
use llmscaler_pages::root;
use serde_json::Value;
use tempfile::TempDir;

use crate::shell::Shell;

/// What of the checkout the pages change; all else is that of the repository itself.
const COPIED: [&str; 1] = ["config"];

/// Stands for cargo where a page means to run the binary: `run … -- ARGUMENTS` runs the one under test.
const CARGO: &str = r#"#!/bin/sh
if [ "$1" = run ]; then
  while [ "$1" != -- ]; do shift; done
  shift
  exec llmscaler "$@"
fi
echo "cargo $*: only run stands in for cargo here" >&2
exit 1
"#;

/// The desk, which goes with the test.
pub struct Desk {
    folder: TempDir,
}

impl Desk {
    /// `None`, with a sentence on stderr, when kubectl or Helm was never built.
    ///
    /// # Panics
    /// When one is missing under `LLMSCALER_E2E=require`.
    pub fn set_up() -> Option<Self> {
        let tools = built("helm", &["kubectl", "helm-v4"])?;
        let desk = Self { folder: TempDir::new().unwrap() };
        let (bin, checkout) = (desk.bin(), desk.checkout());
        for folder in [&bin, &checkout.join("target/release"), &desk.home()] {
            std::fs::create_dir_all(folder).unwrap();
        }
        symlink(tools.join("kubectl"), bin.join("kubectl")).unwrap();
        symlink(tools.join("helm-v4"), bin.join("helm")).unwrap();
        symlink(binary(), bin.join("llmscaler")).unwrap();
        symlink(binary(), checkout.join("target/release/llmscaler")).unwrap();
        std::fs::write(bin.join("cargo"), CARGO).unwrap();
        std::fs::set_permissions(bin.join("cargo"), std::fs::Permissions::from_mode(0o755)).unwrap();
        for entry in std::fs::read_dir(root()).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if COPIED.contains(&name) {
                let copied = std::process::Command::new("cp").arg("-R").arg(&path).arg(&checkout).status();
                assert!(copied.unwrap().success());
            } else if name != "target" && !name.starts_with('.') {
                symlink(&path, checkout.join(name)).unwrap();
            }
        }
        Some(desk)
    }

    /// A file of the reader's, in the checkout.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.checkout().join(name), text).unwrap();
    }

    /// Leads kubectl and its like to a cluster, and there to a namespace.
    pub fn connect(&self, kubeconfig: &Path, namespace: &str) {
        let mut config: Value = serde_json::from_str(&std::fs::read_to_string(kubeconfig).unwrap()).unwrap();
        config["contexts"][0]["context"]["namespace"] = namespace.into();
        std::fs::write(self.kubeconfig(), config.to_string()).unwrap();
    }

    /// A shell in the checkout.
    pub fn shell(&self) -> Shell {
        let path = format!("{}:{}", self.bin().display(), std::env::var("PATH").unwrap());
        let home = self.home().display().to_string();
        // Nothing of the developer's Helm is used.
        let helm = ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"].into_iter();
        let shell = helm.fold(Shell::new(&self.checkout(), self.folder.path()), |shell, variable| shell.env(variable, &home));
        shell
            .env("PATH", &path)
            .env("HOME", &home)
            .env("KUBECONFIG", &self.kubeconfig().display().to_string())
            .env("CARGO", &self.bin().join("cargo").display().to_string())
            .env("NO_COLOR", "1")
    }

    /// The folder of what is on the PATH.
    pub fn bin(&self) -> PathBuf {
        self.folder.path().join("bin")
    }

    fn checkout(&self) -> PathBuf {
        self.folder.path().join("checkout")
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }
}
