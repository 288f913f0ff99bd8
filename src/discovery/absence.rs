//! Whether a kind that discovery does not list is really gone.
//!
//! A CRD that is deleted takes its objects with it. An aggregated API that cannot be reached does not: its objects are there
//! again with it, and whoever takes them for gone loses track of them. Both look the same in a list of kinds. So the group is
//! asked for by itself: the API server answers 404 where nobody serves it, and 503 where its backend is away.

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
    #[error("the API server has just begun to serve {kind} in {api}; this is tried again")]
    Served { api: String, kind: String },
}

impl Unavailable {
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
            Unavailable::Away { error, .. } => of_kube(error),
            Unavailable::Served { .. } => Category::Waiting,
        }
    }
}

/// Makes sure that the API server serves a kind in no version. Everybody who is authenticated may ask.
pub async fn confirm(group: &str, kind: &str, calls: &Calls) -> Result<(), Unavailable> {
    // The core group is always there, and no group has such a name.
    if group.is_empty() || !is_path_segment(group) {
        return Ok(());
    }
    let calls = calls.own();
    let away = |api: &str, error| Unavailable::Away { api: api.to_owned(), kind: kind.to_owned(), error };
    let answer = calls.read(&format!("/apis/{group}")).await.map_err(|error| away(group, error))?;
    for version in versions(answer.as_deref()) {
        let api = format!("{group}/{version}");
        let answer = calls.read(&format!("/apis/{api}")).await.map_err(|error| away(&api, error))?;
        if lists(answer.as_deref(), kind) {
            return Err(Unavailable::Served { api, kind: kind.to_owned() });
        }
    }
    Ok(())
}

fn read(answer: Option<&str>) -> Value {
    answer.and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null)
}

/// The versions of a group.
fn versions(answer: Option<&str>) -> Vec<String> {
    let group = read(answer);
    let versions = group["versions"].as_array().into_iter().flatten();
    let names = versions.filter_map(|version| version["version"].as_str());
    names.filter(|name| is_path_segment(name)).map(str::to_owned).collect()
}

fn lists(answer: Option<&str>, kind: &str) -> bool {
    read(answer)["resources"].as_array().into_iter().flatten().any(|resource| resource["kind"] == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_discovery_are_read() {
        let group = r#"{"kind":"APIGroup","versions":[{"groupVersion":"g.io/v1","version":"v1"},{"version":"../x"}]}"#;
        assert_eq!(versions(Some(group)), ["v1"]);
        assert!(versions(None).is_empty());
        let list = r#"{"kind":"APIResourceList","resources":[{"name":"things","kind":"Thing"}]}"#;
        assert!(lists(Some(list), "Thing") && !lists(Some(list), "Other") && !lists(None, "Thing"));
    }
}
