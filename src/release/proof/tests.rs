use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::codec::{self, tests::release};
use super::super::{HookRecord, OwnerMark, Status, gzip, seal};
use super::*;

fn signer() -> Signer {
    Signer::Sign(Arc::new(SigningKey::from_pkcs8(&SigningKey::generate().unwrap()).unwrap()))
}

fn owned() -> Release {
    let owner = OwnerMark { uid: "u".into(), name: "web".into(), ..OwnerMark::default() };
    let hook = HookRecord { name: "h".into(), events: vec!["pre-install".into()], ..HookRecord::default() };
    let own = Own { digest: "d1".into(), owner, ..Own::default() };
    Release { own: Some(own), hooks: vec![hook], config: json!({"a": {"b": [1, "1", 1.5, null]}}).into(), ..release() }
}

fn sealed(release: &Release, signer: &Signer) -> Secret {
    let mut secret = codec::encode(release, Timestamp::now()).unwrap();
    seal::seal(&mut secret, release, signer);
    secret
}

fn judged(secret: &Secret, signer: &Signer, owner: Option<&str>) -> Proof {
    seal::judged(codec::decode(secret).unwrap(), secret, signer, owner).proof
}

/// As helm writes a record: its own data key alone, with our labels.
fn by_helm(release: &Release, signed: &Secret) -> Secret {
    let thin = Release { own: None, ..release.clone() };
    let mut secret = codec::encode(&thin, Timestamp::now()).unwrap();
    let labels = secret.metadata.labels.get_or_insert_default();
    for (key, value) in signed.metadata.labels.iter().flatten() {
        labels.entry(key.clone()).or_insert(value.clone());
    }
    secret
}

#[test]
fn a_signed_record_is_proven_for_its_owner_alone() {
    let signer = signer();
    let secret = sealed(&owned(), &signer);
    assert_eq!(judged(&secret, &signer, Some("u")), Proof::Record);
    assert_eq!(judged(&secret, &signer, None), Proof::Record);
    assert_eq!(judged(&secret, &signer, Some("v")), Proof::Missing(Doubt::OtherOwner));
    assert_eq!(judged(&secret, &self::signer(), Some("u")), Proof::Missing(Doubt::Signature), "another operator's key");
    let public = Signer::Verify(signer.public().unwrap());
    assert_eq!(judged(&secret, &public, Some("u")), Proof::Record, "the public key is enough to verify");
    assert!(public.sign(&owned(), owned().own.as_ref().unwrap(), b"", b"").is_none(), "and not to sign");
}

#[test]
fn what_helm_rewrites_keeps_the_proof_of_its_content() {
    let signer = signer();
    let secret = sealed(&owned(), &signer);
    let superseded = owned().with_status(Status::Superseded, "Superseded by somebody");
    assert_eq!(judged(&by_helm(&superseded, &secret), &signer, Some("u")), Proof::Content);
    assert_eq!(judged(&by_helm(&superseded, &secret), &signer, Some("v")), Proof::Missing(Doubt::Signature));
    assert_eq!(judged(&by_helm(&superseded, &secret), &signer, None), Proof::Missing(Doubt::Signature));
    let mut tested = superseded.clone();
    tested.hooks[0].last_run.phase = super::super::HookPhase::Succeeded;
    assert_eq!(judged(&by_helm(&tested, &secret), &signer, Some("u")), Proof::Content, "a run of tests is not covered");
}

#[test]
fn a_key_that_helm_reads_as_another_ends_the_proof_and_is_not_written_again() {
    let signer = signer();
    let signed = sealed(&owned(), &signer);
    let honest = by_helm(&owned(), &signed);
    assert_eq!(judged(&honest, &signer, Some("u")), Proof::Content);
    for key in ["Manifest", "manife\u{17f}t", "HOOKS"] {
        let mut forged = honest.clone();
        let data = forged.data.as_mut().unwrap().get_mut(codec::HELM_KEY).unwrap();
        let mut helm: Value = serde_json::from_slice(&unpacked(&STANDARD.decode(&data.0).unwrap())).unwrap();
        helm[key] = "---\nkind: ClusterRoleBinding\n".into();
        data.0 = STANDARD.encode(gzip::pack(helm.to_string().as_bytes())).into_bytes();
        assert_eq!(judged(&forged, &signer, Some("u")), Proof::Missing(Doubt::Ambiguous), "{key}");
        // Signed with an administrator's consent, it says to helm what it says to us.
        let read = codec::decode(&forged).unwrap();
        let written = codec::encode(&Release { own: owned().own, ..read }, Timestamp::now()).unwrap();
        let packed = &written.data.unwrap()[codec::HELM_KEY].0;
        let written: Value = serde_json::from_slice(&unpacked(&STANDARD.decode(packed).unwrap())).unwrap();
        assert!(written.get(key).is_none(), "{key}");
    }
}

fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut text = vec![];
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(bytes), &mut text).unwrap();
    text
}

#[test]
fn every_change_of_what_is_covered_is_found() {
    let signer = signer();
    let secret = sealed(&owned(), &signer);
    let changes: [fn(&mut Release); 7] = [
        |it| it.manifest = "---\nkind: ClusterRoleBinding\n".into(),
        |it| it.config = json!({"a": {"b": [1, 1, 1.5, null]}}).into(),
        |it| it.hooks[0].manifest = "kind: Job".into(),
        |it| it.hooks[0].events = vec!["test".into()],
        |it| it.hooks.clear(),
        |it| it.hooks[0].weight = 1,
        |it| it.chart = json!({"name": "app", "version": "9.9.9"}),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut forged = owned();
        change(&mut forged);
        assert!(!matches!(judged(&by_helm(&forged, &secret), &signer, Some("u")), Proof::Content), "{number}");
        let mut with_data = by_helm(&forged, &secret);
        let data = with_data.data.get_or_insert_default();
        for (key, bytes) in secret.data.iter().flatten().filter(|(key, _)| *key != codec::HELM_KEY) {
            data.insert(key.clone(), bytes.clone());
        }
        assert!(matches!(judged(&with_data, &signer, Some("u")), Proof::Missing(_)), "{number}");
    }
}

#[test]
fn a_record_is_bound_to_its_place_and_revision() {
    let signer = signer();
    let secret = sealed(&owned(), &signer);
    let elsewhere = [
        Release { namespace: "other".into(), ..owned() },
        Release { name: "shop".into(), ..owned() },
        Release { revision: 4, ..owned() },
    ];
    for release in elsewhere {
        let mut copy = codec::encode(&release, Timestamp::now()).unwrap();
        let data = copy.data.get_or_insert_default();
        data.insert(SIGNATURE_KEY.into(), secret.data.as_ref().unwrap()[SIGNATURE_KEY].clone());
        let labels = copy.metadata.labels.get_or_insert_default();
        labels.extend(SIGNATURE_LABELS.map(|key| (key.into(), secret.metadata.labels.as_ref().unwrap()[key].clone())));
        assert!(matches!(judged(&copy, &signer, Some("u")), Proof::Missing(_)), "{release:?}");
    }
}

#[test]
fn a_forged_inventory_is_found_also_without_unpacking_the_record() {
    let signer = signer();
    let release = owned();
    let secret = sealed(&release, &signer);
    let data = secret.data.as_ref().unwrap();
    let (own, packed) = (&data[codec::OWN_KEY].0, hash(&data[codec::HELM_KEY].0));
    let signature = Some(data[SIGNATURE_KEY].0.as_slice());
    let subject = Subject::of(&release);
    assert!(signer.verify_own(subject, own, &packed, signature));
    assert!(!signer.verify_own(subject, own, &hash(b"other"), signature));
    assert!(!signer.verify_own(subject, own, &packed, None));
    assert!(!signer.verify_own(Subject { revision: 9, ..subject }, own, &packed, signature));
    let mut forged = release.own.clone().unwrap();
    forged.owner.uid = "v".into();
    assert!(!signer.verify_own(subject, &forged.to_bytes(), &packed, signature));
}

#[test]
fn numbers_count_as_helm_reads_them() {
    let of = |values: Value| content_hash(&Release { config: values.into(), ..owned() });
    assert_eq!(of(json!({"a": 9007199254740993_u64})), of(json!({"a": 9007199254740992_u64})), "helm keeps a float");
    assert_eq!(of(json!({"a": 1})), of(json!({"a": 1.0})));
    assert_ne!(of(json!({"a": 1})), of(json!({"a": "1"})));
    assert_ne!(of(json!({"a": "1.0"})), of(json!({"a": 1.0})));
}

proptest! {
    #[test]
    fn garbage_is_never_a_proof(record in proptest::collection::vec(any::<u8>(), 0..200), one in "[a-zA-Z0-9_-]{0,60}", two in ".{0,60}") {
        let signer = signer();
        let mut secret = codec::encode(&owned(), Timestamp::now()).unwrap();
        secret.data.get_or_insert_default().insert(SIGNATURE_KEY.into(), k8s_openapi::ByteString(record));
        let labels = secret.metadata.labels.get_or_insert_default();
        labels.extend([(SIGNATURE_LABELS[0].into(), one), (SIGNATURE_LABELS[1].into(), two)]);
        prop_assert!(matches!(judged(&secret, &signer, Some("u")), Proof::Missing(_)));
    }
}
