use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use futures::StreamExt;
use llmscaler_api::{LLMScaler, TargetRef};
use llmscaler_engine::{
    Activation, Bounds, Decision, Law, Memory, Mode, Observation, Reading, Replicas, ScaleDown, Source, Spec, Target, Time, VictimOrder,
    Workload, decide,
};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tower::ServiceExt;

use super::*;
use crate::context::Context;
use crate::fake_api::Fleet;
use crate::scaler;

fn spec(names: &[&str]) -> Spec {
    let source = |name: &&str| Source {
        name: (*name).to_owned(),
        law: Law::Average { target: Target::new(5.0).unwrap() },
        activation: Activation::ANY_LOAD,
        required: false,
    };
    Spec {
        bounds: Bounds { min: Replicas::new(1), max: Replicas::new(8) },
        sources: names.iter().map(source).collect(),
        sync_period: Duration::from_secs(15),
        scale_down: ScaleDown { window: Duration::ZERO, max_step: None, victims: VictimOrder::ColdestFirst },
        behavior: None,
        cooldown: Duration::ZERO,
        fallback: None,
        mode: Mode::Auto,
    }
}

fn target(name: &str) -> TargetRef {
    TargetRef { group: "apps".into(), version: "v1".into(), kind: "Deployment".into(), name: name.into() }
}

/// A decision for two replicas and these readings.
fn decision(spec: &Spec, readings: Vec<Reading>, at: Time) -> Decision {
    let workload = Workload { replicas: Replicas::new(2), ready: Replicas::new(2), ..Workload::default() };
    decide(spec, &Observation { workload, readings, traffic: None }, &Memory::default(), at)
}

/// One sync, 15 s after the one before it.
fn sync(history: &History, name: &str, number: i64, readings: Vec<Reading>, lateness: Lateness) {
    let (spec, at) = (spec(&["queue", "kv"][..readings.len()]), Time::from_millis(number * 15_000));
    let decision = decision(&spec, readings, at);
    let synced = Synced { at, target: &target(name), spec: &spec, decision: &decision, written: decision.write, lateness };
    history.decided("serving", name, &synced);
}

fn load(queued: f64) -> Vec<Reading> {
    vec![Reading::from_number(queued)]
}

fn router_of(history: &History) -> Router {
    server::router(history.clone(), vec![], CancellationToken::new())
}

async fn ask(router: &Router, method: Method, path: &str, headers: &[(&str, &str)]) -> (StatusCode, HeaderMap, String) {
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost:1");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let (head, body) = response.into_parts();
    (head.status, head.headers, String::from_utf8(to_bytes(body, usize::MAX).await.unwrap().to_vec()).unwrap())
}

async fn get(router: &Router, path: &str) -> Value {
    let (status, _, body) = ask(router, Method::GET, path, &[]).await;
    assert_eq!(status, StatusCode::OK, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

#[tokio::test]
async fn a_scaler_is_told_with_its_past() {
    let history = History::new();
    sync(&history, "chat", 1, load(9.0), Lateness::default());
    sync(&history, "chat", 2, load(20.0), Lateness { ttft: Some(0.25), tpot: None });
    history.failed("serving", "chat", Time::from_millis(45_000), "FailedGetScale", "the API server does not answer");
    sync(&history, "chat", 4, vec![Reading::unknown("connection refused"), Reading::from_number(8.0)], Lateness::default());
    let router = router_of(&history);

    let all = get(&router, "/api/scalers").await;
    let chat = &all["scalers"][0];
    assert_eq!((&chat["namespace"], &chat["name"], &chat["target"]), (&json!("serving"), &json!("chat"), &json!("Deployment/chat")));
    assert_eq!((&chat["spec"], &chat["ready"], &chat["desired"], &chat["max"]), (&json!(2), &json!(2), &json!(2), &json!(8)));
    assert_eq!(chat["trend"], json!([2, 4, null, 2]), "what is unknown is a gap");
    assert_eq!(chat["lastScale"], json!({"at": 30_000, "from": 2, "to": 4}));
    assert_eq!(chat["troubles"], json!(["FailedGetMetrics"]));

    let scaler = &get(&router, "/api/scalers/serving/chat").await["scaler"];
    let past = &scaler["history"];
    assert_eq!(past["at"], json!([15_000, 30_000, 45_000, 60_000]));
    assert_eq!((&past["spec"], &past["desired"]), (&json!([2, 4, null, 2]), &json!([2, 4, null, 2])));
    assert_eq!(past["lateTtft"], json!([null, 0.25, null, null]));
    assert_eq!(past["signals"][0], json!({"name": "queue", "value": [9, 20, null, null], "target": [10, 20, null, 10]}));
    assert_eq!(past["signals"][1]["value"], json!([null, null, null, 8]), "a signal that came later");
    let stages = scaler["decision"]["stages"].as_array().unwrap();
    let names: Vec<_> = stages.iter().map(|stage| stage["stage"].as_str().unwrap()).collect();
    assert_eq!(names, ["recommend", "activate", "bound", "stabilise", "pace", "guard", "write"]);
    assert!(stages.iter().all(|stage| stage["message"].as_str().is_some_and(|message| !message.is_empty())));
    assert_eq!(scaler["readings"][0]["message"], "connection refused");
    let written: Vec<_> = scaler["decisions"].as_array().unwrap().iter().map(|decision| decision["written"].clone()).collect();
    assert_eq!(written, [json!(null), json!(4), json!(null)], "newest first");
}

#[tokio::test]
async fn what_is_kept_is_bounded_and_goes_with_the_scaler() {
    let history = History::new();
    for number in 0..1000 {
        sync(&history, "chat", number, load(if number % 2 == 0 { 20.0 } else { 8.0 }), Lateness::default());
        history.event("serving", "chat", Time::from_millis(number), number % 2 == 0, "SuccessfulRescale", &"x".repeat(5000));
    }
    let router = router_of(&history);
    let scaler = &get(&router, "/api/scalers/serving/chat").await["scaler"];
    let lengths = [&scaler["history"]["at"], &scaler["history"]["signals"][0]["value"], &scaler["decisions"], &scaler["events"]];
    assert_eq!(lengths.map(|list| list.as_array().unwrap().len()), [SAMPLES, SAMPLES, DECISIONS, EVENTS]);
    assert_eq!(scaler["history"]["at"][0], json!((1000 - SAMPLES as i64) * 15_000));
    assert!(scaler["events"][0]["message"].as_str().unwrap().len() <= 1003);

    // Another workload has another past.
    let (spec, at) = (spec(&["queue"]), Time::from_millis(1));
    let decision = decision(&spec, load(1.0), at);
    let moved = Synced { at, target: &target("other"), spec: &spec, decision: &decision, written: None, lateness: Lateness::default() };
    history.decided("serving", "chat", &moved);
    assert_eq!(get(&router, "/api/scalers/serving/chat").await["scaler"]["history"]["at"], json!([1]));

    let since = history.changes(None).unwrap().version;
    history.forget("serving", "chat");
    assert_eq!(ask(&router, Method::GET, "/api/scalers/serving/chat", &[]).await.0, StatusCode::NOT_FOUND);
    let changes = serde_json::to_value(history.changes(Some(since)).unwrap()).unwrap();
    assert_eq!((&changes["gone"], &changes["scalers"]), (&json!([["serving", "chat"]]), &json!([])));
    for number in 0..1001 {
        sync(&history, &number.to_string(), 1, load(1.0), Lateness::default());
    }
    history.clear();
    assert!(history.changes(Some(since)).is_none(), "more have gone than are remembered");
}

#[tokio::test]
async fn conditions_that_a_person_should_look_at_are_troubles() {
    let history = History::new();
    sync(&history, "chat", 1, load(9.0), Lateness::default());
    let troubles = async |conditions: Value| {
        let condition = |(kind, status, reason): (String, String, String)| {
            let time = "2026-01-01T00:00:00Z";
            json!({"type": kind, "status": status, "reason": reason, "message": "m", "lastTransitionTime": time})
        };
        let conditions: Vec<(String, String, String)> = serde_json::from_value(conditions).unwrap();
        let status = json!({"conditions": conditions.into_iter().map(condition).collect::<Vec<_>>()});
        history.status("serving", "chat", &serde_json::from_value(status).unwrap());
        get(&router_of(&history), "/api/scalers").await["scalers"][0]["troubles"].clone()
    };
    let harmless = json!([
        ["ScalingActive", "True", "ValidMetricFound"],
        ["AbleToScale", "False", "NotSettled"],
        ["ScalingLimited", "True", "TooFewReplicas"],
        ["ColdHistory", "True", "HistoryShort"],
        ["AtMax", "False", "DemandWithinMax"],
        ["QueriesScoped", "Unknown", "UnreadableQuery"],
    ]);
    assert_eq!(troubles(harmless).await, json!([]));
    assert_eq!(troubles(json!([["ScalingActive", "False", "ScalingDisabled"]])).await, json!([]), "switched off on purpose");
    let bad = json!([
        ["Ready", "False", "TargetOwned"],
        ["TargetOwned", "False", "TargetOwned"],
        ["ScalingLimited", "True", "TooManyReplicas"],
        ["AtMax", "True", "DemandAboveMax"],
    ]);
    assert_eq!(troubles(bad).await, json!(["TargetOwned", "TooManyReplicas", "DemandAboveMax"]));
}

#[tokio::test]
async fn only_get_is_answered_and_every_answer_is_guarded() {
    let router = router_of(&History::new());
    let pages = [
        "/",
        "/style.css",
        "/icon.svg",
        "/app.js",
        "/overview.js",
        "/detail.js",
        "/clock.js",
        "/chart.js",
        "/element.js",
        "/state.js",
        "/text.js",
    ];
    for path in pages.into_iter().chain(["/api/scalers"]) {
        let (status, headers, body) = ask(&router, Method::GET, path, &[]).await;
        assert_eq!(status, StatusCode::OK, "{path}");
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(
            policy.starts_with("default-src 'self';") && policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"),
            "{policy}"
        );
        assert_eq!(
            (&headers["x-content-type-options"], &headers["referrer-policy"]),
            (&"nosniff".parse().unwrap(), &"no-referrer".parse().unwrap())
        );
        assert!(!headers.contains_key("access-control-allow-origin"));
        for elsewhere in ["https://", "//cdn", "@import", "style=\"", "onclick"] {
            assert!(!body.contains(elsewhere), "{path} has {elsewhere}");
        }
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS] {
            assert_eq!(ask(&router, method, path, &[]).await.0, StatusCode::METHOD_NOT_ALLOWED, "{path}");
        }
    }
    for path in ["/api/scalers/serving/none", "/api/scalers/serving", "/api", "/..%2f..%2fetc%2fpasswd", "/index.html"] {
        let (status, headers, body) = ask(&router, Method::GET, path, &[]).await;
        assert_eq!((status, headers.contains_key("content-security-policy")), (StatusCode::NOT_FOUND, true), "{path}");
        assert!(serde_json::from_str::<Value>(&body).unwrap()["error"].is_string());
    }
    for headers in [[("host", "evil.example"), ("accept", "*/*")], [("origin", "https://evil.example"), ("accept", "*/*")]] {
        let mut request = Request::builder().uri("/api/scalers");
        if headers[0].0 != "host" {
            request = request.header("host", "localhost");
        }
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let response = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), StatusCode::FORBIDDEN, "{headers:?}");
    }
}

/// The events that a stream sends within two seconds.
async fn events(router: &Router, path: &str, headers: &[(&str, &str)]) -> String {
    let mut request = Request::builder().uri(path).header("host", "localhost:1");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut body = response.into_body().into_data_stream();
    let mut text = String::new();
    let _ = tokio::time::timeout(Duration::from_secs(2), async {
        while let Some(Ok(part)) = body.next().await {
            text.push_str(&String::from_utf8_lossy(&part));
        }
    })
    .await;
    text
}

#[tokio::test(start_paused = true)]
async fn a_page_is_told_what_has_changed_since_it_looked() {
    let history = History::new();
    sync(&history, "chat", 1, load(9.0), Lateness::default());
    sync(&history, "code", 1, load(9.0), Lateness::default());
    let router = router_of(&history);
    let seen = get(&router, "/api/scalers").await["event"].as_str().unwrap().to_owned();
    let changed = history.clone();
    tokio::spawn(async move {
        for number in 2..100 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            sync(&changed, "chat", number, load(9.0), Lateness::default());
        }
    });
    let text = events(&router, &format!("/api/events?since={seen}"), &[]).await;
    let messages = text.matches("event: scalers").count();
    assert!((3..=5).contains(&messages), "forty changes in few messages: {text}");
    assert!(text.contains("\"name\":\"chat\"") && !text.contains("\"name\":\"code\"") && text.contains("retry: 2000"), "{text}");

    // The browser's own memory of the stream is newer than the address that it was opened with.
    let last = history.event_id(history.changes(None).unwrap().version);
    let text = events(&router_of(&history), &format!("/api/events?since={seen}"), &[("last-event-id", &last)]).await;
    assert!(!text.contains("event: reset"), "{text}");
    for unknown in ["", "nonsense", "0-1", &format!("{last}0000")] {
        let text = events(&router, "/api/events", &[("last-event-id", unknown)]).await;
        assert!(text.starts_with("event: reset"), "{unknown}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn streams_are_counted_and_end_with_the_server() {
    let ending = CancellationToken::new();
    let router = server::router(History::new(), vec![], ending.clone());
    let open = async || {
        let request = Request::builder().uri("/api/events").header("host", "localhost").body(Body::empty()).unwrap();
        router.clone().oneshot(request).await.unwrap()
    };
    let mut streams = vec![];
    for _ in 0..64 {
        streams.push(open().await);
    }
    assert!(streams.iter().all(|stream| stream.status() == StatusCode::OK));
    assert_eq!(open().await.status(), StatusCode::SERVICE_UNAVAILABLE);
    streams.pop();
    let last = open().await;
    assert_eq!(last.status(), StatusCode::OK, "a page that goes makes room");
    ending.cancel();
    assert!(to_bytes(last.into_body(), usize::MAX).await.is_ok(), "it ends");
}

#[tokio::test]
async fn an_open_page_does_not_hold_up_the_end() {
    // It fails when another test was first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let shutdown = CancellationToken::new();
    let dashboard = Dashboard::bind((Ipv4Addr::LOCALHOST, 0).into(), vec![], Clock::start()).await.unwrap();
    let url = format!("http://{}/api/events", dashboard.addr());
    let running = tokio::spawn(dashboard.run(shutdown.clone()));
    let page = reqwest::get(url).await.unwrap();
    shutdown.cancel();
    let ended = tokio::time::timeout(crate::serve::GRACE / 2, running).await;
    assert!(ended.expect("sooner than answers under way are cut").unwrap().is_ok());
    assert!(page.bytes().await.is_ok(), "the stream has an end");
}

#[tokio::test]
async fn a_thousand_scalers_fit_into_one_answer() {
    let history = History::new();
    for scaler in 0..1000 {
        for number in 0..60 {
            sync(
                &history,
                &format!("scaler-{scaler}"),
                number,
                vec![Reading::from_number(12.345), Reading::from_number(0.5)],
                Lateness::default(),
            );
        }
    }
    let (_, _, body) = ask(&router_of(&history), Method::GET, "/api/scalers", &[]).await;
    let all: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(all["scalers"].as_array().unwrap().len(), 1000);
    assert!(body.len() < 800_000, "{} bytes", body.len());
}

/// What sources are asked with never reaches the dashboard, whatever a sync comes to.
#[tokio::test]
async fn no_secret_is_told() {
    let fleet = Fleet::new(2, false);
    let history = History::new();
    let context = Arc::new(Context { history: Some(history.clone()), ..fleet.context() });
    let spec = json!({
        "targetRef": {"apiVersion": "example.com/v1", "kind": "Engine", "name": "fleet"}, "minReplicas": 1, "maxReplicas": 9,
        "serverAddress": "http://user:tell-nobody-1@127.0.0.1:1/?token=tell-nobody-2",
        "serverHeaders": {"Authorization": "Bearer tell-nobody-3", "X-Key": "tell-nobody-4"},
        "metrics": [{"name": "queue", "query": "queued", "target": "1", "metricType": "AverageValue"}],
    });
    for (name, address) in
        [("chat", "http://user:tell-nobody-1@127.0.0.1:1"), ("bad", "http://user:tell-nobody-1@127.0.0.1:1/?token=tell-nobody-2")]
    {
        let mut spec = spec.clone();
        spec["serverAddress"] = json!(address);
        let object = json!({"metadata": {"name": name, "namespace": "serving", "generation": 1}, "spec": spec});
        let object: Arc<LLMScaler> = Arc::new(serde_json::from_value(object).unwrap());
        let (_sender, receiver) = watch::channel(object);
        let _ = tokio::time::timeout(Duration::from_secs(3), scaler::run(context.clone(), receiver, Instant::now())).await;
    }
    let router = router_of(&history);
    let all = get(&router, "/api/scalers").await;
    assert_eq!(all["scalers"].as_array().map(Vec::len), Some(2), "both are told of: {all}");
    for name in ["chat", "bad"] {
        let told = get(&router, &format!("/api/scalers/serving/{name}")).await.to_string();
        assert!(!told.contains("tell-nobody") && !all.to_string().contains("tell-nobody"), "{told}");
    }
    assert_eq!(all["scalers"][1]["signals"][0]["state"], "Unknown", "{all}");
}
