//! The keys and certificates of a run: one authority for the servers, one for the aggregation layer.

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use std::path::{Path, PathBuf};

/// Files in PEM, named by what the servers' flags call them.
#[derive(Debug)]
pub(crate) struct Certificates {
    /// The authority that clients trust.
    pub(crate) authority: PathBuf,
    /// The certificate of every server, for localhost and 127.0.0.1.
    pub(crate) serving: PathBuf,
    pub(crate) serving_key: PathBuf,
    /// The authority of the requests that the API server forwards to extension servers.
    pub(crate) front_proxy_authority: PathBuf,
    pub(crate) front_proxy: PathBuf,
    pub(crate) front_proxy_key: PathBuf,
    /// The key pair that signs service accounts' tokens.
    pub(crate) accounts_key: PathBuf,
    pub(crate) accounts_public: PathBuf,
    /// [`Self::authority`] in DER.
    pub(crate) authority_der: Vec<u8>,
    folder: PathBuf,
    servers: Authority,
}

impl Certificates {
    /// Makes everything anew in `folder`.
    pub(crate) fn create(folder: &Path) -> Result<Self> {
        let write = |name: &str, text: &str| -> Result<PathBuf> {
            let path = folder.join(name);
            std::fs::write(&path, text)?;
            Ok(path)
        };
        let servers = Authority::create("llmscaler-e2e")?;
        let aggregation = Authority::create("llmscaler-e2e-front-proxy")?;
        let (serving, serving_key) = servers.issue("kube-apiserver", &[], ExtendedKeyUsagePurpose::ServerAuth)?;
        let (proxy, proxy_key) = aggregation.issue("front-proxy-client", &[], ExtendedKeyUsagePurpose::ClientAuth)?;
        let accounts = KeyPair::generate()?;
        Ok(Self {
            authority: write("ca.crt", &servers.pem)?,
            serving: write("serving.crt", &serving)?,
            serving_key: write("serving.key", &serving_key)?,
            front_proxy_authority: write("front-proxy-ca.crt", &aggregation.pem)?,
            front_proxy: write("front-proxy.crt", &proxy)?,
            front_proxy_key: write("front-proxy.key", &proxy_key)?,
            accounts_key: write("sa.key", &accounts.serialize_pem())?,
            accounts_public: write("sa.pub", &accounts.public_key_pem())?,
            authority_der: servers.der.clone(),
            folder: folder.to_owned(),
            servers,
        })
    }

    /// The certificate and the key of a server that is called `name` besides localhost, as files.
    pub(crate) fn issue(&self, name: &str) -> Result<(PathBuf, PathBuf)> {
        let (certificate, key) = self.servers.issue(name, &[name], ExtendedKeyUsagePurpose::ServerAuth)?;
        let files = (self.folder.join(format!("{name}.crt")), self.folder.join(format!("{name}.key")));
        std::fs::write(&files.0, certificate)?;
        std::fs::write(&files.1, key)?;
        Ok(files)
    }
}

#[derive(Debug)]
struct Authority {
    pem: String,
    der: Vec<u8>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn create(name: &str) -> Result<Self> {
        let mut params = CertificateParams::new(Vec::<String>::new())?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        Ok(Self { pem: certificate.pem(), der: certificate.der().to_vec(), issuer: Issuer::new(params, key) })
    }

    /// A certificate and its key.
    fn issue(&self, name: &str, more: &[&str], purpose: ExtendedKeyUsagePurpose) -> Result<(String, String)> {
        let names = ["localhost", "127.0.0.1"].iter().chain(more).map(|name| (*name).to_owned());
        let mut params = CertificateParams::new(names.collect::<Vec<_>>())?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate()?;
        Ok((params.signed_by(&key, &self.issuer)?.pem(), key.serialize_pem()))
    }
}
