//! A record's Secret as it is watched: whose it is, where it is in its life, and our part of it.
//!
//! Helm's payload is most of a Secret, may hold anything that a user gave as a value, and says nothing here. It is skipped
//! while the answer is read.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::NamespaceResourceScope;
use kube::core::{ObjectMeta, Resource};
use serde::Deserialize;

use super::table::{Entry, Life, Part, Spot};
use crate::children::version;
use crate::release::{Own, Status, codec};

#[derive(Clone, Debug, Deserialize)]
pub struct RecordSecret {
    metadata: ObjectMeta,
    data: Option<Data>,
}

#[derive(Clone, Debug, Deserialize)]
struct Data {
    /// [`Own`], in base64.
    chartwright: Option<String>,
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

    pub fn entry(&self) -> Entry {
        let part = match self.spot().revision {
            0 => Part::Unreadable,
            _ => self.part(),
        };
        Entry { version: self.version(), life: Life::There(Status::parse(self.label("status")), part) }
    }

    fn part(&self) -> Part {
        let Some(text) = self.data.as_ref().and_then(|data| data.chartwright.as_ref()) else { return Part::Foreign };
        let own = STANDARD.decode(text).ok().and_then(|bytes| Own::from_bytes(&bytes).ok());
        own.map_or(Part::Unreadable, |own| Part::of(&own))
    }

    fn label(&self, key: &str) -> &str {
        self.metadata.labels.as_ref().and_then(|labels| labels.get(key)).map_or("", String::as_str)
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

    fn secret(name: &str, data: Value) -> RecordSecret {
        let labels = json!({"name": "web", "owner": "helm", "status": "deployed", "version": "3"});
        let metadata = json!({"name": name, "namespace": "here", "resourceVersion": "7", "labels": labels});
        serde_json::from_value(json!({"metadata": metadata, "data": data})).unwrap()
    }

    fn part(secret: &RecordSecret) -> Part {
        match secret.entry().life {
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
