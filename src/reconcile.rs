//! The story of one custom resource: from its spec to objects in the cluster.

use std::sync::Arc;

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Client, Resource, ResourceExt};
use serde_json::json;

use crate::apply::{self, ApplyError};
use crate::children::Children;
use crate::discovery::{Cache, DiscoveryError, Kind};
use crate::error::{Category, of_kube, sentence};
use crate::manifest::{self, ManifestError, Rendered};
use crate::plan::{Owner, PlanError, Target, plan};
use crate::render::{Helm, RenderError, Request};
use crate::status::{self, Outcome};
use crate::telemetry::events::Events;
use crate::values::{Overrides, Values, ValuesError};
use crate::watches::Watch;

/// The name under which the custom resource itself is written.
pub const STATUS_MANAGER: &str = "chartwright";

/// What a reconcile needs besides the custom resource.
pub struct Context {
    pub client: Client,
    pub helm: Helm,
    pub kinds: Arc<Cache>,
    pub watch: Watch,
    /// The custom resource's own kind.
    pub primary: Kind,
    /// Where the releases of cluster-scoped resources live.
    pub default_namespace: String,
    pub children: Children,
    pub events: Events,
}

#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    #[error(transparent)]
    Values(#[from] ValuesError),
    #[error(transparent)]
    Render(#[from] RenderError),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error("cannot write the status: {}", sentence(.0))]
    Status(kube::Error),
}

impl ReconcileError {
    pub fn category(&self) -> Category {
        match self {
            ReconcileError::Values(_) => Category::InvalidValues,
            ReconcileError::Render(error) => error.category(),
            ReconcileError::Manifest(error) => error.category(),
            ReconcileError::Discovery(error) => error.category(),
            ReconcileError::Plan(error) => error.category(),
            ReconcileError::Apply(error) => error.category(),
            ReconcileError::Status(error) => of_kube(error),
        }
    }
}

/// Brings one custom resource's objects to what its spec says, and reports how it went.
pub async fn reconcile(cr: &DynamicObject, context: &Context) -> Result<(), ReconcileError> {
    if cr.metadata.deletion_timestamp.is_some() {
        // Owner references let the garbage collector remove the objects.
        return Ok(());
    }
    let deployed = status::is_deployed(cr.data.get("status"));
    let result = deploy(cr, context, deployed).await;
    let release = cr.name_any();
    match &result {
        Ok(()) => report(cr, context, &Outcome::Deployed { release: &release, upgraded: deployed }).await?,
        Err(error) => {
            let message = error.to_string();
            let category = error.category();
            context.events.warning(cr, context, category.as_str(), &message).await;
            report(cr, context, &Outcome::Failed { category, message: &message, upgrading: deployed }).await?;
        }
    }
    result
}

async fn deploy(cr: &DynamicObject, context: &Context, is_upgrade: bool) -> Result<(), ReconcileError> {
    let values = Values::new(cr.data.get("spec"), &Overrides::default())?;
    let rendered = render(cr, context, &values, is_upgrade).await?;
    warn_of_hooks(cr, context, &rendered).await;
    let wanted: Vec<GroupVersionKind> = rendered.objects.iter().chain(&rendered.crds).map(|o| o.gvk()).collect();
    let kinds = context.kinds.kinds_with(&wanted).await?;
    let owner = owner_of(cr, context);
    let release = cr.name_any();
    let namespace = release_namespace(cr, context);
    let target = Target { release: &release, namespace: &namespace, chart: &context.watch.chart.name, owner: &owner };
    let plan = plan(rendered, &target, &kinds)?;
    if context.watch.watch_dependents {
        context.children.watch(plan.apply.iter().map(|planned| &planned.kind));
    }
    apply::apply(&plan, &context.client).await?;
    tracing::info!(kind = context.watch.gvk.kind, namespace, name = release, objects = plan.apply.len(), "applied");
    Ok(())
}

async fn render(
    cr: &DynamicObject,
    context: &Context,
    values: &Values,
    is_upgrade: bool,
) -> Result<Rendered, ReconcileError> {
    let kinds = context.kinds.kinds();
    let request = Request {
        chart: &context.watch.chart,
        release: &cr.name_any(),
        namespace: &release_namespace(cr, context),
        values,
        capabilities: &kinds.capabilities,
        is_upgrade,
    };
    let text = context.helm.template(&request).await?;
    Ok(manifest::read(&text)?)
}

/// Hooks are not run yet, and must not be applied as if they were ordinary objects. Whoever relies on them has to know.
async fn warn_of_hooks(cr: &DynamicObject, context: &Context, rendered: &Rendered) {
    let hooks = rendered.hooks.iter().filter(|hook| hook.is_lifecycle());
    let names: Vec<String> = hooks.map(|hook| format!("{} ({})", hook.object.id(), hook.events.join(", "))).collect();
    if !names.is_empty() {
        let message = format!("This version does not run the chart's hooks: {}", names.join("; "));
        context.events.warning(cr, context, "HooksNotRun", &message).await;
    }
}

/// Writes the status if it says something new.
async fn report(cr: &DynamicObject, context: &Context, outcome: &Outcome<'_>) -> Result<(), ReconcileError> {
    let old = cr.data.get("status");
    let now = k8s_openapi::jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let new = status::next(old, outcome, cr.metadata.generation.unwrap_or_default(), &now);
    if old == Some(&new) {
        return Ok(());
    }
    let gvk = &context.watch.gvk;
    let patch = json!({
        "apiVersion": gvk.api_version(),
        "kind": gvk.kind,
        "metadata": {"name": cr.name_any()},
        "status": new,
    });
    let params = PatchParams::apply(STATUS_MANAGER).force();
    let written = api(cr, context).patch_status(&cr.name_any(), &params, &Patch::Apply(patch)).await;
    match written {
        // It was deleted in the meantime.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        written => written.map(|_| ()).map_err(ReconcileError::Status),
    }
}

fn api(cr: &DynamicObject, context: &Context) -> Api<DynamicObject> {
    match cr.namespace() {
        Some(namespace) => Api::namespaced_with(context.client.clone(), &namespace, &context.primary.resource),
        None => Api::all_with(context.client.clone(), &context.primary.resource),
    }
}

fn owner_of(cr: &DynamicObject, context: &Context) -> Owner {
    Owner {
        gvk: context.watch.gvk.clone(),
        namespace: cr.namespace(),
        name: cr.name_any(),
        uid: cr.meta().uid.clone().unwrap_or_default(),
    }
}

fn release_namespace(cr: &DynamicObject, context: &Context) -> String {
    cr.namespace().unwrap_or_else(|| context.default_namespace.clone())
}
