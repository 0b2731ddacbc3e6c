//! What a failed wait shows: enough to see the cause without running the test again.

use crate::namespace::Namespace;
use crate::process::tail;
use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write as _;

const LOG_LINES: usize = 40;
const EVENTS: usize = 15;

/// The object last seen, each scaler's status, the latest events and the end of each operator's log.
pub(crate) async fn text(namespace: &Namespace, last: &Value) -> String {
    let mut text = format!("--- last seen\n{}", yaml(&without_bookkeeping(last)));

    if let Ok(scalers) = namespace.scalers().list(&ListParams::default()).await {
        for scaler in scalers {
            let status = &scaler.data["status"];
            let _ = write!(text, "--- status of LLMScaler {}\n{}", scaler.name_any(), yaml(status));
        }
    }

    if let Ok(events) = namespace.api::<Event>().list(&ListParams::default()).await {
        let mut events = events.items;
        events.sort_by_key(|event| (event.last_timestamp.clone(), event.creation_timestamp()));
        let _ = writeln!(text, "--- events");
        for event in &events[events.len().saturating_sub(EVENTS)..] {
            let object = &event.involved_object;
            let _ = writeln!(
                text,
                "{} {}/{}: {}",
                event.reason.as_deref().unwrap_or_default(),
                object.kind.as_deref().unwrap_or_default(),
                object.name.as_deref().unwrap_or_default(),
                event.message.as_deref().unwrap_or_default()
            );
        }
    }

    for log in namespace.plane().operator_logs() {
        let _ = write!(text, "--- end of {}\n{}\n", log.display(), tail(&log, LOG_LINES));
    }
    let _ = write!(text, "--- all logs: {}", namespace.plane().logs().display());
    text
}

fn without_bookkeeping(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}

fn yaml(value: &impl Serialize) -> String {
    serde_saphyr::to_string(value).unwrap_or_else(|error| format!("({error})\n"))
}
