//! Whether a chart asks the cluster: does any template action call `lookup`?
//!
//! Read from the text, since what a template does shows only when it runs. In doubt the answer is yes: a chart that is
//! wrongly believed to use `lookup` renders a little slower, one that is wrongly believed not to gets empty answers. So
//! values and other files count too, because they may be given to `tpl`; only Markdown is taken for documentation.

use std::io::Read;
use std::path::Path;

use super::archive;

/// Looks into a file of a chart, and into a packed subchart.
pub fn is_in_file(path: &Path, content: &[u8]) -> bool {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("md") => false,
        Some("tgz") if path.parent().is_some_and(|parent| parent.ends_with("charts")) => is_in_archive(content),
        _ => std::str::from_utf8(content).is_ok_and(is_in_text),
    }
}

/// A subchart that cannot be read is helm's to complain about.
fn is_in_archive(packed: &[u8]) -> bool {
    let mut found = false;
    let _ = archive::each_file(packed, |path, entry| {
        let mut content = vec![];
        entry.take(super::MOST_BYTES).read_to_end(&mut content).map_err(|_| ())?;
        found |= is_in_file(path, &content);
        // The end of the search, as an error, ends the reading.
        if found { Err(()) } else { Ok(()) }
    });
    found
}

/// Whether the word stands in an action (`{{ … }}`), outside of comments.
fn is_in_text(text: &str) -> bool {
    let actions = text.split("{{").skip(1);
    actions.filter(|action| !action.trim_start_matches(['-', ' ', '\n']).starts_with("/*")).any(|action| {
        let action = action.split_once("}}").map_or(action, |(inside, _)| inside);
        let is_part_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
        action.match_indices("lookup").any(|(start, word)| {
            let before = action[..start].chars().next_back();
            let after = action[start + word.len()..].chars().next();
            !before.is_some_and(is_part_of_name) && !after.is_some_and(|c| is_part_of_name(c) || c == ':')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_found_and_a_mention_is_not() {
        assert!(is_in_text("a: {{ lookup \"v1\" \"Secret\" .ns .name }}"));
        assert!(is_in_text("{{- $s := (lookup \"v1\" \"Secret\" \"a\" \"b\") -}}"));
        assert!(is_in_text("{{ $f := . |\n lookup }}"));
        assert!(!is_in_text("# lookup is not used here {{ .Values.a }}"));
        assert!(!is_in_text("{{ .Values.lookup }} {{ $lookup }} {{ mylookup 1 }}"));
        assert!(!is_in_text("{{- /* lookup */ -}} {{ .a }}"));
    }
}
