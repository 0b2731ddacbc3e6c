//! The certificate that the metrics are served with: given in files that somebody renews, or made here and renewed here.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum_server::tls_rustls::RustlsConfig;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem, pem::PemObject},
};
use tokio::{task::spawn_blocking, time::sleep};
use tracing::{info, warn};

/// How often it is looked at whether the certificate is still the one. The kubelet swaps a link when a mounted secret changes, which
/// notifications of file changes miss easily, so the contents are compared.
const PERIOD: Duration = if cfg!(test) { Duration::from_millis(20) } else { Duration::from_secs(10) };

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a certificate made here is valid, and when it is replaced. Nobody can verify it, so nothing is lost by a new one.
const LIFETIME: Duration = DAY.saturating_mul(30);
const REPLACED_AFTER: Duration = DAY.saturating_mul(15);
/// How far a reader's clock may be behind.
const CLOCK_SKEW: Duration = Duration::from_secs(60 * 60);

/// A certificate in files, in PEM.
#[derive(Clone, Debug)]
pub struct CertFiles {
    /// The certificate, then those that link it to its authority.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Why there is no certificate to serve with.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {}, which --metrics-cert-path and the names beside it ask for: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file holds something else.
    #[error("{} does not hold {expected} in PEM: {source}", path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
        /// What is wrong.
        source: pem::Error,
    },
    /// The certificate and the key do not work together.
    #[error("the certificate and its key cannot be used together: {0}")]
    Unusable(#[source] rustls::Error),
    /// None could be made.
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
}

/// The certificate in use, with what is needed to keep it current.
pub(super) struct Certificate {
    config: RustlsConfig,
    http2: bool,
    origin: Origin,
}

enum Origin {
    Files { files: CertFiles, digest: u64 },
    Made { at: SystemTime },
}

impl Certificate {
    pub(super) fn new(files: Option<CertFiles>, http2: bool) -> Result<Self, CertificateError> {
        let (config, origin) = match files {
            Some(files) => {
                let contents = Contents::read(&files)?;
                (contents.parse(&files, http2)?, Origin::Files { digest: contents.digest(), files })
            }
            None => {
                let at = SystemTime::now();
                (self_signed(at, http2)?, Origin::Made { at })
            }
        };
        Ok(Self { config: RustlsConfig::from_config(config), http2, origin })
    }

    /// What the server reads at each handshake. It follows the certificate as long as [`Certificate::keep`] runs.
    pub(super) fn config(&self) -> RustlsConfig {
        self.config.clone()
    }

    /// Keeps the certificate current, for ever. While there is no good new one the old one stays.
    pub(super) async fn keep(mut self) {
        let mut trouble = String::new();
        loop {
            sleep(PERIOD).await;
            match self.refresh(SystemTime::now()).await {
                Ok(false) => trouble.clear(),
                Ok(true) => {
                    trouble.clear();
                    info!("serving the metrics with a new certificate");
                }
                Err(error) => {
                    let error = error.to_string();
                    if error != trouble {
                        warn!(%error, "serving the metrics with the old certificate");
                    }
                    trouble = error;
                }
            }
        }
    }

    /// Takes a new certificate where there is one. The wall clock decides on the age of one made here, because validity is by wall
    /// clock, and goes on while the machine sleeps.
    async fn refresh(&mut self, now: SystemTime) -> Result<bool, CertificateError> {
        let config = match &mut self.origin {
            Origin::Files { files, digest } => {
                let read = spawn_blocking({
                    let files = files.clone();
                    move || Contents::read(&files)
                });
                // The task is not cancelled and does not panic; were it lost, the next look would make up for it.
                let Ok(contents) = read.await else { return Ok(false) };
                let contents = contents?;
                if contents.digest() == *digest {
                    return Ok(false);
                }
                let config = contents.parse(files, self.http2)?;
                *digest = contents.digest();
                config
            }
            Origin::Made { at } => {
                // A clock that was set back makes the age unknown: it is replaced.
                if now.duration_since(*at).is_ok_and(|age| age < REPLACED_AFTER) {
                    return Ok(false);
                }
                *at = now;
                self_signed(now, self.http2)?
            }
        };
        self.config.reload_from_config(config);
        Ok(true)
    }
}

struct Contents {
    cert: Vec<u8>,
    key: Vec<u8>,
}

impl Contents {
    fn read(files: &CertFiles) -> Result<Self, CertificateError> {
        let read = |path: &Path| fs::read(path).map_err(|source| CertificateError::Read { path: path.to_owned(), source });
        Ok(Self { cert: read(&files.cert)?, key: read(&files.key)? })
    }

    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.cert, &self.key).hash(&mut hasher);
        hasher.finish()
    }

    fn parse(&self, files: &CertFiles, http2: bool) -> Result<Arc<ServerConfig>, CertificateError> {
        let content = |path: &Path, expected| {
            let path = path.to_owned();
            move |source| CertificateError::Content { path, expected, source }
        };
        let chain: Vec<CertificateDer<'static>> =
            CertificateDer::pem_slice_iter(&self.cert).collect::<Result<_, _>>().map_err(content(&files.cert, "certificates"))?;
        if chain.is_empty() {
            return Err(content(&files.cert, "a certificate")(pem::Error::NoItemsFound));
        }
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(content(&files.key, "a private key"))?;
        server_config(chain, key, http2)
    }
}

fn self_signed(now: SystemTime, http2: bool) -> Result<Arc<ServerConfig>, CertificateError> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(["localhost".to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, "llmscaler metrics");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.not_before = (now - CLOCK_SKEW).into();
    params.not_after = (now + LIFETIME).into();
    let certificate = params.self_signed(&key)?;
    server_config(vec![certificate.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into(), http2)
}

fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    http2: bool,
) -> Result<Arc<ServerConfig>, CertificateError> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(CertificateError::Unusable)?;
    config.alpn_protocols = if http2 { vec![b"h2".to_vec(), b"http/1.1".to_vec()] } else { vec![b"http/1.1".to_vec()] };
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_certificate_made_here_is_replaced_long_before_it_ends() {
        let mut certificate = Certificate::new(None, false).unwrap();
        let config = certificate.config();
        let first = config.get_inner();
        let now = SystemTime::now();
        assert!(!certificate.refresh(now + DAY).await.unwrap());
        assert!(certificate.refresh(now + 16 * DAY).await.unwrap());
        assert!(!Arc::ptr_eq(&first, &config.get_inner()));
        assert!(!certificate.refresh(now + 17 * DAY).await.unwrap());
        assert!(certificate.refresh(now).await.unwrap(), "the clock was set back");
    }

    #[tokio::test]
    async fn a_half_written_pair_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let files = CertFiles { cert: folder.path().join("tls.crt"), key: folder.path().join("tls.key") };
        let pair = || rcgen::generate_simple_self_signed(["metrics".to_owned()]).unwrap();
        let (old, new) = (pair(), pair());
        fs::write(&files.cert, old.cert.pem()).unwrap();
        fs::write(&files.key, old.signing_key.serialize_pem()).unwrap();
        let mut certificate = Certificate::new(Some(files.clone()), true).unwrap();
        let now = SystemTime::now();
        assert!(!certificate.refresh(now).await.unwrap());

        fs::write(&files.cert, new.cert.pem()).unwrap();
        assert!(matches!(certificate.refresh(now).await, Err(CertificateError::Unusable(_))));
        fs::write(&files.key, "").unwrap();
        assert!(matches!(certificate.refresh(now).await, Err(CertificateError::Content { expected: "a private key", .. })));
        fs::write(&files.key, new.signing_key.serialize_pem()).unwrap();
        assert!(certificate.refresh(now).await.unwrap());
        assert!(!certificate.refresh(now).await.unwrap());
    }

    #[test]
    fn errors_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let files = CertFiles { cert: folder.path().join("tls.crt"), key: folder.path().join("tls.key") };
        let error = |files: &CertFiles| Certificate::new(Some(files.clone()), false).err().unwrap().to_string();
        assert!(error(&files).contains("tls.crt") && error(&files).contains("--metrics-cert-path"), "{}", error(&files));
        fs::write(&files.cert, "hello").unwrap();
        fs::write(&files.key, "hello").unwrap();
        assert!(error(&files).contains("tls.crt does not hold a certificate in PEM"), "{}", error(&files));
    }
}
