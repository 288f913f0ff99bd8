//! What a release may write outside of its namespace, asked before it is written.

use super::{Context, ReconcileError, Subject};
use crate::discovery::Kinds;
use crate::generate::make;
use crate::hooks;
use crate::hooks::run::HookError;
use crate::manifest;
use crate::object::Object;
use crate::plan::Plan;
use crate::protected::{self, Protected};
use crate::reach::trial::SOME_NAMESPACE;
use crate::reach::{self, Allowance, Beyond, Home, Outside, ReachError, Says, Trial};
use crate::release::{HookRecord, Release};
use crate::render::RenderError;
use crate::sensitive;

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
        let stand_ins = make::stand_ins(&self.watch.generate);
        let fixed = (&stand_ins[..], &self.watch.overrides);
        let render = Trial::of(&chart, fixed, home, &kinds.capabilities, &self.helm);
        let trial = self.trials.of(&chart, &kinds.capabilities, self.lanes.aside(render)).await?;
        Ok(trial.allowance(&self.watch.gvk, &self.protected.kinds, |gvk| kinds.get(gvk).map(|kind| kind.namespaced)))
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
        self.check_protected(plan, hooks, kinds)?;
        let mut outside = reach::of_plan(plan, &self.home());
        outside.extend(reach::of_hooks(hooks, &self.home(), kinds));
        Ok(self.check_outside(outside).await?)
    }

    /// Refuses a revision with a hook that is no object, or that touches what is the operator's own.
    pub(super) fn check_protected(
        &self,
        plan: &Plan,
        hooks: &[HookRecord],
        kinds: &Kinds,
    ) -> Result<(), ReconcileError> {
        let hooked: Vec<Object> = hooks.iter().flat_map(hooks::objects_of).collect();
        hooked.iter().try_for_each(sensitive::check)?;
        self.check_generated(plan.apply.iter().map(|planned| &planned.object).chain(&hooked))?;
        if let Some(hook) = hooked.iter().find(|hook| kinds.get(&hook.gvk()).is_some_and(|kind| !kind.is_manageable)) {
            return Err(HookError::NotManageable { id: Box::new(hook.id()) }.into());
        }
        Ok(protected::check_revision(
            &self.context.protected,
            self.allows_operator_namespace(),
            plan,
            &hooked,
            &self.namespace,
            kinds,
        )?)
    }

    /// The same for one hook that is about to run. Its record may have been written by somebody else.
    pub(super) fn check_hook(&self, hook: &HookRecord, release: &Release, kinds: &Kinds) -> Result<(), Protected> {
        let objects = hooks::objects_of(hook);
        let check = |secrets: &[Object]| {
            let (protected, consent) = (&self.context.protected, self.allows_operator_namespace());
            protected::check_hooks(protected, consent, &objects, secrets, &self.namespace, kinds)
        };
        if check(&[]).is_ok() {
            return Ok(());
        }
        // A pod may use a Secret of the revision.
        let templates = manifest::read_record(&release.manifest.read()).map(|rendered| rendered.objects);
        let secrets = templates.unwrap_or_default().into_iter().filter(|object| object.kind() == "Secret");
        check(&secrets.collect::<Vec<_>>())
    }

    pub(super) fn allows_operator_namespace(&self) -> bool {
        self.context.watch.allow.is_some_and(|reach| reach.covers(Beyond::OperatorNamespace))
    }

    /// What needs no consent.
    pub(super) fn home(&self) -> Home<'_> {
        let Context { watch, protected, .. } = self.context;
        Home { namespace: &self.namespace, kind: &watch.gvk, watched: &protected.kinds }
    }

    /// Most releases have nothing outside, and need not know what is allowed.
    pub(super) async fn check_outside(&self, outside: Vec<Outside>) -> Result<(), ReachError> {
        match outside.is_empty() {
            true => Ok(()),
            false => Ok(self.context.allowance().await?.check(outside)?),
        }
    }
}
