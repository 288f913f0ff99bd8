//! What stands in templates, rendered or not: kinds, questions to the cluster, texts that values are compared with.
//!
//! Pure, and a net below the renders: it reads lines, not the language of templates. What it finds and no render made is told apart.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{Member, Tree};

/// All that was found in a chart and its subcharts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scan {
    pub mentions: Vec<Mention>,
    pub lookups: Vec<Lookup>,
    pub comparisons: Vec<Comparison>,
    /// Files whose kind is an expression.
    pub unclear_kinds: Vec<String>,
    /// Files with a question to the cluster whose kind is an expression.
    pub unclear_lookups: Vec<String>,
    /// Files with a Role whose rules are values.
    pub open_rules: Vec<String>,
    /// Files that print something but name no kind.
    pub without_kind: Vec<String>,
}

/// A kind, and the apiVersions beside it as far as they are written out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// In the tree.
    pub file: String,
    pub kind: String,
    pub api_versions: Vec<String>,
    pub is_hook: bool,
}

/// A question to the cluster: `lookup "v1" "Secret" …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    pub file: String,
    pub api_version: String,
    pub kind: String,
    /// Whether it may be for all objects of the kind.
    pub is_list: bool,
}

/// A text that a template compares a value with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// In the values of the whole chart.
    pub path: Vec<String>,
    pub text: String,
}

pub fn scan(tree: &Tree) -> Scan {
    let mut scan = Scan::default();
    // A subchart that is included twice has its files once.
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    let members = tree.members();
    for member in &members {
        for (file, text) in tree.templates(member) {
            let text = texts.entry(file).or_insert_with(|| without_comments(text));
            scan.comparisons(text, member);
        }
    }
    let included = Included::of(texts.values());
    texts.iter().for_each(|(file, text)| scan.template(file, text, &included));
    scan
}

/// The definitions that are used somewhere. A library may define many, and its chart use one.
enum Included<'a> {
    All,
    Some(BTreeSet<&'a str>),
}

impl<'a> Included<'a> {
    fn of(texts: impl Iterator<Item = &'a String>) -> Self {
        let mut names = BTreeSet::new();
        for text in texts {
            for word in ["include ", "template "] {
                for (at, _) in text.match_indices(word) {
                    let name = arguments(&text[at + word.len()..]).first().copied().unwrap_or_default();
                    match unquoted(name) {
                        Some(name) => drop(names.insert(name)),
                        // A whole file, as for a checksum of it.
                        None if name.contains("Template.BasePath") => {}
                        // The name is an expression, and may be any.
                        None if is_in_action(&text[..at]) => return Included::All,
                        None => {}
                    }
                }
            }
        }
        Included::Some(names)
    }

    fn has(&self, name: &str) -> bool {
        match self {
            Included::All => true,
            Included::Some(names) => names.contains(name),
        }
    }
}

impl Scan {
    fn template(&mut self, file: &str, text: &str, included: &Included<'_>) {
        let (before, unclear_before) = (self.mentions.len(), self.unclear_kinds.len());
        let (mut is_used, mut has_tests) = (true, false);
        for lines in segments(text) {
            // A definition goes on to the next: where it ends, nothing else is printed in practice.
            if let Some(name) = lines.first().and_then(|line| defined(line)) {
                is_used = included.has(name);
            }
            if is_used {
                self.segment(file, &lines);
            }
            has_tests |= is_test(&lines);
        }
        self.lookups(file, text);
        let is_helper = file.rsplit('/').next().is_some_and(|name| name.starts_with('_'));
        let is_silent = self.mentions.len() == before && self.unclear_kinds.len() == unclear_before;
        // The template that we add to every chart.
        let is_ours = file.ends_with("chartwright-notes.yaml");
        if is_silent && !has_tests && !is_helper && !is_ours && text.contains("{{") {
            self.without_kind.push(file.to_owned());
        }
    }

    fn segment(&mut self, file: &str, lines: &[&str]) {
        if is_test(lines) {
            return;
        }
        let depth = depth_of_items(lines).unwrap_or(0);
        let values = |key: &str| -> Vec<&str> {
            let at = |depth| lines.iter().filter_map(move |line| value_of(line, key, depth));
            if depth == 0 { at(0).collect() } else { at(0).chain(at(depth)).collect() }
        };
        let (api_versions, kinds) = (values("apiVersion"), values("kind"));
        let written: Vec<String> = api_versions.iter().filter(|it| is_plain(it)).map(|it| (*it).to_owned()).collect();
        let is_hook = lines.iter().any(|line| hook_events(line).is_some());
        for kind in kinds.into_iter().filter(|kind| !kind.ends_with("List")) {
            // Without an apiVersion it is part of something else.
            if api_versions.is_empty() {
                continue;
            }
            if !is_plain(kind) {
                self.unclear_kinds.push(file.to_owned());
                continue;
            }
            let mention =
                Mention { file: file.to_owned(), kind: kind.to_owned(), api_versions: written.clone(), is_hook };
            if !self.mentions.contains(&mention) {
                self.mentions.push(mention);
            }
            if matches!(kind, "Role" | "ClusterRole") && has_open_rules(lines) {
                self.open_rules.push(file.to_owned());
            }
        }
    }

    fn lookups(&mut self, file: &str, text: &str) {
        for (at, _) in text.match_indices("lookup") {
            let is_word = !text[..at].ends_with(|it: char| it.is_alphanumeric() || matches!(it, '_' | '.' | '"' | '-'));
            let rest = &text[at + "lookup".len()..];
            if !is_word || !rest.starts_with([' ', '\t', '\n']) || !is_in_action(&text[..at]) {
                continue;
            }
            let arguments = arguments(rest);
            let literal = |index: usize| arguments.get(index).and_then(|it| unquoted(it));
            match (literal(0), literal(1)) {
                (Some(api_version), Some(kind)) => self.lookups.push(Lookup {
                    file: file.to_owned(),
                    api_version: api_version.to_owned(),
                    kind: kind.to_owned(),
                    is_list: arguments.get(3).is_none_or(|name| may_be_empty(name)),
                }),
                _ => self.unclear_lookups.push(file.to_owned()),
            }
        }
    }

    /// `eq .Values.a.b "c"`, in either order, also `ne`.
    fn comparisons(&mut self, text: &str, member: &Member) {
        for word in ["eq ", "ne "] {
            for (at, _) in text.match_indices(word) {
                let arguments = arguments(&text[at + word.len()..]);
                let path = arguments.iter().take(2).find_map(|it| it.strip_prefix(".Values."));
                let path = path.or_else(|| arguments.iter().take(2).find_map(|it| it.strip_prefix("$.Values.")));
                let texts = arguments.iter().filter_map(|it| unquoted(it)).filter(|it| !it.is_empty());
                let Some(path) = path.filter(|_| is_in_action(&text[..at])) else { continue };
                let own = path.split('.').map(str::to_owned);
                let path: Vec<String> = match path.split('.').next() {
                    Some("global") => own.collect(),
                    _ => member.path.iter().cloned().chain(own).collect(),
                };
                for text in texts {
                    let comparison = Comparison { path: path.clone(), text: text.to_owned() };
                    if !self.comparisons.contains(&comparison) {
                        self.comparisons.push(comparison);
                    }
                }
            }
        }
    }
}

/// Documents and definitions: what stands between separators, and between `define` and the next.
fn segments(text: &str) -> Vec<Vec<&str>> {
    let mut segments = vec![vec![]];
    for line in text.lines() {
        let is_start = line.starts_with("---") || (line.contains("{{") && line.contains("define "));
        if is_start {
            segments.push(vec![]);
        }
        if let Some(last) = segments.last_mut() {
            last.push(line);
        }
    }
    segments
}

/// The name that a line begins to define.
fn defined(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("define ")?;
    arguments(rest).first().and_then(|it| unquoted(it)).filter(|_| is_in_action(before))
}

/// Comments of templates say nothing, whatever is in them.
fn without_comments(text: &str) -> String {
    let (mut kept, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once("{{") {
        let inner = after.strip_prefix('-').unwrap_or(after).trim_start();
        match inner.strip_prefix("/*") {
            Some(comment) => {
                kept.push_str(before);
                let behind = comment.split_once("*/").map_or("", |(_, behind)| behind);
                rest = behind.split_once("}}").map_or("", |(_, behind)| behind);
            }
            None => {
                kept.push_str(before);
                kept.push_str("{{");
                rest = after;
            }
        }
    }
    kept.push_str(rest);
    kept
}

/// The value of a key at so many spaces, `- ` counting as two.
fn value_of<'a>(line: &'a str, key: &str, depth: usize) -> Option<&'a str> {
    let line = after_actions(line);
    let rest = line.trim_start_matches(' ');
    let spaces = line.len() - rest.len();
    let (spaces, rest) = rest.strip_prefix("- ").map_or((spaces, rest), |rest| (spaces + 2, rest));
    let value = rest.strip_prefix(key)?.strip_prefix(':')?;
    let value = if value.contains("{{") { value } else { value.split(" #").next().unwrap_or_default() };
    (spaces == depth).then(|| value.trim().trim_matches(['"', '\'']))
}

/// `{{- if .Values.a }}kind: B` is `kind: B`.
fn after_actions(line: &str) -> &str {
    let mut line = line;
    while line.trim_start().starts_with("{{") {
        match line.split_once("}}") {
            Some((_, rest)) if !rest.is_empty() => line = rest,
            _ => break,
        }
    }
    line
}

/// Where the items of a list begin, if the segment is one.
fn depth_of_items(lines: &[&str]) -> Option<usize> {
    lines.iter().find(|line| value_of(line, "kind", 0).is_some_and(|kind| kind.ends_with("List")))?;
    let is_item = |line: &&&str| {
        let line = line.trim_start();
        line.starts_with("- apiVersion:") || line.starts_with("- kind:")
    };
    let item = lines.iter().find(is_item)?;
    Some(item.len() - item.trim_start().len() + 2)
}

fn is_plain(text: &str) -> bool {
    !text.is_empty() && !text.contains("{{")
}

/// What `helm.sh/hook:` says on this line.
fn hook_events(line: &str) -> Option<&str> {
    let rest = line.trim_start().trim_start_matches(['"', '\'']).strip_prefix("helm.sh/hook")?;
    Some(rest.trim_start_matches(['"', '\'']).strip_prefix(':')?.trim().trim_matches(['"', '\'']))
}

/// Tests are run by a person, with the person's rights.
fn is_test(lines: &[&str]) -> bool {
    let events = lines.iter().find_map(|line| hook_events(line));
    events.is_some_and(|events| events.split(',').all(|event| event.trim().starts_with("test")))
}

/// Whether the rules of a role are values.
fn has_open_rules(lines: &[&str]) -> bool {
    let mut rules = lines.iter().skip_while(|line| !line.trim_start().starts_with("rules:"));
    let end = |line: &&&str| line.starts_with("subjects:") || line.starts_with("roleRef:");
    rules.by_ref().take_while(|line| !end(line)).any(|line| {
        line.contains(".Values.") && (line.contains("toYaml") || line.contains("tpl ") || line.contains("toJson"))
    })
}

/// Whether a text ends inside of `{{ … }}`.
fn is_in_action(before: &str) -> bool {
    before.rfind("{{").is_some_and(|begin| !before[begin..].contains("}}"))
}

/// The first arguments of a call: words, texts in quotes, and what is in brackets.
fn arguments(text: &str) -> Vec<&str> {
    const MOST: usize = 6;
    let (mut found, mut rest) = (vec![], text.trim_start());
    while !rest.is_empty() && !rest.starts_with([')', '}', '|']) && found.len() < MOST {
        let length = length_of_argument(rest);
        found.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    found
}

fn length_of_argument(text: &str) -> usize {
    let (mut depth, mut quote) = (0_usize, None);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '`') => quote = Some(letter),
            (None, '(') => depth += 1,
            (None, ')') if depth == 0 => return at,
            (None, ')') => depth -= 1,
            (None, '}') if depth == 0 => return at,
            (None, _) if letter.is_whitespace() && depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
}

/// Whether nothing may come of an argument, as of a value. A `lookup` without a name is a list.
fn may_be_empty(argument: &str) -> bool {
    const NEVER: [&str; 3] = ["Release.Name", "Release.Namespace", "Chart.Name"];
    let is_text = |argument: &str| unquoted(argument).is_some_and(|text| !text.is_empty());
    let is_never_empty = match argument.strip_prefix('(').and_then(|it| it.strip_suffix(')')) {
        Some(call) => match arguments(call).as_slice() {
            // Of `%s-db` at least `-db` is left.
            ["printf", format, ..] => unquoted(format).is_some_and(has_letters_of_its_own),
            ["print", parts @ ..] => parts.iter().any(|part| is_text(part)),
            _ => false,
        },
        None => is_text(argument) || NEVER.contains(&argument.trim_start_matches('$').trim_start_matches('.')),
    };
    !is_never_empty
}

/// Whether a format has more in it than verbs such as `%s`.
fn has_letters_of_its_own(format: &str) -> bool {
    let mut parts = format.split('%');
    let is_more = |part: &str| part.trim_start_matches(|it: char| !it.is_alphabetic()).len() > 1;
    parts.next().is_some_and(|before| !before.is_empty()) || parts.any(is_more)
}

fn unquoted(argument: &str) -> Option<&str> {
    let inner = |quote: char| argument.strip_prefix(quote)?.strip_suffix(quote);
    inner('"').or_else(|| inner('`'))
}

#[cfg(test)]
mod tests;
