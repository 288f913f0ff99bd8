//! Helm's marks on an object prove nothing: an administrator's release of the same name has them too, and its records may be gone.

use std::time::Duration;

use chartwright::release::Status;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, PostParams};
use serde_json::{Value, json};

use super::tenant::{RBAC, Tenant, with_objects};
use crate::harness::{stays, within};

/// What an author's chart may render by values.
const EXTRA: &str = "{{ range .Values.objects }}\n---\n{{ toYaml . }}\n{{ end }}";

struct Theirs {
    tenant: Tenant,
    /// Where the release of the administrator has an object besides a ClusterRole.
    victim: String,
}

impl Theirs {
    /// Objects of a Helm release `web`, whose records somebody deleted.
    async fn new(watch: &str) -> Self {
        let tenant = Tenant::new().await;
        tenant.project.template("extra.yaml", EXTRA);
        tenant.project.watch_with(&format!("allow: [cluster, other-namespaces]\n{watch}"));
        let victim = tenant.project.another_namespace("victim").await;
        let theirs = Theirs { tenant, victim };
        for (api, object) in theirs.apis().into_iter().zip(theirs.objects("theirs")) {
            let mut object = object;
            object["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "Helm"});
            object["metadata"]["annotations"] = json!({
                "meta.helm.sh/release-name": "web",
                "meta.helm.sh/release-namespace": theirs.tenant.project.namespace,
            });
            api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        }
        theirs
    }

    fn role(&self) -> String {
        format!("{}-theirs", self.tenant.project.namespace)
    }

    fn apis(&self) -> [Api<DynamicObject>; 2] {
        let project = &self.tenant.project;
        [project.objects(RBAC, "ClusterRole", None), project.objects("v1", "ConfigMap", Some(&self.victim))]
    }

    fn objects(&self, whose: &str) -> [Value; 2] {
        let rule = json!({"apiGroups": [""], "resources": [whose], "verbs": ["get"]});
        let config =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs"}, "data": {"is": whose}});
        [
            json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": self.role()}, "rules": [rule]}),
            within(&self.victim, config),
        ]
    }

    async fn versions(&self) -> Vec<Option<String>> {
        let [roles, configs] = self.apis();
        let found = [roles.get_opt(&self.role()).await.unwrap(), configs.get_opt("theirs").await.unwrap()];
        found.into_iter().map(|object| object?.resource_version()).collect()
    }

    async fn are_untouched(&self, before: &[Option<String>]) {
        stays(Duration::from_secs(3), "the objects are untouched", async || self.versions().await).await;
        assert_eq!(self.versions().await, before);
    }

    /// A Helm release of the kind's chart, in whose record these objects are, too: whoever may write Secrets can write that.
    async fn forge_release(&self, objects: &[Value; 2]) {
        let project = &self.tenant.project;
        project.helm("helm4", &["install", "web", "charts/app", "--set", "colour=blue"]);
        let values = json!({"colour": "blue", "objects": self.objects("ours")});
        project
            .forge("web", 1, |release| {
                with_objects(release, objects);
                release.config = values.into();
            })
            .await;
    }

    /// With everything that is the administrator's in the spec.
    async fn ask(&self) {
        let spec = json!({"colour": "blue", "objects": self.objects("ours")});
        self.tenant.project.apply("web", spec).await;
    }
}

#[tokio::test]
async fn a_copy_of_a_signed_record_takes_no_object_with_helms_marks() {
    let theirs = Theirs::new("").await;
    let (tenant, before) = (&theirs.tenant, theirs.versions().await);
    let _operator = tenant.run();
    tenant.deploy("blue").await;
    theirs.ask().await;
    tenant.project.not_ready("web", "BelongsToAnother").await;
    tenant
        .copy(1, 2, |release| {
            release.own = None;
            release.status = Status::Failed;
        })
        .await;
    theirs.are_untouched(&before).await;
    tenant.project.delete("web").await;
    tenant.project.gone("web").await;
    assert_eq!(theirs.versions().await, before);
}

#[tokio::test]
async fn a_forged_helm_release_takes_nothing_outside_of_its_namespace_that_it_would_change() {
    let theirs = Theirs::new("adopt: releases").await;
    let (tenant, before) = (&theirs.tenant, theirs.versions().await);
    let project = &tenant.project;
    theirs.forge_release(&theirs.objects("theirs")).await;
    let _operator = tenant.run();
    theirs.ask().await;
    for (annotation, value) in
        [("chartwright.dev/adopt", "true"), ("chartwright.dev/adopted-deletion-policy", "delete")]
    {
        project.annotate("web", annotation, value).await;
    }
    let told = project.not_ready("web", "AdoptionNotAllowed").await;
    assert!(told["message"].as_str().unwrap().contains("outside of the release's namespace"), "{told}");
    theirs.are_untouched(&before).await;
    project.delete("web").await;
    project.gone("web").await;
    assert_eq!(theirs.versions().await, before);
    tenant.record(1).await;
}

#[tokio::test]
async fn a_refused_adoption_leaves_no_evidence_for_the_next_turn() {
    let theirs = Theirs::new("adopt: releases").await;
    let (tenant, before) = (&theirs.tenant, theirs.versions().await);
    let project = &tenant.project;
    // The record is just what the chart renders, so that it would be taken over as it is.
    theirs.forge_release(&theirs.objects("ours")).await;
    let operator = tenant.run();
    theirs.ask().await;
    project.not_ready("web", "AdoptionNotAllowed").await;
    drop(operator);
    let _operator = tenant.run();
    project.annotate("web", "chartwright.dev/adopt", "true").await;
    theirs.are_untouched(&before).await;
    project.not_ready("web", "AdoptionNotAllowed").await;
    project.delete("web").await;
    project.gone("web").await;
    assert_eq!(theirs.versions().await, before);
    tenant.record(1).await;
}
