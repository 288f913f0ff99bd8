//! `chartwright test` and `diff` use what a release record says with the rights of the person who runs them, and `rollback` and `render` hand
//! it on. Whoever may write Secrets in the namespace writes the record.

use chartwright::calls::Calls;
use chartwright::release::{HookRecord, Release, Store};
use kube::api::{Api, DynamicObject};
use serde_json::{Value, json};

use crate::harness::command_line::{Said, said};
use crate::harness::forging::as_crds;
use crate::harness::{Project, annotated, config, until, within};

const FLAG: &str = "--allow-outside-namespace";
/// The record of these tests is forged, so each would be refused for that alone.
const UNPROVEN: &str = "--allow-unproven";

/// A hook of the event `test` that makes an object.
fn test(mut object: Value) -> String {
    object["metadata"]["annotations"] = json!({"helm.sh/hook": "test"});
    format!("{object}\n")
}

fn binding(name: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "mallory"}],
    })
}

/// A deployed release, whose record an editor of the namespace then gives this one hook.
async fn deployed() -> Project {
    deployed_with(&[]).await
}

async fn deployed_with(objects: &[Value]) -> Project {
    let project = Project::of_objects().await;
    project.watch_with("allow: []");
    let operator = project.run();
    let objects = [&[config("web", "blue")], objects].concat();
    project.apply("web", json!({"objects": objects})).await;
    project.deployed("web").await;
    // Whatever it makes of the forged record, it is not what runs tests.
    drop(operator);
    project
}

async fn tested(project: &Project, manifest: &str, flags: &[&str]) -> Said {
    let hook = HookRecord {
        name: "check".into(),
        kind: "ConfigMap".into(),
        path: "app/templates/check.yaml".into(),
        manifest: manifest.into(),
        events: vec!["test".into()],
        delete_policies: vec!["before-hook-creation".into()],
        ..HookRecord::default()
    };
    project.forge("web", 1, |release| release.hooks = vec![hook]).await;
    let named = project.named("web");
    let arguments: Vec<&str> = ["test", &named].into_iter().chain(flags.iter().copied()).collect();
    project.cli(&arguments)
}

#[tokio::test]
async fn a_test_of_a_forged_record_is_refused_inside_of_the_namespace_too() {
    let smoke = annotated(config("smoke", "blue"), json!({"helm.sh/hook": "test"}));
    let project = deployed_with(&[smoke]).await;
    let good = project.cli(&["test", &project.named("web")]);
    assert_eq!(good.code, 0, "a signed record needs no flag: {}", good.err);
    assert!(exists(&project.configs(), "smoke").await, "{good:?}");
    // The key is the right one, and the Secret is not the operator's.
    let elsewhere = project.another_namespace("planted").await;
    let key = project.get("v1", "Secret", "chartwright-public-key").await.unwrap().data["data"].clone();
    let planted =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "chartwright-public-key"}, "data": key});
    project.create(within(&elsewhere, planted)).await;
    let refused = project.cli(&["test", &project.named("web"), "--operator-namespace", &elsewhere]);
    assert!(refused.code == 1 && refused.err.contains("there is no public key in the namespace"), "{refused:?}");
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "check"}}).to_string();
    let hook = HookRecord {
        name: "check".into(),
        kind: "ConfigMap".into(),
        path: "app/templates/check.yaml".into(),
        manifest: manifest.as_str().into(),
        events: vec!["test".into()],
        ..HookRecord::default()
    };
    project.forge("web", 1, |release| release.hooks = vec![hook]).await;
    let refused = project.cli(&["test", &project.named("web")]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("--allow-unproven") && refused.err.contains("signature"), "{}", refused.err);
    assert!(project.get("v1", "ConfigMap", "check").await.is_none());
}

#[tokio::test]
async fn commands_say_which_records_the_operator_did_not_sign() {
    let project = deployed().await;
    let web = project.named("web");
    let proven = |data: Value| data[0]["proven"].clone();
    assert_eq!(proven(project.cli(&["history", &web, "-o", "json"]).json()), true);
    assert!(project.cli(&["diff", &web]).good().is_empty(), "the operator would change nothing");
    project
        .forge("web", 1, |release| {
            let manifest = release.manifest.read().replace("blue", "red");
            release.manifest = manifest.as_str().into();
        })
        .await;
    for command in [&["get", "manifest"][..], &["get", "values"], &["history"], &["diff"], &["render"]] {
        let said = project.cli(&[command, &[web.as_str()]].concat());
        assert!(
            said.err.contains("revision 1 of the release") && said.err.contains("is not proven"),
            "{command:?}: {said:?}"
        );
    }
    let data = project.cli(&["history", &web, "-o", "json"]);
    assert_eq!(proven(data.json()), false);
    let status = project.cli(&["status", &web, "-o", "json"]).json();
    assert!(status["unknown"].to_string().contains("is not proven"), "{status}");
    // Without the key, nobody can tell.
    let said = project.cli(&["history", &web, "-o", "json", "--operator-namespace", "kube-public"]);
    assert_eq!(said.err, "");
    assert_eq!(proven(said.json()), Value::Null);
}

/// A namespace without an operator, and so without its key.
const NO_KEY: [&str; 2] = ["--operator-namespace", "kube-public"];

#[tokio::test]
async fn render_and_diff_use_no_record_that_is_not_proven_without_a_flag() {
    let project = deployed().await;
    let (web, evil) = (project.named("web"), format!("{}-evil", project.namespace));
    let manifest = format!("---\n{}---\n{}", as_crds(&config("web", "red")), as_crds(&binding(&evil)));
    project.forge("web", 1, |release| release.manifest = manifest.as_str().into()).await;
    let asked = || std::fs::read_to_string(project.plane().audit_log()).unwrap().contains(&evil);
    for (command, code) in [("render", 1), ("diff", 2)] {
        let refused = project.cli(&[&[command, web.as_str()][..], &NO_KEY].concat());
        assert_eq!((refused.code, refused.out.as_str()), (code, ""), "{refused:?}");
        assert!(refused.err.contains("the record of revision 1 of the release web"), "{refused:?}");
        assert!(refused.err.contains("no public key") && refused.err.contains("--allow-unproven"), "{refused:?}");
        let mut unnamed = project.command_line(&[command, &web]);
        unnamed.env_remove("CHARTWRIGHT_OPERATOR_NAMESPACE");
        let refused = said(unnamed);
        assert_eq!((refused.code, refused.out.as_str()), (code, ""), "{refused:?}");
        assert!(refused.err.contains("without --operator-namespace"), "{refused:?}");
        // With the key, it is known that the operator would not use it either, so there is nothing to allow.
        let refused = project.cli(&[command, &web, "--allow-unproven"]);
        assert!(refused.code == code && refused.err.contains("is not proven"), "{refused:?}");
    }
    assert!(!asked(), "nobody was asked about an object of the forged record");
    for (command, code) in [("render", 0), ("diff", 1)] {
        let allowed = project.cli(&[&[command, web.as_str(), "--allow-unproven"][..], &NO_KEY].concat());
        assert!(allowed.code == code && allowed.out.contains(&evil), "{allowed:?}");
        assert!(allowed.err.contains("no public key"), "it is shown all the same: {allowed:?}");
    }
    until("the audit log tells of the dry run", async || asked().then_some(())).await;
    assert!(!exists(&project.objects("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", None), &evil).await);
    // What the chart renders needs no record.
    project.file("next.yaml", &next(&project));
    for command in ["render", "diff"] {
        let said = project.cli(&[&[command, "-f", "next.yaml"][..], &NO_KEY].concat());
        assert!(said.out.contains("green") && !said.out.contains(&evil), "{said:?}");
    }
}

/// The custom resource with another spec, as a file.
fn next(project: &Project) -> String {
    let resource = &project.resource;
    let spec = json!({"objects": [config("web", "green")]});
    json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "web"}, "spec": spec})
        .to_string()
}

#[tokio::test]
async fn adopt_lists_no_objects_of_a_record_that_is_not_proven_without_a_flag() {
    let project = deployed().await;
    project.create(within(&project.namespace, config("precious", "blue"))).await;
    let manifest = format!("---\n{}", as_crds(&config("precious", "red")));
    project.forge("web", 1, |release| release.manifest = manifest.as_str().into()).await;
    let web = project.named("web");
    let arguments = [&["adopt", web.as_str()][..], &NO_KEY].concat();
    let refused = project.cli(&arguments);
    assert_eq!((refused.code, refused.out.as_str()), (1, ""), "{refused:?}");
    assert!(refused.err.contains("no public key") && refused.err.contains("--allow-unproven"), "{refused:?}");
    let allowed = project.cli(&[&arguments[..], &["--allow-unproven"]].concat());
    assert!(allowed.out.contains("precious exists and belongs to nobody"), "{allowed:?}");
}

#[tokio::test]
async fn rollback_goes_to_no_record_that_is_not_proven_without_a_flag() {
    let project = Project::of_objects().await;
    let operator = project.run();
    for colour in ["blue", "green", "red"] {
        project.apply("web", json!({"objects": [config("web", colour)]})).await;
        project.deployed("web").await;
    }
    // The records are to stay as they are forged.
    drop(operator);
    let evil = |release: &mut Release| {
        let manifest = release.manifest.read().replace("data:", "data:\n  evil: \"true\"");
        release.manifest = manifest.as_str().into();
    };
    project.forge("web", 2, evil).await;
    let store = Store::new(Calls::new(project.client.clone()));
    let mut planted = store.get(&project.namespace, "web", 2).await.unwrap();
    planted = Release { revision: 4, stored: Default::default(), ..planted };
    store.create(&planted).await.unwrap();
    let web = project.named("web");
    let call = |more: &[&str]| project.cli(&[&["rollback", web.as_str(), "--no-wait"], more].concat());
    let wish = async || project.crs().get("web").await.unwrap().metadata.annotations.unwrap_or_default();
    let wish = async || wish().await.remove("chartwright.dev/rollback-to");

    for forged in ["2", "4"] {
        let refused = call(&[forged]);
        assert_eq!((refused.code, refused.out.as_str()), (1, ""), "{refused:?}");
        assert!(refused.err.contains(&format!("the record of revision {forged} of the release web")), "{refused:?}");
        assert!(refused.err.contains("--allow-unproven"), "{refused:?}");
    }
    let refused = call(&[&["1"][..], &NO_KEY].concat());
    assert!(refused.code == 1 && refused.err.contains("no public key"), "{refused:?}");
    assert_eq!(wish().await, None, "nothing was asked of the operator");

    // Below a forged revision that is said to be the latest.
    let said = call(&[]);
    assert!(said.code == 0 && said.out.contains("asked to go back to revision 3"), "{said:?}");
    assert!(said.err.contains("revision 4") && said.err.contains("is not proven"), "it is told: {said:?}");
    store.delete(&project.namespace, "web", 4).await.unwrap();
    let said = call(&[]);
    assert!(said.code == 0 && said.out.contains("asked to go back to revision 1"), "2 is skipped: {said:?}");
    assert!(said.err.contains("revision 2") && said.err.contains("is not proven"), "it is told: {said:?}");
    assert_eq!(wish().await.as_deref(), Some("1"));
    assert!(call(&["2", "--allow-unproven"]).out.contains("asked to go back to revision 2"));
    assert_eq!(wish().await.as_deref(), Some("2"));
    // The operator does not go there whatever the person allows.
    let _operator = project.run();
    let told = project.condition("web", "ReleaseFailed", "True").await;
    assert!(told["message"].to_string().contains("cannot go back to revision 2"), "{told}");
    assert!(!project.get("v1", "ConfigMap", "web").await.unwrap().data["data"].to_string().contains("evil"));
}

async fn exists(api: &Api<DynamicObject>, name: &str) -> bool {
    api.get_opt(name).await.unwrap().is_some()
}

#[tokio::test]
async fn a_forged_test_makes_nothing_outside_of_the_namespace() {
    let project = deployed().await;
    let elsewhere = project.another_namespace("victim").await;
    let cluster = format!("{}-evil", project.namespace);
    let bindings = project.objects("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", None);
    let theirs = project.objects("v1", "ConfigMap", Some(&elsewhere));
    let listed = json!({
        "apiVersion": "v1", "kind": "List", "metadata": {"annotations": {"helm.sh/hook": "test"}},
        "items": [config("inside", "red"), within(&elsewhere, config("evil", "red"))],
    });
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "evil", "namespace": elsewhere},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
    });
    let roles = project.objects("rbac.authorization.k8s.io/v1", "Role", Some(&elsewhere));
    for (case, manifest) in [
        ("cluster-scoped", test(binding(&cluster))),
        ("cluster-scoped with the namespace of the release", test(within(&project.namespace, binding(&cluster)))),
        ("another namespace", test(within(&elsewhere, config("evil", "red")))),
        ("an item of a list", format!("{listed}\n")),
        (
            "a second document",
            format!("{}---\n{}", test(config("inside", "red")), test(within(&elsewhere, config("evil", "red")))),
        ),
        ("rights in another namespace", test(role)),
        ("said to be of crds/", format!("# Source: app/crds/x.yaml\n{}", test(binding(&cluster)))),
    ] {
        // Whoever knows of no flag is no less protected.
        for flags in [&[][..], &[UNPROVEN]] {
            let said = tested(&project, &manifest, flags).await;
            assert!(!exists(&bindings, &cluster).await, "{case}: a ClusterRoleBinding was made");
            assert!(!exists(&theirs, "evil").await && !exists(&roles, "evil").await, "{case}: an object was made");
            assert!(!exists(&project.configs(), "inside").await, "{case}: nothing is made before all was looked at");
            assert_eq!(said.code, 1, "{case}: {said:?}");
            let why = if flags.is_empty() { [UNPROVEN, "signature"] } else { [FLAG, "evil"] };
            assert!(why.iter().all(|part| said.err.contains(part)), "{case}: {said:?}");
        }
    }
}

#[tokio::test]
async fn a_person_may_allow_a_test_outside_of_the_namespace() {
    let project = deployed().await;
    let elsewhere = project.another_namespace("mine").await;
    let manifest = test(within(&elsewhere, config("meant", "red")));
    let said = tested(&project, &manifest, &[UNPROVEN, FLAG]).await;
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.err.contains(&format!("ConfigMap {elsewhere}/meant")), "it is shown: {said:?}");
    assert!(exists(&project.objects("v1", "ConfigMap", Some(&elsewhere)), "meant").await);
}

#[tokio::test]
async fn a_test_without_a_namespace_is_in_that_of_the_release() {
    let project = deployed().await;
    let mut empty = config("empty", "red");
    empty["metadata"]["namespace"] = json!("");
    for (name, object) in
        [("missing", config("missing", "red")), ("named", within(&project.namespace, config("named", "red")))]
    {
        assert_eq!(tested(&project, &test(object), &[UNPROVEN]).await.code, 0, "{name}");
        assert!(exists(&project.configs(), name).await, "{name}");
    }
    let said = tested(&project, &test(empty), &[UNPROVEN]).await;
    let is_here = exists(&project.configs(), "empty").await;
    assert_eq!(said.code == 0, is_here, "an empty namespace is the release's or is refused: {said:?}");
}

#[tokio::test]
async fn objects_that_give_rights_inside_of_the_namespace_are_shown() {
    let project = deployed().await;
    let mut grant = binding("grant");
    grant["kind"] = json!("RoleBinding");
    let token = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "token", "annotations": {"kubernetes.io/service-account.name": "default"}},
    });
    let said = tested(&project, &test(grant), &[UNPROVEN]).await;
    assert!(said.err.contains(&format!("RoleBinding {}/grant", project.namespace)), "{said:?}");
    let manifest = token.to_string().replace("\"annotations\":{", "\"annotations\":{\"helm.sh/hook\":\"test\",");
    let said = tested(&project, &manifest, &[UNPROVEN]).await;
    assert!(said.err.contains(&format!("Secret {}/token", project.namespace)), "{said:?}");
}
