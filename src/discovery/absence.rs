//! Whether a kind that discovery does not list is really gone.
//!
//! A CRD that is deleted takes its objects with it. An aggregated API that cannot be reached does not: its objects are there
//! again with it, and whoever takes them for gone loses track of them. Both look the same in a list of kinds. So the group is
//! asked for by itself: the API server answers 404 where nobody serves it, and 503 where its backend is away.

use std::collections::{BTreeMap, BTreeSet};

use kube::discovery::ApiResource;
use serde_json::Value;

use crate::calls::Calls;
use crate::error::{Category, of_kube, sentence};
use crate::object::is_path_segment;

/// Why nobody can tell whether a kind is gone.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    #[error(
        "the API {api} is not available, so its {kind} objects may still be there: {}; repair what serves it (`kubectl get apiservices`), or delete its APIService if it is gone for good",
        sentence(error)
    )]
    Away { api: String, kind: String, error: kube::Error },
    #[error("cannot read what the API {api} serves: {}", sentence(error))]
    Unread { api: String, error: kube::Error },
    #[error("cannot list the API groups of the cluster: {}", sentence(.0))]
    Groups(kube::Error),
    #[error("the API server has just begun to serve {kind} in {api}; this is tried again")]
    Served { api: String, kind: String },
}

impl Unavailable {
    /// Only an API server that says so counts as away: a request may fail for many reasons.
    fn of_api(api: &str, kind: &str, error: kube::Error) -> Self {
        let api = api.to_owned();
        match &error {
            kube::Error::Api(status) if status.code == 503 => Unavailable::Away { api, kind: kind.to_owned(), error },
            _ => Unavailable::Unread { api, error },
        }
    }

    /// The error of a call about an object, if whoever serves its kind is away.
    pub fn of_call(resource: &ApiResource, error: kube::Error) -> Result<Self, kube::Error> {
        match &error {
            kube::Error::Api(status) if status.code == 503 => {
                let (api, kind) = (resource.api_version.clone(), resource.kind.clone());
                Ok(Unavailable::Away { api, kind, error })
            }
            _ => Err(error),
        }
    }

    pub fn category(&self) -> Category {
        match self {
            Unavailable::Away { error, .. } | Unavailable::Unread { error, .. } | Unavailable::Groups(error) => {
                of_kube(error)
            }
            Unavailable::Served { .. } => Category::Waiting,
        }
    }
}

/// What the API server says about groups and kinds, each asked for once.
///
/// Somebody may name any number of groups, so the list of all groups says first which exist: what is asked after that is limited by what the
/// API server serves.
pub struct Absence {
    calls: Calls,
    /// The versions of each group.
    groups: Option<BTreeMap<String, Vec<String>>>,
    /// The kinds of each group and version.
    kinds: BTreeMap<String, BTreeSet<String>>,
}

impl Absence {
    /// Everybody who is authenticated may ask.
    pub fn new(calls: &Calls) -> Self {
        Absence { calls: calls.own(), groups: None, kinds: BTreeMap::new() }
    }

    /// Makes sure that the API server serves a kind in no version.
    pub async fn confirm(&mut self, group: &str, kind: &str) -> Result<(), Unavailable> {
        // The core group is always there, and no group has such a name.
        if group.is_empty() || !is_path_segment(group) {
            return Ok(());
        }
        if self.groups.is_none() {
            self.groups = Some(groups(self.calls.read("/apis").await.map_err(Unavailable::Groups)?.as_deref()));
        }
        let versions = self.groups.iter().find_map(|groups| groups.get(group)).into_iter().flatten();
        for version in versions {
            let api = format!("{group}/{version}");
            if !self.kinds.contains_key(&api) {
                let answer = self.calls.read(&format!("/apis/{api}")).await;
                let answer = answer.map_err(|error| Unavailable::of_api(&api, kind, error))?;
                self.kinds.insert(api.clone(), kinds(answer.as_deref()));
            }
            if self.kinds.get(&api).is_some_and(|kinds| kinds.contains(kind)) {
                return Err(Unavailable::Served { api, kind: kind.to_owned() });
            }
        }
        Ok(())
    }
}

fn read(answer: Option<&str>) -> Value {
    answer.and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null)
}

/// All groups, with their versions.
fn groups(answer: Option<&str>) -> BTreeMap<String, Vec<String>> {
    let list = read(answer);
    let groups = list["groups"].as_array().into_iter().flatten();
    let groups = groups.filter_map(|group| Some((group["name"].as_str()?.to_owned(), versions(group))));
    groups.collect()
}

fn versions(group: &Value) -> Vec<String> {
    let versions = group["versions"].as_array().into_iter().flatten();
    let names = versions.filter_map(|version| version["version"].as_str());
    names.filter(|name| is_path_segment(name)).map(str::to_owned).collect()
}

/// The kinds of objects. A subresource has a kind too, of which there are no objects.
fn kinds(answer: Option<&str>) -> BTreeSet<String> {
    let list = read(answer);
    let resources = list["resources"].as_array().into_iter().flatten();
    let objects = resources.filter(|resource| resource["name"].as_str().is_some_and(|name| !name.contains('/')));
    objects.filter_map(|resource| resource["kind"].as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_discovery_are_read() {
        let list = r#"{"kind":"APIGroupList","groups":[{"name":"g.io","versions":[{"groupVersion":"g.io/v1","version":"v1"},{"version":"../x"}]}]}"#;
        assert_eq!(groups(Some(list))["g.io"], ["v1"]);
        assert!(groups(None).is_empty());
        let list = r#"{"kind":"APIResourceList","resources":[{"name":"things","kind":"Thing"},{"name":"things/scale","kind":"Scale"}]}"#;
        assert!(kinds(Some(list)).contains("Thing") && !kinds(Some(list)).contains("Scale"));
        assert!(kinds(None).is_empty());
    }
}
