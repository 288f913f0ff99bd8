//! What a chart asks for: does any template action call `lookup`, or read `.Capabilities` or the number of its revision?
//!
//! Read from the text, since what a template does shows only when it runs. In doubt the answer is yes: a chart that is
//! wrongly believed to ask renders a little slower, one that is wrongly believed not to gets empty answers. So values and
//! other files count too, because they may be given to `tpl`; only Markdown is taken for documentation.

use std::path::Path;

use serde_json::Value;

/// What is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asks {
    /// Objects, by `lookup`.
    pub lookup: bool,
    /// `.Capabilities.APIVersions`, or `.Capabilities` as a whole.
    pub api_versions: bool,
    /// `.Capabilities.KubeVersion`.
    pub kube_version: bool,
    /// `.Release.Revision`, or `.Release` as a whole.
    pub revision: bool,
}

impl Asks {
    pub fn join(self, other: Asks) -> Asks {
        Asks {
            lookup: self.lookup || other.lookup,
            api_versions: self.api_versions || other.api_versions,
            kube_version: self.kube_version || other.kube_version,
            revision: self.revision || other.revision,
        }
    }

    /// What stands in actions (`{{ … }}`), outside of comments.
    pub fn of_text(text: &str) -> Asks {
        actions(text).map(of_action).fold(Asks::default(), Asks::join)
    }

    /// What stands in values. A chart may put one into an action before it calls `tpl`, so the word is enough there.
    pub fn of_values(values: &Value) -> Asks {
        let of_text = |text: &str| Asks { lookup: calls_lookup(text), ..Asks::default() }.join(Asks::of_text(text));
        match values {
            Value::String(text) => of_text(text),
            Value::Array(items) => items.iter().map(Asks::of_values).fold(Asks::default(), Asks::join),
            // A key alone is no text, but `toYaml` makes one of it.
            Value::Object(map) => map
                .iter()
                .map(|(key, value)| Asks::of_text(key).join(Asks::of_values(value)))
                .fold(Asks::default(), Asks::join),
            _ => Asks::default(),
        }
    }

    /// Looks into a file of a chart.
    pub fn of_file(path: &Path, content: &[u8]) -> Asks {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("md") => Asks::default(),
            _ => std::str::from_utf8(content).map(Asks::of_text).unwrap_or_default(),
        }
    }
}

/// The template actions of a text, without braces and comments.
pub(crate) fn actions(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_, after) = rest.split_once("{{")?;
        let after = after_comment(after);
        let (action, behind) = after.split_at(length_of_action(after));
        rest = behind;
        Some(action)
    })
}

/// A comment stands first in its action.
fn after_comment(action: &str) -> &str {
    let comment = action.strip_prefix('-').unwrap_or(action).trim_start().strip_prefix("/*");
    comment.map_or(action, |comment| comment.split_once("*/").map_or("", |(_, rest)| rest))
}

/// Up to the first `}}` that is not in quotes. What does not end goes on to the end.
fn length_of_action(text: &str) -> usize {
    let mut quote = None;
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        match quote {
            _ if is_escaped => is_escaped = false,
            Some(open) => {
                is_escaped = c == '\\' && open != '`';
                quote = quote.filter(|open| *open != c);
            }
            None if text[at..].starts_with("}}") => return at,
            None => quote = matches!(c, '"' | '\'' | '`').then_some(c),
        }
    }
    text.len()
}

fn calls_lookup(action: &str) -> bool {
    let is_part_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
    action.match_indices("lookup").any(|(start, word)| {
        let before = action[..start].chars().next_back();
        let after = action[start + word.len()..].chars().next();
        !before.is_some_and(is_part_of_name) && !after.is_some_and(|c| is_part_of_name(c) || c == ':')
    })
}

fn of_action(action: &str) -> Asks {
    let lookup = calls_lookup(action);
    let mut asks = Asks { lookup, revision: asks_revision(action), ..Asks::default() };
    for (start, word) in action.match_indices("Capabilities") {
        match action[start + word.len()..].trim_start_matches(')') {
            rest if rest.starts_with(".KubeVersion") => asks.kube_version = true,
            rest if rest.starts_with(".HelmVersion") => {}
            _ => (asks.api_versions, asks.kube_version) = (true, true),
        }
    }
    asks
}

fn asks_revision(action: &str) -> bool {
    let goes_on = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let whole = action.match_indices(".Release").any(|(start, word)| {
        let after = action[start + word.len()..].chars().next();
        !after.is_some_and(goes_on)
    });
    whole || action.contains("Revision")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks_lookup(text: &str) -> bool {
        Asks::of_text(text).lookup
    }

    #[test]
    fn a_call_is_found_and_a_mention_is_not() {
        assert!(asks_lookup("a: {{ lookup \"v1\" \"Secret\" .ns .name }}"));
        assert!(asks_lookup("{{- $s := (lookup \"v1\" \"Secret\" \"a\" \"b\") -}}"));
        assert!(asks_lookup("{{ $f := . |\n lookup }}"));
        assert!(!asks_lookup("# lookup is not used here {{ .Values.a }}"));
        assert!(!asks_lookup("{{ .Values.lookup }} {{ $lookup }} {{ mylookup 1 }}"));
        assert!(!asks_lookup("{{- /* lookup */ -}} {{ .a }}"));
    }

    #[test]
    fn an_action_does_not_end_within_quotes() {
        assert!(asks_lookup(r#"{{ print "}}" (lookup "v1" "Secret" "a" "b") }}"#));
        assert!(asks_lookup(r#"{{ print "\"}}" `\`  "}}" (lookup "v1" "Secret" "a" "b") }}"#));
        assert!(asks_lookup(r#"{{ print "{{" "}}" '"' (lookup "v1" "Secret" "a" "b") }}"#));
        assert!(asks_lookup("{{ print `}}` \"a\" | lookup }}") && asks_lookup("{{/* it's }} */}}{{ lookup }}"));
        assert!(!asks_lookup(r#"{{ print "}}" }} lookup "#));
    }

    #[test]
    fn values_are_asked_as_the_chart_gets_them() {
        let asks = |value: Value| Asks::of_values(&value).lookup;
        assert!(asks(serde_json::json!({"a": ["{{\nlookup \"v1\" \"Secret\" \"a\" \"b\"}}"]})));
        assert!(asks(serde_json::json!({"a": "{{\tlookup\t\"v1\""})) && asks(serde_json::json!({"{{ lookup }}": 1})));
        assert!(asks(serde_json::json!("lookup \"v1\" \"Secret\" \"a\" \"b\"")), "a chart may put it into an action");
        assert!(!asks(serde_json::json!({"lookup": true, "a": "mylookup", "b": "{{ .Values.lookup }}"})));
        assert!(Asks::of_values(&serde_json::json!("{{\n.Release.Revision}}")).revision);
    }

    #[test]
    fn the_number_is_asked_for_by_name_or_with_all_of_release() {
        let is_asked = |text| Asks::of_text(text).revision;
        assert!(is_asked("{{ .Release.Revision }}") && is_asked("{{ get $.Release \"Revision\" }}"));
        assert!(is_asked("{{ toYaml .Release }}") && is_asked("{{ include \"a\" (dict \"r\" .Release) }}"));
        assert!(!is_asked("{{ .Release.Name }} .Release {{ .Values.Released }} {{ .ReleaseName }}"));
    }

    #[test]
    fn the_version_alone_is_told_from_the_list_of_kinds() {
        let of = |text: &str| {
            let asks = Asks::of_text(text);
            (asks.api_versions, asks.kube_version)
        };
        assert_eq!(of("{{ if semverCompare \">=1.19-0\" .Capabilities.KubeVersion.GitVersion }}"), (false, true));
        assert_eq!(of("{{ .Capabilities.HelmVersion.Version }}"), (false, false));
        assert_eq!(of("{{ if $.Capabilities.APIVersions.Has \"a/v1\" }}"), (true, true));
        for whole in ["{{ $c := .Capabilities }}", "{{ index . \"Capabilities\" }}", "{{ toYaml $.Capabilities }}"] {
            assert_eq!(of(whole), (true, true), "{whole}");
        }
        assert_eq!(of("Capabilities {{ .Values.a }}"), (false, false));
    }
}
