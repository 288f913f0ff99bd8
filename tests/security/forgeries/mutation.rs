//! Random forgeries of release records, all from one seed.

use std::collections::BTreeMap;

use chartwright::applyset::PART_OF;
use chartwright::object::ObjectId;
use chartwright::plan::RELEASE_LABEL;
use chartwright::release::codec::{OWNER_LABEL, decode, encode, secret_name};
use chartwright::release::{Applied, HeldBy, Hold, HookRecord, Own, OwnerMark, Release, Status};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use k8s_openapi::jiff::Timestamp;
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use crate::harness::annotated;
use crate::harness::chance::Random;
use crate::harness::forging::{LARGEST_SECRET, noise};

/// What the data key and the labels of a signature are called.
const SIGNATURE: &str = "chartwright.sig";
const LABELS: [&str; 5] = [
    "chartwright.dev/digest",
    "chartwright.dev/owner",
    "chartwright.dev/signature-1",
    "chartwright.dev/signature-2",
    "status",
];
/// Nobody removes it by himself.
const FINALIZER: &str = "example.com/stay";
const RBAC: &str = "rbac.authorization.k8s.io";

/// What a forgery aims at.
pub struct Targets {
    /// The namespace that the forger may write in.
    pub namespace: String,
    /// One that the forger may not write in.
    pub neighbour: String,
    /// Objects outside of the namespace that exist and belong to others.
    pub precious: Vec<(ObjectId, String)>,
}

impl Targets {
    /// Objects that the chart has no way to make.
    fn evil_objects(&self) -> Vec<Value> {
        let subjects = json!([{"kind": "ServiceAccount", "name": "default", "namespace": self.namespace}]);
        let admin = json!({"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"});
        let (api_version, evil) = (format!("{RBAC}/v1"), format!("{}-evil", self.namespace));
        let mut objects = vec![
            json!({"apiVersion": api_version, "kind": "ClusterRoleBinding", "metadata": {"name": evil},
                "roleRef": admin, "subjects": subjects}),
            json!({"apiVersion": api_version, "kind": "RoleBinding", "metadata": {"name": "evil"},
                "roleRef": admin, "subjects": subjects}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "evil"}, "data": {"evil": "yes"}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"evil": "yes"},
                "metadata": {"name": "evil", "namespace": self.neighbour}}),
        ];
        for (id, _) in &self.precious {
            objects.push(json!({"apiVersion": api_version_of(id), "kind": id.kind, "data": {"evil": "yes"},
                "metadata": {"name": id.name, "namespace": id.namespace}}));
        }
        // Those that the chart makes, with more in them.
        let everything = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
        for number in 0..4 {
            let name = format!("{}-web-{number}", self.namespace);
            objects.push(json!({"apiVersion": api_version, "kind": "ClusterRole", "metadata": {"name": name},
                "rules": everything}));
        }
        objects
    }
}

pub fn api_version_of(id: &ObjectId) -> String {
    match id.group.as_str() {
        "" => id.version.clone(),
        group => format!("{group}/{}", id.version),
    }
}

/// What becomes of a record.
pub enum Forgery {
    Create(Box<Secret>),
    Replace(Box<Secret>),
    Delete(String),
}

/// Forges a record of `release`. `present` are its records, `known` are all that were ever seen, of other releases too.
/// Returns the steps and what was done, in words.
pub fn forge(
    random: &mut Random,
    targets: &Targets,
    release: &str,
    present: &[Secret],
    known: &[Secret],
) -> (Vec<Forgery>, String) {
    let newest = present.iter().filter_map(|secret| decode(secret).ok()).map(|it| it.revision).max().unwrap_or(1);
    let readable: Vec<&Secret> = present.iter().filter(|secret| decode(secret).is_ok()).collect();
    let (original, mut words) = if random.one_in(3) || readable.is_empty() {
        (random.pick(known).clone(), vec!["old or foreign record"])
    } else {
        ((*random.pick(&readable)).clone(), vec!["record of the release"])
    };
    if random.one_in(8) {
        words.push("replayed as it was");
        return (placed(original, present, random, &mut words), words.join(", "));
    }
    let mut record = decode(&original).expect("only records that can be read are known");
    record.name = release.to_owned();
    record.namespace = targets.namespace.clone();
    record.revision = match random.below(8) {
        0 | 1 => newest.saturating_add(1),
        2 => newest.saturating_add(2 + random.below(50) as u32),
        3 => 1 + random.below(newest as usize) as u32,
        4 => *random.pick(&[0, 999_999_999, 1_000_000_000, 1_000_000_001, i32::MAX as u32, u32::MAX]),
        _ => record.revision,
    };
    // What nothing vouches for is read as claimed; a forger writes it as ours.
    record.own = record.own.take().or(record.claimed.take().map(|own| *own));
    for _ in 0..1 + random.below(3) {
        words.push(change(random, targets, &mut record));
    }
    record.stored = Default::default();
    let Ok(mut secret) = encode(&record, Timestamp::now()) else {
        words.push("too large to be written");
        return (vec![], words.join(", "));
    };
    words.push(disguise(random, &mut secret, &original));
    if random.one_in(3) {
        words.push(tie(random, targets, &mut secret, known));
    }
    (placed(secret, present, random, &mut words), words.join(", "))
}

/// Changes what the record says.
fn change(random: &mut Random, targets: &Targets, record: &mut Release) -> &'static str {
    let evil = random.pick(&targets.evil_objects()).clone();
    match random.below(13) {
        0 | 1 => {
            record.manifest = format!("{}---\n{evil}\n", record.manifest.read()).into();
            "object added"
        }
        2 => {
            record.manifest = format!("---\n# Source: app/crds/x.yaml\n{evil}\n").into();
            "manifest replaced"
        }
        3 => {
            record.manifest = String::new().into();
            "manifest emptied"
        }
        4 => {
            let (objects, held) = (&targets.precious, own(record));
            held.objects.extend(objects.iter().map(|(id, uid)| Applied::new(id.clone(), Some(uid.clone()))));
            held.kept.extend(objects.iter().map(|(id, _)| id.clone()));
            "objects of others in the inventory"
        }
        5 => {
            own(record).objects.clear();
            "inventory emptied"
        }
        6 => {
            let events = ["pre-install", "pre-upgrade", "post-upgrade", "pre-rollback", "pre-delete", "post-delete"];
            record.hooks.push(HookRecord {
                name: "evil".into(),
                kind: evil["kind"].as_str().unwrap_or_default().to_owned(),
                path: "app/templates/evil.yaml".into(),
                // Without the annotation no reader takes it for a hook.
                manifest: annotated(evil.clone(), json!({"helm.sh/hook": events.join(",")})).to_string().into(),
                events: events.map(str::to_owned).to_vec(),
                ..Default::default()
            });
            "hook added"
        }
        7 => {
            let held = own(record);
            held.owner.uid = if random.one_in(2) { "forged".into() } else { String::new() };
            "owner changed"
        }
        8 => {
            own(record).owner.name = format!("web-{}", random.below(4));
            "owner of another name"
        }
        9 => {
            record.status = *random.pick(&Status::ALL);
            "status changed"
        }
        10 => {
            let digest = own(record).digest.clone();
            own(record).hold = Some(Hold { to: Some(1), digest, by: HeldBy::Helm, failed: None });
            "held"
        }
        11 => {
            // As packed text and in base64, a letter takes a byte.
            let letters = LARGEST_SECRET - 48 * 1024 - random.below(16 * 1024);
            record.manifest = format!("{}# {}\n", record.manifest.read(), noise(letters)).into();
            "almost too large"
        }
        _ => {
            let count = 1 + random.below(30_000);
            let one = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: evil}\n";
            record.manifest = format!("{}{}", record.manifest.read(), one.repeat(count)).into();
            "very many objects"
        }
    }
}

fn own(record: &mut Release) -> &mut Own {
    record.own.get_or_insert_with(Own::default)
}

/// Gives a forged Secret the marks of a real one, or some of them.
fn disguise(random: &mut Random, secret: &mut Secret, original: &Secret) -> &'static str {
    let theirs = original.metadata.labels.clone().unwrap_or_default();
    let labels = secret.metadata.labels.get_or_insert_default();
    let (signature, own) = (data(original, SIGNATURE), data(original, "chartwright"));
    let held = secret.data.get_or_insert_default();
    match random.below(6) {
        0 => "unsigned",
        1 => {
            labels.extend(LABELS.iter().filter_map(|key| Some(((*key).to_owned(), theirs.get(*key)?.clone()))));
            held.extend(signature.map(|it| (SIGNATURE.to_owned(), it)));
            "with labels and signature of a real one"
        }
        2 => {
            labels.extend(LABELS.iter().filter_map(|key| Some(((*key).to_owned(), theirs.get(*key)?.clone()))));
            held.remove("chartwright");
            "as helm rewrites it, with the labels of a real one"
        }
        3 => {
            held.extend(signature.map(|it| (SIGNATURE.to_owned(), it)));
            held.extend(own.map(|it| ("chartwright".to_owned(), it)));
            "with our part and signature of a real one"
        }
        4 => {
            for key in ["release", "chartwright", SIGNATURE] {
                if let Some(ByteString(bytes)) = held.get_mut(key)
                    && !bytes.is_empty()
                {
                    let at = random.below(bytes.len());
                    bytes[at] ^= 1 << random.below(8);
                }
            }
            "with flipped bits"
        }
        _ => {
            labels.insert("status".into(), random.pick(&Status::ALL).as_str().into());
            labels.insert("version".into(), random.below(1000).to_string());
            held.extend(signature.map(|it| (SIGNATURE.to_owned(), it)));
            "with labels that disagree"
        }
    }
}

/// Changes whose the Secret itself is, and how long it stays.
fn tie(random: &mut Random, targets: &Targets, secret: &mut Secret, known: &[Secret]) -> &'static str {
    let owner = decode(random.pick(known)).ok().and_then(|record| record.own).map(|own| own.owner);
    let metadata = &mut secret.metadata;
    match (random.below(4), owner.filter(|owner| !owner.uid.is_empty())) {
        (0, _) => {
            metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
            "with a finalizer"
        }
        // The API server refuses an owner without a kind.
        (1, Some(OwnerMark { group, kind, name, uid, .. })) if ![&kind, &name, &uid].iter().any(|it| it.is_empty()) => {
            let api_version = format!("{group}/v1");
            metadata.owner_references = Some(vec![OwnerReference {
                api_version,
                kind,
                name,
                uid,
                controller: Some(true),
                ..Default::default()
            }]);
            "owned by a custom resource"
        }
        (2, Some(owner)) => {
            let mark = if random.one_in(2) { owner.uid.clone() } else { owner.id() };
            let labels = metadata.labels.get_or_insert_default();
            labels.extend([OWNER_LABEL, PART_OF].map(|key| (key.to_owned(), mark.clone())));
            labels.insert(RELEASE_LABEL.to_owned(), owner.name);
            "with marks of another owner"
        }
        _ => {
            let (id, uid) = random.pick(&targets.precious).clone();
            let (api_version, kind, name) = (api_version_of(&id), id.kind, id.name);
            metadata.owner_references =
                Some(vec![OwnerReference { api_version, kind, name, uid, ..Default::default() }]);
            "owned by an object of others"
        }
    }
}

fn data(secret: &Secret, key: &str) -> Option<ByteString> {
    secret.data.as_ref()?.get(key).cloned()
}

/// Creates the record, or replaces the one of its name. Now and then the newest one goes first.
fn placed(mut secret: Secret, present: &[Secret], random: &mut Random, words: &mut Vec<&'static str>) -> Vec<Forgery> {
    let ObjectMeta { name, labels, owner_references, finalizers, .. } = secret.metadata;
    secret.metadata = ObjectMeta { name: name.clone(), labels, owner_references, finalizers, ..Default::default() };
    let mut steps = vec![];
    if random.one_in(6)
        && let Some(newest) = newest_of(present)
    {
        words.push("newest one deleted");
        steps.push(Forgery::Delete(newest.clone()));
        if Some(&newest) == name.as_ref() {
            steps.push(Forgery::Create(Box::new(secret)));
            return steps;
        }
    }
    match present.iter().any(|it| it.metadata.name == name) {
        true => steps.push(Forgery::Replace(Box::new(secret))),
        false => steps.push(Forgery::Create(Box::new(secret))),
    }
    steps
}

fn newest_of(present: &[Secret]) -> Option<String> {
    let by_revision: BTreeMap<u32, String> = present
        .iter()
        .filter_map(|secret| decode(secret).ok())
        .map(|record| (record.revision, secret_name(&record.name, record.revision)))
        .collect();
    by_revision.into_values().next_back()
}
