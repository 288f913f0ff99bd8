//! The custom resources of a run: their names and places, and what a person does to them.

use std::time::Duration;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::board::{Kind, Place};

/// Begins the names of the namespaces of custom resources.
pub const NAMESPACE: &str = "bench-";
/// Calls at once, when many custom resources are made or deleted.
const AT_ONCE: usize = 32;
/// Those that the figures are about, and those that are only there to keep the operator busy.
const PREFIXES: [&str; 2] = ["app-", "load-"];

pub struct Fleet {
    pub client: Client,
    namespaces: usize,
}

/// Whether helm is called for a custom resource, as told by the release's name.
pub fn is_release(name: &str) -> bool {
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The spec that every custom resource starts with.
pub fn spec() -> Value {
    json!({"image": {"tag": "first"}, "podAnnotations": {"team": "bench"}})
}

/// A client without limits of its own, under a name of its own.
///
/// # Errors
/// The kubeconfig is of no use.
pub async fn client(kubeconfig: &std::path::Path) -> Result<Client> {
    let kubeconfig = kube::config::Kubeconfig::read_from(kubeconfig)?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await?;
    config.headers.push(("user-agent".parse()?, "chartwright-bench".parse()?));
    Ok(Client::try_from(config)?)
}

impl Fleet {
    pub fn new(client: Client, namespaces: usize) -> Self {
        Fleet { client, namespaces: namespaces.max(1) }
    }

    /// Where the custom resource of a number is. They take turns among the namespaces.
    pub fn place(&self, prefix: &str, number: usize) -> Place {
        (format!("{NAMESPACE}{}", number % self.namespaces), format!("{prefix}{number:05}"))
    }

    pub fn app(&self, number: usize) -> Place {
        self.place(PREFIXES[0], number)
    }

    pub fn load(&self, number: usize) -> Place {
        self.place(PREFIXES[1], number)
    }

    /// Its Service, its Deployment and so on, which have one name.
    pub fn object(place: &Place) -> Place {
        (place.0.clone(), format!("{}-web", place.1))
    }

    pub fn api(&self, kind: Kind, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &kind.resource())
    }

    /// The kind, and the namespaces with these names.
    ///
    /// # Errors
    /// The API server refuses, or does not get to know the kind.
    pub async fn prepare(&self) -> Result<()> {
        let crd: CustomResourceDefinition = serde_yaml::from_str(include_str!("../crd.yaml"))?;
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let name = crd.metadata.name.clone().unwrap_or_default();
        api.patch(&name, &PatchParams::apply("bench"), &Patch::Apply(&crd)).await.context("cannot install the CRD")?;
        let known = await_condition(api, &name, conditions::is_crd_established());
        tokio::time::timeout(Duration::from_secs(60), known).await.context("the CRD is not established")??;
        self.namespaces(NAMESPACE).await
    }

    /// # Errors
    /// The API server refuses.
    pub async fn namespaces(&self, prefix: &str) -> Result<()> {
        let api: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(self.client.clone());
        for number in 0..self.namespaces {
            let name = format!("{prefix}{number}");
            let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            api.patch(&name, &PatchParams::apply("bench"), &Patch::Apply(body)).await?;
        }
        Ok(())
    }

    /// Creates custom resources, many at once.
    ///
    /// # Errors
    /// The API server refuses one.
    pub async fn create(&self, places: impl Iterator<Item = Place>) -> Result<()> {
        let created = places.map(|(namespace, name)| async move {
            let body = json!({
                "apiVersion": "bench.chartwright.dev/v1",
                "kind": "Web",
                "metadata": {"namespace": namespace, "name": name},
                "spec": spec(),
            });
            let web: DynamicObject = serde_json::from_value(body)?;
            self.api(Kind::Web, &namespace).create(&Default::default(), &web).await?;
            anyhow::Ok(())
        });
        stream::iter(created).buffer_unordered(AT_ONCE).try_collect().await
    }

    /// Deletes custom resources, many at once, without waiting for their end.
    ///
    /// # Errors
    /// The API server refuses one.
    pub async fn delete(&self, places: impl Iterator<Item = Place>) -> Result<()> {
        let deleted = places.map(|(namespace, name)| async move {
            self.api(Kind::Web, &namespace).delete(&name, &DeleteParams::default()).await?;
            anyhow::Ok(())
        });
        stream::iter(deleted).buffer_unordered(AT_ONCE).try_collect().await
    }

    /// Changes an object as `kubectl patch --type merge` does.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn merge(&self, kind: Kind, place: &Place, patch: &Value) -> Result<DynamicObject> {
        let api = self.api(kind, &place.0);
        Ok(api.patch(&place.1, &PatchParams::default(), &Patch::Merge(patch)).await?)
    }
}
