//! The operator's own objects: no release may touch them, and none in the operator's namespace may reach its key.
//!
//! Pure. The operator writes with rights that the authors of custom resources do not have. A release that replaces the operator's
//! image, runs a pod as its ServiceAccount or reads its signing key would have those rights. So every object of a revision, and
//! every hook, is checked before anything is written:
//!
//! | what | refused |
//! |---|---|
//! | the Deployment, ReplicaSet, StatefulSet or Pod that the operator runs in, its autoscalers, its ServiceAccount, Lease and Secrets | always |
//! | CustomResourceDefinitions of the kinds in watches.yaml | always |
//! | in the operator's namespace: pods with its ServiceAccount, mentions of its Secrets, uses of Secrets that the release does not make, tokens, Roles that lead to the operator's rights, bindings of other Roles than those the release applies, quotas and policies | unless `allow` has `operator-namespace` |
//!
//! | module | what is in it |
//! |---|---|
//! | [`rights`] | which Roles lead to the operator's rights |
//! | [`workload`] | which workloads a pod may come from |
//! | [`own`] | who the operator is |

pub mod own;
pub mod rights;
mod workload;

use std::collections::HashSet;

use kube::core::GroupVersionKind;
use serde_json::Value;

use crate::discovery::Kinds;
use crate::object::{Object, ObjectId};
use crate::plan::Plan;
use crate::sensitive::{METRICS_CA, OPERATOR_SECRETS, Sensitive};

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
    pub is_hook: bool,
}

/// What a revision applies in the operator's namespace, by name. What hooks make does not count: the operator never runs tests, and
/// a hook may run after what relies on it.
#[derive(Default)]
struct Applied<'a> {
    roles: HashSet<&'a str>,
    secrets: HashSet<&'a str>,
}

impl<'a> Applied<'a> {
    fn of(all: &[Placed<'a>], namespace: &str) -> Self {
        let mut applied = Applied::default();
        for Placed { object, .. } in all.iter().filter(|it| !it.is_hook && it.namespace == Some(namespace)) {
            #[cfg(test)]
            crate::steps::count();
            if is(object, rights::GROUP, "Role") {
                applied.roles.insert(object.name());
            } else if is(object, "", "Secret") {
                applied.secrets.insert(object.name());
            }
        }
        applied
    }
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
    /// `all`: every object of the revision, hooks included.
    pub fn check(&self, all: &[Placed<'_>], has_consent: bool, kinds: &Kinds) -> Result<(), Protected> {
        let applied = Applied::of(all, &self.namespace);
        for placed in all {
            let why = match self.never(placed, kinds) {
                Some(why) => Some(format!("{why}, and no release may touch it; give the object of the chart another name")),
                None if has_consent => None,
                None => self.danger(placed, &applied).map(|why| {
                    format!(
                        "{why} in the operator's namespace {}; deploy it to another namespace, or have an administrator add `operator-namespace` to `allow` in watches.yaml",
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
    fn never(&self, Placed { object, namespace, .. }: &Placed<'_>, kinds: &Kinds) -> Option<&'static str> {
        #[cfg(test)]
        crate::steps::count();
        let name = object.name();
        let is_here = *namespace == Some(self.namespace.as_str());
        let is_at = |place: &Option<(String, String)>| {
            place.as_ref().is_some_and(|(there, called)| *namespace == Some(there.as_str()) && called == name)
        };
        match (object.gvk().group.as_str(), object.kind()) {
            ("apiextensions.k8s.io", "CustomResourceDefinition") if self.defines_watched_kind(object, kinds) => {
                Some("defines a kind of watches.yaml")
            }
            ("", "ConfigMap") if is_here && name == METRICS_CA => Some("holds the operator's certificate"),
            ("", "ServiceAccount") if is_at(&self.service_account) => Some("is the operator's ServiceAccount"),
            ("coordination.k8s.io", "Lease") if is_at(&self.lease) => Some("is the operator's Lease"),
            (group, kind) if is_here && self.runs_in(Some(group), Some(kind), name) => {
                Some("is what the operator runs in")
            }
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

    fn runs_in(&self, group: Option<&str>, kind: Option<&str>, name: &str) -> bool {
        self.pod.as_deref().is_some_and(|pod| workload::may_have_made(pod, group, kind, name))
    }

    /// An autoscaler can scale the operator away. Some have a default for the kind, and for its group.
    fn is_scaled_by(&self, object: &Object) -> bool {
        let targets = ["/spec/scaleTargetRef", "/spec/targetRef"].map(|pointer| object.value().pointer(pointer));
        targets.into_iter().flatten().any(|target| {
            let text = |key: &str| target.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
            let group = text("apiVersion").map(|version| crate::object::split_api_version(version).0);
            text("name").is_some_and(|name| self.runs_in(group, text("kind"), name))
        })
    }

    /// What leads to the operator's rights or stops it, where nobody consented.
    fn danger(&self, placed: &Placed<'_>, applied: &Applied<'_>) -> Option<&'static str> {
        let Placed { object, namespace, is_hook } = *placed;
        if namespace != Some(self.namespace.as_str()) {
            return None;
        }
        if Sensitive::of_object(object) == Some(Sensitive::Token) {
            return Some("is a token");
        }
        let lease = self.lease.as_ref().filter(|(there, _)| *there == self.namespace).map(|(_, name)| name.as_str());
        match (object.gvk().group.as_str(), object.kind()) {
            (rights::GROUP, "Role") if rights::leads(object.value(), &applied.secrets, lease) => {
                return Some("is a Role that leads to Secrets, pods or the operator's own objects");
            }
            // A Role that somebody else created may be there until the release applies its own.
            (rights::GROUP, "RoleBinding") if is_hook || !binds_one_of(object, &applied.roles) => {
                return Some("binds a role that the release does not apply before it");
            }
            ("networking.k8s.io" | "extensions", "NetworkPolicy")
            | ("", "ResourceQuota" | "LimitRange")
            | ("policy", "PodDisruptionBudget")
                if self.lives_here() =>
            {
                return Some("can stop the operator");
            }
            _ => {}
        }
        if self.runs_as_operator(object.value()) {
            return Some("runs pods with the operator's ServiceAccount");
        }
        if mentions_secret(object.value()) {
            return Some("refers to a Secret of the operator");
        }
        let uses_other = self.lives_here() && uses_other_secret(object.value(), &applied.secrets);
        uses_other.then_some("uses a Secret that the release does not make")
    }

    /// Whether the operator or its ServiceAccount is in the namespace. An operator that a person runs elsewhere only has its
    /// Secrets there.
    fn lives_here(&self) -> bool {
        self.pod.is_some() || self.service_account.as_ref().is_some_and(|(namespace, _)| *namespace == self.namespace)
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
    let planned = plan.apply.iter().chain(crds).map(|it| {
        let namespace = it.object.namespace().filter(|_| it.kind.namespaced);
        Placed { object: &it.object, namespace, is_hook: false }
    });
    let all: Vec<Placed<'_>> = planned.chain(hooks.iter().map(|hook| placed(hook, true, home, kinds))).collect();
    protected.check(&all, has_consent, kinds)
}

/// Checks hooks that are about to run. `secrets` are those of the revision, which hooks may use.
pub fn check_hooks(
    protected: &ProtectedObjects,
    has_consent: bool,
    hooks: &[Object],
    secrets: &[Object],
    home: &str,
    kinds: &Kinds,
) -> Result<(), Protected> {
    let hooks = hooks.iter().map(|hook| placed(hook, true, home, kinds));
    let secrets = secrets.iter().map(|secret| placed(secret, false, home, kinds));
    protected.check(&hooks.chain(secrets).collect::<Vec<_>>(), has_consent, kinds)
}

fn placed<'a>(object: &'a Object, is_hook: bool, home: &'a str, kinds: &Kinds) -> Placed<'a> {
    let is_namespaced = kinds.get(&object.gvk()).is_none_or(|kind| kind.namespaced);
    Placed { object, namespace: is_namespaced.then(|| object.namespace().unwrap_or(home)), is_hook }
}

fn is(object: &Object, group: &str, kind: &str) -> bool {
    object.kind() == kind && object.gvk().group == group
}

/// Whether a binding refers to a Role of the same revision, which is checked itself and applied before.
fn binds_one_of(binding: &Object, roles: &HashSet<&str>) -> bool {
    #[cfg(test)]
    crate::steps::count();
    let text = |key: &str| binding.value().pointer(&format!("/roleRef/{key}")).and_then(Value::as_str);
    text("kind") == Some("Role") && text("name").is_some_and(|name| roles.contains(name))
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
    let names = |text: &str| OPERATOR_SECRETS.iter().any(|name| text.contains(name));
    match value {
        Value::String(text) => names(text),
        Value::Array(items) => items.iter().any(mentions_secret),
        Value::Object(map) => map.iter().any(|(key, inner)| names(key) || mentions_secret(inner)),
        _ => false,
    }
}

/// Whether a volume or a variable anywhere in a value is filled from a Secret that is not one of these. What only pulls images or
/// serves TLS does not show what is in a Secret.
fn uses_other_secret(value: &Value, own: &HashSet<&str>) -> bool {
    let is_other = |reference: &Value| {
        #[cfg(test)]
        crate::steps::count();
        let name = ["secretName", "name"].iter().find_map(|key| reference.get(key).and_then(Value::as_str));
        name.is_some_and(|name| !own.contains(name))
    };
    let refers = |key: &str| matches!(key, "secret" | "secretRef" | "secretKeyRef") || key.ends_with("SecretRef");
    match value {
        Value::Array(items) => items.iter().any(|item| uses_other_secret(item, own)),
        Value::Object(map) => {
            map.iter().any(|(key, inner)| (refers(key) && is_other(inner)) || uses_other_secret(inner, own))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
