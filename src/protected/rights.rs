//! Whether a Role leads to the Secrets of its namespace: by reading them, or by running or entering a pod that has them. Pure.

use serde_json::Value;

use super::is_operator_secret;

pub const GROUP: &str = "rbac.authorization.k8s.io";

/// Group, resource, and the verbs that count; none of them is all of them.
const LEADS: [(&str, &str, &[&str]); 17] = [
    ("", "pods/exec", &[]),
    ("", "pods/attach", &[]),
    ("", "pods/ephemeralcontainers", &[]),
    ("", "serviceaccounts/token", &[]),
    ("", "serviceaccounts", &["impersonate"]),
    ("", "pods", &["create"]),
    ("", "podtemplates", &["create", "update", "patch"]),
    ("", "replicationcontrollers", &["create", "update", "patch"]),
    ("apps", "deployments", &["create", "update", "patch"]),
    ("apps", "daemonsets", &["create", "update", "patch"]),
    ("apps", "statefulsets", &["create", "update", "patch"]),
    ("apps", "replicasets", &["create", "update", "patch"]),
    ("batch", "jobs", &["create", "update", "patch"]),
    ("batch", "cronjobs", &["create", "update", "patch"]),
    (GROUP, "roles", &["create", "update", "patch", "escalate", "bind"]),
    (GROUP, "rolebindings", &["create", "update", "patch", "bind"]),
    (GROUP, "clusterroles", &["bind"]),
];

pub fn leads_to_secrets(role: &Value) -> bool {
    role.get("rules").and_then(Value::as_array).into_iter().flatten().any(rule_leads)
}

fn rule_leads(rule: &Value) -> bool {
    let list = |key: &str| -> Vec<&str> {
        rule.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
    };
    let (groups, resources, verbs, names) =
        (list("apiGroups"), list("resources"), list("verbs"), list("resourceNames"));
    let has = |list: &[&str], wanted: &str| list.contains(&wanted) || list.contains(&"*");
    let is_about = |group: &str, resource: &str| {
        let by_part =
            resource.split_once('/').is_some_and(|(_, part)| resources.contains(&format!("*/{part}").as_str()));
        has(&groups, group) && (has(&resources, resource) || by_part)
    };
    if is_about("", "secrets") && !verbs.is_empty() {
        // A name does not restrict what is created.
        let is_open = names.is_empty() || has(&verbs, "create");
        if is_open || names.iter().any(|name| is_operator_secret(name)) {
            return true;
        }
    }
    LEADS.iter().any(|(group, resource, counted)| {
        let counts = match counted.is_empty() {
            true => !verbs.is_empty(),
            false => counted.iter().any(|verb| has(&verbs, verb)),
        };
        counts && is_about(group, resource)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn leads(group: &str, resources: &[&str], verbs: &[&str], names: &[&str]) -> bool {
        leads_to_secrets(
            &json!({"rules": [{"apiGroups": [group], "resources": resources, "verbs": verbs, "resourceNames": names}]}),
        )
    }

    #[test]
    fn roles_of_ordinary_charts_are_harmless() {
        assert!(!leads("", &["configmaps", "services", "endpoints"], &["*"], &[]));
        assert!(!leads("", &["pods", "pods/log"], &["get", "list", "watch", "delete"], &[]));
        assert!(!leads("coordination.k8s.io", &["leases"], &["create", "get", "update"], &[]));
        assert!(!leads("apps", &["deployments"], &["get", "list"], &[]));
        assert!(!leads("", &["secrets"], &["get", "update"], &["web-tls"]));
        assert!(!leads_to_secrets(&json!({})));
    }

    #[test]
    fn roles_that_read_secrets_or_run_pods_are_not() {
        for (group, resources, verbs, names) in [
            ("", vec!["secrets"], vec!["get"], vec![]),
            ("*", vec!["configmaps", "secrets"], vec!["list"], vec![]),
            ("", vec!["*"], vec!["get"], vec![]),
            ("", vec!["secrets"], vec!["get"], vec!["web", "chartwright-signing-key"]),
            ("", vec!["secrets"], vec!["get"], vec!["chartwright-ledger-0"]),
            ("", vec!["secrets"], vec!["create"], vec!["web"]),
            ("", vec!["pods"], vec!["create"], vec![]),
            ("", vec!["pods/exec"], vec!["create"], vec![]),
            ("", vec!["*/exec"], vec!["get"], vec![]),
            ("", vec!["serviceaccounts/token"], vec!["create"], vec!["web"]),
            ("apps", vec!["deployments"], vec!["patch"], vec!["web"]),
            ("batch", vec!["*"], vec!["*"], vec![]),
            ("rbac.authorization.k8s.io", vec!["rolebindings"], vec!["create"], vec![]),
        ] {
            assert!(leads(group, &resources, &verbs, &names), "{group:?} {resources:?} {verbs:?} {names:?}");
        }
    }
}
