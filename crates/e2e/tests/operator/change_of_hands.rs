//! From another autoscaler to an LLMScaler and back, by the commands that `llmscaler migrate` prints, each as it stands.

use std::path::Path;
use std::process::{Command, Output};

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use llmscaler_e2e::{ADMIN_TOKEN, ControlPlane, Namespace, binary, built, deployment, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::epp::{Epp, SERVICE};
use crate::fleet::{Fleet, SOON, condition, operator_of};
use crate::keda::{self, Keda};
use crate::metrics_adapter::Adapter;

/// A terminal in a folder of its own, with kubectl and llmscaler set up for the namespace.
struct Terminal {
    folder: TempDir,
    kubeconfig: std::path::PathBuf,
}

impl Terminal {
    /// `None`, with a sentence on stderr, when kubectl was never built.
    ///
    /// # Panics
    /// When it is missing under `LLMSCALER_E2E=require`.
    fn open(ns: &Namespace) -> Option<Self> {
        let kubectl = built("helm", &["kubectl"])?.join("kubectl");
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(kubectl, folder.path().join("kubectl")).unwrap();
        std::os::unix::fs::symlink(binary(), folder.path().join("llmscaler")).unwrap();
        Some(Self { folder, kubeconfig: ns.plane().kubeconfig(ADMIN_TOKEN) })
    }

    /// Runs a line to its end.
    async fn run(&self, line: &str) -> Output {
        let path = format!("{}:{}", self.folder.path().display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(self.folder.path()).env("PATH", path).env("KUBECONFIG", &self.kubeconfig);
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }

    /// As [`Terminal::run`]; answers what it printed, and fails if it failed.
    async fn says(&self, line: &str) -> String {
        let output = self.run(line).await;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{line}\n{}\n{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }

    /// The commands of the only step whose sentence begins like this.
    fn step<'a>(plan: &'a Value, begins: &str) -> Vec<&'a str> {
        let steps = plan.as_array().unwrap().iter().filter(|step| step["why"].as_str().unwrap().starts_with(begins));
        let [step] = steps.collect::<Vec<_>>()[..] else { panic!("not one step {begins}: {plan:#}") };
        step["commands"].as_array().unwrap().iter().map(|command| command.as_str().unwrap()).collect()
    }

    async fn take(&self, plan: &Value, begins: &str) -> Vec<String> {
        let mut printed = vec![];
        for command in Self::step(plan, begins) {
            printed.push(self.says(command).await);
        }
        printed
    }

    /// Turns the object of a file into a scaler, which is kept as the plan has it, and answers the plan.
    async fn migrate(&self, arguments: &str) -> Value {
        self.says(&format!("llmscaler migrate {arguments} > scalers.yaml")).await;
        let document: Value = serde_json::from_str(&self.says(&format!("llmscaler migrate {arguments} -o json")).await).unwrap();
        document["plan"].clone()
    }

    fn holds(&self, file: &str) -> bool {
        Path::new(self.folder.path()).join(file).is_file()
    }
}

/// The object of llm-d's guide for KEDA with EPP metrics, with windows of seconds.
fn scaled_object(ns: &Namespace) -> Value {
    let labels = format!(r#"namespace="{}",service="{SERVICE}",model_name="qwen3-32b""#, ns.name());
    let trigger = |name: &str, metric: &str, threshold: &str| {
        json!({
            "type": "prometheus",
            "name": name,
            "metricType": "AverageValue",
            "metadata": {
                "serverAddress": ns.plane().prometheus().url(),
                "query": format!("sum({metric}{{{labels}}})"),
                "threshold": threshold,
            },
        })
    };
    let rules =
        |window: u32| json!({"stabilizationWindowSeconds": window, "policies": [{"type": "Percent", "value": 100, "periodSeconds": 2}]});
    let behavior = json!({"scaleUp": rules(0), "scaleDown": rules(300)});
    json!({
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "fleet"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "fleet"},
            "pollingInterval": 15,
            "cooldownPeriod": 300,
            "minReplicaCount": 1,
            "maxReplicaCount": 8,
            "advanced": {"horizontalPodAutoscalerConfig": {"name": "keda-hpa-fleet", "behavior": behavior}},
            "triggers": [
                trigger("epp-queue-size", "llm_d_epp_flow_control_queue_size", "1"),
                trigger("epp-running-requests", "llm_d_epp_request_running", "16"),
            ],
        },
    })
}

/// Whether a scaler only recommends beside somebody whom it names.
fn watches<'a>(who: &'a str) -> impl Fn(&Value) -> bool + 'a {
    move |status: &Value| {
        let owned = condition(status, "TargetOwned");
        owned["reason"] == "RecommendOnly" && owned["message"] == who
    }
}

async fn differs_by(fleet: &Fleet, difference: i64) {
    let series = format!("llmscaler_replicas_difference{{namespace=\"{}\",name=\"fleet\"}} {difference}", fleet.ns().name());
    eventually(&series, SOON, || async {
        let metrics = fleet.operator().metrics().await;
        if metrics.lines().any(|line| line == series) { Ok(()) } else { Err(metrics) }
    })
    .await;
}

/// The scaler of the plan has the period of KEDA's HPA, which is too long for a test.
async fn hasten(fleet: &Fleet) {
    fleet.edit(json!({"syncPeriodSeconds": 1})).await;
}

#[tokio::test]
async fn keda_hands_over_without_a_gap_and_takes_the_target_back() {
    let Some(plane) = ControlPlane::start().await else { return };
    let ns = plane.namespace("from-keda").await;
    let Some(terminal) = Terminal::open(&ns) else { return };
    plane.apply(&keda::definition().to_string()).await;
    ns.create(&deployment("fleet", 2)).await;
    let adapter = Adapter::start(&ns).await;
    let operator = operator_of(&ns).await;
    let fleet = Fleet::of(ns, operator);
    let (ns, epp) = (fleet.ns(), Epp::start(fleet.ns().exporter()));
    let of_keda = |running: i64| {
        adapter.set("s0-epp-queue-size", 0);
        adapter.set("s1-epp-running-requests", running);
    };
    // KEDA scales: 40 requests at 16 a replica.
    of_keda(40);
    epp.load(40, 0);
    ns.exporter().scraped().await;
    ns.apply(&scaled_object(ns).to_string()).await;
    let keda = Keda::start(ns, "fleet");
    fleet.is_serving(3).await;
    let sizes = fleet.sizes().await;

    terminal.says(&format!("kubectl get scaledobject fleet -n {} -o yaml > fleet.yaml", ns.name())).await;
    let plan = terminal.migrate("-f fleet.yaml").await;
    terminal.take(&plan, "Keep what there is").await;
    assert!(terminal.holds(&format!("{}.fleet.scaledobject.yaml", ns.name())));
    terminal.take(&plan, "Save the scalers").await;
    hasten(&fleet).await;
    fleet.status("beside KEDA", watches("ScaledObject fleet scales Deployment fleet too")).await;
    differs_by(&fleet, 0).await;
    // What the scaler sees first, it shows and does not write; then KEDA does.
    epp.load(60, 0);
    differs_by(&fleet, 1).await;
    sizes.were(&[3]).await;
    of_keda(60);
    fleet.is_serving(4).await;
    differs_by(&fleet, 0).await;
    let compared = terminal.take(&plan, "Compare for a day").await;
    let doctor = compared[2].split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(compared[0].contains("keda-hpa-fleet") && doctor.contains("Deployment fleet too; this one only recommends"), "{compared:#?}");

    terminal.take(&plan, "Hand over").await;
    assert!(ns.api::<HorizontalPodAutoscaler>().get_opt("keda-hpa-fleet").await.unwrap().is_none());
    fleet.condition("TargetOwned", "True", "OnlyOwner").await;
    fleet.keeps_size(4).await;
    epp.load(90, 0);
    fleet.is_serving(6).await;
    let events = terminal.take(&plan, "See it work").await;
    assert!(events[0].contains("SuccessfulRescale"), "{events:?}");
    terminal.take(&plan, "Only then delete").await;
    fleet.keeps_size(6).await;

    // And back, from the file that was kept.
    of_keda(90);
    let back = Terminal::step(&plan, "To go back");
    terminal.says(back[0]).await;
    let (_, apply) = back[1].split_once("or, once it is deleted: ").unwrap();
    terminal.says(apply).await;
    fleet.status("beside KEDA again", watches("ScaledObject fleet scales Deployment fleet too")).await;
    fleet.keeps_size(6).await;
    of_keda(112);
    fleet.is_serving(7).await;
    sizes.were(&[3, 4, 6, 7]).await;
    drop(keda);
}

#[tokio::test]
async fn an_hpa_hands_over_without_a_gap_and_takes_the_target_back() {
    let Some(plane) = ControlPlane::start().await else { return };
    let ns = plane.namespace("from-hpa").await;
    let Some(terminal) = Terminal::open(&ns) else { return };
    ns.create(&deployment("fleet", 2)).await;
    let adapter = Adapter::start(&ns).await;
    let operator = operator_of(&ns).await;
    let fleet = Fleet::of(ns, operator);
    let ns = fleet.ns();
    let set = |waiting: i64| {
        adapter.set("requests_waiting", waiting);
        ns.exporter().set("requests_waiting", &[("pool", "chat")], waiting as f64);
    };
    set(15);
    ns.exporter().scraped().await;
    let metric = json!({"name": "requests_waiting", "selector": {"matchLabels": {"namespace": ns.name(), "pool": "chat"}}});
    let metrics = json!([{"type": "External", "external": {"metric": metric, "target": {"type": "AverageValue", "averageValue": "5"}}}]);
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "fleet"});
    let hpa = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "fleet"},
        "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 8, "metrics": metrics}});
    ns.apply(&hpa.to_string()).await;
    fleet.is_serving(3).await;
    let sizes = fleet.sizes().await;

    terminal.says(&format!("kubectl get hpa fleet -n {} -o yaml > hpa.yaml", ns.name())).await;
    let plan = terminal.migrate(&format!("-f hpa.yaml --server-address {}", ns.plane().prometheus().url())).await;
    terminal.take(&plan, "Keep what there is").await;
    terminal.take(&plan, "Save the scalers").await;
    hasten(&fleet).await;
    fleet.status("beside the HPA", watches("HorizontalPodAutoscaler fleet scales Deployment fleet too")).await;
    differs_by(&fleet, 0).await;
    terminal.take(&plan, "Compare for a day").await;

    terminal.take(&plan, "Hand over").await;
    fleet.condition("TargetOwned", "True", "OnlyOwner").await;
    fleet.keeps_size(3).await;
    set(25);
    fleet.is_serving(5).await;

    for command in Terminal::step(&plan, "To go back") {
        terminal.says(command).await;
    }
    fleet.status("beside the HPA again", watches("HorizontalPodAutoscaler fleet scales Deployment fleet too")).await;
    fleet.keeps_size(5).await;
    set(30);
    fleet.is_serving(6).await;
    sizes.were(&[3, 5, 6]).await;
}
