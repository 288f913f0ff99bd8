//! The difference of two objects as text: a unified diff of their YAML, with three lines around each change.
//!
//! Pure.

use serde_json::Value;
use similar::TextDiff;

use super::changes::{Change, What};
use crate::printable::escaped;

const CONTEXT: usize = 3;
const NOTHING: &str = "/dev/null";

/// The text of one change. A kept object has a line that says so.
pub fn unified(change: &Change) -> String {
    let id = &change.id;
    match &change.what {
        What::Kept(why) => format!("# {id} is kept: {why}\n"),
        What::Replaced => format!("# {id} is deleted and made again\n{}", difference(change)),
        _ => difference(change),
    }
}

fn difference(change: &Change) -> String {
    let side = |letter: &str, value: &Option<Value>| match value {
        Some(value) => (format!("{letter}/{}", change.id), text(value)),
        None => (NOTHING.to_owned(), String::new()),
    };
    let ((from, before), (to, after)) = (side("a", &change.before), side("b", &change.after));
    of_texts((&from, &before), (&to, &after))
}

/// The difference of two texts, each with its name.
pub fn of_texts((from, before): (&str, &str), (to, after): (&str, &str)) -> String {
    TextDiff::from_lines(before, after).unified_diff().context_radius(CONTEXT).header(from, to).to_string()
}

fn text(value: &Value) -> String {
    // What is JSON is YAML: only a writer that fails could make this one fail.
    serde_yaml::to_string(value).unwrap_or_else(|_| format!("{value:#}\n"))
}

/// The same text with colours for a terminal. What objects hold cannot bring colours of its own.
pub fn coloured(text: &str) -> String {
    const END: &str = "\u{1b}[0m";
    let mut coloured = String::with_capacity(text.len() * 2);
    for line in escaped(text).lines() {
        match colour(line) {
            Some(colour) => coloured.push_str(&format!("{colour}{line}{END}\n")),
            None => coloured.push_str(&format!("{line}\n")),
        }
    }
    coloured
}

fn colour(line: &str) -> Option<&'static str> {
    const HEADINGS: [&str; 3] = ["--- a/", "+++ b/", "# "];
    let is_heading = HEADINGS.iter().any(|heading| line.starts_with(heading)) || line.ends_with(NOTHING);
    match line.chars().next() {
        _ if is_heading => Some("\u{1b}[1m"),
        Some('-') => Some("\u{1b}[31m"),
        Some('+') => Some("\u{1b}[32m"),
        Some('@') => Some("\u{1b}[36m"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::ObjectId;
    use serde_json::json;

    fn change(what: What, before: Option<Value>, after: Option<Value>) -> Change {
        let id = ObjectId {
            group: "apps".into(),
            version: "v1".into(),
            kind: "Deployment".into(),
            namespace: Some("default".into()),
            name: "web".into(),
        };
        Change { id, what, before, after }
    }

    #[test]
    fn a_changed_field_is_shown_with_three_lines_around_it() {
        let object = |replicas: u32| json!({"a": 1, "b": 2, "c": 3, "d": 4, "replicas": replicas, "s": 5, "t": 6, "u": 7, "v": 8});
        let text = unified(&change(What::Changed, Some(object(1)), Some(object(3))));
        let expected = "--- a/Deployment default/web\n+++ b/Deployment default/web\n@@ -2,7 +2,7 @@\n b: 2\n c: 3\n d: 4\n\
                        -replicas: 1\n+replicas: 3\n s: 5\n t: 6\n u: 7\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_comes_and_what_goes_is_shown_whole() {
        let text = unified(&change(What::Created, None, Some(json!({"a": "one\ntwo\n"}))));
        assert_eq!(text, "--- /dev/null\n+++ b/Deployment default/web\n@@ -0,0 +1,3 @@\n+a: |\n+  one\n+  two\n");
        let text = unified(&change(What::Deleted, Some(json!({"a": 1})), None));
        assert_eq!(text, "--- a/Deployment default/web\n+++ /dev/null\n@@ -1 +0,0 @@\n-a: 1\n");
    }

    #[test]
    fn what_is_kept_is_named() {
        let text = unified(&change(What::Kept("an annotation asks to keep it"), None, None));
        assert_eq!(text, "# Deployment default/web is kept: an annotation asks to keep it\n");
    }

    #[test]
    fn colours_follow_the_first_character() {
        let text = "--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a: 1\n b: 2\n+c: 3\n";
        let expected = "\u{1b}[1m--- a/x\u{1b}[0m\n\u{1b}[1m+++ /dev/null\u{1b}[0m\n\u{1b}[36m@@ -1 +0,0 @@\u{1b}[0m\n\
                        \u{1b}[31m-a: 1\u{1b}[0m\n b: 2\n\u{1b}[32m+c: 3\u{1b}[0m\n";
        assert_eq!(coloured(text), expected);
    }
}
