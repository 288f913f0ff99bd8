//! What a chart's own Roles and bindings ask of whoever makes them.
//!
//! Pure. The API server lets nobody grant what they do not have. So the operator needs every rule that the chart's Roles have, or the
//! right to `escalate`; and to bind a role that is not the chart's, the right to `bind` it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::reach::trial::SOME_NAMESPACE;

/// What releases are called when charts are rendered here. Whatever has it in its name is called otherwise in a cluster.
pub const RELEASE: &str = "name-of-the-release";

pub const GROUP: &str = "rbac.authorization.k8s.io";

/// A rule, as a Role has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Rule {
    pub groups: Vec<String>,
    pub resources: Vec<String>,
    pub names: Vec<String>,
    pub urls: Vec<String>,
    pub verbs: Vec<String>,
}

impl Rule {
    fn read(rule: &Value) -> Self {
        let texts = |key: &str| {
            let all = rule[key].as_array().into_iter().flatten();
            let mut all: Vec<String> = all.filter_map(Value::as_str).map(str::to_owned).collect();
            all.sort();
            all.dedup();
            all
        };
        let names = texts("resourceNames");
        // Nobody knows what releases will be called, so the operator needs the right for objects of any name.
        let names = if names.iter().all(|name| is_fixed(name)) { names } else { vec![] };
        Rule {
            groups: texts("apiGroups"),
            resources: texts("resources"),
            names,
            urls: texts("nonResourceURLs"),
            verbs: texts("verbs"),
        }
    }

    /// A Role is checked only where it says something.
    fn is_empty(&self) -> bool {
        self.verbs.is_empty() || (self.resources.is_empty() && self.urls.is_empty())
    }

    pub fn is_wild(&self) -> bool {
        [&self.groups, &self.resources, &self.urls, &self.verbs].iter().any(|all| all.iter().any(|it| it == "*"))
    }

    /// `get, list on secrets` for a person.
    pub fn shown(&self) -> String {
        let on = if self.urls.is_empty() { &self.resources } else { &self.urls };
        let groups: Vec<&str> = self.groups.iter().map(String::as_str).filter(|it| !it.is_empty()).collect();
        let of = if groups.is_empty() { String::new() } else { format!(" of {}", groups.join(", ")) };
        format!("{} on {}{of}", self.verbs.join(", "), on.join(", "))
    }
}

/// A Role or ClusterRole of the chart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub role: RoleName,
    /// The chart's file.
    pub file: String,
    pub rules: Vec<Rule>,
    /// Whether its rules are gathered from other roles.
    pub is_aggregated: bool,
    /// Whether a hook makes it.
    pub is_hook: bool,
}

impl Grant {
    /// Takes in what the same role grants elsewhere.
    pub fn join(&mut self, other: Grant) {
        self.is_aggregated |= other.is_aggregated;
        self.is_hook |= other.is_hook;
        let new: Vec<Rule> = other.rules.into_iter().filter(|rule| !self.rules.contains(rule)).collect();
        self.rules.extend(new);
    }
}

/// A RoleBinding or ClusterRoleBinding of the chart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    pub role: RoleName,
    pub file: String,
    /// Whether the binding itself is for the whole cluster.
    pub is_everywhere: bool,
}

/// Which role. As rendered: it may be called after the release.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RoleName {
    pub is_cluster: bool,
    pub name: String,
}

impl RoleName {
    fn of(kind: &str, name: &str) -> Self {
        RoleName { is_cluster: kind == "ClusterRole", name: name.to_owned() }
    }

    /// Whether it is called so in every release.
    pub fn is_fixed(&self) -> bool {
        is_fixed(&self.name)
    }

    pub fn resource(&self) -> &'static str {
        if self.is_cluster { "clusterroles" } else { "roles" }
    }

    /// `ClusterRole <release>-reader`
    pub fn shown(&self) -> String {
        let kind = if self.is_cluster { "ClusterRole" } else { "Role" };
        format!("{kind} {}", shown_name(&self.name))
    }
}

/// A name as a person reads it: `<release>-reader`.
pub fn shown_name(name: &str) -> String {
    name.replace(RELEASE, "<release>").replace(SOME_NAMESPACE, "<namespace>")
}

/// Whether a name is the same in every release.
pub fn is_fixed(name: &str) -> bool {
    !name.contains(RELEASE) && !name.contains(SOME_NAMESPACE)
}

/// What an object grants, if it is a role.
pub fn granted(object: &Value, file: &str, is_hook: bool) -> Option<Grant> {
    let kind = object["kind"].as_str().filter(|kind| matches!(*kind, "Role" | "ClusterRole"))?;
    let rules = object["rules"].as_array().into_iter().flatten().map(Rule::read);
    Some(Grant {
        role: RoleName::of(kind, object.pointer("/metadata/name")?.as_str()?),
        file: file.to_owned(),
        rules: rules.filter(|rule| !rule.is_empty()).collect(),
        is_aggregated: object.get("aggregationRule").is_some_and(|rule| !rule.is_null()),
        is_hook,
    })
}

/// What an object binds, if it is a binding.
pub fn bound(object: &Value, file: &str) -> Option<Bound> {
    let kind = object["kind"].as_str().filter(|kind| matches!(*kind, "RoleBinding" | "ClusterRoleBinding"))?;
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let role = RoleName::of(text("/roleRef/kind")?, text("/roleRef/name")?);
    Some(Bound { role, file: file.to_owned(), is_everywhere: kind == "ClusterRoleBinding" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_role_is_read_as_it_grants() {
        let role = json!({"kind": "ClusterRole", "metadata": {"name": "name-of-the-release-a"}, "rules": [
            {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["list", "get"]},
            {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["name-of-the-release-b"], "verbs": ["*"]},
            {"apiGroups": [""], "resources": [], "verbs": ["get"]},
            {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
        ]});
        let grant = granted(&role, "a.yaml", false).unwrap();
        assert_eq!((grant.role.shown().as_str(), grant.role.is_fixed()), ("ClusterRole <release>-a", false));
        let shown: Vec<String> = grant.rules.iter().map(Rule::shown).collect();
        assert_eq!(shown, ["get, list on nodes, pods", "* on secrets", "get on /metrics"]);
        assert!(grant.rules[1].names.is_empty() && grant.rules[1].is_wild());
        assert_eq!(granted(&json!({"kind": "RoleBinding"}), "a.yaml", false), None);
    }

    #[test]
    fn a_binding_names_its_role() {
        let binding = json!({"kind": "RoleBinding", "roleRef": {"kind": "ClusterRole", "name": "view"}});
        let role = RoleName { is_cluster: true, name: "view".into() };
        assert_eq!(bound(&binding, "b.yaml"), Some(Bound { role, file: "b.yaml".into(), is_everywhere: false }));
    }
}
