//! All that a chart can make, as far as renders and its templates tell.
//!
//! Pure: text that helm printed, and what stands in templates, become kinds with the files that make them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::grants::{self, Bound, Grant};
use super::kinds::{GroupKind, Kinds};
use super::scan::{Mention, Scan};
use crate::manifest::Printed;
use crate::object::split_api_version;

/// What an object is for the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Use {
    /// It is part of the release.
    Object,
    /// It is made and removed at events of the release's life.
    Hook,
    /// It is in crds/.
    Crds,
}

/// The files that need something. Those that only name it, and made it in no render, are false.
pub type Files = BTreeMap<String, bool>;

/// What a chart can make, and what it asks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Findings {
    pub kinds: Kinds,
    #[serde(with = "pairs")]
    pub made: BTreeMap<(GroupKind, Use), Files>,
    /// Kinds that templates look up, and whether all objects of one.
    #[serde(with = "pairs")]
    pub looked_up: BTreeMap<GroupKind, (bool, Files)>,
    pub grants: Vec<Grant>,
    pub bound: Vec<Bound>,
    /// Files with a Role whose rules are values.
    pub open_rules: Vec<String>,
    /// Kinds whose group differs from release to release.
    moving: BTreeSet<String>,
    /// Whether anything has a number of replicas, which an autoscaler may govern.
    pub has_replicas: bool,
    pub notes: Vec<String>,
}

impl Findings {
    /// Takes in what one render made.
    pub fn add(&mut self, printed: &[Printed]) {
        for it in printed {
            let is_test = |events: &Vec<String>| events.iter().all(|event| event == "test");
            let text = |key: &str| it.object.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
            let (Some(api_version), Some(kind)) = (text("apiVersion"), text("kind")) else { continue };
            if it.hook.as_ref().is_some_and(is_test) {
                continue;
            }
            let group = split_api_version(api_version).0.to_owned();
            if !grants::is_fixed(&group) {
                self.note_moving_group(&group, kind, in_chart(&it.file));
                continue;
            }
            let defines = it.object.pointer("/spec/group").and_then(Value::as_str).unwrap_or_default();
            if kind == "CustomResourceDefinition" && grants::is_fixed(defines) {
                self.kinds.learn(&it.object);
            }
            let as_what = match &it.hook {
                _ if it.is_of_crds => Use::Crds,
                Some(_) => Use::Hook,
                None => Use::Object,
            };
            let file = in_chart(&it.file);
            self.has_replicas |= it.object.pointer("/spec/replicas").is_some();
            if group == grants::GROUP {
                self.add_role(&it.object, file, it.hook.is_some());
            }
            self.made.entry(((group, kind.to_owned()), as_what)).or_default().insert(file.to_owned(), true);
        }
    }

    fn note_moving_group(&mut self, group: &str, kind: &str, file: &str) {
        let group = grants::shown_name(group);
        let note = format!(
            "{file}: the kind {kind} has the group {group}, which differs from release to release; add an RBAC rule for each to config/rbac/role.yaml"
        );
        if self.moving.insert(kind.to_owned()) {
            self.notes.push(note);
        }
    }

    fn add_role(&mut self, object: &Value, file: &str, is_hook: bool) {
        if let Some(grant) = grants::granted(object, file, is_hook) {
            // The same role may grant more in another render.
            match self.grants.iter_mut().find(|known| (&known.role, &known.file) == (&grant.role, &grant.file)) {
                Some(known) => known.join(grant),
                None => self.grants.push(grant),
            }
        }
        if let Some(bound) = grants::bound(object, file).filter(|it| !self.bound.contains(it)) {
            self.bound.push(bound);
        }
    }

    /// Adds what templates name and no render made, once all renders are known.
    pub fn add_scan(&mut self, scan: &Scan) {
        let seen: BTreeSet<(GroupKind, Use)> = self.made.keys().cloned().collect();
        for mention in &scan.mentions {
            self.add_mention(mention, &seen);
        }
        for lookup in &scan.lookups {
            let group = split_api_version(&lookup.api_version).0.to_owned();
            let (is_list, files) = self.looked_up.entry((group, lookup.kind.clone())).or_default();
            *is_list |= lookup.is_list;
            files.insert(lookup.file.clone(), true);
        }
        self.open_rules.clone_from(&scan.open_rules);
        self.open_rules.sort();
        self.open_rules.dedup();
        self.note_unclear(scan);
    }

    fn add_mention(&mut self, mention: &Mention, seen: &BTreeSet<(GroupKind, Use)>) {
        let Mention { file, kind, api_versions, is_hook } = mention;
        let groups: BTreeSet<&str> = api_versions.iter().map(|it| split_api_version(it).0).collect();
        // Kubernetes itself left these behind long ago; charts still offer them to clusters of then.
        let is_past = |group: &str| group == "extensions" || (group, kind.as_str()) == ("policy", "PodSecurityPolicy");
        let known: Vec<&str> = groups.iter().copied().filter(|group| self.kinds.known(group, kind).is_some()).collect();
        let groups: Vec<String> = match (known.is_empty(), groups.is_empty()) {
            (false, _) => known.into_iter().map(str::to_owned).collect(),
            (true, false) => groups.into_iter().map(str::to_owned).collect(),
            (true, true) => match self.kinds.group_of(kind) {
                Some(group) => vec![group],
                None if seen.iter().any(|((_, known), _)| known == kind) => {
                    let of_kind = seen.iter().filter(|((_, known), _)| known == kind);
                    of_kind.map(|((group, _), _)| group.clone()).collect()
                }
                None if self.moving.contains(kind) => return,
                None => {
                    self.notes.push(format!(
                        "{file}: the group of the kind {kind} is an expression, and no render created an object of it; if the chart does, add an RBAC rule to config/rbac/role.yaml"
                    ));
                    return;
                }
            },
        };
        // What is done with objects is done with hooks too, but not the other way round; and in crds/ nothing is ever deleted.
        let (as_what, enough): (Use, &[Use]) = match is_hook {
            true => (Use::Hook, &[Use::Object, Use::Hook]),
            false => (Use::Object, &[Use::Object]),
        };
        for group in groups.into_iter().filter(|group| !is_past(group)) {
            let key = (group, kind.clone());
            if !enough.iter().any(|it| seen.contains(&(key.clone(), *it))) {
                self.made.entry((key, as_what)).or_default().entry(file.clone()).or_insert(false);
            }
        }
    }

    fn note_unclear(&mut self, scan: &Scan) {
        let tail = |file: &str| file.rsplit_once("templates/").map_or(file, |(_, tail)| tail).to_owned();
        let made: BTreeSet<String> = self.made.values().flat_map(|files| files.keys().map(|file| tail(file))).collect();
        let mut notes = BTreeSet::new();
        for file in scan.unclear_kinds.iter().filter(|file| !made.contains(&tail(file))) {
            notes.insert(format!(
                "{file}: its kind is an expression, and no render created an object from it; add RBAC rules for what it creates to config/rbac/role.yaml"
            ));
        }
        for file in scan.without_kind.iter().filter(|file| !made.contains(&tail(file))) {
            notes.insert(format!(
                "{file}: it names no kind, and no render created an object from it; if your values do, add RBAC rules for their kinds to config/rbac/role.yaml"
            ));
        }
        for file in &scan.unclear_lookups {
            notes.insert(format!(
                "{file}: it looks up a kind that is an expression; add an RBAC rule with `get` and `list` to config/rbac/role.yaml"
            ));
        }
        self.notes.extend(notes);
    }
}

/// A map whose keys are no texts, as a list of pairs: JSON has no other way.
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(map)
    }

    pub fn deserialize<'a, K: Deserialize<'a> + Ord, V: Deserialize<'a>, D: Deserializer<'a>>(
        from: D,
    ) -> Result<BTreeMap<K, V>, D::Error> {
        Ok(Vec::<(K, V)>::deserialize(from)?.into_iter().collect())
    }
}

/// `templates/a.yaml` of `nginx/templates/a.yaml`.
fn in_chart(file: &str) -> &str {
    file.split_once('/').map_or(file, |(_, rest)| rest)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::scan::scan;
    use super::super::tree::Tree;
    use super::*;
    use crate::manifest::survey;

    pub const RENDERED: &str = "\
---
# Source: app/crds/gears.yaml
{kind: CustomResourceDefinition, apiVersion: apiextensions.k8s.io/v1, metadata: {name: g}, spec: {group: example.com,
  scope: Namespaced, names: {kind: Gear, plural: gearwheels}, versions: [{name: v1, served: true}]}}
---
# Source: app/templates/deployment.yaml
{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 1}}
---
# Source: app/templates/job.yaml
{apiVersion: batch/v1, kind: Job, metadata: {name: j, annotations: {helm.sh/hook: pre-install}}}
---
# Source: app/templates/tests/pod.yaml
{apiVersion: v1, kind: Pod, metadata: {name: t, annotations: {helm.sh/hook: test}}}
";

    fn findings(templates: &[(&str, &str)]) -> Findings {
        let mut findings = Findings::default();
        findings.add(&survey(RENDERED));
        findings.add_scan(&scan(&Tree::of(templates.iter().copied())));
        findings
    }

    fn kinds(findings: &Findings) -> Vec<String> {
        let shown = |((group, kind), as_what): &(GroupKind, Use), files: &Files| {
            let files: Vec<String> =
                files.iter().map(|(file, is_seen)| if *is_seen { file.clone() } else { format!("({file})") }).collect();
            format!("{as_what:?} {kind}.{group} {}", files.join(" "))
        };
        findings.made.iter().map(|(key, files)| shown(key, files)).collect()
    }

    #[test]
    fn objects_hooks_and_crds_are_told_apart_and_tests_left_out() {
        let findings = findings(&[]);
        let expected = [
            "Crds CustomResourceDefinition.apiextensions.k8s.io crds/gears.yaml",
            "Object Deployment.apps templates/deployment.yaml",
            "Hook Job.batch templates/job.yaml",
        ];
        assert_eq!(kinds(&findings), expected);
        assert!(findings.has_replicas && findings.notes.is_empty());
        assert_eq!(findings.kinds.place("example.com", "Gear").plural, "gearwheels");
    }

    #[test]
    fn templates_add_what_no_render_made() {
        let text = "apiVersion: {{ include \"a\" . }}\nkind: Ingress\n---\napiVersion: apps/v1\nkind: Deployment\n---\n\
                    apiVersion: {{ x }}\nkind: Gear\n---\napiVersion: extensions/v1beta1\nkind: Ingress\n---\n\
                    apiVersion: {{ x }}\nkind: Wheel\n";
        let findings = findings(&[("templates/a.yaml", text)]);
        let kinds = kinds(&findings);
        for expected in
            ["Object Ingress.networking.k8s.io (templates/a.yaml)", "Object Gear.example.com (templates/a.yaml)"]
        {
            assert!(kinds.iter().any(|it| it == expected), "{kinds:?}");
        }
        assert_eq!(kinds.len(), 5, "{kinds:?}");
        assert!(findings.notes.len() == 1 && findings.notes[0].contains("Wheel"), "{:?}", findings.notes);
    }

    #[test]
    fn a_kind_that_was_only_a_hook_or_in_crds_is_an_object_too_where_a_template_names_one() {
        let hook = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  annotations:\n    helm.sh/hook: pre-install\n";
        let of_hooks = findings(&[("templates/b.yaml", hook)]);
        assert_eq!(kinds(&of_hooks), kinds(&findings(&[])), "a hook was made already");
        let objects = "apiVersion: batch/v1\nkind: Job\n---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n";
        let kinds = kinds(&findings(&[("templates/b.yaml", objects)]));
        for expected in [
            "Object Job.batch (templates/b.yaml)",
            "Object CustomResourceDefinition.apiextensions.k8s.io (templates/b.yaml)",
        ] {
            assert!(kinds.iter().any(|it| it == expected), "{kinds:?}");
        }
        let as_object =
            findings(&[("templates/b.yaml", &hook.replace("batch/v1", "apps/v1").replace("Job", "Deployment"))]);
        assert_eq!(as_object.made.len(), 3, "more is done with objects than with hooks");
    }

    #[test]
    fn a_group_that_differs_from_release_to_release_is_told_once() {
        let text = "---\n# Source: app/templates/a.yaml\n{apiVersion: namespace-of-the-release.example.com/v1, kind: Plan, metadata: {name: a}}\n";
        let mut findings = Findings::default();
        findings.add(&survey(text));
        findings.add(&survey(text));
        let template = ("templates/a.yaml", "apiVersion: {{ .Release.Namespace }}.example.com/v1\nkind: Plan\n");
        findings.add_scan(&scan(&Tree::of([template])));
        assert!(findings.made.is_empty() && findings.notes.len() == 1, "{findings:?}");
        assert!(findings.notes[0].contains("<namespace>.example.com"), "{:?}", findings.notes);
    }

    #[test]
    fn what_a_role_grants_in_all_renders_counts() {
        let role = |verb: &str| {
            format!(
                "---\n# Source: app/templates/r.yaml\n{{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {{name: r}}, rules: [{{apiGroups: [a], resources: [b], verbs: [{verb}]}}]}}\n"
            )
        };
        let mut findings = Findings::default();
        ["get", "list", "get"].iter().for_each(|verb| findings.add(&survey(&role(verb))));
        let [grant] = findings.grants.as_slice() else { panic!("{:?}", findings.grants) };
        assert_eq!(grant.rules.len(), 2);
    }

    #[test]
    fn a_file_that_is_not_understood_is_told_unless_a_render_made_something_of_it() {
        let text = "apiVersion: apps/v1\nkind: {{ .Values.kind }}\n";
        let extra = "{{ range .Values.extra }}{{ toYaml . }}{{ end }}";
        assert!(findings(&[("templates/deployment.yaml", text)]).notes.is_empty());
        let notes =
            findings(&[("templates/a.yaml", text), ("templates/b.yaml", extra), ("templates/job.yaml", extra)]).notes;
        assert_eq!(notes.len(), 2, "{notes:?}");
    }
}
