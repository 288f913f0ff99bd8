//! The operator's own objects: no release may touch them, and none in the operator's namespace may reach its key.
//!
//! Pure. The operator writes with rights that the authors of custom resources do not have. A release that replaces the operator's
//! image, runs a pod as its ServiceAccount or reads its signing key would have those rights. So every object of a revision, and
//! every hook, is checked before anything is written:
//!
//! | what | refused |
//! |---|---|
//! | the Deployment, ReplicaSet, StatefulSet or Pod that the operator runs in, its ServiceAccount, Lease and Secrets | always |
//! | CustomResourceDefinitions of the kinds in watches.yaml | always |
//! | in the operator's namespace: pods with its ServiceAccount, mentions of its Secrets, tokens, Roles that lead to Secrets, bindings of such | unless `allow` has `operator-namespace` |
//!
//! | module | what is in it |
//! |---|---|
//! | [`rights`] | which Roles lead to the Secrets of their namespace |
//! | [`own`] | who the operator is |

pub mod own;
pub mod rights;

use std::collections::HashSet;

use kube::core::GroupVersionKind;
use serde_json::Value;

use crate::discovery::Kinds;
use crate::object::{Object, ObjectId};
use crate::plan::Plan;
use crate::sensitive::Sensitive;

/// Holds the key that records are signed with.
pub const SIGNING_KEY: &str = "chartwright-signing-key";
/// The names of all Secrets that hold the ledger begin so.
pub const LEDGER: &str = "chartwright-ledger";
/// Holds what is needed to verify records.
pub const TRUST: &str = "chartwright-trust";

/// Whether a Secret of the operator's namespace is the operator's own, by its name.
pub fn is_operator_secret(name: &str) -> bool {
    name == SIGNING_KEY || name == TRUST || name.starts_with(LEDGER)
}

/// What belongs to this operator. What nobody knows is not protected by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProtectedObjects {
    /// Where the operator runs.
    pub namespace: String,
    /// The pod it runs in.
    pub pod: Option<String>,
    /// Namespace and name.
    pub service_account: Option<(String, String)>,
    /// Namespace and name.
    pub lease: Option<(String, String)>,
    /// The kinds in watches.yaml.
    pub kinds: Vec<GroupVersionKind>,
}

/// An object with the namespace that it will be in.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    pub object: &'a Object,
    /// None where its kind has none.
    pub namespace: Option<&'a str>,
}

/// An object that is refused.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{id} {why}")]
pub struct Protected {
    id: Box<ObjectId>,
    why: String,
}

impl ProtectedObjects {
    /// Refuses a revision that touches what is the operator's own. `has_consent` is whether the watch allows
    /// `operator-namespace`.
    ///
    /// # Arguments
    /// `all`: every object of the revision, hooks included, since a binding may name a Role among them.
    pub fn check(&self, all: &[Placed<'_>], has_consent: bool, kinds: &Kinds) -> Result<(), Protected> {
        let is_role = |placed: &&Placed<'_>| is(placed.object, rights::GROUP, "Role");
        let roles: HashSet<(Option<&str>, &str)> =
            all.iter().filter(is_role).map(|placed| (placed.namespace, placed.object.name())).collect();
        for placed in all {
            let why = match self.never(placed, kinds) {
                Some(why) => Some(format!("{why}, and no release may touch it; give the object of the chart another name")),
                None if has_consent => None,
                None => self.danger(placed, &roles).map(|why| {
                    format!(
                        "{why}, which leads to the operator's own rights in its namespace {}; deploy it to another namespace, or have an administrator add `operator-namespace` to `allow` in watches.yaml",
                        self.namespace
                    )
                }),
            };
            if let Some(why) = why {
                let id = ObjectId { namespace: placed.namespace.map(str::to_owned), ..placed.object.id() };
                return Err(Protected { id: Box::new(id), why });
            }
        }
        Ok(())
    }

    /// What no consent allows.
    fn never(&self, Placed { object, namespace }: &Placed<'_>, kinds: &Kinds) -> Option<&'static str> {
        let name = object.name();
        let is_here = *namespace == Some(self.namespace.as_str());
        let is_at = |place: &Option<(String, String)>| {
            place.as_ref().is_some_and(|(there, called)| *namespace == Some(there.as_str()) && called == name)
        };
        match (object.gvk().group.as_str(), object.kind()) {
            ("apiextensions.k8s.io", "CustomResourceDefinition") if self.defines_watched_kind(object, kinds) => {
                Some("defines a kind of watches.yaml")
            }
            ("", "Secret") if is_here && is_operator_secret(name) => Some("is a Secret of the operator"),
            ("", "ServiceAccount") if is_at(&self.service_account) => Some("is the operator's ServiceAccount"),
            ("coordination.k8s.io", "Lease") if is_at(&self.lease) => Some("is the operator's Lease"),
            (group, kind) if is_here && self.runs_in(group, kind, name) => Some("is what the operator runs in"),
            _ if is_here && self.is_scaled_by(object) => Some("scales what the operator runs in"),
            _ => None,
        }
    }

    /// By its name or by what it defines: a server-side apply may leave out either half.
    fn defines_watched_kind(&self, crd: &Object, kinds: &Kinds) -> bool {
        let text = |pointer: &str| crd.value().pointer(pointer).and_then(Value::as_str);
        self.kinds.iter().any(|gvk| {
            let defines = text("/spec/group") == Some(&gvk.group) && text("/spec/names/kind") == Some(&gvk.kind);
            let plural = kinds.any_version(&gvk.group, &gvk.kind).map(|kind| kind.resource.plural);
            let is_named = |plural: String| crd.name() == format!("{plural}.{}", gvk.group);
            defines || plural.is_some_and(is_named)
        })
    }

    /// Whether the operator's pod comes from such a workload. Its name is that of the workload, with one or two parts more.
    fn runs_in(&self, group: &str, kind: &str, name: &str) -> bool {
        let Some(pod) = self.pod.as_deref() else { return false };
        let parent = |name: &str| name.rsplit_once('-').map(|(parent, _)| parent.to_owned());
        let direct = parent(pod);
        let workload = match (group, kind) {
            ("", "Pod") => Some(pod.to_owned()),
            ("", "ReplicationController") | ("apps", "ReplicaSet" | "StatefulSet" | "DaemonSet") | ("batch", "Job") => {
                direct
            }
            ("apps", "Deployment") | ("batch", "CronJob") => direct.as_deref().and_then(parent),
            _ => None,
        };
        workload.as_deref() == Some(name)
    }

    /// An autoscaler can scale the operator away.
    fn is_scaled_by(&self, object: &Object) -> bool {
        let targets = ["/spec/scaleTargetRef", "/spec/targetRef"].map(|pointer| object.value().pointer(pointer));
        targets.into_iter().flatten().any(|target| {
            let text = |key: &str| target.get(key).and_then(Value::as_str).unwrap_or_default();
            let (group, _) = crate::object::split_api_version(text("apiVersion"));
            self.runs_in(group, text("kind"), text("name"))
        })
    }

    /// What leads to the operator's rights, where nobody consented.
    fn danger(
        &self,
        Placed { object, namespace }: &Placed<'_>,
        roles: &HashSet<(Option<&str>, &str)>,
    ) -> Option<&'static str> {
        if *namespace != Some(self.namespace.as_str()) {
            return None;
        }
        if Sensitive::of_object(object) == Some(Sensitive::Token) {
            return Some("is a token");
        }
        if is(object, rights::GROUP, "Role") && rights::leads_to_secrets(object.value()) {
            return Some("is a Role that leads to Secrets");
        }
        if is(object, rights::GROUP, "RoleBinding") && !binds_one_of(object, *namespace, roles) {
            return Some("binds a role that is not part of the release");
        }
        if self.runs_as_operator(object.value()) {
            return Some("runs pods with the operator's ServiceAccount");
        }
        mentions_secret(object.value()).then_some("refers to a Secret of the operator")
    }

    fn runs_as_operator(&self, value: &Value) -> bool {
        let account = self.service_account.as_ref().filter(|(namespace, _)| *namespace == self.namespace);
        account.is_some_and(|(_, name)| runs_as(value, name))
    }
}

/// Checks a whole revision. `home` is the namespace of the release, for hooks that name none.
pub fn check_revision(
    protected: &ProtectedObjects,
    has_consent: bool,
    plan: &Plan,
    hooks: &[Object],
    home: &str,
    kinds: &Kinds,
) -> Result<(), Protected> {
    // What is there already is left as it is, unless the watch has it replaced.
    let crds = plan.crds.iter().filter(|_| plan.replaces_crds);
    let planned = plan
        .apply
        .iter()
        .chain(crds)
        .map(|it| Placed { object: &it.object, namespace: it.object.namespace().filter(|_| it.kind.namespaced) });
    let hooked = hooks.iter().map(|object| {
        let is_namespaced = kinds.get(&object.gvk()).is_none_or(|kind| kind.namespaced);
        Placed { object, namespace: is_namespaced.then(|| object.namespace().unwrap_or(home)) }
    });
    let all: Vec<Placed<'_>> = planned.chain(hooked).collect();
    protected.check(&all, has_consent, kinds)
}

fn is(object: &Object, group: &str, kind: &str) -> bool {
    object.kind() == kind && object.gvk().group == group
}

/// Whether a binding refers to a Role of the same revision, which is checked itself.
fn binds_one_of(binding: &Object, namespace: Option<&str>, roles: &HashSet<(Option<&str>, &str)>) -> bool {
    let text = |key: &str| binding.value().pointer(&format!("/roleRef/{key}")).and_then(Value::as_str);
    text("kind") == Some("Role") && text("name").is_some_and(|name| roles.contains(&(namespace, name)))
}

/// Whether pods anywhere in a value run as a ServiceAccount. A pod that names none runs as `default`.
fn runs_as(value: &Value, account: &str) -> bool {
    match value {
        Value::Array(items) => items.iter().any(|item| runs_as(item, account)),
        Value::Object(map) => {
            let named = |key: &str| map.get(key).and_then(Value::as_str).filter(|name| !name.is_empty());
            let (name, older) = (named("serviceAccountName"), named("serviceAccount"));
            let is_pod = map.get("containers").is_some_and(Value::is_array);
            let is_default = is_pod && name.or(older).is_none() && account == "default";
            is_default || [name, older].contains(&Some(account)) || map.values().any(|inner| runs_as(inner, account))
        }
        _ => false,
    }
}

/// Whether a text anywhere in a value names a Secret of the operator.
fn mentions_secret(value: &Value) -> bool {
    let names = |text: &str| [SIGNING_KEY, LEDGER, TRUST].iter().any(|name| text.contains(name));
    match value {
        Value::String(text) => names(text),
        Value::Array(items) => items.iter().any(mentions_secret),
        Value::Object(map) => map.iter().any(|(key, inner)| names(key) || mentions_secret(inner)),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
