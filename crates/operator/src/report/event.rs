//! Events: which turns of a condition people are told of, and how.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use kube::Api;
use kube::api::PostParams;
use kube::runtime::events::EventType;
use llmscaler_engine::{ConditionType, Reason};
use tracing::warn;

use super::condition::{Said, word};
use crate::context::Context;
use crate::deadline::within;
use crate::words::shortened;

/// Longest note of an event, in bytes; the API server takes 1 KiB.
const LONGEST: usize = 1000;

/// How much it matters that a condition has come to this; `None` when it is no news.
pub(super) fn weight_of_turn(conditions: &[meta::Condition], said: &Said) -> Option<EventType> {
    let before = conditions.iter().find(|condition| condition.type_ == said.kind);
    if before.is_some_and(|before| before.status == word(said.status) && before.reason == said.reason) {
        return None;
    }
    // Some conditions tell of trouble while they hold, the others while they do not.
    let well = !ConditionType::OF_HEADROOM.iter().any(|kind| kind.as_str() == said.kind);
    let unwell_before = before.is_some_and(|before| before.status == word(Some(!well)));
    // A short history is how each operator starts.
    let harmless = [Reason::DesiredWithinRange, Reason::ScalingDisabled, Reason::HistoryShort].map(Reason::as_str);
    let quiet = [ConditionType::ScalingLimited, ConditionType::ColdHistory].map(ConditionType::as_str);
    let troubling = said.status != Some(well) && !harmless.contains(&said.reason.as_ref());
    let recovered = said.status == Some(well) && unwell_before && !quiet.contains(&said.kind);
    // Waiting for a rollout or for pods to start is the normal course of things, and so is the other autoscaler to watch.
    let waiting = said.kind == ConditionType::AbleToScale.as_str() || said.reason == Reason::RecommendOnly.as_str();
    match (troubling, recovered) {
        (true, _) if !waiting => Some(EventType::Warning),
        (true, _) | (_, true) => Some(EventType::Normal),
        (false, false) => None,
    }
}

/// Publishes an event. Events inform people; nothing depends on their success.
pub(super) async fn publish(context: &Context, about: &ObjectReference, weight: EventType, reason: &str, action: &str, note: &str) {
    if let (Some(history), Some(namespace), Some(name)) = (&context.history, &about.namespace, &about.name) {
        history.event(namespace, name, context.clock.now(), weight == EventType::Warning, reason, note);
    }
    // Not by kube's recorder: it dates events by the wall clock, and counts a later event up that differs only in its note, and drops
    // the note, so that of two rescales only the first would be told.
    let (now, reporter) = (context.clock.timestamp(), &context.reporter);
    let name = format!("{}.{:x}", about.name.as_deref().unwrap_or_default(), now.as_nanosecond());
    let event = Event {
        metadata: meta::ObjectMeta { name: Some(name), namespace: about.namespace.clone(), ..meta::ObjectMeta::default() },
        event_time: Some(meta::MicroTime(now)),
        type_: Some(if weight == EventType::Warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(reason.to_owned()),
        note: Some(shortened(note, LONGEST)),
        action: Some(action.to_owned()),
        regarding: Some(about.clone()),
        reporting_controller: Some(reporter.controller.clone()),
        reporting_instance: Some(reporter.instance.clone().unwrap_or_else(|| reporter.controller.clone())),
        ..Event::default()
    };
    let events: Api<Event> = Api::namespaced(context.client.clone(), about.namespace.as_deref().unwrap_or("default"));
    if let Err(error) = within(events.create(&PostParams::default(), &event)).await {
        warn!(%error, reason, "Failed to publish an event");
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use llmscaler_engine::Condition;

    use super::*;
    use crate::report::condition;

    #[test]
    fn a_condition_of_the_headroom_law_is_news_when_it_begins_to_hold() {
        let (warning, normal) = (Some(EventType::Warning), Some(EventType::Normal));
        let mut conditions = vec![];
        for (kind, status, reason, expected) in [
            (ConditionType::ModelOff, false, Reason::ProfileFits, None),
            (ConditionType::ModelOff, true, Reason::ProfileTooFast, warning),
            (ConditionType::ModelOff, true, Reason::ProfileTooFast, None),
            (ConditionType::ModelOff, false, Reason::ProfileFits, normal),
            (ConditionType::ColdHistory, true, Reason::HistoryShort, None),
            (ConditionType::ColdHistory, false, Reason::HistoryLongEnough, None),
            (ConditionType::CapacityAvailable, true, Reason::CapacityFound, None),
            (ConditionType::CapacityAvailable, false, Reason::Unschedulable, warning),
            (ConditionType::CapacityAvailable, true, Reason::CapacityFound, normal),
            (ConditionType::AbleToScale, false, Reason::RolloutInProgress, normal),
            (ConditionType::TargetOwned, false, Reason::RecommendOnly, normal),
        ] {
            let said = Said::from(&Condition { kind, status, reason, message: String::new() });
            assert_eq!(weight_of_turn(&conditions, &said), expected, "{} {status}", kind.as_str());
            condition::set(&mut conditions, said, None, Timestamp::now());
        }
    }
}
