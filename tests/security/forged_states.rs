//! A forged state of a record or of a custom resource changes nothing: helm rewrites the one, and authors may write the other.

use std::time::Duration;

use chartwright::release::Status;
use futures::future::join_all;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PropagationPolicy};
use serde_json::json;

use super::tenant::{Tenant, with_objects};
use crate::harness::{config, stays, until, within};

#[tokio::test]
async fn a_forged_release_name_in_the_status_leads_to_no_other_release() {
    let tenant = Tenant::new().await;
    tenant.project.file("theirs/Chart.yaml", "apiVersion: v2\nname: app\nversion: 0.1.0\n");
    let theirs = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: theirs}\ndata: {colour: theirs}\n";
    tenant.project.file("theirs/templates/all.yaml", theirs);
    tenant.project.helm("helm4", &["install", "mon", "theirs"]);
    let before = tenant.project.get("v1", "ConfigMap", "theirs").await.unwrap();
    let _operator = tenant.run();
    tenant.deploy("blue").await;
    tenant.deploy("green").await;
    let status = json!({"status": {"deployedRelease": {"name": "mon", "revision": 1}}});
    tenant.project.crs().patch_status("web", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    tenant.deploy("red").await;
    tenant.project.delete("web").await;
    tenant.project.gone("web").await;
    let after = tenant.project.get("v1", "ConfigMap", "theirs").await.unwrap();
    assert_eq!(after.resource_version(), before.resource_version());
    assert!(tenant.project.helm("helm4", &["list", "-q"]).contains("mon"));
    assert!(tenant.project.get("v1", "ConfigMap", "web").await.is_none(), "its own release is removed");
}

#[tokio::test]
async fn an_earlier_state_of_a_deployed_revision_runs_no_hooks_again() {
    let tenant = Tenant::new().await;
    tenant.project.template(
        "hook.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: hook\n  annotations: {helm.sh/hook: pre-install}\n",
    );
    let operator = tenant.run();
    tenant.deploy("blue").await;
    drop(operator);
    let before = tenant.project.get("v1", "ConfigMap", "hook").await.unwrap().uid();
    tenant.forge_state(1, Status::PendingInstall).await;
    let _operator = tenant.run();
    tenant.deployed_from(2).await;
    assert_eq!(
        tenant.project.get("v1", "ConfigMap", "hook").await.unwrap().uid(),
        before,
        "the hook did not run again"
    );
}

#[tokio::test]
async fn a_record_that_is_called_uninstalled_renews_no_generated_value() {
    let tenant = Tenant::new().await;
    let operator = tenant.run();
    tenant.deploy("blue").await;
    let password = tenant.password().await;
    drop(operator);
    tenant.forge_state(1, Status::Uninstalled).await;
    let _operator = tenant.run();
    tenant.deployed_from(2).await;
    assert_eq!(tenant.password().await, password);
}

#[tokio::test]
async fn a_release_name_in_the_status_that_no_release_has_counts_for_nothing() {
    let tenant = Tenant::new().await;
    tenant.project.apply("web", json!({"colour": "blue"})).await;
    let status = json!({"status": {"deployedRelease": {"name": "elsewhere", "revision": 1}}});
    tenant.project.crs().patch_status("web", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let _operator = tenant.run();
    tenant.deployed_from(1).await;
    assert!(tenant.project.get("v1", "ConfigMap", "web").await.is_some());
    assert!(tenant.project.get("v1", "ConfigMap", "elsewhere").await.is_none());
}

#[tokio::test]
async fn an_uninstall_does_not_show_what_exists_elsewhere() {
    let tenant = Tenant::new().await;
    let victim = tenant.project.another_namespace("victim").await;
    tenant.project.create(within(&victim, config("exists", "theirs"))).await;
    let _operator = tenant.run();
    tenant.deploy("blue").await;
    // In a record without our part, as helm would write it.
    let named = [within(&victim, config("exists", "x")), within(&victim, config("absent", "x"))];
    tenant
        .copy(1, 2, |release| {
            with_objects(release, &named);
            release.own = None;
        })
        .await;
    until("it is reported", async || tenant.project.events("web", "RecordUnproven").await.pop()).await;
    tenant.project.delete("web").await;
    tenant.project.gone("web").await;
    let left = until("what stays is named", async || tenant.project.events("web", "ObjectsLeft").await.pop()).await.1;
    assert!(left.contains("exists") && left.contains("absent"), "{left}");
    let still = tenant.project.objects("v1", "ConfigMap", Some(&victim)).get_opt("exists").await.unwrap();
    assert!(still.is_some());
}

#[tokio::test]
async fn a_restored_custom_resource_without_records_keeps_its_password() {
    // It comes back before the operator does, or after the operator has looked at what is left. The garbage collector takes half a minute to
    // learn of a new kind, for both at once.
    join_all([false, true].map(async |is_late| {
        let tenant = Tenant::new().await;
        let operator = tenant.run();
        tenant.deploy("blue").await;
        let before = tenant.password().await;
        drop(operator);
        let none = json!({"metadata": {"finalizers": null}});
        tenant.project.crs().patch("web", &PatchParams::default(), &Patch::Merge(none)).await.unwrap();
        let orphan = DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..Default::default() };
        tenant.project.crs().delete("web", &orphan).await.unwrap();
        tenant.project.gone("web").await;
        let all = ListParams::default().labels("owner=helm,name=web");
        tenant.records().delete_collection(&DeleteParams::default(), &all).await.unwrap();
        if !is_late {
            tenant.project.apply("web", json!({"colour": "blue"})).await;
        }
        let operator = tenant.run();
        if is_late {
            until("what is left is reported", async || operator.log().contains("ObjectsLeft").then_some(())).await;
            tenant.project.apply("web", json!({"colour": "blue"})).await;
        }
        tenant.deployed_from(1).await;
        assert_eq!(tenant.password().await, before, "late: {is_late}");
        tenant.project.condition("web", "Ready", "True").await;
    }))
    .await;
}

/// Makes a Secret with a random value in another namespace.
const OUTSIDE: &str = "\
apiVersion: v1
kind: Secret
metadata: {name: '{{ .Release.Name }}-outside', namespace: '{{ .Release.Namespace }}-next'}
stringData: {password: '{{ randAlphaNum 12 }}'}
";

#[tokio::test]
async fn without_records_generated_values_outside_of_the_namespace_stay() {
    let tenant = Tenant::new().await;
    let next = tenant.project.another_namespace("next").await;
    tenant.project.template("outside.yaml", OUTSIDE);
    tenant.project.watch_with("allow: [cluster, other-namespaces]");
    let secrets = tenant.project.objects("v1", "Secret", Some(&next));
    let password = async || secrets.get("web-outside").await.unwrap().data["data"]["password"].clone();
    let operator = tenant.run();
    tenant.deploy("blue").await;
    let before = password().await;
    drop(operator);
    let all = ListParams::default().labels("owner=helm,name=web");
    tenant.records().delete_collection(&DeleteParams::default(), &all).await.unwrap();
    let operator = tenant.run();
    tenant.deployed_from(1).await;
    tenant.project.condition("web", "Ready", "True").await;
    assert_eq!(password().await, before);
    drop(operator);
    // Without the ledger nothing proves that the Secret is the release's: its value is neither read nor replaced.
    tenant.records().delete_collection(&DeleteParams::default(), &all).await.unwrap();
    tenant.lose_ledger().await;
    let _operator = tenant.run();
    tenant.project.not_ready("web", "RecordLost").await;
    stays(Duration::from_secs(2), "the value stays", password).await;
    assert_eq!(password().await, before);
}
