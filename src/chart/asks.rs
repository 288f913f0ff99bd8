//! What a chart asks for: does any template action call `lookup`, or read `.Capabilities` or the number of its revision?
//!
//! Read from the text, since what a template does shows only when it runs. In doubt the answer is yes: a chart that is
//! wrongly believed to ask renders a little slower, one that is wrongly believed not to gets empty answers. So values and
//! other files count too, because they may be given to `tpl`; only Markdown is taken for documentation.

use std::io::Read;
use std::path::Path;

use super::archive;

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
        let actions = text.split("{{").skip(1);
        let actions = actions.filter(|action| !action.trim_start_matches(['-', ' ', '\n']).starts_with("/*"));
        actions
            .map(|action| action.split_once("}}").map_or(action, |(inside, _)| inside))
            .map(of_action)
            .fold(Asks::default(), Asks::join)
    }

    /// Looks into a file of a chart, and into a packed subchart.
    pub fn of_file(path: &Path, content: &[u8]) -> Asks {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("md") => Asks::default(),
            Some("tgz") if path.parent().is_some_and(|parent| parent.ends_with("charts")) => of_archive(content),
            _ => std::str::from_utf8(content).map(Asks::of_text).unwrap_or_default(),
        }
    }
}

/// A subchart that cannot be read is helm's to complain about.
fn of_archive(packed: &[u8]) -> Asks {
    let mut asks = Asks::default();
    let _ = archive::each_file(packed, |path, entry| {
        let mut content = vec![];
        entry.take(super::MOST_BYTES).read_to_end(&mut content).map_err(|_| ())?;
        asks = asks.join(Asks::of_file(path, &content));
        Ok::<(), ()>(())
    });
    asks
}

fn of_action(action: &str) -> Asks {
    let is_part_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
    let lookup = action.match_indices("lookup").any(|(start, word)| {
        let before = action[..start].chars().next_back();
        let after = action[start + word.len()..].chars().next();
        !before.is_some_and(is_part_of_name) && !after.is_some_and(|c| is_part_of_name(c) || c == ':')
    });
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
