//! CRDs that come and go.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, PostParams};
use serde_json::json;

use super::{Scope, until};

/// Deletes a CRD and waits until it is gone.
pub async fn uninstall_crd(client: &Client, resource: &ApiResource) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = format!("{}.{}", resource.plural, resource.group);
    api.delete(&name, &DeleteParams::default()).await.expect("the CRD is deleted");
    until("the CRD is gone", async || {
        api.get_opt(&name).await.expect("the API server answers").is_none().then_some(())
    })
    .await;
}

pub async fn install_crd(client: &Client, resource: &ApiResource, scope: Scope) {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let crd = json!({
        "metadata": {"name": format!("{}.{}", resource.plural, resource.group)},
        "spec": {
            "group": resource.group,
            "scope": if scope == Scope::Cluster { "Cluster" } else { "Namespaced" },
            "names": {"kind": resource.kind, "plural": resource.plural},
            "versions": [{
                "name": resource.version, "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
            }],
        },
    });
    let crd: CustomResourceDefinition = serde_json::from_value(crd).expect("a CRD");
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = crd.metadata.name.clone().expect("a name");
    api.create(&PostParams::default(), &crd).await.expect("the CRD is created");
    until("the CRD is established", async || {
        let conditions = api.get(&name).await.expect("the CRD exists").status?.conditions?;
        conditions.iter().any(|condition| condition.type_ == "Established" && condition.status == "True").then_some(())
    })
    .await;
}
