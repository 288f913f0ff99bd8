//! A forged state of a record or of a custom resource changes nothing: helm rewrites the one, and authors may write the other.

use std::time::Duration;

use chartwright::release::Status;
use futures::future::join_all;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy};
use serde_json::{Value, json};

use super::tenant::{Tenant, with_objects};
use crate::harness::command_line::said;
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

const INSTALL_HOOK: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: hook\n  annotations: {helm.sh/hook: pre-install}\n";

impl Tenant {
    /// Forges a state, deletes what the hook of the install made, and changes the spec where one is given. Then a new revision is made, and the
    /// hook does not run again.
    async fn no_install_runs_again(&self, state: Status, colour: Option<&str>) {
        let hook = self.project.configs();
        hook.delete("hook", &DeleteParams::default()).await.unwrap();
        self.forge_state(1, state).await;
        if let Some(colour) = colour {
            self.project.apply("web", json!({"colour": colour})).await;
        }
        let _operator = self.run();
        self.deployed_from(2).await;
        self.project.condition("web", "Ready", "True").await;
        assert!(hook.get_opt("hook").await.unwrap().is_none(), "{state:?}: the hook of an install ran again");
    }
}

#[tokio::test]
async fn no_state_of_a_deployed_revision_runs_the_hooks_of_an_install_again() {
    let states = [
        (Status::PendingInstall, None),
        (Status::Unknown, None),
        (Status::Unknown, Some("green")),
        (Status::Uninstalling, Some("green")),
    ];
    for (state, colour) in states {
        let tenant = Tenant::new().await;
        tenant.project.template("hook.yaml", INSTALL_HOOK);
        let operator = tenant.run();
        tenant.deploy("blue").await;
        drop(operator);
        tenant.no_install_runs_again(state, colour).await;
    }
}

/// It does not end.
const UPGRADE_HOOK: &str = "\
apiVersion: batch/v1
kind: Job
metadata:
  name: upgrading
  annotations: {helm.sh/hook: pre-upgrade}
spec:
  template:
    metadata: {labels: {lab.chartwright.dev/behaviour: hang}}
    spec: {restartPolicy: Never, containers: [{name: app, image: app}]}
";

#[tokio::test]
async fn an_upgrade_stays_one_when_the_records_before_it_are_deleted() {
    let tenant = Tenant::new().await;
    for (file, text) in [("hook.yaml", INSTALL_HOOK), ("upgrading.yaml", UPGRADE_HOOK)] {
        tenant.project.template(file, text);
    }
    let operator = tenant.run();
    tenant.deploy("blue").await;
    let configs = tenant.project.configs();
    configs.delete("hook", &DeleteParams::default()).await.unwrap();
    tenant.project.apply("web", json!({"colour": "green"})).await;
    until("the hook of the upgrade runs", async || tenant.project.get("batch/v1", "Job", "upgrading").await).await;
    drop(operator);
    tenant.records().delete("sh.helm.release.v1.web.v1", &DeleteParams::default()).await.unwrap();
    let _operator = tenant.run();
    // What the release does next: it waits for the hook of the upgrade.
    stays(Duration::from_secs(4), "no hook of an install runs", async || {
        configs.get_opt("hook").await.unwrap().is_some()
    })
    .await;
    assert!(configs.get_opt("hook").await.unwrap().is_none());
    let record = tenant.store().get(&tenant.project.namespace, "web", 2).await.unwrap();
    assert_eq!(record.status, Status::PendingUpgrade);
}

#[tokio::test]
async fn what_was_signed_in_the_window_is_not_installed_again() {
    let tenant = Tenant::new().await;
    tenant.project.template("hook.yaml", INSTALL_HOOK);
    let operator = tenant.run();
    tenant.deploy("blue").await;
    drop(operator);
    tenant.lose_ledger().await;
    let operator = tenant.run();
    tenant.project.not_ready("web", "RecordUnproven").await;
    tenant.trust(&["open", "--for", "5m", "--yes"]).good();
    tenant.project.condition("web", "Ready", "True").await;
    drop(operator);
    tenant.no_install_runs_again(Status::PendingInstall, None).await;
}

#[tokio::test]
async fn a_record_that_has_expired_is_not_believed_when_it_is_written_again() {
    let tenant = Tenant::new().await;
    tenant.project.watch_with("maxHistory: 1");
    let operator = tenant.run();
    tenant.deploy("blue").await;
    let mut expired = tenant.record(1).await;
    expired.metadata.resource_version = None;
    expired.metadata.uid = None;
    for colour in ["green", "red"] {
        tenant.deploy(colour).await;
    }
    drop(operator);
    let write = async || {
        let records = tenant.records();
        records.delete("sh.helm.release.v1.web.v1", &DeleteParams::default()).await.ok();
        records.create(&PostParams::default(), &expired).await.unwrap();
    };
    write().await;
    let _operator = tenant.run();
    tenant.deploy("black").await;
    write().await;
    tenant.project.annotate("web", "chartwright.dev/rollback-to", "1").await;
    let refused = |status: &Value| {
        let conditions = status["conditions"].as_array()?.iter();
        let reasons: Vec<_> = conditions.filter_map(|condition| condition["reason"].as_str()).collect();
        reasons.iter().any(|reason| ["RecordUnproven", "NoSuchRevision"].contains(reason)).then_some(())
    };
    tenant.project.told("web", "going back is refused", refused).await;
    assert_eq!(tenant.project.get("v1", "ConfigMap", "web").await.unwrap().data["data"]["colour"], "black");
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
async fn a_release_name_in_the_status_that_no_release_has_changes_no_preview() {
    let tenant = Tenant::new().await;
    let operator = tenant.run();
    tenant.deploy("blue").await;
    drop(operator);
    let status = json!({"status": {"deployedRelease": {"name": "elsewhere"}}});
    tenant.project.crs().patch_status("web", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let web = tenant.project.named("web");
    for (command, shown) in [("render", "name: web-random"), ("diff", "")] {
        let mut preview = tenant.project.command_line(&[command, &web]);
        preview.env("CHARTWRIGHT_OPERATOR_NAMESPACE", &tenant.system);
        let out = said(preview).good();
        assert!(out.contains(shown) && !out.contains("elsewhere"), "{command}: {out}");
    }
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

#[tokio::test]
async fn without_the_newest_record_no_marks_decide_whether_generated_values_stay() {
    // What somebody in the namespace may do so that the release looks uninstalled.
    let unmarked = json!({"metadata": {"labels": {"applyset.kubernetes.io/part-of": null}}});
    let kept = json!({"metadata": {"annotations": {"helm.sh/resource-policy": "keep"}}});
    for patch in [unmarked, kept] {
        let tenant = Tenant::new().await;
        let operator = tenant.run();
        for (number, revision) in [(1, 1), (2, 2)] {
            tenant.project.apply("web", json!({"colour": "small", "number": number})).await;
            tenant.deployed_from(revision).await;
        }
        tenant.project.condition("web", "Ready", "True").await;
        drop(operator);
        let before = tenant.password().await;
        tenant.records().delete("sh.helm.release.v1.web.v2", &DeleteParams::default()).await.unwrap();
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        tenant.project.configs().patch("web", &params, &patch).await.unwrap();
        tenant.records().patch("web-random", &params, &patch).await.unwrap();
        let _operator = tenant.run();
        tenant.deployed_from(3).await;
        assert_eq!(tenant.password().await, before, "{patch:?}");
    }
}

#[tokio::test]
async fn a_release_name_that_only_the_status_tells_stops_a_restore() {
    let tenant = Tenant::new().await;
    let operator = tenant.run();
    tenant.deploy("blue").await;
    drop(operator);
    let all = ListParams::default().labels("owner=helm,name=web");
    tenant.records().delete_collection(&DeleteParams::default(), &all).await.unwrap();
    tenant.lose_ledger().await;
    let (crs, params) = (tenant.project.crs(), PatchParams::default());
    let status = json!({"status": {"deployedRelease": {"name": "elsewhere"}}});
    crs.patch_status("web", &params, &Patch::Merge(status)).await.unwrap();
    let _operator = tenant.run();
    let told = tenant.project.not_ready("web", "RecordLost").await;
    let message = told["message"].as_str().unwrap();
    assert!(message.contains("elsewhere") && message.contains("--subresource=status"), "{message}");
    assert!(tenant.project.get("v1", "ConfigMap", "elsewhere").await.is_none());
    for (command, code) in [("render", 1), ("diff", 2)] {
        let mut preview = tenant.project.command_line(&[command, &tenant.project.named("web")]);
        preview.env("CHARTWRIGHT_OPERATOR_NAMESPACE", &tenant.system);
        let complaint = said(preview).complaint(code);
        assert!(
            complaint.contains("elsewhere") && complaint.contains("--subresource=status"),
            "{command}: {complaint}"
        );
    }
    // It does not keep the author's own resource from anything for good.
    let none = json!({"status": {"deployedRelease": null}});
    crs.patch_status("web", &params, &Patch::Merge(none)).await.unwrap();
    tenant.project.condition("web", "Ready", "True").await;
}
