//! The control plane's certificates and kubeconfigs. They live as long as its directory and are trusted by nobody else.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use serde_json::json;

use crate::components::Layout;
use crate::node;

pub struct Ca(CertifiedIssuer<'static, KeyPair>);

impl Ca {
    pub fn new() -> Result<Self> {
        let mut params = CertificateParams::new(vec![])?;
        params.distinguished_name.push(DnType::CommonName, "chartwright-lab");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        Ok(Ca(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?))
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// The API server's certificate and key, for the names it is reached by.
    pub fn server(&self) -> Result<(String, String)> {
        let names = ["127.0.0.1", "localhost", "kubernetes.default.svc", "10.96.0.1", node::ADDRESS];
        let mut params = CertificateParams::new(names.map(String::from).to_vec())?;
        params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    /// A client certificate and key; Kubernetes reads the user from CN and the group from O.
    pub fn client(&self, user: &str, group: Option<&str>) -> Result<(String, String)> {
        let mut params = CertificateParams::new(vec![])?;
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn sign(&self, params: CertificateParams) -> Result<(String, String)> {
        let key = KeyPair::generate()?;
        Ok((params.signed_by(&key, &self.0)?.pem(), key.serialize_pem()))
    }

    /// Writes a kubeconfig for a user, with everything inline. JSON is YAML.
    pub fn write_kubeconfig(&self, path: &Path, server: &str, user: &str, group: Option<&str>) -> Result<()> {
        let (certificate, key) = self.client(user, group)?;
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "lab",
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": user}}],
            "clusters": [{"name": "lab", "cluster": {
                "server": server, "certificate-authority-data": base64(&self.pem())}}],
            "users": [{"name": user, "user": {
                "client-certificate-data": base64(&certificate), "client-key-data": base64(&key)}}],
        });
        write_private(path, &serde_json::to_string_pretty(&config)?)
    }
}

/// Writes the files that every control plane has, and returns the CA that signed them.
pub fn write_files(at: &Layout) -> Result<Ca> {
    let ca = Ca::new()?;
    let (certificate, key) = ca.server()?;
    let (signing, verifying) = service_account_keys()?;
    let files = [
        ("ca.crt", ca.pem()),
        ("server.crt", certificate),
        ("server.key", key),
        ("service-account.key", signing),
        ("service-account.pub", verifying),
    ];
    for (name, text) in files {
        write_private(&at.dir.join(name), &text)?;
    }
    let users = [
        ("kubeconfig", "admin", Some("system:masters")),
        ("controller-manager.kubeconfig", "system:kube-controller-manager", None),
        ("scheduler.kubeconfig", "system:kube-scheduler", None),
    ];
    for (file, user, group) in users {
        ca.write_kubeconfig(&at.dir.join(file), &at.server(), user, group)?;
    }
    Ok(ca)
}

/// The key pair that signs ServiceAccount tokens: (private, public).
pub fn service_account_keys() -> Result<(String, String)> {
    let key = KeyPair::generate()?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

/// Writes a file that only its owner can read.
pub fn write_private(path: &Path, text: &str) -> Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(path).with_context(|| format!("cannot write {}", path.display()))?;
    std::io::Write::write_all(&mut file, text.as_bytes())?;
    Ok(())
}

/// Twenty lines in place of a crate.
fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let bytes = [chunk[0], *chunk.get(1).unwrap_or(&0), *chunk.get(2).unwrap_or(&0)];
        let bits = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]);
        for i in 0..4 {
            let digit = (bits >> (18 - 6 * i)) & 0x3f;
            out.push(if i <= chunk.len() { DIGITS[digit as usize] as char } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn base64_pads_as_the_standard_says() {
        let encoded: Vec<_> = ["", "f", "fo", "foo", "foob"].map(super::base64).to_vec();
        assert_eq!(encoded, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]);
    }
}
