//! Which values the templates of a chart use, read from their text.
//!
//! What a template does shows only when it runs, so this errs on one side: what may be a use is one. Files outside of templates/ are read
//! too, since a chart may give them to `tpl`. Markdown and the contents of crds/ are not.

use std::collections::{BTreeSet, HashSet};
use std::ops::Bound;
use std::path::Path;

use serde_json::Value;

use crate::chart::asks::actions;

/// Actions with one of these may read values by names that are computed.
const ENUMERATING: [&str; 15] = [
    "range",
    "toYaml",
    "toJson",
    "toPrettyJson",
    "toRawJson",
    "mustToJson",
    "mustToPrettyJson",
    "mustToRawJson",
    "toYamlPretty",
    "mustToYaml",
    "toToml",
    "keys",
    "values",
    "pick",
    "omit",
];
/// These read one value by its name, which is computed or not.
const ACCESSING: [&str; 5] = ["index", "get", "hasKey", "pluck", "dig"];

/// What was found in all files of a chart and of its subcharts: named templates are shared by all of them.
#[derive(Debug, Default)]
pub struct Usage {
    /// Names that may be those of any value: `.tag`, `"tag"`, and what comments of values.yaml name.
    loose: HashSet<Box<str>>,
    /// `.Values.image.tag` as `image.tag` and all that is before it: `image`.
    paths: BTreeSet<Box<str>>,
    /// What is used as a whole, by its path (`.Values.resources`) or by its name alone (`.resources`).
    whole_paths: HashSet<Box<str>>,
    whole_names: HashSet<Box<str>>,
    /// Values are listed, or read by names that are computed.
    pub is_enumerated: bool,
    /// The variables of a file that stand for all values.
    aliases: HashSet<Box<str>>,
}

impl Usage {
    /// Whether a name may be that of any value.
    pub fn mentions(&self, name: &str) -> bool {
        self.loose.contains(name)
    }

    /// Whether something is used as a whole, so that it may have parts of any name.
    pub fn is_whole(&self, path: &[&str]) -> bool {
        let name = path.last().is_some_and(|name| self.whole_names.contains(*name));
        name || self.whole_paths.contains(path.join(".").as_str())
    }

    /// The names that follow a path in the templates.
    pub fn below(&self, path: &[&str]) -> impl Iterator<Item = &str> {
        let start = path.iter().map(|name| format!("{name}.")).collect::<String>();
        let paths = self.paths.range::<str, _>((Bound::Included(start.as_str()), Bound::Unbounded));
        let below = paths.map_while(move |path| path.strip_prefix(&start));
        below.filter(|rest| !rest.contains('.'))
    }

    /// Drops what is not needed once the tables are made.
    pub fn forget_paths(&mut self) {
        (self.paths, self.whole_paths, self.whole_names) = Default::default();
        self.loose.shrink_to_fit();
    }

    pub fn read(&mut self, path: &Path, text: &str) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.extension().is_some_and(|extension| extension == "md") || path.iter().any(|part| part == "crds") {
            return;
        }
        match &*name {
            "values.yaml" => {
                text.lines().filter_map(|line| line.trim_start().strip_prefix('#')).for_each(|it| self.comment(it))
            }
            "values.schema.json" => self.schema(&serde_json::from_str(text).unwrap_or_default()),
            "Chart.yaml" | "requirements.yaml" => text.lines().for_each(|line| self.dependency(line)),
            _ => {}
        }
        self.aliases.clear();
        actions(text).for_each(|action| self.action(action));
    }

    /// A comment of values.yaml may show a value that is unset: `# nodePort: 30080`, `@param service.nodePort`.
    fn comment(&mut self, comment: &str) {
        for word in comment.split_whitespace() {
            let word = word.trim_matches(['`', '"', '\'', ',', '.', '(', ')', '-']);
            if let Some(name) = word.strip_suffix(':') {
                self.loose.insert(name.into());
            }
            if word.contains('.') {
                self.add_words(word);
            }
        }
        if let Some(named) = comment.split_once("@param ").or_else(|| comment.split_once("@extra ")) {
            self.add_words(named.1.split_whitespace().next().unwrap_or_default());
        }
    }

    /// `condition: postgresql.enabled,global.postgresql.enabled`
    fn dependency(&mut self, line: &str) {
        let named = ["condition:", "parent:"].iter().filter_map(|field| line.split_once(field));
        named.for_each(|(_, named)| self.add_words(named));
    }

    /// Whatever a schema describes, wherever that is.
    fn schema(&mut self, schema: &Value) {
        match schema {
            Value::Object(map) => {
                let properties = map.get("properties").and_then(Value::as_object).into_iter().flatten();
                self.loose.extend(properties.map(|(name, _)| name.as_str().into()));
                map.values().for_each(|part| self.schema(part));
            }
            Value::Array(parts) => parts.iter().for_each(|part| self.schema(part)),
            _ => {}
        }
    }

    /// What the text of a spec uses: a chart may give it to `tpl`.
    pub fn of_spec(spec: &Value) -> Self {
        fn walk(value: &Value, usage: &mut Usage) {
            match value {
                Value::String(text) => actions(text).for_each(|action| usage.action(action)),
                Value::Array(items) => items.iter().for_each(|item| walk(item, usage)),
                Value::Object(map) => map.values().for_each(|inner| walk(inner, usage)),
                _ => {}
            }
        }
        let mut usage = Usage::default();
        walk(spec, &mut usage);
        usage
    }

    fn add_words(&mut self, text: &str) {
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-')));
        self.loose.extend(words.filter(|word| !word.is_empty()).map(Box::from));
    }

    fn action(&mut self, action: &str) {
        let pieces = pieces(action);
        let about = About::of(action, &pieces);
        for (at, piece) in pieces.iter().enumerate() {
            let parts: Vec<&str> = piece.text.split('.').collect();
            match parts.iter().position(|part| *part == "Values").map(|start| &parts[start + 1..]) {
                Some([]) => {
                    let mut beside = pieces[at.saturating_sub(1)..].iter().take(3);
                    self.all_values(&about, beside.any(|piece| piece.is_quoted));
                }
                Some(path) => self.value(path, &about),
                None => self.other(piece, &parts, &about),
            }
        }
    }

    /// `.Values`
    fn all_values(&mut self, about: &About<'_>, is_beside_a_name: bool) {
        self.is_enumerated |= about.is_enumerating || about.is_accessing && !is_beside_a_name;
        self.aliases.extend(about.assigns.map(Box::from));
    }

    /// `.Values.image.tag`
    fn value(&mut self, path: &[&str], about: &About<'_>) {
        for end in 1..=path.len() {
            self.paths.insert(path[..end].join(".").into());
        }
        if !about.is_condition {
            self.whole_paths.insert(path.join(".").into());
        }
    }

    /// Any other chain of fields (`.tag`, `$image.tag`), word or text.
    fn other(&mut self, piece: &Piece<'_>, parts: &[&str], about: &About<'_>) {
        self.is_enumerated |= about.is_enumerating && self.aliases.contains(piece.text);
        let names = parts.iter().filter(|part| !part.is_empty() && !part.starts_with('$'));
        self.loose.extend(names.map(|name| Box::from(*name)));
        let is_whole = match piece.is_quoted {
            true => about.is_accessing,
            false => piece.text.starts_with(['.', '$']) && !about.is_condition,
        };
        if let Some(last) = parts.last().filter(|_| is_whole) {
            self.whole_names.insert((*last).into());
        }
    }
}

/// What an action does, by its words.
struct About<'a> {
    /// It only looks whether something is there.
    is_condition: bool,
    is_enumerating: bool,
    is_accessing: bool,
    /// The variable that it sets.
    assigns: Option<&'a str>,
}

impl<'a> About<'a> {
    fn of(action: &str, pieces: &[Piece<'a>]) -> Self {
        let has = |words: &[&str]| pieces.iter().any(|piece| !piece.is_quoted && words.contains(&piece.text));
        let mut words = pieces.iter().map(|piece| piece.text).filter(|text| *text != "-");
        let (first, second) = (words.next(), words.next());
        About {
            is_condition: first == Some("if") || (first, second) == (Some("else"), Some("if")),
            is_enumerating: has(&ENUMERATING),
            is_accessing: has(&ACCESSING),
            assigns: first.filter(|word| word.starts_with('$') && action.contains('=')),
        }
    }
}

/// A word, a chain of fields, or a word inside of quotes.
struct Piece<'a> {
    text: &'a str,
    is_quoted: bool,
}

fn pieces(action: &str) -> Vec<Piece<'_>> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '$');
    let (mut found, mut start, mut quote, mut is_escaped) = (vec![], None, None, false);
    for (at, c) in action.char_indices().chain([(action.len(), ' ')]) {
        if is_part(c) {
            start.get_or_insert(at);
            is_escaped = false;
            continue;
        }
        if let Some(start) = start.take() {
            found.push(Piece { text: &action[start..at], is_quoted: quote.is_some() });
        }
        match quote {
            _ if is_escaped => is_escaped = false,
            Some(open) if c == open => quote = None,
            Some(open) => is_escaped = c == '\\' && open != '`',
            None => quote = matches!(c, '"' | '\'' | '`').then_some(c),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(template: &str) -> Usage {
        let mut usage = Usage::default();
        usage.read(Path::new("templates/a.yaml"), template);
        usage
    }

    #[test]
    fn a_path_is_used_with_all_above_it_and_as_a_whole_only_where_it_ends() {
        let usage = of("{{ .Values.image.tag }} {{ $.Values.image.name | quote }} {{- if .Values.service }}{{ end }}");
        assert!(usage.is_whole(&["image", "tag"]) && !usage.is_whole(&["image"]) && !usage.is_whole(&["service"]));
        let mut below: Vec<&str> = usage.below(&["image"]).collect();
        below.sort_unstable();
        assert_eq!(below, ["name", "tag"]);
        assert!(!usage.mentions("tag"), "it is known below image only");
    }

    #[test]
    fn what_is_given_away_is_used_as_a_whole() {
        for template in [
            "{{ toYaml .Values.resources | nindent 2 }}",
            "{{- with .Values.resources }}{{ toYaml . }}{{ end }}",
            "{{ range $k, $v := $.Values.resources }}{{ end }}",
            "{{ include \"a\" (dict \"of\" .Values.resources) }}",
            "{{ $r := .context.resources }}",
            "{{ index .Values.web \"resources\" }}",
        ] {
            assert!(of(template).is_whole(&["resources"]), "{template}");
        }
    }

    #[test]
    fn a_name_that_may_be_that_of_any_value_is_known() {
        let usage = of("{{ with .Values.a }}{{ .b }}{{ end }}{{ get .Values.a \"c-d\" }}{{ $x.e }}");
        assert!(["b", "c-d", "e"].iter().all(|name| usage.mentions(name)));
        assert!(!usage.mentions("a"));
    }

    #[test]
    fn values_that_are_listed_may_have_any_name() {
        for template in [
            "{{ toYaml .Values }}",
            "{{ range $k, $v := .Values }}{{ end }}",
            "{{ index .Values $name }}",
            "{{ get $.Values (printf \"%s\" .x) }}",
            "{{ $all := .Values }}{{ range $k, $v := $all }}{{ end }}",
        ] {
            assert!(of(template).is_enumerated, "{template}");
        }
        for template in
            ["{{ index .Values \"a\" \"b\" }}", "{{ $v := .Values }}", "{{ include \"a\" .Values }}", "{{ .Values.a }}"]
        {
            assert!(!of(template).is_enumerated, "{template}");
        }
    }

    #[test]
    fn comments_of_values_name_values_that_are_unset() {
        let mut usage = Usage::default();
        let text =
            "# The port.\n# nodePort: 30080\n## @param service.loadBalancerIP The address\na: \"{{ .Values.host }}\"\n";
        usage.read(Path::new("values.yaml"), text);
        assert!(usage.mentions("nodePort") && usage.mentions("loadBalancerIP") && !usage.mentions("port"));
        assert!(usage.below(&[]).any(|name| name == "host"), "values may be given to tpl");
        usage.read(Path::new("Chart.yaml"), "dependencies:\n- name: db\n  condition: store.active\n");
        assert!(usage.mentions("active") && !usage.mentions("name"));
        let schema = r#"{"properties": {"a": {"items": {"properties": {"inner": {}}}}}, "title": "x"}"#;
        usage.read(Path::new("values.schema.json"), schema);
        assert!(usage.mentions("a") && usage.mentions("inner") && !usage.mentions("title"));
    }
}
