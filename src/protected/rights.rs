//! Whether a Role leads to the operator's rights or against them: by reading Secrets, by running, changing or entering a pod that has
//! them, or by writing what the operator needs to work. Pure.

use std::collections::HashSet;

use serde_json::Value;

use crate::sensitive::METRICS_CA;

pub const GROUP: &str = "rbac.authorization.k8s.io";

const WRITE: &[&str] = &["create", "update", "patch", "delete", "deletecollection"];
const SCALE: &[&str] = &["update", "patch"];

/// Group, resource, and the verbs that count; none of them is all of them.
const LEADS: [(&str, &str, &[&str]); 28] = [
    ("", "pods/exec", &[]),
    ("", "pods/attach", &[]),
    ("", "pods/ephemeralcontainers", &[]),
    ("", "serviceaccounts/token", &[]),
    // Without its ServiceAccount the operator has no rights, and one that is made again has another UID.
    ("", "serviceaccounts", &["impersonate", "update", "patch", "delete", "deletecollection"]),
    // The image of a pod that runs can be changed.
    ("", "pods", &["create", "update", "patch"]),
    ("", "podtemplates", WRITE),
    ("", "replicationcontrollers", WRITE),
    ("", "replicationcontrollers/scale", SCALE),
    ("apps", "deployments", WRITE),
    ("apps", "deployments/scale", SCALE),
    ("apps", "daemonsets", WRITE),
    ("apps", "statefulsets", WRITE),
    ("apps", "statefulsets/scale", SCALE),
    ("apps", "replicasets", WRITE),
    ("apps", "replicasets/scale", SCALE),
    ("batch", "jobs", WRITE),
    ("batch", "cronjobs", WRITE),
    ("autoscaling", "horizontalpodautoscalers", WRITE),
    ("networking.k8s.io", "networkpolicies", WRITE),
    ("", "resourcequotas", WRITE),
    ("", "limitranges", WRITE),
    ("policy", "poddisruptionbudgets", WRITE),
    (GROUP, "roles", &["create", "update", "patch", "delete", "deletecollection", "escalate", "bind"]),
    (GROUP, "rolebindings", &["create", "update", "patch", "delete", "deletecollection", "bind"]),
    (GROUP, "clusterroles", &["bind"]),
    ("coordination.k8s.io", "leases", WRITE),
    // Prometheus trusts what is in one of them.
    ("", "configmaps", WRITE),
];

/// # Arguments
/// `secrets`: the names of those that the release itself makes there.
/// `lease`: the name of the operator's own, if it is there.
pub fn leads(role: &Value, secrets: &HashSet<&str>, lease: Option<&str>) -> bool {
    let rules = role.get("rules").and_then(Value::as_array);
    rules.into_iter().flatten().any(|rule| Rule::of(rule).leads(secrets, lease))
}

struct Rule<'a> {
    groups: Vec<&'a str>,
    resources: Vec<&'a str>,
    verbs: Vec<&'a str>,
    names: Vec<&'a str>,
}

impl<'a> Rule<'a> {
    fn of(rule: &'a Value) -> Self {
        let list = |key: &str| -> Vec<&'a str> {
            rule.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
        };
        Rule {
            groups: list("apiGroups"),
            resources: list("resources"),
            verbs: list("verbs"),
            names: list("resourceNames"),
        }
    }

    fn leads(&self, secrets: &HashSet<&str>, lease: Option<&str>) -> bool {
        let is_about_others =
            |own: &dyn Fn(&str) -> bool| self.names.is_empty() || !self.names.iter().all(|it| own(it));
        // What is created need not be there yet, so a name says nothing about it.
        let reads_secrets = self.is_about("", "secrets")
            && !self.verbs.is_empty()
            && (self.may("create") || is_about_others(&|name| is_one_of(secrets, name)));
        // A name that is not the operator's leads nowhere.
        let is_of_others = |resource: &str| match resource {
            "leases" => !is_about_others(&|name| lease != Some(name)),
            "configmaps" => !is_about_others(&|name| name != METRICS_CA),
            _ => false,
        };
        let counts = |verbs: &[&str]| match verbs.is_empty() {
            true => !self.verbs.is_empty(),
            false => verbs.iter().any(|verb| self.may(verb)),
        };
        let is_listed = LEADS
            .iter()
            .any(|(group, resource, verbs)| counts(verbs) && self.is_about(group, resource) && !is_of_others(resource));
        reads_secrets || is_listed
    }

    fn may(&self, verb: &str) -> bool {
        has(&self.verbs, verb)
    }

    fn is_about(&self, group: &str, resource: &str) -> bool {
        let by_part =
            resource.split_once('/').is_some_and(|(_, part)| self.resources.contains(&format!("*/{part}").as_str()));
        has(&self.groups, group) && (has(&self.resources, resource) || by_part)
    }
}

fn is_one_of(secrets: &HashSet<&str>, name: &str) -> bool {
    #[cfg(test)]
    crate::steps::count();
    secrets.contains(name)
}

fn has(list: &[&str], wanted: &str) -> bool {
    list.contains(&wanted) || list.contains(&"*")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// In a release that makes the Secret `web-tls`.
    fn leads_by(group: &str, resources: &[&str], verbs: &[&str], names: &[&str]) -> bool {
        let rule = json!({"apiGroups": [group], "resources": resources, "verbs": verbs, "resourceNames": names});
        leads(&json!({"rules": [rule]}), &HashSet::from(["web-tls"]), Some("own-lease"))
    }

    #[test]
    fn roles_of_ordinary_charts_are_harmless() {
        assert!(!leads_by("", &["services", "endpoints"], &["*"], &[]));
        assert!(!leads_by("", &["configmaps", "serviceaccounts"], &["get", "list", "watch"], &[]));
        assert!(!leads_by("", &["configmaps"], &["create", "update"], &["web-leader"]));
        assert!(!leads_by("", &["serviceaccounts"], &["create"], &[]));
        assert!(!leads_by("", &["pods", "pods/log"], &["get", "list", "watch", "delete"], &[]));
        assert!(!leads_by("coordination.k8s.io", &["leases"], &["get", "list", "watch"], &[]));
        assert!(!leads_by("coordination.k8s.io", &["leases"], &["get", "update"], &["web-leader"]));
        assert!(!leads_by("apps", &["deployments"], &["get", "list"], &[]));
        assert!(!leads_by("", &["secrets"], &["get", "update"], &["web-tls"]));
        assert!(!leads(&json!({}), &HashSet::new(), None));
    }

    #[test]
    fn roles_that_lead_to_the_operators_rights_or_against_them_are_not() {
        for (group, resources, verbs, names) in [
            ("", vec!["secrets"], vec!["get"], vec![]),
            ("*", vec!["configmaps", "secrets"], vec!["list"], vec![]),
            ("", vec!["*"], vec!["get"], vec![]),
            ("", vec!["secrets"], vec!["get"], vec!["web-tls", "chartwright-signing-key"]),
            ("", vec!["secrets"], vec!["get"], vec!["chartwright-ledger-0"]),
            ("", vec!["secrets"], vec!["patch"], vec!["chartwright-public-key"]),
            ("", vec!["secrets"], vec!["get"], vec!["chartwright-metrics-ca"]),
            ("", vec!["secrets"], vec!["get"], vec!["manager-token-x2x7k"]),
            ("", vec!["secrets"], vec!["create"], vec!["web-tls"]),
            ("", vec!["pods"], vec!["create"], vec![]),
            ("", vec!["pods"], vec!["patch"], vec!["op-manager-5d8f7c9b6d-x2x7k"]),
            ("", vec!["pods"], vec!["update"], vec![]),
            ("", vec!["pods/exec"], vec!["create"], vec![]),
            ("", vec!["*/exec"], vec!["get"], vec![]),
            ("", vec!["serviceaccounts/token"], vec!["create"], vec!["web"]),
            ("", vec!["serviceaccounts"], vec!["delete"], vec![]),
            ("", vec!["serviceaccounts"], vec!["update"], vec!["op-controller-manager"]),
            ("", vec!["serviceaccounts"], vec!["patch"], vec![]),
            ("", vec!["configmaps"], vec!["update"], vec![]),
            ("", vec!["configmaps"], vec!["patch"], vec!["web", "chartwright-metrics-ca"]),
            ("", vec!["*"], vec!["delete"], vec!["chartwright-metrics-ca"]),
            ("apps", vec!["deployments"], vec!["patch"], vec!["web"]),
            ("apps", vec!["deployments"], vec!["delete"], vec![]),
            ("apps", vec!["deployments/scale"], vec!["patch"], vec![]),
            ("batch", vec!["*"], vec!["*"], vec![]),
            ("rbac.authorization.k8s.io", vec!["rolebindings"], vec!["create"], vec![]),
            ("rbac.authorization.k8s.io", vec!["roles"], vec!["delete"], vec![]),
            ("networking.k8s.io", vec!["networkpolicies"], vec!["create"], vec![]),
            ("coordination.k8s.io", vec!["leases"], vec!["create", "get", "update"], vec![]),
            ("coordination.k8s.io", vec!["leases"], vec!["update"], vec!["web-leader", "own-lease"]),
            ("coordination.k8s.io", vec!["leases"], vec!["delete"], vec!["own-lease"]),
        ] {
            assert!(leads_by(group, &resources, &verbs, &names), "{group:?} {resources:?} {verbs:?} {names:?}");
        }
    }
}
