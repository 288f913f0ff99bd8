//! The certificate that metrics are served with.
//!
//! Where a directory is given, its files are looked at when somebody connects, and read again when they changed: whoever renews a
//! certificate need not tell anybody, and at rest nothing runs. A pair that cannot be used is told once, and the last good one stays
//! in use. Without a directory there is a certificate of its own, made at the start: it hides what travels, and proves nothing. Where the
//! operator may, one that others can verify takes its place: see [`published`](super::published).

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

use super::published::SERVER_NAME;
use crate::telemetry::metrics::{CERTIFICATE_ERRORS, CERTIFICATE_READS};

pub const CERTIFICATE: &str = "tls.crt";
pub const KEY: &str = "tls.key";

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read {}: {error}; put tls.crt and tls.key there, or leave --metrics-cert-path out", file.display())]
    File { file: PathBuf, error: std::io::Error },
    #[error("cannot use {}: {why}", file.display())]
    Pair { file: PathBuf, why: String },
    #[error("cannot make a certificate: {0}")]
    Own(String),
}

/// What HTTP/2 is called in a handshake.
pub const HTTP_2: &[u8] = b"h2";

/// Takes connections, with the certificate of a directory or one of its own. HTTP/2 is offered only where somebody asks for it.
pub fn acceptor(certificate: Arc<dyn ResolvesServerCert>, offers_http2: bool) -> Result<TlsAcceptor, TlsError> {
    let broken = |error: rustls::Error| TlsError::Own(error.to_string());
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().map_err(broken)?;
    let mut config = config.with_no_client_auth().with_cert_resolver(certificate);
    config.alpn_protocols = offers_http2.then(|| HTTP_2.to_vec()).into_iter().chain([b"http/1.1".to_vec()]).collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// A certificate that the operator made itself, until another one takes its place.
#[derive(Debug)]
pub struct Own(Mutex<Arc<CertifiedKey>>);

impl Own {
    pub fn new() -> Result<Self, TlsError> {
        let Pem { certificate, key } = self_signed()?;
        Ok(Own(Mutex::new(Arc::new(pair_of(Path::new("itself"), certificate.as_bytes(), key.as_bytes())?))))
    }

    /// From now on this one is served.
    pub fn replace(&self, pair: CertifiedKey) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(pair);
    }
}

impl ResolvesServerCert for Own {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// A certificate and its key, as text.
pub struct Pem {
    pub certificate: String,
    pub key: String,
}

/// A new pair that is signed by nobody else: whoever has the certificate can verify the server by it.
pub fn self_signed() -> Result<Pem, TlsError> {
    let failed = |error: rcgen::Error| TlsError::Own(error.to_string());
    let names = [SERVER_NAME, "localhost", "127.0.0.1"].map(str::to_owned);
    let mut params = CertificateParams::new(names).map_err(failed)?;
    params.distinguished_name.push(DnType::CommonName, "chartwright");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.self_signed(&key).map_err(failed)?;
    Ok(Pem { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// The pair of a directory, as it is when somebody connects.
#[derive(Debug)]
pub struct Renewed {
    dir: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    pair: Arc<CertifiedKey>,
    /// Of the files that were looked at last, usable or not.
    seen: Signature,
}

/// Changes with the files, also where a mounted Secret has its link set to other ones.
type Signature = [Option<(u64, i64, i64, u64)>; 2];

impl Renewed {
    pub fn read(dir: &Path) -> Result<Self, TlsError> {
        let seen = signature(dir);
        let state = State { pair: Arc::new(pair(dir)?), seen };
        CERTIFICATE_READS.count([]);
        CERTIFICATE_ERRORS.of([]);
        Ok(Renewed { dir: dir.to_owned(), state: Mutex::new(state) })
    }

    fn current(&self) -> Arc<CertifiedKey> {
        // A poisoned lock still holds a pair.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = signature(&self.dir);
        if now != state.seen {
            state.seen = now;
            CERTIFICATE_READS.count([]);
            match pair(&self.dir) {
                Ok(pair) => {
                    state.pair = Arc::new(pair);
                    tracing::info!(directory = %self.dir.display(), "the certificate for metrics was renewed");
                }
                Err(error) => {
                    CERTIFICATE_ERRORS.count([]);
                    tracing::warn!("the new certificate for metrics cannot be used, the old one stays in use: {error}");
                }
            }
        }
        state.pair.clone()
    }
}

impl ResolvesServerCert for Renewed {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

fn signature(dir: &Path) -> Signature {
    let of = |it: Metadata| (it.ino(), it.mtime(), it.mtime_nsec(), it.len());
    [CERTIFICATE, KEY].map(|name| std::fs::metadata(dir.join(name)).ok().map(of))
}

fn pair(dir: &Path) -> Result<CertifiedKey, TlsError> {
    let read = |name: &str| {
        let file = dir.join(name);
        std::fs::read(&file).map_err(|error| TlsError::File { file, error })
    };
    pair_of(dir, &read(CERTIFICATE)?, &read(KEY)?)
}

/// The pair of two PEM texts. `place` is where they were found.
pub fn pair_of(place: &Path, certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, TlsError> {
    let wrong = |name: &str, why: String| TlsError::Pair { file: place.join(name), why };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let chain = chain.map_err(|error| wrong(CERTIFICATE, error.to_string()))?;
    if chain.is_empty() {
        return Err(wrong(CERTIFICATE, "it holds no certificate".to_owned()));
    }
    // Not the library's words: whatever it read of a key stays unsaid.
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| wrong(KEY, "it holds no private key".to_owned()))?;
    CertifiedKey::from_der(chain, key, &default_provider()).map_err(|error| wrong(CERTIFICATE, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(dir: &Path, name: &str) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().self_signed(&key).unwrap();
        std::fs::write(dir.join(CERTIFICATE), certificate.pem()).unwrap();
        std::fs::write(dir.join(KEY), key.serialize_pem()).unwrap();
    }

    #[test]
    fn a_new_pair_is_used_and_a_broken_one_leaves_the_old() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "one.example");
        let renewed = Renewed::read(dir.path()).unwrap();
        let first = renewed.current();
        write(dir.path(), "two.example");
        let second = renewed.current();
        assert_ne!(first.cert, second.cert);
        std::fs::write(dir.path().join(KEY), "nothing").unwrap();
        assert_eq!(renewed.current().cert, second.cert);
        std::fs::remove_file(dir.path().join(CERTIFICATE)).unwrap();
        assert_eq!(renewed.current().cert, second.cert);
        write(dir.path(), "three.example");
        assert_ne!(renewed.current().cert, second.cert);
    }

    #[test]
    fn a_directory_without_a_pair_is_told_by_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let error = Renewed::read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("tls.crt") && error.contains("--metrics-cert-path"), "{error}");
    }

    #[test]
    fn a_key_of_another_certificate_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "one.example");
        std::fs::write(dir.path().join(KEY), KeyPair::generate().unwrap().serialize_pem()).unwrap();
        assert!(matches!(pair(dir.path()), Err(TlsError::Pair { .. })));
    }
}
