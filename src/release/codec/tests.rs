use proptest::prelude::*;
use serde_json::json;

use super::super::{Applied, HeldBy, Hold, HookPhase, HookRecord, HookRun, OwnerMark, Proof, Status, Text};
use super::*;
use crate::hooks;
use crate::object::ObjectId;
use crate::release::weight::Weight;

/// A deployed revision of ours.
pub fn release() -> Release {
    Release {
        name: "web".into(),
        namespace: "default".into(),
        revision: 3,
        status: Status::Deployed,
        chart: json!({"apiVersion": "v2", "name": "app", "version": "0.1.0"}),
        defaults: json!({}).into(),
        config: json!({"replicas": 2}).into(),
        manifest: "---\napiVersion: v1\n".into(),
        hooks: vec![],
        notes: "Have fun".into(),
        description: "Upgrade complete".into(),
        first_deployed: "2026-11-16T12:00:00.123456789Z".parse().unwrap(),
        last_deployed: "2026-11-16T13:00:00Z".parse().unwrap(),
        own: Some(Own { digest: "d1".into(), ..Default::default() }),
        claimed: None,
        proof: Proof::default(),
        stored: Stored::default(),
    }
}

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn secret_of(helm: &Value) -> Secret {
    let mut secret = encode(&release(), now()).unwrap();
    set_release(&mut secret, STANDARD.encode(helm.to_string()).into_bytes());
    secret
}

fn set_release(secret: &mut Secret, bytes: Vec<u8>) {
    secret.data.as_mut().unwrap().insert(HELM_KEY.into(), ByteString(bytes));
}

fn helm_json(secret: &Secret) -> Value {
    budget::read(&unwrapped(&secret.data.as_ref().unwrap()[HELM_KEY].0).unwrap(), &RECORD).unwrap()
}

/// As the API server merges it.
fn merged(secret: &Secret, release: &Release) -> Secret {
    let mut merged = secret.clone();
    let patch = patch(release, now()).unwrap();
    for (key, value) in patch["data"].as_object().unwrap() {
        let data = merged.data.as_mut().unwrap();
        match value.as_str() {
            Some(text) => data.insert(key.clone(), ByteString(STANDARD.decode(text).unwrap())),
            None => data.remove(key),
        };
    }
    merged
}

#[test]
fn a_mark_of_a_hook_that_is_not_there_is_refused() {
    let mut forged = release();
    let mark =
        hooks::Mark { event: hooks::Event::PreInstall, hook: 0, attempt: 0, phase: HookPhase::Running, since: 0 };
    forged.own.as_mut().unwrap().hooks = vec![mark];
    let error = decode(&encode(&forged, now()).unwrap()).unwrap_err();
    assert_eq!(error.category(), Category::RecordUnusable);
    assert!(error.to_string().contains("hook 0 was begun, and has 0 hooks"), "{error}");
}

#[test]
fn the_secret_is_what_helm_makes() {
    let secret = encode(&release(), now()).unwrap();
    assert_eq!(secret.metadata.name.as_deref(), Some("sh.helm.release.v1.web.v3"));
    assert_eq!(secret.type_.as_deref(), Some("helm.sh/release.v1"));
    let labels = json!({
        "name": "web", "owner": "helm", "status": "deployed", "version": "3", OWNER_LABEL: OwnerMark::default().id(), "createdAt": "1800000000",
        "chartwright.dev/digest": "d1",
    });
    assert_eq!(json!(secret.metadata.labels), labels);
    assert!(secret.metadata.owner_references.is_none(), "garbage collection must not remove records");
    let helm = json!({
        "name": "web", "namespace": "default", "version": 3, "apply_method": "ssa",
        "info": {
            "first_deployed": "2026-11-16T12:00:00.123456789Z", "last_deployed": "2026-11-16T13:00:00Z", "deleted": "",
            "status": "deployed", "description": "Upgrade complete", "notes": "Have fun",
        },
        "chart": {
            "metadata": {"apiVersion": "v2", "name": "app", "version": "0.1.0"},
            "lock": null, "templates": [], "values": {}, "schema": null, "files": [],
        },
        "config": {"replicas": 2},
        "manifest": "---\napiVersion: v1\n",
    });
    assert_eq!(helm_json(&secret), helm);
}

#[test]
fn numbers_in_chart_yaml_become_text_or_helm_could_not_read_the_record() {
    let chart = json!({"name": "app", "appVersion": 1.16, "deprecated": true, "dependencies": [{"version": 2}]});
    let helm = helm_json(&encode(&Release { chart, ..release() }, now()).unwrap());
    let wanted = json!({"name": "app", "appVersion": "1.16", "deprecated": true, "dependencies": [{"version": "2"}]});
    assert_eq!(helm["chart"]["metadata"], wanted);
}

#[test]
fn superseding_a_record_of_helm_changes_its_status_and_nothing_else() {
    let mut helm = json!({
        "name": "web", "version": 3, "namespace": "elsewhere", "later": {"field": 1},
        "info": {
            "first_deployed": "2026-11-16T14:00:00+02:00", "deleted": "", "status": "deployed", "rollback_revision": 1,
            "resources": {"v1/Pod": []},
        },
        "chart": {"metadata": {"name": "app"}, "lock": {"digest": "x"}, "templates": [{"name": "a", "data": "YQ=="}]},
        "hooks": [{"name": "h", "last_run": {"phase": "NewPhase"}, "later": 2}],
    });
    let mut secret = secret_of(&helm);
    secret.data.as_mut().unwrap().remove(OWN_KEY);
    let release = decode(&secret).unwrap();
    assert!(!release.is_ours());
    let superseded = merged(&secret, &release.with_status(Status::Superseded, "Upgraded"));
    helm["info"]["status"] = "superseded".into();
    helm["info"]["description"] = "Upgraded".into();
    assert_eq!(helm_json(&superseded), helm);
    assert!(!superseded.data.unwrap().contains_key(OWN_KEY));
}

#[test]
fn a_rewrite_keeps_what_a_later_version_of_ours_wrote() {
    let mut secret = encode(&release(), now()).unwrap();
    let mut own: Value = serde_json::from_slice(&secret.data.as_ref().unwrap()[OWN_KEY].0).unwrap();
    own["later"] = true.into();
    secret.data.as_mut().unwrap().insert(OWN_KEY.into(), ByteString(own.to_string().into_bytes()));
    let release = decode(&secret).unwrap().with_status(Status::Superseded, "");
    assert_eq!(merged(&secret, &release).data.unwrap()[OWN_KEY], secret.data.unwrap()[OWN_KEY]);
}

#[test]
fn an_update_names_the_version_that_was_read() {
    let mut secret = encode(&release(), now()).unwrap();
    secret.metadata.resource_version = Some("42".into());
    let patch = patch(&decode(&secret).unwrap(), now()).unwrap();
    assert_eq!(patch["metadata"]["resourceVersion"], "42");
    assert_eq!(patch["metadata"]["labels"]["modifiedAt"], "1800000000");
}

#[test]
fn a_restored_record_belongs_to_the_namespace_that_it_is_in() {
    let mut secret = encode(&release(), now()).unwrap();
    secret.metadata.namespace = Some("restored".into());
    assert_eq!(decode(&secret).unwrap().namespace, "restored");
}

#[test]
fn an_unreadable_record_is_an_error_that_names_it() {
    let secret = encode(&release(), now()).unwrap();
    let broken = STANDARD.encode(&gzip::pack(b"{}")[..10]);
    let other = STANDARD.encode(r#"{"name": "other", "version": 1}"#);
    let cases = [
        ("?", "its data is not base64 ("),
        ("", "its data is not Helm's JSON ("),
        ("bnVsbA==", "its data is not Helm's JSON ("),
        (&broken, "its data cannot be unpacked ("),
        (&other, "it says that it is revision 1 of \"other\", which belongs under another name;"),
    ];
    for (data, reason) in cases {
        let mut secret = secret.clone();
        set_release(&mut secret, data.as_bytes().to_vec());
        let message = decode(&secret).unwrap_err().to_string();
        let wanted = "the release record in Secret default/sh.helm.release.v1.web.v3 cannot be read: ";
        assert!(message.starts_with(&format!("{wanted}{reason}")), "{message}");
    }
    assert!(decode(&Secret::default()).unwrap_err().to_string().contains("it has no data key `release`"));
}

/// The record of [`release`] with this text in its JSON, in place of a member that it has not.
fn with_member(member: &str) -> Result<Release, RecordError> {
    let text = format!(r#"{{"name": "web", "version": 3, {member}}}"#);
    let mut secret = encode(&release(), now()).unwrap();
    set_release(&mut secret, STANDARD.encode(gzip::pack(text.as_bytes())).into_bytes());
    decode(&secret)
}

#[test]
fn a_record_that_exceeds_a_limit_is_an_error_that_names_it_and_the_limit() {
    let list = |item: &str, count: usize| vec![item; count].join(",");
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let cases = [
        (format!(r#""manifest": "{}""#, "a".repeat(16 << 20)), "it is more than 16 MiB when unpacked"),
        (format!(r#""later": "{}""#, "a".repeat(16 << 20)), "it is more than 16 MiB when unpacked"),
        (format!(r#""chart": {{"files": [{}]}}"#, list("1", 200_000)), "its JSON has more than 200000 items"),
        (format!(r#""config": {{"a": [{}]}}"#, list("[]", 150_000)), "its JSON has more than 200000 items"),
        (format!(r#""config": {{"a": {}}}"#, nested(130)), "its JSON is nested more than 127 levels deep"),
        (format!(r#""later": {}"#, nested(100_000)), "its JSON is nested more than 127 levels deep"),
        (format!(r#""hooks": [{}]"#, list("{}", 2001)), "it has more than 2000 hooks"),
        (format!(r#""manifest": "{}""#, "---\\n{kind: A}\\n".repeat(20_001)), "it lists more than 20000 objects"),
        (
            format!(r#""chart": {{"metadata": {{"a": "{}"}}}}"#, "a".repeat(200_000)),
            "its chart metadata is more than 128 KiB",
        ),
        (
            format!(r#""info": {{"description": "{}"}}"#, "a".repeat(2 << 20)),
            "its names and descriptions are more than 1024 KiB together",
        ),
    ];
    for (member, reason) in cases {
        let error = with_member(&member).unwrap_err();
        assert_eq!(error.category(), Category::RecordUnusable);
        let wanted = format!(
            "the release record in Secret default/sh.helm.release.v1.web.v3 exceeds a limit of this operator: {reason}; "
        );
        assert!(error.to_string().starts_with(&wanted), "{error}");
    }
}

#[test]
fn large_records_of_helm_are_read() {
    let list = |item: &str, count: usize| vec![item; count].join(",");
    let manifest = "apiVersion: v1\\nkind: ConfigMap\\n".repeat(400_000);
    let read = with_member(&format!(r#""manifest": "{manifest}""#)).unwrap();
    assert_eq!(read.manifest.len(), 400_000 * 31);
    let weight = Weight::of(&read);
    assert!(weight.held < 1 << 20, "{weight:?}");
    with_member(&format!(r#""chart": {{"templates": [{}]}}"#, list(r#"{"name": "a", "data": "YQ=="}"#, 10_000)))
        .unwrap();
    with_member(&format!(r#""config": {{"a": [{}]}}"#, list("1", 190_000))).unwrap();
}

#[test]
fn values_that_no_one_could_read_are_refused_when_the_record_is_read() {
    for value in [r#"{"a": 1e999}"#, r#"{"a": "\ud800"}"#, "[]", "1", r#""text""#] {
        for member in [format!(r#""config": {value}"#), format!(r#""chart": {{"values": {value}}}"#)] {
            let error = with_member(&member).unwrap_err();
            assert!(matches!(error, RecordError::Unreadable { reason: Unreadable::Json(_), .. }), "{member}: {error}");
        }
    }
    assert_eq!(with_member(r#""config": null"#).unwrap().config, json!({}));
}

#[test]
fn templates_are_noticed_and_not_kept() {
    let is_thin = |chart: &str| with_member(&format!(r#""chart": {chart}"#)).unwrap().stored.is_thin();
    assert!(!is_thin(r#"{"templates": [{"name": "a"}]}"#));
    for chart in [
        "null",
        "{}",
        r#"{"templates": null}"#,
        r#"{"templates": []}"#,
        r#"{"templates": {"a": 1}}"#,
        r#"{"templates": 1}"#,
    ] {
        assert!(is_thin(chart), "{chart}");
    }
}

#[test]
fn what_could_not_be_read_again_is_not_written() {
    let too_much = Release { manifest: "a".repeat(17 << 20).into(), ..release() };
    let error = encode(&too_much, now()).unwrap_err();
    assert!(matches!(error, RecordError::WouldExceed { exceeded: Exceeded::Bytes(_), .. }), "{error}");
    assert_eq!(error.category(), Category::InvalidManifest);
}

#[test]
fn broken_data_of_ours_does_not_make_the_record_somebody_elses() {
    for own in [&b"{}"[..], b"", br#"{"format": 7}"#] {
        let mut secret = encode(&release(), now()).unwrap();
        secret.data.as_mut().unwrap().insert(OWN_KEY.into(), ByteString(own.to_vec()));
        assert!(matches!(decode(&secret), Err(RecordError::Own { .. })));
    }
}

#[test]
fn a_record_that_a_secret_cannot_hold_is_refused() {
    let noise = incompressible();
    let error = encode(&Release { manifest: noise.into(), ..release() }, now()).unwrap_err();
    assert!(matches!(error, RecordError::RecordTooLarge { size, .. } if size > SECRET_LIMIT), "{error}");
    assert!(error.to_string().contains("let the chart render less"), "{error}");
}

#[test]
fn a_record_of_helm_that_has_no_room_for_our_part_loses_what_helm_does_without() {
    let secret = encode(&release(), now()).unwrap();
    let mut helm = helm_json(&secret);
    helm["chart"]["templates"] = json!([{"name": "templates/a.yaml", "data": incompressible()}]);
    let mut stored = decode(&secret_of(&helm)).unwrap();
    assert!(!stored.stored.is_thin());
    stored.own = Some(Own { digest: "d2".into(), ..Own::default() });
    let slim = merged(&secret, &stored);
    assert_eq!(helm_json(&slim)["chart"]["templates"], json!([]));
    assert_eq!(decode(&slim).unwrap().manifest, release().manifest);
}

#[test]
fn a_new_record_leaves_room_for_the_marks_of_its_objects() {
    let id = ObjectId {
        group: String::new(),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        namespace: None,
        name: "a".into(),
    };
    let objects = |uid: Option<&str>| vec![Applied::new(id.clone(), uid.map(str::to_owned)); 17_000];
    let own = |uid| Some(Own { objects: objects(uid), ..Default::default() });
    assert!(encode(&Release { own: own(None), ..release() }, now()).is_err());
    assert!(encode(&Release { own: own(Some("u")), ..release() }, now()).is_ok());
}

/// Text that gzip cannot make smaller than a Secret.
fn incompressible() -> String {
    let hash = |n: u32| ring::digest::digest(&ring::digest::SHA256, &n.to_be_bytes());
    (0..40_000).map(|n| STANDARD.encode(hash(n))).collect()
}

fn time() -> impl Strategy<Value = Timestamp> {
    // From Go's first second that is a time to jiff's last one.
    (-62_135_596_799_i64..253_402_200_000, 0..1_000_000_000_i32)
        .prop_map(|(seconds, nanos)| Timestamp::new(seconds, nanos).unwrap_or(Timestamp::UNIX_EPOCH))
}

fn hook() -> impl Strategy<Value = HookRecord> {
    let run = (proptest::option::of(time()), proptest::option::of(time()), any::<bool>());
    (".*", proptest::collection::vec("[a-z-]{1,9}", 0..3), any::<i64>(), run).prop_map(|(text, events, weight, run)| {
        let phase = if run.2 { HookPhase::Succeeded } else { HookPhase::None };
        HookRecord {
            name: "h".into(),
            manifest: text.into(),
            delete_policies: events.clone(),
            events,
            weight,
            last_run: HookRun { started_at: run.0, completed_at: run.1, phase },
            ..Default::default()
        }
    })
}

fn own() -> impl Strategy<Value = Own> {
    let id = ("[a-z.]{0,5}", proptest::option::of("[a-z]{1,5}"), ".{1,9}").prop_map(|(group, namespace, name)| {
        ObjectId { group, version: "v1".into(), kind: "K".into(), namespace, name }
    });
    let object = (id.clone(), proptest::option::of(".*")).prop_map(|(id, uid)| Applied::new(id, uid));
    let objects = proptest::collection::vec(object, 0..4);
    let kept = proptest::collection::vec(id, 0..3);
    ("[0-9a-f]{0,63}", objects, kept, any::<Option<u32>>()).prop_map(|(digest, objects, kept, hold)| Own {
        hold: hold.map(|to| Hold { to: Some(to), digest: digest.clone(), by: HeldBy::Helm, failed: None }),
        request: hold,
        digest,
        owner: OwnerMark { group: "g".into(), kind: "K".into(), namespace: None, name: "n".into(), uid: "u".into() },
        objects,
        kept,
        ..Own::default()
    })
}

prop_compose! {
    fn any_release()(
        name in "[a-z]([-a-z0-9]{0,50}[a-z0-9])?",
        revision in 0..=LAST_REVISION,
        status in proptest::sample::select(Status::ALL.to_vec()),
        config in proptest::collection::btree_map(".*", ".*", 0..4),
        texts in (".*", ".*", ".*"),
        hooks in proptest::collection::vec(hook(), 0..3),
        times in (time(), time()),
        own in proptest::option::of(own()),
    ) -> Release {
        let (manifest, notes, description): (String, String, String) = texts;
        let (first_deployed, last_deployed) = times;
        let config = json!(config).into();
        let (manifest, notes): (Text, Text) = (manifest.into(), notes.into());
        Release {
            name, revision, status, config, manifest, notes, description, hooks, first_deployed, last_deployed, own,
            ..release()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn what_is_written_is_read_again(release in any_release()) {
        let read = decode(&encode(&release, now()).unwrap()).unwrap();
        prop_assert_eq!(Release { stored: Stored::default(), ..read }, release);
    }

    #[test]
    fn a_rewrite_of_what_was_read_is_read_again(release in any_release(), other in any_release()) {
        let secret = encode(&release, now()).unwrap();
        let read = decode(&secret).unwrap();
        let changed = Release { name: release.name, revision: release.revision, stored: read.stored, ..other };
        let again = decode(&merged(&secret, &changed)).unwrap();
        prop_assert_eq!(Release { stored: changed.stored.clone(), ..again }, changed);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), own in ".*", gzipped in any::<bool>()) {
        let mut secret = encode(&release(), now()).unwrap();
        let inner = if gzipped { gzip::pack(&bytes) } else { [&gzip::MAGIC[..], &bytes].concat() };
        for data in [bytes.clone(), STANDARD.encode(&bytes).into_bytes(), STANDARD.encode(inner).into_bytes()] {
            set_release(&mut secret, data);
            prop_assert!(decode(&secret).is_err());
        }
        let mut secret = encode(&release(), now()).unwrap();
        secret.data.as_mut().unwrap().insert(OWN_KEY.into(), ByteString(own.into_bytes()));
        prop_assert!(decode(&secret).is_err());
    }
}
