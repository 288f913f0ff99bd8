//! What a custom resource asks for by its annotations, and what its watch says where it asks for nothing.
//!
//! Pure. A value that cannot be read is never guessed: it is told as a problem, and the watch's setting counts. Where a guess
//! could do harm, the wish says that it could not be read, and whoever acts on it does nothing: a misspelt `orphan` must not
//! remove a database.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::applyset;
use crate::drift::Hash;
use crate::hooks::{self, Event};
use crate::watches::{OnFailure, Watch, duration};

pub const MAX_HISTORY: &str = "chartwright.dev/max-history";
pub const ON_FAILURE: &str = "chartwright.dev/on-failure";
pub const RETRIES: &str = "chartwright.dev/retries";
pub const PROGRESS_DEADLINE: &str = "chartwright.dev/progress-deadline";
pub const ROLLBACK_TO: &str = "chartwright.dev/rollback-to";
pub const ADOPT: &str = "chartwright.dev/adopt";
pub const RENDER_ANEW: &str = "chartwright.dev/render-anew";
/// Where values come from beside the spec; see [`crate::values::from`].
pub const VALUES_FROM: &str = "chartwright.dev/values-from";
pub const DELETION_POLICY: &str = "chartwright.dev/deletion-policy";
/// operator-sdk's, as are all that follow.
pub const UPGRADE_FORCE: &str = "helm.sdk.operatorframework.io/upgrade-force";
pub const UNINSTALL_WAIT: &str = "helm.sdk.operatorframework.io/uninstall-wait";
pub const INSTALL_DISABLE_HOOKS: &str = "helm.sdk.operatorframework.io/install-disable-hooks";
pub const UPGRADE_DISABLE_HOOKS: &str = "helm.sdk.operatorframework.io/upgrade-disable-hooks";
pub const ROLLBACK_DISABLE_HOOKS: &str = "helm.sdk.operatorframework.io/rollback-disable-hooks";
pub const UNINSTALL_DISABLE_HOOKS: &str = "helm.sdk.operatorframework.io/uninstall-disable-hooks";

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
    /// Whether objects that nobody claims are taken.
    pub adopt: bool,
    /// Whether a release whose record went, and cannot be made anew from its objects, is rendered anew.
    pub render_anew: bool,
    /// Whether what cannot be changed in place is deleted and made again.
    pub replace: bool,
    /// Whether the custom resource stays until all its objects are gone.
    pub uninstall_wait: bool,
    pub deletion: Deletion,
    pub hooks: HookWishes,
    /// A sentence for each annotation that cannot be read.
    pub problems: Vec<String>,
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
            max_history: reader
                .setting(MAX_HISTORY, "a whole number from 0 on, where 0 keeps all revisions", whole)
                .unwrap_or(watch.max_history),
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
            adopt: reader.is_asked(ADOPT),
            render_anew: reader.is_asked(RENDER_ANEW),
            replace: reader.is_asked(UPGRADE_FORCE),
            uninstall_wait: reader.is_asked(UNINSTALL_WAIT),
            deletion: reader.deletion(),
            hooks: reader.hooks(),
            problems: reader.problems,
        }
    }
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

    fn is_asked(&mut self, key: &str) -> bool {
        let read = self.read(key, "`true` or `false`", "it counts as `false`", boolean);
        matches!(read, Read::Good(true))
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

    fn hooks(&mut self) -> HookWishes {
        let instead = "hooks have five minutes";
        let parse = |text: &str| duration::parse(text).ok().filter(|limit| !limit.is_zero());
        let timeout = match self.read(hooks::TIMEOUT, "a duration such as `10m`", instead, parse) {
            Read::Good(timeout) => Some(timeout),
            Read::Absent | Read::Bad(_) => None,
        };
        HookWishes {
            timeout,
            without_install: self.is_asked(INSTALL_DISABLE_HOOKS),
            without_upgrade: self.is_asked(UPGRADE_DISABLE_HOOKS),
            without_rollback: self.is_asked(ROLLBACK_DISABLE_HOOKS),
            without_uninstall: self.is_asked(UNINSTALL_DISABLE_HOOKS),
        }
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
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A watch that differs from the defaults in everything.
    fn watch() -> Watch {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("Chart.yaml"), "apiVersion: v2\nname: a\nversion: 1.0.0\n").unwrap();
        Watch {
            gvk: kube::core::GroupVersionKind::gvk("g.io", "v1", "A"),
            chart: crate::chart::Chart::load(dir.path()).unwrap(),
            watch_dependents: true,
            overrides: crate::values::Overrides::default(),
            values_from: vec![],
            values_from_annotation: None,
            selector: None,
            reconcile_period: None,
            lookup: Default::default(),
            max_concurrent: None,
            release_namespace: None,
            release_name: crate::release::NameTemplate::default(),
            prune: crate::watches::Prune::Safe,
            crds: crate::watches::Crds::Create,
            allow_empty: false,
            ignore: vec![],
            max_history: 4,
            on_failure: OnFailure::Rollback,
            retries: 7,
            progress_deadline: Some(Duration::from_secs(540)),
        }
    }

    fn wishes(annotations: &[(&'static str, &'static str)]) -> Wishes {
        let annotations: BTreeMap<&str, &str> = annotations.iter().copied().collect();
        Wishes::of(|key| annotations.get(key).copied(), &watch())
    }

    /// The one problem of one annotation.
    fn problem(key: &'static str, value: &'static str) -> String {
        let mut wishes = wishes(&[(key, value)]);
        assert_eq!(wishes.problems.len(), 1, "{key}: {value}: {:?}", wishes.problems);
        wishes.problems.remove(0)
    }

    #[test]
    fn without_annotations_the_watch_decides() {
        let expected = Wishes {
            max_history: 4,
            on_failure: OnFailure::Rollback,
            retries: 7,
            progress_deadline: Some(Duration::from_secs(540)),
            rollback_to: RollbackTo::Unset,
            adopt: false,
            render_anew: false,
            replace: false,
            uninstall_wait: false,
            deletion: Deletion::Uninstall,
            hooks: HookWishes::default(),
            problems: vec![],
        };
        assert_eq!(wishes(&[]), expected);
    }

    #[test]
    fn every_annotation_is_heard() {
        let expected = Wishes {
            max_history: 0,
            on_failure: OnFailure::Stop,
            retries: 0,
            progress_deadline: Some(Duration::from_secs(90)),
            rollback_to: RollbackTo::Revision(3),
            adopt: true,
            render_anew: false,
            replace: true,
            uninstall_wait: true,
            deletion: Deletion::Orphan,
            hooks: HookWishes {
                timeout: Some(Duration::from_secs(7)),
                without_install: true,
                without_upgrade: true,
                without_rollback: true,
                without_uninstall: true,
            },
            problems: vec![],
        };
        let annotations = [
            ("chartwright.dev/max-history", "0"),
            ("chartwright.dev/on-failure", "stop"),
            ("chartwright.dev/retries", "0"),
            ("chartwright.dev/progress-deadline", "1m30s"),
            ("chartwright.dev/rollback-to", "3"),
            ("chartwright.dev/adopt", "true"),
            ("helm.sdk.operatorframework.io/upgrade-force", "T"),
            ("helm.sdk.operatorframework.io/uninstall-wait", "1"),
            ("chartwright.dev/deletion-policy", "orphan"),
            ("chartwright.dev/hook-timeout", "7s"),
            ("helm.sdk.operatorframework.io/install-disable-hooks", "true"),
            ("helm.sdk.operatorframework.io/upgrade-disable-hooks", "true"),
            ("helm.sdk.operatorframework.io/rollback-disable-hooks", "true"),
            ("helm.sdk.operatorframework.io/uninstall-disable-hooks", "true"),
        ];
        assert_eq!(wishes(&annotations), expected);
    }

    #[test]
    fn what_cannot_be_read_is_told_and_the_watch_decides() {
        let annotations =
            [(MAX_HISTORY, "-1"), (ON_FAILURE, "Rollback!"), (RETRIES, "many"), (PROGRESS_DEADLINE, "90")];
        let found = wishes(&annotations);
        assert_eq!(found, Wishes { problems: found.problems.clone(), ..wishes(&[]) });
        assert_eq!(found.problems.len(), 4);
        assert_eq!(
            problem(MAX_HISTORY, "-1"),
            "the annotation chartwright.dev/max-history is \"-1\": write a whole number from 0 on, where 0 keeps all \
             revisions; until then the setting in watches.yaml counts"
        );
    }

    #[test]
    fn every_slip_is_a_problem_that_says_what_to_write() {
        let cases = [
            (MAX_HISTORY, "", "write a whole number from 0 on"),
            (MAX_HISTORY, "+3", "write a whole number"),
            (MAX_HISTORY, "99999999999999999999", "write a whole number"),
            (
                ON_FAILURE,
                "undo",
                "is \"undo\": write `stop` or `rollback`; until then the setting in watches.yaml counts",
            ),
            (RETRIES, "5000000000", "write a whole number from 0 on"),
            (PROGRESS_DEADLINE, "-5m", "write a duration such as `10m`, or `0` for none"),
            (
                ROLLBACK_TO,
                "0",
                "is \"0\": write the number of a revision, or `none`; until then nothing is rolled back",
            ),
            (
                ADOPT,
                "yes",
                "chartwright.dev/adopt is \"yes\": write `true` or `false`; until then it counts as `false`",
            ),
            (UPGRADE_FORCE, "", "upgrade-force is \"\": write `true`"),
            (UNINSTALL_WAIT, "TRue", "uninstall-wait is \"TRue\""),
            (
                DELETION_POLICY,
                "orphn",
                "is \"orphn\": write `orphan` or `uninstall`; until then a deletion removes nothing",
            ),
        ];
        for (key, value, expected) in cases {
            let problem = problem(key, value);
            assert!(problem.contains(expected), "{problem:?} should contain {expected:?}");
        }
    }

    #[test]
    fn booleans_are_gos() {
        for (text, expected) in
            [("true", true), ("True", true), ("t", true), ("0", false), ("FALSE", false), ("F", false)]
        {
            let wishes = wishes(&[(ADOPT, text)]);
            assert_eq!((wishes.adopt, wishes.problems.len()), (expected, 0), "{text}");
        }
        for text in ["yes", "on", " true", "tRUE", ""] {
            assert!(!wishes(&[(ADOPT, text)]).adopt, "{text:?}");
        }
    }

    #[test]
    fn a_deadline_of_zero_takes_the_watchs_away() {
        for zero in ["0", "0s"] {
            assert_eq!(wishes(&[(PROGRESS_DEADLINE, zero)]).progress_deadline, None, "{zero}");
        }
    }

    #[test]
    fn a_rollback_names_a_revision_or_none() {
        let of = |text| wishes(&[(ROLLBACK_TO, text)]).rollback_to;
        assert_eq!(of("none"), RollbackTo::Spec);
        assert_eq!(of("12"), RollbackTo::Revision(12));
        for wrong in ["", "0", "-1", "last", "v3", "1.0", "99999999999"] {
            assert_eq!(of(wrong), RollbackTo::Wrong(wrong.into()));
        }
    }

    #[test]
    fn a_misspelt_policy_is_never_an_uninstall() {
        let of = |text| wishes(&[(DELETION_POLICY, text)]).deletion;
        for text in ["orphan", " Orphan ", "ORPHAN\n"] {
            assert_eq!(of(text), Deletion::Orphan, "{text:?}");
        }
        assert_eq!(of(" Uninstall"), Deletion::Uninstall);
        for wrong in ["", "orphans", "keep", "true", "delete"] {
            assert_eq!(of(wrong), Deletion::Unknown(wrong.into()));
        }
    }
}
