//! What a user may read: the API server is asked, as every server behind its aggregation layer does.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::authentication::v1::UserInfo;
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::{GROUP, VERSION};
use crate::deadline::{CallError, within};

/// How long an answer of the API server stands, be it yes or no.
const REMEMBERED: Duration = Duration::from_secs(10);
/// How many answers are remembered: one reader, the HPA controller, asks for each metric of the cluster.
const MOST_REMEMBERED: usize = 65_536;
/// How many questions are under way at the same time; the others wait.
const MOST_ASKING: usize = 16;
/// The group of those that may do everything, which the API server itself lets through without a look at roles.
const MASTERS: &str = "system:masters";

/// What somebody wants to read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Wanted {
    /// A metric of a namespace.
    Metric { namespace: String, metric: String },
    /// A path of discovery.
    Path(String),
}

/// Asks the API server, and remembers its answers for a while.
pub(super) struct Access {
    reviews: Api<SubjectAccessReview>,
    asking: Semaphore,
    remembered: Mutex<HashMap<(String, Wanted), (Instant, bool)>>,
}

impl Access {
    pub(super) fn new(client: Client) -> Self {
        Self { reviews: Api::all(client), asking: Semaphore::new(MOST_ASKING), remembered: Mutex::default() }
    }

    /// Whether the user may read it.
    pub(super) async fn allows(&self, user: UserInfo, wanted: Wanted) -> Result<bool, CallError> {
        if user.groups.iter().flatten().any(|group| group == MASTERS) {
            return Ok(true);
        }
        // Debug output tells any two users apart, whatever their names hold.
        let key = (format!("{user:?}"), wanted);
        if let Some(verdict) = self.recall(&key) {
            return Ok(verdict);
        }
        // The semaphore is never closed.
        let _turn = self.asking.acquire().await;
        if let Some(verdict) = self.recall(&key) {
            return Ok(verdict);
        }
        let answer = within(self.reviews.create(&PostParams::default(), &question(user, &key.1))).await?;
        let allowed = answer.status.is_some_and(|status| status.allowed && status.denied != Some(true));
        self.remember(key, allowed);
        Ok(allowed)
    }

    fn recall(&self, key: &(String, Wanted)) -> Option<bool> {
        let remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, verdict) = remembered.get(key)?;
        (since.elapsed() < REMEMBERED).then_some(*verdict)
    }

    fn remember(&self, key: (String, Wanted), verdict: bool) {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.len() >= MOST_REMEMBERED {
            remembered.retain(|_, (since, _)| since.elapsed() < REMEMBERED);
        }
        if remembered.len() < MOST_REMEMBERED {
            remembered.insert(key, (Instant::now(), verdict));
        }
    }
}

fn question(user: UserInfo, wanted: &Wanted) -> SubjectAccessReview {
    let mut spec =
        SubjectAccessReviewSpec { user: user.username, groups: user.groups, uid: user.uid, extra: user.extra, ..Default::default() };
    match wanted {
        Wanted::Metric { namespace, metric } => {
            spec.resource_attributes = Some(ResourceAttributes {
                verb: Some("list".to_owned()),
                group: Some(GROUP.to_owned()),
                version: Some(VERSION.to_owned()),
                resource: Some(metric.clone()),
                namespace: Some(namespace.clone()),
                ..ResourceAttributes::default()
            });
        }
        Wanted::Path(path) => {
            spec.non_resource_attributes = Some(NonResourceAttributes { path: Some(path.clone()), verb: Some("get".to_owned()) });
        }
    }
    SubjectAccessReview { spec, ..SubjectAccessReview::default() }
}
