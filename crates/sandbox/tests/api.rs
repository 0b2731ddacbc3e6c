//! The API as clients see it: in memory, in paused time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "what helps a test may fail it")]

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use axum::http::{Request, header::CONTENT_TYPE};
use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::client::Body;
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt as _};
use llmscaler_operator::lease::{Election, LEASE_DURATION};
use llmscaler_sandbox::{Controllers, Fault, On, Sandbox, Verb, after};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

fn fleet(replicas: i32) -> Deployment {
    let template = json!({"metadata": {"labels": {"app": "fleet"}}, "spec": {"containers": [{"name": "server", "image": "i:1"}]}});
    let spec = json!({"replicas": replicas, "selector": {"matchLabels": {"app": "fleet"}}, "template": template});
    serde_json::from_value(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "fleet"}, "spec": spec})).unwrap()
}

async fn deployed(replicas: i32) -> (Sandbox, Api<Deployment>) {
    let sandbox = Sandbox::new().unwrap();
    let api = Api::default_namespaced(sandbox.client());
    api.create(&PostParams::default(), &fleet(replicas)).await.unwrap();
    (sandbox, api)
}

fn code<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> u16 {
    match result.unwrap_err() {
        kube::Error::Api(status) => status.code,
        error => panic!("{error}"),
    }
}

/// Sends a body as it is to a path, and answers the status code and what is answered.
async fn send(client: &Client, method: &str, path: &str, content: &str, body: &Value) -> (u16, Value) {
    let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, content);
    let response = client.send(request.body(Body::from(body.to_string().into_bytes())).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    (code, serde_json::from_slice(&response.into_body().collect_bytes().await.unwrap()).unwrap())
}

/// The scale as the operator applies it.
fn size(replicas: i32, version: Option<&str>) -> Patch<Value> {
    let metadata = json!({"name": "fleet", "resourceVersion": version});
    Patch::Apply(json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": {"replicas": replicas}}))
}

#[tokio::test(start_paused = true)]
async fn a_namespace_takes_so_many_pods_and_what_asks_for_more_is_told() {
    let (sandbox, api) = deployed(100_000).await;
    let mut controllers =
        Controllers::new(&sandbox, after(IpAddr::V4(Ipv4Addr::LOCALHOST), Duration::from_secs(10), Duration::from_secs(1)));
    controllers.step();
    controllers.step();
    let pods: Api<Pod> = Api::default_namespaced(sandbox.client());
    assert_eq!(pods.list(&ListParams::default()).await.unwrap().items.len(), 500);
    let failure = async || {
        let status = api.get("fleet").await.unwrap().status.unwrap();
        status.conditions.unwrap().into_iter().find(|condition| condition.type_ == "ReplicaFailure")
    };
    let condition = failure().await.unwrap();
    assert_eq!((condition.status.as_str(), condition.reason.as_deref()), ("True", Some("FailedCreate")));
    assert!(condition.message.unwrap().ends_with("exceeded quota: sandbox, requested: pods=1, used: pods=500, limited: pods=500"));
    let events: Api<k8s_openapi::api::core::v1::Event> = Api::default_namespaced(sandbox.client());
    let refused: Vec<_> = events.list(&ListParams::default()).await.unwrap().items;
    let refused: Vec<_> = refused.into_iter().filter(|event| event.reason.as_deref() == Some("FailedCreate")).collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!((refused[0].type_.as_deref(), refused[0].involved_object.kind.as_deref()), (Some("Warning"), Some("ReplicaSet")));

    let one: Pod =
        serde_json::from_value(json!({"metadata": {"name": "one"}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}})).unwrap();
    assert_eq!(code(pods.create(&PostParams::default(), &one).await), 403);
    Api::<Pod>::namespaced(sandbox.client(), "kube-public").create(&PostParams::default(), &one).await.unwrap();

    api.patch_scale("fleet", &PatchParams::apply("llmscaler").force(), &size(2, None)).await.unwrap();
    controllers.step();
    sleep(Duration::from_secs(5)).await;
    controllers.step();
    assert_eq!((pods.list(&ListParams::default()).await.unwrap().items.len(), failure().await), (2, None));
    pods.create(&PostParams::default(), &one).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_size_is_applied_to_the_version_that_was_seen() {
    let (_sandbox, api) = deployed(2).await;
    let ours = PatchParams::apply("llmscaler");
    let refused = api.patch_scale("fleet", &ours, &size(3, None)).await.unwrap_err();
    assert!(
        refused.to_string().contains("Apply failed with 1 conflict: conflict with \"unknown\" using autoscaling/v1: .spec.replicas"),
        "{refused}"
    );
    let seen = api.get("fleet").await.unwrap();
    let version = seen.resource_version().unwrap();
    let scale = api.patch_scale("fleet", &ours.clone().force(), &size(3, Some(&version))).await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(3));
    assert_eq!(code(api.patch_scale("fleet", &ours.clone().force(), &size(4, Some(&version))).await), 409);

    let now = api.get("fleet").await.unwrap();
    assert_eq!((now.metadata.generation, now.spec.as_ref().unwrap().replicas), (Some(2), Some(3)));
    let owner = now.managed_fields().iter().find(|entry| entry.manager.as_deref() == Some("llmscaler")).unwrap();
    assert_eq!((owner.subresource.as_deref(), owner.operation.as_deref()), (Some("scale"), Some("Apply")));
    assert_eq!(owner.fields_v1.as_ref().unwrap().0, json!({"f:spec": {"f:replicas": {}}}));
    // The same again changes nothing.
    api.patch_scale("fleet", &ours.force(), &size(3, None)).await.unwrap();
    assert_eq!(api.get("fleet").await.unwrap().resource_version(), now.resource_version());
}

#[tokio::test(start_paused = true)]
async fn what_would_leave_no_object_is_refused_and_changes_nothing() {
    const JSON_PATCH: &str = "application/json-patch+json";
    let (sandbox, api) = deployed(2).await;
    let (client, before) = (sandbox.client(), api.get("fleet").await.unwrap());
    let merge = "application/merge-patch+json";
    let ends = |path: &str, value: Value| json!([{"op": "replace", "path": path, "value": value}]);
    for part in ["", "/status", "/scale"] {
        let path = format!("/apis/apps/v1/namespaces/default/deployments/fleet{part}");
        let metadata = [json!([]), json!(null), json!({"labels": []}), json!({"labels": {"a": 1}}), json!({"finalizers": 5})];
        let metadata = metadata.map(|metadata| json!({"metadata": metadata}));
        for body in [json!([]), json!("x"), json!(5), json!(null)].iter().chain(&metadata) {
            for (method, content) in [("PATCH", merge), ("PATCH", "application/strategic-merge-patch+json"), ("PUT", "application/json")] {
                let (code, answer) = send(&client, method, &path, content, body).await;
                assert!(matches!(code, 400 | 422) && answer["kind"] == "Status", "{method} {body} to {path}: {answer}");
            }
        }
        for patch in
            [ends("", json!([])), ends("", json!("x")), ends("/metadata", json!(5)), json!([{"op": "remove", "path": "/metadata"}])]
        {
            let (code, answer) = send(&client, "PATCH", &path, JSON_PATCH, &patch).await;
            assert!(matches!(code, 400 | 422), "{patch} to {path}: {answer}");
        }
        let (code, answer) = send(&client, "PATCH", &format!("{path}?fieldManager=a"), "application/apply-patch+yaml", &json!([])).await;
        assert_eq!(code, 400, "{answer}");
    }
    for body in [json!([]), json!({"metadata": 5})] {
        let (code, answer) = send(&client, "POST", "/apis/apps/v1/namespaces/default/deployments", "application/json", &body).await;
        assert_eq!(code, 400, "{answer}");
    }
    assert_eq!(api.get("fleet").await.unwrap(), before);
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_cannot_be_is_refused_by_its_fields() {
    let (_sandbox, api) = deployed(2).await;
    let before = api.get("fleet").await.unwrap();
    for (spec, field) in [
        (json!({"template": null}), "spec.template.spec.containers"),
        (json!({"template": {"spec": {"containers": []}}}), "spec.template.spec.containers"),
        (json!({"replicas": -1}), "spec.replicas"),
        (json!({"selector": {"matchLabels": {"more": "b"}}}), "spec.selector"),
        (json!({"selector": null}), "spec.selector"),
        (json!({"template": {"metadata": {"labels": {"app": "b"}}}}), "spec.template.metadata.labels"),
    ] {
        let refused = api.patch("fleet", &PatchParams::default(), &Patch::Merge(&json!({"spec": spec}))).await;
        let Err(kube::Error::Api(status)) = refused else { panic!("{spec} is taken") };
        let fields: Vec<String> = status.details.as_ref().unwrap().causes.iter().map(|cause| cause.field.clone()).collect();
        assert!(status.code == 422 && fields.iter().any(|found| found == field), "{spec}: {status:?}");
    }
    assert_eq!(api.get("fleet").await.unwrap(), before);
    // What it has already may be sent again, and the rest be changed.
    api.replace("fleet", &PostParams::default(), &fleet(5)).await.unwrap();
    assert_eq!(api.get("fleet").await.unwrap().spec.unwrap().replicas, Some(5));
}

#[tokio::test(start_paused = true)]
async fn the_definition_of_a_kind_that_is_served_stays() {
    let client = Sandbox::new().unwrap().client();
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for path in [path.to_owned(), format!("{path}/llmscalers.autoscaling.modelsphere.dev")] {
        let (code, answer) = send(&client, "DELETE", &path, "application/json", &json!({})).await;
        assert_eq!((code, answer["message"].as_str().unwrap().contains("cannot be deleted")), (403, true), "{answer}");
    }
    assert_eq!(send(&client, "GET", path, "application/json", &json!({})).await.1["items"].as_array().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn status_and_spec_do_not_touch_each_other() {
    let (_sandbox, api) = deployed(2).await;
    let both = json!({"spec": {"replicas": 9}, "status": {"replicas": 7}});
    let written = api.patch_status("fleet", &PatchParams::default(), &Patch::Merge(&both)).await.unwrap();
    assert_eq!(
        (written.spec.unwrap().replicas, written.status.unwrap().replicas, written.metadata.generation),
        (Some(2), Some(7), Some(1))
    );
    let written =
        api.patch("fleet", &PatchParams::default(), &Patch::Merge(&json!({"spec": {"replicas": 9}, "status": {"replicas": 1}}))).await;
    let written = written.unwrap();
    assert_eq!(
        (written.spec.unwrap().replicas, written.status.unwrap().replicas, written.metadata.generation),
        (Some(9), Some(7), Some(2))
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_where_it_was_or_says_that_it_cannot() {
    let (sandbox, _) = deployed(1).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(sandbox.client());
    let map = |name: &str| -> ConfigMap { serde_json::from_value(json!({"metadata": {"name": name, "labels": {"app": name}}})).unwrap() };
    let first = maps.create(&PostParams::default(), &map("a")).await.unwrap().resource_version().unwrap();
    maps.create(&PostParams::default(), &map("b")).await.unwrap();
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    let mut resumed = maps.watch(&WatchParams::default(), &first).await.unwrap().boxed();
    assert!(matches!(resumed.next().await.unwrap().unwrap(), WatchEvent::Added(map) if map.name_any() == "b"));
    assert!(matches!(resumed.next().await.unwrap().unwrap(), WatchEvent::Deleted(map) if map.name_any() == "a"));
    // What leaves the selection is deleted for the one who watches it.
    let mut selected = maps.watch(&WatchParams::default().labels("app=b"), "0").await.unwrap().boxed();
    assert!(matches!(selected.next().await.unwrap().unwrap(), WatchEvent::Added(_)));
    let away = json!({"metadata": {"labels": {"app": "c"}}});
    maps.patch("b", &PatchParams::default(), &Patch::Merge(&away)).await.unwrap();
    assert!(matches!(selected.next().await.unwrap().unwrap(), WatchEvent::Deleted(_)));
    // After so long without a change there is at least a bookmark.
    assert!(matches!(timeout(Duration::from_secs(61), selected.next()).await.unwrap().unwrap().unwrap(), WatchEvent::Bookmark(_)));

    sandbox.forget_changes();
    let mut late = maps.watch(&WatchParams::default(), &first).await.unwrap().boxed();
    assert!(matches!(late.next().await.unwrap().unwrap(), WatchEvent::Error(status) if status.code == 410));
    assert!(late.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_says_from_where_to_go_on_though_all_it_has_seen_is_forgotten() {
    let (sandbox, api) = deployed(1).await;
    let begin = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut watch = api.watch(&WatchParams::default().timeout(30), &begin).await.unwrap().boxed();
    let maps: Api<ConfigMap> = Api::default_namespaced(sandbox.client());
    maps.create(&PostParams::default(), &serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap()).await.unwrap();
    let pass = tokio::spawn(async move {
        for count in 0..1500 {
            sleep(Duration::from_millis(10)).await;
            let data = Patch::Merge(json!({"data": {"count": count.to_string()}}));
            maps.patch("a", &PatchParams::default(), &data).await.unwrap();
        }
    });
    let Some(Ok(WatchEvent::Bookmark(mark))) = watch.next().await else { panic!("no bookmark at the end") };
    assert!(watch.next().await.is_none());
    pass.await.unwrap();
    assert!(sandbox.changes_since(begin.parse().unwrap()).is_none());
    let mut resumed = api.watch(&WatchParams::default(), &mark.metadata.resource_version).await.unwrap().boxed();
    api.delete("fleet", &DeleteParams::default()).await.unwrap();
    assert!(matches!(resumed.next().await.unwrap().unwrap(), WatchEvent::Deleted(_)));
}

#[tokio::test(start_paused = true)]
async fn a_watcher_survives_cut_watches_and_410() {
    let (sandbox, api) = deployed(1).await;
    let mut events = watcher::watcher(api.clone(), watcher::Config::default()).boxed();
    let mut sizes = async |wanted: i32| {
        loop {
            match events.next().await.unwrap() {
                Ok(Event::Apply(found) | Event::InitApply(found)) if found.spec.as_ref().unwrap().replicas == Some(wanted) => return,
                _ => {}
            }
        }
    };
    sizes(1).await;
    for (wanted, disturb) in [(2, 0), (3, 1), (4, 2)] {
        match disturb {
            0 => sandbox.cut_watches(),
            1 => {
                sandbox.cut_watches();
                sandbox.faults().arm(On::any().verb(Verb::Watch), Fault::Gone, 1);
            }
            _ => sandbox.faults().arm(On::any().verb(Verb::List), Fault::InternalError, 2),
        }
        api.patch("fleet", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": wanted}}))).await.unwrap();
        timeout(Duration::from_secs(60), sizes(wanted)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn faults_are_what_clients_meet() {
    let (sandbox, api) = deployed(1).await;
    let faults = sandbox.faults();
    let on = || On::any().resource("deployments");
    faults.arm(on(), Fault::Conflict, 1);
    assert_eq!(code(api.get("fleet").await), 409);
    faults.arm(on(), Fault::InternalError, 1);
    assert_eq!(code(api.get("fleet").await), 500);
    faults.arm(on(), Fault::Hang, 1);
    assert!(timeout(Duration::from_secs(3600), api.get("fleet")).await.is_err());
    faults.arm(on(), Fault::Slow(Duration::from_secs(7)), 1);
    let before = Instant::now();
    api.get("fleet").await.unwrap();
    assert_eq!(before.elapsed(), Duration::from_secs(7));

    let grow = Patch::Merge(json!({"spec": {"replicas": 5}}));
    faults.arm(on().verb(Verb::Patch), Fault::LostAnswer, 1);
    assert_eq!(code(api.patch("fleet", &PatchParams::default(), &grow).await), 500);
    assert_eq!(api.get("fleet").await.unwrap().spec.unwrap().replicas, Some(5), "it was carried out all the same");
    faults.arm(on().verb(Verb::List), Fault::StaleList { behind: 1 }, 1);
    let sizes = async || api.list(&ListParams::default()).await.unwrap().items[0].spec.as_ref().unwrap().replicas;
    assert_eq!((sizes().await, sizes().await), (Some(1), Some(5)));
    faults.arm(on().verb(Verb::Watch), Fault::CutWatch { after: Duration::from_secs(5) }, 1);
    let mut watch = api.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    assert!(matches!(watch.next().await.unwrap().unwrap(), WatchEvent::Added(_)));
    assert!(watch.next().await.unwrap().is_err() && watch.next().await.is_none());
    let failed = sandbox.calls().iter().filter(|call| call.code >= 400).count();
    assert_eq!(failed, 3);
    faults.arm(on(), Fault::TooManyRequests { retry_after: 1 }, u32::MAX);
    assert_eq!(code(timeout(Duration::from_secs(600), api.get("fleet")).await.unwrap()), 429);
}

#[tokio::test(start_paused = true)]
async fn lists_come_in_pages_of_one_moment() {
    let sandbox = Sandbox::new().unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(sandbox.client());
    for name in ["a", "b", "c", "d", "e"] {
        let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        maps.create(&PostParams::default(), &map).await.unwrap();
    }
    let first = maps.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!(first.metadata.remaining_item_count, Some(3));
    maps.delete("d", &DeleteParams::default()).await.unwrap();
    let token = first.metadata.continue_.unwrap();
    let rest = maps.list(&ListParams::default().continue_token(&token)).await.unwrap();
    assert_eq!(rest.items.iter().map(|map| map.name_any()).collect::<Vec<_>>(), ["c", "d", "e"]);
    sandbox.forget_changes();
    assert_eq!(code(maps.list(&ListParams::default().continue_token(&token)).await), 410);
}

/// Steps the controllers once a second.
async fn pass(controllers: &mut Controllers, seconds: u64) {
    for _ in 0..seconds {
        controllers.step();
        sleep(Duration::from_secs(1)).await;
    }
    controllers.step();
}

fn controllers(sandbox: &Sandbox, warm_up: u64, drain: u64) -> Controllers {
    let life = after(IpAddr::V4(Ipv4Addr::LOCALHOST), Duration::from_secs(warm_up), Duration::from_secs(drain));
    Controllers::new(sandbox, life)
}

#[tokio::test(start_paused = true)]
async fn a_fleet_warms_up_and_sheds_what_costs_least() {
    let (sandbox, api) = deployed(3).await;
    let mut controllers = controllers(&sandbox, 10, 20);
    let counts = async || {
        let status = api.get("fleet").await.unwrap().status.unwrap();
        (status.replicas.unwrap_or(0), status.ready_replicas.unwrap_or(0), status.terminating_replicas.unwrap_or(0))
    };
    pass(&mut controllers, 5).await;
    assert_eq!(counts().await, (3, 0, 0));
    pass(&mut controllers, 6).await;
    assert_eq!(counts().await, (3, 3, 0));

    let pods: Api<Pod> = Api::default_namespaced(sandbox.client());
    let victim = pods.list(&ListParams::default()).await.unwrap().items[1].name_any();
    let mark = json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-100"}}});
    pods.patch_metadata(&victim, &PatchParams::default(), &Patch::Merge(&mark)).await.unwrap();
    api.patch_scale("fleet", &PatchParams::apply("llmscaler").force(), &size(2, None)).await.unwrap();
    pass(&mut controllers, 5).await;
    assert_eq!(counts().await, (2, 2, 1));
    assert!(pods.get(&victim).await.unwrap().metadata.deletion_timestamp.is_some());
    pass(&mut controllers, 16).await;
    assert_eq!(counts().await, (2, 2, 0));
    assert_eq!(code(pods.get(&victim).await), 404);

    api.delete("fleet", &DeleteParams::default()).await.unwrap();
    pass(&mut controllers, 31).await;
    assert!(pods.list(&ListParams::default()).await.unwrap().items.is_empty(), "what it owned goes with it");
}

#[tokio::test(start_paused = true)]
async fn a_new_template_is_rolled_out() {
    let (sandbox, api) = deployed(4).await;
    let mut controllers = controllers(&sandbox, 5, 0);
    pass(&mut controllers, 6).await;
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "server", "image": "i:2"}]}}}});
    api.patch("fleet", &PatchParams::default(), &Patch::Strategic(&image)).await.unwrap();
    let mut fewest = 4;
    for _ in 0..40 {
        pass(&mut controllers, 1).await;
        fewest = fewest.min(api.get("fleet").await.unwrap().status.unwrap().available_replicas.unwrap_or(0));
    }
    let rolled = api.get("fleet").await.unwrap();
    let status = rolled.status.clone().unwrap();
    assert_eq!((status.replicas, status.updated_replicas, status.available_replicas, fewest), (Some(4), Some(4), Some(4), 3));
    let progressing = status.conditions.unwrap().into_iter().find(|condition| condition.type_ == "Progressing").unwrap();
    assert_eq!(progressing.reason.as_deref(), Some("NewReplicaSetAvailable"));
    assert_eq!(rolled.annotations()["deployment.kubernetes.io/revision"], "2");
}

#[tokio::test(start_paused = true)]
async fn a_lease_has_one_holder() {
    let sandbox = Sandbox::new().unwrap();
    let election = |client: Client, identity: &str| Election::new(client, "default", "llmscaler", identity.to_owned());
    let claim = election(sandbox.client(), "a").acquire().await;
    let other = election(sandbox.client(), "b");
    assert!(timeout(LEASE_DURATION * 2, other.acquire()).await.is_err() && claim.is_current());
    sandbox.faults().arm(On::any().resource("leases").verb(Verb::Update), Fault::Hang, 3);
    claim.lost().await;
    timeout(LEASE_DURATION * 2, other.acquire()).await.unwrap();
}
