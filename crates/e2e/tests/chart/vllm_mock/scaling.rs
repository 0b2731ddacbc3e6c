//! The chart on a real API server, and the operator at work on the metric that is set by hand.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use llmscaler_e2e::{ControlPlane, Namespace, Operator, binary};
use serde_json::{Value, json};

use super::{CHART, rendered, texts};
use crate::client::{Client, HELMS};
use crate::objects::the;
use crate::running::SOON;

/// The metrics mock as a process with the arguments of its pod, but for the port. Killed on drop.
struct MetricsMock {
    child: Child,
    url: String,
}

impl MetricsMock {
    fn start(deployment: &Value) -> Self {
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let [program, subcommand] = texts(&container["command"]).try_into().unwrap();
        assert_eq!(program, "/llmscaler");
        let mut arguments = texts(&container["args"]);
        arguments.retain(|argument| argument != "--bind-address=0.0.0.0:9090");
        let mut command = Command::new(binary());
        command.arg(subcommand).args(arguments).arg("--bind-address=127.0.0.1:0");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let url = said.split(' ').find(|word| word.starts_with("http://")).unwrap_or_else(|| panic!("no address in {said:?}"));
        Self { url: url.trim_end_matches(';').to_owned(), child }
    }

    async fn set(&self, value: &'static str) {
        let answer = reqwest::Client::new().put(format!("{}/value", self.url)).body(value).send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    }
}

impl Drop for MetricsMock {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn has_size(ns: &Namespace, replicas: i64) {
    let what = format!("asked to have {replicas} replicas");
    ns.wait_for(&ns.deployments(), "opt-vllm", &what, SOON, |fleet| fleet["spec"]["replicas"] == replicas).await;
}

#[tokio::test]
async fn the_fleet_follows_the_value_that_is_set_and_holds_what_is_unknown() {
    let Some(plane) = ControlPlane::shared().await else { return };
    let Some(helm) = Client::new(HELMS[1]) else { return };
    let helm = helm.on(&plane);
    let ns = plane.namespace("mocked").await;
    let namespace = format!("--namespace={}", ns.name());
    let set = "--set=metricsMock.enabled=true,serviceMonitor.enabled=false,scaler.syncPeriodSeconds=1";
    let notes = helm.run(["install", "opt", CHART, set, &namespace]).unwrap();
    assert!(notes.contains("takes at most 50 s") && notes.contains("curl -X PUT"), "{notes}");
    let mock = serde_json::to_value(ns.deployments().get("opt-metrics-mock").await.unwrap()).unwrap();
    let mock = MetricsMock::start(&mock);
    // Nothing here knows the address of its Service but a proxy, and the mock is one that answers itself.
    let operator = Operator::launch(&plane).env("http_proxy", &mock.url).start().await;

    // Ten waiting for each replica, with a target of five: twice as many, until there may be no more.
    has_size(&ns, 5).await;
    mock.set("5").await;
    let stays = async |what: &str| {
        ns.stays(&ns.deployments(), "opt-vllm", what, Duration::from_secs(4), |fleet| fleet["spec"]["replicas"] == 5).await;
    };
    stays("at its target").await;
    mock.set("NaN").await;
    stays("without a number").await;
    mock.set("0").await;
    has_size(&ns, 1).await;

    // An upgrade of the release leaves the size to the operator.
    mock.set("10").await;
    has_size(&ns, 5).await;
    mock.set("5").await;
    helm.run(["upgrade", "opt", CHART, set, "--set=extraArgs={--enforce-eager}", &namespace]).unwrap();
    stays("after an upgrade").await;
    assert!(operator.stop().await.success());
    helm.run(["uninstall", "opt", &namespace]).unwrap();
}

#[tokio::test]
async fn the_api_server_takes_every_scaler_that_the_chart_renders() {
    let Some(plane) = ControlPlane::shared().await else { return };
    let Some(helm) = Client::new(HELMS[1]) else { return };
    let ns = plane.namespace("rendered").await;
    for set in [
        "metricsMock.enabled=true",
        "scaler.minReplicas=0,scaler.serverHeaders.Authorization=Bearer a",
        "scaler.scaleDown.stabilizationWindowSeconds=120,scaler.scaleDown.maxStepReplicas=1,scaler.scaleDown.deletionCostQuery=kv{__SCOPE__}",
        "scaler.scaleDown.behavior=None,scaler.metrics[0].query=sum(a{__SCOPE__}),scaler.metrics[0].target=0.5,scaler.metrics[0].metricType=AverageValue",
    ] {
        let mut scaler = the(&rendered(&helm, set).unwrap(), "LLMScaler").clone();
        scaler["metadata"]["namespace"] = json!(ns.name());
        let [stored] = ns.try_apply(&scaler.to_string()).await.unwrap_or_else(|error| panic!("{set}: {error:#}")).try_into().unwrap();
        // The API server drops what the definition does not have.
        let stored = serde_json::to_value(stored).unwrap();
        for (key, value) in scaler["spec"].as_object().unwrap().iter().filter(|(key, _)| *key != "metrics") {
            assert_eq!(&stored["spec"][key], value, "{set}: {key}");
        }
        assert_eq!(stored["spec"]["metrics"][0]["query"], scaler["spec"]["metrics"][0]["query"], "{set}");
    }
}
