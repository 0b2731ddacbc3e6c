//! News of the scalers as server-sent events.
//!
//! Nothing is queued for a page: whenever it is ready for more, it is sent what has changed since it was sent something last. One
//! that is slow gets fewer and later messages, each with the newest state.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::{StreamExt, unfold};
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep_until};

use super::history::{Changes, History};
use super::server::{Shared, refusal};

/// The least time between two messages: enough for the eye, and what one burst of syncs changes is one message.
const PACE: Duration = Duration::from_millis(500);
/// A comment after so much silence keeps proxies from cutting the connection, and shows a connection that is dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How soon a page tries again.
const RETRY: Duration = Duration::from_secs(2);

/// Where to go on.
#[derive(Debug, Deserialize)]
pub(super) struct Since {
    since: Option<String>,
}

/// `scalers` events with what has changed, from where the page stands; a `reset` when that is not known, and the page has to be
/// fetched anew.
pub(super) async fn events(State(shared): State<Shared>, Query(from): Query<Since>, headers: HeaderMap) -> Response {
    let Shared { history, streams, ending } = shared;
    let Ok(turn) = streams.try_acquire_owned() else {
        return refusal(StatusCode::SERVICE_UNAVAILABLE, "too many pages are fed already; close some of them");
    };
    // What the browser remembers of a connection that broke is newer than what the page's script knew when it was opened.
    let told = headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let seen = told.or(from.since).and_then(|event| history.version_of(&event));
    let feed = Feed { versions: history.versions(), history, seen, next: Instant::now(), first: true, _turn: turn };
    let events = unfold(feed, |mut feed| async move { feed.message().await.map(|message| (Ok::<_, Infallible>(message), feed)) });
    Sse::new(events.take_until(ending.cancelled_owned())).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

/// What one page is fed from.
struct Feed {
    history: History,
    versions: watch::Receiver<u64>,
    /// The version that the page has.
    seen: Option<u64>,
    /// When it may have the next message.
    next: Instant,
    first: bool,
    _turn: OwnedSemaphorePermit,
}

impl Feed {
    /// The next message, as soon as there is something to tell; the first one at once, so that the page knows that it is connected.
    async fn message(&mut self) -> Option<Event> {
        sleep_until(self.next).await;
        if !std::mem::take(&mut self.first) {
            self.versions.changed().await.ok()?;
        }
        self.next = Instant::now() + PACE;
        let version = *self.versions.borrow_and_update();
        let changes = self.seen.and_then(|seen| self.history.changes(Some(seen)));
        self.seen = Some(changes.as_ref().map_or(version, |changes| changes.version));
        let message = match changes {
            Some(changes) => event(&changes)?,
            None => Event::default().event("reset").id(self.history.event_id(version)).data("{}"),
        };
        Some(message.retry(RETRY))
    }
}

fn event(changes: &Changes) -> Option<Event> {
    Some(Event::default().event("scalers").id(&changes.event).data(serde_json::to_string(changes).ok()?))
}
