//! Who may read the metrics: the API server is asked who the token belongs to, and whether they may `get` the path `/metrics`.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use axum::{
    http::{
        HeaderMap, StatusCode,
        header::{AUTHORIZATION, WWW_AUTHENTICATE},
    },
    response::{IntoResponse, Response},
};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};
use tracing::{debug, warn};

/// How long an answer of the API server stands, be it yes or no.
const REMEMBERED: Duration = Duration::from_secs(10);
/// How many answers are remembered. A cluster has a few scrapers; more come from somebody who guesses tokens.
const MOST_REMEMBERED: usize = 256;
/// How many scrapes ask the API server at the same time; the others wait.
const MOST_ASKING: usize = 4;
/// The deadline of one question.
const CALL_DEADLINE: Duration = Duration::from_secs(3);

pub(super) struct Gate {
    tokens: Api<TokenReview>,
    access: Api<SubjectAccessReview>,
    asking: Semaphore,
    remembered: Mutex<HashMap<String, (Instant, Verdict)>>,
}

/// What the API server says of a token. Cannot be told is not among them: that is asked again.
type Verdict = Result<(), Denial>;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Denial {
    /// The token is nobody's.
    Unauthenticated,
    /// The token's owner may not read metrics.
    Forbidden { user: String },
}

#[derive(Debug, PartialEq)]
pub(super) enum Refusal {
    NoToken,
    Denied(Denial),
    CannotTell,
}

#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error("no answer within {} s", CALL_DEADLINE.as_secs())]
    NoAnswer,
    #[error("{0}")]
    Api(#[from] kube::Error),
}

impl Gate {
    pub(super) fn new(client: Client) -> Self {
        Self {
            tokens: Api::all(client.clone()),
            access: Api::all(client),
            asking: Semaphore::new(MOST_ASKING),
            remembered: Mutex::default(),
        }
    }

    /// Whether the request with these headers may have the metrics.
    pub(super) async fn admit(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let token = bearer_token(headers).ok_or(Refusal::NoToken)?;
        if let Some(verdict) = self.recall(token) {
            return verdict.map_err(Refusal::Denied);
        }
        // The semaphore is never closed.
        let _turn = self.asking.acquire().await;
        // While this request waited for its turn, another may have brought the answer.
        if let Some(verdict) = self.recall(token) {
            return verdict.map_err(Refusal::Denied);
        }
        let verdict = self.ask(token).await.map_err(|error| {
            warn!(%error, "a scrape of the metrics is refused: asking who it is takes create on tokenreviews and subjectaccessreviews");
            Refusal::CannotTell
        })?;
        self.remember(token, &verdict);
        verdict.map_err(Refusal::Denied)
    }

    async fn ask(&self, token: &str) -> Result<Verdict, AskError> {
        let question =
            TokenReview { spec: TokenReviewSpec { token: Some(token.to_owned()), ..TokenReviewSpec::default() }, ..TokenReview::default() };
        let status = within_deadline(self.tokens.create(&PostParams::default(), &question)).await?.status.unwrap_or_default();
        let Some(user) = status.user.filter(|_| status.authenticated == Some(true)) else {
            debug!(error = status.error, "a scrape of the metrics came with a token that is nobody's");
            return Ok(Err(Denial::Unauthenticated));
        };

        let name = user.username.clone().unwrap_or_default();
        let answer = within_deadline(self.access.create(&PostParams::default(), &may_read_metrics(user))).await?;
        let allowed = answer.status.is_some_and(|status| status.allowed && status.denied != Some(true));
        Ok(if allowed { Ok(()) } else { Err(Denial::Forbidden { user: name }) })
    }

    fn recall(&self, token: &str) -> Option<Verdict> {
        let remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, verdict) = remembered.get(token)?;
        (since.elapsed() < REMEMBERED).then(|| verdict.clone())
    }

    fn remember(&self, token: &str, verdict: &Verdict) {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.retain(|_, (since, _)| since.elapsed() < REMEMBERED);
        if remembered.len() < MOST_REMEMBERED {
            remembered.insert(token.to_owned(), (Instant::now(), verdict.clone()));
        }
    }
}

#[cfg(test)]
impl Gate {
    pub(super) fn remembered(&self) -> usize {
        self.remembered.lock().unwrap().len()
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::NoToken => unauthorized("the metrics are for authenticated readers: send a token as 'Authorization: Bearer …'\n"),
            Self::Denied(Denial::Unauthenticated) => unauthorized("the token is not valid in this cluster, or no longer\n"),
            Self::Denied(Denial::Forbidden { user }) => {
                let why = format!("{user} may not read the metrics: bind a ClusterRole with get on the nonResourceURL /metrics\n");
                (StatusCode::FORBIDDEN, why).into_response()
            }
            Self::CannotTell => {
                let why = "the API server could not be asked who may read the metrics; the operator's log says why\n";
                (StatusCode::SERVICE_UNAVAILABLE, why).into_response()
            }
        }
    }
}

fn unauthorized(why: &'static str) -> Response {
    (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")], why).into_response()
}

fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn may_read_metrics(user: UserInfo) -> SubjectAccessReview {
    let path = NonResourceAttributes { path: Some("/metrics".to_owned()), verb: Some("get".to_owned()) };
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: user.username,
            groups: user.groups,
            uid: user.uid,
            extra: user.extra,
            non_resource_attributes: Some(path),
            resource_attributes: None,
        },
        ..SubjectAccessReview::default()
    }
}

async fn within_deadline<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, AskError> {
    Ok(timeout(CALL_DEADLINE, call).await.map_err(|_| AskError::NoAnswer)??)
}
