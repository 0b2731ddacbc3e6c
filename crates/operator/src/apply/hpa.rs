//! The generated HPA: made, kept as it should be, and removed.

use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt};
use llmscaler_api::{LLMScaler, Scaler};
use tracing::info;

use super::standing::{NotStanding, stands};
use crate::context::{Context, FIELD_MANAGER};
use crate::deadline::{CallError, within};
use crate::external_metrics::Served;
use crate::hpa::{build, name_of};

/// Why there is no HPA, or not the one that there should be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HpaError {
    #[error(
        "the operator serves no External Metrics API, from which an HPA could read; start it with --external-metrics-bind-address and \
         --external-metrics-service-name, or use actuation Direct"
    )]
    NotServed,
    #[error("it is not known yet whether the cluster's External Metrics API is free")]
    Pending,
    #[error("{0}")]
    Foreign(String),
    #[error("{0}")]
    ServeFailed(String),
    #[error("somebody else writes the target's size, so there is no HPA: {0}")]
    TargetOwned(String),
    #[error("HorizontalPodAutoscaler {0} exists and was not generated for this scaler; delete or rename it")]
    NameTaken(String),
    #[error("HorizontalPodAutoscaler {name} could not be {what}: {source}")]
    Api { name: String, what: &'static str, source: CallError },
    #[error(transparent)]
    NotStanding(#[from] NotStanding),
    #[error("this replica of the operator is not the leader any more")]
    NotLeader,
}

/// The HPA of one scaler, as far as its task knows it.
#[derive(Debug)]
pub(crate) struct OwnHpa {
    uid: Option<String>,
    /// Whether the API server knows the tolerance of an HPA.
    pub tolerance: bool,
    /// Whether there may be one that should not be there.
    pub removal_due: bool,
}

impl OwnHpa {
    /// Of a task that has just begun. What the scaler's status does not tell of was not made, unless the status is older than the spec.
    pub(crate) fn of(object: &LLMScaler, condition: &str) -> Self {
        let told = object.status.as_ref().is_some_and(|status| {
            status.observed_generation != object.metadata.generation || status.conditions.iter().any(|told| told.type_ == condition)
        });
        Self { uid: None, tolerance: true, removal_due: told }
    }
}

/// Makes the HPA what the scaler asks for, whoever has changed it, and answers what it says of itself.
pub(crate) async fn keep(
    context: &Context,
    object: &LLMScaler,
    scaler: &Scaler,
    own: &mut OwnHpa,
) -> Result<Option<HorizontalPodAutoscalerStatus>, HpaError> {
    let Some(external) = &context.external_metrics else { return Err(HpaError::NotServed) };
    match external.served().await {
        // Unreached it is there all the same, and holds.
        Served::Ours | Served::Unreached(_) => {}
        Served::Pending => return Err(HpaError::Pending),
        Served::Foreign(why) => return Err(HpaError::Foreign(why)),
        Served::Failed(why) => return Err(HpaError::ServeFailed(why)),
    }
    // From now on there may be one, whatever becomes of this attempt.
    own.removal_due = true;
    if own.uid.is_none() {
        own.uid = find(context, object).await?.and_then(|found| found.uid());
    }
    let applied = match apply(context, object, scaler, own).await {
        // Deleted by somebody since: made anew.
        Err(HpaError::Api { source, .. }) if own.uid.is_some() && (source.is_conflict() || source.is_absent()) => {
            own.uid = find(context, object).await?.and_then(|found| found.uid());
            apply(context, object, scaler, own).await?
        }
        // Older servers refuse a field that they do not know, newer ones drop it while its feature is off.
        Err(HpaError::Api { source, .. }) if own.tolerance && source.to_string().contains("tolerance") => {
            own.tolerance = false;
            apply(context, object, scaler, own).await?
        }
        answer => answer?,
    };
    if own.uid.is_none() {
        info!(hpa = applied.name_any(), "Generated the HPA");
    }
    own.uid = applied.uid();
    let kept = applied.spec.and_then(|spec| spec.behavior?.scale_up?.tolerance).is_some();
    own.tolerance = own.tolerance && kept;
    Ok(applied.status)
}

async fn apply(context: &Context, object: &LLMScaler, scaler: &Scaler, own: &OwnHpa) -> Result<HorizontalPodAutoscaler, HpaError> {
    if !context.claim.is_current() {
        return Err(HpaError::NotLeader);
    }
    if own.uid.is_none() {
        // That of a scaler that is gone went with it, and is not to come back.
        stands(context, object).await?;
    }
    let mut hpa = build(object, scaler, own.tolerance);
    // That of another life of the object is not ours.
    hpa.metadata.uid.clone_from(&own.uid);
    let name = hpa.name_any();
    let params = PatchParams::apply(FIELD_MANAGER).force();
    within(api(context, object).patch(&name, &params, &Patch::Apply(&hpa))).await.map_err(|source| HpaError::Api {
        name,
        what: "written",
        source,
    })
}

/// Removes the HPA, if there is one and it is ours.
pub(crate) async fn remove(context: &Context, object: &LLMScaler, own: &mut OwnHpa) -> Result<(), HpaError> {
    if !own.removal_due {
        return Ok(());
    }
    let found = match find(context, object).await {
        Ok(found) => found,
        Err(HpaError::NameTaken(_)) => None,
        Err(error) => return Err(error),
    };
    if let Some(found) = found {
        if !context.claim.is_current() {
            return Err(HpaError::NotLeader);
        }
        let name = found.name_any();
        let preconditions = Preconditions { uid: found.uid(), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match within(api(context, object).delete(&name, &params)).await {
            Ok(_) => info!(hpa = name, "Removed the generated HPA"),
            Err(error) if error.is_absent() => {}
            Err(source) => return Err(HpaError::Api { name, what: "removed", source }),
        }
    }
    if let Some(external) = &context.external_metrics {
        external.published.forget(&object.namespace().unwrap_or_default(), &object.name_any());
    }
    (own.uid, own.removal_due) = (None, false);
    Ok(())
}

/// The HPA by that name, if there is one; it has to be ours.
async fn find(context: &Context, object: &LLMScaler) -> Result<Option<HorizontalPodAutoscaler>, HpaError> {
    let name = name_of(&object.name_any());
    let found = match within(api(context, object).get_opt(&name)).await {
        Ok(found) => found,
        Err(source) => return Err(HpaError::Api { name, what: "read", source }),
    };
    let is_ours = |found: &HorizontalPodAutoscaler| {
        let mut owners = found.owner_references().iter().filter(|owner| owner.controller == Some(true));
        owners.any(|owner| Some(&owner.uid) == object.metadata.uid.as_ref())
    };
    match found {
        Some(found) if !is_ours(&found) => Err(HpaError::NameTaken(name)),
        found => Ok(found),
    }
}

fn api(context: &Context, object: &LLMScaler) -> Api<HorizontalPodAutoscaler> {
    Api::namespaced(context.client.clone(), &object.namespace().unwrap_or_default())
}
