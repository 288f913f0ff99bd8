//! The files that follow from a chart: the CRD, the sample, the roles.
//!
//! The calls of their generators, as `create api` and `delete api` need them: by a loaded chart, with errors that are one line.

use std::io::ErrorKind;
use std::path::Path;

use super::api::Api;
use super::crd::{self, Definition};
use super::rbac::{RbacError, Surveys};
use super::values::ChartValues;
use super::{layout, rbac};
use crate::chart::Chart;
use crate::watches::{self, WatchesError};

/// What the person said about the CRD.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    pub strict_types: bool,
    /// The spec is not all that values come from, so nothing has to be in it.
    pub values_from: bool,
}

impl Options {
    fn of_definition(self) -> crd::Options {
        crd::Options { strict_types: self.strict_types, values_from: self.values_from, ..crd::Options::default() }
    }
}

/// A text that was made, and what a person should know of it.
#[derive(Clone, Debug)]
pub struct Generated {
    pub text: String,
    pub notes: Vec<String>,
}

impl From<Definition> for Generated {
    fn from(Definition { text, notes }: Definition) -> Self {
        Generated { text, notes }
    }
}

/// A new CustomResourceDefinition.
pub fn definition(api: &Api, chart: &Chart, options: Options) -> Result<Generated, String> {
    let made = crd::definition(api, &values_of(chart)?, &options.of_definition());
    made.map(Generated::from).map_err(|error| error.to_string())
}

/// The same definition with one more version, which is served and not stored.
pub fn with_version(definition: &str, api: &Api, chart: &Chart, options: Options) -> Result<Generated, String> {
    let made = crd::add_version(definition, api, &values_of(chart)?, &options.of_definition());
    made.map(Generated::from).map_err(|error| error.to_string())
}

/// The same definition without a version; None where it was the last.
pub fn without_version(definition: &str, version: &str) -> Result<Option<Generated>, String> {
    let rest = crd::remove_version(definition, version).map_err(|error| error.to_string())?;
    Ok(rest.map(Generated::from))
}

fn values_of(chart: &Chart) -> Result<ChartValues, String> {
    ChartValues::of(chart).map_err(|error| error.to_string())
}

/// config/rbac/role.yaml of a project without charts.
pub fn role_without_charts(dir: &Path, project: &str) -> Result<Generated, String> {
    made(rbac::without_charts(dir, &options_of(dir, project)?))
}

/// config/rbac/role.yaml: what the operator may do for all APIs of the project in a directory.
pub async fn role(dir: &Path, project: &str, surveys: &mut Surveys<'_>) -> Result<Generated, String> {
    let options = options_of(dir, project)?;
    let watches = match watches::load(&dir.join(layout::WATCHES), dir, surveys.helm()).await {
        Ok(watches) => watches.entries,
        // A project that is being made has no file yet.
        Err(WatchesError::Read { error, .. }) if error.kind() == ErrorKind::NotFound => vec![],
        Err(WatchesError::Empty { .. }) => vec![],
        Err(error) => return Err(error.to_string()),
    };
    made(match watches.is_empty() {
        false => rbac::generate(dir, &watches, &options, surveys).await,
        true => rbac::without_charts(dir, &options),
    })
}

/// The role stays of the sort that it is: for named namespaces, or with the right to escalate.
fn options_of(dir: &Path, project: &str) -> Result<rbac::Options, String> {
    let before = rbac::read(&dir.join(layout::ROLE)).map_err(|error| error.to_string())?;
    let options = rbac::Options::of_role(&before.unwrap_or_default());
    Ok(rbac::Options { name: Some(project.to_owned()), ..options })
}

fn made(generated: Result<rbac::Generated, RbacError>) -> Result<Generated, String> {
    let rbac::Generated { files, notes } = generated.map_err(|error| error.to_string())?;
    let role = files.into_iter().find(|(path, _)| path == Path::new(rbac::ROLE)).map(|(_, text)| text);
    Ok(Generated { text: role.unwrap_or_default(), notes })
}

/// Roles for people, each with its word for the file's name.
pub fn kind_roles(project: &str, api: &Api) -> Vec<(&'static str, String)> {
    ROLES.into_iter().zip(rbac::people::roles(api, project)).map(|(role, (_, text))| (role, text)).collect()
}

/// The words of the roles.
pub const ROLES: [&str; 3] = ["admin", "editor", "viewer"];
