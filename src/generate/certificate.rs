//! Certificates, and the authorities that sign them.
//!
//! The subject of an authority follows from its name and the release's, so that a certificate which is generated later names its issuer in the
//! same words.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType,
};

use super::make::{self, Algorithm};
use super::pattern::{Pattern, Release};
use super::{GenerateError, Generator, Part};

/// Ten years.
const DURATION: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
/// Other machines' clocks may be behind.
const BEFORE: Duration = Duration::from_secs(60 * 60);
/// Of a common name, by X.520.
const LONGEST_NAME: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub struct CertificateRule {
    /// It signs other certificates.
    pub is_ca: bool,
    pub authority: Authority,
    pub common_name: Option<Pattern>,
    pub dns_names: Vec<Pattern>,
    pub ip_addresses: Vec<IpAddr>,
    pub duration: Duration,
    pub algorithm: Algorithm,
}

/// Who signs a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authority {
    Itself,
    /// The generated authority of this name.
    Generated(String),
}

impl Default for CertificateRule {
    fn default() -> Self {
        CertificateRule {
            is_ca: false,
            authority: Authority::Itself,
            common_name: None,
            dns_names: vec![],
            ip_addresses: vec![],
            duration: DURATION,
            algorithm: Algorithm::default(),
        }
    }
}

pub(super) fn generate<'a>(
    generator: &Generator,
    rule: &CertificateRule,
    release: Release<'_>,
    now: SystemTime,
    known: impl Fn(&str) -> Option<&'a str>,
) -> Result<Vec<(Part, String)>, GenerateError> {
    let name = &generator.name;
    let failed = |error: rcgen::Error| GenerateError::Crypto { name: name.clone(), why: error.to_string() };
    let mut params = match rule.is_ca {
        true => authority(name, release),
        false => server(name, rule, release)?,
    };
    // A year that no certificate can name is too long for anybody.
    params.not_before = (now - BEFORE).into();
    params.not_after = now.checked_add(rule.duration).unwrap_or(now + DURATION).into();
    let key = make::key_pair(rule.algorithm, name)?;
    let certificate = match &rule.authority {
        Authority::Itself => params.self_signed(&key).map_err(failed)?,
        Authority::Generated(issuer) => {
            let unreadable = || GenerateError::Issuer { name: name.clone(), issuer: issuer.clone() };
            let pem = known(&format!("{issuer}.key")).ok_or_else(unreadable)?;
            // Not the library's words: what it read of a key stays unsaid.
            let signing = KeyPair::from_pem(pem).map_err(|_| unreadable())?;
            params.signed_by(&key, &Issuer::new(authority(issuer, release), signing)).map_err(failed)?
        }
    };
    Ok(vec![(Part::Certificate, certificate.pem()), (Part::PrivateKey, key.serialize_pem())])
}

fn authority(name: &str, release: Release<'_>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, cut(&format!("{name}.{}", release.name)));
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn server(name: &str, rule: &CertificateRule, release: Release<'_>) -> Result<CertificateParams, GenerateError> {
    let mut params = CertificateParams::default();
    for dns_name in rule.dns_names.iter().map(|pattern| pattern.fill(release)) {
        let unusable = || GenerateError::DnsName { name: name.to_owned(), found: dns_name.clone() };
        if !is_dns_name(&dns_name) {
            return Err(unusable());
        }
        params.subject_alt_names.push(SanType::DnsName(dns_name.clone().try_into().map_err(|_| unusable())?));
    }
    params.subject_alt_names.extend(rule.ip_addresses.iter().copied().map(SanType::IpAddress));
    let common_name = rule.common_name.as_ref().or(rule.dns_names.first()).map(|pattern| pattern.fill(release));
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, cut(common_name.as_deref().unwrap_or(name)));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = rule.authority != Authority::Itself;
    Ok(params)
}

fn cut(name: &str) -> String {
    name.chars().take(LONGEST_NAME).collect()
}

/// Whether a certificate can name it. The first label may be `*`.
pub fn is_dns_name(text: &str) -> bool {
    let is_inner = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(is_inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let rest = text.strip_prefix("*.").unwrap_or(text);
    text.len() <= 253 && rest.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier;
    use rustls::crypto::ring::default_provider;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

    use super::super::plan::{Held, Plan};
    use super::super::rotation::Rotation;
    use super::super::tests::generator;
    use super::super::{Rule, Texts};
    use super::*;

    const RELEASE: Release<'_> = Release { name: "web", namespace: "shop" };

    fn rule(authority: Authority) -> CertificateRule {
        let dns_names = ["{{ .Release.Name }}.{{ .Release.Namespace }}.svc", "*.web.shop.svc"];
        CertificateRule {
            authority,
            dns_names: dns_names.map(|it| Pattern::parse(it).unwrap()).to_vec(),
            ip_addresses: vec!["127.0.0.1".parse().unwrap()],
            ..CertificateRule::default()
        }
    }

    fn generators() -> [Generator; 2] {
        let ca = CertificateRule { is_ca: true, ..CertificateRule::default() };
        let of = |name, rule| generator(name, Rule::Certificate(rule), &[]);
        [of("tls", rule(Authority::Generated("ca".into()))), of("ca", ca)]
    }

    fn made(generators: &[Generator], held: Texts) -> Result<Texts, GenerateError> {
        let held = Held { texts: held, done: Some(Rotation::default()) };
        let plan = Plan::of(generators, &held, &Rotation::default(), None);
        let mut texts = held.texts.clone();
        texts.extend(make::carry_out(&plan, &held.texts, RELEASE, SystemTime::now())?);
        Ok(texts)
    }

    fn der(pem: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
    }

    /// What a client says that trusts the authority alone.
    fn is_good(texts: &Texts, authority: &str, name: &str) -> Result<(), String> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(der(&texts[authority])).map_err(|error| error.to_string())?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()));
        let (verifier, name) = (verifier.build().unwrap(), ServerName::try_from(name.to_owned()).unwrap());
        let verified = verifier.verify_server_cert(&der(&texts["tls.crt"]), &[], &name, &[], UnixTime::now());
        verified.map(|_| ()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_certificate_is_verified_by_its_authority_for_its_names_and_no_others() {
        let texts = made(&generators(), Texts::new()).unwrap();
        for name in ["web.shop.svc", "a.web.shop.svc", "127.0.0.1"] {
            is_good(&texts, "ca.crt", name).unwrap();
        }
        assert!(is_good(&texts, "ca.crt", "other.shop.svc").unwrap_err().contains("not valid for name"));
        let others = made(&generators(), Texts::new()).unwrap();
        let mixed =
            Texts::from([("tls.crt".into(), texts["tls.crt"].clone()), ("ca.crt".into(), others["ca.crt"].clone())]);
        assert!(is_good(&mixed, "ca.crt", "web.shop.svc").is_err());
    }

    #[test]
    fn a_certificate_that_is_generated_later_is_verified_by_the_same_authority() {
        let mut texts = made(&generators(), Texts::new()).unwrap();
        let before = texts.remove("tls.crt").unwrap();
        let texts = made(&generators(), texts).unwrap();
        assert_ne!(texts["tls.crt"], before);
        is_good(&texts, "ca.crt", "web.shop.svc").unwrap();
    }

    #[test]
    fn a_self_signed_certificate_is_its_own_authority_and_its_key_belongs_to_it() {
        let generators = [generator("tls", Rule::Certificate(rule(Authority::Itself)), &[])];
        let texts = made(&generators, Texts::new()).unwrap();
        is_good(&texts, "tls.crt", "web.shop.svc").unwrap();
        let key = rustls::pki_types::PrivateKeyDer::from_pem_slice(texts["tls.key"].as_bytes()).unwrap();
        rustls::sign::CertifiedKey::from_der(vec![der(&texts["tls.crt"])], key, &default_provider()).unwrap();
    }

    #[test]
    fn an_authority_that_somebody_broke_is_told_without_its_key() {
        let mut texts = made(&generators(), Texts::new()).unwrap();
        texts.remove("tls.crt");
        texts.insert("ca.key".into(), "hunter2".into());
        let error = made(&generators(), texts).unwrap_err().to_string();
        assert!(error.contains("its issuer `ca`") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn names_that_no_certificate_can_have_are_refused() {
        for good in ["a", "a.b-c.svc", "*.a", "A_1.b"] {
            assert!(is_dns_name(good), "{good}");
        }
        let long = "a".repeat(64);
        for bad in ["", "a..b", "-a", "a-", "a b", "b.*", "ö", long.as_str()] {
            assert!(!is_dns_name(bad), "{bad}");
        }
        let long = CertificateRule {
            dns_names: vec![
                Pattern::parse("{{ .Release.Name }}-and-something-that-makes-it-far-too-long-for-one-label-of-a-name")
                    .unwrap(),
            ],
            ..CertificateRule::default()
        };
        let error = made(&[generator("tls", Rule::Certificate(long), &[])], Texts::new()).unwrap_err();
        assert!(matches!(error, GenerateError::DnsName { .. }), "{error}");
    }
}
