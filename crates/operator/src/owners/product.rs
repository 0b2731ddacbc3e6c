//! What is behind the name of a field manager, and how it is kept from `spec.replicas`. The names are those that products write under.

/// What goes by the name of a field manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Product {
    ArgoCd,
    FluxKustomize,
    FluxHelm,
    RancherFleet,
    Helm,
    /// `kubectl apply`, on the client's or the server's side. `kubectl scale` goes by the latter's name, too.
    Kubectl,
    /// `kubectl create`, `edit` and their like, which are not given the same again.
    KubectlOnce,
    Terraform,
    Pulumi,
    /// The operator that served this API before, in Go: its framework's name for a writer without a name.
    GoOperator,
    /// The controller of HPAs, among others.
    ControllerManager,
    Keda,
    /// The API server has no name for who wrote.
    Unnamed,
    Other,
}

impl Product {
    pub(super) fn of(manager: &str) -> Self {
        let is = |prefix: &str| manager.starts_with(prefix);
        match manager {
            "" => Self::Unnamed,
            "manager" => Self::GoOperator,
            _ if is("argocd") => Self::ArgoCd,
            _ if is("kustomize-controller") => Self::FluxKustomize,
            _ if is("helm-controller") => Self::FluxHelm,
            _ if is("fleetagent") || manager == "fleet" => Self::RancherFleet,
            _ if is("helm") => Self::Helm,
            "kubectl" | "kubectl-client-side-apply" | "kubectl-last-applied" => Self::Kubectl,
            _ if is("kubectl") => Self::KubectlOnce,
            _ if is("Terraform") || is("HashiCorp") => Self::Terraform,
            _ if is("pulumi") => Self::Pulumi,
            _ if is("kube-controller-manager") => Self::ControllerManager,
            _ if is("keda") => Self::Keda,
            _ => Self::Other,
        }
    }

    /// How it writes the size again; `None` where that is not known, or where another object shows it.
    pub(super) fn habit(self) -> Option<&'static str> {
        match self {
            Self::ArgoCd => Some("each sync of Argo CD sets it back"),
            Self::FluxKustomize | Self::FluxHelm => Some("each reconciliation of Flux sets it back"),
            Self::RancherFleet => Some("each deployment of Fleet sets it back"),
            Self::Helm => Some("helm upgrade sets it back"),
            Self::Terraform => Some("terraform apply sets it back"),
            Self::Pulumi => Some("pulumi up sets it back"),
            Self::Kubectl => Some("kubectl apply sets it back"),
            Self::GoOperator => Some("the Go operator of this API writes under that name"),
            Self::KubectlOnce | Self::ControllerManager | Self::Keda | Self::Unnamed | Self::Other => None,
        }
    }

    /// How to keep it from `spec.replicas`; `manager` is the name that it goes by.
    pub(super) fn remedy(self, manager: &str) -> String {
        let fixed = match self {
            Self::ArgoCd => {
                "take replicas out of the manifest, or add to the Application of Argo CD: ignoreDifferences with jsonPointers \
                 [/spec/replicas], and the syncOption RespectIgnoreDifferences=true"
            }
            Self::FluxKustomize => "take spec.replicas out of the manifests that Flux applies",
            Self::FluxHelm => {
                "take replicas out of the chart's template, or ignore /spec/replicas in the driftDetection of Flux's HelmRelease"
            }
            Self::RancherFleet => "take spec.replicas out of the bundle that Fleet deploys",
            Self::Helm => "take replicas out of the chart's template",
            Self::Kubectl => "take spec.replicas out of the manifest that is applied again and again",
            Self::KubectlOnce => "no more is needed if it was run once; take spec.replicas out of what runs it again and again",
            Self::Terraform => "add spec[0].replicas to ignore_changes in Terraform's lifecycle block",
            Self::Pulumi => "add spec.replicas to Pulumi's ignoreChanges",
            Self::GoOperator => "see that the Go operator of this API does not run any more",
            Self::ControllerManager => "look for its HorizontalPodAutoscaler with kubectl get hpa, and delete it",
            Self::Keda => "look for its ScaledObject with kubectl get scaledobjects, and pause or delete it",
            Self::Unnamed => "look for it in the audit log of the API server, and keep it from spec.replicas",
            Self::Other => return format!("keep {manager} from spec.replicas"),
        };
        fixed.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_by_the_names_that_they_write_under() {
        for (manager, product) in [
            ("argocd-controller", Product::ArgoCd),
            ("argocd-application-controller", Product::ArgoCd),
            ("kustomize-controller", Product::FluxKustomize),
            ("helm-controller", Product::FluxHelm),
            ("fleetagent", Product::RancherFleet),
            ("fleet-of-mine", Product::Other),
            ("helm", Product::Helm),
            ("kubectl-client-side-apply", Product::Kubectl),
            ("kubectl", Product::Kubectl),
            ("kubectl-create", Product::KubectlOnce),
            ("kubectl-edit", Product::KubectlOnce),
            ("Terraform", Product::Terraform),
            ("HashiCorp", Product::Terraform),
            ("pulumi-kubernetes", Product::Pulumi),
            ("manager", Product::GoOperator),
            ("manager-of-mine", Product::Other),
            ("kube-controller-manager", Product::ControllerManager),
            ("keda-operator", Product::Keda),
            ("", Product::Unnamed),
        ] {
            assert_eq!(Product::of(manager), product, "{manager}");
        }
    }
}
