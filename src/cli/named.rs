//! Which custom resource a person means, named as with kubectl: `KIND NAME` or `KIND/NAME`.
//!
//! Pure, but for one call that asks for the kinds. A kind may be written as its kind, its singular, plural or short name, in
//! any case, and with its group behind a dot. A word that fits two groups is refused: to guess would change the wrong one.

use kube::Client;
use kube::core::GroupVersionKind;
use kube::core::discovery::v2::{APIGroupDiscoveryList, APIResourceDiscovery};
use kube::discovery::ApiResource;

use super::Usage;
use crate::discovery::Kind;
use crate::watches::suggest::nearest;

/// The words of a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub kind: String,
    pub name: String,
}

/// Reads a custom resource from the first words, and leaves the rest.
pub fn read(words: &[String]) -> Result<(Named, &[String]), Usage> {
    let named = |kind: &str, name: &str| Named { kind: kind.to_owned(), name: name.to_owned() };
    let (found, rest) = match words {
        [first, rest @ ..] if first.contains('/') => {
            let (kind, name) = first.split_once('/').unwrap_or_default();
            (named(kind, name), rest)
        }
        [kind, name, rest @ ..] => (named(kind, name), rest),
        [kind] => return Err(Usage(format!("which {kind}? Write its name as well, as in `{kind} web`"))),
        [] => return Err(Usage("which custom resource? Write its kind and its name, as in `nginx web`".to_owned())),
    };
    match found.kind.is_empty() || found.name.is_empty() || found.name.contains('/') {
        true => Err(Usage(format!("{:?} is no custom resource; write `KIND NAME` or `KIND/NAME`", words[0]))),
        false => Ok((found, rest)),
    }
}

/// The same, and nothing may follow.
pub fn read_only(words: &[String]) -> Result<Named, Usage> {
    match read(words)? {
        (named, []) => Ok(named),
        (named, rest) => {
            Err(Usage(format!("one custom resource at a time: what is {:?} after {}?", rest[0], named.name)))
        }
    }
}

/// A kind with all its names.
#[derive(Clone, Debug)]
pub struct Known {
    pub kind: Kind,
    pub names: Vec<String>,
}

impl Known {
    /// `nginxes.demo.chartwright.dev`: there is no other of this name.
    fn in_full(&self) -> String {
        format!("{}.{}", self.kind.resource.plural, self.kind.resource.group)
    }

    /// Whether it goes by this name, and is in this group, or version and group.
    fn is(&self, name: &str, place: Option<&str>) -> bool {
        let resource = &self.kind.resource;
        let is_here = |place: &str| {
            let versioned = format!("{}.{}", resource.version, resource.group);
            place.eq_ignore_ascii_case(&resource.group) || place.eq_ignore_ascii_case(&versioned)
        };
        self.names.iter().any(|known| known.eq_ignore_ascii_case(name)) && place.is_none_or(is_here)
    }
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum KindError {
    #[error("the cluster knows no kind {written:?}{}", meant(.nearest.as_deref()))]
    Unknown { written: String, nearest: Option<String> },
    #[error("{written:?} may be {}; write one of them", .candidates.join(" or "))]
    Ambiguous { written: String, candidates: Vec<String> },
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map(|nearest| format!("; did you mean {nearest}?")).unwrap_or_default()
}

/// The kind that a word stands for.
pub fn find<'a>(written: &str, known: &'a [Known]) -> Result<&'a Known, KindError> {
    let (name, place) = written.split_once('.').map_or((written, None), |(name, place)| (name, Some(place)));
    let found: Vec<&Known> = known.iter().filter(|known| known.is(name, place)).collect();
    match found.as_slice() {
        [one] => Ok(one),
        [] => {
            let names = known.iter().flat_map(|known| &known.names).map(String::as_str);
            let nearest = nearest(name, names).map(str::to_owned);
            Err(KindError::Unknown { written: written.to_owned(), nearest })
        }
        several => {
            const SHOWN: usize = 4;
            let candidates = several.iter().take(SHOWN).map(|known| known.in_full()).collect();
            Err(KindError::Ambiguous { written: written.to_owned(), candidates })
        }
    }
}

/// The kinds of all groups, each in the version that the API server prefers. The core group has no custom resources.
pub async fn known(client: &Client) -> Result<Vec<Known>, kube::Error> {
    Ok(listed(client.list_api_groups_aggregated().await?))
}

fn listed(groups: APIGroupDiscoveryList) -> Vec<Known> {
    let mut all: Vec<Known> = vec![];
    for group in groups.items {
        let name = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
        for version in group.versions {
            let versioned = version.version.unwrap_or_default();
            for resource in version.resources {
                let Some(found) = read_resource(&name, &versioned, resource) else { continue };
                // The preferred version comes first.
                let is_same = |known: &Known| known.in_full() == found.in_full();
                if !all.iter().any(is_same) {
                    all.push(found);
                }
            }
        }
    }
    all
}

fn read_resource(group: &str, version: &str, resource: APIResourceDiscovery) -> Option<Known> {
    let (kind, plural) = (resource.response_kind?.kind?, resource.resource?);
    let gvk = GroupVersionKind::gvk(group, version, &kind);
    let mut names = vec![kind, plural.clone()];
    names.extend(resource.singular_resource.filter(|singular| !singular.is_empty()));
    names.extend(resource.short_names);
    let kind = Kind {
        resource: ApiResource::from_gvk_with_plural(&gvk, &plural),
        namespaced: resource.scope.as_deref() == Some("Namespaced"),
        has_status: resource.subresources.iter().any(|sub| sub.subresource.as_deref() == Some("status")),
        is_manageable: true,
    };
    Some(Known { kind, names })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn both_ways_to_name_it_are_read_and_the_rest_is_left() {
        let expected = Named { kind: "nginx".into(), name: "web".into() };
        for (text, rest) in [("nginx web", 0), ("nginx/web", 0), ("nginx web 3", 1), ("nginx/web 3", 1)] {
            let words = words(text);
            let (named, left) = read(&words).unwrap();
            assert_eq!((named, left.len()), (expected.clone(), rest), "{text}");
        }
    }

    #[test]
    fn what_is_missing_or_too_much_is_said() {
        for (text, expected) in [
            ("", "which custom resource?"),
            ("nginx", "which nginx? Write its name as well"),
            ("nginx/", "\"nginx/\" is no custom resource"),
            ("/web", "\"/web\" is no custom resource"),
            ("a/b/c", "\"a/b/c\" is no custom resource"),
            ("nginx web shop", "what is \"shop\" after web?"),
        ] {
            let error = read_only(&words(text)).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    fn kinds() -> Vec<Known> {
        let resource = |kind: &str, plural: &str, singular: &str, short: &[&str]| {
            json!({"resource": plural, "responseKind": {"group": "", "version": "", "kind": kind}, "scope": "Namespaced",
                "singularResource": singular, "verbs": ["get"], "shortNames": short})
        };
        let list = json!({"items": [
            {"metadata": {"name": "demo.io"}, "versions": [
                {"version": "v2", "resources": [resource("Nginx", "nginxes", "nginx", &["ngx"])]},
                {"version": "v1", "resources": [resource("Nginx", "nginxes", "nginx", &["ngx"])]},
            ]},
            {"metadata": {"name": "a.io"}, "versions": [{"version": "v1", "resources": [resource("Web", "webs", "", &[])]}]},
            {"metadata": {"name": "b.io"}, "versions": [{"version": "v1", "resources": [resource("Web", "webs", "", &[])]}]},
        ]});
        listed(serde_json::from_value(list).unwrap())
    }

    #[test]
    fn a_kind_goes_by_all_its_names_in_any_case() {
        let kinds = kinds();
        for written in ["Nginx", "nginx", "NGINXES", "ngx", "nginxes.demo.io", "Nginx.demo.io", "nginx.v2.demo.io"] {
            let found = find(written, &kinds).unwrap_or_else(|error| panic!("{written}: {error}"));
            assert_eq!(found.kind.resource.api_version, "demo.io/v2", "{written}");
        }
    }

    #[test]
    fn a_word_for_two_kinds_is_refused_and_the_group_decides() {
        let kinds = kinds();
        assert_eq!(
            find("web", &kinds).unwrap_err().to_string(),
            "\"web\" may be webs.a.io or webs.b.io; write one of them"
        );
        assert_eq!(find("webs.b.io", &kinds).unwrap().kind.resource.group, "b.io");
    }

    #[test]
    fn an_unknown_kind_has_a_suggestion() {
        let kinds = kinds();
        assert_eq!(
            find("nginks", &kinds).unwrap_err().to_string(),
            "the cluster knows no kind \"nginks\"; did you mean Nginx?"
        );
        assert_eq!(find("deployment", &kinds).unwrap_err().to_string(), "the cluster knows no kind \"deployment\"");
    }
}
