//! What an operator is killed at.

use super::chart::{NAME, spec};
use super::seen::State;
use crate::harness::Project;

/// The operator does not know this wish yet.
const CAN_ROLL_BACK: bool = false;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Phase {
    Install,
    Upgrade,
    Rollback,
    Delete,
}

impl Phase {
    pub fn all() -> impl Iterator<Item = Phase> {
        let all = [Phase::Install, Phase::Upgrade, Phase::Rollback, Phase::Delete];
        all.into_iter().filter(|phase| CAN_ROLL_BACK || *phase != Phase::Rollback)
    }

    pub fn name(self) -> &'static str {
        match self {
            Phase::Install => "install",
            Phase::Upgrade => "upgrade",
            Phase::Rollback => "rollback",
            Phase::Delete => "delete",
        }
    }

    /// What comes before it.
    pub fn story(self) -> &'static [Phase] {
        match self {
            Phase::Install => &[],
            Phase::Upgrade => &[Phase::Install],
            Phase::Rollback | Phase::Delete => &[Phase::Install, Phase::Upgrade],
        }
    }

    /// The one that it makes, if it makes one.
    pub fn revision(self) -> Option<u32> {
        match self {
            Phase::Install => Some(1),
            Phase::Upgrade => Some(2),
            Phase::Rollback => Some(3),
            Phase::Delete => None,
        }
    }

    /// Whether a person's wish needs helm.
    pub fn renders(self) -> bool {
        matches!(self, Phase::Install | Phase::Upgrade)
    }

    /// What a person does.
    pub async fn begin(self, project: &Project) {
        match self {
            Phase::Install => {
                project.apply(NAME, spec("blue")).await;
                project.serve(NAME).await;
            }
            Phase::Upgrade => drop(project.apply(NAME, spec("green")).await),
            Phase::Rollback => project.annotate(NAME, "chartwright.dev/rollback-to", "1").await,
            Phase::Delete => project.delete(NAME).await,
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
        is_ready && observed && status["deployedRelease"]["revision"] == revision
    }

    /// Others are measured by what an undisturbed operator reaches, so that had better be right.
    pub fn check(self, state: &State) {
        let keys: Vec<_> = state.keys().map(String::as_str).collect();
        let colour = if self == Phase::Upgrade { "green" } else { "blue" };
        let Some(revision) = self.revision() else {
            assert_eq!((keys, &state["replica sets"]), (vec!["ConfigMap kept", "replica sets"], &0.into()));
            return;
        };
        let only = format!("ConfigMap only-{colour}");
        for key in [only.as_str(), "ConfigMap {namespace}-far", "ClusterRole {namespace}-wide", "Deployment web"] {
            assert!(keys.contains(&key), "{key} is not among {keys:#?}");
        }
        // With the custom resource, the number of replica sets, and a Role where it is blue.
        let more = 10 + usize::from(colour == "blue");
        assert_eq!(keys.len(), more + revision as usize, "{keys:#?}");
        let statuses = (1..=revision).map(|number| state[&format!("revision {number}")]["status"].clone());
        let mut expected = vec!["superseded"; revision as usize - 1];
        expected.push("deployed");
        assert_eq!(statuses.collect::<Vec<_>>(), expected);
        let password = if self == Phase::Upgrade { "{random 2}" } else { "{random 1}" };
        assert_eq!(state["Secret web"]["data"]["data"]["password"], password);
    }
}
