//! KEDA's `TriggerAuthentication` as headers and certificates of the scaler.

use std::cell::Cell;

use llmscaler_api::{CaSource, HeaderSource, Invalid, KeyReference, ServerTls};
use serde_json::Value;

use super::trigger::Connection;
use crate::migrate::ledger::{Ledger, Node};
use crate::migrate::outcome::{Origin, Outcome, annotations, origin};

/// A `TriggerAuthentication` of the input.
pub struct Authentication {
    value: Value,
    ledger: Ledger,
    origin: Origin,
    used: Cell<bool>,
}

/// Where one parameter of an authentication is.
struct Parameter<'a> {
    name: String,
    secret: bool,
    key: KeyReference,
    nodes: [Node<'a>; 3],
}

impl Parameter<'_> {
    fn carried(&self, to: &str) {
        self.nodes.iter().for_each(|node| node.carried(to));
    }

    fn lost(&self, why: &str) {
        self.nodes.iter().for_each(|node| node.lost(why));
    }
}

const BASIC: &str = "a header has one value: put the base64 of user:password under one key of a Secret, and add serverHeadersFrom: [{name: \
                     Authorization, prefix: \"Basic \", secretKeyRef: {name: …, key: …}}]";
const CUSTOM: &str = "the name of the header is in a Secret too: add serverHeadersFrom: [{name: HEADER, secretKeyRef: {name: …, key: …}}]";
const CERTIFICATE: &str = "the certificate and its key must be tls.crt and tls.key of one Secret: create it with kubectl create secret tls, \
                           and name it in serverTLS.clientCertificateSecretName";
const PLAIN: &str = "what is secret is read from a Secret only: put it there and name it in serverHeadersFrom";
const OTHER: &str = "no such way to authenticate; let a proxy beside the Prometheus do it, or give it a bearer token";

impl Authentication {
    /// An object of the input.
    pub fn new(value: Value) -> Result<Self, Invalid> {
        let ledger = Ledger::default();
        let root = Node::root(&value, &ledger);
        let origin = origin(&root)?;
        for field in ["name", "namespace"].iter().filter_map(|name| root.at(&["metadata", name])) {
            field.left("the scaler names the Secrets themselves");
        }
        Ok(Self { value, ledger, origin, used: Cell::new(false) })
    }

    fn root(&self) -> Node<'_> {
        Node::root(&self.value, &self.ledger)
    }

    /// Whether a trigger of a `ScaledObject` in `namespace` means this one.
    pub fn is(&self, kind: &str, name: &str, namespace: Option<&str>) -> bool {
        let there =
            kind == "ClusterTriggerAuthentication" || self.origin.namespace.is_none() || self.origin.namespace.as_deref() == namespace;
        self.origin.kind == kind && self.origin.name == name && there
    }

    /// Whether the identity of KEDA's own pod stands in for a Secret.
    pub fn is_pod_identity(&self) -> bool {
        self.root().at(&["spec", "podIdentity", "provider"]).is_some_and(|provider| provider.value() != "none")
    }

    /// Adds what these modes use of it to a connection. Answers the modes that could not be carried.
    pub fn add_to(&self, connection: &mut Connection, modes: &[String]) -> Result<Vec<String>, Invalid> {
        self.used.set(true);
        let parameters = self.parameters()?;
        let mode = |name: &str| modes.iter().any(|mode| mode == name);
        let (mut lost, mut done) = (vec![], vec![]);
        if mode("bearer") {
            match parameters.iter().find(|parameter| parameter.name == "bearerToken") {
                Some(token) if token.secret => {
                    token.carried("serverHeadersFrom");
                    connection.headers_from.push(HeaderSource {
                        name: "Authorization".to_owned(),
                        prefix: "Bearer ".to_owned(),
                        secret_key_ref: token.key.clone(),
                    });
                    done.push("bearer");
                }
                Some(token) => token.lost(PLAIN),
                None => {}
            }
        }
        if let Some(ca) = parameters.iter().find(|parameter| parameter.name == "ca") {
            ca.carried("serverTLS.caFrom");
            let source = if ca.secret {
                CaSource { secret_key_ref: Some(ca.key.clone()), config_map_key_ref: None }
            } else {
                CaSource { secret_key_ref: None, config_map_key_ref: Some(ca.key.clone()) }
            };
            connection.tls.get_or_insert_with(ServerTls::default).ca_from = Some(source);
        }
        if mode("tls") && certificate(&parameters, connection) {
            done.push("tls");
        }
        for parameter in &parameters {
            match parameter.name.as_str() {
                "username" | "password" => parameter.lost(BASIC),
                "customAuthHeader" | "customAuthValue" => parameter.lost(CUSTOM),
                "ca" => {}
                "bearerToken" | "cert" | "key" if !mode("bearer") && !mode("tls") => {
                    parameter.lost("authModes of the trigger does not use it")
                }
                "bearerToken" | "cert" | "key" => {}
                _ => parameter.lost(OTHER),
            }
        }
        lost.extend(modes.iter().filter(|mode| !done.contains(&mode.as_str())).cloned());
        Ok(lost)
    }

    fn parameters(&self) -> Result<Vec<Parameter<'_>>, Invalid> {
        let mut parameters = vec![];
        for (list, secret) in [("secretTargetRef", true), ("configMapTargetRef", false)] {
            for item in self.root().at(&["spec", list]).map(|list| list.items()).unwrap_or_default() {
                let nodes = [item.need("parameter")?, item.need("name")?, item.need("key")?];
                let key = KeyReference { name: nodes[1].text()?, key: nodes[2].text()? };
                parameters.push(Parameter { name: nodes[0].text()?, secret, key, nodes });
            }
        }
        Ok(parameters)
    }

    /// What became of it.
    pub fn close(self) -> Outcome {
        let root = self.root();
        annotations(&root);
        if !self.used.get() {
            root.left("no trigger that is migrated uses it");
        } else if let Some(provider) = root.at(&["spec", "podIdentity"]) {
            provider.lost(OTHER);
        }
        let fields = self.ledger.close(&self.value);
        Outcome { origin: self.origin.clone(), scaler: None, fields, differences: vec![], generated_hpa: None }
    }
}

/// The client's certificate, if both its parts are where the scaler looks for them.
fn certificate(parameters: &[Parameter<'_>], connection: &mut Connection) -> bool {
    let named = |name: &str| parameters.iter().find(|parameter| parameter.name == name);
    let (Some(cert), Some(key)) = (named("cert"), named("key")) else { return connection.tls.is_some() };
    let together = cert.secret && key.secret && cert.key.name == key.key.name && cert.key.key == "tls.crt" && key.key.key == "tls.key";
    for parameter in [cert, key] {
        if together {
            parameter.carried("serverTLS.clientCertificateSecretName");
        } else {
            parameter.lost(CERTIFICATE);
        }
    }
    if together {
        connection.tls.get_or_insert_with(ServerTls::default).client_certificate_secret_name = Some(cert.key.name.clone());
    }
    together
}
