//! One operator that is killed, and the one that comes after it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::chart::NAME;
use super::difference::difference;
use super::phase::Phase;
use super::seen::{Seen, State};
use crate::harness::gate::{Gate, When};
use crate::harness::strange_helm::strange_helm;
use crate::harness::{Operator, Project, until};

/// An operator that asks for nothing so long has nothing left to do.
const CALM: Duration = Duration::from_millis(400);

/// A second operator has to wait a little after some of what the first left.
const PATIENCE: Duration = Duration::from_secs(40);

const TALKATIVE: &str = "info,chartwright=debug,kube_client=off,kube_runtime=off";

/// A custom resource in a namespace of its own, just before a phase.
pub struct Scene<'a> {
    shared: &'a Project,
    project: Project,
    phase: Phase,
    gate: Gate,
    operator: Operator,
}

/// What became of a case.
pub struct Outcome {
    /// The call at which the operator was killed. None if it came to its end before.
    pub killed_at: Option<String>,
    pub faults: Vec<String>,
}

impl<'a> Scene<'a> {
    pub async fn set(shared: &'a Project, phase: Phase) -> Self {
        let project = shared.sibling().await;
        phase.prepare(&project);
        let (gate, operator) = start(&project).await;
        let scene = Scene { shared, project, phase, gate, operator };
        for earlier in phase.story() {
            earlier.begin(&scene.project).await;
            until(&format!("the {} before is over", earlier.name()), async || scene.is_over(*earlier).await).await;
        }
        scene
    }

    /// What comes of the phase if nobody is killed, and its calls.
    pub async fn undisturbed(self) -> (State, Vec<String>) {
        self.gate.arm(&self.operator, usize::MAX, When::Before);
        self.phase.begin(&self.project).await;
        until("it ends", async || self.is_over(self.phase).await).await;
        let calls = self.gate.calls();
        self.phase.meanwhile(&self.project).await;
        until("it ends", async || self.is_over(self.phase).await).await;
        // What controllers do takes its time.
        let mut last = State::new();
        let state = until("nothing changes any more", async || {
            tokio::time::sleep(CALM).await;
            let now = self.state(self.seen().await);
            let is_same = now == std::mem::replace(&mut last, now.clone());
            is_same.then_some(now)
        });
        (state.await, calls)
    }

    /// Kills the operator at one of its calls, and looks at what another makes of it.
    pub async fn killed(self, at: usize, when: When, wanted: &State) -> Outcome {
        self.gate.arm(&self.operator, at, when);
        self.phase.begin(&self.project).await;
        until("it is killed or done", async || match self.gate.has_killed() {
            true => Some(()),
            false => self.is_over(self.phase).await,
        })
        .await;
        let killed_at = self.gate.has_killed().then(|| self.gate.calls().pop().unwrap_or_default());
        self.gate.empty().await;
        let left = self.seen().await;
        let Scene { shared, project, phase, gate, operator } = self;
        drop((operator, gate));
        phase.meanwhile(&project).await;
        let (gate, operator) = start(&project).await;
        let next = Scene { shared, project, phase, gate, operator };
        let faults = next.faults(wanted, &left).await;
        if !faults.is_empty() && std::env::var_os("CASE").is_some() {
            eprintln!("the second operator's log:\n{}", next.operator.log());
        }
        Outcome { killed_at, faults }
    }

    async fn is_over(&self, phase: Phase) -> Option<()> {
        (self.gate.is_calm(CALM) && phase.is_over(&self.project).await).then_some(())
    }

    async fn seen(&self) -> Seen {
        Seen::of(&self.project, self.shared).await
    }

    /// What counts of it.
    fn state(&self, seen: Seen) -> State {
        let seen = if self.phase.is_edited_meanwhile() { seen.last() } else { seen };
        seen.state(&self.project)
    }

    /// The first look finds watches that know nothing yet; another follows when they do.
    fn has_looked(&self) -> bool {
        let looks = self.operator.log().lines().filter(|line| line.contains("looked at")).count();
        looks >= 2 || self.phase == Phase::Delete
    }

    /// What is not as it should be, once this operator has had its time.
    async fn faults(&self, wanted: &State, left: &Seen) -> Vec<String> {
        let deadline = Instant::now() + PATIENCE;
        let (uids, manifests, mut faults) = loop {
            let is_calm = self.has_looked() && self.gate.is_calm(CALM);
            let seen = self.seen().await;
            let (uids, manifests) = (seen.uids(), seen.manifests());
            let faults = difference(&self.state(seen), wanted);
            if (is_calm && faults.is_empty()) || Instant::now() > deadline {
                break (uids, manifests, faults);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        for (key, uid) in left.uids() {
            if uids.get(&key).is_some_and(|after| *after != uid) {
                faults.push(format!("{key} was deleted and made again"));
            }
        }
        for (revision, manifest) in left.manifests() {
            if manifests.get(&revision).is_some_and(|after| *after != manifest) {
                faults.push(format!("revision {revision} was recorded with another manifest before"));
            }
        }
        let allowed = self.phase.renders(self.phase.revision().and_then(|revision| left.status(revision)));
        let renders = std::fs::read_to_string(renders(&self.project, &self.gate)).unwrap_or_default().lines().count();
        if renders > allowed {
            faults.push(format!("there were {renders} more renders, and {allowed} would do"));
        }
        faults
    }
}

/// An operator that has nothing to do yet, behind a gate that lets everything pass.
async fn start(project: &Project) -> (Gate, Operator) {
    let gate = Gate::start(project.client.clone()).await;
    let count = format!("echo {NAME} >> {}", renders(project, &gate).display());
    let operator =
        project.launch().helm(strange_helm(project, &count)).env("RUST_LOG", TALKATIVE).before(&gate).start();
    gate.watches(&project.resource.plural).await;
    (gate, operator)
}

/// Where the renders of one operator are written down. A helm of one that was killed may outlive it.
fn renders(project: &Project, gate: &Gate) -> PathBuf {
    project.dir().join(format!("renders-{}", gate.address))
}
