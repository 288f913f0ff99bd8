//! What the work costs without an operator: the same renders and the same applies, with the same parallelism.
//!
//! It is measured in the same run, before the operator starts, in namespaces of its own that are emptied afterwards.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use crate::Options;
use crate::board::{CHILDREN, Kind};
use crate::fleet::{self, Fleet};
use crate::stats::{Latency, round, seconds};

/// Begins the names of its namespaces.
const NAMESPACE: &str = "floor-";
const BASELINE_RUNS: usize = 20;
const EMPTYING: Duration = Duration::from_secs(600);

#[derive(Clone, Debug, Default, Serialize)]
pub struct Floor {
    pub helm_parallelism: usize,
    pub api_parallelism: usize,
    pub render_seconds: f64,
    pub apply_seconds: f64,
    pub sum_seconds: f64,
}

/// One edit without an operator: each part alone, one after the other.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Baseline {
    pub helm_template: Latency,
    pub dry_run: Latency,
    pub apply: Latency,
    /// Of the three medians.
    pub sum_ms: f64,
}

/// # Errors
/// helm or the API server refuses.
pub async fn measure(fleet: &Fleet, options: &Options) -> Result<(Floor, Baseline)> {
    fleet.namespaces(NAMESPACE).await?;
    let helm = Helm::new(&options.helm)?;
    let began = Instant::now();
    let renders = (0..options.n).map(|number| {
        let (helm, (namespace, name)) = (&helm, floor_place(fleet, number));
        async move { anyhow::Ok((helm.template(&name, &namespace).await?, namespace)) }
    });
    let texts: Vec<_> = stream::iter(renders).buffer_unordered(options.helm_parallelism).try_collect().await?;
    let render_time = began.elapsed();
    let objects: Vec<Value> = texts.iter().map(|(text, at)| objects(text, at)).collect::<Result<Vec<_>>>()?.concat();
    let began = Instant::now();
    let applies = objects.iter().map(|object| apply(fleet, object, false));
    let () = stream::iter(applies).buffer_unordered(options.api_parallelism).try_collect().await?;
    let apply_time = began.elapsed();
    let baseline = baseline(fleet, &helm).await?;
    empty(fleet, options.namespaces).await?;
    let floor = Floor {
        helm_parallelism: options.helm_parallelism,
        api_parallelism: options.api_parallelism,
        render_seconds: seconds(render_time),
        apply_seconds: seconds(apply_time),
        sum_seconds: seconds(render_time + apply_time),
    };
    Ok((floor, baseline))
}

async fn baseline(fleet: &Fleet, helm: &Helm<'_>) -> Result<Baseline> {
    let (namespace, name) = floor_place(fleet, 0);
    let (mut renders, mut dry_runs, mut applies) = (vec![], vec![], vec![]);
    let text = helm.template(&name, &namespace).await?;
    let deployment = objects(&text, &namespace)?.into_iter().find(|object| object["kind"] == "Deployment");
    let mut deployment = deployment.context("the chart has no Deployment")?;
    for run in 0..BASELINE_RUNS {
        deployment["spec"]["template"]["spec"]["containers"][0]["image"] = json!(format!("nginx:baseline-{run}"));
        let began = Instant::now();
        helm.template(&name, &namespace).await?;
        renders.push(Some(began.elapsed()));
        let began = Instant::now();
        apply(fleet, &deployment, true).await?;
        dry_runs.push(Some(began.elapsed()));
        let began = Instant::now();
        apply(fleet, &deployment, false).await?;
        applies.push(Some(began.elapsed()));
    }
    let [helm_template, dry_run, apply] = [renders, dry_runs, applies].map(|samples| Latency::of(&samples));
    let sum_ms = round(helm_template.median_ms + dry_run.median_ms + apply.median_ms);
    Ok(Baseline { helm_template, dry_run, apply, sum_ms })
}

async fn apply(fleet: &Fleet, object: &Value, dry_run: bool) -> Result<()> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let kind = CHILDREN.into_iter().find(|kind| kind.resource().kind == text("/kind"));
    let kind = kind.with_context(|| format!("the chart renders a {}", text("/kind")))?;
    let params = PatchParams { dry_run, ..PatchParams::apply("helm").force() };
    let api = fleet.api(kind, text("/metadata/namespace"));
    let _: DynamicObject = api.patch(text("/metadata/name"), &params, &Patch::Apply(object)).await?;
    Ok(())
}

/// Removes all objects again and waits until they are gone.
async fn empty(fleet: &Fleet, namespaces: usize) -> Result<()> {
    let deadline = Instant::now() + EMPTYING;
    let selector = ListParams::default().labels("app.kubernetes.io/name=web");
    for kind in CHILDREN {
        for number in 0..namespaces {
            let api = fleet.api(kind, &format!("{NAMESPACE}{number}"));
            api.delete_collection(&DeleteParams::background(), &selector).await?;
            while !api.list_metadata(&selector.clone().limit(1)).await?.items.is_empty() {
                if Instant::now() > deadline {
                    bail!("objects of the kind {kind:?} are still there after {EMPTYING:?}");
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    quiet(fleet, namespaces).await
}

/// ReplicaSets go after their Deployments; that must not be part of the next phase.
async fn quiet(fleet: &Fleet, namespaces: usize) -> Result<()> {
    let deadline = Instant::now() + EMPTYING;
    let mut resource = Kind::Deployment.resource();
    (resource.kind, resource.plural) = ("ReplicaSet".into(), "replicasets".into());
    for number in 0..namespaces {
        let namespace = format!("{NAMESPACE}{number}");
        let api: kube::Api<DynamicObject> = kube::Api::namespaced_with(fleet.client.clone(), &namespace, &resource);
        while !api.list_metadata(&ListParams::default().limit(1)).await?.items.is_empty() {
            if Instant::now() > deadline {
                bail!("ReplicaSets are still there after {EMPTYING:?}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(())
}

fn floor_place(fleet: &Fleet, number: usize) -> (String, String) {
    let (namespace, name) = fleet.app(number);
    (namespace.replace(fleet::NAMESPACE, NAMESPACE), name)
}

fn objects(text: &str, namespace: &str) -> Result<Vec<Value>> {
    let documents = serde_yaml::Deserializer::from_str(text).map(Value::deserialize);
    let mut objects: Vec<Value> = documents.collect::<Result<_, _>>().context("helm prints no YAML")?;
    objects.retain(|object| !object.is_null());
    for object in &mut objects {
        object["metadata"]["namespace"] = namespace.into();
    }
    Ok(objects)
}

/// helm as the operator runs it: nothing in its environment, directories of its own.
struct Helm<'a> {
    program: &'a Path,
    home: TempDir,
}

impl<'a> Helm<'a> {
    fn new(program: &'a Path) -> Result<Self> {
        let home = tempfile::tempdir()?;
        std::fs::write(home.path().join("values.json"), fleet::spec().to_string())?;
        Ok(Helm { program, home })
    }

    async fn template(&self, release: &str, namespace: &str) -> Result<String> {
        let home = self.home.path();
        let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("chart");
        let output = Command::new(self.program)
            .args(["template", release])
            .arg(chart)
            .args(["-n", namespace, "--include-crds", "-f", "values.json"])
            .env_clear()
            .env("HOME", home)
            .env("HELM_CACHE_HOME", home.join("cache"))
            .env("HELM_CONFIG_HOME", home.join("config"))
            .env("HELM_DATA_HOME", home.join("data"))
            .env("HELM_NO_PLUGINS", "1")
            .current_dir(home)
            .stdin(Stdio::null())
            .output()
            .await
            .context("cannot run helm")?;
        if !output.status.success() {
            bail!("helm refused the chart: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}
