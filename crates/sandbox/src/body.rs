//! What a client sends has to be an object, with metadata of the types that all kinds have in common.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize as _;
use serde_json::Value;

use crate::refusal::Refusal;
use crate::request::{APPLY, Ask, Request, Subresource, Verb};

/// So many bytes of a body are shown of one that is no object.
const SHOWN: usize = 30;

/// Refuses what is to become an object and cannot, in the words of the API server. `object` is the body, or what a patch made of the
/// object that was there.
pub(crate) fn fits(ask: &Ask, request: &Request, object: &Value) -> Result<(), Refusal> {
    let patches = ask.verb == Verb::Patch && request.content_type != APPLY;
    if !object.is_object() {
        let why = not_into(
            object,
            "struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }",
        );
        let why = format!("couldn't get version/kind; json parse error: {why}");
        return Err(match (patches, object) {
            (true, Value::Array(_)) => Refusal::unfit_result(object, &why),
            (true, _) => Refusal::unfit_patch(),
            (false, _) if request.content_type == APPLY => Refusal::bad_request(format!(
                "error decoding YAML: error unmarshaling JSON: while decoding JSON: {}",
                not_into(object, MAP)
            )),
            (false, _) => {
                let kind = kind(ask);
                let body = hexadecimal(&request.body);
                Refusal::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {why} ({body})"))
            }
        });
    }
    let Some(misfit) = misfit(ask, object) else {
        // What else is wrong with metadata is refused as well, though not in the server's words.
        let metadata = Option::<ObjectMeta>::deserialize(&object["metadata"]);
        return metadata
            .map(drop)
            .map_err(|error| refusal(ask, request, object, &format!("json: {error}"), &format!(".metadata: {error}")));
    };
    let Misfit { path, value, of, kind } = misfit;
    let (value, wanted) = (type_of(value), if kind == "string" { "string" } else { "map" });
    let place = if of.is_empty() { "Go value".to_owned() } else { format!("Go struct field {of}") };
    let why = format!("json: cannot unmarshal {value} into {place} of type {kind}");
    Err(refusal(ask, request, object, &why, &format!(".{path}: expected {wanted}, got {value}")))
}

/// Of an object that has a value of a wrong type: `read` says so as one who reads it, `applied` as one who applies it.
fn refusal(ask: &Ask, request: &Request, object: &Value, read: &str, applied: &str) -> Refusal {
    let (api_version, kind) = (version(ask), kind(ask));
    match ask.verb {
        Verb::Patch if request.content_type == APPLY => Refusal::mistyped(&api_version, kind, applied),
        Verb::Patch => Refusal::unfit_result(object, read),
        _ => Refusal::unlike(kind, api_version.rsplit('/').next().unwrap_or_default(), read),
    }
}

/// Refuses a merge that is one of no object: `before` stands before what is wrong.
pub(crate) fn merges(patch: &Value, before: &str) -> Result<(), Refusal> {
    if patch.is_object() { Ok(()) } else { Err(Refusal::bad_request(format!("{before}{}", not_into(patch, MAP)))) }
}

/// What the API server reads any object into.
const MAP: &str = "map[string]interface {}";

/// A value that does not fit where it is.
struct Misfit<'a> {
    path: String,
    value: &'a Value,
    /// The field as the server calls it where it reads a body; empty for an object of its own.
    of: String,
    /// The type of the field, in the server's language.
    kind: &'static str,
}

/// What is wrong with the types of the metadata, and of the spec of a scale.
fn misfit<'a>(ask: &Ask, object: &'a Value) -> Option<Misfit<'a>> {
    if let Some(value) = unlike_object(object, "spec").filter(|_| ask.subresource == Some(Subresource::Scale)) {
        return Some(Misfit { path: "spec".into(), value, of: "Scale.spec".into(), kind: "v1.ScaleSpec" });
    }
    // The metadata of custom resources are read by themselves.
    let custom = ask.resource.custom;
    if let Some(value) = unlike_object(object, "metadata") {
        let of = if custom { String::new() } else { format!("{}.metadata", kind(ask)) };
        return Some(Misfit { path: "metadata".into(), value, of, kind: "v1.ObjectMeta" });
    }
    let metadata = object.get("metadata")?;
    ["labels", "annotations"].into_iter().find_map(|map| {
        let of = if custom { format!("ObjectMeta.{map}") } else { format!("ObjectMeta.metadata.{map}") };
        if let Some(value) = unlike_object(metadata, map) {
            return Some(Misfit { path: format!("metadata.{map}"), value, of, kind: "map[string]string" });
        }
        let (key, value) = metadata[map].as_object()?.iter().find(|(_, value)| !value.is_string())?;
        Some(Misfit { path: format!("metadata.{map}.{key}"), value, of, kind: "string" })
    })
}

/// The member, if it is there and no object.
fn unlike_object<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    value.get(name).filter(|member| !member.is_object() && !member.is_null())
}

/// What the address takes.
fn kind(ask: &Ask) -> &str {
    if ask.subresource == Some(Subresource::Scale) { "Scale" } else { &ask.resource.kind }
}

fn version(ask: &Ask) -> String {
    if ask.subresource == Some(Subresource::Scale) { "autoscaling/v1".to_owned() } else { ask.resource.api_version() }
}

fn not_into(value: &Value, kind: &str) -> String {
    format!("json: cannot unmarshal {} into Go value of type {kind}", type_of(value))
}

/// As the server calls it.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn hexadecimal(body: &[u8]) -> String {
    let shown: String = body.iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect();
    if body.len() > SHOWN { format!("{shown} ...") } else { shown }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue, Method, header};
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::api::{Answer, Api};

    /// The places of all members and elements.
    fn places(value: &Value, at: &str, found: &mut Vec<String>) {
        found.push(at.to_owned());
        match value {
            Value::Object(members) => members.iter().for_each(|(name, member)| places(member, &format!("{at}/{name}"), found)),
            Value::Array(elements) => elements.iter().enumerate().for_each(|(n, element)| places(element, &format!("{at}/{n}"), found)),
            _ => {}
        }
    }

    #[test]
    fn whatever_is_wrong_with_a_body_the_server_answers_and_keeps_an_object() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut api = Api::new(&llmscaler_api::definition().unwrap(), now);
        let mut ask = |method: Method, path: &str, content: &'static str, body: &Value| {
            let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(content))]);
            let request = Request::new(method, &path.parse().unwrap(), &headers, body.to_string().into_bytes());
            let Answer::Object(code, answer) = api.respond(&request, now) else { panic!("{path} answers no object") };
            (code, answer)
        };
        let metadata = json!({"name": "a", "labels": {"app": "a"}, "annotations": {"b": "c"}, "finalizers": ["x/y"],
            "managedFields": [{"manager": "m", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}}]});
        let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": "a"}}, "template": template});
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"});
        let metrics = json!([{"name": "q", "query": "q", "target": "5"}]);
        let scaler = json!({"targetRef": target, "serverAddress": "http://p:1", "minReplicas": 1, "maxReplicas": 2, "metrics": metrics});
        let scalers = "/apis/autoscaling.modelsphere.dev/v1alpha1/namespaces/default/llmscalers";
        for (list, spec) in [("/apis/apps/v1/namespaces/default/deployments", spec), (scalers, scaler)] {
            let whole = json!({"metadata": metadata, "spec": spec, "status": {"conditions": [{"type": "A", "status": "True"}]}});
            let (made, answer) = ask(Method::POST, list, "application/json", &whole);
            assert_eq!(made, 201, "{answer}");
            let mut all = vec![];
            places(&whole, "", &mut all);
            for (place, wrong) in
                all.iter().flat_map(|place| [json!(null), json!([]), json!([5]), json!("x"), json!(-1)].map(|to| (place, to)))
            {
                let mut body = whole.clone();
                *body.pointer_mut(place).unwrap() = wrong.clone();
                let patch = json!([{"op": "replace", "path": place, "value": wrong}]);
                for part in ["", "/status", "/scale"] {
                    let path = format!("{list}/a{part}");
                    ask(Method::PUT, &path, "application/json", &body);
                    ask(Method::PATCH, &path, "application/json-patch+json", &patch);
                    for content in ["application/merge-patch+json", "application/strategic-merge-patch+json"] {
                        ask(Method::PATCH, &path, content, &body);
                    }
                    ask(Method::PATCH, &format!("{path}?fieldManager=m&force=true"), APPLY, &body);
                    let (code, kept) = ask(Method::GET, &format!("{list}/a"), "", &Value::Null);
                    let whole = code == 200 && kept["metadata"]["name"] == "a" && kept["spec"].is_object();
                    assert!(whole, "{wrong} at {place:?} of {path}: {kept}");
                }
            }
        }
    }
}
