//! What an operator is killed at.

use crate::harness::Project;

use super::chart::{NAME, spec};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Phase {
    Install,
    Upgrade,
    Rollback,
    Delete,
}

impl Phase {
    /// Without the rollback, which the operator cannot do yet.
    pub const ALL: [Phase; 3] = [Phase::Install, Phase::Upgrade, Phase::Delete];

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
}
