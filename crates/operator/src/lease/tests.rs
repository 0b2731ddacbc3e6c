use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::{
    task::JoinHandle,
    time::{Instant, advance, sleep, timeout},
};
use tower::service_fn;

use super::*;

type Request = axum::http::Request<Body>;
type Response = axum::http::Response<Body>;

/// An API server that knows one lease, and that can be told to misbehave.
#[derive(Clone, Default)]
struct ApiServer(Arc<Mutex<Stored>>);

#[derive(Default)]
struct Stored {
    lease: Option<Value>,
    version: u64,
    /// How the next writes are answered; when it is empty, as they should be.
    faults: VecDeque<Fault>,
    writes: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    /// No answer ever, and nothing happens.
    Hang,
    /// No answer ever, but the write is made.
    HangAfterwards,
    /// The write is made, and answered 4 s later.
    Slow,
    /// A 500, and nothing happens.
    Error,
}

impl ApiServer {
    fn client(&self) -> Client {
        let server = self.clone();
        Client::new(service_fn(move |request| server.clone().answer(request)), "default")
    }

    fn election(&self, identity: &str) -> Election {
        Election::new(self.client(), "llmscaler-system", "0abb3156.modelsphere.dev", identity.to_owned())
    }

    async fn answer(self, request: Request) -> Result<Response, Infallible> {
        let (head, body) = request.into_parts();
        assert!(head.uri.path().starts_with("/apis/coordination.k8s.io/v1/namespaces/llmscaler-system/leases"), "{}", head.uri);
        let body = body.collect_bytes().await.unwrap();
        let fault = if head.method == "GET" { None } else { self.0.lock().unwrap().faults.pop_front() };
        match fault {
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::Error) => return Ok(status(500, "InternalError")),
            _ => {}
        }
        let answer = self.stored(head.method.as_str(), &body);
        match fault {
            Some(Fault::HangAfterwards) => std::future::pending().await,
            Some(Fault::Slow) => sleep(Duration::from_secs(4)).await,
            _ => {}
        }
        Ok(answer)
    }

    fn stored(&self, method: &str, body: &[u8]) -> Response {
        let mut stored = self.0.lock().unwrap();
        let current = stored.lease.as_ref().map(|lease| lease["metadata"]["resourceVersion"].clone());
        match method {
            "GET" => return stored.lease.as_ref().map_or_else(|| status(404, "NotFound"), |lease| answer(200, lease)),
            "POST" if current.is_some() => return status(409, "AlreadyExists"),
            "PUT" if current.is_none() => return status(404, "NotFound"),
            "POST" | "PUT" => {}
            _ => panic!("{method} is not for this role"),
        }
        let lease: Value = serde_json::from_slice(body).unwrap();
        if method == "PUT" && current != Some(lease["metadata"]["resourceVersion"].clone()) {
            return status(409, "Conflict");
        }
        stored.writes += 1;
        drop(stored);
        answer(200, &self.put(lease))
    }

    /// Stores `lease` as its next version.
    fn put(&self, mut lease: Value) -> Value {
        let mut stored = self.0.lock().unwrap();
        stored.version += 1;
        lease["metadata"]["resourceVersion"] = json!(stored.version.to_string());
        stored.lease = Some(lease.clone());
        lease
    }

    /// Another process, such as the operator in Go, takes or renews the lease.
    fn held_by(&self, holder: &str, seconds: i32) {
        self.put(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "0abb3156.modelsphere.dev", "namespace": "llmscaler-system", "labels": {"kept": "yes"}},
            "spec": {
                "holderIdentity": holder, "leaseDurationSeconds": seconds, "leaseTransitions": 7,
                "acquireTime": "2020-01-01T00:00:00.000000Z", "renewTime": Timestamp::now().to_string(),
            },
        }));
    }

    fn spec(&self, field: &str) -> Value {
        self.0.lock().unwrap().lease.as_ref().map_or(Value::Null, |lease| lease["spec"][field].clone())
    }

    fn fail(&self, faults: &[Fault]) {
        self.0.lock().unwrap().faults.extend(faults);
    }

    fn writes(&self) -> usize {
        self.0.lock().unwrap().writes
    }
}

fn answer(code: u16, body: &Value) -> Response {
    axum::http::Response::builder().status(code).body(Body::from(serde_json::to_vec(body).unwrap())).unwrap()
}

fn status(code: u16, reason: &str) -> Response {
    answer(code, &json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": reason, "message": reason, "code": code}))
}

async fn acquired(election: &Election) -> Claim {
    timeout(Duration::from_secs(60), election.acquire()).await.expect("the lease is free")
}

fn acquiring(election: Election) -> JoinHandle<(Claim, Instant)> {
    tokio::spawn(async move { (election.acquire().await, Instant::now()) })
}

/// How long until the claim is lost.
async fn lost_after(claim: &Claim) -> Duration {
    let start = Instant::now();
    timeout(Duration::from_secs(60), claim.lost()).await.expect("the claim is lost");
    assert!(!claim.is_current());
    start.elapsed()
}

fn is_about(duration: Duration, seconds: f64) -> bool {
    (duration.as_secs_f64() - seconds).abs() < 0.1
}

#[tokio::test(start_paused = true)]
async fn a_free_lease_is_created_at_once_and_renewed() {
    let server = ApiServer::default();
    let start = Instant::now();
    let claim = acquired(&server.election("a")).await;
    assert!(start.elapsed() < Duration::from_millis(100));
    assert!(claim.is_current());
    assert_eq!(server.spec("holderIdentity"), "a");
    assert_eq!(server.spec("leaseDurationSeconds"), 15);
    assert_eq!(server.spec("leaseTransitions"), 0);
    let (acquire_time, renew_time) = (server.spec("acquireTime"), server.spec("renewTime"));

    sleep(Duration::from_secs(600)).await;
    assert!(claim.is_current());
    assert!((240..=301).contains(&server.writes()), "{} writes in 10 minutes", server.writes());
    assert_eq!(server.spec("acquireTime"), acquire_time);
    assert_ne!(server.spec("renewTime"), renew_time);
    assert_eq!(server.spec("leaseTransitions"), 0);
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_a_dead_holder_is_taken_after_its_duration_by_our_clock() {
    for seconds in [15, 40] {
        let server = ApiServer::default();
        // Its time of renewal is long past on the wall clock, which says nothing: the clocks may differ.
        server.held_by("llm-operator-7f9_5c1e", seconds);
        server.0.lock().unwrap().lease.as_mut().unwrap()["spec"]["renewTime"] = json!("2020-01-01T00:00:00.000000Z");
        let start = Instant::now();
        let claim = acquired(&server.election("b")).await;
        let wait = start.elapsed().as_secs_f64() - f64::from(seconds);
        assert!((0.0..2.6).contains(&wait), "{wait} s after the end");
        assert!(claim.is_current());
        assert_eq!(server.spec("holderIdentity"), "b");
        assert_eq!(server.spec("leaseDurationSeconds"), 15);
        assert_eq!(server.spec("leaseTransitions"), 8);
        assert_eq!(server.0.lock().unwrap().lease.as_ref().unwrap()["metadata"]["labels"]["kept"], "yes");
    }
}

#[tokio::test(start_paused = true)]
async fn a_live_holder_is_waited_for() {
    let server = ApiServer::default();
    server.held_by("go", 15);
    let waiting = acquiring(server.election("b"));
    for _ in 0..20 {
        sleep(Duration::from_secs(10)).await;
        assert!(!waiting.is_finished());
        server.held_by("go", 15);
    }
    let last_renewal = Instant::now();
    let (claim, when) = waiting.await.unwrap();
    assert!(when - last_renewal >= LEASE_DURATION);
    assert!(claim.is_current());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_given_up_is_taken_at_once() {
    let server = ApiServer::default();
    server.held_by("", 1);
    let start = Instant::now();
    let claim = acquired(&server.election("b")).await;
    assert!(start.elapsed() < Duration::from_millis(100));
    assert!(claim.is_current());
}

#[tokio::test(start_paused = true)]
async fn of_two_racers_one_wins() {
    for lease in ["missing", "expired"] {
        let server = ApiServer::default();
        if lease == "expired" {
            server.held_by("", 1);
        }
        let (a, b) = (acquiring(server.election("a")), acquiring(server.election("b")));
        sleep(Duration::from_secs(120)).await;
        assert!(a.is_finished() != b.is_finished(), "{lease}: exactly one leads");
        let (winner, loser) = if a.is_finished() { (a, b) } else { (b, a) };
        let (claim, _) = winner.await.unwrap();
        assert!(claim.is_current());

        claim.release().await;
        let released = Instant::now();
        let (next, when) = loser.await.unwrap();
        assert!(when - released <= Duration::from_millis(2500), "{lease}");
        assert!(next.is_current() && !claim.is_current());
    }
}

#[tokio::test(start_paused = true)]
async fn a_stalled_renewal_ends_the_claim_though_nothing_failed() {
    let server = ApiServer::default();
    let claim = acquired(&server.election("a")).await;
    server.fail(&[Fault::Hang; 10]);
    sleep(RENEW_DEADLINE - Duration::from_millis(50)).await;
    assert!(claim.is_current());
    sleep(Duration::from_millis(100)).await;
    assert!(!claim.is_current());
    // For good, although calls are answered again.
    server.0.lock().unwrap().faults.clear();
    sleep(Duration::from_secs(60)).await;
    assert!(!claim.is_current());
    assert!(lost_after(&claim).await.is_zero());
}

#[tokio::test(start_paused = true)]
async fn the_clock_counts_from_before_the_call_was_sent() {
    let server = ApiServer::default();
    server.fail(&[Fault::Slow, Fault::Hang, Fault::Hang, Fault::Hang]);
    let claim = acquired(&server.election("a")).await;
    let after = lost_after(&claim).await;
    assert!(is_about(after, 6.0), "{after:?}");

    server.0.lock().unwrap().faults.clear();
    let claim = acquired(&server.election("a")).await;
    server.fail(&[Fault::Slow, Fault::Hang, Fault::Hang, Fault::Hang]);
    sleep(Duration::from_millis(2501)).await;
    let after = lost_after(&claim).await;
    assert!((9.4..=10.1).contains(&after.as_secs_f64()), "{after:?}");

    server.0.lock().unwrap().faults.clear();
    let claim = acquired(&server.election("a")).await;
    // This renewal reaches the server, which others see, but not us: the claim still counts from the one before.
    server.fail(&[Fault::HangAfterwards, Fault::Hang, Fault::Hang]);
    let after = lost_after(&claim).await;
    assert!(is_about(after, 10.0), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn no_successor_acts_before_the_margin_has_passed() {
    let server = ApiServer::default();
    let claim = acquired(&server.election("a")).await;
    sleep(Duration::from_secs(30)).await;
    let next = acquiring(server.election("b"));
    sleep(Duration::from_secs(30)).await;
    server.fail(&[Fault::Hang; 4]);
    claim.lost().await;
    let lost = Instant::now();
    server.0.lock().unwrap().faults.clear();
    let (_next, when) = next.await.unwrap();
    assert!(when - lost >= WRITE_MARGIN, "{:?}", when - lost);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_stopped_finds_its_claim_over() {
    let server = ApiServer::default();
    let claim = acquired(&server.election("a")).await;
    // Time passes in which no task of this process runs.
    advance(Duration::from_secs(11)).await;
    assert!(!claim.is_current());
    sleep(Duration::from_secs(30)).await;
    assert!(!claim.is_current());
}

#[tokio::test(start_paused = true)]
async fn passing_errors_do_not_end_the_claim() {
    let server = ApiServer::default();
    let claim = acquired(&server.election("a")).await;
    for fault in [Fault::Error, Fault::Hang, Fault::HangAfterwards] {
        server.fail(&[fault]);
        sleep(Duration::from_secs(30)).await;
        assert!(claim.is_current());
        assert_eq!(server.spec("leaseTransitions"), 0);
    }
    // Nor does somebody's label on the lease, or its removal.
    let labelled = server.0.lock().unwrap().lease.clone().unwrap();
    server.put(labelled);
    sleep(Duration::from_secs(30)).await;
    assert!(claim.is_current());
    server.0.lock().unwrap().lease = None;
    sleep(Duration::from_secs(30)).await;
    assert!(claim.is_current());
    assert_eq!(server.spec("holderIdentity"), "a");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_another_took_is_lost_at_the_next_renewal() {
    let server = ApiServer::default();
    let claim = acquired(&server.election("a")).await;
    server.held_by("thief", 15);
    assert!(lost_after(&claim).await <= Duration::from_millis(2500));
    let writes = server.writes();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(server.writes(), writes, "the renewal has ended");
    claim.release().await;
    assert_eq!(server.spec("holderIdentity"), "thief");
}

#[tokio::test(start_paused = true)]
async fn release_empties_the_lease() {
    let server = ApiServer::default();
    let claim = acquired(&server.election("a")).await;
    let other = claim.clone();
    let waiting = tokio::spawn({
        let claim = claim.clone();
        async move { claim.lost().await }
    });
    sleep(Duration::from_secs(5)).await;
    claim.release().await;
    assert!(!claim.is_current() && !other.is_current());
    assert_eq!(server.spec("holderIdentity"), "");
    assert_eq!(server.spec("leaseTransitions"), 0);
    waiting.await.unwrap();
    other.release().await;

    let again = acquired(&server.election("a")).await;
    assert!(again.is_current() && !claim.is_current());
    assert_eq!(server.spec("leaseTransitions"), 1);
}

#[tokio::test(start_paused = true)]
async fn release_overtakes_a_stalled_renewal_and_takes_no_longer_than_a_call() {
    let server = ApiServer::default();
    let claim = acquired(&server.election("a")).await;
    server.fail(&[Fault::HangAfterwards]);
    sleep(Duration::from_secs(4)).await;
    // The stalled renewal made another version, so the first try to give the lease up meets a conflict.
    let start = Instant::now();
    claim.release().await;
    assert!(start.elapsed() < Duration::from_millis(100));
    assert_eq!(server.spec("holderIdentity"), "");

    let claim = acquired(&server.election("a")).await;
    server.fail(&[Fault::Hang]);
    let start = Instant::now();
    tokio::join!(claim.release(), async {
        sleep(Duration::from_millis(1)).await;
        assert!(!claim.is_current(), "over at once");
    });
    assert!(is_about(start.elapsed(), 5.0));
}

#[tokio::test(start_paused = true)]
async fn the_renewal_ends_with_the_last_clone_of_the_claim() {
    let server = ApiServer::default();
    let claim = acquired(&server.election("a")).await;
    let clone = claim.clone();
    drop(claim);
    sleep(Duration::from_secs(60)).await;
    assert!(clone.is_current());
    drop(clone);
    let writes = server.writes();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(server.writes(), writes);
}

#[tokio::test(start_paused = true)]
async fn acquiring_may_be_cancelled_while_its_write_is_under_way() {
    let server = ApiServer::default();
    let election = server.election("a");
    server.fail(&[Fault::HangAfterwards]);
    assert!(timeout(Duration::from_secs(1), election.acquire()).await.is_err());
    // The write landed: the lease is ours, and found to be.
    let claim = acquired(&election).await;
    assert!(claim.is_current());
    assert_eq!(server.spec("leaseTransitions"), 0);
}

#[tokio::test(start_paused = true)]
async fn acquiring_outlasts_errors() {
    let server = ApiServer::default();
    server.fail(&[Fault::Error, Fault::Hang, Fault::Error]);
    let start = Instant::now();
    let claim = acquired(&server.election("a")).await;
    assert!(claim.is_current());
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn without_election_the_claim_always_stands() {
    let claim = Claim::always();
    claim.release().await;
    assert!(claim.is_current());
    assert!(timeout(Duration::from_secs(3600), claim.lost()).await.is_err());
}

#[test]
fn pauses_are_spread() {
    let pauses: Vec<Duration> = (0..100).map(|_| jittered(RETRY_PERIOD)).collect();
    assert!(pauses.iter().all(|pause| (RETRY_PERIOD..=RETRY_PERIOD + RETRY_PERIOD / 4).contains(pause)), "{pauses:?}");
    assert!(pauses.iter().any(|pause| pause != &pauses[0]));
}
