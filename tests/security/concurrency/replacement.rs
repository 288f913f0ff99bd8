//! Whoever asks for replacement by force loses nothing that cannot be created again.

use kube::ResourceExt;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::FORCE;
use crate::harness::gate::{Gate, When};
use crate::harness::{Project, config, until};

/// A StatefulSet with one pod and one claim.
fn set(service: &str, app: &str, when_deleted: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {
            "serviceName": service, "replicas": 1, "selector": {"matchLabels": {"app": app}},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": when_deleted, "whenScaled": "Retain"},
            "template": {
                "metadata": {"labels": {"app": app}},
                "spec": {"containers": [{"name": "db", "image": "registry.example.com/db"}]},
            },
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "lab",
                    "resources": {"requests": {"storage": "1Gi"}}},
            }],
        },
    })
}

async fn claim(project: &Project) -> Option<DynamicObject> {
    project.get("v1", "PersistentVolumeClaim", "data-db-0").await
}

/// The UID of the StatefulSet that owns the claim.
fn owner(claim: &DynamicObject) -> Option<String> {
    claim.owner_references().iter().find(|it| it.kind == "StatefulSet").map(|it| it.uid.clone())
}

async fn deploy(project: &Project, objects: Value) {
    project.apply("web", json!({"objects": objects})).await;
    project.annotate("web", FORCE, "true").await;
    project.deployed("web").await;
    project.condition("web", "Ready", "True").await;
}

/// The claim and its owner, once the controller has made it what the policy says.
async fn settled_claim(project: &Project, when_deleted: &str) -> DynamicObject {
    until("the claim is there", async || {
        let set = project.get("apps/v1", "StatefulSet", "db").await?.uid();
        let claim = claim(project).await?;
        let expected = set.filter(|_| when_deleted == "Delete");
        (owner(&claim) == expected).then_some(claim)
    })
    .await
}

async fn the_claim_survives(when_deleted: &str) {
    let project = Project::of_objects().await;
    let _operator = project.run();
    deploy(&project, json!([set("one", "a", when_deleted)])).await;
    let before = settled_claim(&project, when_deleted).await;
    let pod = project.get("v1", "Pod", "db-0").await.unwrap().uid();
    let old = project.get("apps/v1", "StatefulSet", "db").await.unwrap().uid();
    project.apply("web", json!({"objects": [set("two", "a", when_deleted)]})).await;
    until("the StatefulSet is created again", async || {
        let set = project.get("apps/v1", "StatefulSet", "db").await?;
        (set.uid() != old && set.data["spec"]["serviceName"] == "two").then_some(())
    })
    .await;
    project.condition("web", "Ready", "True").await;
    let after = settled_claim(&project, when_deleted).await;
    assert_eq!(after.uid(), before.uid(), "the claim of a StatefulSet with whenDeleted: {when_deleted}");
    assert!(after.metadata.deletion_timestamp.is_none());
    let adopted = until("its pod is adopted", async || {
        let new = project.get("apps/v1", "StatefulSet", "db").await?.uid()?;
        let pod = project.get("v1", "Pod", "db-0").await?;
        pod.owner_references().iter().any(|it| it.uid == new).then_some(pod)
    })
    .await;
    assert_eq!(adopted.uid(), pod, "not even the pod is interrupted");
}

#[tokio::test]
async fn a_claim_that_goes_with_its_stateful_set_survives_a_replacement() {
    the_claim_survives("Delete").await;
}

#[tokio::test]
async fn a_claim_that_is_retained_survives_a_replacement() {
    the_claim_survives("Retain").await;
}

#[tokio::test]
async fn a_stateful_set_whose_selector_changes_is_replaced_only_if_its_claims_stay() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    deploy(&project, json!([set("one", "a", "Delete")])).await;
    let before = settled_claim(&project, "Delete").await;
    let old = project.get("apps/v1", "StatefulSet", "db").await.unwrap().uid();
    project.apply("web", json!({"objects": [set("one", "b", "Delete")]})).await;
    let told = project.not_ready("web", "ImmutableField").await;
    assert!(told["message"].as_str().unwrap().contains("whenDeleted"), "{told}");
    assert_eq!(project.get("apps/v1", "StatefulSet", "db").await.unwrap().uid(), old);
    // As the message says.
    project.apply("web", json!({"objects": [set("one", "a", "Retain")]})).await;
    project.deployed("web").await;
    settled_claim(&project, "Retain").await;
    project.apply("web", json!({"objects": [set("one", "b", "Retain")]})).await;
    until("the StatefulSet is created again", async || {
        project.get("apps/v1", "StatefulSet", "db").await.filter(|set| set.uid() != old)
    })
    .await;
    project.condition("web", "Ready", "True").await;
    assert_eq!(claim(&project).await.unwrap().uid(), before.uid());
}

fn deployment(app: &str, container: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "it"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": app}},
            "template": {"metadata": {"labels": {"app": app}},
                "spec": {"containers": [{"name": container, "image": "registry.example.com/a"}]}},
        },
    })
}

fn job(image: &str, policy: &str) -> Value {
    let pod = json!({"restartPolicy": policy, "containers": [{"name": "a", "image": image}]});
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "it"}, "spec": {"template": {"spec": pod}}})
}

fn service(address: Option<&str>, port: u32) -> Value {
    let mut service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "it"},
        "spec": {"selector": {"app": "a"}, "ports": [{"port": port}]}});
    if let Some(address) = address {
        service["spec"]["clusterIP"] = address.into();
    }
    service
}

fn secret(kind: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "it"}, "type": kind, "stringData": data})
}

#[tokio::test]
async fn what_is_immutable_and_invalid_is_not_deleted() {
    let certificate = json!({"tls.crt": "a", "tls.key": "b"});
    // Each is valid, then immutable and invalid at once.
    let cases = [
        (deployment("a", "main"), deployment("b", "Not_A_Name")),
        (job("one", "Never"), job("two", "Always")),
        (service(None, 80), service(Some("None"), 70000)),
        (secret("Opaque", json!({"a": "b"})), secret("kubernetes.io/tls", json!({"tls.crt": "a"}))),
        (secret("kubernetes.io/tls", certificate), secret("kubernetes.io/dockerconfigjson", json!({"a": "b"}))),
    ];
    let project = Project::of_objects().await;
    let _operator = project.run();
    for (number, (good, bad)) in cases.into_iter().enumerate() {
        let name = format!("case-{number}");
        let named = |mut object: Value| {
            object["metadata"]["name"] = name.as_str().into();
            object
        };
        let (version, kind) =
            (good["apiVersion"].as_str().unwrap().to_owned(), good["kind"].as_str().unwrap().to_owned());
        project.apply(&name, json!({"objects": [named(good), config(&format!("config-{number}"), "blue")]})).await;
        project.annotate(&name, FORCE, "true").await;
        project.deployed(&name).await;
        let before = project.get(&version, &kind, &name).await.unwrap().uid();
        project.apply(&name, json!({"objects": [named(bad), config(&format!("config-{number}"), "green")]})).await;
        let told = project.not_ready(&name, "InvalidObject").await;
        assert!(told["message"].as_str().unwrap().contains(&name), "{told}");
        let after = project.get(&version, &kind, &name).await.unwrap_or_else(|| panic!("the {kind} is gone"));
        assert_eq!(after.uid(), before, "{kind}");
        assert!(after.metadata.deletion_timestamp.is_none(), "{kind}");
        let config = project.get("v1", "ConfigMap", &format!("config-{number}")).await.unwrap();
        assert_eq!(config.data["data"]["colour"], "blue", "nothing was changed: {kind}");
    }
    // A change that is immutable alone is carried out, also after one that was refused.
    let old = project.get("apps/v1", "Deployment", "case-0").await.unwrap().uid();
    let mut good = deployment("b", "main");
    good["metadata"]["name"] = "case-0".into();
    project.apply("case-0", json!({"objects": [good, config("config-0", "green")]})).await;
    project.condition("case-0", "Ready", "True").await;
    assert_ne!(project.get("apps/v1", "Deployment", "case-0").await.unwrap().uid(), old);
}

/// A ConfigMap that cannot be changed in place.
fn fixed(colour: &str) -> Value {
    let mut config = config("it", colour);
    config["immutable"] = true.into();
    config
}

/// Refuses to create ConfigMaps of this colour, also in dry runs.
async fn refuse_colour(project: &Project, colour: &str) {
    let admission = |kind: &str, spec: Value| json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": project.namespace}, "spec": spec});
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]});
    let expression = format!("!has(object.data) || !('colour' in object.data) || object.data.colour != '{colour}'");
    let validation = json!({"expression": expression, "message": "not this colour"});
    let spec = json!({"matchConstraints": {"resourceRules": [rule]}, "validations": [validation]});
    project.create(admission("ValidatingAdmissionPolicy", spec)).await;
    let here = json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": project.namespace}}});
    let spec = json!({"policyName": project.namespace, "validationActions": ["Deny"], "matchResources": here});
    project.create(admission("ValidatingAdmissionPolicyBinding", spec)).await;
    let params = PatchParams { dry_run: true, ..PatchParams::apply("test").force() };
    until("the policy is in force", async || {
        let probe = project.configs().patch("probe", &params, &Patch::Apply(config("probe", colour))).await;
        probe.is_err().then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_a_policy_would_not_let_in_again_is_not_deleted() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    deploy(&project, json!([fixed("blue")])).await;
    project.annotate("web", "helm.sdk.operatorframework.io/rollback-force", "true").await;
    project.apply("web", json!({"objects": [fixed("green")]})).await;
    project.condition("web", "Ready", "True").await;
    until("it is green", async || {
        let config = project.get("v1", "ConfigMap", "it").await?;
        (config.data["data"]["colour"] == "green").then_some(())
    })
    .await;
    let green = project.get("v1", "ConfigMap", "it").await.unwrap().uid();
    refuse_colour(&project, "blue").await;
    project.apply("web", json!({"objects": [fixed("blue")]})).await;
    let told = project.condition("web", "Ready", "False").await;
    let told = match told["message"].as_str() {
        Some(text) if text.contains("not this colour") => text.to_owned(),
        _ => {
            project
                .told("web", "the policy's words", |status| {
                    status["conditions"]
                        .as_array()?
                        .iter()
                        .filter_map(|it| it["message"].as_str())
                        .find(|text| text.contains("not this colour"))
                        .map(str::to_owned)
                })
                .await
        }
    };
    assert!(told.contains("not deleted"), "{told}");
    assert_eq!(project.get("v1", "ConfigMap", "it").await.unwrap().uid(), green);
    // Going back leaves alone what it cannot create again, with force too.
    project.apply("web", json!({"objects": [fixed("green")]})).await;
    project.condition("web", "Ready", "True").await;
    project.annotate("web", "chartwright.dev/rollback-to", "1").await;
    project.condition("web", "Held", "True").await;
    let after = project.get("v1", "ConfigMap", "it").await.unwrap();
    assert_eq!((after.uid(), &after.data["data"]["colour"]), (green, &json!("green")));
}

#[tokio::test]
async fn a_custom_resource_of_another_operator_is_not_deleted_to_be_changed() {
    let project = Project::of_objects().await;
    let group = format!("{}.example.com", project.namespace);
    let rule = json!({"rule": "self == oldSelf", "message": "field is immutable"});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "string", "x-kubernetes-validations": [rule]}}}}});
    let name = format!("databases.{group}");
    project
        .create(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
            "spec": {"group": group, "scope": "Namespaced", "names": {"kind": "Database", "plural": "databases"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
        }))
        .await;
    let version = format!("{group}/v1");
    let database = |size: &str| json!({"apiVersion": version, "kind": "Database", "metadata": {"name": "db"}, "spec": {"size": size}});
    let _operator = project.run();
    project.apply("web", json!({"objects": [database("small"), config("web", "blue")]})).await;
    project.annotate("web", FORCE, "true").await;
    project.condition("web", "Deployed", "True").await;
    let old = project.get(&version, "Database", "db").await.unwrap();
    project.apply("web", json!({"objects": [database("large"), config("web", "green")]})).await;
    let told = project.not_ready("web", "ImmutableField").await;
    assert!(told["message"].as_str().unwrap().contains("does not delete a custom resource"), "{told}");
    let kept = project.get(&version, "Database", "db").await.unwrap();
    assert_eq!((kept.uid(), kept.metadata.deletion_timestamp), (old.uid(), None));
    assert_eq!(project.get("v1", "ConfigMap", "web").await.unwrap().data["data"]["colour"], "blue");
    // As the message says: whoever knows that nothing is lost deletes it.
    let databases = project.objects(&version, "Database", Some(&project.namespace));
    databases.delete("db", &Default::default()).await.unwrap();
    until("it is created as the spec says", async || {
        let new = project.get(&version, "Database", "db").await?;
        (new.data["spec"]["size"] == "large").then_some(())
    })
    .await;
    project
        .objects("apiextensions.k8s.io/v1", "CustomResourceDefinition", None)
        .delete(&name, &Default::default())
        .await
        .unwrap();
}

/// Sets the finalizers of the Deployment.
async fn hold(project: &Project, finalizers: Value) {
    let patch = json!({"metadata": {"finalizers": finalizers}});
    let deployments = project.objects("apps/v1", "Deployment", Some(&project.namespace));
    deployments.patch("it", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

#[tokio::test]
async fn what_was_deleted_to_be_replaced_comes_back_if_the_next_spec_is_refused() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    deploy(&project, json!([deployment("a", "main")])).await;
    let old = project.get("apps/v1", "Deployment", "it").await.unwrap().uid();
    hold(&project, json!(["chartwright.dev/test"])).await;
    project.apply("web", json!({"objects": [deployment("b", "main")]})).await;
    until("it is being deleted", async || {
        project.get("apps/v1", "Deployment", "it").await?.metadata.deletion_timestamp
    })
    .await;
    project.apply("web", json!({"objects": [deployment("b", "main"), config("Not_A_Name", "blue")]})).await;
    project.not_ready("web", "InvalidObject").await;
    hold(&project, Value::Null).await;
    until("it is created again", async || {
        project.get("apps/v1", "Deployment", "it").await.filter(|new| new.uid() != old)
    })
    .await;
    project.not_ready("web", "InvalidObject").await;
    project.apply("web", json!({"objects": [deployment("b", "main"), config("name", "blue")]})).await;
    project.condition("web", "Ready", "True").await;
}

#[tokio::test]
async fn an_operator_that_is_killed_between_deletion_and_creation_leaves_no_gap() {
    for when in [When::Before, When::After] {
        let project = Project::of_objects().await;
        let gate = Gate::start(project.client.clone()).await;
        let operator = project.launch().before(&gate).start();
        deploy(&project, json!([deployment("a", "main")])).await;
        let old = project.get("apps/v1", "Deployment", "it").await.unwrap().uid();
        gate.arm_at_call(&operator, "DELETE", "/deployments/it", when);
        project.apply("web", json!({"objects": [deployment("b", "main")]})).await;
        until("it is killed", async || gate.has_killed().then_some(())).await;
        gate.empty().await;
        drop((operator, gate));
        let left =
            project.get("apps/v1", "Deployment", "it").await.filter(|it| it.metadata.deletion_timestamp.is_none());
        assert_eq!(left.is_some(), when == When::Before);
        let _operator = project.run();
        until("it is created again", async || {
            project.get("apps/v1", "Deployment", "it").await.filter(|new| new.uid() != old)
        })
        .await;
        project.condition("web", "Ready", "True").await;
    }
}
