//! Values that the operator generates once for each custom resource: random text, key pairs and certificates.
//!
//! ```text
//! `generate` of the watch ──┐
//! the Secret of the release ┼▶ plan ─▶ make ─▶ new data of the Secret ─▶ texts at their places among the values
//! `rotate` annotations ─────┤  (pure)  (random)
//! the newest record ────────┘
//! ```
//! The Secret is in the release's namespace and belongs to the custom resource. Whoever may write Secrets there may change what it holds, so its
//! content is a value, as that of `valuesFrom` is, and never the content of an object. What is in it stays: nothing but a rotation replaces it.
//!
//! | module | what is in it |
//! |---|---|
//! | [`plan`] | which values stay, are restored, or are generated |
//! | [`rotation`] | which rotations the annotations ask for, and which were done |
//! | [`make`] | generating them |
//! | [`certificate`] | certificates and their authorities |
//! | [`pattern`] | names with the release in them |
//! | [`secret`] | the Secret: whose it is, and what to write |
//! | [`seed`] | the record that a missing value is restored from |

pub mod certificate;
pub mod make;
pub mod pattern;
pub mod plan;
pub mod rotation;
pub mod secret;
pub mod seed;

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Category, of_kube, sentence};
use crate::preflight::Adoption;
use crate::sensitive::Sensitive;
use crate::sources::ReadError;
use crate::values::{Placed, TargetPath};
pub use certificate::{Authority, CertificateRule};
pub use make::{Algorithm, TextRule};

/// The texts of the Secret, by its keys.
pub type Texts = BTreeMap<String, String>;

/// One entry of a watch's `generate`.
#[derive(Clone, Debug, PartialEq)]
pub struct Generator {
    pub name: String,
    pub rule: Rule,
    /// Where its parts belong among the values.
    pub paths: Vec<(Part, TargetPath)>,
}

/// What is generated.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    Text(TextRule),
    KeyPair(Algorithm),
    Certificate(CertificateRule),
}

/// A part of a generated value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Text,
    PrivateKey,
    PublicKey,
    Certificate,
    /// The certificate that verifies the certificate.
    Authority,
}

impl Part {
    /// The name of the part in `targetPath`.
    pub fn as_str(self) -> &'static str {
        match self {
            Part::Text => "text",
            Part::PrivateKey => "privateKey",
            Part::PublicKey => "publicKey",
            Part::Certificate => "certificate",
            Part::Authority => "ca",
        }
    }
}

impl Generator {
    /// The parts that `targetPath` can name.
    pub fn parts(&self) -> &'static [Part] {
        match self.rule {
            Rule::Text(_) => &[Part::Text],
            Rule::KeyPair(_) => &[Part::PrivateKey, Part::PublicKey],
            Rule::Certificate(_) => &[Part::Certificate, Part::PrivateKey, Part::Authority],
        }
    }

    /// The key of the Secret that holds a part.
    pub fn key(&self, part: Part) -> String {
        match part {
            Part::Text => self.name.clone(),
            Part::PrivateKey => format!("{}.key", self.name),
            Part::PublicKey => format!("{}.pub", self.name),
            Part::Certificate => format!("{}.crt", self.name),
            Part::Authority => format!("{}.crt", self.issuer().unwrap_or(&self.name)),
        }
    }

    /// The keys of the Secret that are its own.
    pub fn keys(&self) -> Vec<String> {
        self.parts().iter().filter(|part| **part != Part::Authority).map(|part| self.key(*part)).collect()
    }

    /// The name of the generated authority that signs it.
    pub fn issuer(&self) -> Option<&str> {
        match &self.rule {
            Rule::Certificate(CertificateRule { authority: Authority::Generated(name), .. }) => Some(name),
            _ => None,
        }
    }
}

/// All keys of the Secret that these generators use.
pub fn keys(generators: &[Generator]) -> BTreeSet<String> {
    generators.iter().flat_map(Generator::keys).collect()
}

/// The texts at their places among the values.
pub fn placed(generators: &[Generator], texts: &Texts) -> Vec<Placed> {
    let all = generators.iter().flat_map(|it| it.paths.iter().map(move |(part, path)| (it.key(*part), path)));
    all.filter_map(|(key, path)| Some(Placed { path: path.clone(), text: texts.get(&key)?.clone() })).collect()
}

/// Why the generated values are not known.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    #[error(
        "generated values are kept in the Secret {secret}, which exists and belongs to {who}; delete or rename that Secret, or give the custom resource another name"
    )]
    Foreign { secret: String, who: String },
    #[error(
        "generated values are kept in the Secret {secret}, which exists and was not created by this operator, so it is not used; {}",
        .adoption.advice()
    )]
    Loose { secret: String, adoption: Adoption },
    #[error("generated values are kept in the Secret {secret}, which is {}; delete it", found.as_str())]
    Sensitive { secret: String, found: Sensitive },
    #[error(
        "the chart renders the Secret {secret}, in which the operator keeps the generated values of the release; give the chart's object another name"
    )]
    Rendered { secret: String },
    #[error(
        "{key:?} of the Secret {secret} is not text, but generated values are; write text there, or remove the key to have a new value generated"
    )]
    NotText { secret: String, key: String },
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("cannot {verb} the Secret {secret}: {}", sentence(error))]
    Write { verb: &'static str, secret: String, error: kube::Error },
    #[error("the Secret {secret} changes while the operator writes generated values to it; the operator tries again")]
    Contended { secret: String },
    #[error("the system gives no random numbers, so no value can be generated")]
    NoRandomNumbers,
    #[error("cannot generate `{name}`: {why}")]
    Crypto { name: String, why: String },
    #[error(
        "cannot generate `{name}`, since the key of its issuer `{issuer}` cannot be read; set the annotation chartwright.dev/rotate-{issuer} to a new value to have the issuer generated again"
    )]
    Issuer { name: String, issuer: String },
    #[error(
        "cannot generate `{name}`: {found:?} is not a DNS name; shorten `dnsNames` in watches.yaml or the name of the custom resource"
    )]
    DnsName { name: String, found: String },
}

impl GenerateError {
    pub fn category(&self) -> Category {
        match self {
            GenerateError::Foreign { .. } | GenerateError::Loose { .. } | GenerateError::Sensitive { .. } => {
                Category::BelongsToAnother
            }
            GenerateError::Rendered { .. } => Category::NotAllowed,
            GenerateError::NotText { .. } | GenerateError::Issuer { .. } | GenerateError::DnsName { .. } => {
                Category::InvalidValues
            }
            GenerateError::Read(error) => error.category(),
            GenerateError::Write { error, .. } => of_kube(error),
            GenerateError::Contended { .. } => Category::Waiting,
            GenerateError::NoRandomNumbers | GenerateError::Crypto { .. } => Category::ApplyFailed,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn generator(name: &str, rule: Rule, paths: &[(Part, &str)]) -> Generator {
        let paths = paths.iter().map(|(part, path)| (*part, TargetPath::parse(path).unwrap())).collect();
        Generator { name: name.to_owned(), rule, paths }
    }

    pub(crate) fn text(name: &str, path: &str) -> Generator {
        generator(name, Rule::Text(TextRule::default()), &[(Part::Text, path)])
    }

    pub(crate) fn certificate(name: &str, authority: Authority, paths: &[(Part, &str)]) -> Generator {
        generator(name, Rule::Certificate(CertificateRule { authority, ..CertificateRule::default() }), paths)
    }

    #[test]
    fn each_part_has_a_key_of_its_own_and_the_authority_is_the_issuers_certificate() {
        let server = certificate("tls", Authority::Generated("ca".into()), &[]);
        assert_eq!(server.keys(), ["tls.crt", "tls.key"]);
        assert_eq!(server.key(Part::Authority), "ca.crt");
        assert_eq!(certificate("tls", Authority::Itself, &[]).key(Part::Authority), "tls.crt");
        assert_eq!(generator("ssh", Rule::KeyPair(Algorithm::Ed25519), &[]).keys(), ["ssh.key", "ssh.pub"]);
        assert_eq!(text("password", "a").keys(), ["password"]);
    }

    #[test]
    fn texts_go_to_all_their_places() {
        let mut all = vec![text("password", "auth.password"), text("absent", "b")];
        all[0].paths.push((Part::Text, TargetPath::parse("db.password").unwrap()));
        let texts = Texts::from([("password".to_owned(), "x".to_owned()), ("other".to_owned(), "y".to_owned())]);
        let placed: Vec<_> = placed(&all, &texts).into_iter().map(|it| (it.path.to_string(), it.text)).collect();
        assert_eq!(placed, [("auth.password".to_owned(), "x".to_owned()), ("db.password".into(), "x".into())]);
    }
}
