//! A record's Secret as it is watched: whose it is, where it is in its life, and our part of it.
//!
//! Helm's payload is most of a Secret, may hold anything that a user gave as a value, and says nothing here. It is skipped
//! while the answer is read.

use std::borrow::Cow;
use std::fmt;
use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::NamespaceResourceScope;
use kube::core::{ObjectMeta, Resource};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

use super::table::{Entry, Life, Part, Spot};
use crate::children::version;
use crate::release::{Own, Signer, Status, codec, proof};
use crate::watching::Salvage;

#[derive(Clone, Debug, Deserialize)]
pub struct RecordSecret {
    metadata: ObjectMeta,
    data: Option<Data>,
    /// Only the metadata could be read.
    #[serde(skip)]
    is_unreadable: bool,
    /// Our part, once it was read.
    #[serde(skip)]
    part: OnceLock<Part>,
}

/// In base64. What is longer takes a while to read.
const LARGE: usize = 16 * 1024;

#[derive(Clone, Debug, Deserialize)]
struct Data {
    /// [`Own`], in base64.
    chartwright: Option<String>,
    /// In base64.
    #[serde(rename = "chartwright.sig")]
    signature: Option<String>,
    release: Option<Digested>,
}

/// The hash of a data key, whose content is not kept.
#[derive(Clone, Copy, Debug)]
struct Digested(proof::Hash);

impl<'de> Deserialize<'de> for Digested {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = Digested;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("base64")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Digested, E> {
                // What is not base64 has no signature that fits.
                Ok(Digested(proof::hash(&STANDARD.decode(text).unwrap_or_default())))
            }
        }

        deserializer.deserialize_str(Text)
    }
}

impl RecordSecret {
    /// Which record it is. The label names the release, since Helm and we look for records by it; the Secret's name says
    /// which revision. Where the two do not agree, the revision is 0, which Helm never gives.
    pub fn spot(&self) -> Spot {
        let release = self.label("name");
        let name = self.metadata.name.as_deref().unwrap_or_default();
        Spot {
            namespace: self.metadata.namespace.as_deref().unwrap_or_default().into(),
            release: release.into(),
            revision: codec::revision_of(name, release).unwrap_or_default(),
        }
    }

    pub fn version(&self) -> u64 {
        version(&self.metadata)
    }

    pub fn entry(&self, signer: &Signer) -> Entry {
        let part = match self.spot().revision {
            0 => Part::Unreadable,
            _ => self.part(signer).clone(),
        };
        Entry { version: self.version(), life: Life::There(Status::parse(self.label("status")), part) }
    }

    /// Whether our part takes a while to read.
    pub fn is_large(&self) -> bool {
        let text = self.data.as_ref().and_then(|data| data.chartwright.as_ref());
        self.part.get().is_none() && text.is_some_and(|text| text.len() > LARGE)
    }

    /// The same with our part read, and in no other form.
    pub fn with_part_read(mut self, signer: &Signer) -> Self {
        self.part(signer);
        self.data = None;
        self
    }

    fn part(&self, signer: &Signer) -> &Part {
        self.part.get_or_init(|| match self.is_unreadable {
            true => Part::Unreadable,
            false => self.read_part(signer),
        })
    }

    /// Our part, if its signature fits. What is not signed is nobody's until somebody reads the record.
    fn read_part(&self, signer: &Signer) -> Part {
        let Some(data) = &self.data else { return Part::Foreign };
        let Some(text) = &data.chartwright else { return Part::Foreign };
        let Ok(bytes) = STANDARD.decode(text) else { return Part::Unreadable };
        let signature = data.signature.as_ref().and_then(|text| STANDARD.decode(text).ok());
        let spot = self.spot();
        let subject = proof::Subject { namespace: &spot.namespace, release: &spot.release, revision: spot.revision };
        let packed = data.release.map(|digested| digested.0).unwrap_or_default();
        if !signer.verify_own(subject, &bytes, &packed, signature.as_deref()) {
            return Part::Foreign;
        }
        Own::from_bytes(&bytes).map_or(Part::Unreadable, |own| Part::of(&own))
    }

    fn label(&self, key: &str) -> &str {
        self.metadata.labels.as_ref().and_then(|labels| labels.get(key)).map_or("", String::as_str)
    }
}

/// A record that cannot be read is never an absent one.
impl Salvage for RecordSecret {
    fn salvaged(metadata: ObjectMeta) -> Self {
        RecordSecret { metadata, data: None, is_unreadable: true, part: OnceLock::new() }
    }
}

impl Resource for RecordSecret {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(_: &()) -> Cow<'_, str> {
        "Secret".into()
    }

    fn group(_: &()) -> Cow<'_, str> {
        "".into()
    }

    fn version(_: &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural(_: &()) -> Cow<'_, str> {
        "secrets".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::release::gzip;

    fn secret(name: &str, data: Value) -> RecordSecret {
        let labels = json!({"name": "web", "owner": "helm", "status": "deployed", "version": "3"});
        let metadata = json!({"name": name, "namespace": "here", "resourceVersion": "7", "labels": labels});
        serde_json::from_value(json!({"metadata": metadata, "data": data})).unwrap()
    }

    fn part(secret: &RecordSecret) -> Part {
        match secret.entry(&Signer::default()).life {
            Life::There(Status::Deployed, part) => part,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_record_of_ours_keeps_our_part_and_nothing_of_helms() {
        // The second is long enough to be packed.
        for digest in ["d".to_owned(), "d".repeat(20_000)] {
            let own = Own { digest, ..Own::default() };
            let ours = secret(
                "sh.helm.release.v1.web.v3",
                json!({"release": "bm90IGhlbG0ncw==", "chartwright": STANDARD.encode(own.to_bytes())}),
            );
            assert_eq!(ours.spot(), Spot { namespace: "here".into(), release: "web".into(), revision: 3 });
            assert_eq!((ours.version(), part(&ours).own()), (7, Some(own)));
        }
    }

    #[test]
    fn our_part_is_read_within_limits_and_held_in_one_form() {
        let spaces = gzip::pack(&vec![b' '; 5 << 20]);
        let many = format!(r#"{{"format": 1, "digest": "d", "sourced": [{}]}}"#, vec!["\"\""; 400_001].join(","));
        for bomb in [spaces, gzip::pack(many.as_bytes())] {
            let hostile = secret("sh.helm.release.v1.web.v3", json!({"chartwright": STANDARD.encode(bomb)}));
            assert_eq!(part(&hostile), Part::Unreadable);
        }
        let own = Own { digest: "d".repeat(20_000), ..Own::default() };
        let large = secret("sh.helm.release.v1.web.v3", json!({"chartwright": STANDARD.encode(own.to_json())}));
        assert!(large.is_large());
        let read = large.with_part_read(&Signer::default());
        assert!(!read.is_large() && read.data.is_none());
        assert_eq!(part(&read).own(), Some(own));
    }

    #[test]
    fn of_a_secret_that_nests_too_deeply_the_record_is_known_and_unreadable() {
        let deep = format!("{}1{}", r#"{"a":"#.repeat(200), "}".repeat(200));
        let text = format!(
            r#"{{"metadata": {{"name": "sh.helm.release.v1.web.v3", "namespace": "here", "labels": {{"name": "web", "status": "deployed"}}, "managedFields": [{{"fieldsV1": {deep}}}]}}}}"#
        );
        assert!(serde_json::from_str::<RecordSecret>(&text).is_err());
        let left: Value = json!({"name": "sh.helm.release.v1.web.v3", "namespace": "here", "labels": {"name": "web", "status": "deployed"}});
        assert_eq!(part(&RecordSecret::salvaged(serde_json::from_value(left).unwrap())), Part::Unreadable);
    }

    #[test]
    fn what_cannot_be_read_is_neither_ours_nor_foreign() {
        let name = "sh.helm.release.v1.web.v3";
        assert_eq!(part(&secret(name, json!({"release": ""}))), Part::Foreign);
        assert_eq!(part(&secret(name, Value::Null)), Part::Foreign);
        let newer = STANDARD.encode(r#"{"format": 99}"#);
        for text in ["?", "", newer.as_str()] {
            assert_eq!(part(&secret(name, json!({"chartwright": text}))), Part::Unreadable, "{text}");
        }
        for misnamed in ["sh.helm.release.v1.other.v3", "sh.helm.release.v1.web.v03", "web"] {
            assert_eq!(part(&secret(misnamed, json!({"release": ""}))), Part::Unreadable, "{misnamed}");
        }
    }
}
