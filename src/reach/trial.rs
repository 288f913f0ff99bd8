//! What a chart makes with its default values and the watch's overrides, found by one render.
//!
//! Scopes are looked up when they are needed, not when the chart is rendered: a kind may come later. Of a kind that nobody knows,
//! nothing is allowed.

use std::sync::Arc;

use kube::core::GroupVersionKind;
use tokio::sync::Mutex;

use super::{Allowance, Outside, Reach, Says, is_run};
use crate::chart::Chart;
use crate::discovery::{Capabilities, kinds_of_crd};
use crate::error::Category;
use crate::manifest::{self, Hook, Rendered};
use crate::object::ObjectId;
use crate::render::{Helm, RenderError, Request};
use crate::values::{Overrides, Values};

/// Stands for the namespace of a release that is not there. No chart's default values name it.
pub const SOME_NAMESPACE: &str = "namespace-of-the-release";

/// What came of the render.
#[derive(Clone, Debug, PartialEq)]
pub enum Trial {
    Made {
        /// Objects and hooks, as the chart names them.
        objects: Vec<ObjectId>,
        /// Kinds that the chart's CRDs define, and whether they have a namespace.
        brought: Vec<(GroupVersionKind, bool)>,
        /// The namespace that it was rendered for.
        home: String,
    },
    /// The chart does not render so.
    Refused(String),
}

impl Trial {
    /// Renders a chart as an empty spec would. `lookup` finds nothing.
    ///
    /// # Errors
    /// helm could not be run. Whatever the chart itself is the reason of is a [`Trial::Refused`].
    pub async fn of(
        chart: &Chart,
        overrides: &Overrides,
        home: &str,
        capabilities: &Capabilities,
        helm: &Helm,
    ) -> Result<Self, RenderError> {
        let values = match Values::new(None, overrides) {
            Ok(values) => values,
            Err(error) => return Ok(Trial::Refused(error.to_string())),
        };
        let request = Request {
            chart,
            release: "release-name",
            namespace: home,
            values: &values,
            capabilities,
            is_upgrade: false,
            revision: 1,
            is_patient: true,
        };
        match helm.template(&request).await {
            Ok(text) => Ok(manifest::read_aside(text)
                .await
                .map_or_else(|error| Trial::Refused(error.to_string()), |it| Trial::made(&it, home))),
            Err(error) if error.category() != Category::HelmFailed => Ok(Trial::Refused(error.to_string())),
            // Too slow is not refused: the machine may have been busy, and whoever needs to know asks again.
            Err(error) => Err(error),
        }
    }

    pub fn made(rendered: &Rendered, home: &str) -> Self {
        let hooks = rendered.hooks.iter().filter(|hook| is_run(&hook.events)).flat_map(Hook::objects);
        let objects = rendered.objects.iter().chain(hooks).map(|object| object.id()).collect();
        let crds = rendered.objects.iter().chain(&rendered.crds);
        let crds = crds.filter(|object| object.kind() == "CustomResourceDefinition");
        let brought = crds.flat_map(|crd| kinds_of_crd(crd.value()));
        let brought = brought.map(|(gvk, kind)| (gvk, kind.namespaced)).collect();
        Trial::Made { objects, brought, home: home.to_owned() }
    }

    /// What is allowed by it. `is_namespaced` tells the scope of a kind, if it is known.
    pub fn allowance(&self, is_namespaced: impl Fn(&GroupVersionKind) -> Option<bool>) -> Allowance {
        let (objects, brought, home) = match self {
            Trial::Made { objects, brought, home } => (objects, brought, home),
            Trial::Refused(why) => return Allowance { reach: Reach::default(), says: Says::Nobody(why.clone()) },
        };
        let scope = |gvk: &GroupVersionKind| {
            let own = || brought.iter().find(|(known, _)| known == gvk).map(|(_, namespaced)| *namespaced);
            is_namespaced(gvk).or_else(own)
        };
        let outside = objects.iter().filter_map(|id| Outside::of(id.clone(), scope(&id.gvk())?, home));
        let outside: Vec<Outside> = outside.collect();
        Allowance { reach: outside.iter().map(|it| it.beyond).collect(), says: Says::Defaults(outside) }
    }
}

/// What a trial depends on, within one watch.
#[derive(PartialEq)]
struct Input {
    chart: String,
    /// Where the chart asks what the cluster offers: kinds come and go.
    capabilities: Option<Capabilities>,
}

/// The last trial, kept as long as a new one would be the same.
#[derive(Default)]
pub struct Trials(Mutex<Option<(Input, Arc<Trial>)>>);

impl Trials {
    /// Of several who ask at once, one renders.
    pub async fn of(
        &self,
        chart: &Chart,
        capabilities: &Capabilities,
        render: impl Future<Output = Result<Trial, RenderError>>,
    ) -> Result<Arc<Trial>, RenderError> {
        let asks = chart.asks.api_versions || chart.asks.kube_version;
        let input = Input { chart: chart.digest.clone(), capabilities: asks.then(|| capabilities.clone()) };
        let mut last = self.0.lock().await;
        if let Some((_, trial)) = last.as_ref().filter(|(known, _)| *known == input) {
            return Ok(trial.clone());
        }
        let trial = Arc::new(render.await?);
        *last = Some((input, trial.clone()));
        Ok(trial)
    }
}
