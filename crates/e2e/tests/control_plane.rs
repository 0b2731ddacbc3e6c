//! The harness itself, without the operator: what every other end-to-end test takes for granted.

use axum::http::{self, HeaderMap};
use axum::routing::get;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Service};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};
use llmscaler_e2e::{ControlPlane, DecisionServer, Operator, deployment, eventually, leader_worker_set, stateful_set};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(30);

fn ready(count: i32) -> impl Fn(&Value) -> bool {
    move |target| target["status"]["readyReplicas"].as_i64().unwrap_or_default() == i64::from(count)
}

#[tokio::test]
async fn a_deployment_becomes_ready_and_the_pods_marked_cheapest_go_first() {
    let Some(plane) = ControlPlane::shared().await else { return };
    let ns = plane.namespace("victims").await;
    let deployments = ns.deployments();
    ns.create(&deployment("web", 3)).await;
    ns.wait_for(&deployments, "web", "3 ready", SOON, ready(3)).await;

    let pods = ns.pods("app=web").await;
    let marked: Vec<_> = pods[..2].iter().map(ResourceExt::name_any).collect();
    for name in &marked {
        let mark = json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-100"}}});
        ns.patch(&ns.api::<Pod>(), name, &mark).await;
    }
    ns.scale(&deployments, "web", 1).await;
    ns.wait_for(&deployments, "web", "1 replica", SOON, |web| web["status"]["replicas"] == 1).await;
    let left = eventually("down to one pod", SOON, || async {
        let left = ns.pods("app=web").await;
        if left.len() == 1 { Ok(left) } else { Err(format!("{} pods", left.len())) }
    })
    .await;
    assert!(!marked.contains(&left[0].name_any()));
}

#[tokio::test]
async fn warm_up_drain_and_holds_take_the_time_that_the_test_says() {
    let Some(plane) = ControlPlane::shared().await else { return };
    let ns = plane.namespace("kubelet").await;
    let deployments = ns.deployments();
    let warm_up = Duration::from_secs(2);
    ns.kubelet().ready_after(warm_up);
    ns.kubelet().drain_for(Duration::from_secs(600));
    ns.kubelet().capacity(2);

    let started = Instant::now();
    ns.create(&deployment("web", 3)).await;
    ns.wait_for(&deployments, "web", "2 ready", SOON, ready(2)).await;
    assert!(started.elapsed() >= warm_up);
    let unschedulable = |pods: &[Pod]| {
        let conditions = pods.iter().filter_map(|pod| pod.status.as_ref()?.conditions.as_ref()).flatten();
        conditions.filter(|found| found.type_ == "PodScheduled" && found.reason.as_deref() == Some("Unschedulable")).count()
    };
    assert_eq!(unschedulable(&ns.pods("app=web").await), 1);

    ns.kubelet().ready_after(Duration::ZERO);
    ns.kubelet().capacity(3);
    ns.wait_for(&deployments, "web", "3 ready", SOON, ready(3)).await;
    assert_eq!(unschedulable(&ns.pods("app=web").await), 0);

    let held = ns.pods("app=web").await[0].name_any();
    ns.kubelet().hold_unready(move |pod| pod.name_any() == held);
    ns.wait_for(&deployments, "web", "2 ready of 3", SOON, ready(2)).await;
    ns.kubelet().hold_unready(|_| false);
    ns.wait_for(&deployments, "web", "3 ready again", SOON, ready(3)).await;

    ns.scale(&deployments, "web", 1).await;
    let draining = |web: &Value| web["status"]["replicas"] == 1 && web["status"]["terminatingReplicas"] == 2;
    ns.wait_for(&deployments, "web", "2 terminating", SOON, draining).await;
    ns.stays(&deployments, "web", "draining", Duration::from_secs(1), draining).await;
    ns.kubelet().drain_for(Duration::ZERO);
    ns.wait_for(&deployments, "web", "drained", SOON, |web| web["status"]["terminatingReplicas"] == 0).await;
}

#[tokio::test]
async fn a_stateful_set_and_a_leader_worker_set_scale() {
    let Some(plane) = ControlPlane::shared().await else { return };
    let ns = plane.namespace("kinds").await;
    let sets = ns.stateful_sets();
    ns.create(&stateful_set("db", 2)).await;
    ns.wait_for(&sets, "db", "2 ready", SOON, ready(2)).await;
    ns.scale(&sets, "db", 3).await;
    let db = ns.wait_for(&sets, "db", "3 ready", SOON, ready(3)).await;
    assert_eq!(db["status"]["currentRevision"], db["status"]["updateRevision"]);

    let groups = ns.leader_worker_sets();
    groups.create(&kube::api::PostParams::default(), &leader_worker_set("llm", 2, 4)).await.unwrap();
    ns.report_groups("llm", 2, 1, 2).await;
    ns.scale(&groups, "llm", 5).await;
    let llm = ns.wait_for(&groups, "llm", "asked for 5", SOON, |llm| llm["spec"]["replicas"] == 5).await;
    assert_eq!(llm["status"]["readyReplicas"], 1);
    let scale = groups.get_scale("llm").await.unwrap();
    assert_eq!(scale.status.unwrap().replicas, 2);
}

#[tokio::test]
async fn prometheus_answers_with_what_an_exporter_was_just_given() {
    let Some(plane) = ControlPlane::shared().await else { return };
    let ns = plane.namespace("metrics").await;
    let exporter = ns.exporter();
    let query = format!(r#"vllm:num_requests_waiting{{namespace="{}"}}"#, ns.name());
    let prometheus = plane.prometheus();

    exporter.set("vllm:num_requests_waiting", &[("pod", "a")], 7.0);
    exporter.scraped().await;
    assert_eq!(prometheus.value(&query).await, Some(7.0));

    exporter.set("vllm:num_requests_waiting", &[("pod", "b")], 5.0);
    exporter.scraped().await;
    assert_eq!(prometheus.value(&query).await, None, "two series are not one value");
    assert_eq!(prometheus.value(&format!("sum({query})")).await, Some(12.0));

    exporter.fail(true);
    exporter.scraped().await;
    assert_eq!(prometheus.value(&format!("sum({query})")).await, None, "a failed scrape ends the series");
}

#[tokio::test]
async fn prometheus_scrapes_an_address_that_it_is_given_later() {
    let Some(plane) = ControlPlane::shared().await else { return };
    let ns = plane.namespace("targets").await;
    let exporter = plane.exporter();
    exporter.set("direct", &[], 1.0);
    let address = exporter.listen(([127, 0, 0, 1], 0).into()).await;
    let labels = [("pod".to_owned(), ns.name().to_owned())].into();
    plane.prometheus().scrape(ns.name(), address, &labels);
    let query = format!(r#"direct{{pod="{}"}}"#, ns.name());
    eventually("scraped", SOON, || async { plane.prometheus().value(&query).await.ok_or("no sample") }).await;
}

#[tokio::test]
async fn a_service_account_may_do_what_rbac_gives_it_and_no_more() {
    let Some(plane) = ControlPlane::shared().await else { return };
    let ns = plane.namespace("rbac").await;
    let role = format!("{}-reader", ns.name());
    plane
        .apply(&format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{name: {role}}}\n\
             rules: [{{apiGroups: [''], resources: [pods], verbs: [get, list]}}]"
        ))
        .await;
    let token = plane.service_account(ns.name(), "operator").await;
    plane.bind_cluster_role(&role, ns.name(), "operator").await;

    let limited = plane.client_as(&token);
    let pods: Api<Pod> = Api::namespaced(limited.clone(), ns.name());
    eventually("allowed", SOON, || async { pods.list(&ListParams::default()).await }).await;
    let maps: Api<ConfigMap> = Api::namespaced(limited, ns.name());
    let refused = maps.list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 403), "{refused}");
}

#[tokio::test]
async fn a_decision_server_answers_what_it_is_told() {
    let Some(_plane) = ControlPlane::shared().await else { return };
    let server = DecisionServer::start().await;
    let get = |path: &str| {
        let url = format!("{}{path}", server.url());
        async move { reqwest::Client::new().get(url).timeout(Duration::from_secs(2)).send().await }
    };
    server.decide("ns", "svc", 15);
    let decision: Value = get("/decisions?serviceId=svc").await.unwrap().json().await.unwrap();
    assert_eq!(decision["decisions"][0]["replicas"]["active"], 15);
    server.answer(503, "busy");
    assert_eq!(get("/decisions").await.unwrap().status(), 503);
    server.hang();
    assert!(get("/decisions").await.unwrap_err().is_timeout());
    let queries: Vec<_> = server.requests().into_iter().map(|request| request.query).collect();
    assert_eq!(queries, ["serviceId=svc", "", ""]);
}

#[tokio::test]
async fn the_api_server_forwards_to_an_extension_server_of_the_tests() {
    let Some(plane) = ControlPlane::shared().await else { return };
    let ns = plane.namespace("aggregation").await;
    let list = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "reach.example/v1", "resources": []});
    let app = axum::Router::new()
        .route("/apis/reach.example/v1", get(move || async move { axum::Json(list) }))
        .route("/apis/reach.example/v1/who", get(|headers: HeaderMap| async move { format!("{:?}", headers["x-remote-user"]) }));
    let port = ns.extension_server("extension", app).await.port();

    let service = json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1.reach.example"},
        "spec": {
            "group": "reach.example",
            "version": "v1",
            "groupPriorityMinimum": 1000,
            "versionPriority": 10,
            "caBundle": plane.ca_bundle(),
            "service": {"namespace": ns.name(), "name": "extension", "port": port},
        },
    });
    plane.apply(&service.to_string()).await;
    let client = plane.client();
    let who = eventually("forwarded", SOON, || async {
        let request = http::Request::get("/apis/reach.example/v1/who").body(Vec::new()).unwrap();
        client.request_text(request).await
    })
    .await;
    assert_eq!(who, r#""admin""#);
    Api::<APIService>::all(client.clone()).delete("v1.reach.example", &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn a_plane_of_ones_own_is_separate_and_ends_with_its_handle() {
    let (Some(shared), Some(own)) = (ControlPlane::shared().await, ControlPlane::start().await) else { return };
    let url = own.api_url().to_owned();
    assert_ne!(url, shared.api_url());
    let ns = own.namespace("own").await;
    let elsewhere: Api<Namespace> = Api::all(shared.client());
    assert!(elsewhere.get_opt(ns.name()).await.unwrap().is_none());
    drop((ns, own));
    let address = url.trim_start_matches("https://").to_owned();
    eventually("ended", SOON, || async { std::net::TcpStream::connect(&address).map_or(Ok(()), |_| Err("still there")) }).await;
}

#[tokio::test]
async fn an_operator_gets_its_arguments_and_ends_when_it_is_told() {
    let Some(plane) = ControlPlane::shared().await else { return };
    let ns = plane.namespace("process").await;
    let script = plane.logs().join("stand-in.sh");
    std::fs::write(&script, "#!/bin/sh\ntrap 'exit 7' TERM\necho \"$@\" \"in $POD_NAMESPACE\"\nwhile :; do sleep 0.1; done\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();

    let operator = Operator::launch(&plane).binary(&script).leader_elect(ns.name()).spawn();
    let log = eventually("started", SOON, || async { Some(operator.log_tail(5)).filter(|log| !log.is_empty()).ok_or("no log") }).await;
    assert!(log.starts_with("operator --health-probe-bind-address=127.0.0.1:"), "{log}");
    assert!(log.contains(&format!("--leader-elect in {}", ns.name())), "{log}");
    assert_eq!(operator.probe("/readyz").await, None);
    assert!(operator.exited().is_none());
    assert_eq!(operator.stop().await.code(), Some(7));
}

#[tokio::test]
async fn objects_from_yaml_and_services_work() {
    let Some(plane) = ControlPlane::shared().await else { return };
    let ns = plane.namespace("yaml").await;
    ns.apply("apiVersion: v1\nkind: Service\nmetadata: {name: epp}\nspec: {ports: [{port: 9090}], selector: {app: epp}}").await;
    ns.wait_for(&ns.api::<Service>(), "epp", "there", SOON, |epp| epp["spec"]["ports"][0]["port"] == 9090).await;
    let refused = ns.try_apply("apiVersion: v1\nkind: Service\nmetadata: {name: bad}\nspec: {ports: [{port: 0}]}").await;
    assert!(format!("{:#}", refused.unwrap_err()).contains("spec.ports[0].port"));
}

#[tokio::test]
#[should_panic(expected = "--- last seen")]
async fn a_wait_in_vain_shows_what_was_seen() {
    let Some(plane) = ControlPlane::shared().await else { panic!("--- last seen: skipped") };
    let ns = plane.namespace("vain").await;
    ns.create(&deployment("web", 1)).await;
    ns.wait_for(&ns.deployments(), "web", "7 ready", Duration::from_millis(300), ready(7)).await;
}
