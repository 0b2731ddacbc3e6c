//! The API as something that can be asked: in memory or over HTTP.

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use futures::Stream;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::api::{Answer, Api};
use crate::faults::{Fault, Faults};
use crate::journal::{Call, Change};
use crate::proxy::{Pages, Proxied};
use crate::refusal::Refusal;
use crate::request::{Ask, Request, Verb};
use crate::watch::Watch;

/// How often a watch that asks for bookmarks gets one.
const BOOKMARKS: Duration = Duration::from_secs(60);

/// How many calls are remembered until somebody asks for them, which in the demo nobody does.
const CALLS: usize = 10_000;

/// A Kubernetes API in this process. Clones are the same API.
#[derive(Clone)]
pub struct Sandbox {
    shared: Arc<Shared>,
}

struct Shared {
    api: Mutex<Api>,
    /// The newest version.
    changed: watch::Sender<u64>,
    /// Moves when all watches are to break off.
    cut: watch::Sender<u64>,
    faults: Faults,
    calls: Mutex<VecDeque<Call>>,
    pages: Pages,
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
}

impl Sandbox {
    /// An API with the namespaces of a new cluster, a node called `sandbox`, and the definition of `LLMScaler`. Its time goes on with
    /// tokio's clock, and so stands still where that is paused.
    ///
    /// # Errors
    /// The definition has no JSON form, which is not known to happen.
    pub fn new() -> serde_json::Result<Self> {
        let (at, since) = (Timestamp::now(), Instant::now());
        Self::with_clock(move || {
            let passed = SignedDuration::try_from(since.elapsed()).unwrap_or(SignedDuration::MAX);
            at.saturating_add(passed).unwrap_or(at)
        })
    }

    /// The same in a time of its own, as one that goes on faster.
    ///
    /// # Errors
    /// The definition has no JSON form, which is not known to happen.
    pub fn with_clock(clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> serde_json::Result<Self> {
        let now = clock();
        let shared = Shared {
            api: Mutex::new(Api::new(&llmscaler_api::definition()?, now)),
            changed: watch::Sender::new(0),
            cut: watch::Sender::new(0),
            faults: Faults::default(),
            calls: Mutex::default(),
            pages: Pages::default(),
            clock: Box::new(clock),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The time of its timestamps.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (self.shared.clock)()
    }

    /// What is to go wrong.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// Breaks all watches off.
    pub fn cut_watches(&self) {
        self.shared.cut.send_modify(|count| *count += 1);
    }

    /// Forgets all past changes: whoever resumes a watch from an older version than the newest gets 410.
    pub fn forget_changes(&self) {
        self.lock().store.forget();
    }

    /// The calls since the last time this was asked, the newest 10,000 at most.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.shared.calls.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }

    /// What has changed since this version, 0 being the beginning; `None` if some of it is forgotten.
    #[must_use]
    pub fn changes_since(&self, version: u64) -> Option<Vec<Change>> {
        Some(self.lock().store.since(version)?.map(Change::of).collect())
    }

    /// Moves with each change.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }

    /// Works on the objects themselves.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut Api, Timestamp) -> R) -> R {
        let mut api = self.lock();
        let result = work(&mut api, self.now());
        let version = api.store.version();
        drop(api);
        self.shared.changed.send_if_modified(|seen| std::mem::replace(seen, version) != version);
        result
    }

    /// The pages that are served on loopback.
    pub(crate) fn pages(&self) -> &Pages {
        &self.shared.pages
    }

    /// Answers a request, or lets it go wrong.
    pub(crate) async fn handle(&self, mut request: Request) -> Response<Body> {
        if let Some(asked) = Proxied::of(&request.path) {
            return self.proxied(asked, &request);
        }
        let ask = request.ask().and_then(Result::ok);
        let fault = ask.as_ref().and_then(|ask| self.shared.faults.take(ask, request.agent()));
        let mut cut_after = None;
        match (fault, &ask) {
            (Some(Fault::Hang), _) => {
                self.record(ask.as_ref(), &request, 0, self.version());
                pending().await
            }
            (Some(Fault::Slow(time)), _) => sleep(time).await,
            (Some(Fault::CutWatch { after }), _) => cut_after = Some(after),
            (Some(Fault::StaleList { behind }), _) => self.make_stale(&mut request, behind),
            (Some(fault), Some(ask)) => {
                let before = self.version();
                if let Some(answer) = self.fails(fault, ask, &request) {
                    return self.response(Some(ask), &request, answer, before, None);
                }
            }
            _ => {}
        }
        let before = self.version();
        let answer = self.with(|api, now| api.respond(&request, now));
        self.response(ask.as_ref(), &request, answer, before, cut_after)
    }

    fn version(&self) -> u64 {
        self.lock().store.version()
    }

    /// The answer of a request that goes wrong at once.
    fn fails(&self, fault: Fault, ask: &Ask, request: &Request) -> Option<Answer> {
        let name = ask.name.as_deref().unwrap_or_default();
        let refusal = match fault {
            Fault::Conflict => Refusal::modified(ask.resource, name),
            Fault::TooManyRequests { retry_after } => Refusal::too_many_requests(retry_after),
            Fault::InternalError => Refusal::internal("the sandbox was asked to fail"),
            Fault::LostAnswer => {
                let _ = self.with(|api, now| api.respond(request, now));
                Refusal::internal("the sandbox was asked to lose the answer")
            }
            Fault::Gone => {
                let refusal = self.with(|api, _| Refusal::too_old(1, api.store.version()));
                if ask.verb == Verb::Watch
                    && let Answer::Watch(mut watch) = self.with(|api, now| api.respond(request, now))
                {
                    watch.fail(&refusal);
                    return Some(Answer::Watch(watch));
                }
                refusal
            }
            Fault::Hang | Fault::Slow(_) | Fault::CutWatch { .. } | Fault::StaleList { .. } => return None,
        };
        Some(refusal.into())
    }

    fn make_stale(&self, request: &mut Request, behind: u64) {
        let (newest, oldest) = self.with(|api, _| (api.store.version(), api.store.oldest()));
        request.set_param("resourceVersion", newest.saturating_sub(behind).max(oldest).to_string());
        request.set_param("resourceVersionMatch", "Exact".to_owned());
    }

    /// Answers a request that is about no object.
    pub(crate) fn answer_with(&self, answer: Answer, request: &Request) -> Response<Body> {
        self.response(None, request, answer, self.version(), None)
    }

    fn response(&self, ask: Option<&Ask>, request: &Request, answer: Answer, before: u64, cut_after: Option<Duration>) -> Response<Body> {
        let (code, body, retry_after) = match answer {
            Answer::Object(code, object) => {
                let retry = object["details"]["retryAfterSeconds"].as_u64().filter(|_| code == 429);
                (code, Body::from(object.to_string()), retry)
            }
            Answer::Text(code, text) => (code, Body::from(text), None),
            Answer::Watch(watch) => (200, Body::from_stream(self.clone().stream(*watch, cut_after)), None),
        };
        self.record(ask, request, code, before);
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }

    fn record(&self, ask: Option<&Ask>, request: &Request, code: u16, before: u64) {
        let Some(ask) = ask else { return };
        let call = Call::new(ask, request, self.now(), code, before..self.version());
        let mut calls = self.shared.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.len() == CALLS {
            calls.pop_front();
        }
        calls.push_back(call);
    }

    fn lock(&self) -> MutexGuard<'_, Api> {
        self.shared.api.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lines of a watch.
    fn stream(self, watch: Watch, cut_after: Option<Duration>) -> impl Stream<Item = Result<String, io::Error>> + Send + 'static {
        let now = Instant::now();
        let state = Streaming {
            changed: self.shared.changed.subscribe(),
            cut: self.shared.cut.subscribe(),
            cut_at: cut_after.map(|after| now + after),
            end: now + watch.timeout,
            mark: now + BOOKMARKS,
            sandbox: self,
            watch,
            broken: false,
        };
        futures::stream::unfold(state, Streaming::line)
    }
}

/// A watch that is being answered.
struct Streaming {
    sandbox: Sandbox,
    watch: Watch,
    changed: watch::Receiver<u64>,
    cut: watch::Receiver<u64>,
    cut_at: Option<Instant>,
    end: Instant,
    mark: Instant,
    broken: bool,
}

impl Streaming {
    async fn line(mut self) -> Option<(Result<String, io::Error>, Self)> {
        while !self.broken {
            self.changed.borrow_and_update();
            let now = self.sandbox.now();
            let event = self.watch.next(&self.sandbox.lock(), now);
            if let Some(event) = event {
                return Some((Ok(format!("{event}\n")), self));
            }
            if self.watch.is_over() {
                return None;
            }
            let cut_at = self.cut_at;
            tokio::select! {
                _ = self.changed.changed() => {}
                () = sleep_until(self.end) => self.watch.end(),
                () = sleep_until(self.mark), if self.watch.bookmarks => {
                    self.watch.mark();
                    self.mark += BOOKMARKS;
                }
                _ = self.cut.changed() => self.broken = true,
                () = sleep_until(cut_at.unwrap_or(self.end)), if cut_at.is_some() => self.broken = true,
            }
            if self.broken {
                let error = io::Error::new(io::ErrorKind::ConnectionReset, "the sandbox cut the watch");
                return Some((Err(error), self));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn calls_that_nobody_asks_for_are_bounded() {
        let sandbox = Sandbox::new().unwrap();
        for number in 0..CALLS + 5 {
            let head = axum::http::Request::get(format!("/api/v1/namespaces/{number}")).body(()).unwrap().into_parts().0;
            sandbox.handle(Request::new(head.method, &head.uri, &head.headers, vec![])).await;
        }
        let calls = sandbox.calls();
        assert_eq!((calls.len(), calls[0].name.as_str()), (CALLS, "5"));
        assert!(sandbox.calls().is_empty());
    }
}
