//! A manifest that may be shown: without the data of Secrets, without values that came from ConfigMaps and Secrets, and for the
//! status of a custom resource also short.
//!
//! Documents that are Secrets, or lists with Secrets, are written anew with a mask in place of every value, and so are documents
//! with something that must not be shown. All others stay as they are, to the letter. A document that cannot be read is left out, because nobody knows what is in it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Release;
use crate::redaction::Redactor;
use crate::yaml;

/// The longest manifest that a status gets. The API server takes an object of about a megabyte and a half in all.
const LIMIT: usize = 32 * 1024;
pub const MASK: &str = "***";
/// kubectl's copy of the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const UNREAD: &str = "---\n# A document is left out here: it is not valid YAML.\n";

/// The manifest with every value of a Secret masked, cut between documents where it would be too long.
pub fn without_secret_data(manifest: &str, redactor: &Redactor) -> String {
    let documents = documents(manifest);
    let mut text = String::new();
    for (index, document) in documents.iter().enumerate() {
        // One that is far too long is not even read.
        let masked = (document.len() <= 4 * LIMIT).then(|| masked(document, redactor));
        let Some(masked) = masked.filter(|masked| text.len() + masked.len() <= LIMIT) else {
            let rest = documents.len() - index;
            text.push_str(&format!(
                "---\n# {rest} more documents are left out here; `helm get manifest` prints them.\n"
            ));
            break;
        };
        text.push_str(&masked);
    }
    text
}

/// The whole manifest with every value of a Secret masked.
pub fn with_secrets_masked(manifest: &str, redactor: &Redactor) -> String {
    documents(manifest).into_iter().map(|document| masked(document, redactor)).collect()
}

/// Learns what must not be shown of these revisions.
pub fn learn<'a>(redactor: &mut Redactor, releases: impl Iterator<Item = &'a Release> + Clone) {
    let of_all: BTreeSet<&String> =
        releases.clone().filter_map(|release| release.own.as_ref()).flat_map(|own| &own.sourced).collect();
    for release in releases {
        match &release.own {
            Some(own) if own.sourced.is_empty() => {}
            Some(own) => redactor.learn(&release.config.value(), &own.sourced),
            None if of_all.is_empty() => {}
            None => redactor.learn(&release.config.value(), of_all.iter().copied()),
        }
    }
}

/// Where in a revision's values those are that came from ConfigMaps and Secrets. A record that helm wrote does not tell: then it
/// is wherever another of the revisions has some.
pub fn sourced<'a>(release: &'a Release, all: impl Iterator<Item = &'a Release>) -> Vec<&'a String> {
    match &release.own {
        Some(own) => own.sourced.iter().collect(),
        None => all.filter_map(|other| other.own.as_ref()).flat_map(|own| &own.sourced).collect(),
    }
}

/// Each with the separator above it, so that together they are the whole text.
fn documents(text: &str) -> Vec<&str> {
    let mut starts: Vec<usize> = vec![0];
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        if is_marker(line) && offset > 0 {
            starts.push(offset);
        }
        offset += line.len();
    }
    starts.push(text.len());
    starts.windows(2).map(|ends| &text[ends[0]..ends[1]]).filter(|document| !document.is_empty()).collect()
}

/// Whether a line begins a document, or ends one.
fn is_marker(line: &str) -> bool {
    let rest = line.strip_prefix("---").or_else(|| line.strip_prefix("..."));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
}

fn masked(document: &str, redactor: &Redactor) -> String {
    // A document that hides behind a line break which only YAML knows would not be looked at.
    let breaks = ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];
    if document.split(breaks).skip(1).any(is_marker) {
        return UNREAD.to_owned();
    }
    let Ok(mut value) = yaml::parse(document) else { return UNREAD.to_owned() };
    let is_changed = mask(&mut value, false) | redactor.object(&mut value);
    // Comments are lost where a document is written anew, and they may tell as much.
    if !is_changed && redactor.text(document) == document {
        return document.to_owned();
    }
    let source = document.lines().find(|line| line.starts_with("# Source: "));
    let source = source.map(|line| format!("{}\n", redactor.text(line))).unwrap_or_default();
    match serde_yaml::to_string(&value) {
        Ok(text) => format!("---\n{source}{text}"),
        Err(_) => UNREAD.to_owned(),
    }
}

/// Whether there was a Secret. The items of a SecretList need not say what they are.
fn mask(value: &mut Value, in_secret_list: bool) -> bool {
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
    let is_secret = kind == "Secret" || in_secret_list;
    let is_secret_list = kind == "SecretList";
    let mut found = is_secret;
    if is_secret {
        for pointer in ["/data", "/stringData"] {
            value.pointer_mut(pointer).into_iter().for_each(hide);
        }
        let annotations = value.pointer_mut("/metadata/annotations");
        annotations.and_then(|map| map.get_mut(LAST_APPLIED)).into_iter().for_each(hide);
    }
    if let Some(Value::Array(items)) = value.get_mut("items") {
        for item in items {
            found |= mask(item, is_secret_list);
        }
    }
    found
}

/// The keys stay, the values do not.
pub fn hide(value: &mut Value) {
    match value {
        Value::Null => {}
        Value::Object(map) => map.values_mut().for_each(|value| *value = MASK.into()),
        other => *other = MASK.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "---\n# Source: app/templates/c.yaml\napiVersion: v1\nkind:   ConfigMap # as it was\n\
                         metadata: {name: c}\ndata: {a: b}\n";

    fn shown(manifest: &str) -> String {
        without_secret_data(manifest, &Redactor::default())
    }

    #[test]
    fn what_came_from_elsewhere_is_masked_in_every_kind_and_what_stays_is_yaml() {
        let mut redactor = Redactor::default();
        redactor.learn(&serde_json::json!(["hunter2", "ab"]), [&String::new()]);
        let config =
            "---\n# Source: app/templates/d.yaml\napiVersion: v1\nkind: ConfigMap\ndata: {a: hunter2, b: ab, c: cab}\n";
        let comment = "---\nkind: ConfigMap\n# it is hunter2\ndata: {a: b}\n";
        let text = without_secret_data(&format!("{PLAIN}{config}{comment}"), &redactor);
        let masked = "---\n# Source: app/templates/d.yaml\napiVersion: v1\ndata:\n  a: '***'\n  b: '***'\n  c: cab\nkind: ConfigMap\n";
        assert_eq!(text, format!("{PLAIN}{masked}---\ndata:\n  a: b\nkind: ConfigMap\n"));
    }

    #[test]
    fn secrets_lose_their_values_and_others_stay_to_the_letter() {
        let secret = "---\n# Source: app/templates/s.yaml\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\n\
                      # the password is hunter1\ndata: {password: aHVudGVyMg==}\nstringData:\n  other: hunter2\n";
        let text = shown(&format!("{PLAIN}{secret}{PLAIN}"));
        let masked = "---\n# Source: app/templates/s.yaml\napiVersion: v1\ndata:\n  password: '***'\nkind: Secret\n\
                      metadata:\n  name: s\nstringData:\n  other: '***'\n";
        assert_eq!(text, format!("{PLAIN}{masked}{PLAIN}"));
    }

    #[test]
    fn secrets_do_not_hide() {
        let hiding = [
            "kind: List\nitems:\n- {kind: Secret, data: {a: hunter2}}\n",
            "kind: List\nitems:\n- {kind: List, items: [{kind: Secret, data: {a: hunter2}}]}\n",
            "kind: SecretList\nitems:\n- data: {a: hunter2}\n",
            "{\"kind\": \"\\x53ecret\", \"data\": {\"a\": \"hunter2\"}}\n",
            "kind: Secret\ndata: hunter2\n",
            "kind: Secret\nmetadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: hunter2}}\n",
            "kind: ConfigMap\n--- {kind: Secret, data: {a: hunter2}}\n",
            "{kind: ConfigMap}\n{kind: Secret, data: {a: hunter2}}\n",
            "kind: ConfigMap\n...\nkind: Secret\ndata: {a: hunter2}\n",
            "kind: ConfigMap\r---\rkind: Secret\rdata: {a: hunter2}\r",
            "kind: ConfigMap\u{2028}---\u{2028}kind: Secret\u{2028}data: {a: hunter2}\n",
            "kind: Secret\ndata: {a: hunter2\n",
        ];
        for manifest in hiding {
            let text = shown(manifest);
            assert!(!text.contains("hunter2"), "{manifest:?} became {text:?}");
        }
    }

    #[test]
    fn a_long_manifest_is_cut_between_documents() {
        let text = shown(&PLAIN.repeat(1000));
        assert!(text.len() < LIMIT + 100, "{}", text.len());
        let kept = text.matches("kind:   ConfigMap").count();
        let last =
            format!("---\n# {} more documents are left out here; `helm get manifest` prints them.\n", 1000 - kept);
        assert_eq!(text, PLAIN.repeat(kept) + &last);
    }

    #[test]
    fn nothing_stays_nothing() {
        assert_eq!(shown(""), "");
    }
}
