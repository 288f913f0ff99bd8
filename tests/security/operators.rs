//! Several operators: each believes what its own key signed and its own ledger notes, and leaves the rest alone.

use std::sync::Arc;
use std::time::Duration;

use chartwright::calls::Calls;
use chartwright::object::ObjectId;
use chartwright::release::proof::SigningKey;
use chartwright::release::{Applied, Release, Signer, Store};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::tenant::{RBAC, Tenant, with_evil};
use crate::harness::{stays, until};

const KEY: &str = "chartwright-signing-key";

/// The key of the operator that a tenant has.
async fn key_of(tenant: &Tenant) -> Vec<u8> {
    let secrets: Api<Secret> = Api::namespaced(tenant.project.client.clone(), &tenant.system);
    secrets.get(KEY).await.unwrap().data.unwrap()["ed25519.pkcs8"].0.clone()
}

/// Everything that the operator of a tenant keeps to know its releases, and what it deployed: with versions, which change with every write.
async fn everything(tenant: &Tenant) -> Vec<(String, Option<String>)> {
    let own = tenant.own_secrets().list(&ListParams::default()).await.unwrap();
    let records = tenant.records().list(&ListParams::default().labels("owner=helm")).await.unwrap();
    let secrets = own.into_iter().chain(records).map(|it| (it.name_any(), it.resource_version()));
    let objects = tenant.versions().await.into_iter().map(|version| ("an object".to_owned(), version));
    secrets.chain(objects).collect()
}

/// Writes revision 2 of the tenant's release with more than the chart renders, signed with a key.
async fn forge_signed(tenant: &Tenant, key: &[u8]) {
    let owner = tenant.owner_mark().await.uid;
    let signer = Signer::Sign(Arc::new(SigningKey::from_pkcs8(key).unwrap()));
    let store = Store::new(Calls::new(tenant.project.client.clone())).signed_by(signer, &owner);
    let source = tenant.store().get(&tenant.project.namespace, "web", 1).await.unwrap();
    let mut forged = Release { revision: 2, stored: Default::default(), ..source };
    with_evil(&mut forged, &tenant.binding());
    let (group, kind) = ("rbac.authorization.k8s.io".into(), "ClusterRoleBinding".into());
    let id = ObjectId { group, version: "v1".into(), kind, namespace: None, name: tenant.evil() };
    forged.own.iter_mut().for_each(|own| own.objects.push(Applied::new(id.clone(), None)));
    store.create(&forged).await.unwrap();
}

#[tokio::test]
async fn another_operator_reaches_nothing_of_this_one() {
    let (tenant, other) = (Tenant::new().await, Tenant::new().await);
    let _operator = tenant.run();
    tenant.deploy("blue").await;
    let theirs = other.run();
    other.deploy("green").await;
    let their_key = key_of(&other).await;
    assert_ne!(key_of(&tenant).await, their_key, "each has a key of its own");
    let before = everything(&tenant).await;
    // A custom resource of the other operator asks for the name of our release.
    let crs = other.project.crs_in(&tenant.project.namespace);
    let metadata = json!({"name": "web", "namespace": tenant.project.namespace});
    let (api_version, kind) = (&other.project.resource.api_version, &other.project.resource.kind);
    let same_name = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": {"colour": "red"}});
    other.project.create(same_name).await;
    until("the release is refused", async || {
        let status = crs.get("web").await.unwrap().data["status"].to_string();
        status.contains("BelongsToAnother").then_some(())
    })
    .await;
    crs.delete("web", &DeleteParams::default()).await.unwrap();
    until("it is gone", async || crs.get_opt("web").await.unwrap().is_none().then_some(())).await;
    assert_eq!(everything(&tenant).await, before, "the other operator touched something");
    drop(theirs);
    // Somebody has the other operator's key.
    forge_signed(&tenant, &their_key).await;
    tenant.nothing_came_of_it().await;
    let told = until("it is reported", async || tenant.project.events("web", "RecordUnproven").await.pop()).await;
    assert!(told.1.contains("revision 2"), "{told:?}");
    // It was the key that made the difference.
    tenant.records().delete("sh.helm.release.v1.web.v2", &DeleteParams::default()).await.unwrap();
    forge_signed(&tenant, &key_of(&tenant).await).await;
    let bindings = tenant.project.objects(RBAC, "ClusterRoleBinding", None);
    until("what our own key signed is believed", async || bindings.get_opt(&tenant.evil()).await.unwrap()).await;
    bindings.delete(&tenant.evil(), &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn an_operator_that_serves_the_same_kind_from_another_namespace_believes_nothing_and_changes_nothing() {
    let mut tenant = Tenant::new().await;
    let operator = tenant.run();
    tenant.deploy("blue").await;
    drop(operator);
    let before = everything(&tenant).await;
    let own = std::mem::take(&mut tenant.system);
    tenant.system = tenant.project.another_namespace("other").await;
    let other = tenant.run();
    let told = tenant.project.not_ready("web", "RecordUnproven").await;
    assert!(told["message"].as_str().unwrap().contains("chartwright trust open"), "{told}");
    drop(other);
    tenant.system = own;
    assert_eq!(everything(&tenant).await, before, "the other operator touched something");
    let _operator = tenant.run();
    tenant.project.condition("web", "Ready", "True").await;
}

#[tokio::test]
async fn operators_in_one_namespace_share_a_key_and_keep_each_others_entries() {
    let tenant = Tenant::new().await;
    let mut other = Tenant::new().await;
    other.system = tenant.system.clone();
    let operators = (tenant.run(), other.run());
    tenant.deploy("blue").await;
    other.deploy("green").await;
    let entries = async || {
        let all = tenant.own_secrets().list(&ListParams::default().labels("chartwright.dev/ledger")).await.unwrap();
        all.into_iter().map(|it| (it.name_any(), it.resource_version())).collect::<Vec<_>>()
    };
    let (before, key) = (entries().await, key_of(&tenant).await);
    assert_eq!(before.len(), 2);
    drop(operators);
    // The kind of an entry is one that this operator does not serve.
    let operator = tenant.run();
    tenant.deploy("red").await;
    let versions = other.versions().await;
    stays(Duration::from_secs(2), "the other's entry stays", async || entries().await.len()).await;
    drop(operator);
    let after = entries().await;
    let kept = after.iter().filter(|entry| before.contains(entry)).count();
    assert_eq!((after.len(), kept), (2, 1), "each writes its own entry: {before:?} {after:?}");
    let _operators = (tenant.run(), other.run());
    for project in [&tenant.project, &other.project] {
        project.condition("web", "Ready", "True").await;
    }
    assert_eq!((key_of(&tenant).await, other.versions().await), (key, versions));
}

#[tokio::test]
async fn what_an_older_version_wrote_after_a_downgrade_is_signed_in_the_window_alone() {
    for is_open in [true, false] {
        let tenant = Tenant::new().await;
        let operator = tenant.run();
        tenant.deploy("blue").await;
        let of_ledger = ListParams::default().labels("chartwright.dev/ledger");
        let noted = tenant.own_secrets().list(&of_ledger).await.unwrap().items.remove(0);
        tenant.deploy("green").await;
        drop(operator);
        // An older version writes our part of a record, and neither a signature nor the ledger.
        let none: Value = json!({
            "metadata": {"labels": {"chartwright.dev/signature-1": null, "chartwright.dev/signature-2": null}},
            "data": {"chartwright.sig": null},
        });
        let (merge, before) = (PatchParams::default(), json!({"data": noted.data["data"]}));
        tenant.records().patch("sh.helm.release.v1.web.v2", &merge, &Patch::Merge(&none)).await.unwrap();
        tenant.own_secrets().patch(&noted.name_any(), &merge, &Patch::Merge(&before)).await.unwrap();
        if is_open {
            tenant.trust(&["open", "--for", "5m", "--yes"]).good();
        }
        let versions = tenant.versions().await;
        let _operator = tenant.run();
        let is_signed = async || tenant.record(2).await.labels().contains_key("chartwright.dev/signature-1");
        match is_open {
            true => until("the record is signed", async || is_signed().await.then_some(())).await,
            false => {
                let told = async || tenant.project.events("web", "RecordUnproven").await.pop();
                assert!(until("it is reported", told).await.1.contains("revision 2"));
                let unchanged = async || (is_signed().await, tenant.versions().await);
                stays(Duration::from_secs(2), "it counts as a person's upgrade", unchanged).await;
                assert!(!is_signed().await);
            }
        }
        assert_eq!(tenant.versions().await, versions, "no object was changed");
        tenant.deploy("red").await;
        tenant.deployed_from(3).await;
    }
}
