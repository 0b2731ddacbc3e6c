//! The facts that checks look at. Each has a deadline of its own, so that what hangs delays its own finding only.

use std::collections::BTreeSet;

use futures::future::join_all;
use futures::join;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{ApiResource, DynamicObject, ListParams, PostParams};
use kube::core::{GroupVersionKind, Selector};
use kube::{Api, Client, CustomResourceExt, ResourceExt};
use llmscaler_api::{Actuation, LLMScaler, Scaler};
use llmscaler_operator::diagnose::{API_SERVICE, ApiServiceState, CallError, state_of_api_service, within};
use serde_json::Value;

use super::rights::{self, Need};
use super::running;
use crate::cluster::Cluster;
use crate::operator::LEASE;
use crate::scalers::{self, Stored};

/// A fact, or why it is not known.
pub type Fact<T> = Result<T, String>;

/// By what pods of the operator may be found.
const OPERATOR_PODS: [&str; 2] =
    ["app.kubernetes.io/name in (llmscaler, llmscaleoperator, llm-operator)", "control-plane=controller-manager"];

/// How many other objects are told of when the target is not among them.
const MOST_OTHERS: u32 = 5;

/// What the API server knows of the target.
pub enum Target {
    /// Its kind is not served.
    Unserved,
    /// There is none of this name, but these.
    Missing { others: Vec<String> },
    /// The object as it is stored.
    Found {
        object: Value,
        has_scale: bool,
        /// The resource that its kind is served as.
        plural: String,
    },
}

/// Of the cluster as a whole.
pub struct ClusterFacts {
    pub definition: Fact<Option<Value>>,
    pub leases: Fact<Vec<Lease>>,
    pub operators: Fact<Vec<Pod>>,
}

/// Of one scaler and its surroundings.
pub struct Surroundings {
    pub target: Fact<Target>,
    pub pods: Fact<Vec<Pod>>,
    pub autoscalers: Fact<Vec<HorizontalPodAutoscaler>>,
    pub scaled_objects: Fact<Vec<DynamicObject>>,
    pub siblings: Vec<Stored>,
    pub budgets: Fact<Vec<PodDisruptionBudget>>,
    pub denied: Fact<Vec<Need>>,
    /// Who serves external metrics; `None` for a scaler that needs none.
    pub external_metrics: Option<Fact<ApiServiceState>>,
}

fn said<T>(answer: Result<T, CallError>) -> Fact<T> {
    answer.map_err(|error| error.to_string())
}

/// Asks for all that concerns every scaler.
pub async fn cluster(client: &Client) -> ClusterFacts {
    let (definition, leases, operators) = join!(definition(client), leases(client), operators(client));
    ClusterFacts { definition, leases, operators }
}

async fn definition(client: &Client) -> Fact<Option<Value>> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let found = said(within(definitions.get_opt(LLMScaler::crd_name())).await)?;
    found.map(serde_json::to_value).transpose().map_err(|error| error.to_string())
}

async fn leases(client: &Client) -> Fact<Vec<Lease>> {
    let only = ListParams::default().fields(&format!("metadata.name={LEASE}"));
    Ok(said(within(Api::<Lease>::all(client.clone()).list(&only)).await)?.items)
}

async fn operators(client: &Client) -> Fact<Vec<Pod>> {
    let pods: Api<Pod> = Api::all(client.clone());
    let lists = OPERATOR_PODS.map(|selector| {
        let (pods, only) = (pods.clone(), ListParams::default().labels(selector));
        async move { said(within(pods.list(&only)).await) }
    });
    let (mut found, mut seen) = (vec![], BTreeSet::new());
    for list in join_all(lists).await {
        found.extend(list?.items.into_iter().filter(|pod| running::is_operator(pod) && seen.insert(pod.uid())));
    }
    Ok(found)
}

/// Asks for all that is around one scaler. `account` is that of the operator.
pub async fn surroundings(cluster: &Cluster, namespace: &str, scaler: &Scaler, account: Option<&(String, String)>) -> Surroundings {
    let client = &cluster.client;
    let here = Cluster { client: client.clone(), namespace: Some(namespace.to_owned()) };
    let of_target = async {
        let target = target(client, namespace, scaler).await;
        let (pods, denied) =
            join!(pods(client, namespace, &target, &scaler.target.name), denied(client, namespace, scaler, &target, account));
        (target, pods, denied)
    };
    let all = ListParams::default();
    let hpas = Api::<HorizontalPodAutoscaler>::namespaced(client.clone(), namespace);
    let budgets = Api::<PodDisruptionBudget>::namespaced(client.clone(), namespace);
    let ((target, pods, denied), autoscalers, scaled_objects, siblings, budgets, external_metrics) = join!(
        of_target,
        within(hpas.list(&all)),
        scaled_objects(client, namespace),
        scalers::all(&here),
        within(budgets.list(&all)),
        external_metrics(client, scaler),
    );
    Surroundings {
        target,
        pods,
        autoscalers: said(autoscalers).map(|list| list.items),
        scaled_objects,
        // Whoever may read this scaler may read the others.
        siblings: siblings.unwrap_or_default(),
        budgets: said(budgets).map(|list| list.items),
        denied,
        external_metrics,
    }
}

async fn external_metrics(client: &Client, scaler: &Scaler) -> Option<Fact<ApiServiceState>> {
    if scaler.actuation == Actuation::Direct {
        return None;
    }
    let found = said(within(Api::<APIService>::all(client.clone()).get_opt(API_SERVICE)).await);
    Some(found.map(|found| state_of_api_service(found.as_ref())))
}

async fn target(client: &Client, namespace: &str, scaler: &Scaler) -> Fact<Target> {
    let reference = &scaler.target;
    let gvk = GroupVersionKind::gvk(&reference.group, &reference.version, &reference.kind);
    let (resource, capabilities) = match within(kube::discovery::pinned_kind(client, &gvk)).await {
        Ok(found) => found,
        Err(error) if error.is_absent() || matches!(error, CallError::Api(kube::Error::Discovery(_))) => return Ok(Target::Unserved),
        Err(error) => return Err(error.to_string()),
    };
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    match said(within(api.get_opt(&reference.name)).await)? {
        Some(object) => {
            let has_scale = capabilities.subresources.iter().any(|(resource, _)| resource.plural == "scale");
            let object = serde_json::to_value(object).map_err(|error| error.to_string())?;
            Ok(Target::Found { object, has_scale, plural: resource.plural })
        }
        None => {
            let some = ListParams::default().limit(MOST_OTHERS);
            let others = within(api.list(&some)).await.map(|list| list.items.iter().map(ResourceExt::name_any).collect());
            Ok(Target::Missing { others: others.unwrap_or_default() })
        }
    }
}

async fn pods(client: &Client, namespace: &str, target: &Fact<Target>, name: &str) -> Fact<Vec<Pod>> {
    let Ok(Target::Found { object, .. }) = target else { return Ok(vec![]) };
    let selector = object.pointer("/spec/selector").cloned().and_then(|value| serde_json::from_value::<LabelSelector>(value).ok());
    let params = match selector.and_then(|selector| Selector::try_from(selector).ok()) {
        Some(selector) => ListParams::default().labels_from(&selector),
        None => {
            ListParams::default().labels(&format!("leaderworkerset.sigs.k8s.io/name={name},leaderworkerset.sigs.k8s.io/worker-index=0"))
        }
    };
    Ok(said(within(Api::<Pod>::namespaced(client.clone(), namespace).list(&params)).await)?.items)
}

/// Every object of KEDA's kind; none where KEDA is not installed.
async fn scaled_objects(client: &Client, namespace: &str) -> Fact<Vec<DynamicObject>> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("keda.sh", "v1alpha1", "ScaledObject"));
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
    match within(api.list(&ListParams::default())).await {
        Err(error) if error.is_absent() => Ok(vec![]),
        answer => Ok(said(answer)?.items),
    }
}

async fn denied(
    client: &Client,
    namespace: &str,
    scaler: &Scaler,
    target: &Fact<Target>,
    account: Option<&(String, String)>,
) -> Fact<Vec<Need>> {
    let (Some(account), Ok(Target::Found { plural, has_scale, .. })) = (account, target) else { return Ok(vec![]) };
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let answers = rights::needs(scaler, plural, *has_scale).into_iter().map(|need| {
        let reviews = reviews.clone();
        async move {
            let review = rights::review(&need, namespace, account);
            let answer = said(within(reviews.create(&PostParams::default(), &review)).await)?;
            Ok::<_, String>((!answer.status.is_some_and(|status| status.allowed)).then_some(need))
        }
    });
    let mut denied = vec![];
    for answer in join_all(answers).await {
        denied.extend(answer?);
    }
    Ok(denied)
}
