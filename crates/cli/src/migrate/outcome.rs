//! What became of one object of the input.

use llmscaler_api::{Actuation, Invalid, TargetReference};
use serde::Serialize;

use super::draft::{Draft, Metadata, Spec};
use super::ledger::{Entry, Fate, Ledger, Node};

/// Which object it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// Its group and version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace, if it says one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl Origin {
    /// The kind as kubectl takes it.
    pub fn short_kind(&self) -> String {
        if self.kind == "HorizontalPodAutoscaler" { "hpa".to_owned() } else { self.kind.to_lowercase() }
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// An object of the input and what became of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Which object it was.
    pub origin: Origin,
    /// The scaler that does its work, or why there is none. `None` for an object that scales nothing itself.
    pub scaler: Option<Result<Draft, String>>,
    /// Each field of the object.
    pub fields: Vec<Entry>,
    /// What the scaler does differently, as whole sentences.
    pub differences: Vec<String>,
    /// The HPA that its old controller made and takes away again.
    pub generated_hpa: Option<String>,
}

/// What a kind of object says about a scaler.
pub struct Made {
    /// The scaler, or why there can be none.
    pub spec: Result<Spec, String>,
    /// What it does differently.
    pub differences: Vec<String>,
    /// The HPA that the old controller made.
    pub generated_hpa: Option<String>,
}

impl Made {
    /// A scaler.
    pub fn scaler(spec: Spec, differences: Vec<String>) -> Self {
        Self { spec: Ok(spec), differences, generated_hpa: None }
    }

    /// That there can be no scaler.
    pub fn none(why: impl Into<String>) -> Self {
        Self { spec: Err(why.into()), differences: vec![], generated_hpa: None }
    }
}

impl Outcome {
    /// What the scaler is called.
    pub fn scaler_name(&self) -> &str {
        if let Some(Ok(draft)) = &self.scaler { &draft.metadata.name } else { &self.origin.name }
    }

    /// Closes the books of an object, whose scaler writes in this way.
    pub fn new(origin: Origin, root: &Node<'_>, ledger: &Ledger, made: Made, actuation: Actuation) -> Self {
        let metadata = Metadata { name: origin.name.clone(), namespace: origin.namespace.clone() };
        let refused = |refusal: Invalid| format!("an LLMScaler with these fields is refused: {refusal}");
        let mut differences = made.differences;
        let scaler = made.spec.and_then(|spec| {
            let spec = Spec { actuation, ..spec };
            differences.extend(everywhere(&spec));
            Draft::checked(metadata, spec).map_err(refused)
        });
        let mut fields = ledger.close(root.value());
        if let Err(why) = &scaler {
            // Nothing was carried anywhere.
            fields.retain(|entry| !matches!(entry.fate, Fate::Carried(_)));
            fields.insert(0, Entry { field: "spec".to_owned(), fate: Fate::Lost(format!("there is no LLMScaler for it: {why}")) });
            differences.clear();
        }
        Self { origin, scaler: Some(scaler), fields, differences, generated_hpa: made.generated_hpa }
    }

    /// Whether a part of the object is not in the scaler.
    pub fn is_incomplete(&self) -> bool {
        self.fields.iter().any(|entry| matches!(entry.fate, Fate::Lost(_)))
    }
}

/// Fields of the metadata that belong to the API server or to the tools that manage the object.
const BOOKKEEPING: [&str; 10] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
    "finalizers",
    "ownerReferences",
];

/// Which object this is; accounts for what every object has, but for its annotations.
pub fn origin(root: &Node<'_>) -> Result<Origin, Invalid> {
    let (version, kind) = (root.need("apiVersion")?, root.need("kind")?);
    version.left("the scaler has its own");
    kind.left("the scaler has its own");
    let metadata = root.need("metadata")?;
    let name = metadata.need("name")?;
    name.carried("metadata.name");
    let (empty, namespace): (Vec<_>, Vec<_>) = metadata.get("namespace").into_iter().partition(|namespace| namespace.value() == "");
    empty.iter().for_each(|namespace| namespace.left("it is empty"));
    namespace.iter().for_each(|namespace| namespace.carried("metadata.namespace"));
    for field in BOOKKEEPING.iter().filter_map(|field| metadata.get(field)) {
        field.left("it belongs to the old object");
    }
    if let Some(labels) = metadata.get("labels") {
        labels.left("Argo CD, Helm and others know their objects by such labels, so none are copied; add your own");
    }
    if let Some(status) = root.get("status") {
        status.left("it belongs to the old object");
    }
    Ok(Origin {
        api_version: version.text()?,
        kind: kind.text()?,
        namespace: namespace.first().map(Node::text).transpose()?,
        name: name.text()?,
    })
}

/// Annotations of tools that manage objects, by the group that they begin with.
const TOOLS: [&str; 6] = [
    "kubectl.kubernetes.io/",
    "argocd.argoproj.io/",
    "meta.helm.sh/",
    "kustomize.toolkit.fluxcd.io/",
    "helm.toolkit.fluxcd.io/",
    "deployment.kubernetes.io/",
];

/// The annotations that may matter: those of tools are accounted for.
pub fn annotations<'a>(root: &Node<'a>) -> Vec<(&'a str, Node<'a>)> {
    let all = root.at(&["metadata", "annotations"]).map(|annotations| annotations.members()).unwrap_or_default();
    let (tools, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|(name, _)| TOOLS.iter().any(|tool| name.starts_with(tool)));
    tools.iter().for_each(|(_, annotation)| annotation.left("it belongs to the tool that manages the old object"));
    others
}

/// The workload at `scaleTargetRef`; an apps/v1 Deployment where it does not say.
pub fn target(spec: &Node<'_>) -> Result<TargetReference, Invalid> {
    let target = spec.need("scaleTargetRef")?;
    let text = |name: &str, default: &str| match target.get(name) {
        Some(field) => {
            field.carried(format!("targetRef.{name}"));
            field.text()
        }
        None => Ok(default.to_owned()),
    };
    target.need("name")?;
    Ok(TargetReference { api_version: text("apiVersion", "apps/v1")?, kind: text("kind", "Deployment")?, name: text("name", "")? })
}

/// Whole sentences on what differs whatever was migrated.
fn everywhere(spec: &Spec) -> Vec<String> {
    if spec.actuation == Actuation::HorizontalPodAutoscaler {
        return vec![
            "An HPA of the operator writes, from the operator's external metrics API. A cluster has one such API: while KEDA or an adapter \
             serves it, the scaler can only write itself, with actuation: Direct, as the hand-over has it."
                .to_owned(),
        ];
    }
    let mut all = vec![];
    if spec.metrics.len() > 1 && spec.metrics.iter().any(|metric| !metric.required) {
        all.push(
            "A metric that is unknown contributes nothing and the others decide; when all are, the size is held. In the HPA one metric that \
             fails stops every scale-down. required: true gives that back, on a metric whose query always has a result."
                .to_owned(),
        );
    }
    all.push(
        "A write waits while the target rolls out; on the way down also while pods are starting or draining; on the way up also while \
         earlier replicas find no node."
            .to_owned(),
    );
    if spec.target_ref.kind == "Deployment" {
        all.push(
            "The pods that go are chosen, and marked through controller.kubernetes.io/pod-deletion-cost: those that are not ready, then the \
             newest, or the coldest by scaleDown.deletionCostQuery. scaleDown: {behavior: None} leaves the choice to the ReplicaSet."
                .to_owned(),
        );
    }
    all
}
