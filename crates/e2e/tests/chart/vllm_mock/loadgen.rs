//! hack/loadgen.sh, with a stand-in for hey.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use llmscaler_e2e::DecisionServer;
use serde_json::Value;
use tempfile::TempDir;

use crate::client::{outcome, repository};

fn loadgen(path: &str, environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new("/bin/bash");
    command.arg(repository().join("hack/loadgen.sh")).env("PATH", path).envs(environment.iter().copied());
    command
}

#[test]
fn without_hey_it_says_where_hey_comes_from() {
    let empty = TempDir::new().unwrap();
    let refusal = outcome(&mut loadgen(empty.path().to_str().unwrap(), &[])).unwrap_err();
    assert!(refusal.contains("go install github.com/rakyll/hey@latest"), "{refusal}");
}

#[tokio::test]
async fn it_loads_for_a_while_and_only_a_server_that_answers() {
    let folder = TempDir::new().unwrap();
    let hey = folder.path().join("hey");
    std::fs::write(&hey, "#!/bin/sh\nprintf '%s\\0' \"$@\"\n").unwrap();
    std::fs::set_permissions(&hey, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let server = DecisionServer::start().await;
    let (address, prompt) = (server.address().to_string(), "\"Why?\"\n\\ asked\tshe.");
    let environment = [("ADDR", address.as_str()), ("PROMPT", prompt), ("DURATION", "3m"), ("MAX_TOKENS", "7")];
    let run = async |path: &str| {
        let mut command = loadgen(path, &environment);
        tokio::task::spawn_blocking(move || outcome(&mut command)).await.unwrap()
    };

    server.answer(404, "no model opt-125m");
    let refusal = run(&path).await.unwrap_err();
    assert!(refusal.contains("no model opt-125m") && refusal.contains("check ADDR"), "{refusal}");
    server.answer(200, "{}");
    let arguments = run(&path).await.unwrap();
    let arguments: Vec<&str> = arguments.trim_end_matches('\0').split('\0').collect();
    assert!(arguments.starts_with(&["-z", "3m", "-c", "300", "-t", "0", "-m", "POST", "-T", "application/json", "-d"]), "{arguments:?}");
    let body: Value = serde_json::from_str(arguments[11]).unwrap();
    assert_eq!(body, serde_json::json!({"model": "opt-125m", "prompt": prompt, "max_tokens": 7}));
    assert_eq!(arguments[12], format!("http://{address}/v1/completions"));
    assert_eq!(server.requests().last().unwrap().path, "/v1/completions");
}
