//! Which comment of values.yaml describes which value.
//!
//! Three habits are understood: plain comments above or behind a key; those of helm-docs (`# -- text`, `# -- (type) text`,
//! `# path -- text`, `# @default -- text`, `# @ignored`); and those of readme-generator (`## @param path [type, default: x] text`,
//! `## @extra path text`, `## @skip path`). Pure, and never wrong about data: only keys that the values have count, but for `@extra`.

use serde_json::Value;

use super::scan;

/// What the comments say about one value, and about those inside.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Field {
    pub description: String,
    /// What the comments say that the default is, where it is no plain value.
    pub default: Option<String>,
    /// What the comments say that it is: `string`, `list`, `tpl/object`.
    pub type_name: Option<String>,
    /// The author does not want it to be shown.
    pub is_hidden: bool,
    /// In the order of the file.
    pub fields: Vec<(String, Field)>,
}

impl Field {
    pub fn get(&self, key: &str) -> Option<&Field> {
        self.fields.iter().find(|(name, _)| name == key).map(|(_, field)| field)
    }

    /// The one of this name, made where it is missing.
    pub(super) fn child(&mut self, key: &str) -> &mut Field {
        let at = self.fields.iter().position(|(name, _)| name == key).unwrap_or_else(|| {
            self.fields.push((key.to_owned(), Field::default()));
            self.fields.len() - 1
        });
        &mut self.fields[at].1
    }

    /// Takes over what is not said here.
    pub(super) fn merge_below(&mut self, other: &Field) {
        if self.description.is_empty() {
            self.description.clone_from(&other.description);
        }
        self.default = self.default.take().or_else(|| other.default.clone());
        self.type_name = self.type_name.take().or_else(|| other.type_name.clone());
        for (key, field) in &other.fields {
            self.child(key).merge_below(field);
        }
    }

    fn at(&mut self, path: &[String]) -> &mut Field {
        path.iter().fold(self, |field, key| field.child(key))
    }

    fn says(&mut self, said: Said) {
        if !said.description.is_empty() {
            self.description = said.description;
        }
        self.default = said.default.or(self.default.take());
        self.type_name = said.type_name.or(self.type_name.take());
        self.is_hidden |= said.is_hidden;
    }
}

/// What one comment says.
#[derive(Debug, Default, PartialEq)]
struct Said {
    /// Where it says that itself.
    path: Option<String>,
    description: String,
    default: Option<String>,
    type_name: Option<String>,
    is_hidden: bool,
}

/// Reads the comments of a text that was read as these values.
pub fn read(text: &str, values: &Value) -> Field {
    let scanned = scan::scan(text);
    let mut root = Field::default();
    for line in scanned.keys.iter().filter(|line| is_known(values, &line.path)) {
        let mut said = of_block(&line.above, &|path| is_known(values, &keys_of(path)));
        if said.description.is_empty() && !line.behind.is_empty() {
            said.description = sentence(&[line.behind.strip_prefix("-- ").unwrap_or(&line.behind)]);
        }
        let path = said.path.take().map(|path| keys_of(&path));
        root.at(&line.path);
        root.at(path.as_ref().unwrap_or(&line.path)).says(said);
    }
    complete(&mut root, values);
    for comment in &scanned.comments {
        of_tag(comment, &mut root, values);
    }
    root
}

/// Whether the values have it. What is in lists is not followed.
fn is_known(values: &Value, path: &[String]) -> bool {
    !path.is_empty() && path.iter().try_fold(values, |value, key| value.as_object()?.get(key)).is_some()
}

/// Adds what the scan has not understood: flow maps, merge keys.
fn complete(field: &mut Field, values: &Value) {
    for (key, value) in values.as_object().into_iter().flatten() {
        complete(field.child(key), value);
    }
}

/// The dots of `a.b.c`; a key with dots may be in quotes.
fn keys_of(path: &str) -> Vec<String> {
    let (mut keys, mut key, mut is_quoted) = (vec![], String::new(), false);
    for letter in path.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            '.' if !is_quoted => keys.push(std::mem::take(&mut key)),
            letter => key.push(letter),
        }
    }
    keys.push(key);
    keys
}

/// The comment above a key.
fn of_block(lines: &[String], is_path: &dyn Fn(&str) -> bool) -> Said {
    match lines.iter().rposition(|line| docs_start(line, is_path).is_some()) {
        Some(start) => of_docs(&lines[start..], is_path),
        None => Said { description: plain(lines), ..Said::default() },
    }
}

/// `-- text` or `path -- text`: the path, where there is one, and the text.
fn docs_start<'l>(line: &'l str, is_path: &dyn Fn(&str) -> bool) -> Option<(Option<&'l str>, &'l str)> {
    if line.starts_with('@') {
        return None;
    }
    if let Some(rest) = line.strip_prefix("--").filter(|rest| rest.is_empty() || rest.starts_with(' ')) {
        return Some((None, rest.trim()));
    }
    let (path, rest) = line.split_once(" -- ").or_else(|| line.strip_suffix(" --").map(|path| (path, "")))?;
    is_path(path).then(|| (Some(path), rest.trim()))
}

fn of_docs(lines: &[String], is_path: &dyn Fn(&str) -> bool) -> Said {
    let mut said = Said::default();
    let mut text: Vec<&str> = vec![];
    for (at, line) in lines.iter().enumerate() {
        let first = if at == 0 { docs_start(line, is_path) } else { None };
        match first {
            Some((path, rest)) => {
                said.path = path.map(str::to_owned);
                let typed = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
                let typed = typed.filter(|(name, _)| !name.is_empty() && !name.contains(' '));
                said.type_name = typed.map(|(name, _)| name.to_owned());
                text.push(typed.map_or(rest, |(_, rest)| rest.trim_start()));
            }
            None => match line.strip_prefix('@') {
                Some(tag) if tag.starts_with("default") => {
                    said.default = tag.split_once("--").map(|(_, rest)| rest.trim().trim_matches('`').to_owned());
                }
                Some(tag) if tag.starts_with("ignore") => said.is_hidden = true,
                Some(_) => {}
                None => text.push(line),
            },
        }
    }
    said.description = sentence(&text);
    said
}

/// Words that begin a line of prose although a colon follows.
const PROSE: [&str; 9] = ["ref", "refs", "default", "defaults", "note", "example", "examples", "see", "e.g"];

/// A comment without any marks. Values that are commented out are no part of it, nor is what describes those.
fn plain(lines: &[String]) -> String {
    let is_hidden = |line: &&String| line.starts_with('@') || is_example(line) || is_rule(line);
    let start = lines.iter().rposition(|line| is_commented_out(line)).map_or(0, |at| at + 1);
    let shown: Vec<&str> = lines[start..].iter().filter(|line| !is_hidden(line)).map(String::as_str).collect();
    sentence(&shown)
}

/// `nodePort: 30080`.
fn is_commented_out(line: &str) -> bool {
    let Some((key, _)) = line.split_once(": ").or_else(|| line.strip_suffix(':').map(|key| (key, ""))) else {
        return false;
    };
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.' | '/');
    let is_key = key.starts_with(|letter: char| letter.is_ascii_lowercase()) && key.chars().all(is_name);
    is_key && !PROSE.contains(&key)
}

/// Lines of an example are indented, or items of a list. Prose may have one blank more than is usual; a value does not.
fn is_example(line: &str) -> bool {
    let is_value = || line.strip_prefix(' ').is_some_and(is_commented_out);
    line.starts_with("  ") || line.starts_with('\t') || line.starts_with("- ") || is_value()
}

/// `-----`.
fn is_rule(line: &str) -> bool {
    !line.is_empty() && line.chars().all(|letter| matches!(letter, '-' | '=' | '*' | '#' | '~' | '_' | ' '))
}

/// The lines as one.
fn sentence(lines: &[&str]) -> String {
    let words = lines.iter().flat_map(|line| line.split_whitespace());
    words.collect::<Vec<_>>().join(" ")
}

/// `@param path [modifiers] text`, wherever it stands.
fn of_tag(comment: &str, root: &mut Field, values: &Value) {
    let Some((tag, rest)) = comment.strip_prefix('@').and_then(|rest| rest.split_once(' ')) else { return };
    let (path, rest) = rest.trim().split_once(' ').unwrap_or((rest.trim(), ""));
    let path = keys_of(path);
    // What is in a list has a number in its path, and is no value of its own.
    if path.iter().any(|key| key.is_empty() || key.contains('[')) {
        return;
    }
    match tag {
        "param" if is_known(values, &path) => root.at(&path).says(of_param(rest)),
        "extra" if parents_are_maps(values, &path) => root.at(&path).says(of_param(rest)),
        "skip" if is_known(values, &path) => root.at(&path).is_hidden = true,
        _ => {}
    }
}

/// Nothing can be inside of a value that is no map.
fn parents_are_maps(values: &Value, path: &[String]) -> bool {
    let mut value = Some(values);
    path.iter().all(|key| match value {
        Some(Value::Object(map)) => {
            value = map.get(key);
            true
        }
        None => true,
        Some(_) => false,
    })
}

fn of_param(rest: &str) -> Said {
    let rest = rest.trim();
    let (modifiers, text) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((modifiers, text)) => (modifiers, text),
        None => ("", rest),
    };
    let mut said = Said { description: sentence(&[text]), ..Said::default() };
    for modifier in modifiers.split(',').map(str::trim) {
        match modifier.split_once(':') {
            Some(("default", default)) => said.default = Some(default.trim().to_owned()),
            None if matches!(modifier, "string" | "array" | "object" | "number" | "integer" | "boolean") => {
                said.type_name = Some(modifier.to_owned());
            }
            _ => {}
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;

    fn fields(text: &str) -> Field {
        read(text, &yaml::parse(text).unwrap())
    }

    fn at<'a>(root: &'a Field, path: &str) -> &'a Field {
        path.split('.').fold(root, |field, key| field.get(key).unwrap_or_else(|| panic!("{path}")))
    }

    #[test]
    fn a_plain_comment_describes_the_key_below_or_beside_it() {
        let root = fields(
            "# How many.\n# Pods, that is.\nreplicas: 1\nimage:\n  # Where from.\n  name: a # not this\n  tag: b # Which one.\n",
        );
        assert_eq!(at(&root, "replicas").description, "How many. Pods, that is.");
        assert_eq!(at(&root, "image").description, "");
        assert_eq!(at(&root, "image.name").description, "Where from.");
        assert_eq!(at(&root, "image.tag").description, "Which one.");
        let order: Vec<_> = root.fields.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(order, ["replicas", "image"]);
    }

    #[test]
    fn what_is_commented_out_does_not_describe_the_next_key() {
        let root = fields(
            "service:\n  # A fixed port.\n  # nodePort: 30080\n  # Annotations.\n  annotations: {}\n# Hosts. Note: none is all.\n#   - host: a\n# - b\nhosts: []\n# ref: https://example.com/a\nresources: {}\n# -----\n# Title\n# -----\nx: 1\n",
        );
        assert_eq!(at(&root, "service.annotations").description, "Annotations.");
        assert_eq!(at(&root, "hosts").description, "Hosts. Note: none is all.");
        assert_eq!(at(&root, "resources").description, "ref: https://example.com/a");
        assert_eq!(at(&root, "x").description, "Title");
        let root = fields(
            "labels: {}\n#  team: x\nmonitor:\n  on: true\n  # Not of the next.\nport: 1\n#  Note: this is prose.\nhost: a\n# Such as:\n#  team: x\nmore: {}\nnone: {}\n  # team: x\n  # Or so.\nlast: 1\n",
        );
        for (path, description) in
            [("monitor", ""), ("port", ""), ("host", "Note: this is prose."), ("more", "Such as:"), ("last", "")]
        {
            assert_eq!(at(&root, path).description, description, "{path}");
        }
    }

    #[test]
    fn helm_docs_comments_are_understood() {
        let root = fields(
            "# Not this.\n# -- Number of\n# pods.\n# @default -- `one`\nreplicas: 1\n# -- (tpl/string) A name.\nname: a\n# other.deep -- By its path.\nother:\n  deep: 1\n# -- Old.\n# @ignored\nold: 1\nb: 2 # -- Beside.\n# @default -- nothing\nc: 3\n# Use -- or not.\nd: 1\n",
        );
        let replicas = at(&root, "replicas");
        assert_eq!((replicas.description.as_str(), replicas.default.as_deref()), ("Number of pods.", Some("one")));
        let name = at(&root, "name");
        assert_eq!((name.description.as_str(), name.type_name.as_deref()), ("A name.", Some("tpl/string")));
        assert_eq!(at(&root, "other.deep").description, "By its path.");
        assert_eq!(at(&root, "other").description, "");
        assert!(at(&root, "old").is_hidden && at(&root, "old").description == "Old.");
        assert_eq!(at(&root, "b").description, "Beside.");
        assert_eq!(at(&root, "c").description, "");
        assert_eq!(at(&root, "d").description, "Use -- or not.");
    }

    #[test]
    fn readme_generator_comments_are_understood() {
        let root = fields(
            "## @section Common\n## @param image.tag [nullable,default: 1.2] Which one\n## @param image.pullSecrets [array] Secrets\n## Not this.\nimage:\n  tag: \"\"\n  pullSecrets: []\n## @param gone.away Nothing\n## @extra extra.name [string] More\n## @extra image.tag.x No\n## @skip hidden\nhidden: 1\n## @param list[0].a No\nlist: []\n",
        );
        let tag = at(&root, "image.tag");
        assert_eq!((tag.description.as_str(), tag.default.as_deref()), ("Which one", Some("1.2")));
        assert_eq!(at(&root, "image.pullSecrets").type_name.as_deref(), Some("array"));
        assert_eq!(at(&root, "extra.name").description, "More");
        assert!(root.get("gone").is_none() && tag.fields.is_empty());
        assert!(at(&root, "hidden").is_hidden);
    }

    #[test]
    fn keys_that_only_the_real_reader_understands_are_there_too() {
        let root = fields("a: {b: {c: 1}}\nd: &x {e: 1}\nf:\n  <<: *x\n\"g.h\": 1\ntext: |\n  # no comment\n  a: 2\n");
        at(&root, "a.b.c");
        at(&root, "f.e");
        assert!(root.get("g.h").is_some() && at(&root, "text").fields.is_empty());
    }
}
