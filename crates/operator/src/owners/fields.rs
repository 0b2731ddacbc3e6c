//! Whose the size of an object is, as the API server keeps book of it in `metadata.managedFields`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;

use crate::context::FIELD_MANAGER;

/// Somebody who owns `spec.replicas` of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    /// The field manager.
    pub manager: String,
    /// It holds the size by server-side apply, which is a claim to it. An update may have set it by the way: whoever creates an object
    /// is booked for each default, too.
    pub applied: bool,
}

impl Holder {
    /// Whether it is this operator.
    pub(crate) fn is_ours(&self) -> bool {
        self.manager == FIELD_MANAGER
    }

    /// Whether it is a person at a terminal, as far as a name can tell.
    pub(crate) fn is_person(&self) -> bool {
        self.manager.starts_with("kubectl")
    }
}

/// Those who own `spec.replicas`, whether they wrote the object or its scale subresource; whoever wrote last comes last.
pub(crate) fn holders(entries: Option<&[ManagedFieldsEntry]>) -> Vec<Holder> {
    let mut holding: Vec<&ManagedFieldsEntry> = entries.unwrap_or_default().iter().filter(|entry| holds_size(entry)).collect();
    holding.sort_by_key(|entry| entry.time.as_ref().map(|time| time.0));
    let holder = |entry: &&ManagedFieldsEntry| Holder {
        manager: entry.manager.clone().unwrap_or_default(),
        applied: entry.operation.as_deref() == Some("Apply"),
    };
    holding.iter().map(holder).collect()
}

fn holds_size(entry: &ManagedFieldsEntry) -> bool {
    entry.fields_v1.as_ref().is_some_and(|fields| fields.0.pointer("/f:spec/f:replicas").is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The owners of the size, and which of them applied it.
    fn of(entries: Value) -> Vec<String> {
        let entries: Vec<ManagedFieldsEntry> = serde_json::from_value(entries).unwrap();
        let applied = |holder: &Holder| if holder.applied { " applied" } else { "" };
        holders(Some(&entries)).iter().map(|holder| format!("{}{}", holder.manager, applied(holder))).collect()
    }

    fn entry(manager: &str, operation: &str, subresource: Option<&str>, time: &str, fields: &Value) -> Value {
        json!({"manager": manager, "operation": operation, "subresource": subresource, "apiVersion": "apps/v1", "time": time,
            "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    /// What `kubectl create deployment` leaves, its defaults included, and the reports of the controller.
    fn created(manager: &str) -> Vec<Value> {
        let spec = json!({"f:progressDeadlineSeconds": {}, "f:replicas": {}, "f:revisionHistoryLimit": {}, "f:selector": {},
            "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}}, "f:type": {}},
            "f:template": {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}}});
        let status = json!({"f:metadata": {"f:annotations": {".": {}, "f:deployment.kubernetes.io/revision": {}}},
            "f:status": {"f:replicas": {}, "f:readyReplicas": {}, "f:observedGeneration": {}}});
        vec![
            entry(
                manager,
                "Update",
                None,
                "2026-01-01T00:00:00Z",
                &json!({"f:metadata": {"f:labels": {".": {}, "f:app": {}}}, "f:spec": spec}),
            ),
            entry("kube-controller-manager", "Update", Some("status"), "2026-01-01T00:00:09Z", &status),
        ]
    }

    /// The entry of somebody for whom the size is all.
    fn size(manager: &str, operation: &str, subresource: Option<&str>, time: &str) -> Value {
        entry(manager, operation, subresource, time, &json!({"f:spec": {"f:replicas": {}}}))
    }

    #[test]
    fn who_owns_the_size() {
        let (at, later) = ("2026-01-01T00:00:20Z", "2026-01-01T00:00:30Z");
        let template = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"vllm\"}": {".": {}, "f:image": {}}}}}}});
        // A status has replicas, too, which are no size.
        assert_eq!(of(created("kubectl-create").into()), ["kubectl-create"]);
        let cases: [(&str, Value, &[&str]); 7] = [
            ("kubectl scale", json!([size("kubectl", "Update", Some("scale"), at)]), &["kubectl"]),
            ("after our write", json!([size("llmscaler", "Apply", Some("scale"), at)]), &["llmscaler applied"]),
            (
                "an HPA",
                json!([
                    size("kube-controller-manager", "Update", Some("scale"), at),
                    entry("argocd-controller", "Apply", None, later, &template)
                ]),
                &["kube-controller-manager"],
            ),
            (
                "Argo CD with its replicas in the manifest, applied to the value that we had written",
                json!([size("argocd-controller", "Apply", None, later), size("llmscaler", "Apply", Some("scale"), at)]),
                &["llmscaler applied", "argocd-controller applied"],
            ),
            ("Helm 3", json!([size("helm", "Update", None, at)]), &["helm"]),
            ("the Go operator", json!([size("manager", "Update", None, at)]), &["manager"]),
            (
                "nobody, with the fields of a CRD that has its size elsewhere",
                json!([entry("x", "Update", None, at, &json!({"f:spec": {"f:size": {}}}))]),
                &[],
            ),
        ];
        for (what, entries, expected) in cases {
            assert_eq!(of(entries), expected, "{what}");
        }
        assert_eq!(holders(None), []);
        assert_eq!(of(json!([{"manager": "x", "operation": "Update"}])), [""; 0], "an entry without fields");
    }

    #[test]
    fn people_and_ourselves_are_told_from_programs() {
        let holder = |manager: &str| Holder { manager: manager.to_owned(), applied: false };
        for name in ["kubectl", "kubectl-client-side-apply", "kubectl-edit", "kubectl-rollout"] {
            assert!(holder(name).is_person() && !holder(name).is_ours(), "{name}");
        }
        assert!(holder("llmscaler").is_ours());
        assert!(!holder("argocd-controller").is_person() && !holder("manager").is_ours());
    }
}
