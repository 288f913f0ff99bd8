//! A policy of the cluster that refuses a ConfigMap, but only in earnest: a dry run does not show it.

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::{Project, config, until};

impl Project {
    /// Refuses every write of the ConfigMap with this name, dry runs excepted.
    pub async fn refuse_writes_of(&self, name: &str) {
        let policy = self.namespace.clone();
        let admission = |kind: &str, spec: Value| json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": policy}, "spec": spec});
        let rule = json!({
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]});
        let validation = json!({
            "expression": format!("request.dryRun || object.metadata.name != '{name}'"),
            "message": "the policy says no",
        });
        let spec = json!({"matchConstraints": {"resourceRules": [rule]}, "validations": [validation]});
        self.create(admission("ValidatingAdmissionPolicy", spec)).await;
        let here = json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}});
        let binding = json!({"policyName": policy, "validationActions": ["Deny"], "matchResources": here});
        self.create(admission("ValidatingAdmissionPolicyBinding", binding)).await;
        let params = PatchParams::apply("test").force();
        until("the policy is in force", async || {
            let probe = self.configs().patch(name, &params, &Patch::Apply(config(name, "probe"))).await;
            if probe.is_ok() {
                self.configs().delete(name, &DeleteParams::default()).await.unwrap();
            }
            probe.is_err().then_some(())
        })
        .await;
    }

    pub async fn allow_writes(&self) {
        for kind in ["ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"] {
            let api = self.objects("admissionregistration.k8s.io/v1", kind, None);
            api.delete(&self.namespace, &DeleteParams::default()).await.unwrap();
        }
    }
}
