//! A release that a person installed with helm is theirs: it is neither taken nor removed for what a tenant writes on its record.

use std::time::Duration;

use chartwright::object::ObjectId;
use chartwright::release::{Applied, Own, Release, Status};
use kube::ResourceExt;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::tenant::{RBAC, Tenant};
use crate::harness::{Project, config, stays};

const FINALIZER: &str = "helm.sdk.operatorframework.io/uninstall-release";

fn identity(object: Option<DynamicObject>) -> Option<(Option<String>, Option<String>)> {
    object.map(|object| (object.uid(), object.resource_version()))
}

#[tokio::test]
async fn a_helm_release_of_the_same_chart_name_is_not_taken() {
    for fields in ["", "adopt: objects", "adopt: releases"] {
        let project = Project::of_objects().await;
        project.watch_with(fields);
        project.file("theirs/Chart.yaml", "apiVersion: v2\nname: app\nversion: 0.1.0\n");
        let theirs = "apiVersion: v1\nkind: Secret\nmetadata: {name: theirs}\nstringData: {password: theirs}\n";
        project.file("theirs/templates/secret.yaml", theirs);
        project.helm("helm4", &["install", "shop", "theirs"]);
        let look = async || {
            let names = ["theirs", "sh.helm.release.v1.shop.v1", "sh.helm.release.v1.shop.v2"];
            let mut found = vec![];
            for name in names {
                found.push((name, identity(project.get("v1", "Secret", name).await)));
            }
            found
        };
        let before = look().await;
        let _operator = project.run();
        project.apply("shop", json!({"objects": [config("shop", "ours")]})).await;
        project.annotate("shop", "chartwright.dev/adopt", "true").await;
        project.decided("shop").await;
        assert_eq!(look().await, before, "{fields:?}: the release of somebody else was taken");
        let told = project.not_ready("shop", "AdoptionNotAllowed").await;
        let why = if fields == "adopt: releases" { "which the chart does not render" } else { "`adopt: releases`" };
        assert!(told["message"].as_str().unwrap().contains(why), "{fields:?}: {told}");
        assert!(project.get("v1", "ConfigMap", "shop").await.is_none(), "{fields:?}");
        project.delete("shop").await;
        project.gone("shop").await;
        stays(Duration::from_secs(2), "it outlives the custom resource", look).await;
        assert_eq!(look().await, before, "{fields:?}");
    }
}

/// An administrator's release in the tenant's namespace, with objects there, elsewhere and of the whole cluster.
struct Theirs {
    tenant: Tenant,
    /// Another team's namespace.
    victim: String,
}

impl Theirs {
    async fn install() -> Self {
        let tenant = Tenant::new().await;
        let victim = tenant.project.another_namespace("data").await;
        let theirs = Theirs { tenant, victim };
        let project = &theirs.tenant.project;
        project.file("theirs/Chart.yaml", "apiVersion: v2\nname: monitoring\nversion: 9.9.9\n");
        let manifest: String = theirs.objects().iter().map(|object| format!("---\n{object}\n")).collect();
        project.file("theirs/templates/all.yaml", &manifest);
        project.helm("helm4", &["install", "web", "theirs"]);
        theirs
    }

    fn objects(&self) -> Vec<Value> {
        let (name, group) = (&self.tenant.project.namespace, format!("theirs.{}", self.tenant.project.resource.group));
        let storage = json!({"requests": {"storage": "1Gi"}});
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        let versions = json!([{"name": "v1", "served": true, "storage": true, "schema": schema}]);
        vec![
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("{name}-prod")}}),
            json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": format!("{name}-theirs")}, "rules": []}),
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": format!("things.{group}")}, "spec": {"group": group, "scope": "Namespaced",
                "names": {"kind": "Thing", "plural": "things"}, "versions": versions}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "precious", "namespace": self.victim}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "inside", "namespace": name}}),
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": name},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": storage}}),
        ]
    }

    /// What is left of them, each with its UID.
    async fn left(&self) -> Vec<(String, Option<String>)> {
        let mut left = vec![];
        for object in self.objects() {
            let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
            let (kind, name) = (text("/kind").unwrap(), text("/metadata/name").unwrap());
            let (version, namespace) = (text("/apiVersion").unwrap(), text("/metadata/namespace"));
            let live = self.tenant.project.find(version, kind, namespace, name).await;
            let live = live.filter(|live| live.metadata.deletion_timestamp.is_none());
            left.push((format!("{kind} {name}"), live.and_then(|live| live.uid())));
        }
        left
    }

    /// All of them, as the inventory of a release of the operator names them.
    async fn inventory(&self) -> Vec<Applied> {
        let uids = self.left().await.into_iter().map(|(_, uid)| uid);
        let id = |object: &Value| {
            let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
            let (group, version) = chartwright::object::split_api_version(object["apiVersion"].as_str().unwrap());
            let (kind, name) = (text("/kind").unwrap(), text("/metadata/name").unwrap());
            let namespace = text("/metadata/namespace");
            ObjectId { group: group.to_owned(), version: version.to_owned(), kind, namespace, name }
        };
        self.objects().iter().zip(uids).map(|(object, uid)| Applied::new(id(object), uid)).collect()
    }

    async fn patch_custom_resource(&self, patch: Value) {
        self.tenant.project.crs().patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// As somebody does it who wants all that the release is said to have to be removed.
    async fn delete_custom_resource(&self) {
        self.patch_custom_resource(json!({"metadata": {"finalizers": [FINALIZER]}})).await;
        self.tenant.project.delete("web").await;
        self.tenant.project.gone("web").await;
    }
}

#[tokio::test]
async fn one_label_on_a_helm_release_deletes_nothing() {
    let theirs = Theirs::install().await;
    let tenant = &theirs.tenant;
    let before = theirs.left().await;
    let _operator = tenant.run();
    tenant.project.apply("web", json!({"colour": "blue"})).await;
    let owner = tenant.owner_mark().await.id();
    let label = json!({"metadata": {"labels": {"chartwright.dev/owner": owner, "chartwright.dev/digest": "x"}}});
    tenant.records().patch("sh.helm.release.v1.web.v1", &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
    theirs.delete_custom_resource().await;
    stays(Duration::from_secs(3), "everything stays", async || theirs.left().await).await;
    assert_eq!(theirs.left().await, before);
}

#[tokio::test]
async fn a_forged_inventory_on_a_helm_release_deletes_nothing() {
    let theirs = Theirs::install().await;
    let (tenant, before) = (&theirs.tenant, theirs.left().await);
    tenant.project.apply("web", json!({"colour": "blue"})).await;
    let (owner, objects) = (tenant.owner_mark().await, theirs.inventory().await);
    let own = Own { digest: "x".into(), owner, objects, ..Own::default() };
    tenant.project.forge("web", 1, |release| release.own = Some(own)).await;
    // As after an upgrade of a person that failed: then Helm's marks are all that their objects have.
    let failed = |release: &mut Release| (release.own, release.status) = (None, Status::Failed);
    tenant.copy(1, 2, failed).await;
    let _operator = tenant.run();
    // The spec is not what the record was made of, so the operator would upgrade the release and prune the rest.
    tenant.project.decided("web").await;
    assert_eq!(theirs.left().await, before, "an upgrade removed objects of somebody else");
    tenant.project.apply("web", json!({"colour": "green"})).await;
    tenant.project.decided("web").await;
    assert_eq!(theirs.left().await, before, "an upgrade removed objects of somebody else");
    let told = tenant.project.not_ready("web", "RecordUnproven").await;
    assert!(told["message"].as_str().unwrap().contains("chartwright trust open"), "{told}");
    theirs.delete_custom_resource().await;
    stays(Duration::from_secs(3), "everything stays", async || theirs.left().await).await;
    assert_eq!(theirs.left().await, before);
}
