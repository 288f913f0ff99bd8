//! What exists before a release is adopted only with consent, is not read through the release, and outlives it.

use std::os::unix::fs::PermissionsExt;

use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PropagationPolicy};
use serde_json::{Value, json};

use crate::harness::{Project, annotated, config, tool, until, within};

/// Renders the objects of the spec, and what a `lookup` says of the Secret `db` where the spec asks for it.
const CHART: &str = r#"
{{- range .Values.objects }}
---
{{ toYaml . }}
{{- end }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-seen}
data:
  seen: {{ if .Values.look }}{{ lookup "v1" "Secret" (.Values.in | default .Release.Namespace) "db" | toJson | quote }}{{ end }}
  round: {{ .Values.round | default 0 | quote }}
"#;

const PASSWORD: &str = "aHVudGVyMg==";

async fn project(fields: &str) -> Project {
    let project = Project::new("App").await;
    project.template("all.yaml", CHART);
    project.watch_with(fields);
    project
}

/// A Secret that somebody else made, and that belongs to nobody.
async fn db(project: &Project, namespace: &str) -> DynamicObject {
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"}, "data": {"password": PASSWORD}});
    project.create(within(namespace, secret)).await
}

/// The same as the author of a custom resource asks for it: an apply leaves the data as it is.
fn wanted() -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"}})
}

fn kept() -> Value {
    annotated(wanted(), json!({"helm.sh/resource-policy": "keep"}))
}

async fn adopted(project: &Project, object: Value) {
    project.apply("web", json!({"objects": [object]})).await;
    project.annotate("web", "chartwright.dev/adopt", "true").await;
    project.deployed("web").await;
}

/// The message that refuses an adoption of what the chart asked for and was not shown.
async fn not_shown(project: &Project) -> String {
    let refused = |status: &Value| {
        let conditions = status["conditions"].as_array()?;
        let message = conditions.iter().find(|it| it["type"] == "Ready")?["message"].as_str()?;
        message.contains("was not shown it").then(|| message.to_owned())
    };
    project.told("web", "it is refused for the lookup", refused).await
}

/// A template has asked for the Secret, and the fence has hidden it.
async fn refused(project: &Project) {
    let secret = format!("Secret {}/db", project.namespace);
    until("the lookup is refused", async || {
        let events = project.events("web", "LookupRefused").await;
        events.iter().any(|(_, note)| note.contains(&secret)).then_some(())
    })
    .await;
}

/// helm with its records in ConfigMaps, which the operator does not read.
fn helm_with_configmaps(project: &Project) -> String {
    let path = project.dir().join("helm-with-configmaps");
    std::fs::write(&path, format!("#!/bin/sh\nHELM_DRIVER=configmap exec {} \"$@\"\n", tool("helm4").display()))
        .unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Installs a release of helm with the Secret.
fn install_with_helm(project: &Project, helm: &str, mut secret: Value) {
    secret["data"] = json!({"password": PASSWORD});
    project.helm(helm, &["install", "web", "charts/app", "--set-json", &format!("objects=[{secret}]")]);
}

/// The Secret that helm made is refused, hidden and left alone, also when the custom resource goes.
async fn is_helms_own(project: &Project) {
    let look = async || {
        let secret = project.get("v1", "Secret", "db").await.unwrap();
        (secret.uid(), secret.resource_version(), secret.owner_references().len())
    };
    let before = look().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [wanted()]})).await;
    project.annotate("web", "chartwright.dev/adopt", "true").await;
    let told = project.not_ready("web", "BelongsToAnother").await;
    assert!(told["message"].as_str().unwrap().contains("a Helm release of the same name"), "{told}");
    sees_nothing(project, json!({"objects": [wanted()], "look": true})).await;
    project.delete("web").await;
    project.gone("web").await;
    assert_eq!(look().await, before);
}

/// Whatever a revision that looks ends in, the password is not in it.
async fn sees_nothing(project: &Project, spec: Value) {
    project.apply("web", spec.clone()).await;
    project.decided("web").await;
    let everything = project.configs().list(&Default::default()).await.unwrap();
    for map in everything.items {
        let text = map.data.to_string();
        assert!(!text.contains(PASSWORD), "{}: {text}", map.name_any());
    }
    if spec["look"] == true {
        refused(project).await;
    }
}

#[tokio::test]
async fn the_annotation_alone_adopts_nothing() {
    for fields in ["", "adopt: none"] {
        let project = project(fields).await;
        let before = db(&project, &project.namespace).await;
        let _operator = project.run();
        project.apply("web", json!({"objects": [wanted()]})).await;
        project.annotate("web", "chartwright.dev/adopt", "true").await;
        project.decided("web").await;
        let after = project.get("v1", "Secret", "db").await.unwrap();
        assert_eq!((after.uid(), after.resource_version()), (before.uid(), before.resource_version()));
        let told = project.not_ready("web", "BelongsToAnother").await;
        assert!(told["message"].as_str().unwrap().contains("`adopt: objects` in watches.yaml"), "{told}");
        until("the author reads why", async || {
            let events = project.events("web", "InvalidAnnotation").await;
            events.iter().any(|(_, note)| note.contains("has no effect")).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn what_is_outside_of_the_namespace_is_never_adopted() {
    let project = project("allow: [other-namespaces, cluster]\nadopt: releases").await;
    let elsewhere = project.another_namespace("system").await;
    let before = db(&project, &elsewhere).await;
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 5,
        "metadata": {"name": project.namespace}});
    let class_before = project.create(class.clone()).await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [within(&elsewhere, kept())]})).await;
    project.annotate("web", "chartwright.dev/adopt", "true").await;
    project.decided("web").await;
    let after = project.find("v1", "Secret", Some(&elsewhere), "db").await.unwrap();
    assert_eq!(after.resource_version(), before.resource_version(), "it was adopted");
    let told = project.not_ready("web", "BelongsToAnother").await;
    assert!(told["message"].as_str().unwrap().contains("in its own namespace only"), "{told}");
    project.apply("web", json!({"objects": [class]})).await;
    project.not_ready("web", "BelongsToAnother").await;
    let after = project.find("v1", "Secret", Some(&elsewhere), "db").await.unwrap();
    assert_eq!(after.resource_version(), before.resource_version());
    let after = project.find("scheduling.k8s.io/v1", "PriorityClass", None, &project.namespace).await.unwrap();
    assert_eq!(after.resource_version(), class_before.resource_version());
}

#[tokio::test]
async fn an_adopted_secret_is_not_read_in_a_second_step() {
    let project = project("adopt: objects\nvaluesFromAnnotation: false").await;
    let before = db(&project, &project.namespace).await;
    let _operator = project.run();
    adopted(&project, wanted()).await;
    let taken = project.get("v1", "Secret", "db").await.unwrap();
    assert_eq!((taken.uid(), &taken.data["data"]["password"]), (before.uid(), &json!(PASSWORD)));
    sees_nothing(&project, json!({"objects": [wanted()], "look": true, "round": 1})).await;
    assert_eq!(taken.annotations()["chartwright.dev/adopted"], format!("{}/web", project.namespace));
    // Dropped, it stays where it is, and is not shown either.
    sees_nothing(&project, json!({"objects": [], "look": true, "round": 2})).await;
    sees_nothing(&project, json!({"objects": [wanted()], "look": true, "round": 3})).await;
    // A chart cannot take the fact off.
    let claims = annotated(wanted(), json!({"chartwright.dev/adopted": null}));
    sees_nothing(&project, json!({"objects": [claims], "look": true, "round": 4})).await;
    let claims = annotated(wanted(), json!({"chartwright.dev/adopted": "false"}));
    sees_nothing(&project, json!({"objects": [claims], "round": 5})).await;
    sees_nothing(&project, json!({"objects": [wanted()], "round": 6})).await;
    sees_nothing(&project, json!({"objects": [wanted()], "look": true, "round": 7})).await;
    let secret = project.get("v1", "Secret", "db").await.unwrap();
    assert_eq!(secret.data["data"]["password"], PASSWORD, "it was not overwritten by what the chart could not see");
    assert!(secret.annotations().contains_key("chartwright.dev/adopted"));
}

#[tokio::test]
async fn what_was_dropped_and_taken_again_is_still_adopted_where_no_record_remembers() {
    let project = project("adopt: objects\nmaxHistory: 1").await;
    db(&project, &project.namespace).await;
    let _operator = project.run();
    adopted(&project, kept()).await;
    project.annotate("web", "chartwright.dev/max-history", "1").await;
    for round in 1..4 {
        project.apply("web", json!({"objects": [], "round": round})).await;
        project.deployed("web").await;
    }
    assert!(project.get("v1", "Secret", "sh.helm.release.v1.web.v1").await.is_none(), "no record remembers");
    project.apply("web", json!({"objects": [wanted()], "round": 4})).await;
    project.deployed("web").await;
    let adopted = project.status("web").await["adopted"].clone();
    sees_nothing(&project, json!({"objects": [wanted()], "look": true, "round": 5})).await;
    assert_eq!(adopted, json!([format!("Secret {}/db", project.namespace)]), "the object says it");
    sees_nothing(&project, json!({"objects": [], "look": true, "round": 6})).await;
}

#[tokio::test]
async fn a_custom_resource_that_is_made_again_does_not_forget_what_was_adopted() {
    for orphans in [true, false] {
        let project = project("adopt: objects").await;
        let secret = db(&project, &project.namespace).await;
        let _operator = project.run();
        adopted(&project, kept()).await;
        if orphans {
            project.annotate("web", "chartwright.dev/deletion-policy", "orphan").await;
        }
        project.delete("web").await;
        project.gone("web").await;
        // No record is left that could tell.
        let records = project.objects("v1", "Secret", Some(&project.namespace));
        let _ = records.delete("sh.helm.release.v1.web.v1", &DeleteParams::default()).await;
        project.apply("web", json!({"objects": [wanted()]})).await;
        project.deployed("web").await;
        sees_nothing(&project, json!({"objects": [wanted()], "look": true, "round": 1})).await;
        sees_nothing(&project, json!({"objects": [], "look": true, "round": 2})).await;
        let left = project.get("v1", "Secret", "db").await.unwrap();
        assert_eq!((left.uid(), &left.data["data"]["password"]), (secret.uid(), &json!(PASSWORD)));
    }
}

#[tokio::test]
async fn adopted_objects_stay_when_the_custom_resource_goes() {
    for policy in [PropagationPolicy::Background, PropagationPolicy::Foreground] {
        let project = project("adopt: objects").await;
        let secret = db(&project, &project.namespace).await;
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
        let data = project.create(within(&project.namespace, claim.clone())).await;
        let _operator = project.run();
        project.apply("web", json!({"objects": [wanted(), claim, config("own", "blue")]})).await;
        project.annotate("web", "chartwright.dev/adopt", "true").await;
        project.deployed("web").await;
        let params = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
        project.crs().delete("web", &params).await.unwrap();
        project.gone("web").await;
        until("what the release made goes", async || {
            project.get("v1", "ConfigMap", "own").await.is_none().then_some(())
        })
        .await;
        let left = project.get("v1", "Secret", "db").await.unwrap();
        assert_eq!((left.uid(), &left.data["data"]["password"]), (secret.uid(), &json!(PASSWORD)));
        assert!(left.owner_references().is_empty() && left.metadata.deletion_timestamp.is_none());
        assert!(!left.labels().contains_key("chartwright.dev/release"), "nobody manages it any more");
        let left = project.get("v1", "PersistentVolumeClaim", "data").await.unwrap();
        assert_eq!((left.uid(), left.metadata.deletion_timestamp), (data.uid(), None));
    }
}

#[tokio::test]
async fn adopted_objects_stay_after_a_rollback_with_helm() {
    let project = project("adopt: objects").await;
    let secret = db(&project, &project.namespace).await;
    let operator = project.run();
    adopted(&project, wanted()).await;
    project.apply("web", json!({"objects": [wanted(), config("second", "blue")]})).await;
    project.deployed("web").await;
    project.condition("web", "Ready", "True").await;
    drop(operator);
    project.helm("helm4", &["rollback", "web", "1"]);
    // The records say it too.
    let unmarked = Patch::Merge(json!({"metadata": {"annotations": {"chartwright.dev/adopted": null}}}));
    let secrets = project.objects("v1", "Secret", Some(&project.namespace));
    secrets.patch("db", &PatchParams::default(), &unmarked).await.unwrap();
    let _operator = project.run();
    project.condition("web", "Held", "True").await;
    project.condition("web", "Ready", "True").await;
    let live = project.get("v1", "Secret", "db").await.unwrap();
    assert!(live.annotations().contains_key("chartwright.dev/adopted"), "{:?}", live.annotations());
    project.delete("web").await;
    project.gone("web").await;
    assert_eq!(project.get("v1", "Secret", "db").await.unwrap().uid(), secret.uid());
}

#[tokio::test]
async fn adopted_objects_stay_when_an_upgrade_drops_them() {
    let project = project("adopt: objects\nprune: all").await;
    let secret = db(&project, &project.namespace).await;
    let _operator = project.run();
    adopted(&project, wanted()).await;
    project.apply("web", json!({"objects": [], "round": 1})).await;
    project.deployed("web").await;
    assert_eq!(project.get("v1", "Secret", "db").await.unwrap().uid(), secret.uid());
    assert_eq!(project.status("web").await["kept"], json!([format!("Secret {}/db", project.namespace)]));
}

#[tokio::test]
async fn adopted_objects_go_where_the_author_says_so() {
    let project = project("adopt: objects").await;
    db(&project, &project.namespace).await;
    let _operator = project.run();
    adopted(&project, wanted()).await;
    project.annotate("web", "chartwright.dev/adopted-deletion-policy", "delete").await;
    project.delete("web").await;
    project.gone("web").await;
    until("the Secret goes", async || project.get("v1", "Secret", "db").await.is_none().then_some(())).await;
}

#[tokio::test]
async fn a_forgetful_record_does_not_delete_what_was_adopted() {
    let project = project("adopt: objects").await;
    let secret = db(&project, &project.namespace).await;
    let operator = project.run();
    adopted(&project, wanted()).await;
    drop(operator);
    project
        .forge("web", 1, |record| {
            record.own.iter_mut().flat_map(|own| &mut own.objects).for_each(|applied| applied.is_adopted = false);
        })
        .await;
    let _operator = project.run();
    project.delete("web").await;
    project.gone("web").await;
    assert_eq!(project.get("v1", "Secret", "db").await.unwrap().uid(), secret.uid());
}

#[tokio::test]
async fn the_lookup_that_finds_nothing_finds_the_secret_where_the_watch_shows_it() {
    let project = project("adopt: objects\nlookup: namespace").await;
    db(&project, &project.namespace).await;
    let _operator = project.run();
    adopted(&project, wanted()).await;
    project.apply("web", json!({"objects": [wanted()], "look": true})).await;
    project.deployed("web").await;
    let seen = project.get("v1", "ConfigMap", "web-seen").await.unwrap();
    assert!(seen.data["data"]["seen"].as_str().unwrap().contains(PASSWORD), "{}", seen.data);
}

#[tokio::test]
async fn a_helm_release_whose_records_the_operator_does_not_see_is_not_taken() {
    for fields in ["", "adopt: releases"] {
        let project = project(fields).await;
        install_with_helm(&project, &helm_with_configmaps(&project), wanted());
        is_helms_own(&project).await;
    }
}

#[tokio::test]
async fn what_helm_kept_of_a_release_is_not_taken() {
    for history in [&[][..], &["--keep-history"]] {
        let project = project("adopt: objects").await;
        install_with_helm(&project, "helm4", kept());
        project.helm("helm4", &[&["uninstall", "web"], history].concat());
        is_helms_own(&project).await;
    }
}

#[tokio::test]
async fn the_secrets_of_an_adopted_release_are_not_shown() {
    let project = project("adopt: releases").await;
    install_with_helm(&project, "helm4", wanted());
    let mut secret = wanted();
    secret["data"] = json!({"password": PASSWORD});
    let _operator = project.run();
    let look = json!({"objects": [secret.clone()], "look": true});
    project.apply("web", look.clone()).await;
    let told = project.not_ready("web", "BelongsToAnother").await;
    assert!(told["message"].as_str().unwrap().contains("`lookup: namespace`"), "{told}");
    sees_nothing(&project, look.clone()).await;
    project.apply("web", json!({"objects": [secret]})).await;
    project.deployed("web").await;
    sees_nothing(&project, look).await;
    let secret = project.get("v1", "Secret", "db").await.unwrap();
    assert_eq!(secret.data["data"]["password"], PASSWORD);
    assert!(secret.annotations().contains_key("chartwright.dev/adopted") && secret.owner_references().is_empty());
}

#[tokio::test]
async fn a_chart_of_another_source_asks_nothing_before_it_is_refused() {
    let project = project("adopt: releases").await;
    install_with_helm(&project, "helm4", wanted());
    project.file("charts/app/Chart.yaml", "apiVersion: v2\nname: app\nversion: 0.1.0\nhome: https://example.com\n");
    let _operator = project.run();
    project.apply("web", json!({"objects": [wanted()], "look": true})).await;
    let told = project.not_ready("web", "AdoptionNotAllowed").await;
    assert!(told["message"].as_str().unwrap().contains("another `home`"), "{told}");
    assert_eq!(project.events("web", "LookupRefused").await, []);
}

#[tokio::test]
async fn what_a_list_did_not_show_is_not_adopted() {
    let project = project("adopt: objects").await;
    project.template(
        "all.yaml",
        r#"
{{- $known := false }}
{{- range (lookup "v1" "Secret" .Release.Namespace "").items }}{{ if eq .metadata.name "db" }}{{ $known = true }}{{ end }}{{ end }}
apiVersion: v1
kind: Secret
metadata: {name: db}
stringData: {password: {{ if $known }}known{{ else }}{{ randAlphaNum 12 }}{{ end }}}
"#,
    );
    let before = db(&project, &project.namespace).await;
    let _operator = project.run();
    project.apply("web", json!({})).await;
    project.annotate("web", "chartwright.dev/adopt", "true").await;
    let told = not_shown(&project).await;
    assert!(told.contains("`lookup: namespace` in watches.yaml"), "{told}");
    let after = project.get("v1", "Secret", "db").await.unwrap();
    assert_eq!((after.uid(), after.resource_version()), (before.uid(), before.resource_version()));
}

#[tokio::test]
async fn a_token_that_an_open_list_left_out_is_not_adopted() {
    // The operator lives there, where a token takes more consent than elsewhere.
    let project = project("adopt: objects\nlookup: namespace\nallow: [operator-namespace]").await;
    project.template(
        "all.yaml",
        r#"
{{- $known := "none" }}
{{- range (lookup "v1" "Secret" .Release.Namespace "").items }}{{ $known = print $known "," .metadata.name }}{{ end }}
apiVersion: v1
kind: ConfigMap
metadata: {name: seen}
data: {seen: {{ quote $known }}}
---
apiVersion: v1
kind: Secret
type: bootstrap.kubernetes.io/token
metadata: {name: join}
stringData: {token-secret: {{ if contains "join" $known }}known{{ else }}{{ randAlphaNum 12 }}{{ end }}}
"#,
    );
    let token = json!({"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": "join"}, "data": {"token-secret": PASSWORD}});
    let before = project.create(within(&project.namespace, token)).await;
    let _operator = project.run();
    project.apply("web", json!({})).await;
    project.annotate("web", "chartwright.dev/adopt", "true").await;
    let told = not_shown(&project).await;
    assert!(told.contains("Secret") && told.contains("join"), "{told}");
    let after = project.get("v1", "Secret", "join").await.unwrap();
    assert_eq!((after.uid(), after.resource_version()), (before.uid(), before.resource_version()));
    // Everything that a setting shows was shown.
    assert_eq!(project.events("web", "LookupRefused").await, []);
}
