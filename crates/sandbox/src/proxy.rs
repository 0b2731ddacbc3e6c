//! Pages of pods and Services, read through the API: `GET …/pods/NAME:PORT/proxy/metrics`.
//!
//! What this process serves on loopback is known by its port and read without a connection. So nothing else on this machine can be
//! reached in this way, whatever address or port somebody gives a pod.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Body;
use axum::http::{HeaderValue, Method, Response, StatusCode, header};
use serde_json::Value;

use crate::api::{Answer, Api};
use crate::object::{self, text};
use crate::refusal::Refusal;
use crate::request::Request;
use crate::resources::Resource;
use crate::sandbox::Sandbox;
use crate::store::Key;

/// The form of the pages.
pub(crate) const FORM: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What is said while there is no page.
pub(crate) const NO_PAGE: &str = "no metrics at this moment\n";

/// A page as it is now; `None` while there is none.
pub(crate) type Page = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// The pages that are served on loopback, by their ports.
#[derive(Clone, Default)]
pub(crate) struct Pages(Arc<Mutex<BTreeMap<u16, Page>>>);

impl Pages {
    /// Lets a page be read for as long as the answer lives.
    pub(crate) fn add(&self, port: u16, page: Page) -> Known {
        self.lock().insert(port, page.clone());
        Known { pages: self.clone(), port, page }
    }

    fn at(&self, port: u16) -> Option<Page> {
        self.lock().get(&port).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u16, Page>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A page that can be read.
pub(crate) struct Known {
    pages: Pages,
    port: u16,
    page: Page,
}

impl Drop for Known {
    fn drop(&mut self) {
        let mut pages = self.pages.lock();
        // The port may have been given to another one meanwhile.
        if pages.get(&self.port).is_some_and(|page| Arc::ptr_eq(page, &self.page)) {
            pages.remove(&self.port);
        }
    }
}

/// What is to be read of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Proxied<'a> {
    namespace: &'a str,
    /// `pods` or `services`.
    plural: &'a str,
    name: &'a str,
    /// Its number, or its name; empty for the only one.
    port: &'a str,
    /// What follows `proxy/`.
    path: &'a str,
}

impl<'a> Proxied<'a> {
    /// What a path asks for; `None` for one without a proxy.
    pub(crate) fn of(path: &'a str) -> Option<Self> {
        let (namespace, rest) = path.strip_prefix("/api/v1/namespaces/")?.split_once('/')?;
        let (plural, rest) = rest.split_once('/').filter(|(plural, _)| matches!(*plural, "pods" | "services"))?;
        let (place, rest) = rest.split_once('/')?;
        let path = rest.strip_prefix("proxy").filter(|path| path.is_empty() || path.starts_with('/'))?;
        let parts: Vec<&str> = place.split(':').collect();
        let (name, port) = match parts[..] {
            [name] => (name, ""),
            [name, port] | [_, name, port] => (name, port),
            _ => return None,
        };
        Some(Self { namespace, plural, name, port, path: path.trim_start_matches('/') })
    }

    /// The port of loopback that is meant.
    fn port(&self, api: &Api) -> Result<u16, Refusal> {
        let (kind, place, list, number) = match self.plural {
            "pods" => ("Pod", "/status/podIP", "/spec/containers/0/ports", "containerPort"),
            _ => ("Service", "/spec/externalName", "/spec/ports", "port"),
        };
        let resource = Resource::of_kind(kind).ok_or_else(Refusal::no_such_path)?;
        let found = api.store.get(&Key::new(resource, self.namespace, self.name));
        let found = found.ok_or_else(|| Refusal::not_found(resource, self.name))?;
        let unreachable = || Refusal::unavailable(&format!("nothing is served at {kind} {:?}, port {:?}", self.name, self.port));
        if text(found, place) != IpAddr::V4(Ipv4Addr::LOCALHOST).to_string() {
            return Err(unreachable());
        }
        let named = |port: &&Value| {
            self.port.is_empty() || text(port, "/name") == self.port || self.port.parse().is_ok_and(|asked: u64| port[number] == asked)
        };
        let port = object::list(found, list).iter().find(named).and_then(|port| u16::try_from(port[number].as_u64()?).ok());
        port.ok_or_else(unreachable)
    }
}

impl Sandbox {
    /// Answers with the page itself.
    pub(crate) fn proxied(&self, asked: Proxied<'_>, request: &Request) -> Response<Body> {
        let page = match request.method {
            Method::GET => self.with(|api, _| asked.port(api)).and_then(|port| {
                let nothing = || Refusal::unavailable(&format!("error trying to reach service: nothing is served at 127.0.0.1:{port}"));
                self.pages().at(port).ok_or_else(nothing)
            }),
            _ => Err(Refusal::method_not_allowed()),
        };
        let (code, form, text) = match page {
            Err(refusal) => return self.answer_with(Answer::from(refusal), request),
            Ok(_) if asked.path != "metrics" => (StatusCode::NOT_FOUND, "text/plain", String::new()),
            Ok(page) => match page() {
                Some(text) => (StatusCode::OK, FORM, text),
                None => (StatusCode::SERVICE_UNAVAILABLE, "text/plain", NO_PAGE.to_owned()),
            },
        };
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = code;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(form));
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_says_whose_page_is_meant() {
        fn of(path: &str) -> Option<(&str, &str, &str, &str)> {
            Proxied::of(path).map(|asked| (asked.plural, asked.name, asked.port, asked.path))
        }
        let pods = "/api/v1/namespaces/demo/pods";
        assert_eq!(of(&format!("{pods}/a:8000/proxy/metrics")), Some(("pods", "a", "8000", "metrics")));
        assert_eq!(of(&format!("{pods}/http:a:8000/proxy/metrics")), Some(("pods", "a", "8000", "metrics")));
        assert_eq!(of(&format!("{pods}/a/proxy")), Some(("pods", "a", "", "")));
        assert_eq!(of("/api/v1/namespaces/demo/services/epp:metrics/proxy/a/b"), Some(("services", "epp", "metrics", "a/b")));
        for other in [format!("{pods}/a"), format!("{pods}/a/status"), format!("{pods}/a/proxying"), "/api/v1/namespaces/proxy".to_owned()]
        {
            assert_eq!(of(&other), None, "{other}");
        }
        assert_eq!(of("/api/v1/namespaces/demo/secrets/a/proxy/metrics"), None);
    }

    #[test]
    fn a_page_is_known_until_its_own_server_ends() {
        let pages = Pages::default();
        let page = |words: &'static str| -> Page { Arc::new(move || Some(words.to_owned())) };
        let first = pages.add(1, page("first"));
        let second = pages.add(1, page("second"));
        drop(first);
        assert_eq!(pages.at(1).and_then(|page| page()), Some("second".to_owned()));
        drop(second);
        assert!(pages.at(1).is_none());
    }
}
