//! The objects to migrate: from files, or from a cluster.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use futures::future::join_all;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use llmscaler_api::Invalid;
use llmscaler_operator::diagnose::within;
use serde_json::Value;

use super::placed;
use crate::cluster::Cluster;
use crate::decide::{text, yaml_documents};
use crate::dns;
use crate::failure::Failure;

/// What kind of object it is, as far as migration knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The HPA.
    HorizontalPodAutoscaler,
    /// KEDA's.
    ScaledObject,
    /// The credentials of KEDA's triggers.
    TriggerAuthentication,
    /// WVA's.
    VariantAutoscaling,
    /// AIBrix's.
    PodAutoscaler,
}

/// Group, versions that are read, kind and plural; the first version is asked of a cluster.
const KINDS: [(Kind, &str, &[&str], &str, &str); 6] = [
    (Kind::HorizontalPodAutoscaler, "autoscaling", &["v2", "v2beta2"], "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
    (Kind::ScaledObject, "keda.sh", &["v1alpha1"], "ScaledObject", "scaledobjects"),
    (Kind::TriggerAuthentication, "keda.sh", &["v1alpha1"], "TriggerAuthentication", "triggerauthentications"),
    (Kind::TriggerAuthentication, "keda.sh", &["v1alpha1"], "ClusterTriggerAuthentication", "clustertriggerauthentications"),
    (Kind::VariantAutoscaling, "llmd.ai", &["v1alpha1"], "VariantAutoscaling", "variantautoscalings"),
    (Kind::PodAutoscaler, "autoscaling.aibrix.ai", &["v1alpha1"], "PodAutoscaler", "podautoscalers"),
];

/// The objects of known kinds, and what to say about the others.
#[derive(Debug, Default)]
pub struct Input {
    /// Each with its kind.
    pub objects: Vec<(Kind, Value)>,
    /// What was passed over.
    pub notes: Vec<String>,
}

impl Input {
    /// Takes the object in, or notes why it is passed over.
    ///
    /// # Errors
    ///
    /// It would be taken, and has a name that no object can have.
    fn add(&mut self, object: Value) -> Result<(), Invalid> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (version, kind) = (text("/apiVersion"), text("/kind"));
        if let (true, Some(items)) = (kind.ends_with("List"), object.get("items").and_then(Value::as_array)) {
            return items.clone().into_iter().try_for_each(|item| self.add(item));
        }
        let name = text("/metadata/name");
        let (group, number) = version.split_once('/').unwrap_or_default();
        let of_kind = KINDS.iter().find(|(_, known_group, _, known, _)| *known == kind && *known_group == group);
        if of_kind.is_some() {
            check_names(&object)?;
        }
        let known = of_kind.filter(|(_, _, versions, ..)| versions.contains(&number));
        if let (None, Some((_, _, versions, _, plural))) = (known, of_kind) {
            // As kubectl asks for an object in a version; an HPA has a short name.
            let plural = if kind == "HorizontalPodAutoscaler" { "hpa" } else { plural };
            let resource = format!("{plural}.{}.{group}", versions.first().copied().unwrap_or_default());
            let namespace = Some(text("/metadata/namespace")).filter(|namespace| !namespace.is_empty());
            let flag = namespace.map_or_else(String::new, |namespace| format!(" -n {namespace}"));
            self.notes.push(format!(
                "{kind} {name} of {version} is passed over, since of its versions {} can be migrated: give what kubectl get {resource} \
                 {name}{flag} -o yaml prints",
                versions.join(" and ")
            ));
            return Ok(());
        }
        match (known, generator(&object)) {
            (Some((Kind::HorizontalPodAutoscaler, ..)), Some(owner)) => {
                self.notes.push(format!("{kind} {name} is made by {owner}, which stands for it, so it is passed over"));
            }
            (Some((known, ..)), _) => self.objects.push((*known, object)),
            (None, _) if kind.is_empty() => self.notes.push("a document without a kind is passed over".to_owned()),
            (None, _) => self.notes.push(format!("{kind} {name} of {version} is no autoscaler that can be migrated, so it is passed over")),
        }
        Ok(())
    }

    /// Takes the objects that name no namespace for those of this one, as `kubectl -n` does.
    ///
    /// # Errors
    ///
    /// One names another.
    pub fn place_in(&mut self, namespace: &str) -> Result<(), Invalid> {
        for (_, object) in &mut self.objects {
            let kind = object["kind"].as_str().unwrap_or_default().to_owned();
            let Some(metadata) = object["metadata"].as_object_mut().filter(|_| kind != "ClusterTriggerAuthentication") else { continue };
            let named = metadata.get("namespace").and_then(Value::as_str).filter(|named| !named.is_empty());
            if let Some(other) = named.filter(|named| *named != namespace) {
                let name = metadata.get("name").and_then(Value::as_str).unwrap_or_default();
                let message = format!("is {other}, and -n is {namespace}; leave -n out, or correct one of them");
                return Err(Invalid { field: format!("{kind} {name}: metadata.namespace"), message });
            }
            metadata.insert("namespace".to_owned(), namespace.into());
        }
        Ok(())
    }
}

/// Whether name and namespace are such: they stand in commands and comments as they are.
fn check_names(object: &Value) -> Result<(), Invalid> {
    let given = |field: &str| match &object["metadata"][field] {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    let invalid = |field: &str, message| placed(object, Invalid { field: format!("metadata.{field}"), message });
    given("name").map(|name| dns::subdomain(&name)).transpose().map_err(|why| invalid("name", why))?;
    given("namespace").map(|namespace| dns::label_or_empty(&namespace)).transpose().map_err(|why| invalid("namespace", why))?;
    Ok(())
}

/// The autoscaler that made an HPA.
fn generator(object: &Value) -> Option<String> {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array)?;
    let makes = |owner: &&Value| matches!(owner["kind"].as_str(), Some("ScaledObject" | "PodAutoscaler" | "LLMScaler"));
    owners
        .iter()
        .find(makes)
        .map(|owner| format!("{} {}", owner["kind"].as_str().unwrap_or_default(), owner["name"].as_str().unwrap_or_default()))
}

/// The objects in files, `-` being standard input.
pub fn files(files: &[PathBuf]) -> Result<Input, Failure> {
    let mut input = Input::default();
    for file in files {
        let named = if is_stdin(file) { "standard input".to_owned() } else { file.display().to_string() };
        let bytes = read(file).map_err(|cause| Failure::Unreadable { file: named.clone(), cause })?;
        let documents = text(bytes).and_then(|text| yaml_documents(&text));
        let added = documents.and_then(|all| all.into_iter().filter(|document| !document.is_null()).try_for_each(|one| input.add(one)));
        added.map_err(|invalid| Failure::Invalid { file: named, invalid })?;
    }
    Ok(input)
}

fn is_stdin(file: &Path) -> bool {
    file == Path::new("-")
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    if is_stdin(file) {
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        std::fs::read(file)
    }
}

/// The objects of a cluster. A kind that it does not have is noted.
pub async fn cluster(cluster: &Cluster) -> Result<Input, Failure> {
    let mut input = Input::default();
    let lists = KINDS.iter().map(|(_, group, versions, kind, plural)| {
        let version = versions.first().copied().unwrap_or_default();
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        async move {
            let api: Api<DynamicObject> = match &cluster.namespace {
                Some(namespace) if *kind != "ClusterTriggerAuthentication" => {
                    Api::namespaced_with(cluster.client.clone(), namespace, &resource)
                }
                _ => Api::all_with(cluster.client.clone(), &resource),
            };
            (format!("{group}/{version}"), *kind, within(api.list(&ListParams::default())).await)
        }
    });
    for (version, kind, list) in join_all(lists).await {
        match list {
            Ok(list) => {
                for object in list.items {
                    let mut object = serde_json::to_value(object).map_err(|error| Failure::Cluster(error.to_string()))?;
                    // The items of a list need not say what they are.
                    object["apiVersion"] = version.clone().into();
                    object["kind"] = kind.into();
                    input.add(object).map_err(|invalid| Failure::Invalid { file: "the cluster".to_owned(), invalid })?;
                }
            }
            Err(error) if error.is_absent() => input.notes.push(format!("the cluster has no kind {kind} of {version}")),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(input)
}

/// That nothing in files can be migrated.
pub fn nothing() -> Invalid {
    let kinds: Vec<&str> = KINDS.iter().filter(|(kind, ..)| *kind != Kind::TriggerAuthentication).map(|(_, _, _, kind, _)| *kind).collect();
    Invalid { field: String::new(), message: format!("there is no autoscaler in it; write a {}", kinds.join(", a ")) }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
    use k8s_openapi::api::core::v1::Namespace;
    use kube::api::PostParams;
    use llmscaler_sandbox::Sandbox;
    use serde_json::json;

    use super::*;

    fn hpa(name: &str, owners: Value) -> HorizontalPodAutoscaler {
        let spec = json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}, "maxReplicas": 3});
        serde_json::from_value(json!({"metadata": {"name": name, "ownerReferences": owners}, "spec": spec})).unwrap()
    }

    #[tokio::test]
    async fn a_cluster_is_asked_for_every_kind_and_may_lack_some() {
        let client = Sandbox::new().unwrap().client();
        for name in ["serving", "other"] {
            let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
            Api::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
        }
        let owner = json!([{"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "chat", "uid": "u"}]);
        for (namespace, object) in
            [("serving", hpa("web", json!([]))), ("serving", hpa("keda-hpa-chat", owner)), ("other", hpa("b", json!([])))]
        {
            let api: Api<HorizontalPodAutoscaler> = Api::namespaced(client.clone(), namespace);
            api.create(&PostParams::default(), &object).await.unwrap();
        }
        let here = cluster(&Cluster { client: client.clone(), namespace: Some("serving".to_owned()) }).await.unwrap();
        let [(Kind::HorizontalPodAutoscaler, web)] = here.objects.as_slice() else { panic!("{here:?}") };
        assert_eq!(
            (&web["metadata"]["name"], &web["apiVersion"], &web["kind"]),
            (&json!("web"), &json!("autoscaling/v2"), &json!("HorizontalPodAutoscaler"))
        );
        assert!(here.notes.iter().any(|note| note.contains("keda-hpa-chat is made by ScaledObject chat")), "{:?}", here.notes);
        assert!(
            here.notes.iter().any(|note| note.contains("the cluster has no kind ScaledObject of keda.sh/v1alpha1")),
            "{:?}",
            here.notes
        );
        let everywhere = cluster(&Cluster { client, namespace: None }).await.unwrap();
        assert_eq!(everywhere.objects.len(), 2);
    }

    #[test]
    fn another_version_of_a_known_kind_is_told_how_to_get_the_right_one() {
        for (version, kind, command) in [
            ("autoscaling/v1", "HorizontalPodAutoscaler", "kubectl get hpa.v2.autoscaling web -n serving -o yaml"),
            ("keda.sh/v1", "ScaledObject", "kubectl get scaledobjects.v1alpha1.keda.sh web -n serving -o yaml"),
        ] {
            let mut input = Input::default();
            input.add(json!({"apiVersion": version, "kind": kind, "metadata": {"name": "web", "namespace": "serving"}})).unwrap();
            let [note] = input.notes.as_slice() else { panic!("{input:?}") };
            assert!(note.starts_with(&format!("{kind} web of {version} is passed over")) && note.contains(command), "{note}");
        }
    }

    #[test]
    fn names_that_no_object_can_have_are_refused_in_every_version_and_kind() {
        for (version, kind, metadata, said) in [
            ("keda.sh/v1alpha1", "ScaledObject", json!({"name": "x; rm -rf $HOME"}), r#"ScaledObject "x; rm -rf $HOME": metadata.name"#),
            ("keda.sh/v1alpha1", "TriggerAuthentication", json!({"name": "a b"}), r#"TriggerAuthentication "a b": metadata.name"#),
            ("autoscaling/v1", "HorizontalPodAutoscaler", json!({"name": "a\nb"}), r#"HorizontalPodAutoscaler "a\nb": metadata.name"#),
            ("llmd.ai/v1alpha1", "VariantAutoscaling", json!({"name": "VLLM"}), r#"VariantAutoscaling "VLLM": metadata.name"#),
            ("llmd.ai/v1alpha1", "VariantAutoscaling", json!({"name": -1}), "VariantAutoscaling: metadata.name"),
            (
                "autoscaling/v2",
                "HorizontalPodAutoscaler",
                json!({"name": "a", "namespace": "b\n"}),
                "HorizontalPodAutoscaler a: metadata.namespace",
            ),
        ] {
            let item = json!({"apiVersion": version, "kind": kind, "metadata": metadata});
            let mut input = Input::default();
            let refusal = input.add(json!({"kind": "List", "items": [item]})).unwrap_err();
            assert_eq!((refusal.field.as_str(), refusal.message.contains("characters of a-z, 0-9")), (said, true), "{refusal}");
            assert!(input.objects.is_empty() && input.notes.is_empty(), "{input:?}");
        }
    }

    #[test]
    fn lists_are_opened_and_strangers_noted() {
        let mut input = Input::default();
        let scaled = json!({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "a"}});
        let job = json!({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledJob", "metadata": {"name": "b"}});
        let old = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "c"}});
        input.add(json!({"apiVersion": "v1", "kind": "List", "items": [scaled, {"kind": "ServiceList", "items": [job]}, old]})).unwrap();
        assert_eq!(input.objects.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [Kind::ScaledObject]);
        assert!(
            input.notes[0].starts_with("ScaledJob b of keda.sh/v1alpha1")
                && input.notes[1].starts_with("HorizontalPodAutoscaler c of autoscaling/v1"),
            "{:?}",
            input.notes
        );
    }
}
