//! Lines that are put in at a marker, a comment such as `# +kubebuilder:scaffold:watch`, or at the end of a list, and taken out again.
//!
//! Pure. The rest of a file is somebody's own and stays as it is, byte by byte.

/// Puts lines in before the marker, unless they are there. None where there is no marker.
pub fn insert(text: &str, marker: &str, lines: &str) -> Option<String> {
    if text.lines().any(|line| line.trim_end() == lines.trim_end()) {
        return Some(text.to_owned());
    }
    let at = place_of(text, marker)?;
    Some(format!("{}{}\n{}", &text[..at], lines.trim_end_matches('\n'), &text[at..]))
}

/// Puts an item at the end of a list of the file, unless it is there, with the indent of the others. None where there is no such list, or
/// one in brackets.
pub fn append(text: &str, list: &str, item: &str) -> Option<String> {
    let mut at = 0;
    // Where the list ends, and how its items are indented.
    let mut end: Option<(usize, &str)> = None;
    for line in text.split_inclusive('\n') {
        at += line.len();
        let rest = line.trim_start();
        match end {
            None if is_key(line, list) => end = Some((at, "")),
            Some(_) if rest.trim_end() == item => return Some(text.to_owned()),
            Some(_) if rest.starts_with("- ") => end = Some((at, &line[..line.len() - rest.len()])),
            // The next field. Comments and what is indented belong to items.
            Some(_) if rest.len() == line.len() && !rest.starts_with('#') => break,
            _ => {}
        }
    }
    let (at, indent) = end?;
    let before = &text[..at];
    let line_end = if before.ends_with('\n') { "" } else { "\n" };
    Some(format!("{before}{line_end}{indent}{item}\n{}", &text[at..]))
}

/// Whether a line begins a field whose value is below it.
fn is_key(line: &str, name: &str) -> bool {
    let rest = line.strip_prefix(name).and_then(|rest| rest.strip_prefix(':')).map(str::trim);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
}

/// Takes a line out, wherever it is and however it is indented.
pub fn remove(text: &str, line: &str) -> String {
    text.split_inclusive('\n').filter(|present| present.trim() != line).collect()
}

/// What stands below the line of a marker. None where there is no marker.
pub fn below<'a>(text: &'a str, marker: &str) -> Option<&'a str> {
    let line = &text[place_of(text, marker)?..];
    Some(line.split_once('\n').map_or("", |(_, rest)| rest))
}

/// Where the line of a marker begins. Older projects write `#+kubebuilder…`.
pub fn place_of(text: &str, marker: &str) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim().strip_prefix('#').is_some_and(|comment| comment.trim_start() == marker) {
            return Some(at);
        }
        at += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "resources:\n# +kubebuilder:scaffold:x\n# the end\n";

    #[test]
    fn a_line_goes_before_the_marker_once_and_comes_out_again() {
        let once = insert(TEXT, "+kubebuilder:scaffold:x", "- a.yaml").unwrap();
        assert_eq!(once, "resources:\n- a.yaml\n# +kubebuilder:scaffold:x\n# the end\n");
        assert_eq!(insert(&once, "+kubebuilder:scaffold:x", "- a.yaml").unwrap(), once);
        let twice = insert(&once, "+kubebuilder:scaffold:x", "- b.yaml").unwrap();
        assert_eq!(twice, "resources:\n- a.yaml\n- b.yaml\n# +kubebuilder:scaffold:x\n# the end\n");
        assert_eq!(remove(&remove(&twice, "- b.yaml"), "- a.yaml"), TEXT);
    }

    #[test]
    fn an_older_marker_counts_and_a_missing_one_is_told() {
        assert!(insert("#+kubebuilder:scaffold:x\n", "+kubebuilder:scaffold:x", "- a").is_some());
        assert_eq!(below("a:\n  #+kubebuilder:scaffold:x\n- a\n", "+kubebuilder:scaffold:x"), Some("- a\n"));
        assert_eq!(below("#+kubebuilder:scaffold:x", "+kubebuilder:scaffold:x"), Some(""));
        assert_eq!(insert("resources:\n", "+kubebuilder:scaffold:x", "- a"), None);
        assert_eq!(below("resources:\n", "+kubebuilder:scaffold:x"), None);
    }

    #[test]
    fn an_item_goes_to_the_end_of_a_list_as_the_others_are_indented_and_comes_out_again() {
        for (before, after) in [
            ("resources:\n# of a\n- a\n# of b\n- b\n# the end\n\nlabels:\n- c\n", "- b\n- x.yaml\n# the end\n"),
            ("namePrefix: d-\nresources:\n  - a\n  - b\n", "  - b\n  - x.yaml\n"),
            ("resources: # all\n", "resources: # all\n- x.yaml\n"),
        ] {
            let more = append(before, "resources", "- x.yaml").unwrap();
            assert!(more.contains(after), "{more}");
            assert_eq!(append(&more, "resources", "- x.yaml").unwrap(), more);
            assert_eq!(remove(&more, "- x.yaml"), before);
        }
        assert_eq!(append("resources:\n- a", "resources", "- b").unwrap(), "resources:\n- a\n- b\n");
        for without in ["labels:\n- a\n", "resources: [a]\n", ""] {
            assert_eq!(append(without, "resources", "- b"), None);
        }
    }
}
