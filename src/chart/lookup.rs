//! Whether a chart asks the cluster: does any template action call `lookup`?
//!
//! In doubt the answer is yes: a chart that is wrongly believed to use `lookup` renders a little slower, one that is wrongly
//! believed not to gets empty answers.

/// Whether the word stands in an action as the name of a function.
pub fn is_called_in(action: &str) -> bool {
    let is_part_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
    action.match_indices("lookup").any(|(start, word)| {
        let before = action[..start].chars().next_back();
        let after = action[start + word.len()..].chars().next();
        !before.is_some_and(is_part_of_name) && !after.is_some_and(|c| is_part_of_name(c) || c == ':')
    })
}

#[cfg(test)]
mod tests {
    use super::super::actions::any_in_text;
    use super::*;

    #[test]
    fn a_call_is_found_and_a_mention_is_not() {
        let is_in_text = |text| any_in_text(text, is_called_in);
        assert!(is_in_text("a: {{ lookup \"v1\" \"Secret\" .ns .name }}"));
        assert!(is_in_text("{{- $s := (lookup \"v1\" \"Secret\" \"a\" \"b\") -}}"));
        assert!(is_in_text("{{ $f := . |\n lookup }}"));
        assert!(!is_in_text("# lookup is not used here {{ .Values.a }}"));
        assert!(!is_in_text("{{ .Values.lookup }} {{ $lookup }} {{ mylookup 1 }}"));
        assert!(!is_in_text("{{- /* lookup */ -}} {{ .a }}"));
    }
}
