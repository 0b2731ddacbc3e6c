//! Which pods a scale-down removes, and what it leaves behind on the others.

use std::collections::BTreeSet;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use llmscaler_e2e::ApiServer::{Real, Sandbox};
use llmscaler_e2e::{ApiServer, Namespace, deployment, eventually};
use rstest::rstest;
use serde_json::{Value, json};

use crate::fleet::{SOON, operator_of};
use crate::marks::{COST, MARK, MarkWatch, annotate, set_cost};
use crate::scaler::on_load;
use crate::steered::{Steered, settles_at};

/// Each fleet is scaled down so often, side by side with the others.
const ROUNDS: usize = 5;
const FLEETS: usize = 10;

/// The pairs among four pods, so that now the oldest, now the newest are the coldest.
const COLD: [[usize; 2]; 6] = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]];

#[rstest]
#[tokio::test]
async fn of_fifty_scale_downs_all_fifty_take_the_coldest_pods(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(ns) = on.namespace("coldest").await else { return };
    let _operator = operator_of(&ns).await;
    let wrong: Vec<String> = join_all((0..FLEETS).map(|index| scale_down_again_and_again(&ns, index))).await.concat();
    let all = FLEETS * ROUNDS;
    assert!(wrong.is_empty(), "{} of {all} took others than the coldest:\n{}", wrong.len(), wrong.join("\n"));
}

/// Scales a fleet from 4 to 2 and back, and returns what went wrong.
async fn scale_down_again_and_again(ns: &Namespace, index: usize) -> Vec<String> {
    let name = format!("fleet-{index}");
    let series = [("fleet", name.as_str())];
    let exporter = ns.exporter();
    exporter.set("load", &series, 4.0);
    ns.create(&deployment(&name, 4)).await;
    ns.apply(&by_total(ns, &name, json!({}))).await;

    let mut wrong = Vec::new();
    for round in 0..ROUNDS {
        settles_at(ns, &name, 4).await;
        let before = live(ns, &name, 4).await;
        let cold = COLD[(index + round) % COLD.len()];
        for (place, pod) in before.iter().enumerate() {
            // Warm pods are not in the order of their age, either.
            let warmth = if cold.contains(&place) { 0.1 } else { 0.9 } - 0.01 * place as f64;
            exporter.set("kv", &[series[0], ("pod", pod)], warmth);
        }
        exporter.scraped().await;
        exporter.set("load", &series, 2.0);
        settles_at(ns, &name, 2).await;
        let after = live(ns, &name, 2).await;
        let warm: BTreeSet<_> = before.iter().enumerate().filter(|(place, _)| !cold.contains(place)).map(|(_, pod)| pod).collect();
        if after.iter().collect::<BTreeSet<_>>() != warm {
            wrong.push(format!("{name}, round {round}: of {before:?} {warm:?} should have stayed, not {after:?}"));
        }
        for pod in before.iter().filter(|pod| !after.contains(pod)) {
            exporter.remove("kv", &[series[0], ("pod", pod)]);
        }
        exporter.set("load", &series, 4.0);
    }
    wrong
}

/// The names of a fleet's pods that are not shutting down, oldest first, once there are `count`.
async fn live(ns: &Namespace, fleet: &str, count: usize) -> Vec<String> {
    let what = format!("{count} pods of {fleet}");
    eventually(&what, SOON, || async {
        let pods = ns.pods(&format!("app={fleet}")).await;
        let names: Vec<_> = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).map(|pod| pod.name_any()).collect();
        if names.len() == count { Ok(names) } else { Err(format!("{names:?}")) }
    })
    .await
}

/// A scaler that keeps as many replicas as `load` says, and asks `kv` which pods are cold.
fn by_total(ns: &Namespace, fleet: &str, more: Value) -> String {
    let labels = format!(r#"{{namespace="{}",fleet="{fleet}"}}"#, ns.name());
    let mut scaler: Value = serde_json::from_str(&on_load(ns, more)).unwrap();
    scaler["metadata"]["name"] = fleet.into();
    scaler["spec"]["targetRef"]["name"] = fleet.into();
    scaler["spec"]["metrics"] =
        json!([{"name": "load", "query": format!("sum(load{labels})"), "target": "1", "metricType": "AverageValue"}]);
    scaler["spec"]["scaleDown"] = json!({"deletionCostQuery": format!("kv{labels} * 100")});
    scaler.to_string()
}

/// Two pods of `fleet`, and two that are younger by a second or more; oldest first.
async fn two_old_and_two_new(test: &Steered, more: Value) -> [String; 4] {
    test.ask(2);
    test.ns.create(&deployment("fleet", 2)).await;
    test.settles_at(2).await;
    // Ages count in whole seconds.
    let newest = test.ns.pods("app=fleet").await.iter().filter_map(ResourceExt::creation_timestamp).max().unwrap().0;
    eventually("a second older", SOON, || async { if newest.duration_until(Timestamp::now()).as_secs() > 0 { Ok(()) } else { Err("no") } })
        .await;
    test.scale(more).await;
    test.ask(4);
    test.settles_at(4).await;
    live(&test.ns, "fleet", 4).await.try_into().unwrap()
}

#[rstest]
#[tokio::test]
async fn without_a_query_the_newest_pods_are_marked_below_every_survivor_and_go(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(test) = Steered::start(on, "newest").await else { return };
    let [old, older, new, newer] = two_old_and_two_new(&test, json!({})).await;
    let marks = MarkWatch::start(&test.ns).await;
    set_cost(&test.ns, &old, "-500").await;
    set_cost(&test.ns, &newer, "1000").await;
    test.ask(2);
    test.settles_at(2).await;
    assert_eq!(live(&test.ns, "fleet", 2).await, [old.clone(), older]);
    let costs = |costs: &[&str]| costs.iter().map(|cost| (*cost).to_owned()).collect::<BTreeSet<_>>();
    let expected = [(old, costs(&["-500"])), (new, costs(&["-501"])), (newer, costs(&["-501", "1000"]))];
    assert_eq!(marks.seen(), expected.into());
}

#[rstest]
#[tokio::test]
async fn pods_that_are_not_ready_are_marked_and_go_before_all_others(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(test) = Steered::start(on, "unready").await else { return };
    let pods = two_old_and_two_new(&test, json!({})).await;
    let marks = MarkWatch::start(&test.ns).await;
    let oldest = pods[0].clone();
    test.ns.kubelet().hold_unready(move |pod| pod.name_any() == oldest);
    test.ns.wait_for(&test.ns.deployments(), "fleet", "3 ready of 4", SOON, |fleet| fleet["status"]["readyReplicas"] == 3).await;
    // A fleet that is not settled shrinks for no other reason.
    test.scale(json!({"maxReplicas": 3})).await;
    test.settles_at(3).await;
    assert_eq!(live(&test.ns, "fleet", 3).await, pods[1..]);
    assert_eq!(marks.pods(), BTreeSet::from([pods[0].clone()]));
}

#[rstest]
#[tokio::test]
async fn a_partial_answer_of_the_query_counts_for_nothing(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(ns) = on.namespace("partial").await else { return };
    let _operator = operator_of(&ns).await;
    let exporter = ns.exporter();
    let series = [("fleet", "fleet")];
    exporter.set("load", &series, 4.0);
    exporter.scraped().await;
    ns.create(&deployment("fleet", 2)).await;
    settles_at(&ns, "fleet", 2).await;
    ns.apply(&by_total(&ns, "fleet", json!({}))).await;
    settles_at(&ns, "fleet", 4).await;
    let pods = live(&ns, "fleet", 4).await;
    let marks = MarkWatch::start(&ns).await;
    // The oldest would be the coldest by far, but nothing is known of the newest.
    for (pod, warmth) in pods[..3].iter().zip([0.0, 1.0, 1.0]) {
        exporter.set("kv", &[series[0], ("pod", pod)], warmth);
    }
    exporter.scraped().await;
    exporter.set("load", &series, 2.0);
    settles_at(&ns, "fleet", 2).await;
    assert_eq!(live(&ns, "fleet", 2).await, pods[..2]);
    assert_eq!(marks.pods(), pods[2..].iter().cloned().collect());
}

#[rstest]
#[tokio::test]
async fn with_behavior_none_no_pod_is_ever_marked(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(test) = Steered::start(on, "none").await else { return };
    test.ask(4);
    test.ns.create(&deployment("fleet", 4)).await;
    test.scale(json!({"scaleDown": {"behavior": "None"}})).await;
    test.settles_at(4).await;
    let marks = MarkWatch::start(&test.ns).await;
    for replicas in [2, 3, 1] {
        test.ask(replicas);
        test.settles_at(replicas).await;
    }
    assert_eq!(marks.pods(), BTreeSet::new());
}

#[rstest]
#[tokio::test]
async fn a_mark_on_a_pod_that_stays_is_taken_back_and_the_users_own_cost_restored(#[values(Real, Sandbox)] on: ApiServer) {
    let Some(test) = Steered::start(on, "restored").await else { return };
    test.ask(3);
    test.ns.create(&deployment("fleet", 3)).await;
    test.scale(json!({})).await;
    test.settles_at(3).await;
    let pods = live(&test.ns, "fleet", 3).await;
    // As an operator leaves them that was killed between its mark and the write.
    annotate(&test.ns, &pods[0], json!({COST: "-100", MARK: "-100:7"})).await;
    annotate(&test.ns, &pods[1], json!({COST: "-100", MARK: "-100:"})).await;
    // What somebody has changed since is theirs.
    annotate(&test.ns, &pods[2], json!({COST: "5", MARK: "-100:7"})).await;
    let api = test.ns.api::<Pod>();
    for (pod, cost) in pods.iter().zip([json!("7"), Value::Null, json!("5")]) {
        let what = format!("unmarked, its cost {cost}");
        let clean = |pod: &Value| pod["metadata"]["annotations"][MARK].is_null() && pod["metadata"]["annotations"][COST] == cost;
        test.ns.wait_for(&api, pod, &what, SOON, clean).await;
    }
}

#[tokio::test]
async fn a_write_that_is_refused_leaves_no_mark_behind() {
    let Some(test) = Steered::start(Real, "refused").await else { return };
    let pods = two_old_and_two_new(&test, json!({})).await;
    set_cost(&test.ns, &pods[3], "7").await;
    refuse_sizes_below(&test.ns, 4).await;
    let marks = MarkWatch::start(&test.ns).await;
    test.ask(2);
    eventually("marked", SOON, || async { if marks.pods().contains(&pods[2]) { Ok(()) } else { Err(format!("{:?}", marks.seen())) } })
        .await;
    test.ask(4);
    let api = test.ns.api::<Pod>();
    for (pod, cost) in pods.iter().zip([Value::Null, Value::Null, Value::Null, json!("7")]) {
        let what = format!("unmarked, its cost {cost}");
        let clean = |pod: &Value| pod["metadata"]["annotations"][MARK].is_null() && pod["metadata"]["annotations"][COST] == cost;
        test.ns.wait_for(&api, pod, &what, SOON, clean).await;
    }
    assert_eq!(live(&test.ns, "fleet", 4).await, pods);
    assert_eq!(marks.pods(), pods[2..].iter().cloned().collect());
}

/// Has the API server refuse to make a Deployment of this namespace smaller than `least`.
async fn refuse_sizes_below(ns: &Namespace, least: i32) {
    let name = format!("{}-sizes", ns.name());
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [
                {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments/scale"], "operations": ["UPDATE"]},
            ]},
            "validations": [{"expression": format!("object.spec.replicas >= {least}"), "message": "the test refuses this size"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {
            "policyName": name,
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns.name()}}},
        },
    });
    ns.plane().apply(&policy.to_string()).await;
    ns.plane().apply(&binding.to_string()).await;
    let rehearsal = PatchParams { dry_run: true, ..PatchParams::default() };
    let smaller = json!({"spec": {"replicas": least - 1}});
    eventually("refused", SOON, || async {
        match ns.deployments().patch_scale("fleet", &rehearsal, &Patch::Merge(&smaller)).await {
            Err(kube::Error::Api(status)) if status.message.contains("the test refuses this size") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}
