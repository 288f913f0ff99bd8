//! The kind that a chart becomes: its group, version and names.
//!
//! What is refused here would be refused by the API server later, when half of the project is written.

use std::fmt;

/// A kind, as a CustomResourceDefinition names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Api {
    /// With the domain: `charts.example.com`.
    pub group: String,
    pub version: String,
    pub kind: String,
    /// Lower case, for paths and commands.
    pub plural: String,
    pub singular: String,
    pub is_namespaced: bool,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    #[error(
        "{0:?} is no kind: write it in CamelCase, a capital letter and then letters and digits, 59 at most, as in `Nginx`"
    )]
    Kind(String),
    #[error("{0:?} is no version: it is v, a number, and perhaps alpha or beta with a number, as in `v1alpha1`")]
    Version(String),
    #[error(
        "{0:?} is no group: it is made of small letters, digits, `-` and `.`, as in `charts.example.com`, and has a dot"
    )]
    Group(String),
}

impl Api {
    /// # Errors
    /// A name that the API server would refuse.
    pub fn new(group: &str, version: &str, kind: &str, is_namespaced: bool) -> Result<Self, ApiError> {
        if !is_kind(kind) {
            return Err(ApiError::Kind(kind.into()));
        }
        if !is_version(version) {
            return Err(ApiError::Version(version.into()));
        }
        if !is_group(group) {
            return Err(ApiError::Group(group.into()));
        }
        let singular = kind.to_ascii_lowercase();
        let plural = plural(&singular);
        Ok(Api { group: group.into(), version: version.into(), kind: kind.into(), plural, singular, is_namespaced })
    }

    /// The name of its CustomResourceDefinition.
    pub fn definition(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.api_version(), self.kind)
    }
}

fn is_kind(kind: &str) -> bool {
    let mut letters = kind.chars();
    // With `List` behind it, it has to fit into 63.
    kind.len() <= 59
        && letters.next().is_some_and(|first| first.is_ascii_uppercase())
        && letters.all(|letter| letter.is_ascii_alphanumeric())
}

fn is_version(version: &str) -> bool {
    let is_number =
        |text: &str| text.starts_with(|c: char| ('1'..='9').contains(&c)) && text.bytes().all(|b| b.is_ascii_digit());
    let Some(rest) = version.strip_prefix('v') else { return false };
    let parts = ["alpha", "beta"].iter().find_map(|stage| rest.split_once(stage));
    version.len() <= 63 && parts.map_or_else(|| is_number(rest), |(major, minor)| is_number(major) && is_number(minor))
}

fn is_group(group: &str) -> bool {
    group.len() <= 253 && group.contains('.') && group.split('.').all(is_label)
}

/// A DNS label, as RFC 1123 has it: what a namespace, a project or a part of a group may be called.
pub fn is_label(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.len() <= 63 && text.bytes().all(is_inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// What a kind may be called in commands: a label that begins with a letter.
pub fn is_name(text: &str) -> bool {
    is_label(text) && !text.starts_with(|first: char| first.is_ascii_digit())
}

/// The usual English plural. `--plural` sets another.
pub fn plural(singular: &str) -> String {
    let ends = |endings: &[&str]| endings.iter().any(|ending| singular.ends_with(ending));
    let stem = |cut: usize| &singular[..singular.len() - cut];
    if ends(&["s", "x", "z", "ch", "sh"]) {
        format!("{singular}es")
    } else if singular.ends_with('y') && !ends(&["ay", "ey", "iy", "oy", "uy"]) && singular.len() > 1 {
        format!("{}ies", stem(1))
    } else {
        format!("{singular}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_names_for_paths_and_commands() {
        let api = Api::new("charts.example.com", "v1alpha1", "Nginx", true).unwrap();
        assert_eq!(api.definition(), "nginxes.charts.example.com");
        assert_eq!((api.singular.as_str(), api.to_string().as_str()), ("nginx", "charts.example.com/v1alpha1 Nginx"));
        for (one, many) in
            [("memcached", "memcacheds"), ("policy", "policies"), ("gateway", "gateways"), ("bus", "buses")]
        {
            assert_eq!(plural(one), many);
        }
    }

    #[test]
    fn what_the_api_server_would_refuse_is_refused_with_an_example() {
        let refused = |group: &str, version: &str, kind: &str| Api::new(group, version, kind, true).unwrap_err();
        for kind in ["", "nginx", "My-App", "1App", "App_", &"A".repeat(60)] {
            assert_eq!(refused("a.b", "v1", kind), ApiError::Kind(kind.into()));
        }
        for version in ["", "1", "v", "v0", "v1alpha", "v1gamma1", "v1.0", "v1alpha1beta1"] {
            assert_eq!(refused("a.b", version, "App"), ApiError::Version(version.into()));
        }
        for group in ["", "charts", "Charts.example.com", ".b", "a..b", "a-.b", "a_b.c"] {
            assert_eq!(refused(group, "v1", "App"), ApiError::Group(group.into()));
        }
        assert!(Api::new("a.b", "v12beta3", "App", true).is_ok());
        let longest = Api::new("a.b", "v1", &"X".repeat(59), true).unwrap();
        assert!(is_name(&longest.plural) && !is_name("1x") && !is_name("Xx") && !is_name(&"x".repeat(64)));
    }
}
