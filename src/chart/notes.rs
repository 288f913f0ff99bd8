//! NOTES.txt, which `helm template` never prints.
//!
//! One template is added to the operator's copy of a chart that has notes. It includes them by their path and prints one
//! document:
//!
//! ```text
//! # Source: <chart>/templates/chartwright-notes.yaml
//! chartwrightNotes: "<base64>"
//! metadata: {annotations: {helm.sh/hook: test}}
//! ```
//!
//! It says that it is a hook, since helm looks at every other document as at an object when it renders against a cluster.
//! Base64, because notes may contain whatever helm would take for the end of a document or refuse as YAML. The document is no
//! Kubernetes object: whoever reads a manifest asks [`read`] first. Notes of subcharts are not printed, as by `helm install`.

use std::io::ErrorKind;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const FILE: &str = "templates/chartwright-notes.yaml";
const KEY: &str = "chartwrightNotes: ";
/// The notes are to see their own name in `.Template`, which helm sets anew for every file.
const TEMPLATE: &str = r#"{{- $name := printf "%s/NOTES.txt" .Template.BasePath -}}
{{- $_ := set . "Template" (dict "Name" $name "BasePath" .Template.BasePath) -}}
chartwrightNotes: {{ include $name . | b64enc | quote }}
metadata: {annotations: {helm.sh/hook: test}}
"#;

/// Whether a file of a copy is the template that was added to it.
pub(crate) fn is_added(path: &Path, content: &[u8]) -> bool {
    path == Path::new(FILE) && content == TEMPLATE.as_bytes()
}

/// The notes that the added template includes, where `place` (`app/templates/chartwright-notes.yaml:3:21`) is in it.
pub(crate) fn behind(place: &str) -> Option<String> {
    let file = place.rsplitn(3, ':').last()?;
    Some(format!("{}templates/NOTES.txt", file.strip_suffix(FILE)?))
}

/// Adds the template where there are notes. A file of the chart that has its name already is left alone.
pub(super) fn add_template(chart: &Path) -> std::io::Result<()> {
    if !chart.join("templates/NOTES.txt").is_file() {
        return Ok(());
    }
    match std::fs::File::create_new(chart.join(FILE)) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        created => std::io::Write::write_all(&mut created?, TEMPLATE.as_bytes()),
    }
}

/// Whether a file of the copy is the one that was added.
pub(super) fn is_ours(path: &str, content: &[u8]) -> bool {
    path == FILE && content == TEMPLATE.as_bytes()
}

/// The notes, if this document of helm's output carries them. `source` is what follows `# Source: ` above it.
pub fn read(source: &str, document: &str) -> Option<String> {
    let (_, below) = source.trim().split_once('/')?;
    if below != FILE {
        return None;
    }
    let quoted = document.lines().find_map(|line| line.strip_prefix(KEY))?.trim();
    let bytes = STANDARD.decode(quoted.trim_matches('"')).ok()?;
    // helm takes this out of whatever a template prints; here it could not see it.
    String::from_utf8(bytes).ok().map(|notes| notes.replace("<no value>", ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_document_is_read_as_notes() {
        let document = "# Source: app/templates/chartwright-notes.yaml\nchartwrightNotes: \"SGkKLS0tCg==\"\n";
        assert_eq!(read("app/templates/chartwright-notes.yaml", document).as_deref(), Some("Hi\n---\n"));
        assert_eq!(read("app/templates/other.yaml", document), None);
        assert_eq!(read("app/charts/b/templates/chartwright-notes.yaml", document), None);
        assert_eq!(read("app/templates/chartwright-notes.yaml", "kind: ConfigMap\n"), None);
    }
}
