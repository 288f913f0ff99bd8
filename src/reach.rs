//! How far a release may reach: what it may write outside of its namespace, and which custom resources.
//!
//! The author of a custom resource decides on values, and a chart may make anything of them: an object in another namespace, a
//! ClusterRoleBinding, whatever a `tpl` of a list of extra objects gives. The operator's rights must not become theirs. So every
//! object of a plan and every hook is looked at before anything is written, whether it comes from a render or from a record:
//! records are Secrets, which others may write too. What is outside and not allowed is refused as a whole.
//!
//! What is allowed, the watch says (`allow`). Where it does not, it is what the chart makes with its default values, which nobody
//! but the chart's author decides. The contents of crds/ are no template, and always allowed; a record has none. Removing is not limited here:
//! only what carries the release's marks goes.
//!
//! | module | what is in it |
//! |---|---|
//! | [`trial`] | what a chart makes with its default values |
//! | [`scopes`] | whether a kind has a namespace, without a cluster to ask |

pub mod scopes;
pub mod trial;

use std::collections::HashSet;
use std::fmt;

use kube::core::GroupVersionKind;

use crate::discovery::Kinds;
use crate::error::Category;
use crate::hooks::{self, Event};
use crate::object::{Object, ObjectId};
use crate::plan::Plan;
use crate::release::HookRecord;
use crate::render::RenderError;

pub use trial::{Trial, Trials};

/// How many objects a person is shown.
const SHOWN: usize = 3;

/// What lies beyond a release's own reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Beyond {
    OtherNamespaces,
    /// Objects without a namespace: namespaces themselves too.
    Cluster,
    /// Objects in the operator's namespace that lead to its own rights; see [`crate::protected`].
    OperatorNamespace,
    /// Custom resources of other kinds in watches.yaml, in any namespace: the operator serves them by what their watches allow.
    WatchedKinds,
}

impl Beyond {
    /// As it is written in watches.yaml.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "other-namespaces" => Some(Beyond::OtherNamespaces),
            "cluster" => Some(Beyond::Cluster),
            "operator-namespace" => Some(Beyond::OperatorNamespace),
            "watched-kinds" => Some(Beyond::WatchedKinds),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Beyond::OtherNamespaces => "other-namespaces",
            Beyond::Cluster => "cluster",
            Beyond::OperatorNamespace => "operator-namespace",
            Beyond::WatchedKinds => "watched-kinds",
        }
    }
}

/// What a release may write, beside the objects of its own namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    other_namespaces: bool,
    cluster: bool,
    operator_namespace: bool,
    watched_kinds: bool,
}

impl Reach {
    pub fn covers(self, beyond: Beyond) -> bool {
        match beyond {
            Beyond::OtherNamespaces => self.other_namespaces,
            Beyond::Cluster => self.cluster,
            Beyond::OperatorNamespace => self.operator_namespace,
            Beyond::WatchedKinds => self.watched_kinds,
        }
    }

    pub fn with(self, beyond: Beyond) -> Self {
        match beyond {
            Beyond::OtherNamespaces => Reach { other_namespaces: true, ..self },
            Beyond::Cluster => Reach { cluster: true, ..self },
            Beyond::OperatorNamespace => Reach { operator_namespace: true, ..self },
            Beyond::WatchedKinds => Reach { watched_kinds: true, ..self },
        }
    }
}

impl FromIterator<Beyond> for Reach {
    fn from_iter<T: IntoIterator<Item = Beyond>>(all: T) -> Self {
        all.into_iter().fold(Reach::default(), Reach::with)
    }
}

/// As it is written in watches.yaml, without the brackets.
impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [Beyond::OtherNamespaces, Beyond::Cluster, Beyond::OperatorNamespace, Beyond::WatchedKinds];
        let all = all.into_iter().filter(|beyond| self.covers(*beyond));
        f.write_str(&all.map(Beyond::as_str).collect::<Vec<_>>().join(", "))
    }
}

/// What is inside of a release's reach without any consent.
#[derive(Clone, Copy, Debug)]
pub struct Home<'a> {
    /// The namespace of the release.
    pub namespace: &'a str,
    /// The kind of its custom resource.
    pub kind: &'a GroupVersionKind,
    /// All kinds in watches.yaml.
    pub watched: &'a [GroupVersionKind],
}

impl Home<'_> {
    /// Whether an object is a custom resource that the operator serves by another watch.
    fn is_served_otherwise(&self, id: &ObjectId) -> bool {
        let is = |gvk: &GroupVersionKind| gvk.group == id.group && gvk.kind == id.kind;
        !is(self.kind) && self.watched.iter().any(is)
    }
}

/// An object beyond its release's own reach.
#[derive(Clone, Debug, PartialEq)]
pub struct Outside {
    pub id: ObjectId,
    pub beyond: Beyond,
}

/// Group and kind.
type GroupKind<'a> = (&'a str, &'a str);

impl Outside {
    fn group_kind(&self) -> GroupKind<'_> {
        #[cfg(test)]
        crate::steps::count();
        (&self.id.group, &self.id.kind)
    }

    /// Everything that is beyond, of one object. Without a namespace of its own, an object of a namespaced kind is put into that of
    /// the release.
    pub fn of(mut id: ObjectId, is_namespaced: bool, home: &Home<'_>) -> Vec<Self> {
        #[cfg(test)]
        crate::steps::count();
        let place = match (is_namespaced, id.namespace.as_deref()) {
            (true, None) => None,
            (true, Some(namespace)) => (namespace != home.namespace).then_some(Beyond::OtherNamespaces),
            (false, _) => Some(Beyond::Cluster),
        };
        if !is_namespaced {
            id.namespace = None;
        }
        let kind = home.is_served_otherwise(&id).then_some(Beyond::WatchedKinds);
        place.into_iter().chain(kind).map(|beyond| Outside { id: id.clone(), beyond }).collect()
    }
}

/// What a plan would write beyond the release's own reach, without the contents of crds/.
pub fn of_plan(plan: &Plan, home: &Home<'_>) -> Vec<Outside> {
    let all = plan.apply.iter();
    all.flat_map(|planned| Outside::of(planned.object.id(), planned.kind.namespaced, home)).collect()
}

/// The same of hooks. Tests are run by a person, with the person's rights. A hook that cannot be read, or whose kind nobody
/// knows, is not made either.
pub fn of_hooks(hooks: &[HookRecord], home: &Home<'_>, kinds: &Kinds) -> Vec<Outside> {
    let objects: Vec<Object> = hooks.iter().filter(|hook| is_run(&hook.events)).flat_map(hooks::objects_of).collect();
    of_objects(&objects, home, kinds)
}

/// The same of objects whose kind is known.
pub fn of_objects(objects: &[Object], home: &Home<'_>, kinds: &Kinds) -> Vec<Outside> {
    let known = objects.iter().filter_map(|object| Some((kinds.get(&object.gvk())?.namespaced, object)));
    known.flat_map(|(is_namespaced, object)| Outside::of(object.id(), is_namespaced, home)).collect()
}

/// Whether the operator ever runs a hook of these events.
fn is_run(events: &[String]) -> bool {
    events.iter().any(|event| event != Event::Test.as_str())
}

/// What a release may write, and who says so.
#[derive(Clone, Debug, PartialEq)]
pub struct Allowance {
    pub reach: Reach,
    pub says: Says,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Says {
    /// `allow` in watches.yaml.
    Watch,
    /// What the chart makes with its default values: these.
    Defaults(Vec<Outside>),
    /// Nobody: the chart does not render with its default values, and this is why.
    Nobody(String),
}

impl Allowance {
    /// # Errors
    /// Something is outside that is not allowed.
    pub fn check(&self, outside: Vec<Outside>) -> Result<(), NotAllowed> {
        let made = self.kinds_by_default();
        let objects: Vec<Outside> = outside.into_iter().filter(|it| !self.covers(it, made.as_ref())).collect();
        match objects.is_empty() {
            true => Ok(()),
            false => Err(NotAllowed { objects, allowance: self.clone() }),
        }
    }
}

impl Allowance {
    /// The watched kinds that the chart makes with its default values, where these decide.
    fn kinds_by_default(&self) -> Option<HashSet<GroupKind<'_>>> {
        let Says::Defaults(made) = &self.says else { return None };
        let of_kind = made.iter().filter(|made| made.beyond == Beyond::WatchedKinds);
        Some(of_kind.map(Outside::group_kind).collect())
    }

    /// By default the chart's author decides on kinds, too: one that the chart makes allows no other.
    fn covers(&self, outside: &Outside, made: Option<&HashSet<GroupKind<'_>>>) -> bool {
        let is_made = || made.is_none_or(|made| made.contains(&outside.group_kind()));
        self.reach.covers(outside.beyond) && (outside.beyond != Beyond::WatchedKinds || is_made())
    }
}

/// What is told at the start.
impl fmt::Display for Allowance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.says, self.reach == Reach::default()) {
            (Says::Watch, true) => {
                f.write_str("releases of this kind are limited to their own namespace by `allow` in watches.yaml")
            }
            (Says::Watch, false) => write!(f, "allowed by watches.yaml: {}", self.reach),
            (Says::Defaults(_), true) => f.write_str(
                "releases of this kind are limited to their own namespace (set `allow` in watches.yaml to change this)",
            ),
            (Says::Defaults(objects), false) => {
                write!(f, "allowed by default: {}, since the chart makes {}", self.reach, listed(objects))
            }
            (Says::Nobody(why), _) => write!(
                f,
                "releases of this kind are limited to their own namespace, because the chart does not render with its default values ({why}); set `allow` in watches.yaml if they need other namespaces or cluster-scoped objects"
            ),
        }
    }
}

/// Objects beyond the release's own reach that the watch does not allow.
#[derive(Clone, Debug)]
pub struct NotAllowed {
    objects: Vec<Outside>,
    allowance: Allowance,
}

impl std::error::Error for NotAllowed {}

impl fmt::Display for NotAllowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wanted = self.objects.iter().fold(self.allowance.reach, |reach, outside| reach.with(outside.beyond));
        let default = match &self.allowance.says {
            Says::Watch => "",
            Says::Defaults(_) => " by default, since the chart makes none such with its default values",
            Says::Nobody(_) => " by default, since the chart does not render with its default values",
        };
        let what = match self.objects.iter().any(|outside| outside.beyond == Beyond::WatchedKinds) {
            true => "outside of the release's namespace, or of another kind in watches.yaml",
            false => "outside of the release's namespace",
        };
        write!(
            f,
            "{what}: {}; that is not allowed{default}: change the spec so that it is left out, or set `allow: [{wanted}]` in watches.yaml",
            listed(&self.objects)
        )
    }
}

/// `ClusterRole a, ConfigMap b/c and 2 more`
fn listed(objects: &[Outside]) -> String {
    let shown: Vec<String> = objects.iter().take(SHOWN).map(|outside| outside.id.to_string()).collect();
    match objects.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ReachError {
    #[error(transparent)]
    NotAllowed(#[from] NotAllowed),
    #[error("cannot find out what the chart makes with its default values: {0}; `allow` in watches.yaml does without")]
    Trial(#[from] RenderError),
}

impl ReachError {
    pub fn category(&self) -> Category {
        match self {
            ReachError::NotAllowed(_) => Category::NotAllowed,
            ReachError::Trial(error) => error.category(),
        }
    }
}

#[cfg(test)]
mod tests;
