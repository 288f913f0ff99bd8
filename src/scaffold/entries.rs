//! The entries of a watches.yaml, as text: one more, one less, another version.
//!
//! Pure. What somebody wrote between and inside of other entries stays as it is. Which fields there are and what they mean is for
//! [`crate::watches`].

use serde_json::Value;

use super::api::Api;
use super::markers;
use crate::yaml;

const MARKER: &str = "+kubebuilder:scaffold:watch";

/// What an entry says about its kind and chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub chart: String,
    /// Values also come from elsewhere than the spec.
    pub has_other_values: bool,
}

impl Entry {
    fn of(value: &Value) -> Self {
        let field = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let is_empty = |value: &Value| match value {
            Value::Object(map) => map.is_empty(),
            Value::Array(list) => list.is_empty(),
            value => value.is_null(),
        };
        Entry {
            group: field("group"),
            version: field("version"),
            kind: field("kind"),
            chart: field("chart"),
            has_other_values: ["overrideValues", "valuesFrom"].iter().any(|name| !is_empty(&value[*name])),
        }
    }

    pub fn is_of(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }
}

/// All entries. A text that cannot be read has none: whoever runs the operator is told.
pub fn read(text: &str) -> Vec<Entry> {
    match yaml::parse(text) {
        Ok(Value::Array(entries)) => entries.iter().map(Entry::of).collect(),
        _ => vec![],
    }
}

/// One more entry. None where the marker is missing.
pub fn add(text: &str, api: &Api, chart: &str) -> Option<String> {
    let Api { group, version, kind, .. } = api;
    let lines = format!("- group: {group}\n  version: {version}\n  kind: {kind}\n  chart: {chart}");
    markers::insert(text, MARKER, &lines)
}

/// Without the entry of a kind. None where its lines cannot be told from the rest.
pub fn remove(text: &str, api: &Api) -> Option<String> {
    let (start, end) = lines_of(text, api)?;
    let rest = format!("{}{}", &text[..start], &text[end..]);
    let (mut wanted, at) = listed(text, api)?;
    wanted.remove(at);
    (values(&rest)? == wanted).then_some(rest)
}

/// The same entry for another version. None where its lines cannot be told from the rest.
pub fn with_version(text: &str, api: &Api, version: &str) -> Option<String> {
    let (start, end) = lines_of(text, api)?;
    let mut is_changed = false;
    let change = |line: &str| match line.trim_start_matches(['-', ' ']).strip_prefix("version:") {
        Some(old) if !is_changed && old.trim() == api.version => {
            is_changed = true;
            line.replacen(&api.version, version, 1)
        }
        _ => line.to_owned(),
    };
    let entry: String = text[start..end].split_inclusive('\n').map(change).collect();
    let changed = format!("{}{entry}{}", &text[..start], &text[end..]);
    let (mut wanted, at) = listed(text, api)?;
    wanted[at]["version"] = version.into();
    (values(&changed)? == wanted).then_some(changed)
}

/// All that the file says. Texts are cut by their lines, and this tells whether the cut was right.
fn values(text: &str) -> Option<Vec<Value>> {
    match yaml::parse(text) {
        Ok(Value::Array(entries)) => Some(entries),
        Ok(Value::Null) => Some(vec![]),
        _ => None,
    }
}

/// All entries, and which of them is of this very kind and version.
fn listed(text: &str, api: &Api) -> Option<(Vec<Value>, usize)> {
    let all = values(text)?;
    let at = all.iter().position(|value| is_meant(&Entry::of(value), api))?;
    Some((all, at))
}

fn is_meant(entry: &Entry, api: &Api) -> bool {
    entry.is_of(&api.group, &api.kind) && entry.version == api.version
}

/// Where the entry of this very kind and version begins and ends: at a dash in the first column, up to the next line there. A comment
/// there ends it only if nothing of the entry follows.
fn lines_of(text: &str, api: &Api) -> Option<(usize, usize)> {
    let mut starts = vec![];
    // The first of the comments that may still be inside.
    let mut comment = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.starts_with('#') {
            comment = comment.or(Some(at));
        } else if !line.starts_with([' ', '\t', '\n', '\r']) {
            starts.extend(comment.take());
            starts.push(at);
        } else if !line.trim().is_empty() {
            comment = None;
        }
        at += line.len();
    }
    starts.extend(comment);
    starts.push(text.len());
    let is_wanted = |(start, end): &(usize, usize)| {
        let entries = if text[*start..].starts_with('-') { read(&text[*start..*end]) } else { vec![] };
        entries.first().is_some_and(|entry| is_meant(entry, api))
    };
    starts.windows(2).map(|pair| (pair[0], pair[1])).find(is_wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# ours\n# +kubebuilder:scaffold:watch\n";

    fn api(kind: &str) -> Api {
        Api::new("charts.example.com", "v1", kind, true).unwrap()
    }

    #[test]
    fn an_entry_comes_and_goes_and_the_rest_stays() {
        let one = add(TEXT, &api("Web"), "helm-charts/web").unwrap();
        let both = add(&one, &api("Shop"), "helm-charts/shop").unwrap();
        let kinds: Vec<String> = read(&both).into_iter().map(|entry| entry.kind).collect();
        assert_eq!(kinds, ["Web", "Shop"]);
        assert_eq!(read(&both)[1].chart, "helm-charts/shop");
        assert_eq!(remove(&both, &api("Shop")).unwrap(), one);
        assert_eq!(remove(&one, &api("Web")).unwrap(), TEXT);
        assert_eq!(remove(&one, &api("Shop")), None);
    }

    #[test]
    fn what_somebody_added_to_an_entry_goes_with_it_or_stays_with_it() {
        let text = "- version: v1\n  group: charts.example.com\n  kind: Web\n  chart: c\n  overrideValues:\n    a: b\n\n# of Shop\n- {group: charts.example.com, version: v1, kind: Shop, chart: d}\n";
        let has: Vec<bool> = read(text).iter().map(|entry| entry.has_other_values).collect();
        assert_eq!(has, [true, false]);
        assert!(remove(text, &api("Web")).unwrap().starts_with("# of Shop\n- {group"));
        assert!(remove(text, &api("Shop")).unwrap().ends_with("# of Shop\n"));
        let newer = with_version(text, &api("Web"), "v2").unwrap();
        assert_eq!(newer, text.replacen("- version: v1", "- version: v2", 1));
    }

    #[test]
    fn a_comment_in_an_entry_does_not_end_it() {
        let shop = "- group: charts.example.com\n  version: v1\n  kind: Shop\n  chart: d\n";
        let web = "- group: charts.example.com\n  version: v1\n  kind: Web\n  chart: c\n#  watchDependentResources: false\n\n  overrideValues: {a: b}\n";
        let text = format!("{shop}{web}# the end\n");
        assert_eq!(remove(&text, &api("Web")).unwrap(), format!("{shop}# the end\n"));
        assert_eq!(remove(&text, &api("Shop")).unwrap(), format!("{web}# the end\n"));
    }

    #[test]
    fn what_would_change_another_entry_is_not_done() {
        // A text that looks like the entry, in another one.
        let inner = "- {group: charts.example.com, version: v1, kind: Web, chart: c}\n";
        let shop = format!("- group: charts.example.com\n  version: v1\n  kind: Shop\n  chart: \"\n{inner}\"\n");
        assert_eq!(remove(&shop, &api("Web")), None);
        let anchored =
            "- &one {group: charts.example.com, version: v1, kind: Web, chart: c}\n- {<<: *one, kind: Shop}\n";
        assert_eq!(remove(anchored, &api("Web")), None);
        let nested =
            "- overrideValues:\n    version: v1\n  group: charts.example.com\n  version: v1\n  kind: Web\n  chart: c\n";
        assert_eq!(with_version(nested, &api("Web"), "v2"), None);
    }
}
