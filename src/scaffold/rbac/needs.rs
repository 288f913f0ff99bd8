//! What a chart can make, and what its watch says, become the rights that the operator needs.
//!
//! Pure. The verbs are those that the operator uses, as the audit log of an API server shows them; nothing is given for the sake of
//! completeness. It writes objects by server-side apply, which is `patch`, and `create` where there is none yet; it never uses `update`.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::{Files, Findings, Use};
use super::grants::{self, Bound, Grant, RoleName, Rule};
use super::kinds::Place;
use super::rights::{Granted, Need, Needs, Reason, Verb};
use crate::reach::{Beyond, Reach};
use crate::scaffold::api::Api;
use crate::values::from::SourceKind;
use crate::watches::{Crds, Lookup, Watch};

/// How a chart is served.
#[derive(Clone, Debug)]
pub struct Serving<'a> {
    pub api: &'a Api,
    /// What its releases may write outside of their namespace.
    pub reach: Reach,
    /// The account that objects are read and written as, if it is not the operator itself.
    pub account: Option<&'a str>,
    pub is_watching: bool,
    pub crds: Crds,
    pub looks_up: bool,
    /// Where values may come from.
    pub sources: BTreeSet<SourceKind>,
    pub generates: bool,
    /// Whether the operator looks at namespaces that are named.
    pub is_namespaced: bool,
    /// Whether to `escalate` in place of having every rule.
    pub escalates: bool,
}

impl<'a> Serving<'a> {
    /// As a watch says it.
    pub fn by(watch: &'a Watch, api: &'a Api, reach: Reach) -> Self {
        let by_annotation = watch.values_from_annotation.unwrap_or(api.is_namespaced);
        let sources = match by_annotation {
            true => [SourceKind::ConfigMap, SourceKind::Secret].into(),
            false => watch.values_from.iter().map(|source| source.kind).collect(),
        };
        Serving {
            api,
            reach,
            account: watch.service_account.as_deref(),
            is_watching: watch.watch_dependents,
            crds: watch.crds,
            looks_up: watch.lookup != Lookup::None,
            sources,
            generates: !watch.generate.is_empty(),
            is_namespaced: false,
            escalates: false,
        }
    }
}

use Verb::{Bind, Create, Delete, Escalate, Get, Impersonate, List, Patch, Update};

impl Needs {
    /// What one watch needs.
    pub fn of(findings: &Findings, serving: &Serving<'_>) -> Self {
        let mut needs = Needs { notes: findings.notes.clone(), ..Needs::default() };
        needs.custom_resources(serving);
        needs.objects(findings, serving);
        needs.own(findings, serving);
        needs.values(serving);
        if serving.account.is_none() {
            needs.lookups(findings, serving);
            needs.roles(findings, serving);
        }
        needs
    }

    fn add(&mut self, group: &str, resource: &str, is_namespaced: bool, verbs: &[Verb], reason: Reason) -> &mut Need {
        self.all.push(Need {
            group: group.to_owned(),
            resource: resource.to_owned(),
            is_namespaced,
            names: BTreeSet::new(),
            verbs: verbs.iter().copied().collect(),
            why: [(reason, Files::new())].into(),
        });
        let last = self.all.len() - 1;
        &mut self.all[last]
    }

    fn custom_resources(&mut self, serving: &Serving<'_>) {
        let Api { group, plural, is_namespaced, .. } = serving.api;
        self.add(group, plural, *is_namespaced, &[Get, List, Verb::Watch, Patch], Reason::Served);
        self.add(group, &format!("{plural}/status"), *is_namespaced, &[Patch], Reason::Reported);
        self.add(group, &format!("{plural}/finalizers"), *is_namespaced, &[Update], Reason::Owning);
    }

    fn objects(&mut self, findings: &Findings, serving: &Serving<'_>) {
        let crds = serving.crds;
        for (((group, kind), as_what), files) in &findings.made {
            let place = findings.kinds.place(group, kind);
            let is_refused = *as_what != Use::Crds && !place.is_namespaced && !serving.reach.covers(Beyond::Cluster);
            if is_refused {
                self.notes.push(not_allowed(kind, files));
                continue;
            }
            if *as_what == Use::Crds && crds == Crds::Skip {
                continue;
            }
            let reason = match as_what {
                Use::Object => Reason::Made,
                Use::Hook => Reason::Hooked,
                Use::Crds if crds == Crds::CreateReplace => Reason::Replaced,
                Use::Crds => Reason::Brought,
            };
            let verbs = verbs(kind, *as_what, serving);
            let need = self.add(group, &place.plural, place.is_namespaced, &verbs, reason);
            need.why.insert(reason, files.clone());
            self.note_guess(group, kind, &place, files);
        }
    }

    fn note_guess(&mut self, group: &str, kind: &str, place: &Place, files: &Files) {
        if place.is_guess {
            let file = files.keys().next().map_or("", String::as_str);
            self.notes.push(format!(
                "{file}: nothing here says how the kind {kind} of {group} is reached; `{}`, with a namespace, is believed: if that is wrong, add a rule by hand",
                place.plural
            ));
        }
    }

    /// What the operator needs whatever the chart makes, and for what it makes.
    fn own(&mut self, findings: &Findings, serving: &Serving<'_>) {
        let records = [Get, List, Verb::Watch, Create, Patch, Delete];
        self.add("", "secrets", true, &records, Reason::Recorded);
        self.add("events.k8s.io", "events", true, &[Create, Patch], Reason::Told);
        self.add("apiextensions.k8s.io", "customresourcedefinitions", false, &[List, Verb::Watch], Reason::Defined);
        let has = |as_what: Use, kinds: &[&str]| {
            findings.made.keys().any(|((_, kind), it)| *it == as_what && kinds.contains(&kind.as_str()))
        };
        let has_hooks = findings.made.keys().any(|(_, it)| *it == Use::Hook);
        if has_hooks || serving.account.is_some() || serving.is_namespaced {
            self.add("", "namespaces", false, &[Get], Reason::Leaving);
        }
        if findings.has_replicas || has(Use::Object, &["Deployment", "ReplicaSet", "StatefulSet"]) {
            self.add("autoscaling", "horizontalpodautoscalers", true, &[List, Verb::Watch], Reason::Scaled);
        }
        if let Some(account) = serving.account {
            let need = self.add("", "serviceaccounts", true, &[Impersonate], Reason::ActedAs);
            need.names.insert(account.to_owned());
            return;
        }
        let workloads = ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job"];
        if has(Use::Object, &workloads) || has(Use::Hook, &["Job"]) {
            self.add("", "pods", true, &[List], Reason::Explained);
        }
        if has(Use::Hook, &["Job", "Pod"]) {
            self.add("", "pods/log", true, &[Get], Reason::Quoted);
        }
        self.add("", "persistentvolumeclaims", true, &[List], Reason::LeftBehind);
    }

    fn values(&mut self, serving: &Serving<'_>) {
        for kind in &serving.sources {
            let resource = match kind {
                SourceKind::ConfigMap => "configmaps",
                SourceKind::Secret => "secrets",
            };
            self.add("", resource, true, &[Get, List, Verb::Watch], Reason::Sourced);
        }
        if serving.generates {
            let verbs = [Get, List, Verb::Watch, Create, Patch, Delete];
            self.add("", "secrets", true, &verbs, Reason::Generated);
        }
    }

    fn lookups(&mut self, findings: &Findings, serving: &Serving<'_>) {
        if !serving.looks_up {
            return;
        }
        for ((group, kind), (is_list, files)) in &findings.looked_up {
            let place = findings.kinds.place(group, kind);
            let verbs: &[Verb] = if *is_list { &[Get, List] } else { &[Get] };
            let need = self.add(group, &place.plural, place.is_namespaced, verbs, Reason::LookedUp);
            need.why.insert(Reason::LookedUp, files.clone());
            self.note_guess(group, kind, &place, files);
        }
    }

    fn roles(&mut self, findings: &Findings, serving: &Serving<'_>) {
        let may = |role: &RoleName| !role.is_cluster || serving.reach.covers(Beyond::Cluster);
        for grant in findings.grants.iter().filter(|grant| may(&grant.role)) {
            match serving.escalates {
                true => self.escalate(grant),
                false => self.grant(grant),
            }
        }
        let is_own = |role: &RoleName| findings.grants.iter().any(|grant| grant.role == *role);
        let may = |bound: &Bound| !bound.is_everywhere || serving.reach.covers(Beyond::Cluster);
        for bound in findings.bound.iter().filter(|bound| !is_own(&bound.role) && may(bound)) {
            let (role, file) = (bound.role.shown(), &bound.file);
            self.right_to(&[Bind], &bound.role, &bound.file, Reason::Bound);
            self.notes.push(format!(
                "{file}: the chart binds the {role}, which is not its own; the role has the right to bind it, and whatever that grants can be had through a release"
            ));
        }
        for file in &findings.open_rules {
            let how = match serving.escalates {
                true => "the role has the right to escalate",
                false => "what a spec adds to them, add by hand too, or use --escalate",
            };
            self.notes.push(format!("{file}: the rules of its role come from values; {how}"));
        }
    }

    fn escalate(&mut self, grant: &Grant) {
        let Grant { role, file, is_hook, .. } = grant;
        self.right_to(&[Bind], role, file, Reason::Escalated);
        let need = self.right_to(&[Escalate], role, file, Reason::Escalated);
        // A hook is made by a request without a name in its path, which no rule with names covers. All others are applied.
        if *is_hook {
            need.names.clear();
        }
    }

    /// A right on roles themselves, by name where they are called so in every release.
    fn right_to(&mut self, verbs: &[Verb], role: &RoleName, file: &str, reason: Reason) -> &mut Need {
        let need = self.add(grants::GROUP, role.resource(), !role.is_cluster, verbs, reason);
        need.names.extend(role.is_fixed().then(|| role.name.clone()));
        need.why.insert(reason, [(file.to_owned(), true)].into());
        need
    }

    fn grant(&mut self, grant: &Grant) {
        let (role, file) = (grant.role.shown(), &grant.file);
        if grant.is_aggregated {
            self.notes.push(format!(
                "{file}: the {role} gathers the rules of other roles; only whoever may escalate can make it: use --escalate"
            ));
        }
        let shown: Vec<String> = grant.rules.iter().map(Rule::shown).collect();
        if !shown.is_empty() {
            let wild = match grant.rules.iter().any(Rule::is_wild) {
                true => "; it has a wildcard, and so has the operator's role now: narrow it in the chart if you can",
                false => "",
            };
            self.notes.push(format!(
                "{file}: the chart makes the {role}, which grants {}; the operator needs the same to be allowed to{wild}",
                shown.join("; ")
            ));
        }
        for rule in &grant.rules {
            let is_cluster = grant.role.is_cluster;
            let known = self.granted.iter().position(|it| it.rule == *rule && it.is_cluster == is_cluster);
            let at = known.unwrap_or_else(|| {
                self.granted.push(Granted { rule: rule.clone(), by: BTreeMap::new(), is_cluster });
                self.granted.len() - 1
            });
            self.granted[at].by.entry(grant.role.clone()).or_default().insert(grant.file.clone());
        }
    }
}

/// What the operator does with objects of a kind.
fn verbs(kind: &str, as_what: Use, serving: &Serving<'_>) -> Vec<Verb> {
    let is_definition = kind == "CustomResourceDefinition";
    let mut verbs = match as_what {
        Use::Crds if is_definition && serving.crds == Crds::CreateReplace => return vec![Get, Create, Patch],
        Use::Crds if is_definition => return vec![Get, Create],
        Use::Crds => return vec![Create],
        // The rest is done as the account, but for our finalizer on Jobs, which the account may not be able to take off.
        Use::Hook if serving.account.is_some() && kind == "Job" => vec![Get, List, Patch],
        _ if serving.account.is_some() => vec![List],
        Use::Object => vec![Get, List, Create, Patch, Delete],
        // A Job may carry our finalizer until its end is recorded, and nobody deletes a definition.
        Use::Hook if kind == "Job" || is_definition => vec![Get, List, Create, Patch, Delete],
        Use::Hook => vec![Get, List, Create, Delete],
    };
    if serving.is_watching || as_what == Use::Hook {
        verbs.push(Verb::Watch);
    }
    verbs
}

fn not_allowed(kind: &str, files: &Files) -> String {
    let file = files.keys().next().map_or("", String::as_str);
    format!(
        "{file}: it can make a {kind}, which has no namespace, and the watch does not allow that, so there is no rule for it; set `allow: [cluster]` in watches.yaml if it is wanted"
    )
}

#[cfg(test)]
mod tests;
