//! Whether a directory is a project of operator-sdk's helm plugin, and of which age.
//!
//! Only PROJECT is asked, in the form of any release: version 3 or 3-alpha, with one layout or a list. Before 1.0 there was no such file.

use serde_yaml::Value;

use crate::scaffold::draft::Draft;
use crate::scaffold::error::ScaffoldError;
use crate::scaffold::layout;
use crate::scaffold::project::{is_helm, layouts};

/// A project that can be worked on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub name: String,
    pub age: Age,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// Made by operator-sdk 1.0 or later.
    Scaffolded,
    /// Made by an earlier one: build/ and deploy/ in the place of config/.
    Early,
}

/// What to say about an early project.
pub const EARLY: &str = "this project is older than operator-sdk 1.0: only the base image is changed, and deploy/ is left as it is. For a Makefile and \
                         config/, make a new project with `chartwright init` and take over watches.yaml and helm-charts/, as operator-sdk's own migration does";

/// # Errors
/// It is something else, in one line.
pub fn project(draft: &Draft) -> Result<Found, ScaffoldError> {
    match draft.read(layout::PROJECT)? {
        Some(text) => named(&text).map_err(ScaffoldError::NotOfOperatorSdk),
        None => {
            let is_early = draft.read("build/Dockerfile")?.is_some() && draft.read(layout::WATCHES)?.is_some();
            let missing =
                || ScaffoldError::NotOfOperatorSdk(format!("there is no PROJECT file in {}", draft.root().display()));
            is_early.then(|| Found { name: String::new(), age: Age::Early }).ok_or_else(missing)
        }
    }
}

fn named(text: &str) -> Result<Found, String> {
    let project: Value = serde_yaml::from_str(text).map_err(|error| format!("PROJECT cannot be read: {error}"))?;
    match layouts(project.get("layout")).as_slice() {
        [] => Err("PROJECT has no layout".to_owned()),
        layouts if layouts.iter().any(|layout| is_helm(layout)) => {
            let name = project.get("projectName").and_then(Value::as_str).unwrap_or_default().to_owned();
            Ok(Found { name, age: Age::Scaffolded })
        }
        layouts => Err(format!("PROJECT has the layout {}", layouts.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helm_projects_of_every_age_are_known() {
        for text in [
            "layout: helm.sdk.operatorframework.io/v1\nprojectName: shop\nversion: 3-alpha\n",
            "layout: helm.sdk.operatorframework.io/v1-alpha\nprojectName: shop\nversion: 3-alpha\n",
            "# theirs\nlayout:\n- helm.sdk.operatorframework.io/v1\n- other/v1\nprojectName: shop\nversion: \"3\"\n",
        ] {
            assert_eq!(named(text), Ok(Found { name: "shop".into(), age: Age::Scaffolded }), "{text}");
        }
    }

    #[test]
    fn other_projects_are_refused_with_what_they_are() {
        for (text, why) in [
            ("layout: [go.kubebuilder.io/v4]\nversion: '3'\n", "PROJECT has the layout go.kubebuilder.io/v4"),
            (
                "layout: ansible.sdk.operatorframework.io/v1\n",
                "PROJECT has the layout ansible.sdk.operatorframework.io/v1",
            ),
            (
                "layout: hybrid.helm.sdk.operatorframework.io/v1-alpha\n",
                "PROJECT has the layout hybrid.helm.sdk.operatorframework.io/v1-alpha",
            ),
            ("version: '2'\n", "PROJECT has no layout"),
            ("", "PROJECT has no layout"),
        ] {
            assert_eq!(named(text), Err(why.to_owned()));
        }
        assert!(named("a: b: c").unwrap_err().starts_with("PROJECT cannot be read"));
    }
}
