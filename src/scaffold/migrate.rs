//! A project of operator-sdk's helm plugin becomes one of Chartwright: what changes in its files, and why.
//!
//! Each file has a pure edit: text in, text and reasons out. What operator-sdk wrote is known by its text and replaced. What a person wrote
//! stays, and is named where it needs a look. PROJECT and watches.yaml stay as they are: operator-sdk's tools still read the one, and the
//! other means the same. A second time there is nothing to do.
//!
//! | module | what is in it |
//! |---|---|
//! | [`recognise`] | whether it is such a project, and of which age |
//! | [`dockerfile`] | the base image |
//! | [`makefile`] | what is downloaded and started |
//! | [`manager`] | memory and probes |
//! | [`rights`] | rules that join the roles |
//! | [`definitions`] | typed CRDs, where they are asked for |

pub mod definitions;
pub mod dockerfile;
pub mod makefile;
pub mod manager;
pub mod recognise;
pub mod rights;

use super::draft::Draft;
use super::error::ScaffoldError;
use super::generated::{self, Generated, Options};
use super::layout;
use super::rbac::Surveys;
use crate::render::Helm;
use recognise::Age;

const DOCKERFILE: &str = "Dockerfile";
const EARLY_DOCKERFILE: &str = "build/Dockerfile";
const MAKEFILE: &str = "Makefile";
const MANAGER: &str = "config/manager/manager.yaml";
const LEADER_ROLE: &str = "config/rbac/leader_election_role.yaml";

/// What comes of the text of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edited {
    pub text: String,
    /// What was changed, and what for. Empty where nothing was.
    pub why: Vec<String>,
    /// What a person should look at.
    pub notes: Vec<String>,
}

/// What a person asks for.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The base image.
    pub image: String,
    /// Typed CRDs in the place of open ones.
    pub definitions: Option<Options>,
}

/// A file that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub path: String,
    pub before: String,
    pub after: String,
    pub why: Vec<String>,
}

/// All that would be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Migration {
    /// The project's name.
    pub project: String,
    pub changes: Vec<Change>,
    pub notes: Vec<String>,
}

/// The image that a new project builds on.
pub fn base_image() -> String {
    format!("chartwright:{}", env!("CARGO_PKG_VERSION"))
}

/// Looks at a project. Nothing is written, here or in the draft. With `helm`, the operator's role is made from the charts, in the place of the
/// one that is there.
///
/// # Errors
/// It is no project of operator-sdk's helm plugin, or a file cannot be read.
pub async fn migration(draft: &Draft, wanted: &Wanted, helm: Option<&Helm>) -> Result<Migration, ScaffoldError> {
    let found = recognise::project(draft)?;
    let mut migration = Migration { project: found.name, ..Migration::default() };
    if found.age == Age::Early {
        let edit = |text: &str| dockerfile::edit(EARLY_DOCKERFILE, text, &wanted.image, false);
        migration.edit(draft, EARLY_DOCKERFILE, edit)?;
        migration.notes.push(recognise::EARLY.to_owned());
        return Ok(migration);
    }
    let has_moved = draft.read(MAKEFILE)?.is_some_and(|text| makefile::has_moved(&text));
    let edit = |text: &str| dockerfile::edit(DOCKERFILE, text, &wanted.image, has_moved);
    let is_there = migration.edit(draft, DOCKERFILE, edit)?;
    if !is_there {
        migration
            .notes
            .push(format!("there is no {DOCKERFILE} here; let the operator's image build on {}", wanted.image));
    }
    let has_one_image = draft.read(MANAGER)?.is_some_and(|text| images(&text) == 1);
    migration.edit(draft, MAKEFILE, |text| makefile::edit(text, has_one_image))?;
    migration.edit(draft, MANAGER, |text| manager::edit(MANAGER, text))?;
    match helm {
        Some(helm) => migration.generate_role(draft, helm).await?,
        None => {
            migration.edit(draft, layout::ROLE, |text| rights::edit_operator(layout::ROLE, text))?;
        }
    }
    let leader = |text: &str| rights::edit(LEADER_ROLE, text, "leader-election-role", rights::LEADER);
    migration.edit(draft, LEADER_ROLE, leader)?;
    if let Some(options) = wanted.definitions {
        for (path, edited) in definitions::typed(draft, options)? {
            migration.edit(draft, &path, |_| edited)?;
        }
    }
    Ok(migration)
}

fn images(manifest: &str) -> usize {
    manifest.lines().filter(|line| line.trim_start_matches([' ', '-']).starts_with("image:")).count()
}

impl Migration {
    /// Whether there is such a file.
    fn edit(&mut self, draft: &Draft, path: &str, edit: impl FnOnce(&str) -> Edited) -> Result<bool, ScaffoldError> {
        let Some(before) = draft.read(path)? else { return Ok(false) };
        let Edited { text, why, notes } = edit(&before);
        self.notes.extend(notes);
        if text != before {
            self.changes.push(Change { path: path.to_owned(), before, after: text, why });
        }
        Ok(true)
    }

    async fn generate_role(&mut self, draft: &Draft, helm: &Helm) -> Result<(), ScaffoldError> {
        let wrong = |reason| ScaffoldError::Generated { file: layout::ROLE.into(), reason };
        let Generated { text, notes } =
            generated::role(draft.root(), &self.project, &mut Surveys::new(helm, &|_| ())).await.map_err(wrong)?;
        self.notes.extend(notes);
        let before = draft.read(layout::ROLE)?.unwrap_or_default();
        if text != before {
            let why = vec!["the rights that the charts and the operator need, and no others".to_owned()];
            self.changes.push(Change { path: layout::ROLE.to_owned(), before, after: text, why });
        }
        Ok(())
    }

    /// Puts the changes into a draft, which writes all of them or none.
    pub fn put_into(&self, draft: &mut Draft) {
        for change in &self.changes {
            draft.edit(&change.path, change.after.clone());
        }
    }
}
