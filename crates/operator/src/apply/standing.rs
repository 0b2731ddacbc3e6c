//! Whether a scaler is still what was decided by. Its watch may have fallen silent, and shows an edit late or never.

use kube::{Api, ResourceExt};
use llmscaler_api::LLMScaler;

use crate::context::Context;
use crate::deadline::{CallError, within};

/// Why nothing is written for a scaler.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotStanding {
    #[error("the scaler was edited or deleted since this was decided; nothing is written by what it was before")]
    Outdated,
    #[error("whether the scaler still asks for this is not known, as it cannot be read: {0}")]
    Unread(CallError),
}

/// Whether the scaler is still in the generation that is decided by. One that was made anew under its name has another UID.
pub(super) async fn stands(context: &Context, object: &LLMScaler) -> Result<(), NotStanding> {
    let scalers: Api<LLMScaler> = Api::namespaced(context.client.clone(), &object.namespace().unwrap_or_default());
    match within(scalers.get_metadata(&object.name_any())).await {
        Ok(now) if now.metadata.generation == object.metadata.generation && now.metadata.uid == object.metadata.uid => Ok(()),
        Ok(_) => Err(NotStanding::Outdated),
        Err(error) if error.is_not_found() => Err(NotStanding::Outdated),
        Err(error) => Err(NotStanding::Unread(error)),
    }
}
