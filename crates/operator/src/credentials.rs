//! The headers and certificates of a scaler, as its Secrets and ConfigMaps have them now.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use llmscaler_api::{Access, CaReference, KeyReference};
use llmscaler_signals::transport::{ClientCertificate, TlsError};
use llmscaler_signals::{TlsSettings, Transport};

use crate::cached::Cached;
use crate::deadline::{CallError, within};

/// How many transports are kept. Rotations leave old ones behind; with more than this all are let go, and come back when needed.
const MOST_TRANSPORTS: usize = 256;

/// What keeps a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Keeper {
    Secret,
    ConfigMap,
}

impl Keeper {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
        }
    }
}

/// Why a scaler's credentials could not be had. No text has a value.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unavailable {
    #[error("there is no {keeper} {name} in namespace {namespace}; create it, or correct its name")]
    NoKeeper { keeper: &'static str, namespace: String, name: String },
    #[error("{keeper} {name} has no key {key:?}; it has {}", listed(.keys))]
    NoKey { keeper: &'static str, name: String, key: String, keys: Vec<String> },
    #[error("Secret {name}, key {key:?}, is not text, so it cannot be a header")]
    NotText { name: String, key: String },
    #[error("{keeper} {name} in namespace {namespace} could not be read: {why}")]
    Api { keeper: &'static str, namespace: String, name: String, why: String },
    #[error(transparent)]
    Tls(#[from] TlsError),
}

fn listed(keys: &[String]) -> String {
    if keys.is_empty() { "none".to_owned() } else { keys.join(", ") }
}

type Data = Arc<BTreeMap<String, Vec<u8>>>;

/// What a scaler's requests carry at the moment.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Keys {
    pub headers: BTreeMap<String, String>,
    pub tls: TlsSettings,
}

/// Reads what scalers refer to in their namespaces, and keeps one transport for all that have the same certificates.
pub(crate) struct Credentials {
    client: Client,
    data: Cached<(Keeper, String, String), Data>,
    transports: Mutex<HashMap<TlsSettings, Transport>>,
}

impl Credentials {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, data: Cached::new(), transports: Mutex::default() }
    }

    /// What `access` stands for at the moment.
    pub(crate) async fn keys(&self, namespace: &str, access: &Access) -> Result<Keys, Unavailable> {
        let mut headers = access.headers.expose().clone();
        for header in &access.secret_headers {
            let value = self.text(namespace, &header.secret).await?;
            headers.insert(header.name.clone(), format!("{}{value}", header.prefix));
        }
        let ca = match &access.tls.ca {
            None => None,
            Some(CaReference::Secret(key)) => Some(self.bytes(Keeper::Secret, namespace, &key.name, &key.key).await?),
            Some(CaReference::ConfigMap(key)) => Some(self.bytes(Keeper::ConfigMap, namespace, &key.name, &key.key).await?),
        };
        let client_certificate = match &access.tls.client_certificate_secret {
            None => None,
            Some(name) => Some(ClientCertificate {
                chain: self.bytes(Keeper::Secret, namespace, name, "tls.crt").await?,
                key: self.bytes(Keeper::Secret, namespace, name, "tls.key").await?,
            }),
        };
        let (server_name, insecure_skip_verify) = (access.tls.server_name.clone(), access.tls.insecure_skip_verify);
        Ok(Keys { headers, tls: TlsSettings { ca, client_certificate, server_name, insecure_skip_verify } })
    }

    /// The transport with these certificates.
    pub(crate) fn transport(&self, tls: &TlsSettings) -> Result<Transport, Unavailable> {
        let mut transports = self.transports.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(transport) = transports.get(tls) {
            return Ok(transport.clone());
        }
        let transport = Transport::new(tls)?;
        if transports.len() >= MOST_TRANSPORTS {
            transports.clear();
        }
        transports.insert(tls.clone(), transport.clone());
        Ok(transport)
    }

    async fn bytes(&self, keeper: Keeper, namespace: &str, name: &str, key: &str) -> Result<Vec<u8>, Unavailable> {
        let data = self.data.get((keeper, namespace.to_owned(), name.to_owned()), self.fetch(keeper, namespace, name)).await?;
        data.get(key).cloned().ok_or_else(|| Unavailable::NoKey {
            keeper: keeper.as_str(),
            name: name.to_owned(),
            key: key.to_owned(),
            keys: data.keys().cloned().collect(),
        })
    }

    /// The text under a key of a Secret, without the line end that editors leave behind.
    async fn text(&self, namespace: &str, key: &KeyReference) -> Result<String, Unavailable> {
        let bytes = self.bytes(Keeper::Secret, namespace, &key.name, &key.key).await?;
        let text = String::from_utf8(bytes).map_err(|_| Unavailable::NotText { name: key.name.clone(), key: key.key.clone() })?;
        Ok(text.trim_end_matches(['\r', '\n']).to_owned())
    }

    async fn fetch(&self, keeper: Keeper, namespace: &str, name: &str) -> Result<Data, Unavailable> {
        let failed = |error: CallError| {
            let (keeper, namespace, name) = (keeper.as_str(), namespace.to_owned(), name.to_owned());
            match error.is_not_found() {
                true => Unavailable::NoKeeper { keeper, namespace, name },
                false => Unavailable::Api { keeper, namespace, name, why: error.to_string() },
            }
        };
        let data = match keeper {
            Keeper::Secret => {
                let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
                let secret = within(api.get(name)).await.map_err(failed)?;
                secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect()
            }
            Keeper::ConfigMap => {
                let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
                let map = within(api.get(name)).await.map_err(failed)?;
                map.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.into_bytes())).collect()
            }
        };
        Ok(Arc::new(data))
    }
}
