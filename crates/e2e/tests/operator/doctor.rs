//! `llmscaler doctor`: one thing broken at a time, and what is said of it.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Patch, PatchParams};
use llmscaler_e2e::ApiServer::{Real, Sandbox};
use llmscaler_e2e::{ApiServer, Namespace, deployment};
use rstest::rstest;
use serde_json::{Value, json};

use crate::fleet::Fleet;
use crate::scaler::{on_load, scaler};
use crate::told::{Told, llmscaler, start};

/// Severity, check and text of each finding about a scaler of the namespace.
pub fn findings(told: &Told, ns: &Namespace, name: &str) -> Vec<(String, String, String)> {
    let document = told.json();
    let subject = format!("{}/{name}", ns.name());
    let reports = document["reports"].as_array().unwrap();
    let report = reports.iter().find(|report| report["subject"] == *subject).unwrap_or_else(|| panic!("{document:#}"));
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    let each = report["findings"].as_array().unwrap().iter();
    each.map(|finding| (text(finding, "severity"), text(finding, "check"), text(finding, "found") + " → " + &text(finding, "do"))).collect()
}

/// Examines the scaler `fleet`, and checks that this, among others, was found.
async fn finds(ns: &Namespace, severity: &str, check: &str, words: &str) -> Told {
    let told = llmscaler(ns, &["doctor", "fleet", "-o", "json"]).await;
    let all = findings(&told, ns, "fleet");
    let found = all.iter().any(|(as_, about, text)| as_ == severity && about == check && text.contains(words));
    assert!(found, "no {severity} of {check} with {words:?} in {all:#?}");
    let code = if all.iter().any(|(severity, ..)| severity == "problem") { 1 } else { 3 };
    assert_eq!(told.code, Some(code), "{all:#?}");
    told
}

#[rstest]
#[tokio::test]
async fn a_fleet_in_good_health_is_told_so(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(fleet) = Fleet::start(on, "healthy", 2).await else { return };
    fleet.load(1.0).await;
    fleet.scale_on_load(json!({})).await;
    fleet.condition("ScalingActive", "True", "ValidMetricFound").await;
    let account = format!("{}/llmscaler", fleet.ns().name());
    let told = llmscaler(fleet.ns(), &["doctor", "fleet", "-o", "json", "--operator-account", &account]).await;
    let all = findings(&told, fleet.ns(), "fleet");
    assert_eq!(told.code, Some(0), "{all:#?}\n{}", told.errors);
    for (check, words) in [
        ("target", "Deployment fleet has 2 replicas, all ready"),
        ("rights", "may do all that this scaler takes"),
        ("source", "answers, asked from here"),
        ("query", "load: 1 against a target of 1"),
        ("drain", "a pod has 300 s to finish"),
        ("status", "the operator looks after it"),
    ] {
        assert!(all.iter().any(|(severity, about, text)| severity == "ok" && about == check && text.contains(words)), "{words}: {all:#?}");
    }
    let text = llmscaler(fleet.ns(), &["doctor"]).await;
    assert!(text.out.contains("0 problems, 0 warnings"), "{text:#?}");
}

/// A fleet with a scaler and no operator.
async fn alone(on: ApiServer, purpose: &str, more: Value) -> Option<Namespace> {
    let ns = on.namespace(purpose).await?;
    ns.create(&deployment("fleet", 2)).await;
    ns.apply(&on_load(&ns, more)).await;
    Some(ns)
}

#[rstest]
#[tokio::test]
async fn a_query_that_gives_no_single_value_is_a_problem(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(ns) = alone(on, "queries", json!({})).await else { return };
    finds(&ns, "problem", "query", "no series matches").await;
    let each = format!(r#"load{{namespace="{}"}}"#, ns.name());
    ns.apply(&on_load(&ns, json!({"metrics": [{"name": "load", "query": each, "target": "1"}]}))).await;
    for pod in ["left", "right"] {
        ns.exporter().set("load", &[("pod", pod)], 900.0);
    }
    ns.exporter().scraped().await;
    let told = finds(&ns, "problem", "query", "2 series came back where one number is needed").await;
    assert!(told.errors.contains("llmscaler: doctor: 1 problem"), "{told:#?}");
    ns.apply(&on_load(&ns, json!({}))).await;
    finds(&ns, "warning", "query", "900 times as much").await;
    ns.apply(&on_load(&ns, json!({"metrics": [{"name": "load", "query": "avg(load", "target": "1"}]}))).await;
    finds(&ns, "problem", "query", "parse error").await;
}

#[rstest]
#[tokio::test]
async fn a_source_that_cannot_be_asked_is_one_problem(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(ns) = alone(on, "sources", json!({"serverAddress": "http://127.0.0.1:1"})).await else { return };
    let told = finds(&ns, "problem", "source", "cannot be reached from here").await;
    assert!(findings(&told, &ns, "fleet").iter().all(|(severity, check, _)| check != "query" || severity != "problem"));
    let other = ns.plane().prometheus().url().to_owned();
    let told = llmscaler(&ns, &["doctor", "fleet", "-o", "json", "--prometheus", &other]).await;
    assert!(findings(&told, &ns, "fleet").iter().any(|(severity, check, _)| check == "source" && severity == "ok"), "{told:#?}");

    ns.apply(&on_load(&ns, json!({"serverAddress": "http://prometheus.monitoring.svc:9090"}))).await;
    finds(&ns, "warning", "source", "kubectl port-forward -n monitoring svc/prometheus 9090").await;
    let token = json!([{"name": "Authorization", "prefix": "Bearer ", "secretKeyRef": {"name": "prom", "key": "token"}}]);
    ns.apply(&on_load(&ns, json!({"serverHeadersFrom": token}))).await;
    finds(&ns, "problem", "source", "there is no Secret prom").await;
}

#[rstest]
#[tokio::test]
async fn a_target_that_is_not_there_is_a_problem_and_those_that_are_there_are_named(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(ns) = alone(on, "targets", json!({"targetRef": {"name": "fleets"}})).await else { return };
    finds(&ns, "problem", "target", "there is no Deployment fleets in namespace").await;
    finds(&ns, "problem", "target", "there is fleet").await;
    ns.apply(&on_load(&ns, json!({"targetRef": {"apiVersion": "apps/v1", "kind": "Engine"}}))).await;
    finds(&ns, "problem", "target", "serves no Engine in apps/v1").await;
}

#[rstest]
#[tokio::test]
async fn whoever_else_decides_on_the_size_is_named(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(ns) = alone(on, "rivals-of", json!({})).await else { return };
    ns.exporter().set("load", &[], 1.0);
    ns.exporter().scraped().await;
    let replicas = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "fleet"}, "spec": {"replicas": 2}});
    let argo = PatchParams::apply("argocd-controller").force();
    ns.api::<Deployment>().patch("fleet", &argo, &Patch::Apply(&replicas)).await.unwrap();
    finds(&ns, "warning", "owner", "ignoreDifferences").await;

    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "fleet"});
    let hpa = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "cpu"},
        "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 2}});
    ns.apply(&hpa.to_string()).await;
    let hpa = "HorizontalPodAutoscaler cpu scales Deployment fleet too, so nothing is written → delete it with kubectl delete hpa cpu";
    finds(&ns, "problem", "owner", hpa).await;

    let fleet: Value = serde_json::from_str(&on_load(&ns, json!({}))).unwrap();
    ns.apply(&scaler("second", &fleet["spec"])).await;
    finds(&ns, "problem", "owner", "LLMScaler second scales Deployment fleet too").await;
}

#[rstest]
#[tokio::test]
async fn a_grace_period_that_cuts_answers_off_is_a_warning_with_an_exit_code_of_its_own(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(ns) = alone(on, "graces", json!({})).await else { return };
    ns.exporter().set("load", &[], 1.0);
    ns.exporter().scraped().await;
    let short = json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 10}}}});
    ns.patch(&ns.deployments(), "fleet", &short).await;
    let told = finds(&ns, "warning", "drain", "a pod has 10 s to finish").await;
    assert_eq!(told.code, Some(3));
    assert!(told.errors.contains("doctor: 1 warning found"), "{told:#?}");
}

#[tokio::test]
async fn rights_that_the_operator_lacks_are_named() {
    let Some(ns) = alone(Real, "rights", json!({})).await else { return };
    ns.plane().service_account(ns.name(), "powerless").await;
    let account = format!("{}/powerless", ns.name());
    let told = llmscaler(&ns, &["doctor", "fleet", "-o", "json", "--operator-account", &account]).await;
    let all = findings(&told, &ns, "fleet");
    let denied = all.iter().find(|(severity, check, _)| check == "rights" && severity == "problem").unwrap_or_else(|| panic!("{all:#?}"));
    assert!(denied.2.contains("patch deployments.apps/scale") && denied.2.contains("config/rbac/role.yaml"), "{denied:?}");
    assert_eq!(told.code, Some(1));
}

#[rstest]
#[tokio::test]
async fn arguments_a_cluster_that_is_away_and_a_closed_pipe(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(ns) = alone(on, "edges", json!({})).await else { return };
    assert_eq!(llmscaler(&ns, &["doctor", "--operator-account", "x"]).await.code, Some(2));
    assert_eq!(llmscaler(&ns, &["doctor", "nobody"]).await.code, Some(1));
    let away = llmscaler(&ns, &["doctor", "--context", "nowhere"]).await;
    assert!(away.code == Some(1) && away.errors.contains("--context"), "{away:#?}");
    let mut child = start(&ns, &["doctor"]);
    drop(child.stdout.take());
    let ended = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap()).await.unwrap();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
}
