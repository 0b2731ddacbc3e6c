//! The chart for trying the operator out: what it renders, its drain, and a fleet that a metric set by hand scales.

mod drain;
mod loadgen;
mod model_check;
mod scaling;

use std::io::Write as _;
use std::process::Command;
use std::sync::Once;

use serde_json::{Value, json};

use crate::client::{Client, HELMS};
use crate::objects::{container, identity, objects, of_kind, the};

const CHART: &str = "test/charts/vllm-mock";

/// The objects of release `opt` in namespace `serving`.
fn rendered(helm: &Client, set: &str) -> Result<Vec<Value>, String> {
    rendered_as(helm, "opt", set)
}

fn rendered_as(helm: &Client, release: &str, set: &str) -> Result<Vec<Value>, String> {
    let set = format!("--set={set}");
    helm.run(["template", release, CHART, "--namespace=serving", "--kube-version=1.36.3", &set]).map(|yaml| objects(&yaml))
}

/// Whether there is a Python to run the pods' scripts by; if not, a sentence on stderr says so.
///
/// # Panics
/// When it is missing under `LLMSCALER_E2E=require`.
fn has_python() -> bool {
    static ANNOUNCED: Once = Once::new();
    let found = Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        let sentence = "tests of the scripts in test/charts/vllm-mock need python3 on the PATH";
        assert!(std::env::var("LLMSCALER_E2E").as_deref() != Ok("require"), "{sentence}");
        ANNOUNCED.call_once(|| {
            let _ = writeln!(std::io::stderr(), "skipped: {sentence}");
        });
    }
    found
}

fn texts(list: &Value) -> Vec<String> {
    serde_json::from_value(list.clone()).unwrap()
}

#[test]
fn every_combination_lints_and_renders_the_same_with_each_helm() {
    let (Some(three), Some(four)) = (Client::new(HELMS[0]), Client::new(HELMS[1])) else { return };
    for set in [
        "global.of=a-parent-chart",
        "metricsMock.enabled=true,metricsMock.image=registry:5000/a:1",
        "metricsMock.enabled=true,metricsMock.value=1000000",
        "scaler.enabled=false,replicaCount=3,serviceMonitor.enabled=false,modelCheck.enabled=false",
        "lifecycle.preStop.enabled=false,lifecycle.shutdownTimeout=0,model.gpus=0,model.maxLen=",
        "scaler.scaleDown.deletionCostQuery=vllm:kv_cache_usage_perc{__SCOPE__},scaler.serverHeaders.A=b,scaler.scaleDown.maxStepReplicas=1",
        "model.gpus=2,extraArgs={--enforce-eager},nodeSelector.gpu=a100,tolerations[0].key=gpu,tolerations[0].operator=Exists",
    ] {
        let set_flag = format!("--set={set}");
        let objects = [&three, &four].map(|helm| {
            let said = helm.run(["lint", "--strict", CHART, &set_flag]).unwrap_or_else(|error| panic!("{set}: {error}"));
            assert!(!said.contains("[WARNING]") && !said.contains("[ERROR]"), "{set}: {said}");
            rendered(helm, set).unwrap_or_else(|error| panic!("{set}: {error}"))
        });
        assert_eq!(objects[0], objects[1], "{set}");
    }
}

#[test]
fn objects_have_the_names_that_are_documented_and_one_label_leads_to_the_pods() {
    let Some(helm) = Client::new(HELMS[1]) else { return };
    let all = rendered(&helm, "metricsMock.enabled=true").unwrap();
    let names: Vec<String> = all.iter().map(identity).collect();
    assert_eq!(
        names,
        [
            "Deployment serving opt-metrics-mock",
            "Deployment serving opt-vllm",
            "LLMScaler serving opt-scaler",
            "Service serving opt-metrics-mock",
            "Service serving opt-vllm-svc",
            "ServiceMonitor serving opt-vllm"
        ]
    );
    let [mock, vllm] = of_kind(&all, "Deployment").try_into().unwrap();
    for (deployment, app) in [(mock, "opt-metrics-mock"), (vllm, "opt-vllm")] {
        assert_eq!(deployment["spec"]["selector"]["matchLabels"], json!({"app": app}));
        assert_eq!(deployment["spec"]["template"]["metadata"]["labels"], json!({"app": app}));
    }
    let [_, service] = of_kind(&all, "Service").try_into().unwrap();
    assert_eq!(
        (&service["spec"]["selector"], &service["spec"]["ports"][0]["name"]),
        (&json!({"app": "opt-vllm"}), &json!("http-inference"))
    );
    assert_eq!(the(&all, "ServiceMonitor")["spec"]["podTargetLabels"], json!(["app"]));
    // The longest release that Helm takes.
    for object in rendered_as(&helm, &"x".repeat(53), "metricsMock.enabled=true").unwrap() {
        assert!(object["metadata"]["name"].as_str().unwrap().len() <= 63, "{}", identity(&object));
    }
}

#[test]
fn the_operator_owns_the_count_unless_there_is_no_scaler() {
    let Some(helm) = Client::new(HELMS[1]) else { return };
    let with = rendered(&helm, "replicaCount=3").unwrap();
    assert_eq!(the(&with, "Deployment")["spec"]["replicas"], json!(null));
    let without = rendered(&helm, "replicaCount=3,scaler.enabled=false").unwrap();
    assert_eq!(the(&without, "Deployment")["spec"]["replicas"], 3);
    assert!(of_kind(&without, "LLMScaler").is_empty());
}

#[test]
fn the_flags_of_vllm_follow_the_values_and_a_users_own_come_last() {
    let Some(helm) = Client::new(HELMS[1]) else { return };
    for (set, flags) in [
        ("", &["--served-model-name", "facebook/opt-125m", "opt-125m", "--port=8000", "--max-model-len=1024", "--shutdown-timeout=15"][..]),
        (
            "model.name=m,service.port=9000,model.maxLen=,model.gpus=2,lifecycle.shutdownTimeout=0,extraArgs={--seed=1}",
            &["--served-model-name", "m", "--port=9000", "--tensor-parallel-size=2", "--seed=1"],
        ),
    ] {
        let objects = rendered(&helm, set).unwrap();
        assert_eq!(texts(&container(&objects)["args"]), [&["/models"], flags].concat(), "{set}");
    }
    let gpus = |set: &str| container(&rendered(&helm, set).unwrap())["resources"].clone();
    assert_eq!(gpus("model.gpus=2"), json!({"limits": {"nvidia.com/gpu": "2"}}));
    assert_eq!(gpus("model.gpus=0"), json!(null));
}

#[test]
fn an_image_with_a_digest_takes_no_tag() {
    let Some(helm) = Client::new(HELMS[1]) else { return };
    for (set, image) in [
        ("", "vllm/vllm-openai:latest-cu129-ubuntu2404"),
        ("image.repository=registry:5000/vllm,image.tag=v0.18.0", "registry:5000/vllm:v0.18.0"),
        ("image.repository=r@sha256:abc", "r@sha256:abc"),
    ] {
        let objects = rendered(&helm, set).unwrap();
        let pod = &the(&objects, "Deployment")["spec"]["template"]["spec"];
        assert_eq!([&pod["initContainers"][0]["image"], &pod["containers"][0]["image"]], [image, image], "{set}");
    }
}

#[test]
fn more_than_the_grace_period_does_not_render_and_the_words_have_every_number() {
    let helms: Vec<Client> = HELMS.iter().filter_map(|name| Client::new(name)).collect();
    for helm in &helms {
        let refusal = rendered(helm, "lifecycle.shutdownTimeout=26").unwrap_err();
        for words in
            ["take 61 s", "endpointSyncSeconds 5 + drainSeconds 30 + shutdownTimeout 26", "terminationGracePeriodSeconds is 60", "to 61,"]
        {
            assert!(refusal.contains(words), "{words}: {refusal}");
        }
        rendered(helm, "lifecycle.shutdownTimeout=25").unwrap();
        rendered(helm, "lifecycle.preStop.endpointSyncSeconds=90,terminationGracePeriodSeconds=135").unwrap();
        rendered(helm, "lifecycle.preStop.endpointSyncSeconds=90,terminationGracePeriodSeconds=134").unwrap_err();
        // Steps that are off take no time.
        rendered(helm, "lifecycle.preStop.enabled=false,lifecycle.shutdownTimeout=60").unwrap();
        let refusal = rendered(helm, "lifecycle.preStop.enabled=false,lifecycle.shutdownTimeout=61").unwrap_err();
        assert!(refusal.contains("take 61 s (preStop is off") && refusal.contains("is 60"), "{refusal}");
    }
}

#[test]
fn a_value_that_does_not_exist_or_cannot_work_is_refused() {
    for helm in HELMS.iter().filter_map(|name| Client::new(name)) {
        for (set, words) in [
            ("lifecycle.preStop.drain=1", "drain"),
            ("lifecycle.preStop.drainSeconds=-1", "drainSeconds"),
            ("lifecycle.preStop.pollIntervalSeconds=0", "pollIntervalSeconds"),
            ("model.gpus=many", "gpus"),
            ("metricsMock.value=many", "value"),
            ("scaler.metrics[0].target=5", "query"),
            ("metricsMock.enabled=true,scaler.scaleDown.deletionCostQuery=a", "no label pod"),
        ] {
            let refusal = rendered(&helm, set).unwrap_err();
            assert!(refusal.contains(words), "{set}: {refusal}");
        }
    }
}

#[test]
fn queries_find_the_pods_of_this_release_and_the_mock_takes_the_place_of_prometheus() {
    let Some(helm) = Client::new(HELMS[1]) else { return };
    let spec = |set: &str| the(&rendered(&helm, set).unwrap(), "LLMScaler")["spec"].clone();
    let scope = r#"{namespace="serving",app="opt-vllm"}"#;
    let usual = spec("scaler.scaleDown.deletionCostQuery=kv{__SCOPE__}");
    let query = format!("avg(sum by (pod) (avg_over_time(vllm:num_requests_waiting{scope}[1m])))");
    assert_eq!(usual["metrics"], json!([{"name": "queue-depth", "query": query, "target": "5"}]));
    assert_eq!(usual["scaleDown"], json!({"behavior": "CacheAware", "deletionCostQuery": format!("kv{scope}")}));
    assert_eq!(usual["serverAddress"], "http://prometheus-operated.monitoring.svc:9090");
    let mocked = spec("metricsMock.enabled=true,scaler.serverHeaders.Authorization=secret");
    assert_eq!(mocked["serverAddress"], "http://opt-metrics-mock.serving.svc:9090");
    assert_eq!(mocked["serverHeaders"], json!(null));
}

#[test]
fn the_mocks_image_is_the_operators_of_the_same_version() {
    let Some(helm) = Client::new(HELMS[1]) else { return };
    let image = |set: &str| {
        let all = rendered(&helm, &format!("metricsMock.enabled=true{set}")).unwrap();
        of_kind(&all, "Deployment")[0]["spec"]["template"]["spec"]["containers"][0]["image"].clone()
    };
    assert_eq!(image(""), concat!("4pdosc/llm-operator:", env!("CARGO_PKG_VERSION")));
    assert_eq!(image(",metricsMock.image=registry:5000/a:1"), "registry:5000/a:1");
}
