//! Asking an operator over HTTP, as Prometheus and the kubelet do: plain, or by TLS whoever has signed it.

use std::sync::{Arc, Mutex};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{Operator, until};

/// What was answered.
#[derive(Debug)]
pub struct Answered {
    pub code: u16,
    pub body: String,
    /// The certificate that it came with.
    pub certificate: Option<Vec<u8>>,
}

impl Operator {
    /// Where it serves `metrics` or `probes`, as its log says.
    pub async fn address(&self, what: &str) -> String {
        until(&format!("the operator serves {what}"), async || {
            let log = self.log();
            let line = log.lines().find(|line| line.contains(&format!("serving {what}")))?;
            let (_, rest) = line.split_once("127.0.0.1:")?;
            let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
            Some(format!("127.0.0.1:{port}"))
        })
        .await
    }

    /// What a probe is answered.
    pub async fn probe(&self, path: &str) -> Answered {
        get(&self.address("probes").await, path, None).await.expect("an answer")
    }
}

/// A plain request.
pub async fn get(address: &str, path: &str, token: Option<&str>) -> Option<Answered> {
    let stream = TcpStream::connect(address).await.ok()?;
    let (code, body) = converse(stream, path, token).await?;
    Some(Answered { code, body, certificate: None })
}

/// The same by TLS, with any certificate.
pub async fn get_by_tls(address: &str, path: &str, token: Option<&str>) -> Option<Answered> {
    let anybody = Arc::new(Anybody { provider: ring::default_provider(), seen: Mutex::default() });
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().ok()?;
    let config = config.dangerous().with_custom_certificate_verifier(anybody.clone()).with_no_client_auth();
    let stream = TcpStream::connect(address).await.ok()?;
    let name = ServerName::try_from("localhost").ok()?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()?;
    let (code, body) = converse(stream, path, token).await?;
    let certificate = anybody.seen.lock().expect("nobody panics with it").clone();
    Some(Answered { code, body, certificate })
}

/// The same by TLS, from a server of this name whose certificate this PEM text verifies.
pub async fn get_verified(address: &str, path: &str, name: &str, ca: &str) -> Option<Answered> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca.as_bytes()) {
        roots.add(certificate.expect("PEM")).expect("a certificate");
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().ok()?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(address).await.ok()?;
    let name = ServerName::try_from(name.to_owned()).ok()?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()?;
    let (code, body) = converse(stream, path, None).await?;
    Some(Answered { code, body, certificate: None })
}

async fn converse(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    path: &str,
    token: Option<&str>,
) -> Option<(u16, String)> {
    let authorization = token.map_or(String::new(), |token| format!("Authorization: Bearer {token}\r\n"));
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{authorization}\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut bytes = vec![];
    // Whoever closes without a farewell has said everything too.
    let _ = stream.read_to_end(&mut bytes).await;
    let text = String::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let code = head.split_whitespace().nth(1)?.parse().ok()?;
    Some((code, body.to_owned()))
}

/// Accepts every certificate, and remembers it.
#[derive(Debug)]
struct Anybody {
    provider: CryptoProvider,
    seen: Mutex<Option<Vec<u8>>>,
}

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        *self.seen.lock().expect("nobody panics with it") = Some(certificate.to_vec());
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
