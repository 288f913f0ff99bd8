//! What a custom resource asks for by its annotations, and what its watch says where it asks for nothing.
//!
//! Pure. A value that cannot be read is never guessed: it is told as a problem, and the watch's setting counts. Where a guess
//! could do harm, the wish says that it could not be read, and whoever acts on it does nothing: a misspelt `orphan` must not
//! remove a database.

mod names;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::applyset;
use crate::drift::Hash;
use crate::generate::Generator;
use crate::generate::rotation::Rotation;
use crate::hooks::{self, Event};
use crate::preflight::Adoption;
use crate::watches::{Adopt, OnFailure, Watch, duration};

pub const MAX_HISTORY: &str = "chartwright.dev/max-history";
pub const ON_FAILURE: &str = "chartwright.dev/on-failure";
pub const RETRIES: &str = "chartwright.dev/retries";
pub const PROGRESS_DEADLINE: &str = "chartwright.dev/progress-deadline";
pub const ROLLBACK_TO: &str = "chartwright.dev/rollback-to";
pub const ADOPT: &str = "chartwright.dev/adopt";
pub const RENDER_ANEW: &str = "chartwright.dev/render-anew";
/// Of all generated values; with `-` and a name behind it, of that one.
pub const ROTATE: &str = "chartwright.dev/rotate";
/// Where values come from beside the spec; see [`crate::values::from`].
pub const VALUES_FROM: &str = "chartwright.dev/values-from";
pub const DELETION_POLICY: &str = "chartwright.dev/deletion-policy";
pub const ADOPTED_DELETION_POLICY: &str = "chartwright.dev/adopted-deletion-policy";
pub const PAUSED: &str = "chartwright.dev/paused";
pub const REQUESTED_AT: &str = "chartwright.dev/requested-at";
/// operator-sdk's, as are all that follow.
pub const UPGRADE_FORCE: &str = "helm.sdk.operatorframework.io/upgrade-force";
pub const ROLLBACK_FORCE: &str = "helm.sdk.operatorframework.io/rollback-force";
pub const RECONCILE_PERIOD: &str = "helm.sdk.operatorframework.io/reconcile-period";
pub const INSTALL_DESCRIPTION: &str = "helm.sdk.operatorframework.io/install-description";
pub const UPGRADE_DESCRIPTION: &str = "helm.sdk.operatorframework.io/upgrade-description";
pub const UNINSTALL_DESCRIPTION: &str = "helm.sdk.operatorframework.io/uninstall-description";
pub const UNINSTALL_WAIT: &str = "helm.sdk.operatorframework.io/uninstall-wait";
pub const INSTALL_DISABLE_HOOKS: &str = "helm.sdk.operatorframework.io/install-disable-hooks";
pub const UPGRADE_DISABLE_HOOKS: &str = "helm.sdk.operatorframework.io/upgrade-disable-hooks";
pub const ROLLBACK_DISABLE_HOOKS: &str = "helm.sdk.operatorframework.io/rollback-disable-hooks";
pub const UNINSTALL_DISABLE_HOOKS: &str = "helm.sdk.operatorframework.io/uninstall-disable-hooks";

/// Of a text that is written elsewhere.
const LONGEST: usize = 256;

/// A shorter period would be a turn right after each turn. It counts as this, and is told.
pub const SHORTEST_PERIOD: Duration = Duration::from_secs(1);

/// What holds for one custom resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Wishes {
    /// How many revisions are kept; 0 is all of them.
    pub max_history: usize,
    pub on_failure: OnFailure,
    /// How often a revision is tried again before it counts as failed.
    pub retries: u32,
    /// How long a revision may take to become ready; `None` is any time.
    pub progress_deadline: Option<Duration>,
    pub rollback_to: RollbackTo,
    /// Whether objects that nobody claims are adopted: the custom resource asks for it, and the watch allows it.
    pub adopt: Adoption,
    /// Whether a release whose record went, and cannot be made anew from its objects, is rendered anew.
    pub render_anew: bool,
    /// Generated values that are to be generated again.
    pub rotation: Rotation,
    /// Whether what cannot be changed in place is deleted and made again.
    pub replace: bool,
    /// The same, where a release goes back to an earlier revision.
    pub replace_going_back: bool,
    pub pause: Pause,
    /// How often to look although nothing changed; zero is never.
    pub period: Option<Duration>,
    /// Any new text asks for a full check.
    pub requested_at: Option<String>,
    pub descriptions: Descriptions,
    /// Whether the custom resource stays until all its objects are gone.
    pub uninstall_wait: bool,
    pub deletion: Deletion,
    /// Whether adopted objects are deleted where others are: when the release goes, or no longer has them.
    pub delete_adopted: bool,
    pub hooks: HookWishes,
    /// A sentence for each annotation that cannot be read.
    pub problems: Vec<String>,
}

/// Whether nothing is to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pause {
    #[default]
    None,
    /// Until somebody says otherwise.
    Open,
    Until(Timestamp),
}

impl Pause {
    /// Whether it holds, and how long it does; a time that nobody said is a long one.
    pub fn left(self, now: Timestamp) -> Option<Duration> {
        match self {
            Pause::None => None,
            Pause::Open => Some(Duration::MAX),
            Pause::Until(end) => Duration::try_from(end.duration_since(now)).ok().filter(|left| !left.is_zero()),
        }
    }
}

/// What the history says of revisions, in place of Helm's words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Descriptions {
    pub install: Option<String>,
    pub upgrade: Option<String>,
    pub uninstall: Option<String>,
}

/// What is said about the chart's hooks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookWishes {
    /// How long each may take, where it says nothing itself.
    pub timeout: Option<Duration>,
    pub without_install: bool,
    pub without_upgrade: bool,
    pub without_rollback: bool,
    pub without_uninstall: bool,
}

impl HookWishes {
    /// Whether the hooks of an event are to be run.
    pub fn run_at(&self, event: Event) -> bool {
        !match event {
            Event::PreInstall | Event::PostInstall => self.without_install,
            Event::PreUpgrade | Event::PostUpgrade => self.without_upgrade,
            Event::PreRollback | Event::PostRollback => self.without_rollback,
            Event::PreDelete | Event::PostDelete => self.without_uninstall,
            Event::Test => false,
        }
    }
}

/// Which revision is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RollbackTo {
    /// Nothing is said: what a person rolled back to with helm is held.
    Unset,
    /// `none`: what is held is held no longer, the spec decides.
    Spec,
    Revision(u32),
    /// This is no revision.
    Wrong(String),
}

/// What becomes of the objects when the custom resource is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deletion {
    Uninstall,
    /// They stay, and nobody manages them any more.
    Orphan,
    /// Nobody knows, so they must not be removed.
    Unknown(String),
}

impl Wishes {
    pub fn of<'a>(annotation: impl Fn(&str) -> Option<&'a str>, watch: &Watch) -> Self {
        let mut reader = Reader { annotation, problems: vec![] };
        Wishes {
            max_history: reader.max_history(watch.max_history),
            on_failure: reader
                .setting(ON_FAILURE, "`stop` or `rollback`", OnFailure::parse)
                .unwrap_or(watch.on_failure),
            retries: reader.setting(RETRIES, "a whole number from 0 on", whole).unwrap_or(watch.retries),
            progress_deadline: reader
                .setting(PROGRESS_DEADLINE, "a duration such as `10m`, or `0` for none", |text| {
                    duration::parse(text).ok()
                })
                .map_or(watch.progress_deadline, |deadline| Some(deadline).filter(|deadline| !deadline.is_zero())),
            rollback_to: reader.rollback_to(),
            adopt: reader.adoption(watch.adopt),
            render_anew: reader.is_asked(RENDER_ANEW),
            rotation: reader.rotation(&watch.generate),
            replace: reader.is_asked(UPGRADE_FORCE),
            replace_going_back: reader.is_asked(ROLLBACK_FORCE),
            pause: reader.pause(),
            period: reader.period(),
            requested_at: reader.text(REQUESTED_AT),
            descriptions: Descriptions {
                install: reader.text(INSTALL_DESCRIPTION),
                upgrade: reader.text(UPGRADE_DESCRIPTION),
                uninstall: reader.text(UNINSTALL_DESCRIPTION),
            },
            uninstall_wait: reader.is_asked(UNINSTALL_WAIT),
            deletion: reader.deletion(),
            delete_adopted: reader.delete_adopted(),
            hooks: reader.hooks(watch),
            problems: reader.problems,
        }
    }

    /// The same of a whole map, in which also names are wrong.
    pub fn of_all(annotations: &BTreeMap<String, String>, watch: &Watch) -> Self {
        let mut wishes = Wishes::of(|key| annotations.get(key).map(String::as_str), watch);
        let of_value = |key: &&String| key.strip_prefix(ROTATE).is_some_and(|rest| rest.starts_with('-'));
        let (rotations, others): (Vec<_>, Vec<_>) = annotations.keys().partition(of_value);
        wishes.problems.extend(others.into_iter().filter_map(|key| names::problem(key)));
        wishes.problems.extend(rotations.into_iter().filter_map(|key| names::no_generated_value(key, &watch.generate)));
        wishes
    }
}

/// The period alone, for whoever needs nothing else.
pub fn period(annotations: &BTreeMap<String, String>) -> Option<Duration> {
    Reader { annotation: |key: &str| annotations.get(key).map(String::as_str), problems: vec![] }.period()
}

/// The pause alone, in the same way.
pub fn pause(annotations: &BTreeMap<String, String>) -> Pause {
    Reader { annotation: |key: &str| annotations.get(key).map(String::as_str), problems: vec![] }.pause()
}

/// Stands for the annotations that others put on a custom resource: whoever changes one asks for another try.
pub fn asked(annotations: &BTreeMap<String, String>) -> Hash {
    let others = annotations.iter().filter(|(key, _)| !key.starts_with(applyset::PREFIX));
    Hash::of(others.flat_map(|(key, value)| [key.as_str(), value.as_str()]))
}

/// Reads annotations and notes what is wrong with them.
struct Reader<F> {
    annotation: F,
    problems: Vec<String>,
}

impl<'a, F: Fn(&str) -> Option<&'a str>> Reader<F> {
    fn read<T>(&mut self, key: &str, wanted: &str, instead: &str, parse: impl Fn(&str) -> Option<T>) -> Read<'a, T> {
        let Some(text) = (self.annotation)(key) else { return Read::Absent };
        match parse(text) {
            Some(value) => Read::Good(value),
            None => {
                self.problems.push(format!("the annotation {key} is {text:?}: write {wanted}; until then {instead}"));
                Read::Bad(text)
            }
        }
    }

    /// A setting that the watch has too.
    fn setting<T>(&mut self, key: &str, wanted: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        match self.read(key, wanted, "the setting in watches.yaml counts", parse) {
            Read::Good(value) => Some(value),
            Read::Absent | Read::Bad(_) => None,
        }
    }

    /// The watch's setting is a ceiling: each revision is a record in etcd, which the author of a custom resource does not
    /// pay for. 0 keeps all revisions, so it is the highest.
    fn max_history(&mut self, ceiling: usize) -> usize {
        let wanted = "a whole number from 0 on, where 0 keeps all revisions";
        let Some(asked) = self.setting(MAX_HISTORY, wanted, whole::<usize>) else { return ceiling };
        if ceiling != 0 && (asked == 0 || asked > ceiling) {
            self.problems.push(format!(
                "the annotation {MAX_HISTORY} is \"{asked}\", which is more than the watch's maxHistory: write a number from 1 to {ceiling}; until then {ceiling} revisions are kept"
            ));
            return ceiling;
        }
        asked
    }

    fn is_asked(&mut self, key: &str) -> bool {
        let read = self.read(key, "`true` or `false`", "it counts as `false`", boolean);
        matches!(read, Read::Good(true))
    }

    fn adoption(&mut self, consent: Adopt) -> Adoption {
        match (self.is_asked(ADOPT), consent.allows_objects()) {
            (true, true) => Adoption::Asked,
            (false, true) => Adoption::NotAsked,
            (false, false) => Adoption::NotAllowed,
            (true, false) => {
                self.problems.push(format!(
                    "the annotation {ADOPT} has no effect: `adopt` in watches.yaml is `none` for this kind; an administrator can set `adopt: objects` there"
                ));
                Adoption::NotAllowed
            }
        }
    }

    fn rollback_to(&mut self) -> RollbackTo {
        let parse = |text: &str| match text {
            "none" => Some(RollbackTo::Spec),
            number => whole(number).filter(|revision| *revision >= 1).map(RollbackTo::Revision),
        };
        match self.read(ROLLBACK_TO, "the number of a revision, or `none`", "nothing is rolled back for it", parse) {
            Read::Absent => RollbackTo::Unset,
            Read::Good(wish) => wish,
            Read::Bad(text) => RollbackTo::Wrong(text.to_owned()),
        }
    }

    fn pause(&mut self) -> Pause {
        let parse = |text: &str| match boolean(text) {
            Some(true) => Some(Pause::Open),
            Some(false) => Some(Pause::None),
            None => text.parse().ok().map(Pause::Until),
        };
        let wanted = "`true`, `false`, or a time such as `2030-01-31T08:00:00Z`";
        match self.read(PAUSED, wanted, "nothing is paused", parse) {
            Read::Good(pause) => pause,
            Read::Absent | Read::Bad(_) => Pause::None,
        }
    }

    fn period(&mut self) -> Option<Duration> {
        let wanted = "a duration such as `1m`, or `0` for never";
        let instead = "the setting in watches.yaml counts, or --reconcile-period";
        match self.read(RECONCILE_PERIOD, wanted, instead, |text| duration::parse(text).ok()) {
            Read::Good(period) if is_too_short(period) => {
                let text = (self.annotation)(RECONCILE_PERIOD).unwrap_or_default();
                self.problems.push(format!("the annotation {RECONCILE_PERIOD} is {text:?}: {TOO_SHORT}"));
                Some(SHORTEST_PERIOD)
            }
            Read::Good(period) => Some(period),
            Read::Absent | Read::Bad(_) => None,
        }
    }

    /// Any text but an empty one, and not too long: it is written elsewhere.
    fn text(&self, key: &str) -> Option<String> {
        (self.annotation)(key).filter(|text| !text.is_empty()).map(|text| text.chars().take(LONGEST).collect())
    }

    fn rotation(&self, generators: &[Generator]) -> Rotation {
        let named = |it: &Generator| Some((it.name.clone(), self.text(&format!("{ROTATE}-{}", it.name))?));
        // Where nothing is generated, there is nothing to rotate.
        let all = self.text(ROTATE).filter(|_| !generators.is_empty());
        Rotation { all, each: generators.iter().filter_map(named).collect() }
    }

    fn hooks(&mut self, watch: &Watch) -> HookWishes {
        let instead = "the setting in watches.yaml counts, or five minutes";
        let parse = |text: &str| duration::parse(text).ok().filter(|limit| !limit.is_zero());
        let timeout = match self.read(hooks::TIMEOUT, "a duration such as `10m`", instead, parse) {
            Read::Good(timeout) => Some(timeout),
            Read::Absent | Read::Bad(_) => None,
        };
        HookWishes {
            timeout: timeout.or(watch.hook_timeout),
            without_install: self.is_asked(INSTALL_DISABLE_HOOKS),
            without_upgrade: self.is_asked(UPGRADE_DISABLE_HOOKS),
            without_rollback: self.is_asked(ROLLBACK_DISABLE_HOOKS),
            without_uninstall: self.is_asked(UNINSTALL_DISABLE_HOOKS),
        }
    }

    fn delete_adopted(&mut self) -> bool {
        let parse = |text: &str| match text.trim().to_ascii_lowercase().as_str() {
            "orphan" => Some(false),
            "delete" => Some(true),
            _ => None,
        };
        let instead = "adopted objects are left in the cluster";
        matches!(self.read(ADOPTED_DELETION_POLICY, "`orphan` or `delete`", instead, parse), Read::Good(true))
    }

    fn deletion(&mut self) -> Deletion {
        let parse = |text: &str| match text.trim().to_ascii_lowercase().as_str() {
            "orphan" => Some(Deletion::Orphan),
            "uninstall" => Some(Deletion::Uninstall),
            _ => None,
        };
        match self.read(DELETION_POLICY, "`orphan` or `uninstall`", "a deletion removes nothing", parse) {
            Read::Absent => Deletion::Uninstall,
            Read::Good(deletion) => deletion,
            Read::Bad(text) => Deletion::Unknown(text.to_owned()),
        }
    }
}

/// What is said of a period for which [`is_too_short`] holds.
pub const TOO_SHORT: &str = "a period of less than a second counts as `1s`";

pub fn is_too_short(period: Duration) -> bool {
    !period.is_zero() && period < SHORTEST_PERIOD
}

enum Read<'a, T> {
    Absent,
    Good(T),
    Bad(&'a str),
}

/// Digits alone: `+3` is somebody's slip.
fn whole<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// As Go reads it, and so operator-sdk.
pub fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
