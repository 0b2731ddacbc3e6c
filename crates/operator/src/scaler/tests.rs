use std::time::Duration;

use llmscaler_engine::{Observation, Reading, Reason, Replicas, Warmth, decide};
use serde_json::json;

use super::deferral::Decided;
use super::*;
use crate::apply::NotStanding;
use crate::dashboard::Lateness;
use crate::dereference::View;
use crate::fake_api::Fleet;
use crate::target::Target;

async fn task(context: Context) -> Task {
    let target = json!({"apiVersion": "example.com/v1", "kind": "Engine", "name": "fleet"});
    let metrics = json!([{"query": "queued", "target": "1", "metricType": "AverageValue"}]);
    let spec = json!({"targetRef": target, "minReplicas": 1, "maxReplicas": 9, "serverAddress": "http://127.0.0.1:1", "metrics": metrics});
    let object = json!({"metadata": {"name": "fleet", "namespace": "serving", "uid": "s", "generation": 1}, "spec": spec});
    let object: Arc<LLMScaler> = Arc::new(serde_json::from_value(object).unwrap());
    let mut task = Task::new(Arc::new(context), &object, "serving".to_owned(), "fleet".to_owned());
    task.refresh(&object).await;
    task
}

/// The task waits with a write from 2 to 4 for a rollout that `view` shows.
async fn deferred(task: &mut Task, view: impl FnOnce(View) -> View) {
    let context = task.context.clone();
    let place = task.current.as_mut().unwrap().place(&context, "serving").await.unwrap();
    let (now, _) = place.look(&context).await.unwrap();
    let view = view(now);
    let spec = &task.current.as_ref().unwrap().scaler.spec;
    let workload = view.workload(context.clock.timestamp(), Replicas::new(2), None, Warmth::NotAsked);
    let seen = Observation { workload, readings: vec![Reading::from_number(4.0)], traffic: None };
    let decision = decide(spec, &seen, &Memory::default(), context.clock.now());
    assert!(decision.deferred(), "{decision:?}");
    task.awaited =
        Awaited::Release(Box::new(Decided { decision, warmth: Warmth::NotAsked, view, other_owner: None, lateness: Lateness::default() }));
}

fn awaits_release(task: &Task) -> bool {
    matches!(task.awaited, Awaited::Release(_))
}

#[tokio::test(start_paused = true)]
async fn an_event_that_releases_nothing_asks_nobody() {
    let fleet = Fleet::new(2, true);
    let mut task = task(fleet.context()).await;
    deferred(&mut task, |view| view).await;
    fleet.asked("");
    assert!(task.catch_up().await.is_ok_and(|due| !due) && awaits_release(&task));
    assert_eq!(fleet.asked(""), [""; 0], "an event about another target");
    deferred(&mut task, |view| View { target: Arc::new(Target::of(&serde_json::from_value(fleet.object()).unwrap())), ..view }).await;
    fleet.asked("");
    assert!(task.catch_up().await.is_ok_and(|due| !due) && awaits_release(&task));
    assert_eq!(fleet.asked(""), [""; 0], "its own rollout goes on; the size is not asked for, though no watch shows it");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_rollout_releases_the_write_after_a_live_look() {
    let fleet = Fleet::new(2, true);
    let rolling: Arc<Target> = Arc::new(Target::of(&serde_json::from_value(fleet.object()).unwrap()));
    let settled = Fleet::new(2, false);
    let mut task = task(settled.context()).await;
    deferred(&mut task, |view| View { target: rolling, ..view }).await;
    settled.asked("");
    assert!(task.catch_up().await.is_ok_and(|due| !due) && !awaits_release(&task));
    let engine = "/apis/example.com/v1/namespaces/serving/engines/fleet";
    assert_eq!(settled.asked("engines"), [format!("GET {engine}"), format!("GET {engine}/scale"), format!("PATCH {engine}/scale")]);
}

#[tokio::test(start_paused = true)]
async fn a_released_write_that_fails_is_told_and_tried_again_after_the_retry_period() {
    let fleet = Fleet::new(2, true);
    let rolling: Arc<Target> = Arc::new(Target::of(&serde_json::from_value(fleet.object()).unwrap()));
    let settled = Fleet::new(2, false);
    let mut task = task(settled.context()).await;
    deferred(&mut task, |view| View { target: rolling, ..view }).await;
    settled.scale.lock().unwrap().1 = 403;
    let failed = task.catch_up().await.unwrap_err();
    settled.asked("");
    let next = task.try_again_after(failed).await;
    assert_eq!(next.duration_since(Instant::now()), Duration::from_secs(10));
    let status = "PATCH /apis/autoscaling.modelsphere.dev/v1alpha1/namespaces/serving/llmscalers/fleet/status";
    assert_eq!(settled.asked("status"), [status]);
}

#[tokio::test(start_paused = true)]
async fn an_edit_in_the_middle_of_a_sync_is_no_trouble_unless_the_watch_goes_on_not_to_show_it() {
    let fleet = Fleet::new(2, false);
    let mut task = task(fleet.context()).await;
    let mut troubles = async |failed: Failed| {
        fleet.asked("");
        let next = task.try_again_after(failed).await;
        (fleet.asked("/status").len(), next.duration_since(Instant::now()).as_secs())
    };
    let outdated = || Failed::Write(NotStanding::Outdated.into());
    assert_eq!(troubles(outdated()).await, (0, 10));
    assert_eq!(troubles(outdated()).await, (1, 10));
}

#[tokio::test(start_paused = true)]
async fn only_a_write_that_another_scaler_keeps_back_hears_of_scalers() {
    let fleet = Fleet::new(2, true);
    let mut task = task(fleet.context()).await;
    deferred(&mut task, |view| view).await;
    let wakes = async |task: &mut Task| {
        let current = task.current.as_ref().unwrap();
        task.versions = Some(Versions::of(&task.context, current.place.as_ref().unwrap()));
        let context = task.context.clone();
        context.owners.add("serving", "another", &Fleet::target());
        tokio::time::timeout(Duration::from_secs(1), task.awaited_change()).await.is_ok()
    };
    assert!(!wakes(&mut task).await);
    let Awaited::Release(waiting) = &mut task.awaited else { panic!() };
    waiting.decision.reason = Reason::TargetOwned;
    assert!(wakes(&mut task).await);
}

#[tokio::test(start_paused = true)]
async fn the_warm_up_of_another_target_is_not_told_even_while_that_one_is_missing() {
    let fleet = Fleet::new(2, false);
    let mut task = task(fleet.context()).await;
    let mut object = (*task.object).clone();
    object.status = serde_json::from_value(json!({"observedGeneration": 1, "warmup": {"seconds": 90, "samples": 4}})).unwrap();
    (task.warmup, task.reporter) = (Warmup::of(&object), Reporter::new(&object));
    task.sync(Instant::now()).await;
    assert_eq!(task.warmup.last(), Some(Duration::from_secs(90)));
    object.metadata.generation = Some(2);
    object.spec.target_ref.name = "other".to_owned();
    task.refresh(&Arc::new(object)).await;
    task.sync(Instant::now()).await;
    assert!(matches!(task.awaited, Awaited::Target));
    assert_eq!((task.warmup.last(), task.reporter.warmup()), (None, None));
}

#[tokio::test(start_paused = true)]
async fn a_size_that_is_not_as_it_was_left_is_looked_at_itself() {
    let fleet = Fleet::new(2, false);
    let mut task = task(fleet.context()).await;
    let (engine, scale) = ("GET /apis/example.com/v1/namespaces/serving/engines/fleet", "/scale");
    let watched = [format!("{engine}{scale}")];
    let itself = [format!("{engine}{scale}"), engine.to_owned(), format!("{engine}{scale}")];
    let looks = async |task: &mut Task| {
        fleet.asked("");
        task.sync(Instant::now()).await;
        fleet.asked("engines/fleet")
    };
    assert_eq!(looks(&mut task).await, watched);
    assert_eq!(looks(&mut task).await, watched);
    // As a silent watch does, it still shows 2.
    task.current.as_mut().unwrap().size = Some(Replicas::new(5));
    assert_eq!(looks(&mut task).await, itself);
    assert_eq!(looks(&mut task).await, watched);
    // A watch may be silent because nobody is at its other end any more.
    tokio::time::advance(Duration::from_secs(115)).await;
    assert_eq!(looks(&mut task).await, watched);
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(looks(&mut task).await, itself);
    assert_eq!(looks(&mut task).await, watched);
}

#[tokio::test(start_paused = true)]
async fn a_sync_that_failed_is_followed_by_another_when_the_retry_period_has_passed_since_its_end() {
    let fleet = Fleet::new(2, false);
    let mut task = task(fleet.context()).await;
    fleet.scale.lock().unwrap().0 = 500;
    let due = Instant::now();
    // It waited for something, as a leader does that takes over in the middle of an outage.
    tokio::time::advance(Duration::from_secs(12)).await;
    let next = task.sync(due).await;
    assert_eq!(next.duration_since(Instant::now()), Duration::from_secs(10));
    fleet.scale.lock().unwrap().0 = 200;
    let due = Instant::now();
    tokio::time::advance(Duration::from_secs(12)).await;
    assert_eq!(task.sync(due).await.duration_since(due), Duration::from_secs(15), "one that succeeds keeps its rhythm");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_lost_its_scale_subresource_is_looked_up_anew() {
    let fleet = Fleet::new(2, false);
    let mut task = task(fleet.context()).await;
    fleet.scale.lock().unwrap().0 = 404;
    for _ in 0..2 {
        task.sync(Instant::now()).await;
        let looked_up = fleet.asked("").into_iter().filter(|request| request == "GET /apis/example.com/v1").count();
        assert_eq!((looked_up, task.current.as_ref().unwrap().place.is_none()), (1, true));
    }
    fleet.scale.lock().unwrap().0 = 500;
    task.sync(Instant::now()).await;
    assert!(task.current.as_ref().unwrap().place.is_some(), "what fails may be there");
}
