//! Objects that the API server refuses until another object of the same release is there.

use serde_json::json;

use crate::harness::{Project, config};

#[tokio::test]
async fn a_role_and_its_binding_of_one_name_install_without_an_administrators_rights() {
    let project = Project::of_objects().await;
    let api_group = "rbac.authorization.k8s.io";
    // What the operator may do, the Role among it: nobody can give away more than they have.
    let rules = json!([
        {"apiGroups": ["", "events.k8s.io", project.resource.group], "resources": ["*"], "verbs": ["*"]},
        // Neither bind nor escalate: the API server then wants to see the Role that is bound.
        {"apiGroups": [api_group], "resources": ["roles", "rolebindings"],
         "verbs": ["get", "list", "watch", "create", "patch", "delete"]},
    ]);
    let namespace = project.namespace.clone();
    let name = format!("limited-{namespace}");
    let user = json!([{"kind": "User", "apiGroup": api_group, "name": project.user()}]);
    let role_kind = format!("{api_group}/v1");
    project
        .create(json!({"apiVersion": role_kind, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}))
        .await;
    project
        .create(
            json!({"apiVersion": role_kind, "kind": "ClusterRoleBinding", "metadata": {"name": name}, "subjects": user,
            "roleRef": {"apiGroup": api_group, "kind": "ClusterRole", "name": name}}),
        )
        .await;
    let _operator = project.launch().limited().start();
    let role = json!({"apiVersion": role_kind, "kind": "Role", "metadata": {"name": "web"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]});
    let binding = json!({"apiVersion": role_kind, "kind": "RoleBinding", "metadata": {"name": "web"},
        "roleRef": {"apiGroup": api_group, "kind": "Role", "name": "web"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": namespace}]});
    project.apply("web", json!({"objects": [config("web", "blue"), role, binding]})).await;
    project.condition("web", "Ready", "True").await;
}
