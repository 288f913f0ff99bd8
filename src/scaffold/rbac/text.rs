//! Rights as the text of config/rbac/role.yaml, with a comment above each rule.
//!
//! Pure. The same rights give the same text. What a person wrote below the line [`MARKER`] is kept, to the letter.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::Files;
use super::grants::Rule;
use super::rights::{Granted, Need, Needs, Reason, Verb};
use crate::scaffold::markers;
use crate::scaffold::template::fill;

/// The last line that is ours, a comment. Rules below it are a person's. operator-sdk ends its rules with it too.
pub const MARKER: &str = "+kubebuilder:scaffold:rules";

const HEADER: &str = include_str!("role.yaml");
const CLUSTER_HEADER: &str = include_str!("cluster_role.yaml");
const NAMESPACED_HEADER: &str = include_str!("namespaced_role.yaml");
const BINDINGS: &str = include_str!("namespaced_role_binding.yaml");

/// What the text depends on beside the rights.
pub struct Style<'a> {
    /// The project, for labels.
    pub name: &'a str,
    /// With which flags it was made.
    pub flags: &'a str,
    pub is_namespaced: bool,
    /// What follows the marker.
    pub by_hand: &'a str,
}

/// The rules of one role that are alike: same group, same verbs, same reasons.
type Alike<'a> = (Vec<Reason>, &'a str, Vec<Verb>, Vec<&'a str>);

pub fn role(needs: &Needs, style: &Style<'_>) -> String {
    let with = |header: &str| fill(header, &[("project", style.name), ("flags", style.flags)]);
    let mut text = match style.is_namespaced {
        false => with(HEADER) + &rules(needs, |_| true),
        true => {
            let of_cluster = rules(needs, |is_namespaced| !is_namespaced);
            with(CLUSTER_HEADER) + &of_cluster + &with(NAMESPACED_HEADER) + &rules(needs, |is_namespaced| is_namespaced)
        }
    };
    text.push_str(&format!("# {MARKER}\n{}", style.by_hand));
    text
}

/// The bindings of an operator that looks at named namespaces only.
pub fn bindings(name: &str) -> String {
    fill(BINDINGS, &[("project", name)])
}

/// Whether the text of a role was made here, from charts.
pub fn is_generated(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("# Written by `chartwright generate rbac"))
}

/// What a person wrote below the marker of a file.
pub fn by_hand(text: &str) -> &str {
    markers::below(text, MARKER).unwrap_or_default()
}

/// With which flags a file was made. None where somebody else made it.
pub fn flags_of(text: &str) -> Vec<&str> {
    let command = text.lines().find_map(|line| line.strip_prefix("# Written by `chartwright generate rbac"));
    let flags = command.and_then(|rest| rest.split_once('`')).map_or("", |(flags, _)| flags);
    flags.split_whitespace().collect()
}

/// The value of `app.kubernetes.io/name` in a file.
pub fn name_of(text: &str) -> Option<&str> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix("app.kubernetes.io/name:"))?;
    Some(line.trim()).filter(|name| !name.is_empty())
}

fn rules(needs: &Needs, is_meant: impl Fn(bool) -> bool) -> String {
    let mut text = String::new();
    let mut alike: BTreeMap<Alike<'_>, Vec<&Need>> = BTreeMap::new();
    for need in needs.all.iter().filter(|need| is_meant(need.is_namespaced)) {
        let reasons = need.why.keys().copied().collect();
        let verbs = need.verbs.iter().copied().collect();
        let names = need.names.iter().map(String::as_str).collect();
        alike.entry((reasons, &need.group, verbs, names)).or_default().push(need);
    }
    for ((_, group, verbs, names), needs) in alike {
        comment(&mut text, &needs);
        let resources: BTreeSet<&str> = needs.iter().map(|need| need.resource.as_str()).collect();
        let mut list = List { text: &mut text, is_first: true };
        list.add("apiGroups", [group]);
        list.add("resources", resources);
        list.add("resourceNames", names);
        list.add("verbs", verbs.into_iter().map(Verb::as_str));
    }
    for granted in needs.granted.iter().filter(|it| is_meant(!it.is_cluster)) {
        grant(&mut text, granted);
    }
    text
}

fn comment(text: &mut String, needs: &[&Need]) {
    let mut why: BTreeMap<Reason, Files> = BTreeMap::new();
    for (reason, files) in needs.iter().flat_map(|need| &need.why) {
        let known = why.entry(*reason).or_default();
        for (file, is_seen) in files {
            *known.entry(file.clone()).or_default() |= is_seen;
        }
    }
    for (reason, files) in why {
        text.push_str(&format!("# {}\n", reason.sentence()));
        for (file, is_seen) in files {
            let note = if is_seen { "" } else { " (named there; no render made it)" };
            text.push_str(&format!("# {file}{note}\n"));
        }
    }
}

fn grant(text: &mut String, granted: &Granted) {
    for (role, files) in &granted.by {
        text.push_str(&format!(
            "# The charts' {} grants this, and nobody can grant what they do not have:\n",
            role.shown()
        ));
        files.iter().for_each(|file| text.push_str(&format!("# {file}\n")));
    }
    let Rule { groups, resources, names, urls, verbs } = &granted.rule;
    let mut list = List { text, is_first: true };
    for (key, values) in [
        ("apiGroups", groups),
        ("resources", resources),
        ("resourceNames", names),
        ("nonResourceURLs", urls),
        ("verbs", verbs),
    ] {
        list.add(key, values.iter().map(String::as_str));
    }
}

/// The fields of a rule, which is an item of a list itself.
struct List<'a> {
    text: &'a mut String,
    is_first: bool,
}

impl List<'_> {
    fn add<'a>(&mut self, key: &str, values: impl IntoIterator<Item = &'a str>) {
        let mut values = values.into_iter().peekable();
        if values.peek().is_none() {
            return;
        }
        let begin = if std::mem::take(&mut self.is_first) { "- " } else { "  " };
        self.text.push_str(&format!("{begin}{key}:\n"));
        values.for_each(|value| self.text.push_str(&format!("  - {}\n", scalar(value))));
    }
}

/// A text as YAML has it, in quotes where it would be read as something else.
fn scalar(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:".contains(&byte);
    let may_begin = |byte: u8| byte.is_ascii_alphabetic() || byte == b'/';
    let means_more = ["true", "false", "yes", "no", "on", "off", "y", "n", "null"];
    let is_word = text.bytes().all(is_plain)
        && text.bytes().next().is_some_and(may_begin)
        && !text.ends_with(':')
        && !means_more.contains(&text.to_ascii_lowercase().as_str());
    match text {
        "*" => "'*'".to_owned(),
        _ if is_word => text.to_owned(),
        _ => serde_json::Value::from(text).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(resource: &str, is_namespaced: bool, verbs: &[Verb], why: &[(Reason, &[(&str, bool)])]) -> Need {
        let files = |files: &[(&str, bool)]| files.iter().map(|(file, seen)| ((*file).to_owned(), *seen)).collect();
        Need {
            group: String::new(),
            resource: resource.into(),
            is_namespaced,
            names: BTreeSet::new(),
            verbs: verbs.iter().copied().collect(),
            why: why.iter().map(|(reason, names)| (*reason, files(names))).collect(),
        }
    }

    fn needs() -> Needs {
        let needs = Needs {
            all: vec![
                need("services", true, &[Verb::Get], &[(Reason::Made, &[("c/templates/s.yaml", true)])]),
                need("configmaps", true, &[Verb::Get], &[(Reason::Made, &[("c/templates/c.yaml", false)])]),
                need("secrets", true, &[Verb::Get], &[(Reason::Recorded, &[])]),
                need("nodes", false, &[Verb::Get], &[(Reason::LookedUp, &[])]),
            ],
            ..Needs::default()
        };
        Needs::joined([needs], false)
    }

    fn style(is_namespaced: bool) -> Style<'static> {
        Style { name: "shop", flags: "", is_namespaced, by_hand: "- apiGroups: [a]\n" }
    }

    #[test]
    fn what_is_alike_is_one_rule_with_all_its_files() {
        let text = role(&needs(), &style(false));
        let rule = "# What the charts make:\n# c/templates/c.yaml (named there; no render made it)\n# c/templates/s.yaml\n\
                    - apiGroups:\n  - \"\"\n  resources:\n  - configmaps\n  - services\n  verbs:\n  - get\n";
        assert!(text.contains(rule), "{text}");
        assert!(text.ends_with("# +kubebuilder:scaffold:rules\n- apiGroups: [a]\n"), "{text}");
        assert!(text.contains("app.kubernetes.io/name: shop\n") && !text.contains('@'), "{text}");
        let read = crate::yaml::documents(&text.replace("[a]", "[a]\n  resources: [b]\n  verbs: [c]")).unwrap();
        assert_eq!(read[0]["rules"].as_array().unwrap().len(), 4);
    }

    #[test]
    fn named_namespaces_need_a_role_and_a_small_cluster_role() {
        let text = role(&needs(), &style(true));
        let documents = crate::yaml::documents(&text).unwrap();
        let rules = |index: usize| documents[index]["rules"].to_string();
        assert_eq!((documents[0]["kind"].as_str(), documents[1]["kind"].as_str()), (Some("ClusterRole"), Some("Role")));
        assert!(rules(0).contains("nodes") && !rules(0).contains("secrets"), "{text}");
        assert!(rules(1).contains("secrets") && !rules(1).contains("nodes"), "{text}");
        let bound = crate::yaml::documents(&bindings("shop")).unwrap();
        assert_eq!((bound.len(), bound[1]["kind"].as_str()), (2, Some("RoleBinding")));
    }

    #[test]
    fn what_is_written_by_hand_is_kept_to_the_letter() {
        let text = role(&needs(), &style(false));
        assert_eq!(by_hand(&text), "- apiGroups: [a]\n");
        assert_eq!(by_hand("rules:\n"), "");
        assert_eq!(by_hand("rules:\n#+kubebuilder:scaffold:rules\n- b\n"), "- b\n", "as older projects write it");
        assert_eq!(name_of(&text), Some("shop"));
        assert!(is_generated(&text) && is_generated(&role(&needs(), &style(true))) && !is_generated("rules:\n"));
    }

    #[test]
    fn a_file_says_with_which_flags_it_was_made() {
        let of = |flags, is_namespaced| role(&needs(), &Style { flags, ..style(is_namespaced) });
        assert_eq!(flags_of(&of("", false)), [""; 0]);
        assert_eq!(flags_of(&of(" --escalate", false)), ["--escalate"]);
        assert_eq!(flags_of(&of(" --namespaced --escalate", true)), ["--namespaced", "--escalate"]);
        assert_eq!(flags_of("rules: []\n"), [""; 0]);
    }

    #[test]
    fn texts_stay_texts() {
        let all = ["", "*", "no", "0", "a-b.c/d", "/metrics/*", "system:auth"].map(scalar);
        assert_eq!(all, ["\"\"", "'*'", "\"no\"", "\"0\"", "a-b.c/d", "\"/metrics/*\"", "system:auth"]);
    }
}
