//! Rights, each with the reasons for it.
//!
//! Pure data, and how the rights of several charts become one set.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::Files;
use super::grants::{RoleName, Rule};

/// In the order in which they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    Impersonate,
    Bind,
    Escalate,
}

impl Verb {
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::Impersonate => "impersonate",
            Verb::Bind => "bind",
            Verb::Escalate => "escalate",
        }
    }
}

/// Why a right is needed, in the order in which rules are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    Served,
    Reported,
    Owning,
    Made,
    Hooked,
    Brought,
    Replaced,
    LookedUp,
    Recorded,
    Sourced,
    ActedAs,
    Scaled,
    Told,
    Defined,
    Leaving,
    Explained,
    Quoted,
    LeftBehind,
    Bound,
    Escalated,
}

impl Reason {
    /// What stands above a rule.
    pub fn sentence(self) -> &'static str {
        match self {
            Reason::Served => "The custom resources: read them, put the finalizer on and take it off.",
            Reason::Reported => "Report on them.",
            Reason::Owning => {
                "Owner references that block the owner's deletion: some clusters ask for this right before they accept one."
            }
            Reason::Made => "What the charts make:",
            Reason::Hooked => "What hooks of the charts make and remove:",
            Reason::Brought => "What crds/ brings is made once, and never changed or deleted:",
            Reason::Replaced => "What crds/ brings is made and changed, and never deleted:",
            Reason::LookedUp => "What templates look up:",
            Reason::Recorded => {
                "The release records, which are Secrets beside the custom resource, as Helm keeps them."
            }
            Reason::Sourced => "Values may come from these.",
            Reason::ActedAs => "Objects are read and written as these accounts of the release's namespace.",
            Reason::Scaled => "See which workloads an autoscaler governs: their number of replicas is left to it.",
            Reason::Told => "Record events. A repeated event is counted in the first one, by a patch.",
            Reason::Defined => "See which kinds come and go.",
            Reason::Leaving => "See whether a namespace exists or is on its way out.",
            Reason::Explained => "Find out why a workload is not ready.",
            Reason::Quoted => "Quote the log of a hook that failed.",
            Reason::LeftBehind => "Name the volume claims that somebody left behind with helm uninstall.",
            Reason::Bound => {
                "Roles of others that the charts bind. Nobody can grant what they do not have, without this:"
            }
            Reason::Escalated => "Roles that the charts make, whatever they grant:",
        }
    }
}

/// Rights on one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    pub group: String,
    /// With its subresource: `nginxes/status`.
    pub resource: String,
    pub is_namespaced: bool,
    /// Empty is all.
    pub names: BTreeSet<String>,
    pub verbs: BTreeSet<Verb>,
    pub why: BTreeMap<Reason, Files>,
}

/// A rule that the chart's own roles have, and who has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    pub rule: Rule,
    /// In which roles, and in which files.
    pub by: BTreeMap<RoleName, BTreeSet<String>>,
    pub is_cluster: bool,
}

/// All rights, for one chart or for several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    pub all: Vec<Need>,
    pub granted: Vec<Granted>,
    pub notes: Vec<String>,
}

impl Needs {
    /// Puts the chart's directory before every file.
    pub fn in_directory(mut self, chart: &str) -> Self {
        let whole = |file: &str| format!("{chart}/{file}");
        for files in self.all.iter_mut().flat_map(|need| need.why.values_mut()) {
            *files = files.iter().map(|(file, is_seen)| (whole(file), *is_seen)).collect();
        }
        for files in self.granted.iter_mut().flat_map(|granted| granted.by.values_mut()) {
            *files = files.iter().map(|file| whole(file)).collect();
        }
        self.notes = self.notes.iter().map(|note| whole(note)).collect();
        self
    }

    /// One need for each resource, and each rule once; what needs give already is not granted again. With named namespaces, rights on
    /// what has one are not for the whole cluster.
    pub fn joined(all: impl IntoIterator<Item = Needs>, is_namespaced: bool) -> Self {
        let mut joined = Needs::default();
        let mut needs: BTreeMap<(bool, String, String, BTreeSet<String>), Need> = BTreeMap::new();
        for Needs { all, granted, notes } in all {
            for need in all {
                let key = (need.is_namespaced, need.group.clone(), need.resource.clone(), need.names.clone());
                match needs.get_mut(&key) {
                    Some(known) => known.join(need),
                    None => drop(needs.insert(key, need)),
                }
            }
            joined.granted.extend(granted);
            joined.notes.extend(notes.into_iter().filter(|note| !joined.notes.contains(note)).collect::<Vec<_>>());
        }
        joined.all = needs.into_values().collect();
        let mut granted: Vec<Granted> = vec![];
        for it in std::mem::take(&mut joined.granted) {
            match granted.iter_mut().find(|known| known.rule == it.rule && known.is_cluster == it.is_cluster) {
                Some(known) => {
                    it.by.into_iter().for_each(|(role, files)| known.by.entry(role).or_default().extend(files))
                }
                None => granted.push(it),
            }
        }
        granted.retain(|it| !joined.gives(&it.rule, is_namespaced && it.is_cluster));
        granted.sort_by(|a, b| (a.is_cluster, &a.rule).cmp(&(b.is_cluster, &b.rule)));
        joined.granted = granted;
        joined
    }

    /// Whether the operator has a right already for reasons of its own.
    fn gives(&self, rule: &Rule, is_everywhere: bool) -> bool {
        let has = |group: &String, resource: &String, verb: &String| {
            self.all.iter().any(|need| {
                need.names.is_empty()
                    && !(is_everywhere && need.is_namespaced)
                    && (&need.group, &need.resource) == (group, resource)
                    && need.verbs.iter().any(|it| it.as_str() == verb)
            })
        };
        let is_given = |group| rule.resources.iter().all(|it| rule.verbs.iter().all(|verb| has(group, it, verb)));
        rule.urls.is_empty() && rule.groups.iter().all(is_given)
    }
}

impl Need {
    fn join(&mut self, other: Need) {
        self.verbs.extend(other.verbs);
        for (reason, files) in other.why {
            let known = self.why.entry(reason).or_default();
            for (file, is_seen) in files {
                *known.entry(file).or_default() |= is_seen;
            }
        }
    }
}
