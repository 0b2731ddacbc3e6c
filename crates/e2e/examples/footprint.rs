//! What the operator needs while it watches over a number of scalers: `cargo run --release -p llmscaler-e2e --example footprint -- 10 60`
//! with the number of scalers and the seconds to measure. The binary is that of `LLMSCALER_BIN`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement for people; whatever fails here ends it")]

use std::time::{Duration, Instant};

use llmscaler_e2e::{ControlPlane, Operator, deployment, eventually};
use serde_json::json;

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>().unwrap());
    let (scalers, seconds) = (arguments.next().unwrap_or(10), arguments.next().unwrap_or(60));
    let Some(plane) = ControlPlane::shared().await else { return };
    let ns = plane.namespace("footprint").await;
    let exporter = ns.exporter();
    exporter.set("load", &[], 1.0);
    exporter.scraped().await;
    for index in 0..scalers {
        let target = format!("fleet-{index}");
        ns.create(&deployment(&target, 1)).await;
        let query = format!(r#"avg(load{{namespace="{}"}})"#, ns.name());
        let spec = json!({
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target},
            "serverAddress": plane.prometheus().url(), "minReplicas": 1, "maxReplicas": 10,
            "metrics": [{"name": "load", "query": query, "target": "1"}],
        });
        let metadata = json!({"name": format!("scaler-{index}")});
        let kind = ("autoscaling.modelsphere.dev/v1alpha1", "LLMScaler");
        ns.apply(&json!({"apiVersion": kind.0, "kind": kind.1, "metadata": metadata, "spec": spec}).to_string()).await;
    }
    let operator = Operator::launch(&plane).start().await;
    eventually("every scaler has synced", Duration::from_secs(60), || async {
        let synced = operator.metric("llmscaler_sync_seconds_count").await.unwrap_or_default();
        if synced >= scalers as f64 { Ok(()) } else { Err(format!("{synced} syncs")) }
    })
    .await;

    let (started, cpu) = (Instant::now(), operator.metric("process_cpu_seconds_total").await.unwrap());
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let used = operator.metric("process_cpu_seconds_total").await.unwrap() - cpu;
    let memory = operator.metric("process_resident_memory_bytes").await.unwrap() / f64::from(1 << 20);
    println!("{scalers} scalers: {memory:.1} MiB resident, {:.4} cores", used / started.elapsed().as_secs_f64());
}
