//! Fleets whose size a decision server says: a change takes effect at the next sync, without the seconds of a scrape.

use kube::api::DynamicObject;
use llmscaler_e2e::{ApiServer, DecisionServer, Namespace, Operator};
use serde_json::{Value, json};

use crate::fleet::{SOON, condition, nothing_was_forbidden, operator_of};
use crate::scaler::{merge, on_decisions};

/// A namespace with a decision server and an operator of its own.
///
/// It fails the test at its end when the operator was ever refused something by RBAC.
pub struct Steered {
    pub operator: Operator,
    pub server: DecisionServer,
    pub ns: Namespace,
}

impl Steered {
    /// Starts all of it; `None` when there is no control plane.
    pub async fn start(on: ApiServer, purpose: &str) -> Option<Self> {
        let (ns, server) = without_operator(on, purpose).await?;
        Some(Self { operator: operator_of(&ns).await, server, ns })
    }

    /// Decides on `replicas` from now on.
    pub fn ask(&self, replicas: i64) {
        self.server.decide(self.ns.name(), "fleet", replicas);
    }

    /// Creates or changes the scaler, which may go to zero.
    pub async fn scale(&self, more: Value) -> DynamicObject {
        let mut spec = json!({"minReplicas": 0});
        merge(&mut spec, more);
        self.ns.apply(&on_decisions(&self.ns, &self.server, spec)).await.remove(0)
    }

    /// Waits until Deployment `fleet` is settled at `replicas`.
    pub async fn settles_at(&self, replicas: i64) -> Value {
        settles_at(&self.ns, "fleet", replicas).await
    }
}

impl Drop for Steered {
    fn drop(&mut self) {
        nothing_was_forbidden(&self.operator);
    }
}

/// A namespace and a decision server, for tests that start operators themselves.
pub async fn without_operator(on: ApiServer, purpose: &str) -> Option<(Namespace, DecisionServer)> {
    Some((on.namespace(purpose).await?, DecisionServer::start().await))
}

/// Waits until a Deployment has `replicas` in its spec, all of them ready and no others, not even on their way out.
pub async fn settles_at(ns: &Namespace, name: &str, replicas: i64) -> Value {
    ns.wait_for(&ns.deployments(), name, &format!("settled at {replicas}"), SOON, |fleet| is_settled_at(fleet, replicas)).await
}

fn is_settled_at(fleet: &Value, replicas: i64) -> bool {
    let status = |field: &str| fleet["status"][field].as_i64().unwrap_or_default();
    fleet["spec"]["replicas"] == replicas
        && fleet["status"]["observedGeneration"] == fleet["metadata"]["generation"]
        && ["replicas", "readyReplicas", "updatedReplicas"].into_iter().all(|field| status(field) == replicas)
        && status("terminatingReplicas") == 0
}

/// Whether a scaler has a condition of this type and status.
pub fn has(scaler: &Value, kind: &str, status: &str) -> bool {
    condition(&scaler["status"], kind)["status"] == status
}
