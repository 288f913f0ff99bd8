//! What the operator loads once, and keeps from one session to the next.

use std::env;
use std::sync::Arc;

use anyhow::Context;

use super::flags::{self, Args, Work};
use super::patience::Patience;
use crate::cli::Usage;
use crate::cluster::{self, Access};
use crate::controller::Settings;
use crate::leader::clock::Moment;
use crate::leader::guard::Guard;
use crate::leader::identity::{Identity, NoRandomNumber, Pod};
use crate::leader::settings as lease;
use crate::namespaces::Namespaces;
use crate::protected::own;
use crate::render::Helm;
use crate::render::lanes::Lanes;
use crate::render::process::processors;
use crate::watches::{self, Watch};

pub(super) struct Ground {
    pub(super) settings: Arc<Settings>,
    pub(super) helm: Helm,
    pub(super) watches: Vec<Watch>,
    pub(super) lanes: Lanes,
    pub(super) patience: Patience,
    /// Where there may be several operators.
    pub(super) standing: Option<Standing>,
}

impl Ground {
    /// Reads what is on this machine. What is wrong there does not get better by trying again.
    pub(super) async fn lay(args: Args) -> anyhow::Result<Self> {
        let settings = Arc::new(settings(&args.work)?);
        let here = env::current_dir().context("cannot find the working directory")?;
        let mut helm = Helm::find(args.project.helm.as_deref()).await?;
        helm.limits.time = args.work.render_timeout;
        let watches = watches::load(&args.project.watches_file, &here, &helm).await?;
        for warning in &watches.warnings {
            tracing::warn!("{warning}");
        }
        let lease = lease(&args.leader, &watches.entries)?;
        let own = cluster::configuration(&Access::default()).await?.identity().with_environment();
        let standing = lease.map(|lease| Standing::new(lease, &own)).transpose()?;
        let patience = Patience::new(cluster::is_pod());
        let lanes = Lanes::new(processors());
        Ok(Ground { settings, helm, watches: watches.entries, lanes, patience, standing })
    }

    /// The name of the Lease, if there is one.
    pub(super) fn lease(&self) -> Option<Arc<str>> {
        self.standing.as_ref().map(|standing| standing.settings.name.as_str().into())
    }

    /// Whether the process goes on after it lost the Lease. In a pod nobody would start it again as soon as it is needed.
    pub(super) fn outlives_the_lease(&self) -> bool {
        self.patience.is_pod()
    }

    /// The session has ended by the loss of the Lease. Nothing of it writes any more.
    pub(super) fn lost(&mut self) {
        if let Some(standing) = &mut self.standing {
            standing.guard.close();
            standing.not_before = Moment::now() + standing.settings.pace.margin();
        }
        // The API server may have been away, and have just come back.
        self.patience.note_away();
    }
}

/// What a process stands for election with.
pub(super) struct Standing {
    pub(super) settings: lease::Settings,
    pub(super) identity: Identity,
    /// Of the session of the moment.
    guard: Guard,
    /// Until then, what was written before with the same identity may arrive.
    pub(super) not_before: Moment,
}

impl Standing {
    fn new(settings: lease::Settings, own: &own::Identity) -> Result<Self, NoRandomNumber> {
        let host = || own.pod.clone().unwrap_or_else(host_name);
        let identity = match own.pod_uid.as_deref().filter(|_| cluster::is_pod()) {
            Some(uid) => {
                let lease = (settings.namespace.as_str(), settings.name.as_str());
                Identity::in_pod(Pod { name: &host(), uid }, lease, &env::temp_dir())?
            }
            None => Identity::new(&host())?,
        };
        let (guard, mut not_before) = (Guard::closed(), Moment::now());
        if identity.is_inherited() {
            not_before = not_before + settings.pace.margin();
            guard.doubt();
        }
        Ok(Standing { settings, identity, guard, not_before })
    }

    /// A guard for one more session.
    pub(super) fn next_guard(&mut self) -> Guard {
        self.guard = self.guard.successor();
        self.guard.clone()
    }
}

/// As controller-runtime names a process that is in no pod.
fn host_name() -> String {
    let set = env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    set.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned())
}

fn lease(leader: &flags::Leader, watches: &[Watch]) -> Result<Option<lease::Settings>, lease::SettingsError> {
    if !leader.leader_elect {
        return Ok(None);
    }
    let group = watches.first().map_or("", |watch| &watch.gvk.group);
    let (id, namespace) = (leader.leader_election_id.as_deref(), leader.leader_election_namespace.as_deref());
    lease::Settings::new(id, namespace, group, leader.pace()).map(Some)
}

fn settings(work: &Work) -> Result<Settings, Usage> {
    let namespaces = Namespaces::parse(&work.watch_namespace).map_err(|error| Usage(error.to_string()))?;
    match namespaces.is_all() {
        true => tracing::info!("watching all namespaces"),
        false => tracing::info!(namespaces = namespaces.shown(), "watching these namespaces and no others"),
    }
    Ok(Settings {
        namespaces,
        reconcile_period: work.reconcile_period,
        // As controller-runtime reads a zero.
        max_concurrent: work.max_concurrent_reconciles.map(|most| most.max(1)),
        suppress_override_values: work.suppress_override_values,
    })
}
