//! What a chart makes with its default values and the watch's overrides, found by one render.
//!
//! Scopes are looked up when they are needed, not when the chart is rendered: a kind may come later. Of a kind that nobody knows,
//! nothing is allowed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::core::GroupVersionKind;
use tokio::sync::Mutex;

use super::{Allowance, Home, Outside, Reach, Says, is_run};
use crate::chart::Chart;
use crate::discovery::{Capabilities, kinds_of_crd};
use crate::error::Category;
use crate::manifest::{self, Hook, Rendered};
use crate::object::ObjectId;
use crate::render::{Helm, RenderError, Request};
use crate::values::{Overrides, Placed, Values};

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
    /// Renders a chart as an empty spec would, with stand-ins for generated values. `lookup` finds nothing.
    ///
    /// # Errors
    /// helm could not be run. Whatever the chart itself is the reason of is a [`Trial::Refused`].
    pub async fn of(
        chart: &Chart,
        (generated, overrides): (&[Placed], &Overrides),
        home: &str,
        capabilities: &Capabilities,
        helm: &Helm,
    ) -> Result<Self, RenderError> {
        let values = match Values::with_generated(None, generated, overrides) {
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
            // Too slow is not refused: the machine may have been busy, and whoever needs to know asks again, see `Trials`.
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

    /// What is allowed by it, to releases of this kind. `is_namespaced` tells the scope of a kind, if it is known.
    pub fn allowance(
        &self,
        kind: &GroupVersionKind,
        watched: &[GroupVersionKind],
        is_namespaced: impl Fn(&GroupVersionKind) -> Option<bool>,
    ) -> Allowance {
        let (objects, brought, home) = match self {
            Trial::Made { objects, brought, home } => (objects, brought, home),
            Trial::Refused(why) => return Allowance { reach: Reach::default(), says: Says::Nobody(why.clone()) },
        };
        let scope = |gvk: &GroupVersionKind| {
            let own = || brought.iter().find(|(known, _)| known == gvk).map(|(_, namespaced)| *namespaced);
            is_namespaced(gvk).or_else(own)
        };
        let home = Home { namespace: home, kind, watched };
        let known = objects.iter().filter_map(|id| Some((id, scope(&id.gvk())?)));
        let outside: Vec<Outside> = known.flat_map(|(id, scope)| Outside::of(id.clone(), scope, &home)).collect();
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

/// How long a chart that was too slow is taken to be so. All who ask meanwhile would wait for each other, one render after the
/// other.
const TOO_SLOW: Duration = Duration::from_secs(3 * 60);

/// The last trial, kept as long as a new one would be the same.
#[derive(Default)]
pub struct Trials(Mutex<Option<(Input, Outcome)>>);

enum Outcome {
    Known(Arc<Trial>),
    /// It did not end within this time, and is tried again then.
    TooSlow(Duration, Instant),
}

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
        match last.as_ref().filter(|(known, _)| *known == input) {
            Some((_, Outcome::Known(trial))) => return Ok(trial.clone()),
            Some((_, Outcome::TooSlow(limit, again))) if Instant::now() < *again => {
                return Err(RenderError::TimeLimit(*limit));
            }
            _ => {}
        }
        match render.await {
            Ok(trial) => {
                let trial = Arc::new(trial);
                *last = Some((input, Outcome::Known(trial.clone())));
                Ok(trial)
            }
            Err(error) => {
                // Others fail quickly, and may be cured as quickly.
                if let RenderError::TimeLimit(limit) = error {
                    *last = Some((input, Outcome::TooSlow(limit, Instant::now() + TOO_SLOW)));
                }
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn chart(version: &str) -> Chart {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("Chart.yaml"), format!("name: app\nversion: {version}\n")).unwrap();
        Chart::load(dir.path()).unwrap()
    }

    /// Whether a render was begun to find it out.
    async fn renders(trials: &Trials, chart: &Chart, result: Result<Trial, RenderError>) -> bool {
        let begun = Cell::new(false);
        let is_known = result.is_ok();
        let render = async {
            begun.set(true);
            result
        };
        let found = trials.of(chart, &Capabilities::default(), render).await;
        assert_eq!(found.is_ok(), is_known);
        begun.get()
    }

    fn too_slow() -> Result<Trial, RenderError> {
        Err(RenderError::TimeLimit(Duration::from_secs(60)))
    }

    #[tokio::test]
    async fn a_chart_that_is_too_slow_is_not_tried_again_at_once() {
        let (trials, chart, other) = (Trials::default(), chart("1.0.0"), chart("2.0.0"));
        assert!(renders(&trials, &chart, too_slow()).await);
        assert!(!renders(&trials, &chart, too_slow()).await);
        assert!(renders(&trials, &other, too_slow()).await, "another chart may be quicker");
        if let Some((_, Outcome::TooSlow(_, again))) = trials.0.lock().await.as_mut() {
            *again = Instant::now();
        }
        assert!(renders(&trials, &other, Ok(Trial::Refused("no".into()))).await, "after a while it may be, too");
        assert!(!renders(&trials, &other, Ok(Trial::Refused("no".into()))).await);
    }

    #[tokio::test]
    async fn what_fails_quickly_is_tried_again() {
        let (trials, chart) = (Trials::default(), chart("1.0.0"));
        let full = || Err(RenderError::Temporary(std::io::ErrorKind::StorageFull.into()));
        assert!(renders(&trials, &chart, full()).await);
        assert!(renders(&trials, &chart, full()).await);
    }
}
