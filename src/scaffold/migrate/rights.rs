//! The rights that Chartwright uses and operator-sdk did not: rules that join a Role.
//!
//! Pure. What a Role allows already is not added, and nothing is taken away. Rules go before the marker, or to the end.

use serde_json::Value;

use super::Edited;
use crate::scaffold::markers;
use crate::scaffold::rbac::text::{MARKER, is_generated};
use crate::yaml;

/// What the operator uses beside what its charts need.
const OPERATOR: &str = include_str!("../templates/migrate/rules.yaml");
/// What the election of a leader needs. operator-sdk had a ConfigMap for it until 1.5.
pub const LEADER: &str = include_str!("../templates/migrate/leader_rules.yaml");

/// Adds to the operator's role what it uses beside what its charts need. One that was made from the charts has it.
pub fn edit_operator(file: &str, text: &str) -> Edited {
    match is_generated(text) {
        true => Edited { text: text.to_owned(), ..Edited::default() },
        false => edit(file, text, "manager-role", OPERATOR),
    }
}

/// Adds the rules that are missing to the role of this name.
pub fn edit(file: &str, text: &str, name: &str, wanted: &str) -> Edited {
    let mut edited = Edited { text: text.to_owned(), ..Edited::default() };
    let Some(role) = find(text, name) else {
        let resources: Vec<String> = rules(wanted).iter().map(Rule::resources).collect();
        edited.notes.push(format!(
            "{file} has no list of rules that can be added to, and is left as it is; the operator also uses {}",
            resources.join(", ")
        ));
        return edited;
    };
    let is_missing = |rule: &&Rule| !rule.is_in(&role.rules);
    let (mut missing, mut impossible) = (vec![], vec![]);
    let wanted = rules(wanted);
    for rule in wanted.iter().filter(is_missing) {
        match role.is_namespaced && rule.is_of_cluster() {
            true => impossible.push(rule.resources()),
            false => missing.push(rule),
        }
    }
    if !impossible.is_empty() {
        edited.notes.push(format!(
            "{file} is a Role, which cannot allow {}; without it the operator asks for a kind that is missing instead",
            impossible.join(" and ")
        ));
    }
    if missing.is_empty() {
        return edited;
    }
    let resources: Vec<String> = missing.iter().map(|rule| rule.resources()).collect();
    let indented = |rule: &&Rule| rule.text.lines().map(|line| format!("{}{line}\n", role.indent)).collect::<String>();
    let lines: String = missing.iter().map(indented).collect();
    edited.text.insert_str(role.end, &lines);
    edited.why.push(format!("rules for {}, which are used beside what was allowed", resources.join(", ")));
    edited
}

/// A rule and the comment above it.
struct Rule {
    text: String,
    value: Value,
}

fn rules(text: &str) -> Vec<Rule> {
    let mut pieces: Vec<String> = vec![];
    for line in text.split_inclusive('\n') {
        match pieces.last_mut() {
            Some(piece) if !line.starts_with('#') => piece.push_str(line),
            _ => pieces.push(line.to_owned()),
        }
    }
    let rule = |text: String| {
        let value = yaml::parse(&text).ok()?.get(0)?.clone();
        Some(Rule { text, value })
    };
    pieces.into_iter().filter_map(rule).collect()
}

impl Rule {
    fn resources(&self) -> String {
        texts(&self.value, "resources").join(", ")
    }

    fn is_of_cluster(&self) -> bool {
        texts(&self.value, "resources").contains(&"customresourcedefinitions")
    }

    /// Whether others allow all of it.
    fn is_in(&self, others: &[Value]) -> bool {
        let each = |field: &str| texts(&self.value, field).into_iter().map(str::to_owned).collect::<Vec<_>>();
        let (groups, resources, verbs) = (each("apiGroups"), each("resources"), each("verbs"));
        groups.iter().all(|group| {
            resources
                .iter()
                .all(|resource| verbs.iter().all(|verb| others.iter().any(|rule| allows(rule, group, resource, verb))))
        })
    }
}

fn texts<'a>(rule: &'a Value, field: &str) -> Vec<&'a str> {
    rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn allows(rule: &Value, group: &str, resource: &str, verb: &str) -> bool {
    let has = |field: &str, wanted: &str| texts(rule, field).iter().any(|found| *found == wanted || *found == "*");
    rule["resourceNames"].is_null() && has("apiGroups", group) && has("resources", resource) && has("verbs", verb)
}

/// A role in a file.
struct Role {
    is_namespaced: bool,
    rules: Vec<Value>,
    /// Of the items of its list.
    indent: String,
    /// Where a rule can be put in.
    end: usize,
}

/// The role of this name, or the only one.
fn find(text: &str, name: &str) -> Option<Role> {
    let (mut roles, mut at) = (vec![], 0);
    for document in documents(text) {
        let value = yaml::parse(document).unwrap_or_default();
        if matches!(value["kind"].as_str(), Some("Role" | "ClusterRole")) {
            roles.push((value["metadata"]["name"] == name, value, at, document));
        }
        at += document.len();
    }
    let is_only = roles.len() == 1;
    let (_, value, at, document) = roles.into_iter().find(|(is_named, ..)| *is_named || is_only)?;
    let rules = value["rules"].as_array()?.clone();
    let (indent, end) = place(document)?;
    Some(Role { is_namespaced: value["kind"] == "Role", rules, indent, end: at + end })
}

/// The documents of a file. The line between two begins the second.
fn documents(text: &str) -> Vec<&str> {
    let (mut documents, mut start, mut at) = (vec![], 0, 0);
    for line in text.split_inclusive('\n') {
        if line.trim_end() == "---" {
            documents.push(&text[start..at]);
            start = at;
        }
        at += line.len();
    }
    documents.push(&text[start..]);
    documents
}

/// How far in the rules are, and where the last of them ends. None where the rules are not written as lines of their own.
fn place(document: &str) -> Option<(String, usize)> {
    let (mut indent, mut end, mut at) = (None, None, 0);
    let (mut is_inside, marker) = (false, markers::place_of(document, MARKER));
    for line in document.split_inclusive('\n') {
        let bare = line.trim_start();
        if is_inside && marker == Some(at) {
            return Some((indent?, at));
        }
        if bare.starts_with("- ") && is_inside && indent.is_none() {
            indent = Some(line[..line.len() - bare.len()].to_owned());
        }
        // Another field ends the list.
        is_inside = match (line.trim_end(), line.chars().next()) {
            ("rules:", _) => true,
            (_, Some('#' | ' ' | '-' | '\n' | '\r')) => is_inside,
            _ => false,
        };
        at += line.len();
        if is_inside && !bare.trim_end().is_empty() && line.ends_with('\n') {
            end = Some(at);
        }
    }
    Some((indent?, end?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: manager-role\nrules:\n";
    const RULE: &str = "# Theirs.\n- apiGroups: ['']\n  resources: [pods, persistentvolumeclaims]\n  verbs: ['*']\n";

    fn edited(text: &str) -> Edited {
        edit_operator("role.yaml", text)
    }

    #[test]
    fn what_is_missing_joins_before_the_marker_and_the_rest_stays() {
        let text = format!("{HEAD}{RULE}\n#+kubebuilder:scaffold:rules\n");
        let edited = edited(&text);
        let expected = ["customresourcedefinitions", "horizontalpodautoscalers", "events"];
        assert_eq!(edited.why, [format!("rules for {}, which are used beside what was allowed", expected.join(", "))]);
        assert!(edited.text.starts_with(&format!("{HEAD}{RULE}\n# See at once")), "{}", edited.text);
        assert!(edited.text.ends_with("  - patch\n#+kubebuilder:scaffold:rules\n"), "{}", edited.text);
        let parsed = yaml::parse(&edited.text).unwrap();
        assert_eq!(parsed["rules"].as_array().unwrap().len(), 4);
        assert_eq!(self::edited(&edited.text), Edited { text: edited.text, ..Edited::default() });
    }

    #[test]
    fn without_a_marker_rules_go_to_the_end_as_far_in_as_the_others() {
        let rule = "  - apiGroups: ['']\n    resources: ['*']\n    verbs: [get, list]\n";
        let other = "---\nkind: ClusterRole\nmetadata: {name: other}\nrules: []\n";
        let text = format!("# Ours.\n{HEAD}{rule}\n{other}");
        let edited = edited(&text);
        assert!(edited.text.ends_with(&format!("    - patch\n\n{other}")), "{}", edited.text);
        let first = yaml::parse(edited.text.split("---\n").next().unwrap()).unwrap();
        assert_eq!(first["rules"].as_array().unwrap().len(), 4);
    }

    #[test]
    fn everything_allowed_is_enough() {
        let text = format!("{HEAD}- apiGroups: ['*']\n  resources: ['*']\n  verbs: ['*']\n");
        assert_eq!(edited(&text), Edited { text: text.clone(), ..Edited::default() });
    }

    #[test]
    fn a_role_that_was_made_from_the_charts_has_all_it_needs() {
        let text = format!("# Written by `chartwright generate rbac`, from the charts.\n{HEAD}{RULE}");
        assert_eq!(edited(&text), Edited { text: text.clone(), ..Edited::default() });
    }

    #[test]
    fn a_role_cannot_allow_what_is_of_the_cluster_and_that_is_told() {
        let text = HEAD.replace("ClusterRole", "Role") + RULE;
        let edited = edited(&text);
        assert!(!edited.text.contains("customresourcedefinitions") && edited.text.contains("horizontalpodautoscalers"));
        assert!(edited.notes[0].starts_with("role.yaml is a Role, which cannot allow customresourcedefinitions"));
    }

    #[test]
    fn what_cannot_be_read_is_left() {
        for text in [
            "",
            "kind: ConfigMap\n",
            "a: b: c\n",
            "kind: Role\nmetadata: {name: manager-role}\nrules: [{verbs: [get]}]\n",
        ] {
            let edited = edited(text);
            assert_eq!((edited.text.as_str(), edited.notes.len()), (text, 1), "{text}");
        }
    }

    #[test]
    fn the_election_of_a_leader_gets_its_lease() {
        let text = HEAD.replace("manager-role", "leader-election-role")
            + "- apiGroups: ['']\n  resources: [configmaps]\n  verbs: [get]\n";
        let edited = edit("leader.yaml", &text, "leader-election-role", LEADER);
        assert!(edited.why[0].starts_with("rules for leases, events"), "{edited:?}");
    }
}
