//! TLS settings against a server with a certificate of its own making.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what helps a test may fail it")]

use std::collections::BTreeMap;
use std::sync::Arc;

use llmscaler_engine::Reading;
use llmscaler_signals::transport::{ClientCertificate, TlsError};
use llmscaler_signals::{Endpoint, PrometheusClient, TlsSettings, Transport};
use rcgen::CertifiedKey;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

type Certificate = CertifiedKey<rcgen::KeyPair>;

fn certificate(name: &str) -> Certificate {
    rcgen::generate_simple_self_signed([name.to_owned()]).unwrap()
}

fn pem(certificate: &Certificate) -> Vec<u8> {
    certificate.cert.pem().into_bytes()
}

/// Serves the number 1 over TLS; with `client`, only to whoever shows that certificate.
async fn start(certificate: &Certificate, client: Option<&Certificate>) -> String {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions().unwrap();
    let builder = match client {
        Some(client) => {
            let mut roots = RootCertStore::empty();
            roots.add(client.cert.der().clone()).unwrap();
            builder.with_client_cert_verifier(WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap())
        }
        None => builder.with_no_client_auth(),
    };
    let key = PrivateKeyDer::try_from(certificate.signing_key.serialize_der()).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(builder.with_single_cert(vec![certificate.cert.der().clone()], key).unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let _ = stream.read(&mut [0; 4096]).await;
            let body = r#"{"status":"success","data":{"result":[{"value":[1,"1"]}]}}"#;
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    address
}

async fn ask(address: &str, settings: &TlsSettings) -> Reading {
    let endpoint = Endpoint::new(Transport::new(settings).unwrap(), address, &BTreeMap::new()).unwrap();
    PrometheusClient::new(endpoint).query_value("up").await
}

async fn refused(address: &str, settings: &TlsSettings) -> String {
    match ask(address, settings).await {
        Reading::Unknown(why) => why,
        known => panic!("{known:?}"),
    }
}

#[tokio::test]
async fn a_ca_is_trusted_only_when_given() {
    let own = certificate("127.0.0.1");
    let address = start(&own, None).await;
    let given = TlsSettings { ca: Some(pem(&own)), ..TlsSettings::default() };
    assert_eq!(ask(&address, &given).await, Reading::from_number(1.0));

    let other = TlsSettings { ca: Some(pem(&certificate("127.0.0.1"))), ..TlsSettings::default() };
    for settings in [TlsSettings::default(), other] {
        let reason = refused(&address, &settings).await;
        assert!(reason.contains("no TLS connection to https://127.0.0.1:") && reason.contains("serverTLS"), "{reason}");
    }
}

#[tokio::test]
async fn a_bundle_may_hold_several_certificates() {
    let own = certificate("127.0.0.1");
    let address = start(&own, None).await;
    let bundle = [pem(&certificate("other")), b"# our own\n".to_vec(), pem(&own)].concat();
    assert_eq!(ask(&address, &TlsSettings { ca: Some(bundle), ..TlsSettings::default() }).await, Reading::from_number(1.0));
}

#[tokio::test]
async fn the_name_of_the_certificate_is_the_host_or_the_server_name() {
    let own = certificate("prometheus.example");
    let address = start(&own, None).await;
    let mut settings = TlsSettings { ca: Some(pem(&own)), ..TlsSettings::default() };
    let reason = refused(&address, &settings).await;
    assert!(reason.contains("no TLS connection") && reason.contains("not valid for name"), "{reason}");
    settings.server_name = Some("prometheus.example".to_owned());
    assert_eq!(ask(&address, &settings).await, Reading::from_number(1.0));
}

#[tokio::test]
async fn verification_can_be_skipped() {
    let address = start(&certificate("elsewhere"), None).await;
    let settings = TlsSettings { insecure_skip_verify: true, ..TlsSettings::default() };
    assert_eq!(ask(&address, &settings).await, Reading::from_number(1.0));
}

#[tokio::test]
async fn a_client_certificate_is_shown() {
    let (own, client) = (certificate("127.0.0.1"), certificate("llmscaler"));
    let address = start(&own, Some(&client)).await;
    let mut settings = TlsSettings { ca: Some(pem(&own)), ..TlsSettings::default() };
    let reason = refused(&address, &settings).await;
    assert!(reason.contains("CertificateRequired") || reason.contains("broke off"), "{reason}");
    settings.client_certificate = Some(ClientCertificate { chain: pem(&client), key: client.signing_key.serialize_pem().into_bytes() });
    assert_eq!(ask(&address, &settings).await, Reading::from_number(1.0));
}

#[test]
fn unusable_settings_name_the_field() {
    let client = certificate("llmscaler");
    let with =
        |chain: Vec<u8>, key: Vec<u8>| TlsSettings { client_certificate: Some(ClientCertificate { chain, key }), ..TlsSettings::default() };
    let key = client.signing_key.serialize_pem().into_bytes();
    let other = certificate("other").signing_key.serialize_pem().into_bytes();
    for (settings, expected) in [
        (TlsSettings { ca: Some(b"not PEM".to_vec()), ..TlsSettings::default() }, "serverTLS.caFrom"),
        (TlsSettings { ca: Some(key.clone()), ..TlsSettings::default() }, "serverTLS.caFrom"),
        (with(b"s3cret".to_vec(), key), "clientCertificateSecretName"),
        (with(pem(&client), b"s3cret".to_vec()), "clientCertificateSecretName"),
        (with(pem(&client), other), "clientCertificateSecretName"),
        (TlsSettings { server_name: Some("no name".to_owned()), ..TlsSettings::default() }, "serverTLS.serverName"),
    ] {
        let error: TlsError = Transport::new(&settings).unwrap_err();
        assert!(error.to_string().contains(expected) && !error.to_string().contains("s3cret"), "{error}");
        assert!(!format!("{settings:?}").contains("s3cret") && !format!("{settings:?}").contains("115, 51"), "{settings:?}");
    }
}
