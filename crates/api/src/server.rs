//! The server of `serverAddress`: the headers and the certificates that it is spoken to with.

use std::collections::BTreeMap;
use std::fmt;

use kube::KubeSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::invalid::{Invalid, not_blank};
use crate::rules;

/// A header whose value a Secret holds.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct HeaderSource {
    /// Name of the header, such as Authorization. It takes the place of one of the same name in serverHeaders.
    #[schemars(length(max = 256))]
    #[x_kube(validation = rules::HEADER_NAME)]
    pub name: String,

    /// What stands before the Secret's value, such as "Bearer " with its blank.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 256))]
    #[x_kube(validation = rules::HEADER_PREFIX)]
    pub prefix: String,

    /// Where the value is. Line breaks at its end are not sent.
    pub secret_key_ref: KeyReference,
}

/// One key of a Secret or ConfigMap in the namespace of this scaler.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(rename_all = "camelCase")]
pub struct KeyReference {
    /// Name of the object.
    #[schemars(length(max = 253))]
    #[x_kube(validation = rules::OBJECT_NAME)]
    pub name: String,

    /// The key of its data.
    #[schemars(length(max = 253))]
    #[x_kube(validation = rules::OBJECT_KEY)]
    pub key: String,
}

/// How the server proves who it is, and how the operator does.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ServerTls {
    /// The authorities to trust, instead of those of the system: PEM certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_from: Option<CaSource>,

    /// A Secret with tls.crt and tls.key to appear with, where the server asks for a certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[x_kube(validation = rules::OBJECT_NAME)]
    pub client_certificate_secret_name: Option<String>,

    /// The name that the server's certificate must have, where that is not the host of the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[x_kube(validation = rules::SERVER_NAME)]
    pub server_name: Option<String>,

    /// Accept any certificate. Whoever is on the path can then read the headers and forge the answers.
    #[serde(default)]
    pub insecure_skip_verify: bool,
}

/// Where the authorities to trust are.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rules::CA_SOURCE)]
pub struct CaSource {
    /// A key of a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<KeyReference>,

    /// A key of a ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_key_ref: Option<KeyReference>,
}

/// A server, and how it is spoken to. Its `Debug` form has neither header values nor the user-info of the address.
#[derive(Clone, PartialEq, Eq)]
pub struct Server {
    /// Its base URL.
    pub address: Url,
    /// What goes with each request.
    pub access: Access,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut address = self.address.clone();
        // Both succeed on a URL that has a host.
        let _ = address.set_username("");
        let _ = address.set_password(None);
        f.debug_struct("Server").field("address", &address.as_str()).field("access", &self.access).finish()
    }
}

/// What goes with each request to a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Headers as the resource has them, without those that [`Access::secret_headers`] replaces.
    pub headers: Headers,
    /// Headers whose values are in Secrets, no two of the same name.
    pub secret_headers: Vec<SecretHeader>,
    /// Certificates.
    pub tls: Tls,
}

/// HTTP headers by name. The `Debug` form has their names only.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(BTreeMap<String, String>);

impl Headers {
    /// Names and values.
    #[must_use]
    pub fn expose(&self) -> &BTreeMap<String, String> {
        &self.0
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A header whose value a Secret holds.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretHeader {
    /// Name of the header.
    pub name: String,
    /// What stands before the Secret's value.
    pub prefix: String,
    /// Where the value is, in the scaler's namespace.
    pub secret: KeyReference,
}

impl fmt::Debug for SecretHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nothing keeps a prefix from being half of a token.
        f.debug_struct("SecretHeader").field("name", &self.name).field("secret", &self.secret).finish_non_exhaustive()
    }
}

/// Certificates of a connection; the default trusts what the system does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Where the authorities are that are trusted instead of the system's.
    pub ca: Option<CaReference>,
    /// The Secret with `tls.crt` and `tls.key` to appear with, in the scaler's namespace.
    pub client_certificate_secret: Option<String>,
    /// The name that the server's certificate must have; without it, the host of the address.
    pub server_name: Option<String>,
    /// Whether any certificate is trusted.
    pub insecure_skip_verify: bool,
}

/// Where authorities are, in the scaler's namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaReference {
    /// In a Secret.
    Secret(KeyReference),
    /// In a `ConfigMap`.
    ConfigMap(KeyReference),
}

pub(crate) fn access(headers: &BTreeMap<String, String>, from: &[HeaderSource], tls: Option<&ServerTls>) -> Result<Access, Invalid> {
    let mut headers = plain_headers(headers)?;
    let secret_headers = secret_headers(from)?;
    headers.retain(|name, _| !secret_headers.iter().any(|secret| secret.name.eq_ignore_ascii_case(name)));
    Ok(Access { headers: Headers(headers), secret_headers, tls: tls.map(ServerTls::parse).transpose()?.unwrap_or_default() })
}

pub(crate) fn plain_headers(given: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Invalid> {
    for (name, value) in given {
        let field = format!("spec.serverHeaders.{name}");
        if !is_token(name) {
            return Err(Invalid::new(field, rules::HEADER_NAMES.message));
        }
        if has_controls(value) {
            return Err(Invalid::new(field, rules::HEADER_VALUES.message));
        }
    }
    Ok(given.clone())
}

fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

fn has_controls(value: &str) -> bool {
    value.contains(|c: char| c.is_ascii_control() && c != '\t')
}

fn secret_headers(given: &[HeaderSource]) -> Result<Vec<SecretHeader>, Invalid> {
    let mut headers: Vec<SecretHeader> = Vec::with_capacity(given.len());
    for (index, header) in given.iter().enumerate() {
        let field = |name: &str| format!("spec.serverHeadersFrom[{index}].{name}");
        if !is_token(&header.name) {
            return Err(Invalid::new(field("name"), rules::HEADER_NAME.message));
        }
        if headers.iter().any(|other| other.name.eq_ignore_ascii_case(&header.name)) {
            return Err(Invalid::new("spec.serverHeadersFrom", rules::HEADERS_ONCE.message));
        }
        if has_controls(&header.prefix) {
            return Err(Invalid::new(field("prefix"), rules::HEADER_PREFIX.message));
        }
        let secret = header.secret_key_ref.parse(&field("secretKeyRef"))?;
        headers.push(SecretHeader { name: header.name.clone(), prefix: header.prefix.clone(), secret });
    }
    Ok(headers)
}

impl KeyReference {
    fn parse(&self, field: &str) -> Result<Self, Invalid> {
        not_blank(format!("{field}.name"), &self.name, rules::OBJECT_NAME.message)?;
        not_blank(format!("{field}.key"), &self.key, rules::OBJECT_KEY.message)?;
        Ok(self.clone())
    }
}

impl ServerTls {
    fn parse(&self) -> Result<Tls, Invalid> {
        let field = |name: &str| format!("spec.serverTLS.{name}");
        let present = |name: &str, value: &Option<String>, rule: rules::Rule| {
            value.as_ref().map(|value| not_blank(field(name), value, rule.message)).transpose()
        };
        Ok(Tls {
            ca: self.ca_from.as_ref().map(CaSource::parse).transpose()?,
            client_certificate_secret: present("clientCertificateSecretName", &self.client_certificate_secret_name, rules::OBJECT_NAME)?,
            server_name: present("serverName", &self.server_name, rules::SERVER_NAME)?,
            insecure_skip_verify: self.insecure_skip_verify,
        })
    }
}

impl CaSource {
    fn parse(&self) -> Result<CaReference, Invalid> {
        const FIELD: &str = "spec.serverTLS.caFrom";
        match (&self.secret_key_ref, &self.config_map_key_ref) {
            (Some(key), None) => key.parse(&format!("{FIELD}.secretKeyRef")).map(CaReference::Secret),
            (None, Some(key)) => key.parse(&format!("{FIELD}.configMapKeyRef")).map(CaReference::ConfigMap),
            _ => Err(Invalid::new(FIELD, rules::CA_SOURCE.message)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parsed(headers: Value, from: Value, tls: Value) -> Result<Access, Invalid> {
        let headers = serde_json::from_value(headers).unwrap();
        let from: Vec<HeaderSource> = serde_json::from_value(from).unwrap();
        access(&headers, &from, Some(&serde_json::from_value(tls).unwrap()))
    }

    fn token() -> Value {
        json!({"name": "Authorization", "prefix": "Bearer ", "secretKeyRef": {"name": "prom", "key": "token"}})
    }

    #[test]
    fn a_header_from_a_secret_takes_the_place_of_a_plain_one() {
        let access = parsed(json!({"authorization": "Bearer old", "X-Scope-OrgID": "a"}), json!([token()]), json!({})).unwrap();
        assert_eq!(access.headers.expose().keys().collect::<Vec<_>>(), ["X-Scope-OrgID"]);
        assert_eq!(access.secret_headers[0].secret, KeyReference { name: "prom".into(), key: "token".into() });
    }

    #[test]
    fn no_two_headers_share_a_name() {
        let mut other = token();
        other["name"] = json!("AUTHORIZATION");
        assert_eq!(parsed(json!({}), json!([token(), other]), json!({})).unwrap_err().field, "spec.serverHeadersFrom");
    }

    #[test]
    fn nothing_secret_is_printed() {
        let access = parsed(json!({"X-Token": "s3cret"}), json!([token()]), json!({})).unwrap();
        let server = Server { address: Url::parse("https://user:s3cret@prometheus/p").unwrap(), access };
        let printed = format!("{server:?} {server:#?}");
        assert!(printed.contains("https://prometheus/p") && printed.contains("X-Token") && printed.contains("prom"), "{printed}");
        assert!(!printed.contains("s3cret") && !printed.contains("Bearer") && !printed.contains("user"), "{printed}");
    }

    #[test]
    fn certificates() {
        let key = KeyReference { name: "ca".into(), key: "ca.crt".into() };
        let tls = |tls: Value| parsed(json!({}), json!([]), tls).map(|access| access.tls);
        assert_eq!(tls(json!({})), Ok(Tls::default()));
        assert_eq!(tls(json!({"caFrom": {"configMapKeyRef": key}})).unwrap().ca, Some(CaReference::ConfigMap(key.clone())));
        assert_eq!(tls(json!({"caFrom": {"secretKeyRef": key}})).unwrap().ca, Some(CaReference::Secret(key.clone())));
        for source in [json!({}), json!({"secretKeyRef": key, "configMapKeyRef": key})] {
            assert_eq!(tls(json!({"caFrom": source})).unwrap_err().field, "spec.serverTLS.caFrom");
        }
        let all = tls(json!({"clientCertificateSecretName": "me", "serverName": "prometheus", "insecureSkipVerify": true})).unwrap();
        let expected = Tls {
            client_certificate_secret: Some("me".into()),
            server_name: Some("prometheus".into()),
            insecure_skip_verify: true,
            ..Tls::default()
        };
        assert_eq!(all, expected);
    }
}
