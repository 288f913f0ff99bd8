//! With `serviceAccountName`, the API server itself says what a release may do: objects are read and written as an account of the
//! custom resource's namespace. The operator has no rights on them at all here.

use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::harness::forging::as_crds;
use crate::harness::{Launch, Project, annotated, config, control_plane, stays, tool, until};

const RBAC: &str = "rbac.authorization.k8s.io/v1";
const ACCOUNT: &str = "deployer";

/// A rule of a role.
fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

fn bound(role_kind: &str, role: &str, namespace: &str, account: &str) -> Value {
    json!({"apiVersion": RBAC, "kind": format!("{role_kind}Binding"), "metadata": {"name": role},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": account}]})
}

/// A project whose operator is a ServiceAccount in a namespace of its own, with what it needs for itself and no more.
struct Deputised {
    project: Project,
    operators: String,
    token: String,
}

impl Deputised {
    async fn new() -> Self {
        let project = Project::of_objects().await;
        project.watch_with(&format!("serviceAccountName: {ACCOUNT}"));
        let operators = project.another_namespace("operators").await;
        let crs = project.resource.plural.clone();
        let subresources = [format!("{crs}/status"), format!("{crs}/finalizers")];
        let mut impersonate = rule("", &["serviceaccounts"], &["impersonate"]);
        impersonate["resourceNames"] = json!([ACCOUNT]);
        let rules = [
            rule(&project.resource.group, &[&crs], &["get", "list", "watch", "patch", "update"]),
            rule(&project.resource.group, &[&subresources[0], &subresources[1]], &["get", "patch", "update"]),
            rule("", &["secrets"], &["get", "list", "watch", "create", "update", "patch", "delete"]),
            rule("", &["namespaces"], &["get"]),
            rule("events.k8s.io", &["events"], &["create", "patch"]),
            rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["get", "list", "watch"]),
            impersonate,
        ];
        let metadata = json!({"name": operators});
        project.create(json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": metadata, "rules": rules})).await;
        project.create(bound("ClusterRole", &operators, &operators, "operator")).await;
        let accounts: Api<ServiceAccount> = Api::namespaced(project.client.clone(), &operators);
        let account = serde_json::from_value(json!({"metadata": {"name": "operator"}})).unwrap();
        accounts.create(&PostParams::default(), &account).await.unwrap();
        let request = TokenRequest { spec: TokenRequestSpec::default(), ..Default::default() };
        let answer = accounts.create_token_request("operator", &PostParams::default(), &request).await.unwrap();
        Deputised { operators, token: answer.status.unwrap().token, project }
    }

    fn launch(&self) -> Launch<'_> {
        self.project.launch().token(self.token.clone())
    }

    /// Gives the account what it needs for ConfigMaps that a custom resource owns.
    async fn allow(&self) {
        let project = &self.project;
        let rules = [
            rule("", &["configmaps"], &["get", "patch", "create", "delete"]),
            rule(&project.resource.group, &[&format!("{}/finalizers", project.resource.plural)], &["update"]),
        ];
        let metadata = json!({"name": ACCOUNT, "namespace": project.namespace});
        project.create(json!({"apiVersion": RBAC, "kind": "Role", "metadata": metadata, "rules": rules})).await;
        let mut binding = bound("Role", ACCOUNT, &project.namespace, ACCOUNT);
        binding["metadata"]["namespace"] = project.namespace.as_str().into();
        project.create(binding).await;
    }

    async fn forbid(&self) {
        for kind in ["RoleBinding", "Role"] {
            let api = self.project.objects(RBAC, kind, Some(&self.project.namespace));
            api.delete(ACCOUNT, &DeleteParams::default()).await.unwrap();
        }
    }

    /// Whom the API server saw read or write ConfigMaps of this namespace one by one, dry runs included.
    fn hands(&self) -> Vec<String> {
        let log = std::fs::read_to_string(control_plane().audit_log()).unwrap();
        let path = format!("/namespaces/{}/configmaps", self.project.namespace);
        let calls = log.lines().filter(|line| line.contains(&path)).filter_map(|line| {
            let call: Value = serde_json::from_str(line).ok()?;
            let is_of_one = matches!(call["verb"].as_str()?, "get" | "patch" | "create" | "delete");
            let user = call["impersonatedUser"]["username"].as_str().or(call["user"]["username"].as_str())?;
            if let Some(groups) = call["impersonatedUser"]["groups"].as_array().filter(|_| user.ends_with(ACCOUNT)) {
                // Nobody sent them.
                let of_namespace = format!("system:serviceaccounts:{}", self.project.namespace);
                for group in ["system:serviceaccounts", &of_namespace, "system:authenticated"] {
                    assert!(groups.contains(&json!(group)), "{groups:?}");
                }
            }
            is_of_one.then(|| user.to_owned())
        });
        let mut hands: Vec<String> = calls.filter(|user| user.starts_with("system:serviceaccount:")).collect();
        // The cluster's own controllers put in what they need.
        hands.retain(|user| !user.contains(":kube-system:"));
        hands.sort();
        hands.dedup();
        hands
    }
}

#[tokio::test]
async fn the_api_server_says_what_an_account_may_and_the_operator_needs_no_rights_of_its_own() {
    let deputised = Deputised::new().await;
    let project = &deputised.project;
    let operator = deputised.launch().start();
    project.apply("web", json!({"objects": [config("own", "blue")]})).await;
    let refused = project.not_ready("web", "Forbidden").await;
    let message = refused["message"].as_str().unwrap();
    let user = format!("system:serviceaccount:{}:{ACCOUNT}", project.namespace);
    assert!(message.contains(&format!("User {user:?} cannot patch resource \"configmaps\"")), "{message}");
    assert!(project.get("v1", "ConfigMap", "own").await.is_none());

    deputised.allow().await;
    // Nobody touches the custom resource.
    project.deployed("web").await;
    assert_eq!(deputised.hands(), [user]);

    // What the account may not, the release may not, although the watch allows it.
    let wide = json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": project.namespace}, "rules": []});
    project.apply("web", json!({"objects": [config("own", "red"), wide]})).await;
    let refused = project.not_ready("web", "Forbidden").await;
    assert!(refused["message"].as_str().unwrap().contains("clusterroles"), "{refused}");
    let own = project.get("v1", "ConfigMap", "own").await.unwrap();
    assert_eq!(own.data["data"]["colour"], "blue");

    // An account that lost its rights keeps the custom resource from going, and the condition says why.
    deputised.forbid().await;
    project.delete("web").await;
    project
        .told("web", "the deletion waits for the right", |status| {
            let said = status["conditions"].to_string();
            (said.contains("UninstallError") || said.contains("Forbidden")).then_some(())
        })
        .await;
    stays(Duration::from_secs(1), "the custom resource waits", async || {
        project.crs().get_opt("web").await.unwrap().is_some()
    })
    .await;
    deputised.allow().await;
    project.gone("web").await;
    until("the object is gone", async || project.get("v1", "ConfigMap", "own").await.is_none().then_some(())).await;
    drop(operator);
}

/// The operator itself may write Secrets anywhere. What stands in a record is written as the account all the same.
#[tokio::test]
async fn no_record_is_applied_with_the_operators_rights() {
    let deputised = Deputised::new().await;
    let project = &deputised.project;
    deputised.allow().await;
    let _operator = deputised.launch().start();
    for colour in ["blue", "green"] {
        project.apply("web", json!({"objects": [config("own", colour)]})).await;
        project.deployed("web").await;
    }
    let metadata = json!({"name": "far", "namespace": deputised.operators});
    let far = as_crds(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata}));
    project.forge("web", 1, |record| record.manifest = far.into()).await;
    project.annotate("web", "chartwright.dev/rollback-to", "1").await;
    project.not_ready("web", "RecordUnproven").await;
    assert!(project.find("v1", "Secret", Some(&deputised.operators), "far").await.is_none());
}

#[tokio::test]
async fn a_namespace_ends_although_its_account_went_first() {
    let deputised = Deputised::new().await;
    let project = &deputised.project;
    deputised.allow().await;
    // A hook is made, and `lookup` asks, in the name of the account too.
    project.template("asks.yaml", r#"{{ $own := lookup "v1" "ConfigMap" .Release.Namespace "own" }}"#);
    let _operator = deputised.launch().start();
    let hook = annotated(config("hooked", "blue"), json!({"helm.sh/hook": "pre-install"}));
    project.apply("web", json!({"objects": [config("own", "blue"), hook]})).await;
    project.deployed("web").await;
    assert!(project.get("v1", "ConfigMap", "hooked").await.is_some());
    assert_eq!(deputised.hands(), [format!("system:serviceaccount:{}:{ACCOUNT}", project.namespace)]);
    deputised.forbid().await;
    let namespaces = project.objects("v1", "Namespace", None);
    namespaces.delete(&project.namespace, &DeleteParams::default()).await.unwrap();
    until("the namespace is gone", async || {
        namespaces.get_opt(&project.namespace).await.unwrap().is_none().then_some(())
    })
    .await;
    namespaces.delete(&deputised.operators, &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn nobody_acts_as_an_account_while_acting_as_somebody_else() {
    let project = Project::of_objects().await;
    project.watch_with(&format!("serviceAccountName: {ACCOUNT}"));
    let mut operator = project.launch().helm(tool("helm4")).start();
    assert_eq!(operator.exit_code(Duration::from_secs(20)).await, Some(1));
    assert!(operator.log().contains("the kubeconfig acts as"), "{}", operator.log());
}
