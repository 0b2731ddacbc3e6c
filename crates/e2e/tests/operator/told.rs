//! What the command says of a cluster.

use std::process::{Child, Command, Stdio};

use llmscaler_e2e::{Namespace, binary};
use serde_json::Value;

/// Output and exit code of the command.
#[derive(Debug)]
pub struct Told {
    pub out: String,
    pub errors: String,
    pub code: Option<i32>,
}

impl Told {
    /// The output as one JSON document.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

/// Runs the command to its end, in the namespace, as the administrator.
pub async fn llmscaler(ns: &Namespace, arguments: &[&str]) -> Told {
    let mut command = command(ns, arguments);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Told { out: text(output.stdout), errors: text(output.stderr), code: output.status.code() }
}

/// Starts the command, with its output in pipes.
pub fn start(ns: &Namespace, arguments: &[&str]) -> Child {
    command(ns, arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn command(ns: &Namespace, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(arguments).arg("--kubeconfig").arg(ns.kubeconfig()).arg("-n").arg(ns.name());
    command
}
