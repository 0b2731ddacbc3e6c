//! The scaler that an object becomes, in the order in which people read one.

use std::collections::BTreeMap;

use llmscaler_api::{
    Actuation, Behavior, Fallback, HeaderSource, Idle, Invalid, Metric, MetricProvider, Mode, Preset, ScrapeSettings, ServerTls,
    TargetReference, parse_json,
};
use serde::Serialize;

/// A scaler to be printed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Draft {
    api_version: &'static str,
    kind: &'static str,
    /// Whose it is.
    pub metadata: Metadata,
    /// What it does.
    pub spec: Spec,
}

/// Name and namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Metadata {
    /// The name of the object that it was.
    pub name: String,
    /// Its namespace, if the object says one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// The fields of a scaler that a migration may set. Those that are not set have the defaults of the resource.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    pub target_ref: TargetReference,
    pub mode: Mode,
    #[serde(skip_serializing_if = "is_direct")]
    pub actuation: Actuation,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric_provider: Option<MetricProvider>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_address: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub server_headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub server_headers_from: Vec<HeaderSource>,
    #[serde(rename = "serverTLS", skip_serializing_if = "Option::is_none")]
    pub server_tls: Option<ServerTls>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scrape: Option<ScrapeSettings>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    pub min_replicas: i32,
    pub max_replicas: i32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Metric>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slo: Option<Band>,
    pub sync_period_seconds: i32,
    pub behavior: Behavior,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<Idle>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Fallback>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature that serde asks for
fn is_direct(actuation: &Actuation) -> bool {
    *actuation == Actuation::Direct
}

/// The part of `spec.slo` that a formula over a saturation has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Band {
    pub saturation_query: String,
    pub scale_up_at: String,
    pub scale_down_at: String,
    pub clamp: String,
}

impl Spec {
    /// A scaler of this target that only recommends, from nothing yet.
    pub fn new(target_ref: TargetReference, (min_replicas, max_replicas): (i32, i32), behavior: Behavior) -> Self {
        Self {
            target_ref,
            mode: Mode::Recommend,
            actuation: Actuation::Direct,
            metric_provider: None,
            server_address: None,
            server_headers: BTreeMap::new(),
            server_headers_from: vec![],
            server_tls: None,
            scrape: None,
            preset: None,
            min_replicas,
            max_replicas,
            metrics: vec![],
            slo: None,
            sync_period_seconds: SYNC_PERIOD,
            behavior,
            idle: None,
            fallback: None,
        }
    }
}

/// The sync period of the HPA, in seconds.
pub const SYNC_PERIOD: i32 = 15;

impl Draft {
    /// The scaler, if the resource accepts it.
    ///
    /// # Errors
    ///
    /// The field that the resource refuses, and why.
    pub fn checked(metadata: Metadata, spec: Spec) -> Result<Self, Invalid> {
        let draft = Self { api_version: "autoscaling.modelsphere.dev/v1alpha1", kind: "LLMScaler", metadata, spec };
        let value = serde_json::to_value(&draft).map_err(|error| Invalid { field: String::new(), message: error.to_string() })?;
        parse_json(value)?.parse()?;
        Ok(draft)
    }
}
