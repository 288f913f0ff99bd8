//! Fields that others may decide: those that the cluster fills in, and those that a chart or a watch names.
//!
//! A path is a JSON pointer. A list item is named by the value of its key (`/spec/template/spec/containers/app/image`) or by
//! `*`. A number stands for any item: which one it is cannot be told from the metadata.

use ring::digest::{Context, SHA256};

use super::Hash;

/// On an object: pointers to fields that others may decide, separated by commas or white space.
pub const IGNORE_FIELDS: &str = "chartwright.dev/ignore-fields";

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} is not a path to a field; write it as in /spec/replicas")]
pub struct RuleError(pub String);

/// A path to a field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    path: Vec<Token>,
    /// It holds only for objects that have this field as well.
    only_with: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Token {
    Named(String),
    /// Any item of a list.
    Any,
}

impl Rule {
    /// # Errors
    /// It is not a pointer, or points to the whole object or to what makes it what it is.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let wrong = || RuleError(text.to_owned());
        let path = text.strip_prefix('/').filter(|path| !path.is_empty()).ok_or_else(wrong)?;
        if matches!(path, "metadata" | "apiVersion" | "kind" | "metadata/name" | "metadata/namespace") {
            return Err(wrong());
        }
        let token = |part: &str| match part {
            "*" => Token::Any,
            number if number.bytes().all(|byte| byte.is_ascii_digit()) && !number.is_empty() => Token::Any,
            name => Token::Named(name.replace("~1", "/").replace("~0", "~")),
        };
        Ok(Rule { path: path.split('/').map(token).collect(), only_with: None })
    }

    pub fn tokens(&self) -> &[Token] {
        &self.path
    }

    /// Whether it holds for an object with these fields at its top.
    pub fn holds(&self, has: impl Fn(&str) -> bool) -> bool {
        self.only_with.is_none_or(has)
    }
}

/// The rules for one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// What the cluster owns in objects of a kind, whoever wrote it first.
    pub fn of_cluster(group: &str, kind: &str) -> Self {
        let paths: &[&str] = match (group, kind) {
            ("", "Service") => &["/spec/clusterIP", "/spec/clusterIPs", "/spec/healthCheckNodePort"],
            ("", "PersistentVolumeClaim") => &["/spec/volumeName", "/spec/storageClassName", "/spec/volumeMode"],
            ("", "Pod") => &["/spec/nodeName"],
            ("", "ServiceAccount") => &["/secrets"],
            ("apps", "Deployment") => &["/metadata/annotations/deployment.kubernetes.io~1revision"],
            ("rbac.authorization.k8s.io", "ClusterRole") => &["/rules"],
            ("admissionregistration.k8s.io", "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration") => {
                &["/webhooks/*/clientConfig/caBundle"]
            }
            ("apiregistration.k8s.io", "APIService") => &["/spec/caBundle"],
            ("apiextensions.k8s.io", "CustomResourceDefinition") => &["/spec/conversion/webhook/clientConfig/caBundle"],
            _ => &[],
        };
        // The rules of a ClusterRole are the cluster's only where they are aggregated.
        let only_with = (kind == "ClusterRole").then_some("aggregationRule");
        let rules = paths.iter().filter_map(|path| Rule::parse(path).ok());
        Rules(rules.map(|rule| Rule { only_with, ..rule }).collect())
    }

    /// The rules of an annotation, and what in it is no path.
    pub fn of_annotation(text: &str) -> (Self, Vec<RuleError>) {
        let parts = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|part| !part.is_empty());
        let (mut rules, mut errors) = (vec![], vec![]);
        for part in parts {
            match Rule::parse(part) {
                Ok(rule) => rules.push(rule),
                Err(error) => errors.push(error),
            }
        }
        (Rules(rules), errors)
    }

    #[must_use]
    pub fn with(mut self, more: impl IntoIterator<Item = Rule>) -> Self {
        self.0.extend(more);
        self.0.sort();
        self.0.dedup();
        self
    }

    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.0.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn hash(&self) -> Hash {
        if self.0.is_empty() {
            return Hash(0);
        }
        let mut context = Context::new(&SHA256);
        for rule in &self.0 {
            for token in &rule.path {
                match token {
                    Token::Named(name) => {
                        context.update(b"/");
                        context.update(name.as_bytes());
                    }
                    Token::Any => context.update(b"/*"),
                }
                context.update(&[0]);
            }
            context.update(&[1]);
        }
        super::fields::shortened(context)
    }
}

impl IntoIterator for Rules {
    type Item = Rule;
    type IntoIter = std::vec::IntoIter<Rule>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_names_fields_and_a_number_any_item() {
        let named = |name: &str| Token::Named(name.into());
        assert_eq!(Rule::parse("/spec/replicas").unwrap().tokens(), [named("spec"), named("replicas")]);
        assert_eq!(Rule::parse("/a/0/b~1c~0").unwrap().tokens(), [named("a"), Token::Any, named("b/c~")]);
        for text in ["", "/", "spec/replicas", "/metadata", "/kind", "/metadata/name"] {
            assert_eq!(Rule::parse(text), Err(RuleError(text.into())));
        }
    }

    #[test]
    fn an_annotation_lists_paths_and_what_is_none_is_told() {
        let (rules, errors) = Rules::of_annotation(" /spec/replicas,/a/b\n replicas ");
        assert_eq!(rules.iter().count(), 2);
        assert_eq!(errors, [RuleError("replicas".into())]);
    }

    #[test]
    fn the_order_of_rules_does_not_change_their_hash() {
        let rule = |text: &str| Rule::parse(text).unwrap();
        let one = Rules::default().with([rule("/a"), rule("/b")]);
        let other = Rules::default().with([rule("/b"), rule("/a"), rule("/a")]);
        assert_eq!(one.hash(), other.hash());
        assert_ne!(one.hash(), Rules::default().with([rule("/a/b")]).hash());
        assert_eq!(Rules::default().hash(), Hash(0));
    }

    #[test]
    fn the_cluster_owns_what_it_allocates() {
        for (group, kind) in [("", "Service"), ("", "PersistentVolumeClaim"), ("apps", "Deployment")] {
            assert!(!Rules::of_cluster(group, kind).is_empty(), "{kind}");
        }
        assert!(Rules::of_cluster("example.org", "Service").is_empty());
    }
}
