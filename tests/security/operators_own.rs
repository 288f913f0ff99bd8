//! No release touches what is the operator's own, and none moves to another namespace.

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::ResourceExt;
use kube::api::{Api, Patch, PostParams};
use serde_json::{Value, json};

use crate::harness::{Launch, Project, annotated, config, stays, until, within};

const RBAC: &str = "rbac.authorization.k8s.io/v1";
const POD: &str = "op-manager-5d8f7c9b6d-x2x7k";

/// An operator that runs as a ServiceAccount in a Deployment of its namespace, where custom resources live as well.
struct Installed {
    project: Project,
    token: String,
}

impl Installed {
    async fn new(fields: &str) -> Self {
        let project = Project::of_objects().await;
        project.watch_with(fields);
        let accounts: Api<ServiceAccount> = Api::namespaced(project.client.clone(), &project.namespace);
        let account = serde_json::from_value(json!({"metadata": {"name": "manager"}})).unwrap();
        accounts.create(&PostParams::default(), &account).await.unwrap();
        let subject = json!({"kind": "ServiceAccount", "name": "manager", "namespace": project.namespace});
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"});
        let binding = json!({"apiVersion": RBAC, "kind": "ClusterRoleBinding",
            "metadata": {"name": project.user()}, "roleRef": role, "subjects": [subject]});
        project.create(binding).await;
        project.create(within(&project.namespace, deployment("op-manager", "operator:1", "manager"))).await;
        let request = TokenRequest { spec: TokenRequestSpec::default(), ..Default::default() };
        let answer = accounts.create_token_request("manager", &PostParams::default(), &request).await.unwrap();
        Installed { token: answer.status.unwrap().token, project }
    }

    fn launch(&self) -> Launch<'_> {
        self.project.launch().token(self.token.clone()).env("POD_NAME", POD)
    }

    /// Applies a custom resource that asks to adopt what is there, and reads why it is refused.
    async fn refused(&self, name: &str, objects: &[Value]) -> String {
        let project = &self.project;
        let mut all = vec![config(name, "blue")];
        all.extend(objects.iter().cloned());
        project.apply(name, json!({"objects": all})).await;
        project.annotate(name, "chartwright.dev/adopt", "true").await;
        project.decided(name).await;
        assert!(project.get("v1", "ConfigMap", name).await.is_none(), "it was applied: {objects:?}");
        let told = project.not_ready(name, "NotAllowed").await;
        told["message"].as_str().unwrap().to_owned()
    }
}

fn deployment(name: &str, image: &str, account: &str) -> Value {
    let labels = json!({"app": name});
    let pod = json!({"serviceAccountName": account, "containers": [{"name": "a", "image": image}]});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "replicas": 0, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}})
}

fn named(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}})
}

fn with(mut object: Value, key: &str, value: Value) -> Value {
    object[key] = value;
    object
}

#[tokio::test]
async fn the_operators_own_objects_are_neither_adopted_nor_replaced() {
    attack_own_objects("adopt: objects\nallow: [cluster, other-namespaces]").await;
}

#[tokio::test]
async fn no_consent_covers_the_operators_own_objects() {
    attack_own_objects("adopt: objects\nallow: [cluster, other-namespaces, operator-namespace]").await;
}

async fn attack_own_objects(fields: &str) {
    let installed = Installed::new(fields).await;
    let project = &installed.project;
    let _operator = installed.launch().args(&["--leader-elect", "--leader-election-id=own-lease"]).start();
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "op-manager"});
    let spec = json!({"maxReplicas": 1, "scaleTargetRef": target});
    // Without the type, since the operator looks for these by their names.
    let secret = |name: &str| named("v1", "Secret", name);
    let cases = [
        ("image", deployment("op-manager", "evil:1", "manager")),
        ("hook", annotated(deployment("op-manager", "evil:1", "x"), json!({"helm.sh/hook": "pre-install"}))),
        ("account", named("v1", "ServiceAccount", "manager")),
        ("lease", named("coordination.k8s.io/v1", "Lease", "own-lease")),
        ("key", secret("chartwright-signing-key")),
        ("ledger", secret("chartwright-ledger-0")),
        ("trust", secret("chartwright-trust")),
        ("public", secret("chartwright-public-key")),
        ("public-hook", annotated(secret("chartwright-public-key"), json!({"helm.sh/hook": "pre-install"}))),
        ("metrics", secret("chartwright-metrics-ca")),
        ("certificate", named("v1", "ConfigMap", "chartwright-metrics-ca")),
        ("scaler", with(named("autoscaling/v2", "HorizontalPodAutoscaler", "h"), "spec", spec)),
        ("replicas", named("apps/v1", "ReplicaSet", "op-manager-5d8f7c9b6d")),
    ];
    for (name, object) in cases {
        let message = installed.refused(name, &[object]).await;
        assert!(message.contains("no release may"), "{name}: {message}");
    }
    let public = project.get("v1", "Secret", "chartwright-public-key").await.unwrap();
    assert_eq!(public.data["type"], "chartwright.dev/public-key");
    let live = project.get("apps/v1", "Deployment", "op-manager").await.unwrap();
    assert_eq!(live.data.pointer("/spec/template/spec/containers/0/image"), Some(&json!("operator:1")));
    assert!(!live.labels().contains_key("chartwright.dev/release"));
}

#[tokio::test]
async fn nothing_in_the_operators_namespace_leads_to_its_rights_without_consent() {
    let installed = Installed::new("allow: [cluster, other-namespaces]").await;
    let project = &installed.project;
    let operator = installed.launch().start();
    let token = with(named("v1", "Secret", "t"), "type", "kubernetes.io/service-account-token".into());
    let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}]);
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"});
    let volume = json!([{"name": "k", "secret": {"secretName": "chartwright-signing-key", "optional": true}}]);
    let pod = |spec: Value| with(named("v1", "Pod", "p"), "spec", spec);
    let rule = |group: &str, resource: &str, verb: &str| json!([{"apiGroups": [group], "resources": [resource], "verbs": [verb]}]);
    let other = json!([{"name": "k", "secret": {"secretName": "manager-token", "optional": true}}]);
    let containers = json!([{"name": "a", "image": "a"}]);
    let cases = [
        ("runs", deployment("web", "evil:1", "manager")),
        ("pod", pod(json!({"serviceAccountName": "manager", "containers": containers}))),
        ("older", pod(json!({"serviceAccount": "manager", "containers": containers}))),
        ("mounts", pod(json!({"containers": containers, "volumes": volume}))),
        ("token", annotated(token, json!({"kubernetes.io/service-account.name": "manager"}))),
        ("role", with(named(RBAC, "Role", "r"), "rules", rules)),
        ("binding", with(named(RBAC, "RoleBinding", "b"), "roleRef", role.clone())),
        ("pods", with(named(RBAC, "Role", "r"), "rules", rule("", "pods", "patch"))),
        ("leases", with(named(RBAC, "Role", "r"), "rules", rule("coordination.k8s.io", "leases", "update"))),
        ("other", pod(json!({"containers": containers, "volumes": other}))),
        ("quota", with(named("v1", "ResourceQuota", "q"), "spec", json!({"hard": {"pods": "0"}}))),
        ("policy", with(named("networking.k8s.io/v1", "NetworkPolicy", "n"), "spec", json!({"podSelector": {}}))),
    ];
    for (name, object) in &cases {
        for hook in [false, true] {
            let object = match hook {
                true => annotated(object.clone(), json!({"helm.sh/hook": "pre-install"})),
                false => object.clone(),
            };
            let message = installed.refused(&format!("{name}-{hook}"), &[object]).await;
            assert!(message.contains("add `operator-namespace` to `allow`"), "{name}: {message}");
        }
    }
    // What is harmless is served there as well.
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]);
    let own = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "own"});
    let harmless = json!([
        deployment("plain", "a:1", "own"),
        with(named(RBAC, "Role", "own"), "rules", rules),
        with(named(RBAC, "RoleBinding", "own"), "roleRef", own),
        named("v1", "ServiceAccount", "own")
    ]);
    project.apply("harmless", json!({"objects": harmless})).await;
    project.deployed("harmless").await;
    drop(operator);
    project.watch_with("allow: [cluster, other-namespaces, operator-namespace]");
    let _operator = installed.launch().start();
    project.apply("agreed", json!({"objects": [with(named(RBAC, "RoleBinding", "agreed"), "roleRef", role)]})).await;
    project.deployed("agreed").await;
}

#[tokio::test]
async fn a_role_that_the_release_does_not_apply_is_not_bound_in_the_operators_namespace() {
    let installed = Installed::new("adopt: objects\nallow: [cluster, other-namespaces]").await;
    let project = &installed.project;
    let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}]);
    let leader = with(named(RBAC, "Role", "leader-election-role"), "rules", rules.clone());
    project.create(within(&project.namespace, leader)).await;
    let _operator = installed.launch().start();
    let role_ref = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "leader-election-role"});
    let mallory = json!([{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "mallory"}]);
    let binding = with(with(named(RBAC, "RoleBinding", "mine"), "roleRef", role_ref), "subjects", mallory);
    let harmless = with(named(RBAC, "Role", "leader-election-role"), "rules", json!([]));
    let hook = |object: &Value, event: &str| annotated(object.clone(), json!({"helm.sh/hook": event}));
    let cases = [
        ("test", [hook(&harmless, "test"), binding.clone()]),
        ("later", [hook(&harmless, "post-delete"), binding.clone()]),
        ("early", [harmless.clone(), hook(&binding, "pre-install")]),
    ];
    for (name, objects) in cases {
        let message = installed.refused(name, &objects).await;
        assert!(message.contains("does not apply before it"), "{name}: {message}");
    }
    // Nor does a release take the operator's Role over, by an object or by a hook.
    for (name, object) in [("takes", harmless.clone()), ("hooks", hook(&harmless, "pre-install"))] {
        project.apply(name, json!({"objects": [config(name, "blue"), object]})).await;
        project.annotate(name, "chartwright.dev/adopt", "true").await;
        project.not_ready(name, "BelongsToAnother").await;
    }
    let live = project.get(RBAC, "Role", "leader-election-role").await.unwrap();
    assert_eq!(live.data["rules"], rules);
    assert!(project.get(RBAC, "RoleBinding", "mine").await.is_none());
}

#[tokio::test]
async fn a_token_is_not_adopted_by_a_chart_that_does_not_call_it_one() {
    let project = Project::of_objects().await;
    project.watch_with("adopt: objects");
    let token = with(named("v1", "Secret", "token"), "type", "kubernetes.io/service-account-token".into());
    let token = annotated(token, json!({"kubernetes.io/service-account.name": "default"}));
    project.create(within(&project.namespace, token)).await;
    let _operator = project.run();
    project.apply("web", json!({"objects": [config("web", "blue"), named("v1", "Secret", "token")]})).await;
    project.annotate("web", "chartwright.dev/adopt", "true").await;
    let told = project.not_ready("web", "NotAllowed").await;
    assert!(told["message"].as_str().unwrap().contains("is a token"), "{told}");
    let live = project.get("v1", "Secret", "token").await.unwrap();
    assert!(!live.labels().contains_key("chartwright.dev/release"));
}

#[tokio::test]
async fn a_hook_deletes_no_claim_no_token_and_nothing_that_is_kept_or_adopted() {
    let project = Project::of_objects().await;
    project.watch_with("adopt: objects");
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let claim = with(named("v1", "PersistentVolumeClaim", "claim"), "spec", claim);
    let token = with(named("v1", "Secret", "token"), "type", "kubernetes.io/service-account-token".into());
    let token = annotated(token, json!({"kubernetes.io/service-account.name": "default"}));
    let kept = annotated(config("kept", "old"), json!({"helm.sh/resource-policy": "keep"}));
    let adopted = annotated(config("adopted", "old"), json!({"chartwright.dev/adopted": "x/y"}));
    // A hook of a Helm release may hold data, too.
    let hooked = json!({"helm.sh/hook": "pre-install", "helm.sh/resource-policy": "keep"});
    let mut claim_of_hook = annotated(claim.clone(), hooked.clone());
    claim_of_hook["metadata"]["name"] = json!("claim-of-hook");
    let kept_of_hook = annotated(config("kept-of-hook", "old"), hooked);
    let _operator = project.run();
    for object in [claim, token, kept, adopted, claim_of_hook, kept_of_hook] {
        let before = project.create(within(&project.namespace, object.clone())).await;
        let (kind, name) = (object["kind"].as_str().unwrap(), before.name_any());
        let mut hook = annotated(object.clone(), json!({"helm.sh/hook": "pre-install"}));
        hook.as_object_mut().unwrap().remove("type");
        project.apply(&name, json!({"objects": [hook]})).await;
        project.annotate(&name, "chartwright.dev/adopt", "true").await;
        project.not_ready(&name, "BelongsToAnother").await;
        assert_eq!(project.get("v1", kind, &name).await.unwrap().uid(), before.uid(), "{name}");
    }
}

#[tokio::test]
async fn a_chart_makes_no_custom_resource_of_another_kind_unless_by_default() {
    let project = Project::new("App").await;
    project.template("objects.yaml", "{{ range .Values.objects }}\n---\n{{ toYaml . }}\n{{ end }}");
    let other = project.with_kind("Plat").await;
    let plat = named(&other.api_version, "Plat", "victim");
    let hook = annotated(plat.clone(), json!({"helm.sh/hook": "pre-install"}));
    // An administrator runs tests with rights that the author of the custom resource may lack.
    let test = annotated(plat.clone(), json!({"helm.sh/hook": "test"}));
    let operator = project.run();
    for (name, object) in [("object", &plat), ("hook", &hook), ("test", &test)] {
        project.apply(name, json!({"objects": [config(name, "blue"), object]})).await;
        project.decided(name).await;
        assert!(project.get("v1", "ConfigMap", name).await.is_none(), "it was applied");
        let told = project.not_ready(name, "NotAllowed").await;
        assert!(told["message"].as_str().unwrap().contains("[watched-kinds]"), "{told}");
    }
    let plats = project.objects(&other.api_version, "Plat", Some(&project.namespace));
    assert!(plats.get_opt("victim").await.unwrap().is_none());
    for name in ["hook", "test"] {
        project.delete(name).await;
        project.gone(name).await;
    }
    drop(operator);
    project.template("plat.yaml", &format!("{}\n", named(&other.api_version, "Plat", "by-default")));
    let _operator = project.run();
    project.apply("object", json!({"objects": [plat]})).await;
    project.deployed("object").await;
    assert!(plats.get_opt("victim").await.unwrap().is_some(), "the chart's author makes such ones");
}

#[tokio::test]
async fn no_release_changes_the_definition_of_a_watched_kind() {
    let project = Project::of_objects().await;
    let other = project.with_kind("Other").await;
    let _operator = project.run();
    let names = [&project.resource, &other].map(|kind| format!("{}.{}", kind.plural, kind.group));
    for (number, name) in names.iter().enumerate() {
        let kind = "CustomResourceDefinition";
        let crd = named("apiextensions.k8s.io/v1", kind, name);
        let before = project.find("apiextensions.k8s.io/v1", kind, None, name).await.unwrap();
        for (case, object) in [
            ("bare", crd.clone()),
            ("spec", with(crd.clone(), "spec", json!({"preserveUnknownFields": false}))),
            ("hook", annotated(crd.clone(), json!({"helm.sh/hook": "pre-install"}))),
        ] {
            let cr = format!("{case}{number}");
            project.apply(&cr, json!({"objects": [config(&cr, "blue"), object]})).await;
            project.decided(&cr).await;
            assert!(project.get("v1", "ConfigMap", &cr).await.is_none(), "it was applied");
            let told = project.not_ready(&cr, "NotAllowed").await;
            assert!(told["message"].as_str().unwrap().contains("defines a kind of watches.yaml"), "{told}");
        }
        let after = project.find("apiextensions.k8s.io/v1", kind, None, name).await.unwrap();
        assert_eq!(after.metadata.generation, before.metadata.generation);
    }
}

/// A kind without namespaces, whose chart draws a password.
async fn platform() -> Project {
    let project = Project::cluster_scoped("Platform", "tests/charts/lists").await;
    std::fs::remove_dir_all(project.dir().join("charts/app/templates")).unwrap();
    let password =
        "apiVersion: v1\nkind: Secret\nmetadata: {name: auth}\ndata: {password: '{{ randAlphaNum 20 | b64enc }}'}\n";
    project.template("secret.yaml", password);
    project
}

fn watch_without_namespace(project: &Project) {
    let (group, kind) = (&project.resource.group, &project.resource.kind);
    project.file("watches.yaml", &format!("- {{group: {group}, version: v1, kind: {kind}, chart: charts/app}}\n"));
}

#[tokio::test]
async fn a_cluster_scoped_kind_is_not_served_in_the_operators_namespace_by_default() {
    let project = platform().await;
    watch_without_namespace(&project);
    let operator = project.run();
    project.apply("web", json!({})).await;
    project.decided("web").await;
    assert!(project.get("v1", "Secret", "auth").await.is_none(), "it was deployed in the operator's namespace");
    let told = project.not_ready("web", "InvalidNamespace").await;
    assert!(told["message"].as_str().unwrap().contains("no `releaseNamespace`"), "{told}");
    assert!(operator.log().contains("nothing is deployed for it"), "the administrator reads it at the start");
    // It has nothing to remove, so it goes.
    project.delete("web").await;
    project.gone("web").await;
}

async fn refused_or_moved(project: &Project, elsewhere: &str) {
    until("the release is refused, or it moved", async || {
        let status = project.status("web").await;
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let is_refused = conditions.iter().any(|it| it["type"] == "Ready" && it["reason"] == "InvalidNamespace");
        let moved = project.find("v1", "Secret", Some(elsewhere), "auth").await.is_some();
        (is_refused || moved).then_some(())
    })
    .await;
}

#[tokio::test]
async fn another_release_namespace_moves_no_release() {
    let project = platform().await;
    let elsewhere = project.another_namespace("next").await;
    let operator = project.run();
    project.apply("web", json!({})).await;
    project.deployed("web").await;
    let told = project.status("web").await["deployedRelease"]["namespace"].clone();
    let secret = async || {
        let secret = project.get("v1", "Secret", "auth").await.unwrap();
        (secret.uid(), secret.data["data"].clone())
    };
    let before = secret().await;
    drop(operator);
    // A status of an earlier version does not say where the release lives: its objects do.
    for forgets in [false, true] {
        project.watch_with(&format!("releaseNamespace: {elsewhere}"));
        if forgets {
            let patch = json!({"status": {"deployedRelease": {"namespace": null}, "conditions": null}});
            project.crs().patch_status("web", &Default::default(), &Patch::Merge(patch)).await.unwrap();
        }
        let operator = project.run();
        refused_or_moved(&project, &elsewhere).await;
        assert!(project.find("v1", "Secret", Some(&elsewhere), "auth").await.is_none(), "the release moved");
        let told = project.not_ready("web", "InvalidNamespace").await;
        let message = told["message"].as_str().unwrap();
        assert!(message.contains(&format!("lives in the namespace {}", project.namespace)), "{message}");
        assert!(message.contains("set it back") && message.contains("delete the custom resource"), "{message}");
        stays(std::time::Duration::from_secs(2), "nothing moves", async || {
            (secret().await, project.find("v1", "Secret", Some(&elsewhere), "auth").await.is_none())
        })
        .await;
        assert_eq!(secret().await, before);
        assert!(project.find("v1", "Secret", Some(&elsewhere), "auth").await.is_none());
        drop(operator);
        project.watch_with("");
        let operator = project.run();
        project.condition("web", "Ready", "True").await;
        assert_eq!(secret().await, before, "set back, it goes on as before");
        drop(operator);
    }
    assert_eq!(told, project.namespace.as_str());
}

#[tokio::test]
async fn another_namespace_of_the_operator_moves_no_release() {
    let project = platform().await;
    let elsewhere = project.another_namespace("ops").await;
    let operator = project.run();
    project.apply("web", json!({})).await;
    project.deployed("web").await;
    let before = project.get("v1", "Secret", "auth").await.unwrap();
    drop(operator);
    // As SECURITY.md says for an operator that moves.
    for secret in project.objects("v1", "Secret", Some(&project.namespace)).list(&Default::default()).await.unwrap() {
        let name = secret.name_any();
        if name == "chartwright-signing-key" || name.starts_with("chartwright-ledger-") {
            let (labels, data) = (json!(secret.labels()), secret.data["data"].clone());
            let metadata = json!({"name": name, "namespace": elsewhere, "labels": labels});
            let copy = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata});
            project.create(with(with(copy, "type", secret.data["type"].clone()), "data", data)).await;
        }
    }
    for fields in [None, Some("")] {
        match fields {
            None => watch_without_namespace(&project),
            Some(fields) => project.watch_with(fields),
        }
        let operator = project.launch().env("POD_NAMESPACE", &elsewhere).start();
        let unmoved = async || {
            let after = project.get("v1", "Secret", "auth").await;
            let is_same = after.is_some_and(|it| it.uid() == before.uid() && it.data["data"] == before.data["data"]);
            (is_same, project.find("v1", "Secret", Some(&elsewhere), "auth").await.is_none())
        };
        match fields {
            None => refused_or_moved(&project, &elsewhere).await,
            Some(_) => drop(project.condition("web", "Ready", "True").await),
        }
        assert_eq!(unmoved().await, (true, true), "the release moved");
        drop(operator);
    }
}

#[tokio::test]
async fn a_release_that_would_move_is_not_deleted_in_the_wrong_place() {
    let project = platform().await;
    let elsewhere = project.another_namespace("next").await;
    let operator = project.run();
    project.apply("web", json!({})).await;
    project.deployed("web").await;
    drop(operator);
    project.watch_with(&format!("releaseNamespace: {elsewhere}"));
    let operator = project.run();
    project.delete("web").await;
    until("it says why it stays", async || {
        let status = project.status("web").await.to_string();
        status.contains("a release does not move").then_some(())
    })
    .await;
    assert!(project.get("v1", "Secret", "auth").await.is_some());
    drop(operator);
    project.watch_with("");
    let _operator = project.run();
    project.gone("web").await;
    until("its objects go", async || project.get("v1", "Secret", "auth").await.is_none().then_some(())).await;
    assert!(project.get("v1", "Secret", "sh.helm.release.v1.web.v1").await.is_none());
}

#[tokio::test]
async fn a_forged_namespace_in_the_status_leads_nowhere() {
    let project = platform().await;
    let elsewhere = project.another_namespace("victim").await;
    let _operator = project.run();
    project.apply("web", json!({})).await;
    project.deployed("web").await;
    let patch = json!({"status": {"deployedRelease": {"namespace": elsewhere}}});
    project.crs().patch_status("web", &Default::default(), &Patch::Merge(patch)).await.unwrap();
    project.apply("web", json!({"a": 1})).await;
    project.deployed("web").await;
    assert_eq!(project.status("web").await["deployedRelease"]["namespace"], project.namespace.as_str());
    assert!(project.find("v1", "Secret", Some(&elsewhere), "auth").await.is_none());
    let records = project.objects("v1", "Secret", Some(&elsewhere)).list(&Default::default()).await.unwrap();
    assert!(records.items.is_empty(), "{records:?}");
    assert!(project.get("v1", "Secret", "auth").await.is_some());
}
