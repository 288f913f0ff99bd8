//! Generating values: random texts and key pairs. Certificates are in [`super::certificate`].

use std::sync::OnceLock;
use std::time::SystemTime;

use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, SignatureAlgorithm};
use ring::rand::{SecureRandom, SystemRandom};

use super::certificate;
use super::pattern::Release;
use super::plan::{Fate, Plan};
use super::{GenerateError, Generator, Part, Rule, Texts};
use crate::values::Placed;

const ALPHANUMERIC: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const LENGTH: usize = 32;

/// The sets of characters that have a name in watches.yaml.
pub const SETS: [(&str, &str); 5] = [
    ("alphanumeric", ALPHANUMERIC),
    ("letters", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"),
    ("lowercase", "abcdefghijklmnopqrstuvwxyz0123456789"),
    ("digits", "0123456789"),
    ("hex", "0123456789abcdef"),
];

/// A random text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextRule {
    pub length: usize,
    /// Each once, and ASCII.
    pub characters: String,
}

impl Default for TextRule {
    fn default() -> Self {
        TextRule { length: LENGTH, characters: ALPHANUMERIC.to_owned() }
    }
}

/// Of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Algorithm {
    #[default]
    EcdsaP256,
    EcdsaP384,
    Ed25519,
}

impl Algorithm {
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "ecdsa-p256" => Some(Algorithm::EcdsaP256),
            "ecdsa-p384" => Some(Algorithm::EcdsaP384),
            "ed25519" => Some(Algorithm::Ed25519),
            _ => None,
        }
    }

    fn signs_with(self) -> &'static SignatureAlgorithm {
        match self {
            Algorithm::EcdsaP256 => &PKCS_ECDSA_P256_SHA256,
            Algorithm::EcdsaP384 => &PKCS_ECDSA_P384_SHA384,
            Algorithm::Ed25519 => &PKCS_ED25519,
        }
    }
}

/// Carries out a plan. Returns all texts that are new, generated or restored; `held` are those of the Secret.
pub fn carry_out(plan: &Plan<'_>, held: &Texts, release: Release<'_>, now: SystemTime) -> Result<Texts, GenerateError> {
    let mut new = Texts::new();
    for (generator, fate) in &plan.fates {
        match fate {
            Fate::Keep => {}
            Fate::Restore(texts) => new.extend(texts.clone()),
            Fate::Generate | Fate::Rotate => {
                let text = |key: &str| new.get(key).or_else(|| held.get(key)).map(String::as_str);
                let made = generate(generator, release, now, text)?;
                new.extend(made);
            }
        }
    }
    Ok(new)
}

/// One new value. `known` tells the texts of others: an issuer signs with its key.
fn generate<'a>(
    generator: &Generator,
    release: Release<'_>,
    now: SystemTime,
    known: impl Fn(&str) -> Option<&'a str>,
) -> Result<Texts, GenerateError> {
    let texts = match &generator.rule {
        Rule::Text(rule) => vec![(Part::Text, random_text(rule)?)],
        Rule::KeyPair(algorithm) => {
            let pair = key_pair(*algorithm, &generator.name)?;
            vec![(Part::PrivateKey, pair.serialize_pem()), (Part::PublicKey, pair.public_key_pem())]
        }
        Rule::Certificate(rule) => certificate::generate(generator, rule, release, now, known)?,
    };
    Ok(texts.into_iter().map(|(part, text)| (generator.key(part), text)).collect())
}

pub(super) fn key_pair(algorithm: Algorithm, name: &str) -> Result<KeyPair, GenerateError> {
    let failed = |error: rcgen::Error| GenerateError::Crypto { name: name.to_owned(), why: error.to_string() };
    KeyPair::generate_for(algorithm.signs_with()).map_err(failed)
}

fn random_text(rule: &TextRule) -> Result<String, GenerateError> {
    let characters = rule.characters.as_bytes();
    let random = SystemRandom::new();
    let mut text = String::with_capacity(rule.length);
    // Bytes beyond the last whole multiple would make the first characters likelier than others.
    let most = 256 - 256 % characters.len();
    while text.len() < rule.length {
        let mut bytes = [0; 64];
        random.fill(&mut bytes).map_err(|_| GenerateError::NoRandomNumbers)?;
        let fair = bytes.iter().map(|byte| usize::from(*byte)).filter(|byte| *byte < most);
        text.extend(fair.take(rule.length - text.len()).map(|byte| char::from(characters[byte % characters.len()])));
    }
    Ok(text)
}

/// Values of the right shape, for renders whose output is used by nobody: the same for each call, and no secret.
pub fn stand_ins(generators: &[Generator]) -> Vec<Placed> {
    super::placed(generators, &stand_in_texts(generators))
}

/// The same as the Secret would hold them.
pub fn stand_in_texts(generators: &[Generator]) -> Texts {
    /// Made once: keys take time, and nobody looks at them.
    static PEM: OnceLock<[String; 3]> = OnceLock::new();
    let pem = || {
        PEM.get_or_init(|| {
            let pair = key_pair(Algorithm::default(), "stand-in").ok();
            let certificate = pair.as_ref().and_then(|pair| rcgen::CertificateParams::default().self_signed(pair).ok());
            [
                certificate.map(|it| it.pem()).unwrap_or_default(),
                pair.as_ref().map(KeyPair::serialize_pem).unwrap_or_default(),
                pair.as_ref().map(KeyPair::public_key_pem).unwrap_or_default(),
            ]
        })
    };
    let text = |generator: &Generator, part: Part| match (&generator.rule, part) {
        (Rule::Text(rule), _) => rule.characters.chars().cycle().take(rule.length).collect(),
        (_, Part::Certificate | Part::Authority) => pem()[0].clone(),
        (_, Part::PrivateKey) => pem()[1].clone(),
        (_, Part::PublicKey | Part::Text) => pem()[2].clone(),
    };
    let all = generators.iter().flat_map(|it| it.parts().iter().map(move |part| (it.key(*part), text(it, *part))));
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::super::rotation::Rotation;
    use super::super::tests::{generator, text};
    use super::*;
    use crate::generate::plan::Held;

    const RELEASE: Release<'_> = Release { name: "web", namespace: "shop" };

    fn made(generators: &[Generator], held: &Held, asked: &Rotation) -> Texts {
        carry_out(&Plan::of(generators, held, asked, None), &held.texts, RELEASE, SystemTime::now()).unwrap()
    }

    #[test]
    fn texts_have_their_length_and_their_characters_and_all_of_them_occur() {
        for (length, characters) in [(8, "0123456789"), (200, "ab-_"), (1024, ALPHANUMERIC)] {
            let rule = TextRule { length, characters: characters.to_owned() };
            let text = random_text(&rule).unwrap();
            assert!(text.len() == length && text.chars().all(|it| characters.contains(it)), "{text}");
            assert!(length < 200 || characters.chars().all(|it| text.contains(it)), "{text}");
        }
        let rule = TextRule::default();
        assert_ne!(random_text(&rule).unwrap(), random_text(&rule).unwrap());
    }

    #[test]
    fn key_pairs_are_pem_and_their_halves_belong_together() {
        for algorithm in [Algorithm::EcdsaP256, Algorithm::EcdsaP384, Algorithm::Ed25519] {
            let made = made(&[generator("k", Rule::KeyPair(algorithm), &[])], &Held::default(), &Rotation::default());
            assert!(made["k.key"].starts_with("-----BEGIN PRIVATE KEY-----\n"), "{algorithm:?}");
            assert_eq!(KeyPair::from_pem(&made["k.key"]).unwrap().public_key_pem(), made["k.pub"]);
        }
    }

    #[test]
    fn only_what_the_plan_says_is_new() {
        let generators = [text("a", "a"), text("b", "b"), text("c", "c")];
        let there = [("a".to_owned(), "x".to_owned()), ("b".to_owned(), "y".to_owned())];
        let held = Held { texts: there.into(), done: Some(Rotation::default()) };
        let asked = Rotation { each: [("b".to_owned(), "1".to_owned())].into(), ..Rotation::default() };
        assert_eq!(made(&generators, &held, &asked).into_keys().collect::<Vec<_>>(), ["b", "c"]);
    }

    #[test]
    fn stand_ins_have_all_parts_and_are_the_same_each_time() {
        let generators = [
            text("a", "a"),
            generator("k", Rule::KeyPair(Algorithm::Ed25519), &[]),
            generator("tls", Rule::Certificate(certificate::CertificateRule::default()), &[]),
        ];
        let texts = stand_in_texts(&generators);
        assert_eq!(texts.keys().collect::<Vec<_>>(), ["a", "k.key", "k.pub", "tls.crt", "tls.key"]);
        assert!(texts.values().all(|text| !text.is_empty()) && texts["a"].len() == LENGTH);
        assert_eq!(texts, stand_in_texts(&generators));
    }
}
