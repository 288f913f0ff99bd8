//! Lines that are put in at a marker, a comment such as `# +kubebuilder:scaffold:watch`, and taken out again.
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

/// Takes a line out, wherever it is.
pub fn remove(text: &str, line: &str) -> String {
    text.split_inclusive('\n').filter(|present| present.trim_end() != line).collect()
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
}
