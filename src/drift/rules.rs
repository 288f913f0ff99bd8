//! Fields that others may decide: those that the cluster fills in, and those that a chart or a watch names.
//!
//! A path is a JSON pointer. A list item is named by the value of its key (`/spec/template/spec/containers/app/image`) or by
//! `*`. A number stands for any item: which one it is cannot be told from the metadata.

use std::collections::{BTreeSet, HashMap};

use ring::digest::{Context, SHA256};
use serde_json::Value;

use super::Hash;

/// On an object: pointers to fields that others may decide, separated by commas or white space.
pub const IGNORE_FIELDS: &str = "chartwright.dev/ignore-fields";

/// How many paths of that annotation count. Anybody who may write an object writes it, and each event of a watch reads it.
pub const MOST_PATHS: usize = 64;
/// No object that can be read nests more deeply.
const DEEPEST: usize = 128;

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
        let is_identity = matches!(path, "metadata" | "apiVersion" | "kind" | "metadata/name" | "metadata/namespace");
        if is_identity || path.split('/').nth(DEEPEST).is_some() {
            return Err(wrong());
        }
        let token = |part: &str| match part {
            "*" => Token::Any,
            number if number.bytes().all(|byte| byte.is_ascii_digit()) && !number.is_empty() => Token::Any,
            name => Token::Named(name.replace("~1", "/").replace("~0", "~")),
        };
        Ok(Rule { path: path.split('/').map(token).collect(), only_with: None })
    }

    /// Whether it holds for an object with these fields at its top.
    fn holds(&self, has: impl Fn(&str) -> bool) -> bool {
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

    /// The first [`MOST_PATHS`] rules of an annotation.
    pub fn of_annotation(text: &str) -> Self {
        Rules(parts(text).take(MOST_PATHS).filter_map(|part| Rule::parse(part).ok()).collect())
    }

    #[must_use]
    pub fn with(mut self, more: impl IntoIterator<Item = Rule>) -> Self {
        self.0.extend(more);
        self.0.sort();
        self.0.dedup();
        self
    }

    /// The rules that hold for an object with these fields at its top.
    pub fn tree(&self, has: impl Fn(&str) -> bool) -> Tree<'_> {
        let mut tree = Tree::default();
        self.0.iter().filter(|rule| rule.holds(&has)).for_each(|rule| tree.add(&rule.path));
        tree
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

/// What is wrong with an annotation that lists rules.
pub fn complaint(text: &str) -> Option<String> {
    const SHOWN: usize = 100;
    if parts(text).nth(MOST_PATHS).is_some() {
        return Some(format!(
            "it has more than {MOST_PATHS} paths, and only the first {MOST_PATHS} count; name a field above them instead"
        ));
    }
    let error = parts(text).find_map(|part| Rule::parse(part).err())?;
    Some(RuleError(error.0.chars().take(SHOWN).collect()).to_string())
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c == ',' || c.is_whitespace()).filter(|part| !part.is_empty())
}

/// Rules by their tokens, so that whatever they are compared with is walked once, however many there are.
#[derive(Default)]
pub struct Tree<'a> {
    /// A rule names this very place.
    pub ends: bool,
    pub named: HashMap<&'a str, Tree<'a>>,
    any: Option<Box<Tree<'a>>>,
}

impl<'a> Tree<'a> {
    pub fn add(&mut self, path: &'a [Token]) {
        let mut node = self;
        for token in path {
            node = match token {
                Token::Named(name) => node.named.entry(name).or_default(),
                Token::Any => node.any.get_or_insert_default(),
            };
        }
        node.ends = true;
    }

    /// What follows here, whatever its token.
    pub fn all_below(&self) -> impl Iterator<Item = &Tree<'a>> {
        self.named.values().chain(self.any.as_deref())
    }
}

/// What the rules at some place say below a step of a list of fields.
pub fn below<'t, 'a>(nodes: &[&'t Tree<'a>], step: &str) -> Vec<&'t Tree<'a>> {
    #[cfg(test)]
    nodes.iter().for_each(|_| crate::steps::count());
    let named = |name: &str| nodes.iter().filter_map(|node| node.named.get(name)).collect::<Vec<_>>();
    if nodes.iter().all(|node| node.all_below().next().is_none()) {
        return vec![];
    }
    let names: BTreeSet<String> = match step.split_at_checked(2) {
        Some(("f:", name)) => return named(name),
        Some(("k:", keys)) => {
            let keys: Value = serde_json::from_str(keys).unwrap_or(Value::Null);
            keys.as_object().into_iter().flatten().map(|(_, value)| super::fields::text(value)).collect()
        }
        Some(("v:", item)) => serde_json::from_str(item).iter().map(super::fields::text).collect(),
        Some(("i:", _)) => BTreeSet::new(),
        _ => return vec![],
    };
    let any = nodes.iter().filter_map(|node| node.any.as_deref());
    any.chain(names.iter().flat_map(|name| named(name))).collect()
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
        assert_eq!(Rule::parse("/spec/replicas").unwrap().path, [named("spec"), named("replicas")]);
        assert_eq!(Rule::parse("/a/0/b~1c~0").unwrap().path, [named("a"), Token::Any, named("b/c~")]);
        for text in ["", "/", "spec/replicas", "/metadata", "/kind", "/metadata/name"] {
            assert_eq!(Rule::parse(text), Err(RuleError(text.into())));
        }
    }

    #[test]
    fn an_annotation_lists_paths_and_what_is_none_is_told() {
        let text = " /spec/replicas,/a/b\n replicas ";
        assert_eq!(Rules::of_annotation(text).0.len(), 2);
        assert_eq!(complaint(text).unwrap(), RuleError("replicas".into()).to_string());
        assert_eq!(complaint("/spec/replicas"), None);
    }

    #[test]
    fn only_so_many_paths_of_an_annotation_count() {
        let many: String = (0..50_000).map(|number| format!("/f{number},")).collect();
        assert_eq!(Rules::of_annotation(&many).0.len(), MOST_PATHS);
        assert!(complaint(&many).unwrap().contains("more than 64 paths"));
        let deep = "/a".repeat(100_000);
        assert!(Rules::of_annotation(&deep).is_empty());
        assert!(complaint(&deep).unwrap().len() < 300);
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
