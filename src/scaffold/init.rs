//! A new project: everything but APIs.
//!
//! In an existing project, missing files are written again. Changed files are kept, unless forced. Lists of APIs and README.md are never
//! replaced.

use super::draft::Draft;
use super::entries;
use super::error::ScaffoldError;
use super::generated;
use super::layout;
use super::naming;
use super::project::Project;

/// What a project is to be. What is not said is as it is, or by default.
#[derive(Clone, Debug, Default)]
pub struct NewProject {
    pub name: Option<String>,
    pub domain: Option<String>,
}

const DOMAIN: &str = "my.domain";

/// Whether the project was there before.
pub fn init(draft: &mut Draft, wanted: &NewProject, is_forced: bool) -> Result<bool, ScaffoldError> {
    if let Some(text) = draft.read(layout::PROJECT)? {
        let project = Project::parse(&text)?;
        check_same(&project, wanted)?;
        restore(draft, &project, is_forced)?;
        return Ok(true);
    }
    let name = wanted.name.clone().unwrap_or_else(|| naming::project_of_directory(draft.root()));
    let domain = wanted.domain.as_deref().unwrap_or(DOMAIN);
    naming::check_project(&name)?;
    naming::check_domain(domain)?;
    let project = Project::new(&name, domain);
    for (path, text) in layout::files(&project) {
        // Many repositories begin with one.
        let is_kept = path == layout::README && draft.read(path)?.is_some();
        if !is_kept {
            draft.make(path, text);
        }
    }
    make_role(draft, &name)?;
    draft.make(layout::PROJECT, project.text()?);
    Ok(false)
}

/// The role of an operator without charts.
fn make_role(draft: &mut Draft, name: &str) -> Result<(), ScaffoldError> {
    let wrong = |reason| ScaffoldError::Generated { file: layout::ROLE.into(), reason };
    draft.make(layout::ROLE, generated::role_without_charts(draft.root(), name).map_err(wrong)?.text);
    Ok(())
}

fn check_same(project: &Project, wanted: &NewProject) -> Result<(), ScaffoldError> {
    let fields = [("the name", project.name(), &wanted.name), ("the domain", project.domain(), &wanted.domain)];
    for (field, present, wanted) in fields {
        if let Some(wanted) = wanted.as_ref().filter(|wanted| *wanted != present) {
            return Err(ScaffoldError::OtherProject { field, present: present.to_owned(), wanted: wanted.clone() });
        }
    }
    Ok(())
}

/// The role of an operator with charts needs helm: see [`super::create::renew_role`].
fn restore(draft: &mut Draft, project: &Project, is_forced: bool) -> Result<(), ScaffoldError> {
    for (path, text) in layout::files(project) {
        let is_there = draft.read(path)?.is_some();
        if !is_there || (is_forced && !layout::grows(path) && path != layout::README) {
            draft.make(path, text);
        }
    }
    let has_charts = !entries::read(&draft.read(layout::WATCHES)?.unwrap_or_default()).is_empty();
    if !has_charts && draft.read(layout::ROLE)?.is_none() {
        make_role(draft, project.name())?;
    }
    Ok(())
}
