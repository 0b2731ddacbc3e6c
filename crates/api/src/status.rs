//! What the operator reports. Measured numbers are text, as Kubernetes asks of fractions.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::schema::as_kubernetes;

/// What was last seen, decided and done.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = as_kubernetes)]
pub struct LLMScalerStatus {
    /// The generation of this object that the status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// spec.replicas of the target at the last sync.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,

    /// Ready replicas of the target at the last sync, the base of metrics of type Value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_replicas: Option<i32>,

    /// Where the target is headed: the recommendation within the bounds and after the stabilization windows. Policies, step caps and
    /// guards may still delay it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_replicas: Option<i32>,

    /// When this scaler last changed the number of replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_scale_time: Option<Time>,

    /// When any metric was last active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_active_time: Option<Time>,

    /// How long pods of the target take to start, as far as it was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup: Option<WarmupStatus>,

    /// What each metric said at the last sync.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricStatus>,

    /// The last decision, stage by stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<DecisionStatus>,

    /// The state of this scaler under well-known headings. Ready sums them up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// How long pods of the target take to start.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct WarmupStatus {
    /// Seconds from the creation to the first readiness of the pod that became ready last.
    pub seconds: i32,

    /// How many pods were seen to become ready for the first time.
    pub samples: i32,
}

/// What one metric said.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct MetricStatus {
    /// The metric's name, or its index; "decision" for the decision server.
    pub name: String,

    /// Value: it was measured. Idle: it is proved that there is no traffic. Unknown: it could not be measured; message says why.
    pub state: MetricState,

    /// What was measured, on the scale of the query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,

    /// What the value is compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,

    /// The number of replicas that the metric recommends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,

    /// Why the metric is unknown; for the SLO also how it comes to its number of replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// How much is known of a metric.
#[derive(Serialize, Deserialize, schemars::JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricState {
    /// It was measured.
    Value,
    /// It is proved that there is no traffic.
    Idle,
    /// It could not be measured.
    #[serde(other)] // Whatever another version of the operator may have written must not make the object unreadable.
    Unknown,
}

/// The last decision.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct DecisionStatus {
    /// Why the outcome is as it is, in one word.
    pub reason: String,

    /// Why the outcome is as it is, in one sentence.
    pub message: String,

    /// What each stage made of the number of replicas, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageStatus>,
}

/// What one stage made of the number of replicas.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct StageStatus {
    /// The stage: recommend, activate, bound, stabilise, pace, guard or write.
    pub stage: String,

    /// The number of replicas that came in.
    #[serde(rename = "in")]
    pub count_in: i32,

    /// The number of replicas that went out.
    pub out: i32,

    /// Why, in one word.
    pub reason: String,

    /// Why, in one sentence.
    pub message: String,
}
