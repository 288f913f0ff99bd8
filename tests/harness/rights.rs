//! An operator with the rights of its generated role, and nothing else.

use std::path::Path;

use kube::api::ApiResource;
use serde_json::{Value, json};

use super::command_line::{Said, said};
use super::{Project, Scope, chartwright, tool};

const RBAC: &str = "rbac.authorization.k8s.io";
const RBAC_V1: &str = "rbac.authorization.k8s.io/v1";

/// Writes the role of the project in a directory, without a cluster.
pub fn generate_rbac_in(dir: &Path, helm: &str, more: &[&str]) -> Said {
    let mut command = chartwright();
    command.args(["generate", "rbac"]).args(more).current_dir(dir).env("CHARTWRIGHT_HELM", tool(helm));
    said(command)
}

impl Project {
    /// Writes the project's role from its charts.
    pub fn generate_rbac(&self, helm: &str, more: &[&str]) -> Said {
        generate_rbac_in(self.dir(), helm, more)
    }

    /// The role as it was written.
    pub fn role(&self) -> String {
        std::fs::read_to_string(self.dir().join("config/rbac/role.yaml")).expect("a role")
    }

    /// Gives a user what the role says, and nothing else.
    pub async fn bind_role(&self, user: &str) {
        for mut role in chartwright::yaml::documents(&self.role()).expect("YAML") {
            let (name, kind) = (self.namespace.as_str(), role["kind"].as_str().expect("a kind").to_owned());
            let mut metadata = json!({"name": name});
            if kind == "Role" {
                metadata["namespace"] = name.into();
            }
            role["metadata"] = metadata.clone();
            self.create(role).await;
            let subjects = json!([{"kind": "User", "apiGroup": RBAC, "name": user}]);
            let binding = json!({"apiVersion": RBAC_V1, "kind": format!("{kind}Binding"), "metadata": metadata,
                "subjects": subjects, "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name}});
            self.create(binding).await;
        }
    }

    /// Lets a user keep the operator's key and ledger in the project's namespace.
    pub async fn bind_secrets(&self, user: &str) {
        let verbs = ["get", "list", "watch", "create", "patch", "delete"];
        let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": verbs}]);
        let metadata = json!({"name": format!("secrets-of-{user}"), "namespace": self.namespace});
        self.create(json!({"apiVersion": RBAC_V1, "kind": "Role", "metadata": metadata, "rules": rules})).await;
        let subjects = json!([{"kind": "User", "apiGroup": RBAC, "name": user}]);
        let reference = json!({"apiGroup": RBAC, "kind": "Role", "name": metadata["name"]});
        self.create(json!({"apiVersion": RBAC_V1, "kind": "RoleBinding", "metadata": metadata, "subjects": subjects,
            "roleRef": reference}))
            .await;
    }

    /// What `generate rbac` reads of a kind: its CRD and a sample.
    pub fn files_of_kind(&self, resource: &ApiResource, scope: Scope, sample: &Value) {
        let scope = if scope == Scope::Cluster { "Cluster" } else { "Namespaced" };
        let names = json!({"kind": resource.kind, "plural": resource.plural});
        let spec = json!({"group": resource.group, "scope": scope, "names": names});
        let definition = json!({"kind": "CustomResourceDefinition", "spec": spec});
        self.file(&format!("config/crd/bases/{}.yaml", resource.plural), &definition.to_string());
        self.file(&format!("config/samples/{}.yaml", resource.plural), &sample.to_string());
    }
}
