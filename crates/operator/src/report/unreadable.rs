//! Objects that cannot even be read.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::error_boundary::InvalidObject;
use kube::runtime::events::EventType;
use llmscaler_api::LLMScaler;
use serde_json::json;
use tracing::warn;

use super::condition::{self, READY};
use super::event;
use super::status::shortened;
use super::trouble::Trouble;
use crate::context::Context;
use crate::deadline::within;

/// Says on an object that cannot even be read why nothing happens: in its status and, as the API server refuses even that while a field
/// has a wrong type, in an event.
pub(crate) async fn unreadable(context: &Context, object: &InvalidObject) {
    let trouble = Trouble::InvalidSpec;
    let (namespace, name) = (object.metadata.namespace.clone().unwrap_or_default(), object.metadata.name.clone().unwrap_or_default());
    if let Some(history) = &context.history {
        history.failed(&namespace, &name, context.clock.now(), trouble.as_str(), &object.error);
    }
    let resource = ApiResource::erase::<LLMScaler>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(context.client.clone(), &namespace, &resource);
    let message = shortened(&format!("the object cannot be read: {}", object.error));
    let mut conditions = match within(api.get(&name)).await {
        Ok(found) => serde_json::from_value(found.data["status"]["conditions"].clone()).unwrap_or_default(),
        Err(_) => vec![],
    };
    let is_said = |condition: &Condition| condition.reason == trouble.as_str() && condition.message == message;
    if conditions.iter().any(is_said) {
        return;
    }
    warn!(namespace, name, error = object.error, "An LLMScaler cannot be read; it waits for its next edit");
    let reference = ObjectReference {
        api_version: Some(resource.api_version),
        kind: Some(resource.kind),
        namespace: object.metadata.namespace.clone(),
        name: object.metadata.name.clone(),
        uid: object.metadata.uid.clone(),
        ..ObjectReference::default()
    };
    event::publish(context, &reference, EventType::Warning, trouble.as_str(), READY, &message).await;
    for said in trouble.said(&message) {
        condition::set(&mut conditions, said, object.metadata.generation, context.clock.timestamp());
    }
    if !context.claim.is_current() {
        return;
    }
    let body = json!({"status": {"conditions": conditions}});
    if let Err(error) = within(api.patch_status(&name, &PatchParams::default(), &Patch::Merge(body))).await {
        warn!(namespace, name, %error, "Failed to write the status");
    }
}
