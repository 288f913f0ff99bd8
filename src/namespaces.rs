//! Which namespaces the operator looks at: all, or those that WATCH_NAMESPACE names.
//!
//! Pure. Where namespaces are named, nothing that has a namespace is listed or watched across the cluster: each watch covers one
//! namespace, so that Roles in those namespaces are all that the operator needs.

use std::sync::Arc;

/// What one watch covers: a namespace, or, where it is none, everything.
pub type Scope = Option<Arc<str>>;

/// Empty is all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespaces(Arc<[Arc<str>]>);

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "WATCH_NAMESPACE: `{0}` is not the name of a namespace: small letters, digits and `-`, at most 63; several are written as in a,b"
)]
pub struct NamespaceError(String);

impl Namespaces {
    /// As operator-sdk reads it: names between commas, blanks do not count.
    pub fn parse(text: &str) -> Result<Self, NamespaceError> {
        let mut names: Vec<Arc<str>> = vec![];
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            if !is_name(name) {
                return Err(NamespaceError(name.to_owned()));
            }
            if !names.iter().any(|known| **known == *name) {
                names.push(name.into());
            }
        }
        Ok(Namespaces(names.into()))
    }

    pub fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    pub fn has(&self, namespace: &str) -> bool {
        self.is_all() || self.0.iter().any(|name| **name == *namespace)
    }

    /// One for each watch that is needed to see everything of a kind with namespaces.
    pub fn scopes(&self) -> Vec<Scope> {
        match self.is_all() {
            true => vec![None],
            false => self.0.iter().cloned().map(Some).collect(),
        }
    }

    /// The scope of the watch that sees what is in a namespace, or what has none.
    pub fn scope_of(&self, namespace: Option<&str>) -> Scope {
        namespace.filter(|_| !self.is_all()).map(Arc::from)
    }

    /// `a, b`.
    pub fn shown(&self) -> String {
        self.0.join(", ")
    }
}

/// Whether a scope covers a namespace.
pub fn covers(scope: &Scope, namespace: Option<&str>) -> bool {
    scope.is_none() || scope.as_deref() == namespace
}

/// As the API server sees it.
pub fn is_name(name: &str) -> bool {
    let is_plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    is_plain && name.len() <= 63 && !name.starts_with('-') && !name.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_and_repeated_names_do_not_count() {
        let names = Namespaces::parse(" a,, b ,a,").unwrap();
        assert_eq!(names.scopes(), [Some("a".into()), Some("b".into())]);
        assert_eq!(names.shown(), "a, b");
        for all in ["", " ", ",", " , "] {
            assert!(Namespaces::parse(all).unwrap().is_all(), "{all:?}");
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for wrong in ["A", "a/b", "-a", "a b", "*", &"a".repeat(64)] {
            assert!(Namespaces::parse(wrong).unwrap_err().to_string().contains(wrong), "{wrong}");
        }
    }

    #[test]
    fn all_is_one_scope_and_names_are_one_each() {
        let (all, some) = (Namespaces::default(), Namespaces::parse("a,b").unwrap());
        assert_eq!((all.scopes(), all.scope_of(Some("a"))), (vec![None], None));
        assert_eq!((some.scope_of(Some("c")), some.scope_of(None)), (Some("c".into()), None));
        assert!(all.has("c") && some.has("b") && !some.has("c"));
        assert!(covers(&None, Some("a")) && covers(&Some("a".into()), Some("a")));
        assert!(!covers(&Some("a".into()), Some("b")) && !covers(&Some("a".into()), None));
    }
}
