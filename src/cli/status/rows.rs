//! The table of custom resources: a row each. Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::told::{Ready, Told, ago};
use crate::printable::escaped;

/// Characters of an error, unless more is asked for.
const SHORT: usize = 80;
/// Rows whose custom resource is not ready, as a terminal shows them.
const RED: &str = "\x1b[31m";
const YELLOW: &str = "\x1b[33m";
const END: &str = "\x1b[0m";

/// How the table looks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    /// With more columns, and errors in full.
    pub wide: bool,
    /// A person reads it on a terminal, where a long error would fill the screen.
    pub terminal: bool,
    /// Custom resources may be in several namespaces.
    pub namespaces: bool,
    pub without_heading: bool,
    pub colour: bool,
}

/// The table as text.
pub fn text(all: &[Told], look: Look, now: Timestamp) -> String {
    let mut heading = vec!["KIND", "NAME", "RELEASE", "REVISION", "READY", "REPAIRS", "AGE"];
    if look.namespaces {
        heading.insert(0, "NAMESPACE");
    }
    if look.wide {
        heading.extend(["OBJECTS", "GENERATION", "NOTES"]);
    }
    heading.push("LAST ERROR");
    let ambiguous = ambiguous(all);
    let row = |told: &Told| row(told, kind_of(told, &ambiguous), look, now);
    let escaped = |told: &Told| row(told).iter().map(|cell| escaped(cell).into_owned()).collect();
    let rows: Vec<Vec<String>> = all.iter().map(escaped).collect();
    let table = crate::cli::output::table(&heading, &rows);
    let (first, rest) = table.split_once('\n').unwrap_or((&table, ""));
    let lines = rest.lines().zip(all).map(|(line, told)| match colour(told).filter(|_| look.colour) {
        Some(colour) => format!("{colour}{line}{END}\n"),
        None => format!("{line}\n"),
    });
    let lines: String = lines.collect();
    if look.without_heading { lines } else { format!("{first}\n{lines}") }
}

fn colour(told: &Told) -> Option<&'static str> {
    match told.ready() {
        Ready::Yes => None,
        Ready::No if told.is_true("Stalled") || told.is_true("ReleaseFailed") => Some(RED),
        _ => Some(YELLOW),
    }
}

/// Kinds that are in several groups, so that the group has to be shown.
fn ambiguous<'a>(all: impl IntoIterator<Item = &'a Told>) -> BTreeSet<&'a str> {
    let mut groups: BTreeMap<&'a str, &'a str> = BTreeMap::new();
    let of_several = |told: &&'a Told| *groups.entry(&told.kind).or_insert(&told.group) != told.group;
    all.into_iter().filter(of_several).map(|told| told.kind.as_str()).collect()
}

/// `Nginx`, or `Nginx.demo.example.com` where that alone is ambiguous. Either may be given to a command.
fn kind_of(told: &Told, ambiguous: &BTreeSet<&str>) -> String {
    match ambiguous.contains(told.kind.as_str()) {
        true => format!("{}.{}", told.kind, told.group),
        false => told.kind.clone(),
    }
}

/// One row, without the heading.
fn row(told: &Told, kind: String, look: Look, now: Timestamp) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let mut row = vec![
        kind,
        told.metadata.name.clone(),
        or_dash(told.release().map(str::to_owned)),
        or_dash(told.revision().map(|revision| revision.to_string())),
        told.ready().as_str().to_owned(),
        told.repairs().to_string(),
        ago(told.created(), now),
    ];
    if look.namespaces {
        row.insert(0, or_dash(told.metadata.namespace.clone()));
    }
    if look.wide {
        let generation = told.metadata.generation.unwrap_or_default();
        row.extend([objects(told), generation.to_string(), or_dash(Some(notes(told)).filter(|it| !it.is_empty()))]);
    }
    let is_cut = look.terminal && !look.wide;
    let error = said(told).map(|error| one_line(&error));
    row.push(or_dash(error.map(|error| if is_cut { short(&error) } else { error })));
    row
}

/// What is wrong, or else that nobody would mend it.
fn said(told: &Told) -> Option<String> {
    told.error().or_else(|| told.pause_words())
}

/// `3/4`: those that are as they should be, of all.
fn objects(told: &Told) -> String {
    let list = told.status["objects"].as_array().map(Vec::as_slice).unwrap_or_default();
    let good = list.iter().filter(|object| object["health"] == "Current").count();
    format!("{good}/{}", list.len())
}

/// What is out of the ordinary without being an error.
fn notes(told: &Told) -> String {
    let deleted = told.metadata.deletion_timestamp.is_some();
    let notes = [
        (deleted, "deleting"),
        (told.held().is_some(), "held"),
        (told.paused().is_some(), "paused"),
        (told.contested().is_some(), "contested"),
        (told.unknown_fields().is_some(), "unknown fields"),
    ];
    notes.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect::<Vec<_>>().join(",")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn short(text: &str) -> String {
    match text.char_indices().nth(SHORT) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

/// A line for each custom resource that is not as it was. On a terminal the whole table is shown again instead.
pub fn changes(new: &[Told], old: &[Told]) -> Vec<String> {
    let ambiguous = ambiguous(new.iter().chain(old));
    let name = |told: &Told| format!("{} {}", kind_of(told, &ambiguous), told.place());
    let line = |told: &Told| {
        let error = said(told).map(|error| format!(": {}", one_line(&error))).unwrap_or_default();
        let revision = told.revision().map(|revision| format!(", revision {revision}")).unwrap_or_default();
        let repairs = Some(told.repairs()).filter(|count| *count > 0).map(|count| format!(", repairs {count}"));
        let ready = told.ready().as_str();
        format!("{} Ready={ready}{revision}{}{error}", name(told), repairs.unwrap_or_default())
    };
    let before: Vec<String> = old.iter().map(line).collect();
    let changed = new.iter().map(line).filter(|line| !before.contains(line));
    let gone = old.iter().filter(|told| !new.iter().any(|other| other.metadata.uid == told.metadata.uid));
    changed.chain(gone.map(|told| format!("{} is gone", name(told)))).collect()
}

/// The same for scripts.
pub fn data(told: &Told) -> Value {
    json!({
        "apiVersion": format!("{}/{}", told.group, told.version),
        "kind": told.kind,
        "namespace": told.metadata.namespace,
        "name": told.metadata.name,
        "generation": told.metadata.generation,
        "observedGeneration": told.status["observedGeneration"],
        "created": told.created().map(|time| time.to_string()),
        "deleting": told.metadata.deletion_timestamp.is_some(),
        "release": told.release(),
        "revision": told.revision(),
        "ready": told.ready().as_str(),
        "stalled": told.is_stuck(),
        "repairs": told.repairs(),
        "lastRepair": told.status.pointer("/repairs/last"),
        "error": told.error(),
        "held": told.held(),
        "paused": told.paused(),
        "contested": told.contested(),
        "unknownFields": told.unknown_fields(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::status::told::tests::{conditions, told};
    use crate::wishes::Pause;

    fn now() -> Timestamp {
        "2026-01-01T00:01:00Z".parse().unwrap()
    }

    fn ready() -> Told {
        let mut status = conditions(&[("Ready", "True", "Ready", "2 objects are ready")]);
        status["deployedRelease"] = json!({"name": "web", "revision": 3});
        status["repairs"] = json!({"count": 2, "last": "2026-01-01T00:00:30Z"});
        status["objects"] = json!([{"health": "Current"}, {"health": "Failed"}]);
        told(status)
    }

    #[test]
    fn a_row_says_what_a_person_asks_first() {
        let failed = told(conditions(&[("Ready", "False", "RenderFailed", "a\n  b"), ("Stalled", "True", "", "")]));
        let table = text(&[ready(), failed], Look::default(), now());
        let expected = "\
KIND    NAME   RELEASE   REVISION   READY   REPAIRS   AGE   LAST ERROR
Nginx   web    web       3          True    2         60s   -
Nginx   web    -         -          False   0         60s   RenderFailed: a b
";
        assert_eq!(table, expected);
    }

    #[test]
    fn kinds_of_one_name_are_told_apart_by_their_groups() {
        let other = Told { group: "other.io".into(), ..ready() };
        let table = text(&[ready(), other.clone()], Look::default(), now());
        let kinds: Vec<&str> = table.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(kinds, ["KIND", "Nginx.demo.io", "Nginx.other.io"]);
        let mut gone = other;
        gone.metadata.uid = "v".into();
        assert_eq!(changes(&[ready()], &[ready(), gone]), ["Nginx.other.io shop/web is gone"]);
    }

    #[test]
    fn wide_and_all_namespaces_say_more_and_scripts_need_no_heading() {
        let look = Look { wide: true, namespaces: true, without_heading: true, ..Look::default() };
        let mut held = ready();
        held.pause = Pause::Open;
        let row = text(&[held], look, now());
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words, ["shop", "Nginx", "web", "web", "3", "True", "2", "60s", "1/2", "2", "paused", "paused"]);
    }

    #[test]
    fn a_long_error_is_cut_on_a_terminal_only_and_colours_say_how_bad_it_is() {
        let long = [told(conditions(&[("Ready", "False", "X", &"ö".repeat(200))]))];
        let cut = text(&long, Look { colour: true, terminal: true, ..Look::default() }, now());
        assert!(cut.contains("…") && cut.contains(YELLOW), "{cut}");
        for look in [Look::default(), Look { wide: true, terminal: true, ..Look::default() }] {
            assert!(text(&long, look, now()).contains(&"ö".repeat(200)), "{look:?}");
        }
        assert!(changes(&long, &[])[0].contains(&"ö".repeat(200)));
    }

    #[test]
    fn who_follows_hears_of_those_that_changed() {
        let (before, mut after) = ([ready()], [ready()]);
        assert_eq!(changes(&before, &before), Vec::<String>::new());
        after[0].status["repairs"]["count"] = 3.into();
        let line = "Nginx shop/web Ready=True, revision 3, repairs 3";
        assert_eq!(changes(&after, &before), [line]);
        assert_eq!(changes(&[], &before), ["Nginx shop/web is gone"]);
    }
}
