//! The table of custom resources: a row each. Pure.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::told::{Ready, Told, ago};
use crate::printable::escaped;

/// Characters of an error in a row on a terminal.
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
    let escaped = |told: &Told| row(told, look, now).iter().map(|cell| escaped(cell).into_owned()).collect();
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

/// One row, without the heading: what a script that follows sees.
pub fn row(told: &Told, look: Look, now: Timestamp) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let mut row = vec![
        told.kind.clone(),
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

/// What is wrong, or else that it is paused. `Progressing` is no cause, so the message alone is shown.
fn said(told: &Told) -> Option<String> {
    let error = told.error().or_else(|| told.pause_words())?;
    Some(error.strip_prefix("Progressing: ").map(str::to_owned).unwrap_or(error))
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

/// A line for each custom resource that is not as it was.
pub fn changes(new: &[Told], old: &[Told]) -> Vec<String> {
    let line = |told: &Told| {
        let error = said(told).map(|error| format!(": {}", one_line(&error))).unwrap_or_default();
        let revision = told.revision().map(|revision| format!(", revision {revision}")).unwrap_or_default();
        let repairs = Some(told.repairs()).filter(|count| *count > 0).map(|count| format!(", repairs {count}"));
        let ready = told.ready().as_str();
        format!("{} Ready={ready}{revision}{}{error}", told.shown(), repairs.unwrap_or_default())
    };
    let before: Vec<String> = old.iter().map(line).collect();
    let changed = new.iter().map(line).filter(|line| !before.contains(line));
    let gone = old.iter().filter(|told| !new.iter().any(|other| other.metadata.uid == told.metadata.uid));
    changed.chain(gone.map(|told| format!("{} is gone", told.shown()))).collect()
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
        let long = told(conditions(&[("Ready", "False", "X", &"ö".repeat(200))]));
        let cut = Look { terminal: true, colour: true, ..Look::default() };
        let shown = text(std::slice::from_ref(&long), cut, now());
        assert!(shown.contains("…") && shown.contains(YELLOW), "{shown}");
        for whole in [Look::default(), Look { wide: true, ..cut }] {
            assert!(text(std::slice::from_ref(&long), whole, now()).contains(&"ö".repeat(200)));
        }
        assert!(changes(&[long], &[])[0].contains(&"ö".repeat(200)));
    }

    #[test]
    fn an_error_begins_with_its_cause() {
        let waits = told(conditions(&[("Ready", "False", "Progressing", "Deployment a/b: 0 of 1")]));
        assert_eq!(row(&waits, Look::default(), now()).pop().unwrap(), "Deployment a/b: 0 of 1");
        let pulls = told(conditions(&[("Ready", "False", "ImagePullBackOff", "pod b")]));
        assert_eq!(row(&pulls, Look::default(), now()).pop().unwrap(), "ImagePullBackOff: pod b");
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
