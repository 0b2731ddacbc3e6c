//! Whom to trust, and as whom to appear.

use std::fmt;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tracing::warn;

/// The TLS settings of a scaler. Those that are equal can share one [`Transport`](super::Transport).
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct TlsSettings {
    /// The CA certificates to trust, PEM. When given, only these are trusted, and not those of the system.
    pub ca: Option<Vec<u8>>,
    /// The certificate to appear with, if the server asks for one.
    pub client_certificate: Option<ClientCertificate>,
    /// The name that the server's certificate must have; without it, the host of the address. It does not change the name sent in
    /// the handshake (SNI), which is the host of the address.
    pub server_name: Option<String>,
    /// Trust any certificate. Whoever is on the path can then read the headers and forge the answers.
    pub insecure_skip_verify: bool,
}

/// A client certificate and its key.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ClientCertificate {
    /// The certificate and its intermediates, PEM, leaf first.
    pub chain: Vec<u8>,
    /// The private key, PEM (PKCS#8, PKCS#1 or SEC 1).
    pub key: Vec<u8>,
}

impl fmt::Debug for TlsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSettings")
            .field("ca", &self.ca.is_some())
            .field("client_certificate", &self.client_certificate)
            .field("server_name", &self.server_name)
            .field("insecure_skip_verify", &self.insecure_skip_verify)
            .finish()
    }
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertificate").finish_non_exhaustive()
    }
}

/// Why TLS settings cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The CA bundle cannot be read.
    #[error("serverTLS.caFrom: {0}; put one or more PEM certificates there")]
    Ca(String),
    /// The client certificate or its key cannot be read, or they do not belong together.
    #[error("serverTLS.clientCertificateSecretName: {0}; put a PEM certificate into tls.crt and its PEM key into tls.key")]
    ClientCertificate(String),
    /// The server name is no host name.
    #[error("serverTLS.serverName {0:?} is not a host name")]
    ServerName(String),
    /// The TLS library refuses the combination.
    #[error("serverTLS cannot be used: {0}")]
    Config(rustls::Error),
    /// The HTTP client cannot be built.
    #[error("the HTTP client cannot be built: {0}")]
    Client(reqwest::Error),
}

/// The configuration for these settings. It carries its crypto provider with it, so that no process-wide default is needed.
pub(super) fn client_config(settings: &TlsSettings) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let verifier = verifier(settings, &provider)?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Config)?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match &settings.client_certificate {
        Some(certificate) => {
            let refused = |why: &dyn fmt::Display| TlsError::ClientCertificate(why.to_string());
            let chain = certificates(&certificate.chain).map_err(|why| refused(&why))?;
            let key = PrivateKeyDer::from_pem_slice(&certificate.key).map_err(|_| refused(&"the key is not a PEM private key"))?;
            builder.with_client_auth_cert(chain, key).map_err(|why| refused(&why))?
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn verifier(settings: &TlsSettings, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, TlsError> {
    let name = match &settings.server_name {
        Some(name) => Some(ServerName::try_from(name.clone()).map_err(|_| TlsError::ServerName(name.clone()))?),
        None => None,
    };
    let trust = match roots(settings.ca.as_deref())? {
        _ if settings.insecure_skip_verify => Trust::Anyone,
        // As in an image without CA certificates, where plain HTTP still has to work.
        roots if roots.is_empty() => Trust::Nobody,
        roots => {
            let roots = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
                .build()
                .map_err(|why| TlsError::Ca(why.to_string()))?;
            Trust::Roots { roots, name }
        }
    };
    Ok(Arc::new(Verifier { trust, provider: Arc::clone(provider) }))
}

fn roots(ca: Option<&[u8]>) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    if let Some(pem) = ca {
        for certificate in certificates(pem).map_err(TlsError::Ca)? {
            roots.add(certificate).map_err(|why| TlsError::Ca(why.to_string()))?;
        }
    } else {
        let found = rustls_native_certs::load_native_certs();
        let (added, ignored) = roots.add_parsable_certificates(found.certs);
        if added == 0 {
            warn!(ignored, errors = ?found.errors, "the system has no CA certificates, so https works only with serverTLS");
        }
    }
    Ok(roots)
}

/// The certificates of a PEM file; at least one.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates: Vec<_> =
        CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|why| format!("it is not PEM: {why}"))?;
    if certificates.is_empty() {
        return Err("it holds no PEM certificate".to_owned());
    }
    Ok(certificates)
}

#[derive(Debug)]
enum Trust {
    /// `insecureSkipVerify`.
    Anyone,
    /// There is no CA certificate.
    Nobody,
    Roots {
        roots: Arc<WebPkiServerVerifier>,
        /// Instead of the host of the address.
        name: Option<ServerName<'static>>,
    },
}

#[derive(Debug)]
struct Verifier {
    trust: Trust,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match &self.trust {
            Trust::Anyone => Ok(ServerCertVerified::assertion()),
            Trust::Nobody => Err(rustls::Error::General("there is no CA certificate to check the server's with".to_owned())),
            Trust::Roots { roots, name } => {
                let name = name.as_ref().unwrap_or(host);
                roots.verify_server_cert(end_entity, intermediates, name, ocsp_response, now)
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
