//! The resources that are served.

use std::sync::LazyLock;

use kube::Resource as _;
use llmscaler_api::LLMScaler;

/// One resource in one version.
#[derive(Debug)]
pub(crate) struct Resource {
    pub group: String,
    pub version: String,
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub short_names: Vec<String>,
    pub namespaced: bool,
    /// Whether it has the subresource `status`.
    pub status: bool,
    /// Whether it has the subresource `scale`.
    pub scale: bool,
    /// Whether `metadata.generation` counts the changes of its spec.
    pub generation: bool,
    /// Whether a schema with rules judges it.
    pub custom: bool,
    /// Whether objects of it are only answered, never stored.
    pub review: bool,
}

/// Every one of them.
pub(crate) static RESOURCES: LazyLock<Vec<Resource>> = LazyLock::new(|| {
    let mut all = vec![
        Resource::of("", "namespaces", "Namespace", "ns").cluster().with_status(),
        Resource::of("", "pods", "Pod", "po").with_status(),
        Resource::of("", "services", "Service", "svc").with_status(),
        Resource::of("", "events", "Event", "ev"),
        Resource::of("", "secrets", "Secret", ""),
        Resource::of("", "configmaps", "ConfigMap", "cm"),
        Resource::of("", "serviceaccounts", "ServiceAccount", "sa"),
        Resource::of("", "nodes", "Node", "no").cluster().with_status(),
        Resource::of("apps", "deployments", "Deployment", "deploy").with_status().counted().scalable(),
        Resource::of("apps", "replicasets", "ReplicaSet", "rs").with_status().counted().scalable(),
        Resource::of("apps", "statefulsets", "StatefulSet", "sts").with_status().counted().scalable(),
        Resource::of("events.k8s.io", "events", "Event", "ev"),
        Resource::of("coordination.k8s.io", "leases", "Lease", ""),
        Resource::of("discovery.k8s.io", "endpointslices", "EndpointSlice", ""),
        Resource { version: "v2".into(), ..Resource::of("autoscaling", "horizontalpodautoscalers", "HorizontalPodAutoscaler", "hpa") }
            .with_status(),
        Resource::of("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", "crd")
            .cluster()
            .with_status()
            .counted(),
        Resource::of("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview", "").cluster().only_answered(),
        Resource::of("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", "").cluster().only_answered(),
        Resource::of("authentication.k8s.io", "tokenreviews", "TokenReview", "").cluster().only_answered(),
    ];
    let scaler = Resource::of(&LLMScaler::group(&()), &LLMScaler::plural(&()), &LLMScaler::kind(&()), "llms").with_status().counted();
    all.push(Resource { version: LLMScaler::version(&()).into_owned(), custom: true, ..scaler });
    all
});

impl Resource {
    fn of(group: &str, plural: &str, kind: &str, short_name: &str) -> Self {
        Self {
            group: group.into(),
            version: "v1".into(),
            plural: plural.into(),
            singular: kind.to_lowercase(),
            kind: kind.into(),
            short_names: Some(short_name.to_owned()).filter(|name| !name.is_empty()).into_iter().collect(),
            namespaced: true,
            status: false,
            scale: false,
            generation: false,
            custom: false,
            review: false,
        }
    }

    fn cluster(self) -> Self {
        Self { namespaced: false, ..self }
    }

    fn with_status(self) -> Self {
        Self { status: true, ..self }
    }

    fn counted(self) -> Self {
        Self { generation: true, ..self }
    }

    fn scalable(self) -> Self {
        Self { scale: true, ..self }
    }

    fn only_answered(self) -> Self {
        Self { review: true, ..self }
    }

    /// The resource under this path, if it is served.
    pub(crate) fn find(group: &str, version: &str, plural: &str) -> Option<&'static Self> {
        RESOURCES.iter().find(|one| one.group == group && one.version == version && one.plural == plural)
    }

    /// The resource of this kind, for the crate's own controllers.
    pub(crate) fn of_kind(kind: &str) -> Option<&'static Self> {
        RESOURCES.iter().find(|one| one.kind == kind)
    }

    /// `apps/v1`, or `v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// `deployments.apps`, or `pods`.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// Events of both groups are the same objects.
    pub(crate) fn stored_as(&'static self) -> &'static Self {
        if self.plural == "events" { Self::find("", "v1", "events").unwrap_or(self) } else { self }
    }

    /// Whether an update has to say which version it is of.
    pub(crate) fn needs_version(&self) -> bool {
        self.custom || self.plural == "leases"
    }
}
