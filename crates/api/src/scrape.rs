//! `spec.scrape`: where the pods' own metrics are, for `metricProvider: Scrape`.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::invalid::{Invalid, not_blank};
use crate::rules;

const FIELD: &str = "spec.scrape";

/// Where the pods' own metrics are.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ScrapeSettings {
    /// The port of each pod that serves its metrics: a number, or the name of a container port.
    #[serde(default = "default_port")]
    #[x_kube(validation = rules::PORT)]
    pub port: IntOrString,

    /// Path of the metrics.
    #[serde(default = "default_path")]
    #[schemars(length(max = 2048))]
    #[x_kube(validation = rules::SCRAPE_PATH)]
    pub path: String,

    /// How the pods are spoken to.
    #[serde(default)]
    pub scheme: Scheme,

    /// The endpoint picker in front of the pods, which is read as well: it knows of requests that wait while no pod is ready. Required
    /// with preset llm-d-EPP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epp_service: Option<EppService>,
}

/// The Service of an endpoint picker.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct EppService {
    /// Its name, in the namespace of this scaler.
    #[schemars(length(max = 253))]
    #[x_kube(validation = rules::EPP_NAME)]
    pub name: String,

    /// The port of its metrics.
    #[serde(default = "default_epp_port")]
    #[x_kube(validation = rules::EPP_PORT)]
    pub port: i32,

    /// How it is spoken to.
    #[serde(default)]
    pub scheme: Scheme,
}

/// How a page is fetched.
#[derive(Serialize, Deserialize, schemars::JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// Without TLS.
    #[default]
    Http,
    /// With TLS, under spec.serverTLS.
    Https,
}

fn default_port() -> IntOrString {
    IntOrString::Int(8000)
}

fn default_path() -> String {
    "/metrics".into()
}

fn default_epp_port() -> i32 {
    9090
}

impl Default for ScrapeSettings {
    fn default() -> Self {
        Self { port: default_port(), path: default_path(), scheme: Scheme::default(), epp_service: None }
    }
}

/// Where the pages of a target are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scrape {
    /// The port of each pod.
    pub port: Port,
    /// Path of the page, of the pods' and of the router's.
    pub path: String,
    /// How the pods are spoken to.
    pub scheme: Scheme,
    /// The router in front of the pods.
    pub router: Option<Router>,
}

/// A port of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Port {
    /// By its number, 1 to 65535.
    Number(u16),
    /// By the name that a container gives it.
    Named(String),
}

/// An endpoint picker, by its Service in the scaler's namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Router {
    /// Name of the Service.
    pub service: String,
    /// Port of its metrics.
    pub port: u16,
    /// How it is spoken to.
    pub scheme: Scheme,
}

impl ScrapeSettings {
    pub(crate) fn parse(&self) -> Result<Scrape, Invalid> {
        if !self.path.starts_with('/') || self.path.contains(['?', '#']) || self.path.contains(char::is_whitespace) {
            return Err(Invalid::new(format!("{FIELD}.path"), rules::SCRAPE_PATH.message));
        }
        Ok(Scrape {
            port: port(&self.port).ok_or_else(|| Invalid::new(format!("{FIELD}.port"), rules::PORT.message))?,
            path: self.path.clone(),
            scheme: self.scheme,
            router: self.epp_service.as_ref().map(router).transpose()?,
        })
    }
}

/// Digits in quotes are a number too: a name needs a letter.
pub(crate) fn port(given: &IntOrString) -> Option<Port> {
    match given {
        IntOrString::Int(number) => number_of(*number).map(Port::Number),
        IntOrString::String(text) if !text.is_empty() && text.len() <= 5 && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            text.parse().ok().and_then(number_of).map(Port::Number)
        }
        IntOrString::String(name) => {
            let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            let well_formed = (1..=15).contains(&name.len())
                && name.bytes().all(allowed)
                && name.bytes().any(|byte| byte.is_ascii_lowercase())
                && !name.starts_with('-')
                && !name.ends_with('-')
                && !name.contains("--");
            well_formed.then(|| Port::Named(name.clone()))
        }
    }
}

fn number_of(number: i32) -> Option<u16> {
    u16::try_from(number).ok().filter(|port| *port > 0)
}

fn router(given: &EppService) -> Result<Router, Invalid> {
    let invalid = || Invalid::new(format!("{FIELD}.eppService.port"), rules::EPP_PORT.message);
    Ok(Router {
        service: not_blank(format!("{FIELD}.eppService.name"), &given.name, rules::EPP_NAME.message)?,
        port: number_of(given.port).ok_or_else(invalid)?,
        scheme: given.scheme,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_left_out_has_the_documented_defaults() {
        let empty: ScrapeSettings = serde_json::from_value(json!({})).unwrap();
        assert_eq!(empty, ScrapeSettings::default());
        let scrape = empty.parse().unwrap();
        assert_eq!(scrape, Scrape { port: Port::Number(8000), path: "/metrics".into(), scheme: Scheme::Http, router: None });
        let with_router: ScrapeSettings = serde_json::from_value(json!({"eppService": {"name": "pool-a-epp"}})).unwrap();
        let router = with_router.parse().unwrap().router;
        assert_eq!(router, Some(Router { service: "pool-a-epp".into(), port: 9090, scheme: Scheme::Http }));
    }

    #[test]
    fn ports_are_numbers_or_names() {
        let text = |text: &str| port(&IntOrString::String(text.into()));
        assert_eq!(port(&IntOrString::Int(8000)), Some(Port::Number(8000)));
        assert_eq!(text("8000"), Some(Port::Number(8000)));
        for name in ["http", "modelserver", "a", "http-metrics-2"] {
            assert_eq!(text(name), Some(Port::Named(name.into())), "{name}");
        }
        for bad in ["", "0", "65536", "100000", "http_metrics", "HTTP", "-http", "http-", "a--b", "0123456789abcdef", "1-2"] {
            assert_eq!(text(bad), None, "{bad:?}");
        }
        for bad in [0, -1, 65_536] {
            assert_eq!(port(&IntOrString::Int(bad)), None, "{bad}");
        }
    }
}
