//! Who the server is to the aggregator: a certificate that is made here with an authority of its own, or one from a folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::danger::ClientCertVerifier;

use super::ServiceRef;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// How long an authority made here, and the certificate that it signs, are valid, and when others take their place.
const LIFETIME: Duration = DAY.saturating_mul(30);
const REPLACED_AFTER: Duration = DAY.saturating_mul(15);
/// How far the aggregator's clock may be behind.
const CLOCK_SKEW: Duration = Duration::from_secs(60 * 60);

/// Why there is no certificate to serve with.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A file cannot be read.
    #[error("cannot read {}, which --external-metrics-cert-path asks for: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file holds something else.
    #[error("{} does not hold {expected} in PEM: {why}", path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
        /// What is wrong.
        why: pem::Error,
    },
    /// The certificate and the key do not work together.
    #[error("the certificate of the External Metrics API and its key cannot be used together: {0}")]
    Unusable(#[source] rustls::Error),
    /// None could be made.
    #[error("cannot make a certificate for the External Metrics API: {0}")]
    Make(#[from] rcgen::Error),
}

/// A certificate with its key, and the authority that it is to be trusted by.
pub(super) struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    /// In PEM; `None` where somebody else tells the aggregator whom to trust.
    pub authority: Option<String>,
    made: SystemTime,
}

impl Identity {
    /// A certificate for the service, signed by an authority that is used for nothing else and whose key is thrown away.
    pub(super) fn make(service: &ServiceRef, now: SystemTime) -> Result<Self, rcgen::Error> {
        let valid = |params: &mut CertificateParams, name: &str| {
            params.distinguished_name.push(DnType::CommonName, name);
            params.not_before = (now - CLOCK_SKEW).into();
            params.not_after = (now + LIFETIME).into();
        };
        let mut authority = CertificateParams::new(vec![])?;
        // Two of them stand side by side while one takes the other's place; a name of its own each keeps them apart.
        let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        valid(&mut authority, &format!("llmscaler external metrics {since}"));
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority_key = KeyPair::generate()?;
        let signed = authority.self_signed(&authority_key)?;
        let issuer = Issuer::new(authority, authority_key);

        let host = format!("{}.{}.svc", service.name, service.namespace);
        let mut leaf = CertificateParams::new(vec![host.clone(), format!("{host}.cluster.local")])?;
        valid(&mut leaf, "llmscaler");
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = leaf.signed_by(&key, &issuer)?;
        Ok(Self {
            chain: vec![certificate.der().clone()],
            key: PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
            authority: Some(signed.pem()),
            made: now,
        })
    }

    /// The certificate in `tls.crt` and the key in `tls.key` of a folder, with the authority in `ca.crt`, if there is one.
    pub(super) fn read(folder: &Path, now: SystemTime) -> Result<Self, IdentityError> {
        let read = |name: &str| {
            let path = folder.join(name);
            std::fs::read(&path).map_err(|source| IdentityError::Read { path, source })
        };
        let content = |name: &str, expected| {
            let path = folder.join(name);
            move |why| IdentityError::Content { path, expected, why }
        };
        let chain: Vec<CertificateDer<'static>> =
            CertificateDer::pem_slice_iter(&read("tls.crt")?).collect::<Result<_, _>>().map_err(content("tls.crt", "certificates"))?;
        let key = PrivateKeyDer::from_pem_slice(&read("tls.key")?).map_err(content("tls.key", "a private key"))?;
        let authority = match read("ca.crt") {
            Ok(pem) => {
                let text = String::from_utf8_lossy(&pem).into_owned();
                CertificateDer::from_pem_slice(&pem).map_err(content("ca.crt", "a certificate"))?;
                Some(text)
            }
            Err(IdentityError::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(Self { chain, key, authority, made: now })
    }

    /// Whether one that was made here is due to be replaced. A clock that was set back makes the age unknown.
    pub(super) fn is_old(&self, now: SystemTime) -> bool {
        !now.duration_since(self.made).is_ok_and(|age| age < REPLACED_AFTER)
    }

    /// Whether the other has the same certificate, key and authority.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.chain == other.chain && self.key == other.key && self.authority == other.authority
    }

    /// The configuration of a server with this certificate, which asks clients for one of theirs if there is a `verifier` for it.
    pub(super) fn config(&self, verifier: Option<Arc<dyn ClientCertVerifier>>) -> Result<Arc<ServerConfig>, IdentityError> {
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(IdentityError::Unusable)?;
        let builder = match verifier {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(self.chain.clone(), self.key.clone_key()).map_err(IdentityError::Unusable)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_made_is_replaced_long_before_it_ends_and_never_the_same() {
        let service = ServiceRef { namespace: "scaling".into(), name: "llmscaler".into(), port: 443 };
        let now = SystemTime::now();
        let (one, other) = (Identity::make(&service, now).unwrap(), Identity::make(&service, now).unwrap());
        assert!(!one.is_same(&other) && one.is_same(&one));
        assert!(one.config(None).is_ok());
        assert!(!one.is_old(now + DAY) && one.is_old(now + 16 * DAY) && one.is_old(now - DAY));
    }

    #[test]
    fn a_folder_has_a_certificate_a_key_and_perhaps_an_authority() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        let read = || Identity::read(folder.path(), SystemTime::now());
        assert!(read().err().unwrap().to_string().contains("--external-metrics-cert-path"));
        let pair = rcgen::generate_simple_self_signed(["metrics".to_owned()]).unwrap();
        write("tls.crt", &pair.cert.pem());
        write("tls.key", "");
        assert!(read().err().unwrap().to_string().contains("tls.key does not hold a private key"));
        write("tls.key", &pair.signing_key.serialize_pem());
        assert_eq!(read().unwrap().authority, None);
        write("ca.crt", &pair.cert.pem());
        assert_eq!(read().unwrap().authority, Some(pair.cert.pem()));
        write("ca.crt", "hello");
        assert!(matches!(read(), Err(IdentityError::Content { expected: "a certificate", .. })));
    }
}
