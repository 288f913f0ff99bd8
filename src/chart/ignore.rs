//! .helmignore: what lies in a chart's directory but does not belong to the chart.
//!
//! Helm's own rules, so that the copy holds what `helm package` would pack. Without them, every swap file of an editor and
//! every commit in a repository would be another chart, and thereby a new render.
//!
//! | line | what it ignores |
//! |---|---|
//! | `*.swp` | files and directories of that name, wherever |
//! | `a/b`, `/a` | that path from the chart's root |
//! | `a/` | directories only |
//! | `!a` | whatever is *not* `a`: Helm's reading, which is not git's |
//!
//! `*`, `?`, `[…]` and `\` are as in Go's `filepath.Match`: none of them matches a `/`. Hidden files in templates/ are always
//! ignored. A line that Helm refuses (`**`) ignores nothing here, and helm complains about it when it renders.

use std::path::Path;

/// The rules of one chart.
#[derive(Debug)]
pub struct Ignore(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    pattern: Vec<char>,
    negated: bool,
    directories_only: bool,
    /// Compared with the whole path, not with the last name in it.
    whole_path: bool,
}

impl Ignore {
    /// Reads a chart's .helmignore. One that cannot be read is as good as none.
    pub fn of(chart: &Path) -> Self {
        Self::parse(&std::fs::read_to_string(chart.join(".helmignore")).unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let text = text.trim_start_matches('\u{feff}');
        Ignore(text.lines().chain(["templates/.?*"]).filter_map(Rule::parse).collect())
    }

    /// `path` is relative to the chart, with `/`.
    pub fn matches(&self, path: &str, is_dir: bool) -> bool {
        self.0.iter().any(|rule| match rule.negated {
            true => (rule.directories_only && !is_dir) || !rule.matches(path),
            false => (!rule.directories_only || is_dir) && rule.matches(path),
        })
    }
}

impl Rule {
    fn parse(line: &str) -> Option<Self> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || line.contains("**") {
            return None;
        }
        let (negated, line) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest));
        let (directories_only, line) = line.strip_suffix('/').map_or((false, line), |rest| (true, rest));
        let whole_path = line.contains('/');
        let pattern = line.strip_prefix('/').unwrap_or(line).chars().collect();
        Some(Rule { pattern, negated, directories_only, whole_path })
    }

    fn matches(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        let compared: Vec<char> = if self.whole_path { path } else { name }.chars().collect();
        glob(&self.pattern, &compared)
    }
}

/// Go's `filepath.Match`; a pattern that is not well-formed matches nothing.
fn glob(pattern: &[char], text: &[char]) -> bool {
    match (pattern, text) {
        ([], rest) => rest.is_empty(),
        (['*', rest @ ..], _) => {
            let reach = text.iter().position(|c| *c == '/').unwrap_or(text.len());
            (0..=reach).any(|skipped| glob(rest, &text[skipped..]))
        }
        (['?', rest @ ..], [c, text @ ..]) => *c != '/' && glob(rest, text),
        (['[', rest @ ..], [c, text @ ..]) => match class(rest, *c) {
            Some((is_in, rest)) => *c != '/' && is_in && glob(rest, text),
            None => false,
        },
        (['\\', wanted, rest @ ..], [c, text @ ..]) | ([wanted, rest @ ..], [c, text @ ..]) => {
            wanted == c && glob(rest, text)
        }
        (_, []) => false,
    }
}

/// Reads `^a-z]` after the bracket: whether `c` is in it, and what follows.
fn class(pattern: &[char], c: char) -> Option<(bool, &[char])> {
    let (negated, mut rest) = match pattern {
        ['^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut is_in = false;
    let mut is_first = true;
    loop {
        if let [']', after @ ..] = rest
            && !is_first
        {
            return Some((is_in != negated, after));
        }
        let (low, after) = one(rest)?;
        let (high, after) = match after {
            ['-', after @ ..] => one(after)?,
            after => (low, after),
        };
        is_in |= low <= c && c <= high;
        is_first = false;
        rest = after;
    }
}

fn one(pattern: &[char]) -> Option<(char, &[char])> {
    match pattern {
        ['\\', c, rest @ ..] => Some((*c, rest)),
        ['-' | ']', ..] => None,
        [c, rest @ ..] => Some((*c, rest)),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ignored(rules: &str, path: &str) -> bool {
        Ignore::parse(rules).matches(path.trim_end_matches('/'), path.ends_with('/'))
    }

    #[test]
    fn names_are_ignored_wherever_they_are() {
        assert!(ignored("*.swp", ".a.swp") && ignored("*.swp", "templates/a.swp") && ignored("# x\n\n.git/", ".git/"));
        assert!(!ignored("*.swp", "a.swp.yaml") && !ignored(".git/", ".git") && !ignored("# a", "a"));
    }

    #[test]
    fn paths_are_ignored_from_the_root() {
        assert!(ignored("/a", "a") && ignored("docs/*.txt", "docs/a.txt"));
        assert!(!ignored("/a", "b/a") && !ignored("docs/*.txt", "docs/b/a.txt") && !ignored("docs/*", "x/docs/a"));
    }

    #[test]
    fn a_negated_rule_ignores_everything_else() {
        assert!(ignored("!keep", "other") && !ignored("!keep", "keep") && ignored("!keep/", "keep"));
    }

    #[test]
    fn hidden_templates_are_always_ignored() {
        assert!(ignored("", "templates/.DS_Store") && !ignored("", "templates/_h.tpl") && !ignored("", ".hidden"));
    }

    #[test]
    fn classes_and_escapes_are_gos() {
        assert!(ignored("a[b-d]e", "ace") && ignored("a[^b]", "ac") && ignored("a\\*", "a*") && ignored("é?", "éx"));
        assert!(
            !ignored("a[b-d]e", "aee") && !ignored("a\\*", "ab") && !ignored("a[", "a[") && !ignored("a[]a]", "a]")
        );
        assert!(!ignored("**/a", "b/a"));
    }
}
