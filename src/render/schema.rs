//! Violations of values.schema.json, as helm lists them.
//!
//! Pure. helm prints one section per chart, in an order that changes from run to run; here they are sorted, so that the same
//! values always give the same message. Both of the styles that helm 3 had over time are read.

const INTRODUCTION: &str = "values don't meet the specifications of the schema(s)";
const BROKEN: &str = "is not valid against metaschema";
const DO_NOT_FIT: &str = "the values do not fit the chart's schema: ";

/// One violation and what it consists of, where an `anyOf` failed in several ways.
struct Violation {
    path: String,
    text: String,
    parts: Vec<Violation>,
}

/// All violations in one sentence, or nothing where helm complains of something else, a broken schema included.
pub fn violations(error: &str, chart: &str) -> Option<String> {
    let (_, list) = error.split_once(INTRODUCTION)?;
    if list.contains(BROKEN) {
        return None;
    }
    let mut found: Vec<(bool, Violation)> = vec![];
    let mut section = String::new();
    let mut lines = list.lines().skip(1).peekable();
    while let Some(line) = lines.peek() {
        if line.trim_start().starts_with("- ") {
            found.extend(read(&mut lines, 0).into_iter().map(|v| (section != chart, v.below(&section, chart))));
        } else {
            section = line.trim().trim_end_matches(':').to_owned();
            lines.next();
        }
    }
    found.sort_by(|(sub_a, a), (sub_b, b)| (sub_a, &a.path, &a.text).cmp(&(sub_b, &b.path, &b.text)));
    let mut words: Vec<String> = found.iter().map(|(_, violation)| violation.in_words("")).collect();
    words.dedup();
    (!words.is_empty()).then(|| format!("{DO_NOT_FIT}{}", words.join("; ")))
}

/// Whether such a sentence tells of nothing but what is missing, so that whoever adds it is done.
pub fn is_only_missing(sentence: &str) -> bool {
    let is_missing = |part: &str| part.contains("missing propert") || part.ends_with(" is required");
    sentence.strip_prefix(DO_NOT_FIT).is_some_and(|list| list.split("; ").all(is_missing))
}

/// What is wrong with a schema itself, in one line. helm shows the whole way there, and each alternative that was not meant.
pub fn broken(error: &str, chart: &str) -> Option<String> {
    let (before, list) = error.split_once(BROKEN)?;
    let section = before.lines().rev().nth(1).map(|line| line.trim().trim_end_matches(':'));
    let whose = section.filter(|name| *name != chart).map_or_else(String::new, |name| format!(" of {name}"));
    let mut lines = list.lines().skip(1).peekable();
    let mut leaves: Vec<Violation> = vec![];
    let mut open = read(&mut lines, 0);
    open.reverse();
    while let Some(Violation { path, text, parts }) = open.pop() {
        match parts.is_empty() {
            true if leaves.iter().any(|leaf| leaf.path == path) => {}
            true => leaves.push(Violation { path, text, parts }),
            false => open.extend(parts.into_iter().rev()),
        }
    }
    let words: Vec<String> = leaves.iter().map(|leaf| leaf.in_words("")).collect();
    (!words.is_empty()).then(|| format!("values.schema.json{whose} is no JSON schema: {}", words.join("; ")))
}

/// The items at this depth or deeper, up to the first line that is none.
fn read<'a>(lines: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>, depth: usize) -> Vec<Violation> {
    let mut found = vec![];
    while let Some(line) = lines.peek() {
        let item = line.trim_start();
        let (indent, Some(item)) = (line.len() - item.len(), item.strip_prefix("- ")) else { break };
        if indent < depth {
            break;
        }
        lines.next();
        let parts = read(lines, indent + 1);
        found.push(Violation::of(item, parts));
    }
    found
}

impl Violation {
    /// `at '/a/b': text`, or in the older style `a.b: text`.
    fn of(item: &str, parts: Vec<Violation>) -> Self {
        let (path, text) = match item.strip_prefix("at '").and_then(|rest| rest.split_once("': ")) {
            Some((pointer, text)) => (dotted(pointer), text),
            None => match item.split_once(": ") {
                Some(("(root)", text)) => (String::new(), text),
                Some((path, text)) => (path.to_owned(), text),
                None => (String::new(), item),
            },
        };
        Violation { path, text: text.to_owned(), parts }
    }

    /// The path in the values of the whole chart: a subchart's are under its name.
    fn below(mut self, section: &str, chart: &str) -> Self {
        if section != chart {
            let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
            self.path = format!("{section}{dot}{}", self.path);
            self.parts = self.parts.into_iter().map(|part| part.below(section, chart)).collect();
        }
        self
    }

    fn in_words(&self, above: &str) -> String {
        let parts: Vec<String> = self.parts.iter().map(|part| part.in_words(&self.path)).collect();
        let parts = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join("; ")) };
        match self.path.is_empty() || self.path == above {
            true => format!("{}{parts}", self.text),
            false => format!("{}: {}{parts}", self.path, self.text),
        }
    }
}

/// `/image/args/0` becomes `image.args[0]`.
fn dotted(pointer: &str) -> String {
    let mut path = String::new();
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        if !step.is_empty() && step.bytes().all(|b| b.is_ascii_digit()) {
            path.push_str(&format!("[{step}]"));
        } else {
            let dot = if path.is_empty() { "" } else { "." };
            let quote = if step.contains('.') { "\"" } else { "" };
            path.push_str(&format!("{dot}{quote}{step}{quote}"));
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_schema_is_one_line_with_the_places_to_look_at() {
        let text = "values don't meet the specifications of the schema(s) in the following chart(s):\napp:\n\"file:///values.schema.json#\" is not valid against metaschema: jsonschema validation failed with 'https://json-schema.org/draft/2020-12/schema#'\n- at '': 'allOf' failed\n  - at '/properties/a': 'allOf' failed\n    - at '/properties/a/type': 'anyOf' failed\n      - at '/properties/a/type': value must be one of 'array', 'string'\n      - at '/properties/a/type': got string, want array\n  - at '/type': 'anyOf' failed\n    - at '/type': value must be one of 'array', 'string'\n    - at '/type': got string, want array\n";
        let said = "is no JSON schema: properties.a.type: value must be one of 'array', 'string'; type: value must be one of 'array', 'string'";
        assert_eq!(broken(text, "app").unwrap(), format!("values.schema.json {said}"));
        assert_eq!(broken(text, "other").unwrap(), format!("values.schema.json of app {said}"));
        assert_eq!(broken("something else", "app"), None);
    }

    #[test]
    fn what_is_only_missing_is_told_from_what_is_wrong() {
        let is_missing = |list: &str| {
            let text = format!("{INTRODUCTION} in the following chart(s):\napp:\n{list}");
            is_only_missing(&violations(&text, "app").unwrap())
        };
        assert!(is_missing("- at '': missing property 'a'\n- at '/b': missing properties 'c', 'd'\n"));
        assert!(is_missing("- (root): a is required\n"));
        assert!(!is_missing("- at '': missing property 'a'\n- at '': additional properties 'queue' not allowed\n"));
        assert!(!is_only_missing("missing property"));
    }

    #[test]
    fn every_violation_is_named_by_its_path_and_once() {
        let text = "values don't meet the specifications of the schema(s) in the following chart(s):\napp:\n- at '': missing \
            property 'colour'\n- at '/replicas': got string, want integer\n- at '/image/args/0': got number, want string\n- at \
            '/replicas': got string, want integer\n";
        assert_eq!(
            violations(text, "app").unwrap(),
            "the values do not fit the chart's schema: missing property 'colour'; image.args[0]: got number, want string; \
             replicas: got string, want integer"
        );
    }

    #[test]
    fn alternatives_and_subcharts_are_told_apart() {
        let text = "values don't meet the specifications of the schema(s) in the following chart(s):\nkid:\n- at '/a': 'anyOf' \
            failed\n  - at '/a': got string, want integer\n  - at '/a/b': minLength: got 1, want 3\n- at '': missing property \
            'x'\napp:\n- at '/z': no\n";
        assert_eq!(
            violations(text, "app").unwrap(),
            "the values do not fit the chart's schema: z: no; kid: missing property 'x'; kid.a: 'anyOf' failed (got string, want \
             integer; kid.a.b: minLength: got 1, want 3)"
        );
    }

    #[test]
    fn the_style_of_older_helms_is_read() {
        let text = "values don't meet the specifications of the schema(s) in the following chart(s):\napp:\n- (root): colour is \
            required\n- replicas: Invalid type. Expected: integer, given: string\n";
        assert_eq!(
            violations(text, "app").unwrap(),
            "the values do not fit the chart's schema: colour is required; replicas: Invalid type. Expected: integer, given: \
             string"
        );
    }

    #[test]
    fn a_broken_schema_is_no_violation() {
        let text = "values don't meet the specifications of the schema(s) in the following chart(s):\napp:\n\"file:///x#\" is not \
            valid against metaschema: no\n- at '': 'allOf' failed\n";
        assert_eq!(violations(text, "app"), None);
        assert_eq!(violations("something else", "app"), None);
    }
}
