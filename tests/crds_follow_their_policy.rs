//! The contents of crds/: created, changed or not touched, as the watch says; and never deleted.

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject};
use serde_json::{Value, json};

use crate::harness::{Project, until};

const CRD: (&str, &str) = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");

/// A CRD whose specs have these fields, in these versions. The first of them is stored.
fn crd(project: &Project, versions: &[&str], fields: &[&str]) -> String {
    let properties: serde_json::Map<String, Value> =
        fields.iter().map(|field| (field.to_string(), json!({"type": "string"}))).collect();
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": properties},
    }}});
    let versions: Vec<Value> = versions
        .iter()
        .enumerate()
        .map(|(at, name)| json!({"name": name, "served": true, "storage": at == 0, "schema": schema}))
        .collect();
    let crd = json!({"apiVersion": CRD.0, "kind": CRD.1, "metadata": {"name": name(project)}, "spec": {
        "group": group(project), "scope": "Namespaced", "versions": versions,
        "names": {"kind": "Part", "plural": "parts", "singular": "part"},
    }});
    crd.to_string()
}

/// The successor of the first: it has one more field.
fn crd_with_colour(project: &Project) -> String {
    crd(project, &["v1"], &["size", "colour"])
}

fn group(project: &Project) -> String {
    format!("{}.example.com", project.namespace)
}

fn name(project: &Project) -> String {
    format!("parts.{}", group(project))
}

/// A template of an object of that kind.
fn part(project: &Project, version: &str, spec: Value) -> String {
    let part = json!({"apiVersion": format!("{}/{version}", group(project)), "kind": "Part",
        "metadata": {"name": "wheel"}, "spec": spec});
    part.to_string()
}

async fn live_crd(project: &Project) -> Option<DynamicObject> {
    project.find(CRD.0, CRD.1, None, &name(project)).await
}

async fn live_part(project: &Project, version: &str) -> Option<DynamicObject> {
    project.get(&format!("{}/{version}", group(project)), "Part", "wheel").await
}

/// A project with a CRD in crds/ and an object of its kind, under a policy.
async fn project(policy: &str) -> Project {
    let project = Project::new("Car").await;
    project.watch_with(policy);
    project.file("charts/app/crds/parts.yaml", &crd(&project, &["v1"], &["size"]));
    project.template("part.yaml", &part(&project, "v1", json!({"size": "small"})));
    project
}

async fn deployed(project: &Project, revision: u64) {
    project
        .told("car", &format!("revision {revision} is deployed"), |status| {
            (status["deployedRelease"]["revision"] == revision).then_some(())
        })
        .await;
}

async fn assert_no_failure(project: &Project) {
    for reason in ["InvalidObject", "ApplyFailed", "UnknownKind"] {
        assert_eq!(project.events("car", reason).await, [], "{reason}");
    }
}

#[tokio::test]
async fn create_never_changes_a_crd_and_nobody_deletes_it() {
    let project = project("crds: create").await;
    let operator = project.run();
    project.apply("car", json!({})).await;
    project.deployed("car").await;
    let before = live_crd(&project).await.expect("the CRD is there");
    assert!(before.owner_references().is_empty() && before.labels().is_empty(), "{before:?}");
    project.file("charts/app/crds/parts.yaml", &crd_with_colour(&project));
    deployed(&project, 2).await;
    assert_eq!(live_crd(&project).await.unwrap().resource_version(), before.resource_version());
    project.delete("car").await;
    project.gone("car").await;
    assert_eq!(live_part(&project, "v1").await, None);
    assert_eq!(live_crd(&project).await.unwrap().uid(), before.uid());
    drop(operator);
}

#[tokio::test]
async fn create_replace_changes_a_crd_and_what_is_new_is_used_at_once() {
    let project = project("crds: CreateReplace").await;
    let operator = project.run();
    project.apply("car", json!({})).await;
    project.deployed("car").await;
    let before = live_crd(&project).await.unwrap();

    // A field that only the new CRD has. Both files change at once for an operator that does not run meanwhile.
    drop(operator);
    project.file("charts/app/crds/parts.yaml", &crd_with_colour(&project));
    project.template("part.yaml", &part(&project, "v1", json!({"size": "small", "colour": "red"})));
    let operator = project.run();
    deployed(&project, 2).await;
    assert_eq!(live_part(&project, "v1").await.unwrap().data["spec"]["colour"], "red");

    // A version that only the new CRD has.
    drop(operator);
    project.file("charts/app/crds/parts.yaml", &crd(&project, &["v1", "v2"], &["size", "colour"]));
    project.template("part.yaml", &part(&project, "v2", json!({"size": "large", "colour": "red"})));
    let _operator = project.run();
    deployed(&project, 3).await;
    assert_eq!(live_part(&project, "v2").await.unwrap().data["spec"]["size"], "large");
    assert_no_failure(&project).await;

    // Somebody else's part of the CRD stays.
    project.kubectl(&["annotate", "crd", &name(&project), "somebody=was-here"]);
    project.file("charts/app/crds/parts.yaml", &crd(&project, &["v1", "v2"], &["size", "colour", "weight"]));
    deployed(&project, 4).await;
    let after = live_crd(&project).await.unwrap();
    assert_eq!((after.uid(), after.annotations()["somebody"].as_str()), (before.uid(), "was-here"));
    project.delete("car").await;
    project.gone("car").await;
    assert!(live_crd(&project).await.is_some());
}

#[tokio::test]
async fn a_stored_version_is_not_given_up_and_the_release_stays() {
    let project = project("crds: CREATEREPLACE").await;
    let _operator = project.run();
    project.apply("car", json!({})).await;
    project.deployed("car").await;
    let before = live_crd(&project).await.unwrap();
    project.file("charts/app/crds/parts.yaml", &crd(&project, &["v2"], &["size"]));
    project.template("part.yaml", &part(&project, "v2", json!({"size": "large"})));
    let failed = project.condition("car", "ReleaseFailed", "True").await;
    let message = failed["message"].as_str().unwrap();
    assert!(message.contains(&name(&project)) && message.contains("storedVersions"), "{message}");
    assert_eq!(live_crd(&project).await.unwrap().resource_version(), before.resource_version());
    assert_eq!(live_part(&project, "v1").await.unwrap().data["spec"]["size"], "small");
    assert_eq!(project.status("car").await["deployedRelease"]["revision"], 1);
}

#[tokio::test]
async fn skip_leaves_crds_to_somebody_else() {
    let project = project("crds: Skip").await;
    let _operator = project.run();
    project.apply("car", json!({})).await;
    let failed = project.condition("car", "ReleaseFailed", "True").await;
    assert!(failed["message"].as_str().unwrap().starts_with("UnknownKind"), "{failed}");
    assert_eq!(live_crd(&project).await, None);
    let crd: Value = serde_json::from_str(&crd(&project, &["v1"], &["size"])).unwrap();
    let made = project.create(crd).await;
    project.deployed("car").await;
    assert!(live_part(&project, "v1").await.is_some());
    project.file("charts/app/crds/parts.yaml", &crd_with_colour(&project));
    deployed(&project, 2).await;
    let live = live_crd(&project).await.unwrap();
    assert_eq!((live.uid(), live.metadata.generation), (made.uid(), made.metadata.generation));
}

#[tokio::test]
async fn what_nobody_installs_is_no_capability() {
    for (policy, expected) in [("crds: Skip", "false"), ("crds: Create", "true")] {
        let project = project(policy).await;
        let asked = format!("{}/v1/Part", group(&project));
        project.template("part.yaml", "");
        project.template(
            "config.yaml",
            &format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: seen}}\ndata: {{part: '{{{{ .Capabilities.APIVersions.Has {asked:?} }}}}'}}\n"
            ),
        );
        let _operator = project.run();
        project.apply("car", json!({})).await;
        project.deployed("car").await;
        let seen = project.get("v1", "ConfigMap", "seen").await.unwrap();
        assert_eq!(seen.data["data"]["part"], expected, "{policy}");
    }
}

#[tokio::test]
async fn a_crd_that_moves_from_the_templates_to_crds_outlives_prune_and_release() {
    let project = project("prune: all").await;
    let in_templates = project.dir().join("charts/app/templates/crd.yaml");
    let in_crds = project.dir().join("charts/app/crds/parts.yaml");
    std::fs::rename(&in_crds, &in_templates).unwrap();
    // A hook has the upgrade go on from its record, which has no crds/.
    project.template(
        "hook.yaml",
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: before, annotations: {helm.sh/hook: pre-upgrade}}\nspec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: registry.example.com/a}]}}}\n",
    );
    let _operator = project.run();
    project.apply("car", json!({})).await;
    project.deployed("car").await;
    let before = live_crd(&project).await.unwrap();
    assert!(!before.labels().is_empty(), "{before:?}");
    std::fs::rename(&in_templates, &in_crds).unwrap();
    deployed(&project, 2).await;
    project.delete("car").await;
    project.gone("car").await;
    assert_eq!(live_crd(&project).await.unwrap().uid(), before.uid());
}

#[tokio::test]
async fn a_crd_among_the_templates_may_change_and_be_used_at_once() {
    let project = project("prune: safe").await;
    std::fs::remove_file(project.dir().join("charts/app/crds/parts.yaml")).unwrap();
    project.template("crd.yaml", &crd(&project, &["v1"], &["size"]));
    let operator = project.run();
    project.apply("car", json!({})).await;
    project.deployed("car").await;
    drop(operator);
    project.template("crd.yaml", &crd_with_colour(&project));
    project.template("part.yaml", &part(&project, "v1", json!({"size": "small", "colour": "red"})));
    let _operator = project.run();
    deployed(&project, 2).await;
    assert_eq!(live_part(&project, "v1").await.unwrap().data["spec"]["colour"], "red");
    assert_no_failure(&project).await;
}

#[tokio::test]
async fn a_crd_that_went_comes_back_whatever_may_be_changed() {
    for policy in ["crds: Create", "crds: CreateReplace"] {
        let project = project(policy).await;
        let begun = Timestamp::now();
        let _operator = project.run();
        project.apply("car", json!({})).await;
        project.deployed("car").await;
        until("its objects are watched", async || {
            let calls = project.calls_since(begun);
            calls.iter().any(|call| call.starts_with("watch ") && call.contains("/parts")).then_some(())
        })
        .await;
        project.objects(CRD.0, CRD.1, None).delete(&name(&project), &DeleteParams::default()).await.unwrap();
        until("the Part is there again", async || {
            live_crd(&project).await.filter(|crd| crd.metadata.deletion_timestamp.is_none())?;
            // For a moment the API server does not know the kind.
            let parts = project.objects(&format!("{}/v1", group(&project)), "Part", Some(&project.namespace));
            parts.get("wheel").await.ok()
        })
        .await;
    }
}

#[tokio::test]
async fn a_diff_shows_what_becomes_of_crds() {
    let project = project("crds: CreateReplace").await;
    let operator = project.run();
    project.apply("car", json!({})).await;
    project.deployed("car").await;
    drop(operator);
    let car = project.named("car");
    assert_eq!(project.cli(&["diff", &car]).good(), "");
    project.file("charts/app/crds/parts.yaml", &crd_with_colour(&project));
    project.template("part.yaml", &part(&project, "v1", json!({"size": "small", "colour": "red"})));
    let said = project.cli(&["diff", &car]);
    assert!(said.out.contains(&name(&project)) && said.out.contains("+              colour:"), "{said:?}");
    assert!(said.out.contains("+  colour: red"), "{said:?}");
}

#[tokio::test]
async fn what_crds_bring_is_among_the_capabilities_of_the_first_render() {
    let project = project("crds: Create").await;
    let has = |what: &str| format!("{{{{ .Capabilities.APIVersions.Has \"{}/v1{what}\" | quote }}}}", group(&project));
    project.template(
        "config.yaml",
        &format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: seen}}\ndata: {{version: {}, kind: {}}}\n",
            has(""),
            has("/Part")
        ),
    );
    let _operator = project.run();
    project.apply("car", json!({})).await;
    project.deployed("car").await;
    let seen = project.get("v1", "ConfigMap", "seen").await.unwrap();
    assert_eq!(seen.data["data"], json!({"version": "true", "kind": "true"}));
}
