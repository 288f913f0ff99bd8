//! WATCH_NAMESPACE: what is watched, what rights that needs, and what is left alone.

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::harness::asking::get;
use crate::harness::{Project, config, until};

const RBAC: &str = "rbac.authorization.k8s.io";

/// Rights in one namespace, and nowhere else.
async fn give_rights_in(project: &Project, namespace: &str) {
    let group = &project.resource.group;
    let all =
        |groups: &[&str], resources: &[&str]| json!({"apiGroups": groups, "resources": resources, "verbs": ["*"]});
    let rules = json!([
        all(&[group], &["*"]),
        all(&["", "apps", "events.k8s.io"], &["configmaps", "secrets", "deployments", "events"]),
        all(&["autoscaling"], &["horizontalpodautoscalers"]),
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
    ]);
    let version = format!("{RBAC}/v1");
    let metadata = json!({"name": "operator", "namespace": namespace});
    project.create(json!({"apiVersion": version, "kind": "Role", "metadata": metadata, "rules": rules})).await;
    let user = json!([{"apiGroup": RBAC, "kind": "User", "name": project.user()}]);
    let role = json!({"apiGroup": RBAC, "kind": "Role", "name": "operator"});
    let binding =
        json!({"apiVersion": version, "kind": "RoleBinding", "metadata": metadata, "subjects": user, "roleRef": role});
    project.create(binding).await;
}

fn deployment(name: &str) -> Value {
    let labels = json!({"app": name});
    let pod = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": labels}, "template": pod});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec})
}

/// A custom resource with a workload, which autoscalers may govern, and with values from a Secret.
async fn serve(project: &Project, namespace: &str) {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "values", "namespace": namespace},
        "stringData": {"values.yaml": "colour: blue"}});
    project.create(secret).await;
    let mut cr = json!({"apiVersion": project.resource.api_version, "kind": project.resource.kind});
    cr["metadata"] = json!({"name": "web", "annotations": {"chartwright.dev/values-from": "secret/values"}});
    cr["spec"] = json!({"objects": [config("web", "blue"), deployment("web")]});
    let cr = serde_json::from_value(cr).unwrap();
    project.crs_in(namespace).create(&PostParams::default(), &cr).await.unwrap();
}

async fn is_served(project: &Project, namespace: &str) {
    until(&format!("{namespace} is served"), async || {
        let cr = project.crs_in(namespace).get("web").await.unwrap();
        let conditions = cr.data.pointer("/status/conditions")?.as_array()?.clone();
        conditions.iter().any(|it| it["type"] == "Deployed" && it["status"] == "True").then_some(())
    })
    .await;
}

/// Lists and watches of what has namespaces, across all of them.
fn is_everywhere(call: &str) -> bool {
    let (verb, path) = call.split_once(' ').unwrap();
    matches!(verb, "list" | "watch") && !path.contains("/namespaces/")
}

#[tokio::test]
async fn roles_in_the_named_namespaces_are_all_the_rights_it_needs() {
    let project = Project::of_objects().await;
    let (here, there) = (project.namespace.clone(), project.another_namespace("b").await);
    let (outside, later) = (project.another_namespace("c").await, format!("{here}-later"));
    for namespace in [&here, &there] {
        give_rights_in(&project, namespace).await;
    }
    let since = Timestamp::now();
    let names = format!(" {here},,{there} ,{there},{later}");
    let metrics = ["--metrics-bind-address=127.0.0.1:0"];
    let operator = project.launch().limited().args(&metrics).env("WATCH_NAMESPACE", &names).start();
    for namespace in [&here, &there, &outside] {
        serve(&project, namespace).await;
    }
    for namespace in [&here, &there] {
        is_served(&project, namespace).await;
        // The watch of objects works too.
        let configs = project.objects("v1", "ConfigMap", Some(namespace));
        let before = configs.get("web").await.unwrap().uid();
        configs.delete("web", &DeleteParams::default()).await.unwrap();
        until("a deleted object comes back", async || {
            configs.get_opt("web").await.unwrap().filter(|config| config.uid() != before)
        })
        .await;
    }
    let everywhere: Vec<_> = project.calls_since(since).into_iter().filter(|call| is_everywhere(call)).collect();
    let (definitions, others): (Vec<_>, Vec<_>) =
        everywhere.into_iter().partition(|call| call.contains("/customresourcedefinitions"));
    assert!(others.is_empty() && definitions.len() <= 2, "{others:#?} {definitions:#?}");
    // One namespace does not exist, so nobody could give rights in it. It holds up nobody and is asked about ever more seldom.
    let refused = project.refused_since(since);
    let (of_later, others): (Vec<_>, Vec<_>) = refused.into_iter().partition(|call| call.contains(&later));
    let is_about_namespace =
        |call: &String| call.starts_with("get /api/v1/namespaces/") && call.matches('/').count() == 4;
    let is_borne = |call: &String| call.contains("/customresourcedefinitions") || is_about_namespace(call);
    assert!(others.iter().all(is_borne), "{others:#?}");
    assert!((2..24).contains(&of_later.len()), "{of_later:#?}");
    assert_eq!(operator.log().matches("CustomResourceDefinitions cannot be watched").count(), 1);

    project.another_namespace("later").await;
    give_rights_in(&project, &later).await;
    serve(&project, &later).await;
    is_served(&project, &later).await;
    // An alert counts these. The watch of CustomResourceDefinitions, which nobody allows, is not among them: it is done without.
    let address = operator.address("metrics").await;
    until("no watch is refused any more", async || {
        let body = get(&address, "/metrics", None).await?.body;
        body.lines().any(|line| line == "chartwright_watches{state=\"refused\"} 0").then_some(())
    })
    .await;
    project.crs_in(&there).delete("web", &DeleteParams::default()).await.unwrap();
    until("a deletion ends", async || project.crs_in(&there).get_opt("web").await.unwrap().is_none().then_some(()))
        .await;
    let left_alone = project.crs_in(&outside).get("web").await.unwrap();
    assert!(left_alone.finalizers().is_empty() && left_alone.data.get("status").is_none(), "{left_alone:?}");
    let everywhere = project.calls_since(since).into_iter().filter(|call| is_everywhere(call));
    assert!(everywhere.into_iter().all(|call| call.contains("/customresourcedefinitions")));
}

#[tokio::test]
async fn a_kind_without_namespaces_is_served_where_its_release_can_be() {
    let project = Project::cluster_scoped("Platform", "tests/charts/platform").await;
    let elsewhere = project.another_namespace("b").await;
    let operator = project.launch().env("WATCH_NAMESPACE", &elsewhere).start();
    project.apply("web", json!({})).await;
    let told = project.not_ready("web", "OutOfReach").await;
    let message = told["message"].as_str().unwrap();
    assert!(message.contains(&format!("in the namespace {}", project.namespace)), "{message}");
    assert!(message.contains("add it to WATCH_NAMESPACE, or set `releaseNamespace`"), "{message}");
    assert!(project.status("web").await["deployedRelease"].is_null());
    drop(operator);
    let _operator = project.launch().env("WATCH_NAMESPACE", &project.namespace).start();
    project.deployed("web").await;
}

#[tokio::test]
async fn a_lookup_of_the_whole_cluster_is_one_of_the_named_namespaces() {
    const ASK: &str = r#"
{{- $found := list }}
{{- range (lookup "v1" "ConfigMap" "" "").items }}
{{- if eq .metadata.name "found" }}{{ $found = append $found .metadata.namespace }}{{ end }}
{{- end }}
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data: {found: {{ join " " $found | quote }}}
"#;
    let project = Project::new("App").await;
    project.template("ask.yaml", ASK);
    project.watch_with("lookup: cluster");
    let (here, there) = (project.namespace.clone(), project.another_namespace("b").await);
    let outside = project.another_namespace("c").await;
    for namespace in [&here, &there] {
        give_rights_in(&project, namespace).await;
    }
    for namespace in [&here, &there, &outside] {
        let metadata = json!({"name": "found", "namespace": namespace});
        project.create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).await;
    }
    let _operator = project.launch().limited().env("WATCH_NAMESPACE", &format!("{here},{there}")).start();
    project.apply("web", json!({})).await;
    project.deployed("web").await;
    let found = project.get("v1", "ConfigMap", "web").await.unwrap().data["data"]["found"].clone();
    // In the order of the API server: a `-` comes before the `/` after a name.
    assert_eq!(found, format!("{there} {here}"));
}
