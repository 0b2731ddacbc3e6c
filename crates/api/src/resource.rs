//! The resource as users write it. The comments become the descriptions that `kubectl explain` shows.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::actuation::Actuation;
use crate::behavior::Behavior;
use crate::preset::{Preset, Signal};
use crate::rules;
use crate::schema::{as_kubernetes, bounded_headers};
use crate::scrape::ScrapeSettings;
use crate::server::{HeaderSource, ServerTls};
use crate::slo::Slo;
use crate::status::LLMScalerStatus;

/// What to scale, on which signal, and how.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "autoscaling.modelsphere.dev",
    version = "v1alpha1",
    kind = "LLMScaler",
    plural = "llmscalers",
    singular = "llmscaler",
    shortname = "llms",
    namespaced,
    status = "LLMScalerStatus",
    derive = "PartialEq",
    doc = "LLMScaler keeps the number of replicas of one LLM inference workload in step with its load.",
    printcolumn = r#"{"name": "MinReplicas", "type": "integer", "jsonPath": ".spec.minReplicas"}"#,
    printcolumn = r#"{"name": "MaxReplicas", "type": "integer", "jsonPath": ".spec.maxReplicas"}"#,
    printcolumn = r#"{"name": "CurrentReplicas", "type": "integer", "jsonPath": ".status.currentReplicas"}"#,
    printcolumn = r#"{"name": "DesiredReplicas", "type": "integer", "jsonPath": ".status.desiredReplicas"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = as_kubernetes)]
#[x_kube(
    validation = rules::METRICS,
    validation = rules::SERVER_ADDRESS,
    validation = rules::CUSTOM_PROVIDER,
    validation = rules::SLO_PROVIDER,
    validation = rules::SLO_QUERIES,
    validation = rules::HEADROOM_PRESET,
    validation = rules::HEADROOM_PERIOD,
    validation = rules::SIGNAL_PRESET,
    validation = rules::SIGNAL_OF_PRESET,
    validation = rules::SCRAPE_PRESET,
    validation = rules::SCRAPE_QUERIES,
    validation = rules::SCRAPE_COST,
    validation = rules::SCRAPE_EPP,
    validation = rules::HPA_MAX,
    validation = rules::HPA_TARGETS,
    validation = rules::HPA_WINDOW,
    validation = rules::HPA_PERIOD,
    validation = rules::BOUNDS
)]
pub struct LLMScalerSpec {
    /// The workload to scale, in the namespace of this scaler.
    pub target_ref: TargetReference,

    /// Where the scaling signal comes from. Prometheus evaluates spec.metrics and spec.slo; Custom asks a decision server, which answers
    /// with the number of replicas itself; Scrape reads the metrics of the target's pods without a Prometheus. There is no fallback from
    /// one to another.
    #[serde(default)]
    pub metric_provider: MetricProvider,

    /// The decision server's settings. Required when metricProvider is Custom, ignored otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_provider: Option<CustomProvider>,

    /// Where the pods' metrics are. Only used with metricProvider Scrape.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrape: Option<ScrapeSettings>,

    /// Base URL of the metric source, http or https, without a query or fragment. Under Prometheus, queries go to /api/v1/query below
    /// it; under Custom, requests go to customProvider.path below it. Required unless metricProvider is Scrape.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    #[x_kube(validation = rules::ADDRESS)]
    pub server_address: Option<String>,

    /// HTTP headers that are sent along with every request to serverAddress, such as Authorization. Values are sent as they are, and
    /// whoever may read this object may read them. Under metricProvider Scrape they go to scrape.eppService, and never to the pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = bounded_headers)]
    #[x_kube(validation = rules::HEADER_NAMES, validation = rules::HEADER_VALUES)]
    pub server_headers: BTreeMap<String, String>,

    /// HTTP headers whose values are in Secrets, sent where serverHeaders are. A Secret is read again when it changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = rules::HEADERS_ONCE)]
    pub server_headers_from: Vec<HeaderSource>,

    /// Whom to trust, and as whom to appear, on https connections: to serverAddress, and under metricProvider Scrape to pods and
    /// scrape.eppService.
    #[serde(default, rename = "serverTLS", skip_serializing_if = "Option::is_none")]
    pub server_tls: Option<ServerTls>,

    /// Fewest replicas, 0 or more. 0 allows scale to zero.
    #[schemars(range(min = 0))]
    pub min_replicas: i32,

    /// Most replicas, at least minReplicas. 0, with minReplicas 0, pins the target at zero.
    #[schemars(range(min = 0))]
    pub max_replicas: i32,

    /// The metrics that drive the number of replicas under metricProvider Prometheus and Scrape; the largest recommendation wins, that of
    /// spec.slo included, and one that cannot be measured contributes nothing. Ignored under Custom.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub metrics: Vec<Metric>,

    /// The serving software whose metrics are read, for metrics[].signal and for spec.slo. Required under metricProvider Scrape.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,

    /// The latency that users are promised: a source of recommendations beside spec.metrics, or instead of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo: Option<Slo>,

    /// Seconds between two evaluations. 0 means the default.
    #[serde(default = "default_sync_period")]
    #[x_kube(validation = rules::SYNC_PERIOD)]
    pub sync_period_seconds: i32,

    /// Seconds until the next attempt after an error, or when the target is missing. 0 means the default.
    #[serde(default = "default_retry_period")]
    #[x_kube(validation = rules::RETRY_PERIOD)]
    pub retry_period_seconds: i32,

    /// Damping of scale-down, and the choice of the pods that go first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_down: Option<ScaleDown>,

    /// Windows, policies and tolerance for each direction, as spec.behavior of an autoscaling/v2 HorizontalPodAutoscaler, with the same
    /// defaults once it is present. Absent: no tolerance, no limit on growing, and scaleDown alone damps shrinking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behavior: Option<Behavior>,

    /// What happens when there is no work left. Only of effect with minReplicas 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<Idle>,

    /// A floor for when a metric stays unknown. It only ever raises the number of replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Fallback>,

    /// Auto writes decisions to the target. Recommend only shows them in the status.
    #[serde(default)]
    pub mode: Mode,

    /// Who writes the decisions. Direct: the operator. HorizontalPodAutoscaler: an HPA that the operator generates and feeds through the
    /// External Metrics API, for clusters where only an HPA may scale; the operator itself then only moves the target between zero and one.
    #[serde(default)]
    pub actuation: Actuation,

    /// Accepted for compatibility; it has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemption: Option<Preemption>,
}

fn default_sync_period() -> i32 {
    15
}

fn default_retry_period() -> i32 {
    10
}

/// The workload to scale.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct TargetReference {
    /// Group and version of the target, such as apps/v1 or leaderworkerset.x-k8s.io/v1.
    #[schemars(length(max = 512))]
    #[x_kube(validation = rules::API_VERSION)]
    pub api_version: String,

    /// Kind of the target: Deployment, StatefulSet, LeaderWorkerSet, or any other with spec.replicas and status.readyReplicas.
    #[schemars(length(max = 253))]
    #[x_kube(validation = rules::KIND)]
    pub kind: String,

    /// Name of the target.
    #[schemars(length(max = 253))]
    #[x_kube(validation = rules::NAME)]
    pub name: String,
}

/// Where the scaling signal comes from.
#[derive(Serialize, Deserialize, schemars::JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetricProvider {
    /// A Prometheus, which evaluates queries.
    #[default]
    Prometheus,
    /// A decision server.
    Custom,
    /// The pods' own metrics, and those of the endpoint picker in front of them.
    Scrape,
}

/// A service on a decision server.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CustomProvider {
    /// The service whose decision counts. It is sent as the query parameter serviceId and must be that of the decision in the answer.
    #[schemars(length(max = 1024))]
    #[x_kube(validation = rules::SERVICE_ID)]
    pub service_id: String,

    /// Only decisions with this namespace count. Needed where the server knows the same service in more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,

    /// Path below serverAddress.
    #[serde(default = "default_path")]
    #[schemars(length(max = 2048))]
    #[x_kube(validation = rules::PATH)]
    pub path: String,
}

pub(crate) fn default_path() -> String {
    "/decisions".into()
}

/// One metric that recommends a number of replicas.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rules::QUERY_OR_SIGNAL)]
pub struct Metric {
    /// What status, events and logs call the metric. Without one, or with one that another metric has too, it goes by its index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub name: Option<String>,

    /// PromQL that returns one value: aggregate away every label, and select the pods of this target only. More than one series is an
    /// error. Either this or signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16384))]
    #[x_kube(validation = rules::QUERY)]
    pub query: Option<String>,

    /// What spec.preset knows how to measure: the mean of the replicas with metricType Value, the total of the pool with AverageValue.
    /// The last three are those of preset llm-d-EPP. Either this or query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<Signal>,

    /// The value that each replica should carry: a finite number above 0 in quotes, on the scale of the query ("0.8" for a ratio between
    /// 0 and 1, "80" for per cent). A per cent sign is refused.
    #[schemars(length(max = 64))]
    #[x_kube(validation = rules::TARGET)]
    pub target: String,

    /// How the value is read. Value: as a figure per replica, so that replicas = ready replicas × value ÷ target.
    /// AverageValue: as the total of the whole pool, so that replicas = value ÷ target. Both are rounded up.
    #[serde(default)]
    pub metric_type: MetricType,

    /// The metric counts as active while its value is above this finite number, in quotes. Nothing active lets the target go to zero,
    /// something active wakes it; of effect with minReplicas 0.
    #[serde(default = "default_activation")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = rules::ACTIVATION)]
    pub activation: String,

    /// While this metric cannot be measured, the target does not shrink.
    #[serde(default)]
    pub required: bool,
}

fn default_activation() -> String {
    "0".into()
}

/// How a value is read.
#[derive(Serialize, Deserialize, schemars::JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetricType {
    /// A figure per replica.
    #[default]
    Value,
    /// The total of the pool.
    AverageValue,
}

/// Damping of scale-down, and the choice of the pods that go first.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ScaleDown {
    /// Seconds for which the target is held at the highest recommendation seen within them; they start again after each scale-down.
    /// 0, the default, is off. Does not apply to scale-up. With spec.behavior, its window for scaleDown replaces this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rules::WINDOW)]
    pub stabilization_window_seconds: Option<i32>,

    /// Most replicas that one scale-down removes. 0, the default, is no limit. It bounds the size of a step, not the time between steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_step_replicas: Option<i32>,

    /// CacheAware marks the pods with the coldest cache through controller.kubernetes.io/pod-deletion-cost, so that they go first; it
    /// works on Deployments. None leaves the choice to the workload's own controller.
    #[serde(default)]
    pub behavior: ScaleDownBehavior,

    /// PromQL that returns one series for each pod, with a label named pod; the pod with the lowest value goes first. Without it the
    /// newest pod does. Only used with behavior CacheAware and metricProvider Prometheus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16384))]
    pub deletion_cost_query: Option<String>,
}

/// Who chooses the pods that go first.
#[derive(Serialize, Deserialize, schemars::JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScaleDownBehavior {
    /// The coldest cache goes first.
    #[default]
    CacheAware,
    /// The workload's own controller chooses.
    None,
}

/// What happens when there is no work left.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Idle {
    /// Seconds since the last activity of any metric before the target goes to zero; 0, the default, does not wait.
    #[serde(default)]
    #[x_kube(validation = rules::COOLDOWN)]
    pub cooldown_seconds: i32,
}

/// A floor for when a metric stays unknown.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Fallback {
    /// The floor holds once a metric has been unknown for more than this many syncs in a row.
    #[serde(default = "default_failure_threshold")]
    #[x_kube(validation = rules::FAILURE_THRESHOLD)]
    pub failure_threshold: i32,

    /// The floor, in replicas.
    #[x_kube(validation = rules::FALLBACK_REPLICAS)]
    pub replicas: i32,
}

fn default_failure_threshold() -> i32 {
    3
}

/// Whether decisions are written.
#[derive(Serialize, Deserialize, schemars::JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// They are.
    #[default]
    Auto,
    /// They are only shown in the status.
    Recommend,
}

/// Accepted for compatibility; it has no effect.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Preemption {
    /// Has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable: Option<bool>,

    /// Has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class: Option<String>,
}
