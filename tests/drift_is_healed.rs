use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::harness::policy::{is_overruled, overruling};
use crate::harness::{Project, config, stays, until, within};

const RELEASE_LABEL: &str = "chartwright.dev/release";

fn service() -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {
        "selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}})
}

fn deployment(replicas: Option<u32>) -> Value {
    let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [
            {"name": "app", "image": "one", "env": [{"name": "A", "value": "1"}]}]}}}});
    if let Some(replicas) = replicas {
        object["spec"]["replicas"] = json!(replicas);
    }
    object
}

/// A person's merge patch.
async fn edit(api: &Api<DynamicObject>, name: &str, patch: Value) {
    let params = PatchParams { field_manager: Some("kubectl-edit".into()), ..Default::default() };
    api.patch(name, &params, &Patch::Merge(patch)).await.expect("the edit is accepted");
}

async fn value(api: &Api<DynamicObject>, name: &str, pointer: &str) -> Value {
    let object = api.get_opt(name).await.expect("an answer");
    let object = object.map(|object| serde_json::to_value(object).expect("JSON")).unwrap_or_default();
    object.pointer(pointer).cloned().unwrap_or_default()
}

async fn becomes(api: &Api<DynamicObject>, name: &str, pointer: &str, wanted: Value) {
    until(&format!("{name}{pointer} is {wanted}"), async || (value(api, name, pointer).await == wanted).then_some(()))
        .await;
}

#[tokio::test]
async fn whatever_somebody_changes_is_set_back() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue"), service(), deployment(Some(2))]})).await;
    project.deployed("web").await;
    let configs = project.configs();
    let services = project.objects("v1", "Service", Some(&project.namespace));
    let deployments = project.objects("apps/v1", "Deployment", Some(&project.namespace));

    edit(&configs, "web", json!({"data": {"colour": "red"}})).await;
    becomes(&configs, "web", "/data/colour", json!("blue")).await;
    edit(&configs, "web", json!({"data": null})).await;
    becomes(&configs, "web", "/data/colour", json!("blue")).await;
    for taken in ["app.kubernetes.io/managed-by", RELEASE_LABEL] {
        let pointer = format!("/metadata/labels/{}", taken.replace('/', "~1"));
        let before = value(&configs, "web", &pointer).await;
        edit(&configs, "web", json!({"metadata": {"labels": {taken: null}}})).await;
        becomes(&configs, "web", &pointer, before).await;
    }
    edit(&configs, "web", json!({"metadata": {"ownerReferences": null}})).await;
    becomes(&configs, "web", "/metadata/ownerReferences/0/name", json!("web")).await;
    edit(&configs, "web", json!({"metadata": {"managedFields": [{}]}, "data": {"colour": "red"}})).await;
    becomes(&configs, "web", "/data/colour", json!("blue")).await;

    edit(&services, "web", json!({"spec": {"ports": [{"name": "http", "port": 80, "targetPort": 9}]}})).await;
    becomes(&services, "web", "/spec/ports/0/targetPort", json!(8080)).await;

    let env = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "two"}]}}}});
    edit(&deployments, "web", env).await;
    becomes(&deployments, "web", "/spec/template/spec/containers/0/image", json!("one")).await;
    becomes(&deployments, "web", "/spec/template/spec/containers/0/env/0/value", json!("1")).await;
    let scale = json!({"spec": {"replicas": 7}});
    deployments.patch_scale("web", &Default::default(), &Patch::Merge(&scale)).await.expect("kubectl scale");
    becomes(&deployments, "web", "/spec/replicas", json!(2)).await;
}

#[tokio::test]
async fn a_port_that_somebody_moved_comes_back_and_leaves_no_trace() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [service()]})).await;
    project.deployed("web").await;
    let services = project.objects("v1", "Service", Some(&project.namespace));
    // To the API server this is another port of the same name.
    edit(&services, "web", json!({"spec": {"ports": [{"name": "http", "port": 81, "targetPort": 8080}]}})).await;
    becomes(&services, "web", "/spec/ports/0/port", json!(80)).await;
    until("one port and no manager of the repair", async || {
        let service = services.get("web").await.expect("the Service");
        let managers = service.managed_fields().iter().filter_map(|entry| entry.manager.as_deref());
        let traces = managers.filter(|manager| manager.contains("repair")).count();
        (service.data["spec"]["ports"].as_array().map(Vec::len) == Some(1) && traces == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn only_what_drifted_is_applied_again_wherever_it_is() {
    let project = Project::of_objects().await;
    let other = project.another_namespace("other").await;
    let _operator = project.run();
    let mut elsewhere = config("far", "blue");
    elsewhere["metadata"]["namespace"] = json!(other);
    let role = format!("{}-role", project.namespace);
    let rule = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let role_object = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": role}, "rules": rule});
    project.apply("web", json!({"objects": [config("web", "blue"), elsewhere, role_object]})).await;
    project.deployed("web").await;
    let roles = project.objects("rbac.authorization.k8s.io/v1", "ClusterRole", None);
    let far = project.objects("v1", "ConfigMap", Some(&other));

    let since = Timestamp::now();
    edit(&roles, &role, json!({"rules": []})).await;
    becomes(&roles, &role, "/rules/0/verbs/0", json!("get")).await;
    edit(&far, "far", json!({"data": {"colour": "red"}})).await;
    becomes(&far, "far", "/data/colour", json!("blue")).await;
    far.delete("far", &Default::default()).await.expect("it is deleted");
    becomes(&far, "far", "/data/colour", json!("blue")).await;
    roles.delete(&role, &Default::default()).await.expect("it is deleted");
    becomes(&roles, &role, "/rules/0/verbs/0", json!("get")).await;
    let calls = project.calls_since(since);
    let applies = |path: &str| calls.iter().filter(|call| call.starts_with("patch ") && call.contains(path)).count();
    assert_eq!((applies("/clusterroles/"), applies("/configmaps/far")), (2, 2), "{calls:#?}");
    assert_eq!(applies("/configmaps/web"), 0, "{calls:#?}");
}

#[tokio::test]
async fn what_others_add_is_left_alone_and_costs_no_call() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue"), deployment(Some(0))]})).await;
    project.condition("web", "Ready", "True").await;
    let since = Timestamp::now();
    let configs = project.configs();
    edit(
        &configs,
        "web",
        json!({"metadata": {"labels": {"mine": "1"}, "annotations": {"mine": "1"}}, "data": {"more": "1"}}),
    )
    .await;
    // An edit that counts comes after it, and shows that the operator has seen both.
    edit(&configs, "web", json!({"data": {"colour": "red"}})).await;
    becomes(&configs, "web", "/data/colour", json!("blue")).await;
    assert_eq!(value(&configs, "web", "/data/more").await, json!("1"));
    assert_eq!(value(&configs, "web", "/metadata/labels/mine").await, json!("1"));
    let calls = project.calls_since(since);
    let applies = calls.iter().filter(|call| call.starts_with("patch ") && call.contains("/configmaps/")).count();
    assert_eq!(applies, 1, "{calls:#?}");
}

#[tokio::test]
async fn a_write_under_our_own_name_is_noticed_too() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    project.deployed("web").await;
    // As Helm 4 does it: the same fields, the same manager, another value. The time of the list has seconds only.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let configs = project.configs();
    let mut object = serde_json::to_value(configs.get("web").await.expect("a ConfigMap")).expect("JSON");
    object["data"]["colour"] = json!("red");
    for set_by_server in ["managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"] {
        object["metadata"].as_object_mut().expect("metadata").remove(set_by_server);
    }
    configs.patch("web", &PatchParams::apply("helm").force(), &Patch::Apply(&object)).await.expect("an apply");
    becomes(&configs, "web", "/data/colour", json!("blue")).await;
}

#[tokio::test]
async fn what_was_changed_while_nobody_watched_is_set_back_at_the_start() {
    let project = Project::of_objects().await;
    let operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue"), config("other", "blue")]})).await;
    project.deployed("web").await;
    drop(operator);
    let configs = project.configs();
    edit(&configs, "web", json!({"data": {"colour": "red"}})).await;
    configs.delete("other", &Default::default()).await.expect("it is deleted");
    let _operator = project.run();
    becomes(&configs, "web", "/data/colour", json!("blue")).await;
    becomes(&configs, "other", "/data/colour", json!("blue")).await;
}

#[tokio::test]
async fn one_that_cannot_be_repaired_keeps_no_other_from_it() {
    let project = Project::of_objects().await;
    let operator = project.run();
    project.apply("web", json!({"objects": [config("a", "blue"), config("b", "blue")]})).await;
    project.deployed("web").await;
    drop(operator);
    let configs = project.configs();
    for name in ["a", "b"] {
        configs.delete(name, &Default::default()).await.expect("it is deleted");
    }
    let foreign =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"colour": "mine"}});
    project.create(within(&project.namespace, foreign)).await;
    let _operator = project.run();
    becomes(&configs, "b", "/data/colour", json!("blue")).await;
    let told = project.not_ready("web", "BelongsToAnother").await;
    assert!(told["message"].as_str().unwrap_or_default().contains("ConfigMap"), "{told}");
    assert_eq!(value(&configs, "a", "/data/colour").await, json!("mine"));
}

#[tokio::test]
async fn an_object_that_asks_for_it_is_left_alone_until_the_next_revision() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    let mut left = config("left", "blue");
    left["metadata"]["annotations"] = json!({"chartwright.dev/drift": "ignore"});
    project.apply("web", json!({"objects": [left, config("web", "blue")]})).await;
    project.deployed("web").await;
    let configs = project.configs();
    configs.delete("left", &Default::default()).await.expect("it is deleted");
    // The repair of another object shows that the operator has looked.
    configs.delete("web", &Default::default()).await.expect("it is deleted");
    becomes(&configs, "web", "/data/colour", json!("blue")).await;
    stays(Duration::from_secs(1), "it stays away", async || {
        configs.get_opt("left").await.expect("an answer").is_none()
    })
    .await;
    left["data"]["colour"] = json!("green");
    project.apply("web", json!({"objects": [left, config("web", "blue")]})).await;
    becomes(&configs, "left", "/data/colour", json!("green")).await;
}

#[tokio::test]
async fn ignored_fields_belong_to_whoever_has_them() {
    let project = Project::of_objects().await;
    project.watch_with("ignoreFields:\n- paths: [/data/theirs]\n  target: {kind: ConfigMap, name: web}");
    let _operator = project.run();
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "annotations":
        {"chartwright.dev/ignore-fields": "/data/noted"}}, "data": {"ours": "1", "theirs": "1", "noted": "1"}});
    project.apply("web", json!({"objects": [object]})).await;
    project.deployed("web").await;
    let configs = project.configs();
    edit(&configs, "web", json!({"data": {"ours": "2", "theirs": "2", "noted": "2"}})).await;
    becomes(&configs, "web", "/data/ours", json!("1")).await;
    let theirs = async || value(&configs, "web", "/data").await;
    assert_eq!(theirs().await, json!({"ours": "1", "theirs": "2", "noted": "2"}));
    // An upgrade leaves them alone as well, and sets what nobody took.
    for field in ["ours", "theirs", "noted"] {
        object["data"][field] = json!("3");
    }
    project.apply("web", json!({"objects": [object]})).await;
    becomes(&configs, "web", "/data/ours", json!("3")).await;
    assert_eq!(theirs().await, json!({"ours": "3", "theirs": "2", "noted": "2"}));
}

#[tokio::test]
async fn without_watches_an_edit_is_set_back_with_the_period() {
    let project = Project::of_objects().await;
    project.watch_with("watchDependentResources: false\nreconcilePeriod: 1s");
    let _operator = project.run();
    let since = Timestamp::now();
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    project.deployed("web").await;
    let configs = project.configs();
    edit(&configs, "web", json!({"data": {"colour": "red"}})).await;
    becomes(&configs, "web", "/data/colour", json!("blue")).await;
    let calls = project.calls_since(since);
    let watches: Vec<_> = calls.iter().filter(|call| call.contains("/configmaps?")).collect();
    assert!(watches.is_empty(), "{watches:#?}");
}

#[tokio::test]
async fn a_job_that_was_deleted_before_it_ended_is_started_again_and_one_that_ended_is_not() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    let job = |name: &str, behaviour: &str| {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": {
            "metadata": {"labels": {"lab.chartwright.dev/behaviour": behaviour}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}})
    };
    project.apply("web", json!({"objects": [job("long", "hang"), job("short", "none")]})).await;
    project.deployed("web").await;
    let jobs = project.objects("batch/v1", "Job", Some(&project.namespace));
    becomes(&jobs, "short", "/status/succeeded", json!(1)).await;
    let before = jobs.get("long").await.expect("a Job").uid();
    for name in ["short", "long"] {
        jobs.delete(name, &kube::api::DeleteParams::background()).await.expect("it is deleted");
    }
    until("the unfinished one is there again", async || {
        jobs.get_opt("long").await.expect("an answer").filter(|job| job.uid() != before)
    })
    .await;
    assert!(jobs.get_opt("short").await.expect("an answer").is_none());
}

#[tokio::test]
async fn who_keeps_changing_a_field_is_named_and_not_fought_without_end() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    project.deployed("web").await;
    let configs = project.configs();
    let rival = tokio::spawn({
        let configs = configs.clone();
        async move {
            let params = PatchParams { field_manager: Some("rival".into()), ..Default::default() };
            loop {
                let patch = json!({"data": {"colour": "red"}});
                let _ = configs.patch("web", &params, &Patch::Merge(patch)).await;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    });
    let contested = project.condition("web", "Contested", "True").await;
    let message = contested["message"].as_str().unwrap_or_default();
    for part in ["ConfigMap", "web", "data.colour", "rival"] {
        assert!(message.contains(part), "{message}");
    }
    let since = Timestamp::now();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let calls = project.calls_since(since);
    let repairs = calls.iter().filter(|call| call.starts_with("patch ") && call.contains("/configmaps/")).count();
    assert!(repairs <= 4, "{repairs} repairs in 5 s: {calls:#?}");
    rival.abort();
    becomes(&configs, "web", "/data/colour", json!("blue")).await;
}

/// Has a policy overrule what the project's objects called `web` say, while `look` looks at it.
async fn while_overruled(project: &Project, of: [&str; 3], change: [&str; 2], look: impl AsyncFnOnce()) {
    let name = format!("overrule-{}", project.namespace);
    let objects = overruling(&name, of, Some(&project.namespace), change);
    for object in objects.clone() {
        project.create(object).await;
    }
    look().await;
    for object in objects {
        let kind = object["kind"].as_str().unwrap_or_default();
        let api = project.objects("admissionregistration.k8s.io/v1", kind, None);
        api.delete(&name, &Default::default()).await.expect("it is deleted");
    }
}

#[tokio::test]
async fn a_policy_that_overrules_the_chart_is_named() {
    let project = Project::of_objects().await;
    while_overruled(&project, ["", "v1", "configmaps"], ["/data/colour", "\"grey\""], async || {
        let configs = project.configs();
        until("the policy is in force", async || is_overruled(&configs, "web").await).await;
        let _operator = project.run();
        project.apply("web", json!({"objects": [config("web", "blue")]})).await;
        let contested = project.condition("web", "Contested", "True").await;
        let message = contested["message"].as_str().unwrap_or_default();
        assert!(message.contains("data.colour") && message.contains("admission"), "{message}");
        let since = Timestamp::now();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let calls = project.calls_since(since);
        let writes = calls.iter().filter(|call| call.starts_with("patch ") && call.contains("/configmaps/")).count();
        assert_eq!(writes, 0, "it is not fought: {calls:#?}");
    })
    .await;
}

/// A Deployment with lists whose items repeat a name, a port or a path: each list has keys of its own.
fn crowded(paths: &[&str]) -> Value {
    let mount = |path: &&str| json!({"name": "empty-dir", "mountPath": path, "subPath": path.trim_start_matches('/')});
    let mounts: Vec<Value> = paths.iter().map(mount).collect();
    let labels = json!({"app": "web"});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
    "replicas": 0, "selector": {"matchLabels": labels},
    "template": {"metadata": {"labels": labels}, "spec": {
        "containers": [
            {"name": "app", "image": "registry.example/app:1", "volumeMounts": mounts,
                "ports": [
                    {"name": "dns", "containerPort": 53, "protocol": "UDP"},
                    {"name": "dns-tcp", "containerPort": 53},
                    {"name": "web", "containerPort": 80, "protocol": "TCP"},
                ],
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)"}, {"name": "C", "value": ""}]},
            {"name": "side", "image": "registry.example/side:1", "volumeMounts": mounts, "args": ["a", "a", "b"]},
        ],
        "volumes": [{"name": "empty-dir", "emptyDir": {}}, {"name": "all", "projected": {"sources": [
            {"configMap": {"name": "one", "items": [{"key": "a", "path": "a"}, {"key": "a", "path": "b"}]}},
            {"configMap": {"name": "one", "items": [{"key": "c", "path": "c"}]}}]}}],
        "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}, {"key": "a", "operator": "Exists", "effect": "NoExecute"}],
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a", "b"]}],
    }}}})
}

fn names_of_one_service() -> Value {
    let port = |name: &str, protocol: &str| json!({"name": name, "port": 53, "protocol": protocol, "targetPort": 53});
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {
        "selector": {"app": "web"},
        "ports": [port("udp", "UDP"), port("tcp", "TCP"), {"name": "web", "port": 80}]}})
}

#[tokio::test]
async fn items_that_repeat_a_name_are_no_conflict_and_a_real_change_of_one_is() {
    let project = Project::of_objects().await;
    let operator = project.run();
    let spec = |paths: &[&str]| json!({"objects": [crowded(paths), names_of_one_service()]});
    project.apply("web", spec(&["/tmp", "/opt/conf", "/opt/logs", "/app"])).await;
    project.condition("web", "Ready", "True").await;
    // An upgrade sends the items in another order than the live object has them.
    project.apply("web", spec(&["/app", "/opt/logs", "/more", "/tmp"])).await;
    project.deployed("web").await;
    let services = project.objects("v1", "Service", Some(&project.namespace));
    edit(&services, "web", json!({"spec": {"selector": {"app": "other"}}})).await;
    becomes(&services, "web", "/spec/selector/app", json!("web")).await;
    project.condition("web", "Ready", "True").await;
    let status = project.status("web").await;
    assert!(!status["conditions"].to_string().contains("Contested"), "{status:#}");
    drop(operator);

    let path = "/spec/template/spec/containers/0/volumeMounts/1/subPath";
    while_overruled(&project, ["apps", "v1", "deployments"], [path, "\"theirs\""], async || {
        let deployments = project.objects("apps/v1", "Deployment", Some(&project.namespace));
        let params = PatchParams { dry_run: true, ..PatchParams::default() };
        until("the policy is in force", async || {
            let patch = Patch::Merge(json!({"metadata": {"labels": {"probe": "x"}}}));
            let answer = deployments.patch("web", &params, &patch).await.expect("a dry run");
            (answer.data.pointer(path)? == "theirs").then_some(())
        })
        .await;
        let _operator = project.run();
        project.apply("web", spec(&["/tmp", "/opt/conf", "/opt/logs"])).await;
        let contested = project.condition("web", "Contested", "True").await;
        let message = contested["message"].as_str().unwrap_or_default();
        let field = "spec.template.spec.containers[name=app].volumeMounts[mountPath=";
        assert!(message.contains(field) && message.contains("].subPath"), "{message}");
        assert_eq!(message.matches("subPath").count(), 1, "{message}");
    })
    .await;
}

#[tokio::test]
async fn a_kind_without_watches_beside_one_with_them_tells_no_nonsense() {
    let project = Project::of_objects().await;
    let other = project.with_kind("Quiet").await;
    let group = &project.resource.group;
    let entry =
        |kind: &str, more: &str| format!("- {{group: {group}, version: v1, kind: {kind}, chart: charts/app{more}}}\n");
    project.file("watches.yaml", &(entry("App", "") + &entry("Quiet", ", watchDependentResources: false")));
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    project.condition("web", "Ready", "True").await;
    let quiets: Api<DynamicObject> = Api::namespaced_with(project.client.clone(), &project.namespace, &other);
    let mut quiet = DynamicObject::new("quiet", &other);
    quiet.data = json!({"spec": {"objects": [config("quiet", "blue")]}});
    quiets.create(&PostParams::default(), &quiet).await.expect("it is made");
    until("it says that it is ready", async || {
        let conditions = value(&quiets, "quiet", "/status/conditions").await;
        let mut conditions = conditions.as_array().into_iter().flatten();
        conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True").then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_was_put_off_in_a_fight_is_repaired_although_a_new_spec_is_refused() {
    let project = Project::of_objects().await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue")]})).await;
    project.deployed("web").await;
    project.apply("web", json!({"objects": [{"kind": "nothing"}]})).await;
    project.condition("web", "ReleaseFailed", "True").await;
    let configs = project.configs();
    for _ in 0..5 {
        edit(&configs, "web", json!({"data": {"colour": "red"}})).await;
        becomes(&configs, "web", "/data/colour", json!("blue")).await;
    }
    // This one has to wait, and nobody asks for it any more.
    edit(&configs, "web", json!({"data": {"colour": "red"}})).await;
    becomes(&configs, "web", "/data/colour", json!("blue")).await;
}
