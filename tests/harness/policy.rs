//! Policies of the cluster: one refuses a ConfigMap, but only in earnest, so a dry run does not show it; another changes what is written.

use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{Project, config, until};

/// A policy that replaces a value of objects called `web` or `proof`, and its binding.
///
/// # Arguments
/// `of`: group, version and resource of the objects.
/// `namespace`: where they are. None is everywhere.
pub fn overruling(name: &str, of: [&str; 3], namespace: Option<&str>, [path, value]: [&str; 2]) -> [Value; 2] {
    let admission = |kind: &str, spec: Value| json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    let [group, version, resource] = of.map(|text| json!([text]));
    let rule =
        json!({"apiGroups": group, "apiVersions": version, "operations": ["CREATE", "UPDATE"], "resources": resource});
    let labels = namespace.map_or(json!({}), |name| json!({"kubernetes.io/metadata.name": name}));
    let patch = format!("[JSONPatch{{op: \"replace\", path: \"{path}\", value: {value}}}]");
    let policy = admission(
        "MutatingAdmissionPolicy",
        json!({
            "matchConstraints": {"resourceRules": [rule], "namespaceSelector": {"matchLabels": labels}},
            "matchConditions": [{"name": "name", "expression": "object.metadata.name in ['web', 'proof']"}],
            "failurePolicy": "Fail", "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
        }),
    );
    [policy, admission("MutatingAdmissionPolicyBinding", json!({"policyName": name}))]
}

/// Whether a policy changes this ConfigMap already.
pub async fn is_overruled(configs: &Api<DynamicObject>, name: &str) -> Option<()> {
    let probe: DynamicObject = serde_json::from_value(config(name, "x")).expect("an object");
    let params = PostParams { dry_run: true, ..Default::default() };
    let made = configs.create(&params, &probe).await.expect("a dry run");
    (made.data["data"]["colour"] != "x").then_some(())
}

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
