//! What the API server says about itself: its version, its groups, and the kinds in them.
//!
//! Pure. It is kept as the API server says it, so that it can be said again: [`crate::render::gateway`] answers helm from it.
//! Nothing is asked here.

use k8s_openapi::apimachinery::pkg::version::Info;
use kube::core::GroupVersionKind;
use kube::core::ObjectMeta;
use kube::core::discovery::v2::{
    APIGroupDiscovery, APIGroupDiscoveryList, APIResourceDiscovery, APISubresourceDiscovery, APIVersionDiscovery,
    GroupVersionKind as Answered,
};
use kube::discovery::ApiResource;
use serde_json::{Value, json};

use super::Kind;
use crate::chart::brings::Brought;

/// What a release does with its objects.
const MANAGED: [&str; 3] = ["get", "patch", "delete"];
/// What can be done with custom resources.
const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalog {
    pub version: Info,
    /// What `/api` tells.
    pub core: APIGroupDiscoveryList,
    /// What `/apis` tells.
    pub groups: APIGroupDiscoveryList,
}

impl Catalog {
    /// Every group and version that is served, with its resources.
    fn versions(&self) -> impl Iterator<Item = (&str, &APIVersionDiscovery)> {
        let groups = self.core.items.iter().chain(&self.groups.items);
        groups.flat_map(|group| group.versions.iter().map(|version| (name(group), version)))
    }

    /// The kinds of objects, with the way to each.
    pub fn kinds(&self) -> impl Iterator<Item = (GroupVersionKind, Kind)> {
        self.versions().flat_map(|(group, version)| {
            let version_name = text(&version.version);
            version.resources.iter().map(move |resource| {
                let gvk = GroupVersionKind::gvk(group, version_name, kind(resource.response_kind.as_ref()));
                let has_status = resource.subresources.iter().any(|sub| text(&sub.subresource) == "status");
                let resource_way = ApiResource::from_gvk_with_plural(&gvk, text(&resource.resource));
                let is_manageable = MANAGED.iter().all(|verb| resource.verbs.iter().any(|it| it == verb));
                (gvk, Kind { resource: resource_way, namespaced: is_namespaced(resource), has_status, is_manageable })
            })
        })
    }

    /// As a real install lists them: `apps/v1`, `apps/v1/Deployment`, and also `apps/v1/Scale`, which only a part of an object
    /// has.
    pub fn api_versions(&self) -> Vec<String> {
        let mut all = vec![];
        for (group, version) in self.versions() {
            let api_version = api_version(group, text(&version.version));
            let subs = |resource: &APIResourceDiscovery| {
                let subs = resource.subresources.iter();
                subs.map(|sub| kind(sub.response_kind.as_ref()).to_owned()).collect::<Vec<_>>()
            };
            for resource in &version.resources {
                let kinds = [kind(resource.response_kind.as_ref()).to_owned()].into_iter().chain(subs(resource));
                all.extend(kinds.filter(|kind| !kind.is_empty()).map(|kind| format!("{api_version}/{kind}")));
            }
            all.push(api_version);
        }
        all.sort();
        all.dedup();
        all
    }

    /// Whether `--kube-version` makes helm believe in exactly this version: it reads numbers only, and vendors add words.
    pub fn has_plain_version(&self) -> bool {
        let Info { git_version, major, minor, .. } = &self.version;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let numbers: Vec<&str> = git_version.strip_prefix('v').unwrap_or_default().split('.').collect();
        numbers.len() == 3 && numbers.iter().all(|part| is_number(part)) && numbers[..2] == [major, minor]
    }

    /// The same with the kinds that a chart is about to install, as they will be there.
    pub fn with(&self, brought: &[Brought]) -> Catalog {
        let mut catalog = self.clone();
        for one in brought {
            let group = found_or_added(
                &mut catalog.groups.items,
                |it| name(it) == one.group,
                || APIGroupDiscovery {
                    metadata: Some(ObjectMeta { name: Some(one.group.clone()), ..ObjectMeta::default() }),
                    versions: vec![],
                },
            );
            let is_version = |it: &APIVersionDiscovery| text(&it.version) == one.version;
            let version = found_or_added(&mut group.versions, is_version, || APIVersionDiscovery {
                version: Some(one.version.clone()),
                freshness: Some("Current".into()),
                resources: vec![],
            });
            let is_resource = |it: &APIResourceDiscovery| text(&it.resource) == one.plural;
            found_or_added(&mut version.resources, is_resource, || resource(one));
        }
        catalog
    }

    /// Whether whoever serves a version cannot be reached, so that nobody knows what is in it.
    pub fn is_silent(&self, group: &str, version: &str) -> bool {
        self.versions().any(|(name, it)| {
            name == group && text(&it.version) == version && text(&it.freshness) == "Stale" && it.resources.is_empty()
        })
    }

    /// The resources of one group and version, as the older form of discovery lists them.
    pub fn resource_list(&self, group: &str, version: &str) -> Option<Value> {
        let (_, found) = self.versions().find(|(name, it)| *name == group && text(&it.version) == version)?;
        let resources: Vec<Value> =
            found.resources.iter().flat_map(|resource| listed(resource, group, version)).collect();
        Some(json!({
            "kind": "APIResourceList", "apiVersion": "v1",
            "groupVersion": api_version(group, version), "resources": resources,
        }))
    }
}

fn found_or_added<T>(all: &mut Vec<T>, is_it: impl Fn(&T) -> bool, new: impl FnOnce() -> T) -> &mut T {
    let index = all.iter().position(is_it).unwrap_or_else(|| {
        all.push(new());
        all.len() - 1
    });
    &mut all[index]
}

fn resource(brought: &Brought) -> APIResourceDiscovery {
    let answered = |group: &str, version: &str, kind: &str| {
        Some(Answered { group: Some(group.into()), version: Some(version.into()), kind: Some(kind.into()) })
    };
    let own = || answered(&brought.group, &brought.version, &brought.kind);
    let sub = |name: &str, response_kind| APISubresourceDiscovery {
        subresource: Some(name.into()),
        response_kind,
        accepted_types: vec![],
        verbs: ["get", "patch", "update"].map(str::to_owned).to_vec(),
    };
    let status = brought.has_status.then(|| sub("status", own()));
    let scale = brought.has_scale.then(|| sub("scale", answered("autoscaling", "v1", "Scale")));
    APIResourceDiscovery {
        resource: Some(brought.plural.clone()),
        response_kind: own(),
        scope: Some(if brought.is_namespaced { "Namespaced" } else { "Cluster" }.into()),
        singular_resource: Some(brought.singular.clone()),
        verbs: VERBS.map(str::to_owned).to_vec(),
        short_names: brought.short_names.clone(),
        categories: brought.categories.clone(),
        subresources: status.into_iter().chain(scale).collect(),
    }
}

/// A resource and its subresources. What answers in the kind of another group says so.
fn listed(resource: &APIResourceDiscovery, group: &str, version: &str) -> Vec<Value> {
    let plural = text(&resource.resource);
    let namespaced = is_namespaced(resource);
    let item = |name: String, singular: &str, answered: Option<&Answered>, verbs: &[String]| {
        let mut item = json!({
            "name": name, "singularName": singular, "namespaced": namespaced, "kind": kind(answered), "verbs": verbs,
        });
        let (of, at) = answered.map_or((group, version), |it| (text(&it.group), text(&it.version)));
        if (of, at) != (group, version) && !at.is_empty() {
            item["group"] = of.into();
            item["version"] = at.into();
        }
        item
    };
    let singular = text(&resource.singular_resource);
    let mut first = item(plural.to_owned(), singular, resource.response_kind.as_ref(), &resource.verbs);
    if !resource.short_names.is_empty() {
        first["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        first["categories"] = json!(resource.categories);
    }
    let subs = resource.subresources.iter();
    let subs = subs
        .map(|sub| item(format!("{plural}/{}", text(&sub.subresource)), "", sub.response_kind.as_ref(), &sub.verbs));
    [first].into_iter().chain(subs).collect()
}

fn name(group: &APIGroupDiscovery) -> &str {
    group.metadata.as_ref().and_then(|metadata| metadata.name.as_deref()).unwrap_or_default()
}

fn kind(answered: Option<&Answered>) -> &str {
    answered.map_or("", |it| text(&it.kind))
}

fn is_namespaced(resource: &APIResourceDiscovery) -> bool {
    text(&resource.scope) == "Namespaced"
}

fn text(text: &Option<String>) -> &str {
    text.as_deref().unwrap_or_default()
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog() -> Catalog {
        let core = json!({"items": [{"versions": [{"version": "v1", "resources": [
            {"resource": "pods", "responseKind": {"group": "", "version": "v1", "kind": "Pod"}, "scope": "Namespaced",
             "singularResource": "pod", "verbs": ["get"], "shortNames": ["po"], "subresources": [
                {"subresource": "eviction", "responseKind": {"group": "policy", "version": "v1", "kind": "Eviction"}, "verbs": ["create"]},
                {"subresource": "status", "responseKind": {"group": "", "version": "v1", "kind": "Pod"}, "verbs": ["get"]}]}]}]}]});
        let groups = json!({"items": [{"metadata": {"name": "apps"}, "versions": [{"version": "v1", "resources": []},
                {"version": "v2beta1", "freshness": "Stale", "resources": []}]}]});
        let read = |list: Value| serde_json::from_value(list).unwrap();
        Catalog { core: read(core), groups: read(groups), version: Info::default() }
    }

    fn brought(group: &str, plural: &str) -> Brought {
        Brought {
            group: group.into(),
            version: "v1".into(),
            kind: "Widget".into(),
            plural: plural.into(),
            singular: "widget".into(),
            short_names: vec![],
            categories: vec![],
            is_namespaced: true,
            has_status: false,
            has_scale: true,
        }
    }

    #[test]
    fn versions_are_listed_as_a_real_install_lists_them() {
        assert_eq!(catalog().api_versions(), ["apps/v1", "apps/v2beta1", "v1", "v1/Eviction", "v1/Pod"]);
    }

    #[test]
    fn the_older_form_has_subresources_beside_their_resource() {
        let list = catalog().resource_list("", "v1").unwrap();
        let names: Vec<&str> =
            list["resources"].as_array().unwrap().iter().filter_map(|it| it["name"].as_str()).collect();
        assert_eq!(names, ["pods", "pods/eviction", "pods/status"]);
        assert_eq!(list["resources"][1]["group"], "policy");
        assert_eq!(list["resources"][0]["shortNames"], json!(["po"]));
        assert_eq!(list["groupVersion"], "v1");
        assert!(catalog().resource_list("apps", "v2").is_none());
    }

    #[test]
    fn a_version_whose_server_is_away_is_told_from_an_empty_one() {
        let catalog = catalog();
        assert!(catalog.is_silent("apps", "v2beta1"));
        assert!(!catalog.is_silent("apps", "v1") && !catalog.is_silent("apps", "v3") && !catalog.is_silent("", "v1"));
        let brought = Brought { version: "v2beta1".into(), ..brought("apps", "widgets") };
        assert!(!catalog.with(&[brought]).is_silent("apps", "v2beta1"));
    }

    #[test]
    fn what_a_chart_brings_is_added_and_what_is_there_stays() {
        let more = catalog().with(&[brought("apps", "widgets"), brought("example.com", "widgets")]);
        let expected = [
            "apps/v1",
            "apps/v1/Scale",
            "apps/v1/Widget",
            "apps/v2beta1",
            "example.com/v1",
            "example.com/v1/Scale",
            "example.com/v1/Widget",
        ];
        assert_eq!(more.api_versions()[..7], expected);
        assert_eq!(more.with(&[brought("apps", "widgets")]), more);
    }

    #[test]
    fn a_vendors_version_is_not_plain() {
        let of = |git_version: &str, minor: &str| Catalog {
            version: Info {
                git_version: git_version.into(),
                major: "1".into(),
                minor: minor.into(),
                ..Info::default()
            },
            ..Catalog::default()
        };
        assert!(of("v1.36.3", "36").has_plain_version());
        for (git_version, minor) in [("v1.33.4-gke.1245000", "33"), ("v1.33.4", "33+"), ("", "33"), ("v1.33", "33")] {
            assert!(!of(git_version, minor).has_plain_version(), "{git_version} {minor}");
        }
    }
}
