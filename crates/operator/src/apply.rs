//! Step *apply*: the only place that writes to the target and its pods.

mod hpa;
mod marking;
mod standing;

use std::ops::RangeInclusive;
use std::time::Duration;

use kube::api::{Patch, PatchParams};
use llmscaler_api::LLMScaler;
use llmscaler_engine::{Decision, Replicas, Warmth, Workload};
use serde_json::json;
use tokio::time::{Instant, sleep};
use tracing::debug;

use self::marking::mark;
use self::standing::stands;
use crate::context::{Context, FIELD_MANAGER};
use crate::deadline::{CallError, within};
use crate::dereference::{Place, Unreachable};
use crate::lease::{WRITE_MARGIN, chance};
use crate::metrics::WriteOutcome;

pub(crate) use self::hpa::{HpaError, OwnHpa, keep as keep_hpa, remove as remove_hpa};
pub(crate) use self::marking::clear_marks;
pub(crate) use self::standing::NotStanding;

/// How often a write is tried when the target changes under it. An attempt takes some ten milliseconds, and a fleet whose pods start
/// or stop changes several times a second.
const ATTEMPTS: u32 = 10;

/// The pauses before the second attempt and before the last ones. Between them they double.
const PAUSES: RangeInclusive<Duration> = Duration::from_millis(20)..=Duration::from_millis(500);

/// Why a decision could not be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
    #[error("the API server refused the new size: {0}")]
    Refused(CallError),
    #[error("the fleet is not made smaller while {0}")]
    Unseen(String),
    #[error("the target kept changing while its new size was being written")]
    Contended,
    #[error(transparent)]
    NotStanding(#[from] NotStanding),
    #[error("this replica of the operator is not the leader any more")]
    NotLeader,
}

impl WriteError {
    /// Whether the API server has no such object, or serves its kind in another way.
    pub(crate) fn is_absence(&self) -> bool {
        match self {
            Self::Unreachable(error) => matches!(error, Unreachable::Missing { .. }) || error.is_absence(),
            Self::Refused(error) => error.is_absent(),
            Self::Unseen(_) | Self::Contended | Self::NotStanding(_) | Self::NotLeader => false,
        }
    }

    pub(crate) fn outcome(&self) -> WriteOutcome {
        match self {
            Self::Unreachable(_) | Self::Refused(_) | Self::Unseen(_) | Self::NotStanding(NotStanding::Unread(_)) => WriteOutcome::Error,
            Self::Contended | Self::NotStanding(NotStanding::Outdated) => WriteOutcome::Conflict,
            Self::NotLeader => WriteOutcome::NotLeader,
        }
    }
}

/// A decision that was carried out, or that has nothing to write any more.
pub(crate) struct Applied {
    pub decision: Decision,
    /// The target's generation after it. A write is refused when anything came between it and the look before it, and a new size is
    /// one generation more.
    pub generation: i64,
}

/// What a decision is to be written for.
pub(crate) struct Order<'a> {
    /// The scaler in the generation that is decided by.
    pub object: &'a LLMScaler,
    pub place: &'a Place,
    /// Who else writes the size, in words.
    pub other_owner: Option<&'a str>,
    pub warmth: &'a Warmth,
    /// The sync period: when it is over no further attempt begins.
    pub patience: Duration,
}

/// Writes what is decided on the target as it is now, not as it was seen: `decide` is asked again with a fresh look, at each
/// attempt, and `None` or a decision without a write ends the matter. So does a scaler that was edited since, which is looked at right
/// before: its watch may not show it. Victims are marked before the size is reduced. No attempt begins when the patience is over, nor when
/// a claim to leadership that was current at the start may be.
///
/// Answers the decision that was carried out, or the one that has nothing to write any more.
pub(crate) async fn apply(
    context: &Context,
    order: Order<'_>,
    mut decide: impl FnMut(Workload) -> Option<Decision>,
) -> Result<Option<Applied>, WriteError> {
    let Order { object, place, other_owner, warmth, patience } = order;
    let end = Instant::now() + patience.min(WRITE_MARGIN);
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            let pause = pause(attempt);
            if Instant::now() + pause >= end {
                break;
            }
            sleep(pause).await;
        }
        let (view, replicas, version) = place.look_live(context).await?;
        let workload = view.workload(context.clock.timestamp(), replicas, other_owner.map(str::to_owned), warmth.clone());
        let Some(decision) = decide(workload) else { return Ok(None) };
        let seen = view.target.generation;
        let Some(count) = decision.write else { return Ok(Some(Applied { decision, generation: seen })) };
        // The guards and the choice of victims rest on what the pods were when they were last seen.
        if count < replicas
            && let Some(why) = place.pods_unseen()
        {
            return Err(WriteError::Unseen(why));
        }
        stands(context, object).await?;

        if !context.claim.is_current() {
            return Err(WriteError::NotLeader);
        }
        if mark(context, place, &view.pods, &decision.victims).await {
            // That took a while.
            stands(context, object).await?;
        }
        match write(context, place, count, version.as_deref()).await {
            Ok(()) => return Ok(Some(Applied { decision, generation: seen.saturating_add(1) })),
            Err(WriteError::Refused(error)) if error.is_conflict() => debug!(%error, "The target changed, looking again"),
            Err(error) => return Err(error),
        }
    }
    Err(WriteError::Contended)
}

/// The pause before an attempt, of which the first is 0; up to half of it is left out at random, so that two that met do not meet again.
fn pause(attempt: u32) -> Duration {
    let whole = PAUSES.start().saturating_mul(1 << attempt.saturating_sub(1).min(16)).min(*PAUSES.end());
    whole - whole.mul_f64(chance() / 2.0)
}

/// Writes the size alone. The version makes it fail when the target has changed since it was looked at.
///
/// It is applied, by force, which takes the field over from whoever created the target or wrote it before. Only to the scale
/// subresource of a custom resource nothing can be applied (the API server answers "request to convert CR to an invalid
/// group/version"); merged into it, the size becomes ours all the same.
async fn write(context: &Context, place: &Place, count: Replicas, version: Option<&str>) -> Result<(), WriteError> {
    if !context.claim.is_current() {
        return Err(WriteError::NotLeader);
    }
    let (api, name, kind) = (place.api(context), &place.target.name, &place.kind);
    let applied = PatchParams::apply(FIELD_MANAGER).force();
    let merged = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let change = |api_version: &str, kind: &str| {
        let metadata = json!({"name": name, "namespace": place.namespace, "resourceVersion": version});
        json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": {"replicas": count}})
    };
    let answer = match (kind.has_scale, kind.is_built_in()) {
        (true, true) => within(api.patch_scale(name, &applied, &Patch::Apply(change("autoscaling/v1", "Scale")))).await.map(drop),
        (true, false) => within(api.patch_scale(name, &merged, &Patch::Merge(change("autoscaling/v1", "Scale")))).await.map(drop),
        (false, _) => {
            let object = change(&kind.resource.api_version, &kind.resource.kind);
            within(api.patch(name, &applied, &Patch::Apply(object))).await.map(drop)
        }
    };
    answer.map_err(WriteError::Refused)
}

#[cfg(test)]
mod tests {
    use llmscaler_engine::{self as engine, Memory, Observation, Reading};

    use super::*;
    use crate::fake_api::Fleet;

    /// A scaler of 3 to 9 replicas.
    fn scaler() -> LLMScaler {
        let spec = json!({"targetRef": {"apiVersion": "example.com/v1", "kind": "Engine", "name": "fleet"}, "minReplicas": 3,
            "maxReplicas": 9, "serverAddress": "http://127.0.0.1:1", "metrics": [{"query": "q", "target": "1"}]});
        let object = json!({"metadata": {"name": "fleet", "namespace": "serving", "uid": "s", "generation": 1}, "spec": spec});
        let Ok(scaler) = serde_json::from_value(object) else { panic!("no scaler") };
        scaler
    }

    fn order<'a>(object: &'a LLMScaler, place: &'a Place, patience: Duration) -> Order<'a> {
        Order { object, place, other_owner: None, warmth: &Warmth::NotAsked, patience }
    }

    /// What is decided for a fleet that shows this share of its target.
    fn decision(context: &Context, workload: Workload, value: f64) -> Decision {
        let Ok(scaler) = scaler().parse() else { panic!("no scaler") };
        let seen = Observation { workload, readings: vec![Reading::from_number(value)], traffic: None };
        engine::decide(&scaler.spec, &seen, &Memory::default(), context.clock.now())
    }

    #[tokio::test(start_paused = true)]
    async fn a_fleet_whose_pods_cannot_be_watched_may_grow_but_not_shrink() {
        let fleet = Fleet::new(4, false);
        let context = fleet.context();
        let Ok(place) = Place::find(&context.cluster, "serving", &Fleet::target()).await else { panic!("no place") };
        assert!(place.look(&context).await.is_ok());
        let object = scaler();
        let write = async |value| {
            let decide = |workload| Some(decision(&context, workload, value));
            let done = apply(&context, order(&object, &place, Duration::from_secs(15)), decide).await;
            done.map(|done| done.and_then(|applied| applied.decision.write).map(Replicas::get)).map_err(|error| error.to_string())
        };
        assert_eq!(write(0.5).await, Ok(Some(3)));
        fleet.unseen.store(true, std::sync::atomic::Ordering::Relaxed);
        sleep(Duration::from_secs(400)).await;
        let why = "the fleet is not made smaller while pods cannot be watched: pods is forbidden";
        assert_eq!((write(0.5).await, write(2.0).await), (Err(why.to_owned()), Ok(Some(8))));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_written_by_a_scaler_that_is_another_by_now_or_that_cannot_be_read() {
        let fleet = Fleet::new(4, false);
        let context = fleet.context();
        let Ok(place) = Place::find(&context.cluster, "serving", &Fleet::target()).await else { panic!("no place") };
        assert!(place.look(&context).await.is_ok());
        let object = scaler();
        let write = async || {
            fleet.asked("");
            let decide = |workload| Some(decision(&context, workload, 2.0));
            let done = apply(&context, order(&object, &place, Duration::from_secs(15)), decide).await;
            (done.err().map(|error| (error.outcome(), error.to_string())), fleet.asked("PATCH").len())
        };
        assert_eq!(write().await, (None, 1));
        let edited = (WriteOutcome::Conflict, NotStanding::Outdated.to_string());
        for (answer, expected) in [
            (Ok(("s", 2)), edited.clone()),
            (Ok(("made-anew", 1)), edited.clone()),
            (Err(404), edited),
            (Err(500), (WriteOutcome::Error, "whether the scaler still asks for this is not known, as it cannot be read: no".to_owned())),
        ] {
            *fleet.scaler.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = answer;
            assert_eq!(write().await, (Some(expected), 0));
        }
    }

    /// How often the API server is asked to write a size that it refuses with a conflict, and for how long.
    async fn contended(patience: Duration) -> (usize, Duration) {
        let fleet = Fleet::new(2, false);
        fleet.scale.lock().unwrap_or_else(std::sync::PoisonError::into_inner).1 = 409;
        let context = fleet.context();
        let place = Place::find(&context.cluster, "serving", &Fleet::target()).await.ok();
        let Some(place) = place else { panic!("no place") };
        let started = Instant::now();
        let decide = |workload| Some(decision(&context, workload, 1.0));
        let object = scaler();
        let error = apply(&context, order(&object, &place, patience), decide).await.err();
        assert!(matches!(error, Some(WriteError::Contended)), "{error:?}");
        (fleet.asked("PATCH").len(), started.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_contended_write_is_tried_again_ever_more_slowly_and_not_for_long() {
        let (attempts, took) = contended(Duration::from_secs(15)).await;
        // 20, 40, 80, 160, 320 and four times 500 ms, each less up to a half.
        assert_eq!(attempts, 10);
        assert!((1300..2650).contains(&took.as_millis()), "{took:?}");
        let (attempts, took) = contended(Duration::from_millis(200)).await;
        assert!((4..=5).contains(&attempts) && took < Duration::from_millis(200), "{attempts} in {took:?}");
    }
}
