//! Who the API server's aggregator is, and on whose behalf it asks: the request headers of delegated authentication.
//!
//! The API server tells extension servers in the ConfigMap `kube-system/extension-apiserver-authentication` how to know it: by a client
//! certificate of an authority of its own, and then by headers that name the user whom it has authenticated itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::HeaderMap;
use k8s_openapi::api::authentication::v1::UserInfo;
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Namespace and name of the ConfigMap.
pub(super) const CONFIG_MAP: (&str, &str) = ("kube-system", "extension-apiserver-authentication");

/// How the aggregator is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Aggregator {
    authority: String,
    /// Common names of its certificate; none is any.
    allowed_names: Vec<String>,
    username: Vec<String>,
    uid: Vec<String>,
    group: Vec<String>,
    extra_prefixes: Vec<String>,
}

/// Why the aggregator cannot be known.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoAggregator {
    #[error("has no {0}; the API server runs without an aggregation layer, which takes its flags --requestheader-…")]
    Missing(&'static str),
    #[error("has a {key} that is not a JSON list of names: {why}")]
    NotAList { key: &'static str, why: String },
    #[error("has a requestheader-client-ca-file that cannot be used: {0}")]
    Authority(String),
}

impl Aggregator {
    pub(super) fn of(data: &BTreeMap<String, String>) -> Result<Self, NoAggregator> {
        let list = |key: &'static str| match data.get(key).map(String::as_str) {
            None | Some("") => Ok(vec![]),
            Some(text) => serde_json::from_str(text).map_err(|why| NoAggregator::NotAList { key, why: why.to_string() }),
        };
        let authority = data.get("requestheader-client-ca-file").filter(|pem| !pem.is_empty()).cloned();
        let username: Vec<String> = list("requestheader-username-headers")?;
        if username.is_empty() {
            return Err(NoAggregator::Missing("requestheader-username-headers"));
        }
        Ok(Self {
            authority: authority.ok_or(NoAggregator::Missing("requestheader-client-ca-file"))?,
            allowed_names: list("requestheader-allowed-names")?,
            username,
            uid: list("requestheader-uid-headers")?,
            group: list("requestheader-group-headers")?,
            extra_prefixes: list("requestheader-extra-headers-prefix")?,
        })
    }

    /// Verifies the certificates of clients. One without a certificate may connect, and be told why it gets nothing.
    pub(super) fn verifier(&self) -> Result<Arc<dyn ClientCertVerifier>, NoAggregator> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(self.authority.as_bytes()) {
            let certificate = certificate.map_err(|why| NoAggregator::Authority(why.to_string()))?;
            roots.add(certificate).map_err(|why| NoAggregator::Authority(why.to_string()))?;
        }
        WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::new(ring::default_provider()))
            .allow_unauthenticated()
            .build()
            .map_err(|why| NoAggregator::Authority(why.to_string()))
    }

    /// Whether two have the same authority, so that who was verified by one is by the other.
    pub(super) fn verifies_like(&self, other: &Self) -> bool {
        self.authority == other.authority
    }

    /// Whether a client with this verified certificate is the aggregator.
    pub(super) fn is(&self, certificate: &CertificateDer<'_>) -> bool {
        if self.allowed_names.is_empty() {
            return true;
        }
        let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return false };
        let mut names = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
        names.any(|name| self.allowed_names.iter().any(|allowed| allowed == name))
    }

    /// On whose behalf the aggregator asks; `None` when it does not say.
    pub(super) fn user(&self, headers: &HeaderMap) -> Option<UserInfo> {
        let first = |names: &[String]| {
            let mut values = names.iter().flat_map(|name| headers.get_all(name)).filter_map(|value| value.to_str().ok());
            values.find(|value| !value.is_empty()).map(ToOwned::to_owned)
        };
        let groups = self.group.iter().flat_map(|name| headers.get_all(name)).filter_map(|value| value.to_str().ok());
        let mut extra = BTreeMap::<String, Vec<String>>::new();
        for (name, value) in headers {
            let key = self.extra_prefixes.iter().find_map(|prefix| name.as_str().strip_prefix(&prefix.to_ascii_lowercase()));
            if let (Some(key), Ok(value)) = (key, value.to_str()) {
                extra.entry(percent_decoded(key)).or_default().push(value.to_owned());
            }
        }
        Some(UserInfo {
            username: Some(first(&self.username)?),
            uid: first(&self.uid),
            groups: Some(groups.map(ToOwned::to_owned).collect()),
            extra: Some(extra),
        })
    }
}

/// Keys of extra attributes are percent-encoded, as not every character may stand in the name of a header.
fn percent_decoded(text: &str) -> String {
    let mut bytes = text.as_bytes().iter();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(&byte) = bytes.next() {
        let rest = bytes.as_slice();
        let code = rest.get(..2).and_then(|code| std::str::from_utf8(code).ok()).and_then(|code| u8::from_str_radix(code, 16).ok());
        match code {
            Some(code) if byte == b'%' => {
                decoded.push(code);
                bytes.nth(1);
            }
            _ => decoded.push(byte),
        }
    }
    String::from_utf8(decoded).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn data(more: &[(&str, &str)]) -> BTreeMap<String, String> {
        let usual = [
            ("requestheader-client-ca-file", "pem"),
            ("requestheader-allowed-names", r#"["front-proxy-client"]"#),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#),
            ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
            ("requestheader-extra-headers-prefix", r#"["X-Remote-Extra-"]"#),
        ];
        usual.iter().chain(more).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn certificate(name: &str) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn the_aggregator_is_known_by_its_name_where_names_are_given() {
        let named = Aggregator::of(&data(&[])).unwrap();
        assert!(named.is(&certificate("front-proxy-client")) && !named.is(&certificate("somebody")));
        let any = Aggregator::of(&data(&[("requestheader-allowed-names", "[]")])).unwrap();
        assert!(any.is(&certificate("somebody")));
    }

    #[test]
    fn users_come_from_the_headers_that_the_api_server_names() {
        let aggregator = Aggregator::of(&data(&[("requestheader-uid-headers", r#"["X-Remote-Uid"]"#)])).unwrap();
        let headers = [
            ("x-remote-user", "hpa"),
            ("x-remote-group", "system:masters"),
            ("x-remote-group", "system:authenticated"),
            ("x-remote-extra-example.com%2fscope", "a"),
            ("x-remote-uid", "7"),
            ("authorization", "Bearer x"),
        ];
        let headers: HeaderMap = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        let user = aggregator.user(&headers).unwrap();
        assert_eq!((user.username.as_deref(), user.uid.as_deref()), (Some("hpa"), Some("7")));
        assert_eq!(user.groups.unwrap(), ["system:masters", "system:authenticated"]);
        assert_eq!(user.extra.unwrap(), BTreeMap::from([("example.com/scope".to_owned(), vec!["a".to_owned()])]));
        assert_eq!(aggregator.user(&HeaderMap::new()), None);
    }

    #[test]
    fn what_is_missing_is_named() {
        let why = |more: &[(&str, &str)]| Aggregator::of(&data(more)).unwrap_err().to_string();
        assert!(why(&[("requestheader-client-ca-file", "")]).contains("has no requestheader-client-ca-file"));
        assert!(why(&[("requestheader-username-headers", "[]")]).contains("has no requestheader-username-headers"));
        assert!(why(&[("requestheader-group-headers", "X-Remote-Group")]).contains("requestheader-group-headers that is not a JSON list"));
        let aggregator = Aggregator::of(&data(&[("requestheader-client-ca-file", "not pem")])).unwrap();
        assert!(matches!(aggregator.verifier(), Err(NoAggregator::Authority(_))));
    }
}
