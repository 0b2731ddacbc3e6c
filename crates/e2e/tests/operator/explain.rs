//! `llmscaler explain` on what a live operator has reported.

use std::io::{BufRead as _, BufReader};
use std::process::Command;
use std::time::Duration;

use llmscaler_e2e::ApiServer::{Real, Sandbox};
use llmscaler_e2e::{ApiServer, eventually};
use rstest::rstest;
use serde_json::{Value, json};

use crate::fleet::{Fleet, SOON};
use crate::told::{Told, llmscaler, start};

/// A fleet of two with a load of 2 each, which the scaler has grown to four.
async fn grown(on: ApiServer, purpose: &str) -> Option<Fleet> {
    let fleet = Fleet::start(on, purpose, 2).await?;
    fleet.load(2.0).await;
    fleet.scale_on_load(json!({"maxReplicas": 4})).await;
    fleet.is_serving(4).await;
    let settled = |status: &Value| status["currentReplicas"] == 4 && status["metrics"][0]["state"] == "Value";
    fleet.status("looked at with four ready replicas", settled).await;
    Some(fleet)
}

#[rstest]
#[tokio::test]
async fn a_live_decision_is_told_in_words_and_for_programs(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = grown(on, "explain").await else { return };
    let ns = fleet.ns();
    let told = llmscaler(ns, &["explain", "fleet"]).await;
    assert_eq!((told.code, told.errors.as_str()), (Some(0), ""), "{told:#?}");
    for words in [
        &format!("{}/fleet scales Deployment fleet, 1 to 4 replicas", ns.name()),
        "now 4 replicas, 4 ready",
        "load  2 against 1, 100 % above: asks for 8 replicas",
        "bound      8 → 4     TooManyReplicas: 8 is above maxReplicas 4",
        "ScalingLimited is True",
        "→ raise maxReplicas",
    ] {
        assert!(told.out.contains(words), "{words} is missing in\n{}", told.out);
    }

    let explained = llmscaler(ns, &["explain", "fleet", "-o", "json"]).await.json();
    assert_eq!(explained["replicas"], 4, "{explained:#}");
    assert_eq!(explained["decision"]["stages"].as_array().map(Vec::len), Some(7), "{explained:#}");

    let list = llmscaler(ns, &["explain"]).await;
    let row = list.out.lines().nth(1).unwrap_or_default();
    assert!(row.contains("Deployment fleet") && row.contains("1-4"), "{list:#?}");
}

#[rstest]
#[tokio::test]
async fn a_name_that_is_not_there_is_a_failure_that_names_those_that_are(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "unnamed", 1).await else { return };
    let Told { out, errors, code } = llmscaler(fleet.ns(), &["explain", "fleet"]).await;
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(errors.contains("there is no LLMScaler in namespace"), "{errors}");
    fleet.scale_on_load(json!({})).await;
    let told = llmscaler(fleet.ns(), &["explain", "flete"]).await;
    assert_eq!(told.code, Some(1));
    assert!(told.errors.contains("did you mean fleet?"), "{told:#?}");
}

#[rstest]
#[tokio::test]
async fn watching_tells_each_change_until_it_is_interrupted(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = grown(on, "watching").await else { return };
    let mut child = start(fleet.ns(), &["explain", "fleet", "--watch", "-o", "json"]);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (send, mut changes) = tokio::sync::mpsc::unbounded_channel::<Value>();
    // It ends with the command, whose output ends then.
    let reader = std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let _ = send.send(serde_json::from_str(&line).unwrap());
        }
    });
    let first = tokio::time::timeout(SOON, changes.recv()).await.unwrap().unwrap();
    assert_eq!(first["maxReplicas"], 4, "{first:#}");
    fleet.edit(json!({"maxReplicas": 3})).await;
    loop {
        let change = tokio::time::timeout(SOON, changes.recv()).await.unwrap().unwrap();
        if change["replicas"] == 3 {
            assert_eq!(change["maxReplicas"], 3, "{change:#}");
            break;
        }
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let ended = eventually("ended", Duration::from_secs(10), || {
        let ended = child.try_wait().unwrap();
        async move { ended.ok_or("still running") }
    })
    .await;
    assert_eq!(ended.code(), Some(0));
    reader.join().unwrap();
}

#[rstest]
#[tokio::test]
async fn whoever_has_seen_enough_closes_the_pipe_without_an_error(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = grown(on, "enough").await else { return };
    let mut child = start(fleet.ns(), &["explain", "fleet"]);
    drop(child.stdout.take());
    let ended = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap()).await.unwrap();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
}
