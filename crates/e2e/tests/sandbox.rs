//! The same conversations with the sandbox and with a real API server: what is answered has to be the same.
//!
//! Not compared are UIDs, times, versions and the name of the namespace, nor the parts of built-in kinds that the sandbox says in its
//! own documentation to leave out.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what helps a test may fail it")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::http::{Request, header};
use kube::Client;
use kube::client::Body;
use llmscaler_e2e::ControlPlane;
use llmscaler_sandbox::Sandbox;
use serde_json::{Map, Value, json};

const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const JSON: &str = "application/json";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const SCALERS: &str = "/apis/autoscaling.modelsphere.dev/v1alpha1/namespaces/{ns}/llmscalers";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/{ns}/deployments";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/{ns}/events";

/// One request, and what of its answer is compared.
struct Turn {
    what: String,
    method: &'static str,
    path: String,
    content: &'static str,
    accept: &'static str,
    body: Value,
    /// Pointers into the answer; none is all of it.
    of: Vec<&'static str>,
    /// How long to wait before it.
    after: Duration,
}

impl Turn {
    fn of(mut self, pointers: &[&'static str]) -> Self {
        self.of = pointers.to_vec();
        self
    }

    /// When controllers have done what the turns before it give them to do.
    fn later(mut self) -> Self {
        self.after = Duration::from_secs(2);
        self
    }

    fn accept(mut self, accept: &'static str) -> Self {
        self.accept = accept;
        self
    }
}

fn turn(what: impl Into<String>, method: &'static str, path: impl Into<String>, content: &'static str, body: Value) -> Turn {
    Turn { what: what.into(), method, path: path.into(), content, accept: JSON, body, of: vec![], after: Duration::ZERO }
}

fn get(what: &str, path: impl Into<String>) -> Turn {
    turn(what, "GET", path, JSON, Value::Null)
}

fn scaler(name: &str, more: &Value) -> Value {
    let mut spec = json!({
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "fleet"},
        "serverAddress": "http://prometheus:9090",
        "minReplicas": 1,
        "maxReplicas": 4,
        "metrics": [{"name": "queue", "query": "sum(q)", "target": "5"}],
    });
    for (field, value) in more.as_object().unwrap() {
        match value {
            Value::Null => spec.as_object_mut().unwrap().remove(field),
            _ => spec.as_object_mut().unwrap().insert(field.clone(), value.clone()),
        };
    }
    json!({"apiVersion": "autoscaling.modelsphere.dev/v1alpha1", "kind": "LLMScaler", "metadata": {"name": name}, "spec": spec})
}

fn status(name: &str, status: Value) -> Value {
    json!({"apiVersion": "autoscaling.modelsphere.dev/v1alpha1", "kind": "LLMScaler", "metadata": {"name": name}, "status": status})
}

fn fleet() -> Value {
    let template = json!({"metadata": {"labels": {"app": "fleet"}}, "spec": {"containers": [{"name": "server", "image": "i:1"}]}});
    let spec = json!({"replicas": 2, "paused": true, "selector": {"matchLabels": {"app": "fleet"}}, "template": template});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "fleet"}, "spec": spec})
}

fn size(name: &str, replicas: i64, version: Option<&str>) -> Value {
    let metadata = json!({"name": name, "resourceVersion": version});
    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": {"replicas": replicas}})
}

/// The size, as the operator and others write it.
fn sizes() -> Vec<Turn> {
    let scale = |query: &str| format!("{DEPLOYMENTS}/fleet/scale{query}");
    let (ours, forced) = ("?fieldManager=llmscaler", "?fieldManager=llmscaler&force=true");
    let apply = |what: &str, query: &str, replicas| turn(what, "PATCH", scale(query), APPLY, size("fleet", replicas, None));
    let owners = ["/metadata/managedFields", "/metadata/generation"];
    let failed_test = json!([{"op": "test", "path": "/spec/replicas", "value": 9}]);
    vec![
        turn("create a Deployment", "POST", format!("{DEPLOYMENTS}?fieldManager=user"), JSON, fleet()).of(&[
            "/metadata/generation",
            "/spec/replicas",
            "/spec/selector",
        ]),
        turn("create it again", "POST", DEPLOYMENTS, JSON, fleet()),
        get("read a size", scale("")),
        apply("apply a size that is another's, too", ours, 2),
        apply("apply another size than the other's", ours, 1),
        turn("merge a size", "PATCH", scale("?fieldManager=kubectl"), MERGE, json!({"spec": {"replicas": 4}})),
        apply("apply another size than was merged", ours, 3),
        apply("apply it by force", forced, 3),
        turn("apply an old version", "PATCH", scale(forced), APPLY, size("fleet", 5, Some("1"))),
        get("read the version that is there", format!("{DEPLOYMENTS}/fleet")).of(&["/spec/replicas"]).later(),
        turn("apply the version that is there", "PATCH", scale(forced), APPLY, size("fleet", 5, Some("{version:fleet}"))),
        get("read who owns what", format!("{DEPLOYMENTS}/fleet")).of(&owners),
        apply("apply a size of 0", forced, 0),
        get("read a size of 0", scale("")),
        get("read who owns what in the end", format!("{DEPLOYMENTS}/fleet")).of(&owners),
        apply("a negative size", forced, -1),
        turn("a size in words", "PATCH", scale("?fieldManager=user"), MERGE, json!({"spec": {"replicas": "many"}}))
            .of(&["/code", "/reason"]),
        turn("the size of nothing", "PATCH", format!("{DEPLOYMENTS}/none/scale{forced}"), APPLY, size("none", 1, None)),
        apply("apply without a manager", "", 0),
        turn("a patch of an unknown kind", "PATCH", scale(ours), "text/plain", size("fleet", 0, None)).of(&["/code", "/reason"]),
        turn("a JSON patch whose test fails", "PATCH", format!("{DEPLOYMENTS}/fleet"), JSON_PATCH, failed_test).of(&["/code", "/reason"]),
        turn("merge a status", "PATCH", format!("{DEPLOYMENTS}/fleet/status"), MERGE, json!({"spec": {"replicas": 9}}))
            .of(&["/spec/replicas", "/metadata/generation"]),
        get("an object that is not there", format!("{DEPLOYMENTS}/none")),
        get("a subresource that is none", format!("{DEPLOYMENTS}/fleet/size")),
        get("a resource that is none", "/apis/apps/v1/namespaces/{ns}/fleets"),
        turn("a method that is none", "POST", format!("{DEPLOYMENTS}/fleet"), JSON, fleet()),
        get("a bad selector", format!("{DEPLOYMENTS}?labelSelector=a%20b%20c")).of(&["/code", "/reason"]),
        get("a bad field selector", format!("{DEPLOYMENTS}?fieldSelector=spec.replicas%3D1")).of(&["/code", "/reason"]),
        turn("remove what is not there", "DELETE", format!("{DEPLOYMENTS}/none"), JSON, Value::Null),
    ]
}

fn slo(slo: Value) -> Value {
    json!({"preset": {"name": "llm-d-EPP", "matchLabels": {"service": "a"}}, "metrics": null, "slo": slo})
}

/// What becomes of scalers.
fn scalers() -> Vec<Turn> {
    let (create, applied) = (format!("{SCALERS}?fieldManager=user"), "fieldManager=llmscaler&force=true");
    let edit = |what: &str, body: Value| turn(what, "PATCH", format!("{SCALERS}/a?fieldManager=user"), MERGE, body);
    let gitops = |what: &str, name: &str, more: &Value| {
        turn(what, "PATCH", format!("{SCALERS}/{name}?fieldManager=gitops"), APPLY, scaler(name, more))
    };
    let condition = json!({"type": "Ready", "status": "True", "reason": "Fine", "message": "all is well",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 2});
    let good = json!({"replicas": 2, "desiredReplicas": 3, "conditions": [condition]});
    let streamed = "watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1";
    let mut old = scaler("a", &json!({}));
    old["metadata"]["resourceVersion"] = json!("1");
    let unknown = json!({"minReplica": 1});
    vec![
        turn("create a scaler", "POST", create.clone(), JSON, scaler("a", &json!({}))),
        turn("one with unknown fields", "POST", create, JSON, scaler("b", &unknown)),
        turn("one with unknown fields, strictly", "POST", format!("{SCALERS}?fieldValidation=Strict"), JSON, scaler("c", &unknown)),
        gitops("apply one", "d", &slo(json!({"ttft": "3s", "tpot": "100ms"}))),
        gitops("apply one with unknown fields", "e", &unknown),
        gitops("apply over another's", "a", &json!({"maxReplicas": 9})),
        edit("edit the spec", json!({"spec": {"maxReplicas": 6}})),
        edit("edit nothing", json!({"spec": {"maxReplicas": 6}})),
        edit("edit it into what cannot be", json!({"spec": {"minReplicas": 7}})),
        edit("edit the status beside the spec", json!({"status": {"replicas": 3}})),
        turn("apply a status", "PATCH", format!("{SCALERS}/a/status?{applied}"), APPLY, status("a", good)),
        turn("apply a status with unknown fields", "PATCH", format!("{SCALERS}/a/status?{applied}"), APPLY, {
            status("a", json!({"replicas": 2, "unknown": 1}))
        }),
        turn("a status of a wrong type", "PATCH", format!("{SCALERS}/a/status"), MERGE, json!({"status": {"replicas": "two"}}))
            .of(&["/code", "/reason"]),
        turn("replace an old version", "PUT", format!("{SCALERS}/a"), JSON, old),
        turn("replace without a version", "PUT", format!("{SCALERS}/a"), JSON, scaler("a", &json!({}))),
        turn("replace what is not there", "PUT", format!("{SCALERS}/none"), JSON, scaler("none", &json!({}))).of(&["/code", "/reason"]),
        turn("a name that is none", "POST", SCALERS, JSON, scaler("No_Name", &json!({}))),
        turn("a name that is taken", "POST", SCALERS, JSON, scaler("a", &json!({}))),
        get("the table of scalers", SCALERS).accept(TABLE),
        get("a list of two", format!("{SCALERS}?limit=2")).of(&["/items/0/metadata/name", "/items/1/metadata/name", "/items/2", "/kind"]),
        get("what is about one", format!("{SCALERS}?fieldSelector=metadata.name%3Da")).of(&["/items/0/metadata/name", "/items/1"]),
        get("a watch from the beginning", format!("{SCALERS}?watch=true&resourceVersion=0&timeoutSeconds=1")),
        get("a streamed list", format!("{SCALERS}?{streamed}")),
        get("a watch from the future", format!("{SCALERS}?watch=true&resourceVersion=999999999&timeoutSeconds=1")).of(&["/lines"]),
        turn("remove one", "DELETE", format!("{SCALERS}/d"), JSON, Value::Null),
        turn("remove it again", "DELETE", format!("{SCALERS}/d"), JSON, Value::Null),
    ]
}

/// Scalers that cannot work, in many ways, and some that can.
fn broken() -> Vec<Turn> {
    let bad = [
        json!({"minReplicas": 5}),
        json!({"minReplicas": -1}),
        json!({"maxReplicas": "many"}),
        json!({"maxReplicas": null}),
        json!({"serverAddress": "prometheus"}),
        json!({"serverAddress": null}),
        json!({"syncPeriodSeconds": 0}),
        json!({"metrics": []}),
        json!({"metrics": [{"name": "q", "query": "q", "target": "much"}]}),
        json!({"metrics": [{"name": "q", "query": "q"}]}),
        json!({"metrics": [{"name": "q", "target": "1"}]}),
        json!({"metrics": "queue"}),
        json!({"mode": "Maybe"}),
        json!({"targetRef": {"kind": "Deployment"}}),
        json!({"targetRef": null}),
        json!({"metricProvider": "Oracle"}),
        json!({"scaleDown": {"maxStepReplicas": -1}}),
        json!({"minReplicas": 9, "syncPeriodSeconds": -3}),
        slo(json!({})),
        slo(json!({"ttft": "soon"})),
        slo(json!({"ttft": "3s", "scaleUpAt": "0.3"})),
        slo(json!({"ttft": "3s", "strategy": "Guess"})),
    ];
    let create = |(n, more)| turn(format!("a scaler with {more}"), "POST", SCALERS, JSON, scaler(&format!("bad-{n}"), more));
    bad.iter().enumerate().map(create).collect()
}

/// What is no object, or has metadata that are none, in each kind of change; and the ends that a patch may come to.
fn unfit() -> Vec<Turn> {
    let mut turns = vec![
        turn("create a scaler to break", "POST", SCALERS, JSON, scaler("whole", &json!({}))).of(&["/spec/maxReplicas"]),
        turn("create a Deployment to break", "POST", DEPLOYMENTS, JSON, named("whole")).of(&["/spec/replicas"]),
    ];
    let custom = ("autoscaling.modelsphere.dev/v1alpha1", "LLMScaler");
    let places = [
        (format!("{SCALERS}/whole"), custom),
        (format!("{SCALERS}/whole/status"), custom),
        (format!("{DEPLOYMENTS}/whole"), ("apps/v1", "Deployment")),
        (format!("{DEPLOYMENTS}/whole/scale"), ("autoscaling/v1", "Scale")),
    ];
    let bodies = [json!([]), json!("x"), json!(5), json!([{"a": "a body of more than thirty bytes"}])];
    let metadata =
        [json!([]), json!("x"), json!({}), json!({"labels": []}), json!({"labels": {"a": 1}}), json!({"annotations": {"a": {}}})];
    let ends = [
        json!({"op": "replace", "path": "", "value": []}),
        json!({"op": "replace", "path": "", "value": "x"}),
        json!({"op": "replace", "path": "/metadata", "value": []}),
        json!({"op": "remove", "path": "/metadata"}),
        json!({"op": "add", "path": "/metadata/labels", "value": ["a"]}),
    ];
    for (place, (version, kind)) in &places {
        let tried = |method, content, body: &Value| {
            let (path, _) = place.rsplit_once("/whole").filter(|_| method == "POST").unwrap_or((place, ""));
            turn(
                format!("{method} {body} to {path}, {content}"),
                method,
                format!("{path}?fieldManager=m&dryRun=All"),
                content,
                body.clone(),
            )
        };
        let ways = [("PATCH", MERGE), ("PATCH", STRATEGIC), ("PATCH", APPLY), ("PUT", JSON), ("POST", JSON)];
        // Nothing is made at the address of a subresource.
        for (method, content) in ways.into_iter().take(if place.ends_with("/whole") { 5 } else { 4 }) {
            turns.extend(bodies.iter().map(|body| tried(method, content, body)));
            let object = |metadata| json!({"apiVersion": version, "kind": kind, "metadata": metadata});
            let of: &[&str] = if method == "PUT" { &[] } else { &["/code", "/reason"] };
            turns.extend(metadata.iter().map(|metadata| tried(method, content, &object(metadata)).of(of)));
        }
        turns.extend(ends.iter().map(|end| tried("PATCH", JSON_PATCH, &json!([end])).of(&["/code", "/reason"])));
    }
    turns
}

/// Deployments that cannot be, made and come to by a patch.
fn impossible() -> Vec<Turn> {
    let pods = |spec: Value| json!({"template": {"spec": spec}});
    let image = |name: &str| json!({"name": name, "image": "i"});
    let specs = [
        json!({"template": null}),
        json!({"replicas": -1}),
        json!({"replicas": -1, "template": null}),
        json!({"minReadySeconds": -1}),
        json!({"revisionHistoryLimit": -1}),
        json!({"selector": null}),
        json!({"selector": {"matchLabels": null}}),
        json!({"selector": {"matchLabels": {"app": "other"}}}),
        json!({"selector": {"matchLabels": null, "matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["fleet"]}]}}),
        json!({"selector": {"matchLabels": {"app": "other"}}, "template": {"metadata": {"labels": {"app": "other"}}}}),
        json!({"template": {"metadata": null}}),
        json!({"template": {"metadata": {"labels": {"app": "other"}}}}),
        json!({"template": {"spec": null}}),
        pods(json!({"containers": []})),
        pods(json!({"containers": [{}]})),
        pods(json!({"containers": [image("a"), image("a")]})),
        pods(json!({"restartPolicy": "Never"})),
    ];
    let mut turns = vec![turn("create a Deployment that can be", "POST", DEPLOYMENTS, JSON, named("firm")).of(&["/spec/replicas"])];
    for spec in specs {
        let (mut made, patch) = (named("new"), json!({"spec": spec}));
        merge(&mut made, &patch);
        let of: &[&str] = &["/code", "/reason", "/message", "/details"];
        turns.push(turn(format!("a Deployment with {spec}"), "POST", format!("{DEPLOYMENTS}?dryRun=All"), JSON, made).of(of));
        turns.push(turn(format!("a Deployment that gets {spec}"), "PATCH", format!("{DEPLOYMENTS}/firm?dryRun=All"), MERGE, patch).of(of));
    }
    turns
}

/// A Deployment as any other, of this name.
fn named(name: &str) -> Value {
    let mut fleet = fleet();
    fleet["metadata"]["name"] = json!(name);
    fleet
}

/// RFC 7396, for what the turns are made of.
fn merge(into: &mut Value, patch: &Value) {
    let (Value::Object(into), Value::Object(patch)) = (&mut *into, patch) else { return into.clone_from(patch) };
    for (name, member) in patch {
        match member {
            Value::Null => drop(into.remove(name)),
            _ => merge(into.entry(name).or_insert_with(|| json!({})), member),
        }
    }
}

/// Leases, events, tables and discovery.
fn others() -> Vec<Turn> {
    let lease = |version: Option<&str>| {
        let spec =
            json!({"holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 0, "renewTime": "2026-01-01T00:00:00.000001Z"});
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l", "resourceVersion": version}, "spec": spec})
    };
    let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e", "namespace": "{ns}"},
        "eventTime": "2026-01-01T00:00:00.000000Z", "action": "Rescale", "reason": "SuccessfulRescale", "type": "Normal", "note": "1 to 2",
        "reportingController": "llmscaler", "reportingInstance": "llmscaler-0",
        "regarding": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "fleet", "namespace": "{ns}"}});
    let said = ["/reason", "/note", "/message", "/regarding", "/involvedObject", "/type", "/action", "/reportingController", "/eventTime"];
    vec![
        turn("create a lease", "POST", format!("{LEASES}?fieldManager=llmscaler"), JSON, lease(None)),
        turn("replace it by the version that is there", "PUT", format!("{LEASES}/l?fieldManager=llmscaler"), JSON, {
            lease(Some("{version:l}"))
        }),
        turn("replace an old lease", "PUT", format!("{LEASES}/l"), JSON, lease(Some("1"))),
        turn("publish an event", "POST", format!("{EVENTS}?fieldManager=llmscaler"), JSON, event).of(&said),
        get("read it in the other group", "/api/v1/namespaces/{ns}/events/e").of(&said),
        get("the table of events", "/api/v1/namespaces/{ns}/events?fieldSelector=metadata.name%3De")
            .accept(TABLE)
            .of(&["/columnDefinitions"]),
        get("the table of Deployments", DEPLOYMENTS).accept(TABLE).of(&["/columnDefinitions"]),
        get("the table of pods", "/api/v1/namespaces/{ns}/pods").accept(TABLE).of(&["/columnDefinitions"]),
        get("the table of leases", LEASES).accept(TABLE),
        get("the kinds of the group", "/apis/autoscaling.modelsphere.dev/v1alpha1"),
        get("a path that is none", "/nothing").of(&["/code", "/lines"]),
        get("a group that is none", "/apis/none.example").of(&["/code", "/lines"]),
    ]
}

/// Has a conversation, and answers what is to be compared.
async fn converse(client: &Client, namespace: &str, turns: &[Turn]) -> Vec<Value> {
    let mut versions: BTreeMap<String, String> = BTreeMap::new();
    let mut answers = vec![];
    for turn in turns {
        tokio::time::sleep(turn.after).await;
        let fill = |text: &str| {
            let versions = versions.iter().map(|(name, version)| (format!("{{version:{name}}}"), version));
            versions.fold(text.replace("{ns}", namespace), |text, (place, version)| text.replace(&place, version))
        };
        let body = if turn.body.is_null() { vec![] } else { fill(&turn.body.to_string()).into_bytes() };
        let request = Request::builder()
            .method(turn.method)
            .uri(fill(&turn.path))
            .header(header::CONTENT_TYPE, turn.content)
            .header(header::ACCEPT, turn.accept)
            .header(header::USER_AGENT, "conversation/1")
            .body(Body::from(body))
            .unwrap();
        let response = client.send(request).await.unwrap();
        let code = response.status().as_u16();
        let text = String::from_utf8(response.into_body().collect_bytes().await.unwrap().to_vec()).unwrap();
        let mut answer = match serde_json::from_str::<Value>(&text) {
            Ok(object) if !turn.path.contains("watch=true") || object["kind"] == "Status" => object,
            _ => {
                json!({"lines": text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| json!(line))).collect::<Vec<Value>>()})
            }
        };
        if let (Some(name), Some(version)) = (answer["metadata"]["name"].as_str(), answer["metadata"]["resourceVersion"].as_str()) {
            versions.insert(name.to_owned(), version.to_owned());
        }
        normalise(&mut answer, namespace);
        if !turn.of.is_empty() {
            let part = |pointer: &&str| ((*pointer).to_owned(), answer.pointer(pointer).cloned().unwrap_or_default());
            answer = turn.of.iter().map(part).collect::<Map<_, _>>().into();
        }
        answers.push(json!({"status": code, "answer": answer}));
    }
    answers
}

/// Leaves out what cannot be the same twice, and what the sandbox leaves out by its own documentation.
fn normalise(value: &mut Value, namespace: &str) {
    const LEFT_OUT: [&str; 11] = [
        ".",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "time",
        "deletionTimestamp",
        "remainingItemCount",
        "continue",
        "description",
        "storageVersionHash",
        "categories",
    ];
    match value {
        Value::Object(members) => {
            members.retain(|name, _| !LEFT_OUT.contains(&name.as_str()));
            members.values_mut().for_each(|member| normalise(member, namespace));
            if let Some(Value::Array(verbs)) = members.get_mut("verbs") {
                verbs.sort_by_key(Value::to_string);
            }
            // The entries of managers stand in the order of their times, which may be the same second.
            if let Some(Value::Array(entries)) = members.get_mut("managedFields") {
                entries.retain(|entry| entry["manager"] != "kube-controller-manager");
                entries.sort_by_key(|entry| format!("{} {}", entry["manager"], entry["subresource"]));
            }
            // Of the columns for `-o wide` the sandbox has a few.
            if let Some(Value::Array(columns)) = members.get_mut("columnDefinitions") {
                columns.retain(|column| column["priority"] == 0);
            }
            // Ages are the last cells of rows.
            if let Some(last) = members.get_mut("cells").and_then(Value::as_array_mut).and_then(|cells| cells.last_mut()) {
                *last = json!("…");
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| normalise(item, namespace)),
        Value::String(text) if text.contains(namespace) => *text = text.replace(namespace, "NS"),
        _ => {}
    }
}

/// Stands for what is not there, in a report.
static ABSENT: Value = Value::Null;

/// The places where two answers differ.
fn differ(at: &str, real: &Value, ours: &Value, found: &mut Vec<String>) {
    match (real, ours) {
        (Value::Object(a), Value::Object(b)) => {
            let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names {
                differ(&format!("{at}/{name}"), a.get(name).unwrap_or(&ABSENT), b.get(name).unwrap_or(&ABSENT), found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().for_each(|(n, (a, b))| differ(&format!("{at}/{n}"), a, b, found));
        }
        _ if real != ours => found.push(format!("  {at}: really {real}, in the sandbox {ours}")),
        _ => {}
    }
}

#[tokio::test]
async fn the_sandbox_answers_as_a_real_api_server_does() {
    let Some(plane) = ControlPlane::shared().await else { return };
    let ns = plane.namespace("conversations").await;
    let sandbox = Sandbox::new().unwrap();
    let own = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ns.name()}}).to_string();
    let create = Request::post("/api/v1/namespaces").header(header::CONTENT_TYPE, JSON).body(Body::from(own.into_bytes())).unwrap();
    sandbox.client().send(create).await.unwrap();
    let mut differences = vec![];
    for turns in [sizes(), scalers(), broken(), unfit(), impossible(), others()] {
        let real = converse(&plane.client(), ns.name(), &turns).await;
        let ours = converse(&sandbox.client(), ns.name(), &turns).await;
        for ((turn, real), ours) in turns.iter().zip(real).zip(ours) {
            let before = differences.len();
            differ("", &real, &ours, &mut differences);
            if differences.len() > before {
                differences.insert(before, turn.what.clone());
            }
        }
    }
    assert!(differences.is_empty(), "not the same:\n{}", differences.join("\n"));
}
