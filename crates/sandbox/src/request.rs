//! What a request asks for.

use axum::http::{HeaderMap, Method, Uri, header};
use serde_json::Value;

use crate::refusal::Refusal;
use crate::resources::Resource;

/// The content type of server-side apply.
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

/// What is to be done with a resource; the words of RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// One object is read.
    Get,
    /// Many are read.
    List,
    /// Changes are waited for.
    Watch,
    /// An object is made.
    Create,
    /// An object is replaced.
    Update,
    /// An object is changed in part, or applied.
    Patch,
    /// An object is removed.
    Delete,
    /// Many are removed.
    DeleteCollection,
}

/// A part of an object with an address of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subresource {
    Status,
    Scale,
}

impl Subresource {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Scale => "scale",
        }
    }
}

/// A request, taken apart.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub method: Method,
    pub path: String,
    query: Vec<(String, String)>,
    pub accept: String,
    pub content_type: String,
    user_agent: String,
    pub body: Vec<u8>,
}

impl Request {
    pub(crate) fn new(method: Method, uri: &Uri, headers: &HeaderMap, body: Vec<u8>) -> Self {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
        let query = uri.query().unwrap_or_default();
        let content_type = text(header::CONTENT_TYPE);
        Self {
            method,
            path: uri.path().trim_end_matches('/').to_owned(),
            query: query.split('&').filter(|pair| !pair.is_empty()).map(decoded_pair).collect(),
            accept: text(header::ACCEPT),
            content_type: content_type.split(';').next().unwrap_or_default().trim().to_owned(),
            user_agent: text(header::USER_AGENT),
            body,
        }
    }

    /// A parameter of the query; `None` when it is absent or empty.
    pub(crate) fn param(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    pub(crate) fn set_param(&mut self, name: &str, value: String) {
        self.query.retain(|(key, _)| key != name);
        self.query.push((name.to_owned(), value));
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.param(name).is_some_and(|value| matches!(value, "true" | "1"))
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, Refusal> {
        self.param(name)
            .map(|value| value.parse().map_err(|_| Refusal::bad_request(format!("{name} is not a number: {value:?}"))))
            .transpose()
    }

    /// In whose name a change is made.
    pub(crate) fn field_manager(&self) -> String {
        self.param("fieldManager").unwrap_or(self.agent()).to_owned()
    }

    /// Who asks.
    pub(crate) fn agent(&self) -> &str {
        self.user_agent.split('/').next().filter(|agent| !agent.is_empty()).unwrap_or("unknown")
    }

    /// The body as JSON. Under the content type of YAML, kubectl and kube-rs send JSON, too.
    pub(crate) fn json(&self) -> Result<Value, Refusal> {
        if self.content_type.starts_with("application/vnd.kubernetes.protobuf") {
            return Err(Refusal::unsupported_media_type("application/json"));
        }
        serde_json::from_slice(&self.body).map_err(|error| Refusal::bad_request(format!("the body is not JSON: {error}")))
    }

    /// What is asked of which resource; `None` for a path that is none.
    pub(crate) fn ask(&self) -> Option<Result<Ask, Refusal>> {
        let mut steps = self.path.trim_start_matches('/').split('/');
        let (group, version) = match steps.next()? {
            "api" => ("", steps.next()?),
            "apis" => (steps.next()?, steps.next()?),
            _ => return None,
        };
        let steps: Vec<&str> = steps.collect();
        let (namespace, rest) = match steps.as_slice() {
            // `namespaces/NAME` itself, and its status, are about the namespace.
            ["namespaces", namespace, plural, rest @ ..] if !matches!(*plural, "status" | "finalize") => {
                (Some(*namespace), [&[*plural], rest].concat())
            }
            rest => (None, rest.to_vec()),
        };
        let (plural, name, subresource) = match rest.as_slice() {
            [plural] => (*plural, None, None),
            [plural, name] => (*plural, Some(*name), None),
            [plural, name, subresource] => (*plural, Some(*name), Some(*subresource)),
            _ => return None,
        };
        let resource = Resource::find(group, version, plural);
        Some(resource.ok_or_else(Refusal::no_such_path).and_then(|resource| {
            let subresource = match subresource {
                None => None,
                Some("status") if resource.status => Some(Subresource::Status),
                Some("scale") if resource.scale => Some(Subresource::Scale),
                Some(_) => return Err(Refusal::no_such_path()),
            };
            let verb = self.verb(name.is_some())?;
            let namespace = namespace.filter(|_| resource.namespaced).map(str::to_owned);
            let name = name.map(str::to_owned);
            Ok(Ask { verb, resource, namespace, name, subresource })
        }))
    }

    fn verb(&self, named: bool) -> Result<Verb, Refusal> {
        Ok(match (&self.method, named) {
            (&Method::GET, _) if self.flag("watch") => Verb::Watch,
            (&Method::GET, true) => Verb::Get,
            (&Method::GET, false) => Verb::List,
            (&Method::POST, false) => Verb::Create,
            (&Method::PUT, true) => Verb::Update,
            (&Method::PATCH, true) => Verb::Patch,
            (&Method::DELETE, true) => Verb::Delete,
            (&Method::DELETE, false) => Verb::DeleteCollection,
            _ => return Err(Refusal::method_not_allowed()),
        })
    }
}

/// What is asked of a resource.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub verb: Verb,
    pub resource: &'static Resource,
    /// `None` for all namespaces, and for resources without.
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub subresource: Option<Subresource>,
}

fn decoded_pair(pair: &str) -> (String, String) {
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    (decoded(key), decoded(value))
}

/// Undoes the percent-encoding of a form.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let hex = after.get(..2).and_then(|hex| u8::from_str_radix(str::from_utf8(hex).ok()?, 16).ok());
        match (byte, hex) {
            (b'%', Some(coded)) => {
                bytes.push(coded);
                rest = &after[2..];
            }
            (b'+', _) => bytes.push(b' '),
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: Method, uri: &str) -> Option<Result<Ask, Refusal>> {
        Request::new(method, &uri.parse().unwrap(), &HeaderMap::new(), vec![]).ask()
    }

    #[test]
    fn paths_say_what_is_asked() {
        let ask = asked(Method::PATCH, "/apis/apps/v1/namespaces/serving/deployments/vllm/scale?force=true").unwrap().unwrap();
        assert_eq!((ask.verb, ask.resource.plural.as_str(), ask.subresource), (Verb::Patch, "deployments", Some(Subresource::Scale)));
        assert_eq!((ask.namespace.as_deref(), ask.name.as_deref()), (Some("serving"), Some("vllm")));
        let ask = asked(Method::GET, "/api/v1/pods?watch=1&labelSelector=a%3Db").unwrap().unwrap();
        assert_eq!((ask.verb, ask.namespace, ask.name), (Verb::Watch, None, None));
        let ask = asked(Method::GET, "/api/v1/namespaces/serving").unwrap().unwrap();
        assert_eq!((ask.resource.plural.as_str(), ask.name.as_deref()), ("namespaces", Some("serving")));
        assert_eq!(asked(Method::GET, "/apis/apps/v1/daemonsets").unwrap().unwrap_err().code, 404);
        assert_eq!(asked(Method::POST, "/api/v1/namespaces/a/pods/b").unwrap().unwrap_err().code, 405);
        assert_eq!(asked(Method::GET, "/api/v1/namespaces/a/pods/b/exec").unwrap().unwrap_err().code, 404);
        assert!(asked(Method::GET, "/version").is_none());
    }

    #[test]
    fn parameters_are_decoded() {
        let uri = "/api/v1/pods?labelSelector=a+in+%28b%2Cc%29&limit=&watch=true".parse().unwrap();
        let request = Request::new(Method::GET, &uri, &HeaderMap::new(), vec![]);
        assert_eq!(request.param("labelSelector"), Some("a in (b,c)"));
        assert_eq!((request.param("limit"), request.flag("watch")), (None, true));
    }
}
