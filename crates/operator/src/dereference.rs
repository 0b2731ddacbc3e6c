//! Step *dereference*: from the names in a scaler to the objects that they stand for.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Api;
use kube::api::DynamicObject;
use llmscaler_api::TargetRef;
use llmscaler_engine::{Replicas, Warmth, Workload};

use crate::cluster::{Cluster, KindError, PodWatch, TargetKind};
use crate::context::Context;
use crate::deadline::{CallError, within};
use crate::owners::Autoscalers;
use crate::pods::{KeptPod, pods_of, replicas_of};
use crate::target::Target;
use crate::watch::Collection;

/// How long a sync waits for the first list of a watch.
const LIST_PATIENCE: Duration = Duration::from_secs(5);

/// Where a scaler's target is, and the watches that tell of it.
pub(crate) struct Place {
    pub namespace: String,
    pub target: TargetRef,
    pub kind: TargetKind,
    pub targets: Arc<Collection<Target>>,
    pub pods: Arc<PodWatch>,
    pub autoscalers: Arc<Autoscalers>,
}

/// Why the target cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreachable {
    #[error(transparent)]
    Kind(#[from] KindError),
    #[error("{what} in namespace {namespace} could not be listed: {why}")]
    NotListed { what: String, namespace: String, why: String },
    #[error("there is no {kind} {name} in namespace {namespace}; it is picked up as soon as it exists")]
    Missing { kind: String, name: String, namespace: String },
    #[error("{kind} {name} has neither spec.replicas nor a scale subresource, so nothing can scale it; check targetRef")]
    NoReplicas { kind: String, name: String },
    #[error("the size of {kind} {name} could not be read: {source}")]
    Api { kind: String, name: String, source: CallError },
}

impl Unreachable {
    /// Whether the API server serves the kind in another way than is known: not at all, or with its size elsewhere.
    pub(crate) fn is_absence(&self) -> bool {
        match self {
            Self::NoReplicas { .. } => true,
            Self::Api { source, .. } => source.is_absent(),
            // Found in no watch, it is only not there yet.
            Self::Missing { .. } | Self::Kind(_) | Self::NotListed { .. } => false,
        }
    }
}

impl Place {
    /// Finds the kind and starts the watches, where they do not run yet.
    pub(crate) async fn find(cluster: &Cluster, namespace: &str, target: &TargetRef) -> Result<Self, Unreachable> {
        let kind = cluster.kind(target).await?;
        let targets = cluster.targets(target, &kind, namespace);
        let (pods, autoscalers) = (cluster.pods(namespace), cluster.autoscalers());
        Ok(Self { namespace: namespace.to_owned(), target: target.clone(), kind, targets, pods, autoscalers })
    }

    /// The target as its watch last showed it, with its size.
    pub(crate) async fn look(&self, context: &Context) -> Result<(View, Replicas), Unreachable> {
        let (kind, name, namespace) = (&self.target.kind, &self.target.name, &self.namespace);
        let not_listed = |what: &str, why: crate::watch::NotListed| Unreachable::NotListed {
            what: what.to_owned(),
            namespace: namespace.clone(),
            why: why.to_string(),
        };
        self.targets.listed(LIST_PATIENCE).await.map_err(|why| not_listed(&self.kind.resource.plural, why))?;
        self.pods.pods.listed(LIST_PATIENCE).await.map_err(|why| not_listed("pods", why))?;
        self.pods.replica_sets.listed(LIST_PATIENCE).await.map_err(|why| not_listed("replicasets", why))?;
        self.autoscalers.listed().await;
        let missing = || Unreachable::Missing { kind: kind.clone(), name: name.clone(), namespace: namespace.clone() };
        let view = self.view().ok_or_else(missing)?;
        let replicas = self.replicas(context, &view.target).await?;
        Ok((view, replicas))
    }

    /// What the watches show of the target now; `None` when they do not know it. It asks nobody.
    pub(crate) fn view(&self) -> Option<View> {
        let target = self.targets.get(&self.target.name)?;
        let pods = self.pods(&target);
        Some(View { target, pods })
    }

    /// The target as the API server has it now, with its size and resource version, and its pods as their watch shows them.
    pub(crate) async fn look_live(&self, context: &Context) -> Result<(View, Replicas, Option<String>), Unreachable> {
        let (kind, name) = (self.target.kind.clone(), self.target.name.clone());
        let object = within(self.api(context).get(&name)).await.map_err(|error| match error.is_not_found() {
            true => Unreachable::Missing { kind, name, namespace: self.namespace.clone() },
            false => Unreachable::Api { kind, name, source: error },
        })?;
        let target = Arc::new(Target::of(&object));
        let replicas = self.replicas(context, &target).await?;
        let pods = self.pods(&target);
        Ok((View { target, pods }, replicas, object.metadata.resource_version))
    }

    /// The size, from the object itself, else from its scale subresource.
    async fn replicas(&self, context: &Context, target: &Target) -> Result<Replicas, Unreachable> {
        if let Some(replicas) = target.replicas {
            return Ok(replicas);
        }
        let (kind, name) = (self.target.kind.clone(), self.target.name.clone());
        if !self.kind.has_scale {
            return Err(Unreachable::NoReplicas { kind, name });
        }
        let scale = within(self.api(context).get_scale(&name)).await.map_err(|source| Unreachable::Api { kind, name, source })?;
        Ok(Replicas::saturating(scale.spec.and_then(|spec| spec.replicas).unwrap_or(0).into()))
    }

    /// Why the pods may be others by now than their watch shows, if it has failed for long.
    pub(crate) fn pods_unseen(&self) -> Option<String> {
        let PodWatch { pods, replica_sets } = &*self.pods;
        let told = |what: &str, why: String| format!("{what} cannot be watched: {why}");
        pods.failing().map(|why| told("pods", why)).or_else(|| replica_sets.failing().map(|why| told("replicasets", why)))
    }

    /// The typed-by-name client for the target.
    pub(crate) fn api(&self, context: &Context) -> Api<DynamicObject> {
        Api::namespaced_with(context.client.clone(), &self.namespace, &self.kind.resource)
    }

    /// The target's pods, each with whether it is of the newest template.
    pub(crate) fn pods(&self, target: &Target) -> Vec<(Arc<KeptPod>, bool)> {
        pods_of(&self.target.name, target, &self.pods.pods, &self.pods.replica_sets)
    }
}

/// What the watches show of a target.
pub(crate) struct View {
    pub target: Arc<Target>,
    /// Each with whether it is of the newest template.
    pub pods: Vec<(Arc<KeptPod>, bool)>,
}

impl View {
    /// Whether no event about the target or one of its pods came between the two.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let (ours, theirs) = (&self.pods, &other.pods);
        let same_pods = ours.len() == theirs.len()
            && ours.iter().zip(theirs).all(|((pod, newest), (other, other_newest))| Arc::ptr_eq(pod, other) && newest == other_newest);
        same_pods && Arc::ptr_eq(&self.target, &other.target)
    }

    /// The workload as the engine looks at it `now`.
    pub(crate) fn workload(&self, now: Timestamp, replicas: Replicas, other_owner: Option<String>, warmth: Warmth) -> Workload {
        let Self { target, pods } = self;
        let (overdue, waited_for): (Vec<_>, Vec<_>) = pods.iter().cloned().partition(|(pod, _)| pod.is_overdue(now));
        let leaving = replicas_of(target.kind, &waited_for, now).iter().filter(|pod| pod.terminating).count();
        let count = |pods: usize| u32::try_from(pods).unwrap_or(u32::MAX);
        Workload {
            identity: Some(target.uid.clone()),
            replicas,
            ready: target.ready,
            rollout: target.rollout.clone(),
            // Pods that should have been gone for long are in the target's own figure.
            terminating: target.terminating.saturating_sub(count(overdue.len())).max(count(leaving)),
            pods: replicas_of(target.kind, pods, now),
            other_owner,
            warmth,
            warmup: None,
        }
    }
}
