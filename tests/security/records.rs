//! A forged release record leads to no write and no deletion.

use std::time::Duration;

use chartwright::object::ObjectId;
use chartwright::release::{Applied, HeldBy, Hold, Own, Release, Status};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Resource, ResourceExt};
use serde_json::json;

use super::tenant::{RBAC, Tenant, with_evil};
use crate::harness::{annotated, config, stays, until, within};

#[tokio::test]
async fn a_forged_revision_above_ours_writes_nothing_and_is_reported() {
    let tenant = Tenant::new().await;
    let _operator = tenant.run();
    tenant.deploy("blue").await;
    let binding = tenant.binding();
    let id = binding_id(&tenant);
    // With our part of a record, and without it, as where helm has written it: labels and digest are those of ours.
    for (revision, has_part) in [(2, false), (4, true)] {
        let forge = |release: &mut Release| {
            with_evil(release, &binding);
            release.own.iter_mut().for_each(|own| own.objects.push(Applied::new(id.clone(), None)));
            release.own = release.own.take().filter(|_| has_part);
        };
        tenant.copy(revision - 1, revision, forge).await;
        tenant.nothing_came_of_it().await;
        until("it is reported", async || {
            let told = tenant.project.events("web", "RecordUnproven").await;
            told.iter().any(|(_, note)| note.contains(&format!("revision {revision} "))).then_some(())
        })
        .await;
        // The spec decides again as soon as it changes, and nothing of the forged revision is left.
        tenant.deploy(&format!("green{revision}")).await;
        tenant.nothing_came_of_it().await;
        let history = tenant.store().history(&tenant.project.namespace, "web").await.unwrap();
        assert_eq!(history.latest().unwrap().revision, revision + 1);
    }
}

#[tokio::test]
async fn what_is_written_into_a_signed_record_is_not_applied() {
    let tenant = Tenant::new().await;
    let operator = tenant.run();
    tenant.deploy("blue").await;
    let before = tenant.password().await;
    let binding = tenant.binding();
    // In its inventory too, where what is missing counts as deleted.
    let id = binding_id(&tenant);
    let forge = |release: &mut Release| {
        with_evil(release, &binding);
        release.own.iter_mut().for_each(|own| own.objects.push(Applied::new(id.clone(), None)));
    };
    tenant.project.forge("web", 1, forge).await;
    // Drift makes the operator read the record.
    tenant.project.configs().delete("web", &DeleteParams::default()).await.unwrap();
    until("the object is there again", async || tenant.project.get("v1", "ConfigMap", "web").await).await;
    tenant.nothing_came_of_it().await;
    tenant.deployed_from(2).await;
    assert_eq!(tenant.password().await, before, "generated values stay");
    drop(operator);
    // The same while the operator is down.
    tenant.project.forge("web", 2, forge).await;
    let _operator = tenant.run();
    tenant.nothing_came_of_it().await;
    tenant.deployed_from(3).await;
    tenant.nothing_came_of_it().await;
    assert_eq!(tenant.password().await, before);
}

fn binding_id(tenant: &Tenant) -> ObjectId {
    let group = "rbac.authorization.k8s.io".to_owned();
    ObjectId { group, version: "v1".into(), kind: "ClusterRoleBinding".into(), namespace: None, name: tenant.evil() }
}

#[tokio::test]
async fn hooks_inventory_and_holds_of_a_forged_record_are_not_believed() {
    let tenant = Tenant::new().await;
    let victim = tenant.project.another_namespace("victim").await;
    tenant.project.create(within(&victim, config("precious", "theirs"))).await;
    let operator = tenant.run();
    tenant.deploy("blue").await;
    tenant.deploy("green").await;
    drop(operator);
    let binding = tenant.binding();
    let hook = chartwright::release::HookRecord {
        name: tenant.evil(),
        kind: "ClusterRoleBinding".into(),
        path: "app/templates/evil.yaml".into(),
        // Without the annotation no reader takes it for a hook.
        manifest: annotated(binding, json!({"helm.sh/hook": "pre-delete,pre-upgrade"})).to_string().into(),
        events: vec!["pre-delete".into(), "pre-upgrade".into()],
        ..Default::default()
    };
    let precious = tenant.project.objects("v1", "ConfigMap", Some(&victim)).get("precious").await.unwrap();
    let id = ObjectId {
        group: String::new(),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        namespace: Some(victim.clone()),
        name: "precious".into(),
    };
    tenant
        .project
        .forge("web", 2, |release| {
            release.hooks.push(hook);
            if let Some(own) = &mut release.own {
                own.objects.push(Applied::new(id, precious.uid()));
                own.hold = Some(Hold { to: Some(1), digest: own.digest.clone(), by: HeldBy::Helm, failed: None });
            }
        })
        .await;
    let _operator = tenant.run();
    tenant.deployed_from(3).await;
    let status = tenant.project.status("web").await;
    let conditions = status["conditions"].as_array().unwrap();
    assert!(conditions.iter().all(|condition| condition["type"] != "Held"), "{status}");
    tenant.project.delete("web").await;
    tenant.project.gone("web").await;
    tenant.nothing_came_of_it().await;
    let still = tenant.project.objects("v1", "ConfigMap", Some(&victim)).get("precious").await.unwrap();
    assert_eq!(still.uid(), precious.uid());
}

#[tokio::test]
async fn an_older_revision_that_is_written_again_is_not_applied() {
    let tenant = Tenant::new().await;
    let operator = tenant.run();
    tenant.deploy("blue").await;
    let old = tenant.record(1).await;
    tenant.deploy("green").await;
    let password = tenant.password().await;
    drop(operator);
    // The newest record goes, and the older one says that it is deployed.
    tenant.records().delete("sh.helm.release.v1.web.v2", &DeleteParams::default()).await.unwrap();
    let mut replayed = old.clone();
    replayed.meta_mut().resource_version = None;
    replayed.meta_mut().uid = None;
    tenant.records().delete("sh.helm.release.v1.web.v1", &DeleteParams::default()).await.ok();
    tenant.records().create(&PostParams::default(), &replayed).await.unwrap();
    let _operator = tenant.run();
    tenant.deployed_from(3).await;
    assert_eq!(tenant.project.get("v1", "ConfigMap", "web").await.unwrap().data["data"]["colour"], "green");
    assert_eq!(tenant.password().await, password);
}

#[tokio::test]
async fn a_record_copied_to_another_release_is_not_believed() {
    let tenant = Tenant::new().await;
    let _operator = tenant.run();
    tenant.deploy("blue").await;
    let source = tenant.store().get(&tenant.project.namespace, "web", 1).await.unwrap();
    let copy = Release { name: "shop".into(), stored: Default::default(), ..source };
    tenant.store().create(&copy).await.unwrap();
    tenant.project.apply("shop", json!({"colour": "red"})).await;
    tenant.project.not_ready("shop", "BelongsToAnother").await;
    assert!(tenant.project.get("v1", "ConfigMap", "shop").await.is_none());
}

#[tokio::test]
async fn planted_objects_and_a_forged_status_do_not_get_signed() {
    let tenant = Tenant::new().await;
    let operator = tenant.run();
    tenant.deploy("blue").await;
    let password = tenant.password().await;
    drop(operator);
    let all = ListParams::default().labels("owner=helm,name=web");
    tenant.records().delete_collection(&DeleteParams::default(), &all).await.unwrap();
    // The live object says more than the chart, and another one carries all marks.
    let live = tenant.project.get("v1", "ConfigMap", "web").await.unwrap();
    let params = PatchParams { field_manager: Some("helm".into()), ..Default::default() };
    let more = json!({"data": {"colour": "evil", "more": "evil"}});
    tenant.project.configs().patch("web", &params, &Patch::Merge(more)).await.unwrap();
    let mut planted = live.clone();
    planted.metadata = kube::core::ObjectMeta {
        name: Some("planted".into()),
        namespace: live.namespace(),
        labels: live.metadata.labels.clone(),
        annotations: live.metadata.annotations.clone(),
        owner_references: live.metadata.owner_references.clone(),
        ..Default::default()
    };
    tenant.project.configs().create(&PostParams::default(), &planted).await.unwrap();
    let status = json!({"status": {"deployedRelease": {"revision": 999999, "digest": "x", "hold": {"digest": "x", "by": "helm"}}}});
    tenant.project.crs().patch_status("web", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let _operator = tenant.run();
    until("the release is recorded again", async || {
        let history = tenant.store().history(&tenant.project.namespace, "web").await.ok()?;
        history.latest().filter(|latest| latest.status == Status::Deployed).map(|_| ())
    })
    .await;
    until("the chart decides", async || {
        let config = tenant.project.get("v1", "ConfigMap", "web").await?;
        (config.data["data"]["colour"] == "blue").then_some(())
    })
    .await;
    assert_eq!(tenant.password().await, password, "only what the chart generates is taken from objects");
    let history = tenant.store().history(&tenant.project.namespace, "web").await.unwrap();
    let latest = history.latest().unwrap();
    assert!(latest.revision < 10 && !latest.manifest.read().contains("planted"), "revision {}", latest.revision);
}

#[tokio::test]
async fn an_implausible_revision_number_is_refused_for_that_release_alone() {
    let tenant = Tenant::new().await;
    let _operator = tenant.run();
    tenant.deploy("blue").await;
    let source = tenant.store().get(&tenant.project.namespace, "web", 1).await.unwrap();
    let own = source.own.clone().unwrap_or_else(Own::default);
    for revision in [u32::MAX, 1_000_000_001, 1_000_000_000, 999_999_999] {
        let forged = Release { revision, own: Some(own.clone()), stored: Default::default(), ..source.clone() };
        tenant.store().create(&forged).await.unwrap();
        let told = tenant.project.not_ready("web", "RecordUnusable").await;
        assert!(told["message"].as_str().unwrap().contains(&revision.to_string()), "{told}");
        tenant.project.apply("other", json!({"colour": "red"})).await;
        tenant.project.condition("other", "Ready", "True").await;
        let name = format!("sh.helm.release.v1.web.v{revision}");
        tenant.records().delete(&name, &DeleteParams::default()).await.unwrap();
        tenant.project.condition("web", "Ready", "True").await;
    }
}

#[tokio::test]
async fn unsigned_records_are_signed_only_while_the_window_is_open() {
    let tenant = Tenant::new().await;
    let operator = tenant.run();
    tenant.deploy("blue").await;
    drop(operator);
    // As an earlier version left it: a record without a signature, and no ledger.
    let record = tenant.record(1).await;
    let none = json!({
        "metadata": {"labels": {"chartwright.dev/signature-1": null, "chartwright.dev/signature-2": null}},
        "data": {"chartwright.sig": null},
    });
    tenant.records().patch(&record.name_any(), &PatchParams::default(), &Patch::Merge(&none)).await.unwrap();
    let own = tenant.project.objects("v1", "Secret", Some(&tenant.system));
    own.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    let versions = async || {
        let mut all = vec![];
        for (api_version, kind, name) in [("v1", "ConfigMap", "web"), ("v1", "Secret", "web-random")] {
            all.push(tenant.project.get(api_version, kind, name).await.unwrap().resource_version());
        }
        all
    };
    let before = versions().await;
    let _operator = tenant.run();
    let told = tenant.project.not_ready("web", "RecordUnproven").await;
    assert!(told["message"].as_str().unwrap().contains("chartwright trust open"), "{told}");
    tenant.trust(&["open", "--for", "5s", "--yes"]).good();
    tenant.project.condition("web", "Ready", "True").await;
    assert_eq!(versions().await, before, "no object was changed");
    assert!(!tenant.project.events("web", "RecordSigned").await.is_empty());
    until("the window is recorded as closed", async || {
        let state = tenant.trust(&["status", "-o", "json"]).json();
        (state["open"] == false && state["window"]["closedAt"].is_string() && state["window"]["signed"] == 1)
            .then_some(())
    })
    .await;
    // Later ones are refused.
    let binding = tenant.binding();
    tenant.project.forge("web", 1, |release| with_evil(release, &binding)).await;
    let record = tenant.record(1).await;
    tenant.records().patch(&record.name_any(), &PatchParams::default(), &Patch::Merge(&none)).await.unwrap();
    tenant.project.configs().delete("web", &DeleteParams::default()).await.unwrap();
    until("the release is rebuilt from the chart", async || {
        let history = tenant.store().history(&tenant.project.namespace, "web").await.ok()?;
        history.latest().filter(|latest| latest.revision == 2 && latest.status == Status::Deployed).map(|_| ())
    })
    .await;
}

#[tokio::test]
async fn a_persons_upgrade_with_helm_stays_and_is_not_repaired() {
    for helm in ["helm3", "helm4"] {
        let tenant = Tenant::new().await;
        let _operator = tenant.run();
        tenant.deploy("blue").await;
        tenant.project.helm(helm, &["upgrade", "web", "charts/app", "--set", "colour=red"]);
        let told = until("it is reported", async || tenant.project.events("web", "RecordUnproven").await.pop()).await;
        assert!(told.1.contains("revision 2"), "{helm}: {told:?}");
        tenant.project.configs().delete("web", &DeleteParams::default()).await.unwrap();
        stays(Duration::from_secs(2), "it is not repaired", async || {
            tenant.project.get("v1", "ConfigMap", "web").await.is_none()
        })
        .await;
        tenant.deploy("green").await;
        assert_eq!(tenant.project.get("v1", "ConfigMap", "web").await.unwrap().data["data"]["colour"], "green");
    }
}

#[tokio::test]
async fn the_spec_decides_again_after_a_persons_upgrade_when_somebody_asks_for_it() {
    let tenant = Tenant::new().await;
    let _operator = tenant.run();
    tenant.deploy("blue").await;
    tenant.project.helm("helm4", &["upgrade", "web", "charts/app", "--set", "colour=red"]);
    tenant.project.condition("web", "Held", "True").await;
    let web = tenant.project.named("web");
    let said = tenant.project.cli(&["rollback", &web, "--resume", "--operator-namespace", &tenant.system]).good();
    assert!(said.contains("the spec decides again, as revision 3"), "{said}");
    assert_eq!(tenant.project.get("v1", "ConfigMap", "web").await.unwrap().data["data"]["colour"], "blue");
}

#[tokio::test]
async fn after_its_key_is_lost_the_ledger_confirms_what_is_deployed() {
    let tenant = Tenant::new().await;
    let operator = tenant.run();
    tenant.deploy("blue").await;
    drop(operator);
    let before = (tenant.versions().await, tenant.record(1).await.data["data"]["chartwright.sig"].clone());
    tenant.own_secrets().delete("chartwright-signing-key", &DeleteParams::default()).await.unwrap();
    let operator = tenant.run();
    until("the record is signed with the new key", async || {
        let signature = tenant.record(1).await.data["data"]["chartwright.sig"].clone();
        (signature.is_string() && signature != before.1).then_some(())
    })
    .await;
    tenant.project.condition("web", "Ready", "True").await;
    assert_eq!(tenant.versions().await, before.0, "no object was changed");
    drop(operator);
    // What the ledger does not confirm is not believed with the new key either.
    let binding = tenant.binding();
    tenant.own_secrets().delete("chartwright-signing-key", &DeleteParams::default()).await.unwrap();
    tenant.project.forge("web", 1, |release| with_evil(release, &binding)).await;
    let _operator = tenant.run();
    tenant.deployed_from(2).await;
    tenant.nothing_came_of_it().await;
}

#[tokio::test]
async fn without_its_ledger_the_operator_asks_for_the_window() {
    let tenant = Tenant::new().await;
    let operator = tenant.run();
    tenant.deploy("blue").await;
    tenant.deploy("green").await;
    drop(operator);
    let before = tenant.versions().await;
    tenant.lose_ledger().await;
    // A record without our part is not believed either: the content is signed, and nobody knows whether it is the newest.
    let part = json!({"data": {"chartwright": null, "chartwright.sig": null}});
    tenant.records().patch("sh.helm.release.v1.web.v2", &PatchParams::default(), &Patch::Merge(&part)).await.unwrap();
    let _operator = tenant.run();
    tenant.project.not_ready("web", "RecordUnproven").await;
    tenant.trust(&["open", "--for", "5m", "--yes"]).good();
    tenant.project.condition("web", "Ready", "True").await;
    assert_eq!(tenant.versions().await, before, "no object was changed");
    tenant.deployed_from(2).await;
}

#[tokio::test]
async fn a_forgery_that_waits_for_the_window_is_not_signed() {
    let tenant = Tenant::new().await;
    let operator = tenant.run();
    tenant.deploy("blue").await;
    drop(operator);
    tenant.lose_ledger().await;
    // Unsigned, with the right digest, so that the chart is not rendered for another reason.
    let binding = tenant.binding();
    let none = json!({
        "metadata": {"labels": {"chartwright.dev/signature-1": null, "chartwright.dev/signature-2": null}},
        "data": {"chartwright.sig": null},
    });
    tenant.project.forge("web", 1, |release| with_evil(release, &binding)).await;
    tenant.records().patch("sh.helm.release.v1.web.v1", &PatchParams::default(), &Patch::Merge(&none)).await.unwrap();
    let _operator = tenant.run();
    tenant.project.not_ready("web", "RecordUnproven").await;
    tenant.trust(&["open", "--for", "5m", "--yes"]).good();
    until("the refusal says why", async || {
        let status = tenant.project.status("web").await;
        status.to_string().contains("holds something else than the chart renders").then_some(())
    })
    .await;
    tenant.nothing_came_of_it().await;
    // Without the record, the chart decides.
    tenant.records().delete("sh.helm.release.v1.web.v1", &DeleteParams::default()).await.unwrap();
    tenant.project.condition("web", "Ready", "True").await;
    tenant.nothing_came_of_it().await;
}

#[tokio::test]
async fn what_a_forged_revision_hides_is_still_removed() {
    let tenant = Tenant::new().await;
    let operator = tenant.run();
    tenant.deploy("blue").await;
    drop(operator);
    let role = format!("{}-web", tenant.project.namespace);
    let roles = tenant.project.objects(RBAC, "ClusterRole", None);
    tenant
        .copy(1, 2, |release| {
            release.manifest = String::new().into();
            if let Some(own) = &mut release.own {
                own.objects.clear();
            }
        })
        .await;
    let _operator = tenant.run();
    tenant.deploy("small").await;
    until("the ClusterRole is gone", async || roles.get_opt(&role).await.unwrap().is_none().then_some(())).await;
    // The same with the deletion of the custom resource.
    tenant.deploy("blue").await;
    tenant.copy(3, 9, |release| release.manifest = String::new().into()).await;
    tenant.project.delete("web").await;
    tenant.project.gone("web").await;
    assert!(roles.get_opt(&role).await.unwrap().is_none());
}

#[tokio::test]
async fn a_copy_of_an_older_revision_hides_nothing_that_has_to_be_removed() {
    for is_upgraded in [false, true] {
        let tenant = Tenant::new().await;
        let operator = tenant.run();
        for (colour, revision) in [("blue", 1), ("small", 2), ("green", 3)] {
            tenant.deploy(colour).await;
            tenant.deployed_from(revision).await;
        }
        drop(operator);
        // As after a `helm rollback`, which did not remove what revision 2 lacks.
        tenant
            .copy(2, 4, |release| {
                release.own = None;
                release.status = Status::Deployed;
            })
            .await;
        let role = format!("{}-web", tenant.project.namespace);
        let roles = tenant.project.objects(RBAC, "ClusterRole", None);
        assert!(roles.get_opt(&role).await.unwrap().is_some());
        let _operator = tenant.run();
        tenant.project.condition("web", "Held", "True").await;
        if is_upgraded {
            tenant.project.apply("web", json!({"colour": "small", "another": 1})).await;
            tenant.deployed_from(5).await;
        } else {
            tenant.project.delete("web").await;
            tenant.project.gone("web").await;
        }
        until("the ClusterRole is gone", async || roles.get_opt(&role).await.unwrap().is_none().then_some(())).await;
    }
}

#[tokio::test]
async fn what_a_person_upgraded_with_helm_goes_with_the_custom_resource() {
    for helm in ["helm3", "helm4"] {
        let tenant = Tenant::new().await;
        let _operator = tenant.run();
        tenant.deploy("blue").await;
        tenant.project.helm(helm, &["upgrade", "web", "charts/app", "--set", "colour=red"]);
        tenant.project.condition("web", "Held", "True").await;
        tenant.project.delete("web").await;
        tenant.project.gone("web").await;
        for (kind, name) in [("ConfigMap", "web"), ("Secret", "web-random")] {
            assert!(tenant.project.get("v1", kind, name).await.is_none(), "{helm}: {kind} {name} stays");
        }
    }
}

#[tokio::test]
async fn a_label_does_not_mix_the_records_of_two_releases() {
    let tenant = Tenant::new().await;
    let _operator = tenant.run();
    tenant.deploy("blue").await;
    tenant.project.apply("shop", json!({"colour": "red"})).await;
    tenant.project.condition("shop", "Ready", "True").await;
    let before = tenant.record(1).await;
    let label = json!({"metadata": {"labels": {"name": "shop"}}});
    tenant.records().patch(&before.name_any(), &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
    // Drift makes the operator read the records.
    tenant.project.configs().delete("shop", &DeleteParams::default()).await.unwrap();
    until("the object is there again", async || tenant.project.get("v1", "ConfigMap", "shop").await).await;
    tenant.project.apply("shop", json!({"colour": "green"})).await;
    tenant.project.deployed("shop").await;
    assert_eq!(tenant.record(1).await.data, before.data, "the record of the other release is as it was");
}
