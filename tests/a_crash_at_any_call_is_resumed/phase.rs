//! What an operator is killed at.

use chartwright::release::Status;

use super::chart::{NAME, spec};
use super::seen::{LAST, State};
use crate::harness::Project;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Phase {
    Install,
    Upgrade,
    /// An upgrade. While no operator runs, a person changes the spec once more.
    Overtaken,
    /// The same, and the spec is again what it was before.
    TakenBack,
    Rollback,
    /// A person rolls back with helm, and the operator takes charge of that.
    HelmRollback,
    /// helm installed the release before, from the same values.
    Adoption,
    Delete,
}

impl Phase {
    pub fn all() -> impl Iterator<Item = Phase> {
        use Phase::*;
        [Install, Upgrade, Overtaken, TakenBack, Rollback, HelmRollback, Adoption, Delete].into_iter()
    }

    pub fn name(self) -> &'static str {
        match self {
            Phase::Install => "install",
            Phase::Upgrade => "upgrade",
            Phase::Overtaken => "overtaken",
            Phase::TakenBack => "taken-back",
            Phase::Rollback => "rollback",
            Phase::HelmRollback => "held",
            Phase::Adoption => "adoption",
            Phase::Delete => "delete",
        }
    }

    /// What comes before it.
    pub fn story(self) -> &'static [Phase] {
        match self {
            Phase::Install | Phase::Adoption => &[],
            Phase::Upgrade | Phase::Overtaken | Phase::TakenBack => &[Phase::Install],
            Phase::Rollback | Phase::HelmRollback | Phase::Delete => &[Phase::Install, Phase::Upgrade],
        }
    }

    /// The one that it makes, if it makes one.
    pub fn revision(self) -> Option<u32> {
        match self {
            Phase::Install | Phase::Adoption => Some(1),
            Phase::Upgrade | Phase::Overtaken | Phase::TakenBack => Some(2),
            Phase::Rollback | Phase::HelmRollback => Some(3),
            Phase::Delete => None,
        }
    }

    /// How many renders are left to do, by what its revision was recorded as.
    pub fn renders(self, recorded: Option<Status>) -> usize {
        match self {
            Phase::Rollback | Phase::HelmRollback | Phase::Delete => 0,
            // Two renders tell what the chart generates.
            Phase::Adoption => 2,
            Phase::Install | Phase::Upgrade => usize::from(recorded.is_none()),
            Phase::Overtaken => 1,
            // What was there before is there still, and its record too.
            Phase::TakenBack => usize::from(recorded == Some(Status::Deployed)),
        }
    }

    /// Whether the number of its last revision depends on where it was killed.
    pub fn is_edited_meanwhile(self) -> bool {
        matches!(self, Phase::Overtaken | Phase::TakenBack)
    }

    /// What is there before the operator looks.
    pub fn prepare(self, project: &Project) {
        if self == Phase::Adoption {
            project.helm("helm3", &["install", NAME, "charts/app", "--set", "colour=blue"]);
        }
    }

    /// What a person does.
    pub async fn begin(self, project: &Project) {
        match self {
            Phase::Install | Phase::Adoption => {
                project.apply(NAME, spec("blue")).await;
                project.serve(NAME).await;
            }
            Phase::Upgrade | Phase::Overtaken | Phase::TakenBack => drop(project.apply(NAME, spec("green")).await),
            Phase::Rollback => project.annotate(NAME, "chartwright.dev/rollback-to", "1").await,
            Phase::HelmRollback => drop(project.helm("helm4", &["rollback", NAME, "1"])),
            Phase::Delete => project.delete(NAME).await,
        }
    }

    /// What a person does while no operator runs.
    pub async fn meanwhile(self, project: &Project) {
        match self {
            Phase::Overtaken => drop(project.apply(NAME, spec("red")).await),
            Phase::TakenBack => drop(project.apply(NAME, spec("blue")).await),
            _ => {}
        }
    }

    /// Whether it has come to its end, as far as the custom resource tells.
    pub async fn is_over(self, project: &Project) -> bool {
        let cr = project.crs().get_opt(NAME).await.expect("the API server answers");
        let (Some(cr), Some(revision)) = (&cr, self.revision()) else { return cr.is_none() };
        let status = cr.data.get("status").cloned().unwrap_or_default();
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let is_ready = conditions.into_iter().any(|it| it["type"] == "Ready" && it["status"] == "True");
        let observed = status["observedGeneration"].as_i64() == cr.metadata.generation;
        is_ready && observed && (self.is_edited_meanwhile() || status["deployedRelease"]["revision"] == revision)
    }

    /// Others are measured by what an undisturbed operator reaches, so that had better be right.
    pub fn check(self, state: &State) {
        let keys: Vec<_> = state.keys().map(String::as_str).collect();
        let (colour, random, statuses): (_, _, &[&str]) = match self {
            Phase::Install | Phase::Adoption => ("blue", 1, &["deployed"]),
            Phase::Upgrade => ("green", 2, &["superseded", "deployed"]),
            Phase::Overtaken => ("red", LAST as usize, &["deployed"]),
            Phase::TakenBack => ("blue", LAST as usize, &["deployed"]),
            Phase::Rollback | Phase::HelmRollback => ("blue", 1, &["superseded", "superseded", "deployed"]),
            Phase::Delete => {
                assert_eq!((keys, &state["replica sets"]), (vec!["ConfigMap kept", "replica sets"], &0.into()));
                return;
            }
        };
        let only = format!("ConfigMap only-{colour}");
        for key in [only.as_str(), "ConfigMap {namespace}-far", "ClusterRole {namespace}-wide", "Deployment web"] {
            assert!(keys.contains(&key), "{key} is not among {keys:#?}");
        }
        let revisions = state.iter().filter(|(key, _)| key.starts_with("revision "));
        assert_eq!(revisions.map(|(_, record)| &record["status"]).collect::<Vec<_>>(), statuses);
        // Eight objects, the custom resource, the number of replica sets, and a Role where it is blue.
        assert_eq!(keys.len(), 10 + usize::from(colour == "blue") + statuses.len(), "{keys:#?}");
        assert_eq!(state["Secret web"]["data"]["data"]["password"], format!("{{random {random}}}"));
    }
}
