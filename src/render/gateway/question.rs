//! What helm asks, read from the path of a request. Pure.
//!
//! Only these questions have an answer: the version, discovery, one object, a list of objects. A path that is anything else
//! (a subresource such as a log, a proxy, a watch) is no question.

use std::fmt;

/// What a path asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    Version,
    /// The versions of the core group, with what is in them.
    Core,
    /// The other groups.
    Groups,
    /// The resources of one group and version.
    Resources {
        group: String,
        version: String,
    },
    /// Objects, or one of them.
    Objects(Wanted),
}

/// A place in the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    pub plural: String,
    pub namespace: Option<String>,
    /// None for a list.
    pub name: Option<String>,
}

impl fmt::Display for Wanted {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}", self.plural)?;
        self.name.iter().try_for_each(|name| write!(to, " {name:?}"))?;
        self.namespace.iter().try_for_each(|namespace| write!(to, " in the namespace {namespace}"))
    }
}

/// Whether a path without the secret is one of the API's. A question there that cannot be read must not be answered with
/// "not found", which helm takes for "there is none".
pub fn is_of_api(path: &str) -> bool {
    path.starts_with("/api/") || path.starts_with("/apis/")
}

/// Reads a path without the secret, and the query behind it. helm asks for objects without any query; one could turn a list
/// into a watch.
pub fn read(path: &str, query: Option<&str>) -> Option<Question> {
    let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    if !parts.iter().all(|part| is_plain(part)) {
        return None;
    }
    match parts.as_slice() {
        ["version"] => Some(Question::Version),
        ["api"] => Some(Question::Core),
        ["apis"] => Some(Question::Groups),
        ["api", version] => Some(Question::Resources { group: String::new(), version: (*version).to_owned() }),
        ["apis", group, version] => {
            Some(Question::Resources { group: (*group).to_owned(), version: (*version).to_owned() })
        }
        ["api", version, rest @ ..] => wanted("", version, rest, query),
        ["apis", group, version, rest @ ..] => wanted(group, version, rest, query),
        _ => None,
    }
}

fn wanted(group: &str, version: &str, rest: &[&str], query: Option<&str>) -> Option<Question> {
    let (namespace, plural, name) = match rest {
        // Before the next: a namespace is an object too.
        ["namespaces", name] => (None, "namespaces", Some(*name)),
        ["namespaces", namespace, plural] => (Some(*namespace), *plural, None),
        ["namespaces", namespace, plural, name] => (Some(*namespace), *plural, Some(*name)),
        [plural] => (None, *plural, None),
        [plural, name] => (None, *plural, Some(*name)),
        _ => return None,
    };
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let wanted = Wanted {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: plural.to_owned(),
        namespace: owned(namespace),
        name: owned(name),
    };
    query.is_none_or(str::is_empty).then_some(Question::Objects(wanted))
}

/// What names of objects are made of. Anything else could mean another path to whoever reads it next.
fn is_plain(part: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:@+".contains(&byte);
    !part.is_empty() && part != "." && part != ".." && part.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: &str) -> Option<(String, String, Option<String>, Option<String>)> {
        match read(path, None)? {
            Question::Objects(it) => Some((format!("{}/{}", it.group, it.version), it.plural, it.namespace, it.name)),
            _ => None,
        }
    }

    #[test]
    fn discovery_is_told_from_objects() {
        assert_eq!(read("/version", None), Some(Question::Version));
        assert_eq!(read("/api", Some("timeout=32s")), Some(Question::Core));
        assert_eq!(read("/apis", None), Some(Question::Groups));
        let of =
            |group: &str, version: &str| Some(Question::Resources { group: group.into(), version: version.into() });
        assert_eq!(read("/api/v1", None), of("", "v1"));
        assert_eq!(read("/apis/apps/v1", None), of("apps", "v1"));
    }

    #[test]
    fn objects_and_lists_are_found_with_and_without_a_namespace() {
        let some = |group: &str, plural: &str, namespace: Option<&str>, name: Option<&str>| {
            Some((group.to_owned(), plural.to_owned(), namespace.map(str::to_owned), name.map(str::to_owned)))
        };
        assert_eq!(place("/api/v1/namespaces/a/secrets/b"), some("/v1", "secrets", Some("a"), Some("b")));
        assert_eq!(place("/api/v1/namespaces/a/secrets"), some("/v1", "secrets", Some("a"), None));
        assert_eq!(place("/api/v1/secrets"), some("/v1", "secrets", None, None));
        assert_eq!(place("/api/v1/namespaces/a"), some("/v1", "namespaces", None, Some("a")));
        assert_eq!(place("/api/v1/namespaces"), some("/v1", "namespaces", None, None));
        let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node";
        assert_eq!(place(role), some("rbac.authorization.k8s.io/v1", "clusterroles", None, Some("system:node")));
        assert_eq!(place("/api/v1/nodes/a@b+c"), some("/v1", "nodes", None, Some("a@b+c")));
    }

    #[test]
    fn anything_else_is_no_question() {
        for path in [
            "",
            "/",
            "/openapi/v3",
            "/metrics",
            "/api/v1/namespaces/a/pods/b/log",
            "/api/v1/namespaces/a/pods/b/exec",
            "/api/v1/namespaces/a/services/b/proxy/x",
            "/api/v1/watch/secrets/a/b/c",
            "/api/v1/namespaces/../secrets/b",
            "/api/v1/namespaces/a%2F..%2Fb/secrets/c",
            "/api/v1//secrets",
            "/apis/apps",
        ] {
            assert_eq!(read(path, None), None, "{path}");
        }
        assert_eq!(read("/api/v1/secrets", Some("watch=true")), None);
        assert_eq!(read("/api/v1/namespaces/a/secrets/b", Some("x")), None);
    }
}
