//! Release records that are made to hurt.
//!
//! gzip may have several parts, so what is huge is packed once: `{"name": …, "version": …,` comes first, and the same rest after
//! each of these.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::{StreamExt, stream};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PostParams};
use kube::core::ObjectMeta;

use crate::harness::forging::{LARGEST_SECRET, noise};
use crate::harness::{Operator, Project, until_within};

/// Custom resources, and so releases, that somebody writes records of.
pub fn victims(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("victim-{number}")).collect()
}

/// Where a record is written.
#[derive(Clone)]
enum Whose {
    Victim(String),
    /// A release of a namespace without custom resources.
    Nobody(String),
}

#[derive(Clone)]
pub struct Record {
    whose: Whose,
    revision: u32,
    status: &'static str,
    /// What follows after the name and the version, packed.
    rest: Arc<Vec<u8>>,
    own: Option<Arc<Vec<u8>>>,
    /// Whether noise makes it as large as a Secret may be.
    is_filled: bool,
}

fn packed(text: &str) -> Arc<Vec<u8>> {
    packed_with(text, Compression::fast())
}

fn packed_with(text: &str, compression: Compression) -> Arc<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), compression);
    encoder.write_all(text.as_bytes()).unwrap();
    Arc::new(encoder.finish().unwrap())
}

/// The end of a record, with this among its members.
fn rest(status: &str, member: &str) -> Arc<Vec<u8>> {
    packed(&format!(
        r#""info": {{"status": "{status}"}}, "chart": {{"metadata": {{"name": "app", "version": "0.1.0"}}}}, {member}}}"#
    ))
}

fn repeated(item: &str, count: usize) -> String {
    let mut text = item.repeat(count);
    // Without the last comma.
    text.pop();
    text
}

fn own_of(lists: &str) -> String {
    format!(
        r#"{{"format": 1, "digest": "d", "owner": {{"group": "g", "kind": "K", "name": "n", "uid": "u"}}, {lists}}}"#
    )
}

/// Fifty, of several shapes, each as large as a Secret may be. Most of them unpack to far more.
pub fn fifty(victims: &[String]) -> Vec<Record> {
    const MIB: usize = 1024 * 1024;
    let data = "a".repeat(60 * MIB);
    let just_fits = "x".repeat(15 * MIB);
    let rests = [
        rest("deployed", &format!(r#""manifest": "{data}""#)),
        rest(
            "failed",
            &format!(
                r#""manifest": "kind: ConfigMap\napiVersion: v1\nmetadata: {{name: x}}\ndata: {{x: {just_fits}}}""#
            ),
        ),
        rest("deployed", &format!(r#""later": [{}]"#, repeated("1,", 20 * MIB))),
        rest("failed", &format!(r#""config": {{"a": [{}]}}"#, repeated("{},", 10 * MIB))),
        rest("deployed", &format!(r#""config": {}1{}"#, r#"{"a":"#.repeat(MIB), "}".repeat(MIB))),
        rest("failed", &format!(r#""hooks": [{}]"#, repeated("{},", 8 * MIB))),
        rest("failed", &format!(r#""manifest": "data: [{}]""#, repeated("1,", 7 * MIB))),
        rest("failed", &format!(r#""manifest": "{}""#, noise(750_000))),
    ];
    let objects = r#"{"id":{"group":"","version":"v1","kind":"A","namespace":null,"name":""}},"#;
    let owns = [
        packed(&own_of(&format!(r#""objects": [{}]"#, repeated(objects, 800_000)))),
        packed(&own_of(&format!(r#""sourced": [{}]"#, repeated("\"\",", 16 * MIB)))),
        Arc::new(own_of(&format!(r#""sourced": [{}]"#, repeated("\"\",", 200_000))).into_bytes()),
        Arc::new(own_of(&format!(r#""later": {}{}"#, "[".repeat(300_000), "]".repeat(300_000))).into_bytes()),
    ];
    let plain = rest("deployed", r#""manifest": """#);
    let mut records = vec![];
    for number in 0..30_usize {
        let rest = rests[number % rests.len()].clone();
        let whose = match number % 3 {
            0 => Whose::Nobody(format!("quiet-{number}")),
            _ => Whose::Victim(victims[number % victims.len()].clone()),
        };
        let status = if number % 2 == 0 { "deployed" } else { "failed" };
        records.push(Record { whose, revision: 2 + number as u32, status, rest, own: None, is_filled: true });
    }
    for number in 30..50_usize {
        let own = Some(owns[number % owns.len()].clone());
        let whose = match number % 2 {
            0 => Whose::Nobody(format!("quiet-{number}")),
            _ => Whose::Victim(victims[number % victims.len()].clone()),
        };
        let rest = plain.clone();
        records.push(Record { whose, revision: 2 + number as u32, status: "deployed", rest, own, is_filled: true });
    }
    records
}

/// Records that make work: for three custom resources very many objects, for the fourth very many revisions.
pub fn many_objects(victims: &[String]) -> Vec<Record> {
    let one = r"---\n{apiVersion: v1, kind: A, metadata: {name: a}}\n";
    let numbered = |count: usize| -> String {
        (0..count).map(|it| format!(r"---\n{{apiVersion: v1, kind: ConfigMap, metadata: {{name: c{it}}}}}\n")).collect()
    };
    let listed = |count: usize| -> String {
        let items: String =
            (0..count).map(|it| format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: c{it}}}}},")).collect();
        format!("{{apiVersion: v1, kind: List, items: [{items}]}}")
    };
    let manifests = [one.repeat(150_000), numbered(19_000), listed(60_000)];
    let mut records: Vec<Record> = manifests
        .iter()
        .enumerate()
        .map(|(number, manifest)| Record {
            whose: Whose::Victim(victims[number].clone()),
            revision: 2,
            status: "failed",
            rest: rest("failed", &format!(r#""manifest": "{manifest}""#)),
            own: None,
            is_filled: false,
        })
        .collect();
    let small = rest("failed", r#""manifest": """#);
    for revision in 2..2_302 {
        let whose = Whose::Victim(victims[3].clone());
        let record = Record { whose, revision, status: "failed", rest: small.clone(), own: None, is_filled: false };
        records.push(record);
    }
    records
}

/// For each custom resource a record that no limit stops: many values, a long text, and much of our own part.
pub fn within_limits(victims: &[String]) -> Vec<Record> {
    let numbers = repeated("1,", 150_000);
    let long = "x".repeat(6 * 1024 * 1024);
    let config = "apiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: y}\\n";
    let manifest = format!("---\\n{config}list: [{numbers}]\\n---\\n{config}data: {{x: {long}}}\\n");
    let failed =
        rest("failed", &format!(r#""config": {{"a": [{}]}}, "manifest": "{manifest}""#, repeated("1,", 150_000)));
    let object = r#"{"id":{"group":"","version":"v1","kind":"ConfigMap","namespace":null,"name":"y"}},"#;
    let own = packed(&own_of(&format!(r#""objects": [{}]"#, repeated(object, 19_000))));
    let of = |victim: &String, revision, own: Option<&Arc<Vec<u8>>>| Record {
        whose: Whose::Victim(victim.clone()),
        revision,
        status: "failed",
        rest: failed.clone(),
        own: own.cloned(),
        is_filled: false,
    };
    victims.iter().flat_map(|victim| [of(victim, 2, None), of(victim, 3, Some(&own)), of(victim, 4, None)]).collect()
}

/// For each custom resource records that are a few kilobytes each, and become long lists of short texts: events of hooks, and our own
/// part where nothing vouches for it. Others have a long description.
pub fn much_from_little(victims: &[String]) -> Vec<Record> {
    let empty = |count: usize| repeated("\"\",", count);
    let plain = rest("failed", r#""manifest": """#);
    let hooks = rest("failed", &format!(r#""hooks": [{{"name": "h", "events": [{}]}}]"#, empty(190_000)));
    let described = packed(&format!(
        r#""info": {{"status": "failed", "description": "{}"}}, "chart": {{"metadata": {{"name": "app", "version": "0.1.0"}}}}}}"#,
        "x".repeat(1_000_000)
    ));
    let own = packed(&own_of(&format!(r#""sourced": [{}]"#, empty(390_000))));
    let of = |victim: &String, revision, rest: &Arc<Vec<u8>>, own: Option<&Arc<Vec<u8>>>| Record {
        whose: Whose::Victim(victim.clone()),
        revision,
        status: "failed",
        rest: rest.clone(),
        own: own.cloned(),
        is_filled: false,
    };
    let one = |(number, victim): (usize, &String)| {
        // Every second release is more than is read of one.
        let many = if number % 2 == 0 { 2 } else { 8 };
        let claimed = (0..many).map(|it| of(victim, 10 + it, &plain, Some(&own)));
        let others = [of(victim, 2, &hooks, None), of(victim, 3, &described, None), of(victim, 4, &described, None)];
        claimed.chain(others).collect::<Vec<_>>()
    };
    victims.iter().enumerate().flat_map(one).collect()
}

impl Record {
    /// A member of the record for the room that is left in a Secret. It is not packed, so that its length is known.
    fn filling(&self, begin: usize, own: usize) -> Vec<u8> {
        // Of what packing adds, for each 32 KiB and at both ends.
        const FRAME: usize = 300;
        let room = (LARGEST_SECRET - own) / 4 * 3 - begin - self.rest.len();
        let text = format!(r#""noise": "{}", "#, noise(room - FRAME));
        packed_with(&text, Compression::none()).to_vec()
    }

    fn secret(&self, project: &Project, quiet: &str) -> Secret {
        let (namespace, release) = match &self.whose {
            Whose::Victim(name) => (project.namespace.as_str(), name.as_str()),
            Whose::Nobody(name) => (quiet, name.as_str()),
        };
        let begin = packed(&format!(r#"{{"name": "{release}", "version": {}, "#, self.revision));
        let own = self.own.as_ref().map_or(0, |own| own.len());
        let filling = if self.is_filled { self.filling(begin.len(), own) } else { vec![] };
        let helm = STANDARD.encode([begin.as_slice(), &filling, &self.rest].concat()).into_bytes();
        assert!(!self.is_filled || helm.len() + own > LARGEST_SECRET - 1024, "{} bytes", helm.len() + own);
        let mut data = BTreeMap::from([("release".to_owned(), ByteString(helm))]);
        data.extend(self.own.as_ref().map(|own| ("chartwright".to_owned(), ByteString(own.to_vec()))));
        let labels = [("owner", "helm"), ("name", release), ("status", self.status)].map(|(k, v)| (k.into(), v.into()));
        let mut labels = BTreeMap::from(labels);
        labels.insert("version".into(), self.revision.to_string());
        Secret {
            metadata: ObjectMeta {
                name: Some(format!("sh.helm.release.v1.{release}.v{}", self.revision)),
                namespace: Some(namespace.to_owned()),
                labels: Some(labels),
                ..Default::default()
            },
            type_: Some("helm.sh/release.v1".into()),
            data: Some(data),
            ..Default::default()
        }
    }
}

/// The newest first: the operator may make the next revision meanwhile, and must not take the name of one to come.
pub async fn write_all(project: &Project, quiet: &str, mut records: Vec<Record>) {
    records.sort_by_key(|record| std::cmp::Reverse(record.revision));
    let writes = records.into_iter().map(|record| async move {
        let secret = record.secret(project, quiet);
        let namespace = secret.metadata.namespace.clone().expect("a namespace");
        let api: Api<Secret> = Api::namespaced(project.client.clone(), &namespace);
        api.create(&PostParams::default(), &secret).await.expect("the API server takes it");
    });
    stream::iter(writes).buffer_unordered(8).collect::<Vec<()>>().await;
}

/// Waits until the operator has looked at every victim and has nothing more to do for a while.
pub async fn digested(project: &Project, victims: &[String], operator: &Operator, patience: Duration) {
    until_within(patience, "every victim was looked at", async || {
        for victim in victims {
            let status = project.status(victim).await;
            let generation = project.crs().get(victim).await.ok()?.metadata.generation;
            (status["observedGeneration"] == serde_json::json!(generation)).then_some(())?;
        }
        Some(())
    })
    .await;
    until_within(patience, "the operator rests", async || {
        let before = cpu_ticks(operator);
        tokio::time::sleep(Duration::from_secs(2)).await;
        (cpu_ticks(operator).saturating_sub(before) < 60).then_some(())
    })
    .await;
}

/// The time that a process has worked, in hundredths of a second.
fn cpu_ticks(operator: &Operator) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", operator.id())).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok()).unwrap_or_default();
    ticks(11) + ticks(12)
}
