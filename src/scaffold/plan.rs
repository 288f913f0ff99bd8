//! What one command writes, decided before anything is written.
//!
//! Pure. Whatever a command wants is compared with what is there:
//!
//! | wish | absent | the same | as we wrote it earlier | changed by somebody |
//! |---|---|---|---|---|
//! | [`Wish::Make`] | made | left | replaced | refused, or replaced if forced |
//! | [`Wish::Renew`] | made | left | replaced | kept and told, or replaced if forced |
//! | [`Wish::Edit`] | made | left | replaced | replaced: it was made from what is there |
//! | [`Wish::Remove`] | left | removed | removed | removed |

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What shall become of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    Make {
        content: Vec<u8>,
    },
    /// With what it was when nobody had touched it.
    Renew {
        content: Vec<u8>,
        earlier: Vec<u8>,
    },
    Edit {
        content: Vec<u8>,
    },
    Remove,
}

/// One change. Paths are relative to the project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub path: PathBuf,
    pub action: Action,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Create(Vec<u8>),
    Replace(Vec<u8>),
    Remove,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub steps: Vec<Step>,
    /// What somebody changed and we left alone.
    pub kept: Vec<PathBuf>,
    /// What somebody changed and we would have to replace. Nothing may be written then.
    pub refused: Vec<PathBuf>,
}

pub type Wishes = BTreeMap<PathBuf, Wish>;

/// Compares wishes with what is there. Only `present` looks at the disk.
pub fn plan<E>(
    wishes: &Wishes,
    mut present: impl FnMut(&Path) -> Result<Option<Vec<u8>>, E>,
    is_forced: bool,
) -> Result<Plan, E> {
    let mut plan = Plan::default();
    for (path, wish) in wishes {
        let found = present(path)?;
        let mut step = |action| plan.steps.push(Step { path: path.clone(), action });
        match (wish, found) {
            (Wish::Remove, Some(_)) => step(Action::Remove),
            (Wish::Remove, None) => {}
            (Wish::Make { content } | Wish::Renew { content, .. } | Wish::Edit { content }, None) => {
                step(Action::Create(content.clone()));
            }
            (Wish::Make { content } | Wish::Renew { content, .. } | Wish::Edit { content }, Some(found))
                if found == *content => {}
            (Wish::Edit { content }, Some(_)) => step(Action::Replace(content.clone())),
            (Wish::Renew { content, earlier }, Some(found)) if is_forced || found == *earlier => {
                step(Action::Replace(content.clone()));
            }
            (Wish::Make { content }, Some(_)) if is_forced => step(Action::Replace(content.clone())),
            (Wish::Renew { .. }, Some(_)) => plan.kept.push(path.clone()),
            (Wish::Make { .. }, Some(_)) => plan.refused.push(path.clone()),
        }
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(wish: Wish, present: Option<&str>, is_forced: bool) -> Plan {
        let wishes = Wishes::from([(PathBuf::from("a"), wish)]);
        let found = |_: &Path| Ok::<_, ()>(present.map(|text| text.as_bytes().to_vec()));
        plan(&wishes, found, is_forced).unwrap()
    }

    fn steps(action: Action) -> Plan {
        Plan { steps: vec![Step { path: "a".into(), action }], ..Plan::default() }
    }

    #[test]
    fn what_somebody_changed_is_replaced_only_by_force() {
        let content = b"new".to_vec();
        let make = Wish::Make { content: content.clone() };
        let renew = Wish::Renew { content: content.clone(), earlier: b"old".to_vec() };
        let edit = Wish::Edit { content: content.clone() };
        for wish in [&make, &renew, &edit] {
            assert_eq!(planned(wish.clone(), None, false), steps(Action::Create(content.clone())));
            assert_eq!(planned(wish.clone(), Some("new"), true), Plan::default());
            assert_eq!(planned(wish.clone(), Some("theirs"), true), steps(Action::Replace(content.clone())));
        }
        assert_eq!(planned(make, Some("theirs"), false).refused, [PathBuf::from("a")]);
        assert_eq!(planned(renew.clone(), Some("theirs"), false).kept, [PathBuf::from("a")]);
        assert_eq!(planned(renew, Some("old"), false), steps(Action::Replace(content.clone())));
        assert_eq!(planned(edit, Some("theirs"), false), steps(Action::Replace(content)));
    }

    #[test]
    fn what_is_not_there_need_not_be_removed() {
        assert_eq!(planned(Wish::Remove, Some("x"), false), steps(Action::Remove));
        assert_eq!(planned(Wish::Remove, None, false), Plan::default());
    }
}
