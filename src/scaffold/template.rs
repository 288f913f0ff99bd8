//! Templates of files: text with names between at signs, as in `@project@`.
//!
//! Helm's own templates are among them, so two braces mean nothing here. A name that is not given stays as it is; a test sees that none
//! is left in any file.

/// Puts values in the place of names.
pub fn fill(text: &str, values: &[(&str, &str)]) -> String {
    values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("@{name}@"), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_and_braces_stay() {
        let text = "{{ include \"@chart@.name\" . }}@{{ .digest }} in @project@ and @other@";
        let filled = fill(text, &[("chart", "web"), ("project", "shop")]);
        assert_eq!(filled, "{{ include \"web.name\" . }}@{{ .digest }} in shop and @other@");
    }
}
