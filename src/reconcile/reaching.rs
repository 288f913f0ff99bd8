//! What a release may write outside of its namespace, asked before it is written.

use super::{Context, ReconcileError, Subject};
use crate::discovery::Kinds;
use crate::plan::Plan;
use crate::reach::trial::SOME_NAMESPACE;
use crate::reach::{self, Allowance, Outside, ReachError, Says, Trial};
use crate::release::HookRecord;
use crate::render::RenderError;

impl Context {
    /// What the watch allows. Where it does not say it, the chart is rendered once.
    pub async fn allowance(&self) -> Result<Allowance, RenderError> {
        if let Some(reach) = self.watch.allow {
            return Ok(Allowance { reach, says: Says::Watch });
        }
        let (chart, kinds) = (self.chart.current(), self.kinds.kinds());
        let home = match self.primary.namespaced {
            true => SOME_NAMESPACE,
            false => self.watch.release_namespace.as_deref().unwrap_or(&self.default_namespace),
        };
        let render = Trial::of(&chart, &self.watch.overrides, home, &kinds.capabilities, &self.helm);
        let trial = self.trials.of(&chart, &kinds.capabilities, self.lanes.aside(render)).await?;
        Ok(trial.allowance(|gvk| kinds.get(gvk).map(|kind| kind.namespaced)))
    }
}

impl Subject<'_> {
    /// Refuses a revision that reaches further than the watch allows.
    pub(super) async fn check_reach(
        &self,
        plan: &Plan,
        hooks: &[HookRecord],
        kinds: &Kinds,
    ) -> Result<(), ReconcileError> {
        let mut outside = reach::of_plan(plan, &self.namespace);
        outside.extend(reach::of_hooks(hooks, &self.namespace, kinds));
        Ok(self.check_outside(outside).await?)
    }

    /// Most releases have nothing outside, and need not know what is allowed.
    pub(super) async fn check_outside(&self, outside: Vec<Outside>) -> Result<(), ReachError> {
        match outside.is_empty() {
            true => Ok(()),
            false => Ok(self.context.allowance().await?.check(outside)?),
        }
    }
}
