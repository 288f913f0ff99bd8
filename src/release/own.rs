//! What only we need to know about a revision, in a data key of its own: `chartwright`.
//!
//! JSON with a format number, packed where it is long, so that a release may have thousands of objects. Fields that this
//! version does not know are tolerated. A newer format is an error: to read it as "no data" would turn our own release into
//! somebody else's.

use serde::{Deserialize, Serialize};

use super::budget::{self, Exceeded, Limits, OBJECTS, OWN, ReadError};
use super::gzip;
use crate::applyset;
use crate::drift::{Hash, Mark};
use crate::hooks;
use crate::object::{ObjectId, resource_name};

/// The format that this version writes, and the newest that it reads.
const FORMAT: u32 = 1;
/// What is shorter stays text, so that a person can read it with kubectl and base64.
pub(super) const PACKED_FROM: usize = 16 * 1024;

/// Our part of a record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Own {
    /// Of everything that went into the render.
    pub digest: String,
    pub owner: OwnerMark,
    /// What this revision applied, or is about to apply.
    #[serde(default)]
    pub objects: Vec<Applied>,
    /// What an earlier revision applied and an upgrade dropped, but kept in the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<ObjectId>,
    /// Where in its values the texts and numbers are that came from ConfigMaps and Secrets, as JSON pointers: nobody shows them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sourced: Vec<String>,
    /// Set where this revision stays although the custom resource says something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// What the custom resource last asked for about going back, and got: a revision, or 0 for none. It is not answered again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<u32>,
    /// Set where this revision failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<Trouble>,
    /// It was an install. Written where its description does not say so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_install: bool,
    /// It was made over objects of the release without a record to believe: it is an upgrade, although no revision stands before it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_rebuilt: bool,
    /// It follows a revision that was whole. Records before it may go, and the status says it without a signature.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_upgrade: bool,
    /// When everything was applied, in seconds since 1970 on the API server's clock, if there was a deadline then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_at: Option<i64>,
    /// It was seen ready within its deadline, so the deadline is over. Not written where there is none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub was_ready: bool,
    /// What the chart has in crds/: it is never removed, also where it was among the templates before. The manifest does not tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shipped: Vec<ObjectId>,
    /// Hooks that were begun, while the revision is on its way or goes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<hooks::Mark>,
    /// All objects were applied and pruned, and only hooks are still to come. Written only where there are some.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_applied: bool,
    /// The revision was deployed. The status of a record says so too, but no signature covers that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub was_deployed: bool,
}

/// The custom resource that the release belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OwnerMark {
    pub group: String,
    pub kind: String,
    /// None for a cluster-scoped resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
    pub uid: String,
}

impl OwnerMark {
    /// As `kubectl get -o name` prints it, for messages about another resource than that on which the message is.
    pub fn resource_name(&self) -> String {
        resource_name(&self.group, &self.kind, &self.name)
    }

    /// The same for every life of the resource, and short enough for a label.
    pub fn id(&self) -> String {
        applyset::id_of(&self.name, self.namespace.as_deref(), &self.kind, &self.group)
    }

    /// Whether both are the same resource by name, and one was deleted and made again, or restored from a backup.
    pub fn is_another_life_of(&self, other: &OwnerMark) -> bool {
        self.is_same_resource(other) && self.uid != other.uid
    }

    /// Whether both are the same resource by name. After a restore from backup it has another UID.
    pub fn is_same_resource(&self, other: &OwnerMark) -> bool {
        (&self.group, &self.kind, &self.namespace, &self.name)
            == (&other.group, &other.kind, &other.namespace, &other.name)
    }
}

/// An object of a revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Applied {
    pub id: ObjectId,
    /// None until the apply was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// What the apply left. Another one means that somebody changed the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<Mark>,
    /// The chart gives a number of replicas.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wants_replicas: bool,
    /// An autoscaler had it at the apply, so the number of replicas is not the chart's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replicas_left: bool,
    /// What becomes of it after the apply is nobody's business.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_left_alone: bool,
    /// It was there before the release, and nobody's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_adopted: bool,
    /// Fields that the apply did not get its way with: an admission webhook decided otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overruled: Vec<String>,
}

impl Applied {
    pub fn new(id: ObjectId, uid: Option<String>) -> Self {
        Applied {
            id,
            uid,
            mark: None,
            wants_replicas: false,
            replicas_left: false,
            is_left_alone: false,
            is_adopted: false,
            overruled: vec![],
        }
    }
}

/// A revision that stays although the custom resource says something else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The one that was gone back to, as far as anybody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u32>,
    /// The hold ends when the digest is no longer this one.
    pub digest: String,
    pub by: HeldBy,
    /// What failed, where that is the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// Who decided that an earlier revision is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HeldBy {
    /// A person with helm.
    Helm,
    /// An annotation of the custom resource.
    Request,
    /// The operator, since a newer revision failed.
    Failure,
}

/// How a revision failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// How often it was tried to apply it.
    #[serde(default)]
    pub attempts: u32,
    /// A category of errors, in words.
    pub reason: String,
    pub message: String,
    /// What the custom resource's annotations were: others ask for another try.
    #[serde(default)]
    pub asked: Hash,
    /// It was applied, but did not become ready in time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_late: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum OwnError {
    #[error("its `chartwright` data is not what this operator writes ({0})")]
    Syntax(serde_json::Error),
    #[error("its `chartwright` data cannot be unpacked ({0})")]
    Gzip(std::io::Error),
    #[error("its `chartwright` data exceeds a limit of this operator: {0}")]
    Exceeded(Exceeded),
    #[error(
        "its `chartwright` data has format {0} and this operator reads up to {FORMAT}; a newer version wrote it, so run that one"
    )]
    NewerFormat(u32),
}

#[derive(Deserialize)]
struct Version {
    format: u32,
}

#[derive(Serialize)]
struct Versioned<'a> {
    format: u32,
    #[serde(flatten)]
    own: &'a Own,
}

impl Own {
    /// As it is stored.
    pub fn to_bytes(&self) -> Vec<u8> {
        let json = self.to_json();
        match json.len() > PACKED_FROM {
            true => gzip::pack(&json),
            false => json,
        }
    }

    /// As it is where somebody else packs it.
    pub fn to_json(&self) -> Vec<u8> {
        let json = serde_json::to_vec(&Versioned { format: FORMAT, own: self });
        json.expect("strings, numbers and lists under string keys are JSON")
    }

    /// Reads both. The format is looked at first: a newer one may differ in everything else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, OwnError> {
        Own::within(bytes, &OWN).map(|(own, _)| own)
    }

    /// The same, with how much was read.
    pub(super) fn within(bytes: &[u8], limits: &'static Limits) -> Result<(Self, usize), OwnError> {
        let version: Version = budget::read(bytes, limits)?;
        if version.format > FORMAT {
            return Err(OwnError::NewerFormat(version.format));
        }
        let (own, counted): (Own, usize) = budget::read_counted(bytes, limits)?;
        let lists = [own.objects.len(), own.kept.len(), own.shipped.len(), own.hooks.len()];
        match lists.iter().any(|length| *length > OBJECTS) {
            true => Err(OwnError::Exceeded(Exceeded::Objects)),
            // The format was read first.
            false => Ok((own, 2 * counted)),
        }
    }
}

impl From<ReadError> for OwnError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Exceeded(exceeded) => OwnError::Exceeded(exceeded),
            ReadError::Broken(error) => OwnError::Gzip(error),
            ReadError::Json(error) => OwnError::Syntax(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: &str = r#""owner": {"group": "g", "kind": "K", "name": "n", "uid": "u"}"#;

    #[test]
    fn fields_of_a_later_version_are_tolerated() {
        let text = format!(r#"{{"format": 1, "digest": "d", {OWNER}, "later": [1]}}"#);
        assert_eq!(Own::from_bytes(text.as_bytes()).unwrap().digest, "d");
    }

    #[test]
    fn a_newer_format_is_an_error_that_says_what_to_do() {
        let error = Own::from_bytes(br#"{"format": 2, "digest": ["changed"]}"#).unwrap_err();
        assert_eq!(
            error.to_string(),
            "its `chartwright` data has format 2 and this operator reads up to 1; a newer version wrote it, so run that one"
        );
    }

    #[test]
    fn garbage_is_an_error() {
        for garbage in ["", "{}", "[]", "null", r#"{"format": "1"}"#, r#"{"format": 1}"#] {
            assert!(matches!(Own::from_bytes(garbage.as_bytes()), Err(OwnError::Syntax(_))), "{garbage}");
        }
        let broken = &gzip::pack(b"{}")[..10];
        let bomb = gzip::pack(&vec![b' '; OWN.bytes as usize + 1]);
        for (garbage, reason) in [(broken, "cannot be unpacked"), (&bomb, "it is more than 4 MiB when unpacked")] {
            let message = Own::from_bytes(garbage).unwrap_err().to_string();
            assert!(message.starts_with("its `chartwright` data ") && message.contains(reason), "{message}");
        }
        assert!(matches!(Own::from_bytes(&gzip::pack(b"[]")), Err(OwnError::Syntax(_))));
    }

    #[test]
    fn what_lists_too_much_is_refused() {
        let with =
            |text: &str| Own::from_bytes(format!(r#"{{"format": 1, "digest": "d", {OWNER}, {text}}}"#).as_bytes());
        let many = |item: &str, count: usize| vec![item; count].join(",");
        let object = r#"{"id":{"group":"","version":"","kind":"","namespace":null,"name":""}}"#;
        let cases = [
            (format!(r#""objects": [{}]"#, many(object, OBJECTS)), None),
            (format!(r#""objects": [{}]"#, many(object, OBJECTS + 1)), Some(Exceeded::Objects)),
            (format!(r#""sourced": [{}]"#, many(r#""""#, OWN.items)), Some(Exceeded::Items(OWN.items))),
            (format!(r#""later": {}{}"#, "[".repeat(40), "]".repeat(40)), Some(Exceeded::Depth(OWN.depth))),
        ];
        for (text, wanted) in cases {
            let exceeded = match with(&text) {
                Ok(_) => None,
                Err(OwnError::Exceeded(exceeded)) => Some(exceeded),
                Err(other) => panic!("{other}"),
            };
            assert_eq!(exceeded, wanted, "{}", &text[..20]);
        }
    }

    /// So many objects after their apply, with UIDs and marks as random as in a cluster.
    fn applied(count: u32) -> Own {
        let object = |n: u32| {
            let hash = ring::digest::digest(&ring::digest::SHA256, &n.to_be_bytes());
            let hex: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
            let id = ObjectId {
                group: String::new(),
                version: "v1".into(),
                kind: "ConfigMap".into(),
                namespace: Some("default".into()),
                name: format!("web-settings-{n}"),
            };
            let uid = format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..32]);
            let mark = u64::from_str_radix(&hex[32..48], 16).unwrap();
            let rules = crate::drift::Hash(0);
            let mark =
                Mark { at: 1_800_000_000 + i64::from(n / 40), hash: crate::drift::Hash(mark), rules, replicas: true };
            Applied { mark: Some(mark), wants_replicas: true, ..Applied::new(id, Some(uid)) }
        };
        Own { digest: "d".into(), objects: (0..count).map(object).collect(), ..Own::default() }
    }

    #[test]
    fn the_marks_of_thousands_of_objects_fit_a_secret() {
        let own = applied(3000);
        let bytes = own.to_bytes();
        assert!(own.to_json().len() > 700_000 && bytes.len() < 200_000, "{}, {}", own.to_json().len(), bytes.len());
        assert_eq!(Own::from_bytes(&bytes).unwrap(), own);
    }

    #[test]
    fn what_is_short_is_text_that_a_person_can_read() {
        assert!(applied(10).to_bytes().starts_with(b"{\"format\":1,"));
        assert_eq!(Own::from_bytes(&applied(10).to_bytes()).unwrap(), applied(10));
    }

    #[test]
    fn no_apply_makes_a_record_larger_than_was_reserved_for_it() {
        for count in [1, 20, 60, 64, 65, 100, 250, 500, 3000] {
            let after = applied(count);
            let unanswered = |object: &Applied| Applied::new(object.id.clone(), None);
            let before = Own { objects: after.objects.iter().map(unanswered).collect(), ..after.clone() };
            let reserved = before.to_bytes().len() + super::super::codec::reserve(before.objects.iter());
            assert!(after.to_bytes().len() <= reserved, "{count}: {} of {reserved}", after.to_bytes().len());
        }
    }
}
