//! The API servers that a test of the operator can be run against.

use crate::control_plane::ControlPlane;
use crate::namespace::Namespace;

/// What answers the operator under test. A test that both can serve runs on both, so that what holds on the sandbox, where the faults are
/// injected and the demo runs, is known to hold on a real server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiServer {
    /// kube-apiserver with the controllers of the built-in kinds.
    Real,
    /// The sandbox with its own stand-ins for these controllers, of one namespace alone. It has no RBAC, no admission, no aggregation, no
    /// controllers of StatefulSets and HorizontalPodAutoscalers, and no kinds but the built-in ones and `LLMScaler`.
    Sandbox,
}

impl ApiServer {
    /// A namespace of the test's own, called after `purpose`, with a kubelet for its pods, and the control plane's Prometheus in either case.
    /// `None` when there is no control plane, as of [`ControlPlane::shared`].
    ///
    /// # Panics
    /// As [`ControlPlane::shared`].
    pub async fn namespace(self, purpose: &str) -> Option<Namespace> {
        let plane = ControlPlane::shared().await?;
        Some(match self {
            Self::Real => plane.namespace(purpose).await,
            Self::Sandbox => Namespace::in_sandbox(plane, purpose).await,
        })
    }
}
