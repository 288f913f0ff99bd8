//! The control planes of both sides, and clean ground on them.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, Config};
use lab::ControlPlane;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::normal::text;
use crate::snapshot::{Ground, everything};

pub const GROUP: &str = "fidelity.chartwright.dev";
pub const KIND: &str = "Proof";

/// How long what was left behind may take to go.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Plane {
    pub client: Client,
    control_plane: ControlPlane,
}

/// One for helm and one for Chartwright.
pub struct Pair {
    pub helm: Plane,
    pub ours: Plane,
    proofs: AtomicU32,
}

impl Pair {
    /// Starts both, at the same time.
    ///
    /// # Errors
    /// A control plane does not come up.
    pub async fn start() -> Result<Self> {
        let other = std::thread::spawn(ControlPlane::start);
        let helm = ControlPlane::start();
        let ours = other.join().map_err(|_| anyhow::anyhow!("a control plane did not start"))?;
        let (helm, ours) = tokio::try_join!(Plane::new(helm?), Plane::new(ours?))?;
        Ok(Pair { helm, ours, proofs: AtomicU32::new(1) })
    }

    /// A namespace that neither side had before.
    pub fn next_namespace(&self) -> String {
        format!("proof-{}", self.proofs.fetch_add(1, Ordering::Relaxed))
    }
}

impl Plane {
    async fn new(control_plane: ControlPlane) -> Result<Self> {
        let kubeconfig = kube::config::Kubeconfig::read_from(control_plane.kubeconfig())?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await?;
        let plane = Plane { client: Client::try_from(config)?, control_plane };
        // Both sides have it, so that both list the same kinds in their capabilities.
        plane.install_kind().await?;
        Ok(plane)
    }

    async fn install_kind(&self) -> Result<()> {
        let crd: CustomResourceDefinition = serde_yaml::from_str(include_str!("../crd.yaml"))?;
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let name = crd.metadata.name.clone().unwrap_or_default();
        api.patch(&name, &PatchParams::apply("fidelity"), &Patch::Apply(&crd))
            .await
            .context("cannot install the CRD")?;
        let known = await_condition(api, &name, conditions::is_crd_established());
        tokio::time::timeout(PATIENCE, known).await.context("the CRD is not established")??;
        Ok(())
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.control_plane.kubeconfig()
    }

    pub async fn create_namespace(&self, name: &str) -> Result<()> {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let namespace: DynamicObject = serde_json::from_value(body)?;
        self.api("v1", "Namespace", None).create(&Default::default(), &namespace).await?;
        // What a namespace needs before pods can be made in it.
        let accounts = self.api("v1", "ServiceAccount", Some(name));
        let deadline = Instant::now() + PATIENCE;
        while accounts.get_opt("default").await?.is_none() {
            if Instant::now() > deadline {
                bail!("the namespace {name} does not get its ServiceAccount");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    pub async fn apply_file(&self, file: &Path, namespace: &str) -> Result<()> {
        self.kubectl(&["apply", "--server-side", "--namespace", namespace, "--filename"], file).await.map(|_| ())
    }

    /// What kubectl makes of a file that a person wrote: YAML as Kubernetes reads it.
    pub async fn read_as_kubectl(&self, file: &Path) -> Result<Value> {
        let text = self.kubectl(&["create", "--dry-run=client", "--output=json", "--filename"], file).await?;
        serde_json::from_str(&text).context("kubectl prints no JSON")
    }

    async fn kubectl(&self, arguments: &[&str], file: &Path) -> Result<String> {
        let mut command = Command::new(lab::tools_dir().join("kubectl"));
        // Its cache goes with the control plane.
        command.env_clear().env("KUBECONFIG", self.kubeconfig()).env("HOME", self.control_plane.dir());
        command.args(arguments).arg(file).stdin(Stdio::null());
        let output = command.kill_on_drop(true).output().await.context("kubectl does not start: run `make tools`")?;
        if !output.status.success() {
            bail!("kubectl refuses {}: {}", file.display(), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    pub fn api(&self, api_version: &str, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    /// Removes what a proof left. The namespace is not waited for: nobody looks into one that is going.
    ///
    /// # Errors
    /// Something does not go.
    pub async fn clean(&self, ground: &Ground, namespace: &str) -> Result<()> {
        self.api(&format!("{GROUP}/v1"), KIND, Some(namespace))
            .delete_collection(&DeleteParams::default(), &Default::default())
            .await?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = everything(&self.client, ground).await?;
            let is_ours = |object: &&Value| {
                let inside = text(object, "/metadata/namespace") == namespace;
                let itself = object["kind"] == "Namespace" && text(object, "/metadata/name") == namespace;
                !inside && !itself && !ground.has(object)
            };
            // What another left object owns goes with it.
            let left: Vec<&Value> = left.iter().filter(is_ours).collect();
            if left.is_empty() {
                break;
            }
            if Instant::now() > deadline {
                let names: Vec<String> = left.iter().map(|it| crate::object::Id::of(it).to_string()).collect();
                bail!("it does not go: {}", names.join(", "));
            }
            for object in left {
                self.remove(object).await?;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.api("v1", "Namespace", None).delete(namespace, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Deletes an object, and takes off what would hold it: its controller may be gone by now.
    async fn remove(&self, object: &Value) -> Result<()> {
        let (version, kind, name) =
            (text(object, "/apiVersion"), text(object, "/kind"), text(object, "/metadata/name"));
        let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str);
        let api = self.api(version, kind, namespace);
        let is_gone =
            |error: &kube::Error| matches!(error, kube::Error::Api(status) if [404, 405, 409].contains(&status.code));
        if object.pointer("/metadata/deletionTimestamp").is_some()
            && kind != "CustomResourceDefinition"
            && kind != "Namespace"
        {
            let patch = json!({"metadata": {"finalizers": null}});
            let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
            return patched.map(|_| ()).or_else(|error| if is_gone(&error) { Ok(()) } else { Err(error.into()) });
        }
        let deleted = api.delete(name, &DeleteParams::background()).await;
        deleted.map(|_| ()).or_else(|error| if is_gone(&error) { Ok(()) } else { Err(error.into()) })
    }
}
