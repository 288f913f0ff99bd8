//! What must not be shown, taken out of whatever leaves: status, events, logs, the output of `diff`.
//!
//! Pure. It knows the texts and numbers that came from ConfigMaps and Secrets, and puts a mask in their place. Charts write them
//! in other ways too, so it also looks for each of them in base64 and decoded from it, escaped for JSON, YAML and URLs, broken into
//! lines, line by line, and where a text is YAML itself, for the values in it.
//!
//! What it cannot do: booleans, numbers of less than four digits, and texts of less than four characters inside of others are left
//! as they are, since a mask in every place of `1` hides nothing and spoils everything. A value that a chart cuts up, hashes or packs
//! together with others before it encodes them is not recognised. Names of objects are not looked at: whoever sees the status sees
//! the objects.

mod cuts;
mod search;
mod writings;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::OnceLock;

use serde_json::{Map, Value};

use crate::aside;
use crate::drift::Hash;
use crate::ellipsis::ELLIPSIS;
use crate::release::mask::MASK;
use cuts::Cuts;
use search::{Folded, Index};

/// What is shorter is masked only as a whole.
const SHORTEST: usize = 4;
/// How often a text may be the value of a text that is YAML. Deeper ones are known as what they stand in, line by line.
const NESTED: usize = 8;
/// Stands for a value that becomes another: that it does is no secret.
const CHANGED: &str = " (changed)";
/// What is between two of these is a whole.
const QUOTES: [char; 3] = ['"', '\'', '`'];
/// What is never hidden in the metadata of an object.
const NAMES: [&str; 2] = ["name", "namespace"];

#[derive(Default)]
pub struct Redactor {
    known: BTreeSet<String>,
    numbers: BTreeSet<String>,
    /// What to look for. It is worked out when something is shown: most reconciles show nothing new.
    wanted: OnceLock<Wanted>,
}

#[derive(Default)]
struct Wanted {
    texts: Index,
    short: HashSet<String>,
    /// Not inside a longer number.
    numbers: Index,
    /// The same texts. Few of those that are shown were cut.
    cuts: OnceLock<Cuts>,
}

/// How much it knows, and never what.
impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} texts)", self.known.len() + self.numbers.len())
    }
}

impl Redactor {
    pub fn is_empty(&self) -> bool {
        self.known.is_empty() && self.numbers.is_empty()
    }

    /// Stands for all that it knows.
    pub fn knowledge(&self) -> Hash {
        Hash::of(self.known.iter().chain([&String::new()]).chain(&self.numbers).map(String::as_str))
    }

    /// Learns the values at these places, as JSON pointers.
    pub fn learn<'a>(&mut self, values: &Value, pointers: impl IntoIterator<Item = &'a String>) {
        let before = self.known.len() + self.numbers.len();
        for value in pointers.into_iter().filter_map(|pointer| values.pointer(pointer)) {
            collect(value, &mut self.known, &mut self.numbers);
        }
        if self.known.len() + self.numbers.len() != before {
            self.wanted = OnceLock::new();
        }
    }

    fn wanted(&self) -> &Wanted {
        let length = || self.known.iter().map(String::len).sum();
        self.wanted.get_or_init(|| aside::here(length(), || Wanted::of(&self.known, &self.numbers)))
    }

    /// A text that may be shown.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.is_empty() || text.is_empty() {
            return Cow::Borrowed(text);
        }
        let folded = Folded::of(text);
        let wanted = self.wanted();
        if wanted.short.contains(folded.text.trim()) {
            return Cow::Borrowed(MASK);
        }
        let mut ranges = wanted.found(&folded.text);
        ranges.extend(wanted.ends(&folded.text));
        if ranges.is_empty() {
            return Cow::Borrowed(text);
        }
        let (mut shown, mut copied) = (String::new(), 0);
        for (start, end) in search::merged(ranges).into_iter().map(|range| folded.origin(range)) {
            shown.push_str(&text[copied..start]);
            shown.push_str(MASK);
            copied = end;
        }
        shown.push_str(&text[copied..]);
        Cow::Owned(shown)
    }

    /// Takes out of an object what must not be shown, and says whether there was something. Its kind and its name are never hidden.
    pub fn object(&self, value: &mut Value) -> bool {
        if self.is_empty() {
            return false;
        }
        match value {
            Value::Null | Value::Bool(_) => false,
            Value::Number(number) => {
                let is_hidden = self.wanted().numbers.has(&number.to_string());
                if is_hidden {
                    *value = MASK.into();
                }
                is_hidden
            }
            Value::String(text) => match self.text(text) {
                Cow::Borrowed(same) if same == text => false,
                shown => {
                    *text = shown.into_owned();
                    true
                }
            },
            Value::Array(list) => list.iter_mut().fold(false, |found, inner| self.object(inner) | found),
            Value::Object(map) => self.map(map, spared(map)),
        }
    }

    /// `spared` stays as it is.
    fn map(&self, map: &mut Map<String, Value>, spared: &[&str]) -> bool {
        let is_object = is_object(map);
        let mut found = false;
        for (key, inner) in map.iter_mut().filter(|(key, _)| !spared.contains(&key.as_str())) {
            found |= match inner {
                Value::Object(metadata) if is_object && key == "metadata" => self.map(metadata, &NAMES),
                inner => self.object(inner),
            };
        }
        self.keys(map) || found
    }

    fn keys(&self, map: &mut Map<String, Value>) -> bool {
        let hidden: Vec<String> = map.keys().filter(|key| self.text(key) != key.as_str()).cloned().collect();
        for key in &hidden {
            if let Some(inner) = map.remove(key) {
                map.insert(self.text(key).into_owned(), inner);
            }
        }
        !hidden.is_empty()
    }

    fn hide(&self, value: &mut Value) {
        self.object(value);
    }

    /// Takes it out of both versions of an object. Where one hidden value becomes another, the later version says so.
    pub fn versions(&self, before: Option<&mut Value>, after: Option<&mut Value>) {
        if self.is_empty() {
            return;
        }
        match (before, after) {
            (Some(Value::Object(before)), Some(Value::Object(after))) => self.maps(before, after, spared(after)),
            (Some(Value::Array(before)), Some(Value::Array(after))) => {
                let mut earlier = before.iter_mut();
                after.iter_mut().for_each(|later| self.versions(earlier.next(), Some(later)));
                earlier.for_each(|rest| self.hide(rest));
            }
            (Some(before), Some(after)) => {
                let were_same = before == after;
                self.object(before);
                if self.object(after) && !were_same && before == after {
                    *after = format!("{}{CHANGED}", after.as_str().unwrap_or(MASK)).into();
                }
            }
            (before, after) => before.into_iter().chain(after).for_each(|it| self.hide(it)),
        }
    }

    fn maps(&self, before: &mut Map<String, Value>, after: &mut Map<String, Value>, spared: &[&str]) {
        let is_object = is_object(after);
        for (key, later) in after.iter_mut().filter(|(key, _)| !spared.contains(&key.as_str())) {
            match (before.get_mut(key), later) {
                (Some(Value::Object(before)), Value::Object(after)) if is_object && key == "metadata" => {
                    self.maps(before, after, &NAMES);
                }
                (earlier, later) => self.versions(earlier, Some(later)),
            }
        }
        before.iter_mut().filter(|(key, _)| !after.contains_key(*key)).for_each(|(_, it)| self.hide(it));
        self.keys(before);
        self.keys(after);
    }

    /// Takes it out of the sentences of a status.
    pub fn status(&self, status: &mut Value) {
        for list in ["conditions", "objects"] {
            for item in status.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                if let Some(Value::String(message)) = item.get_mut("message") {
                    *message = self.text(message).into_owned();
                }
            }
        }
    }
}

fn is_object(map: &Map<String, Value>) -> bool {
    map.contains_key("apiVersion") && map.contains_key("kind")
}

/// What is never hidden in a map. Whoever sees that an object is there sees it anyway.
fn spared(map: &Map<String, Value>) -> &'static [&'static str] {
    if is_object(map) { &["apiVersion", "kind"] } else { &[] }
}

/// All texts and numbers in a value that are hidden.
fn collect(value: &Value, texts: &mut impl Extend<String>, numbers: &mut impl Extend<String>) {
    match value {
        Value::String(text) if !matches!(text.trim(), "" | "true" | "false" | "null") => texts.extend([text.clone()]),
        Value::Number(number) => numbers.extend(Some(number.to_string()).filter(|it| it.len() >= SHORTEST)),
        Value::Array(list) => list.iter().for_each(|inner| collect(inner, texts, numbers)),
        Value::Object(map) => map.values().for_each(|inner| collect(inner, texts, numbers)),
        _ => {}
    }
}

impl Wanted {
    fn of(known: &BTreeSet<String>, numbers: &BTreeSet<String>) -> Self {
        let (mut texts, mut numbers) = (HashSet::new(), numbers.clone());
        let mut short = HashSet::new();
        let mut seen: HashSet<String> = HashSet::new();
        let mut more: Vec<String> = known.iter().cloned().collect();
        for _ in 0..=NESTED {
            for text in std::mem::take(&mut more) {
                let whole = Folded::of(text.trim()).text;
                if !seen.insert(text.clone()) {
                    continue;
                }
                if whole.chars().count() < SHORTEST {
                    short.extend(Some(whole).filter(|it| !it.bytes().all(|b| b.is_ascii_digit())));
                    continue;
                }
                let writings = writings::of(&text).into_iter().map(|writing| Folded::of(writing.trim()).text);
                for writing in writings.filter(|writing| writing.chars().count() >= SHORTEST) {
                    match writing.bytes().all(|b| b.is_ascii_digit()) {
                        true => drop(numbers.insert(writing)),
                        false => texts.extend(search::parts(&writing).into_iter().map(str::to_owned)),
                    }
                }
                if let Some(inner) = writings::inner(&text) {
                    collect(&inner, &mut more, &mut numbers);
                }
            }
        }
        Wanted { texts: Index::of(texts), short, numbers: Index::of(numbers), cuts: OnceLock::new() }
    }

    /// Where in a text something is that must not be shown. Whatever begins inside of another may go on behind it.
    fn found(&self, text: &str) -> Vec<(usize, usize)> {
        let starts = text.char_indices().filter(|(_, c)| *c != ' ');
        starts.filter_map(|(at, _)| Some((at, at + self.length_at(text, at)?))).collect()
    }

    fn length_at(&self, text: &str, at: usize) -> Option<usize> {
        let (before, rest) = text.split_at(at);
        let text = self.texts.at_start_of(rest).next();
        text.or_else(|| self.number_at(before, rest)).or_else(|| self.quoted_at(before, rest))
    }

    fn number_at(&self, before: &str, rest: &str) -> Option<usize> {
        let is_digit = |c: char| c.is_ascii_digit();
        if before.ends_with(is_digit) {
            return None;
        }
        self.numbers.at_start_of(rest).find(|length| !rest[*length..].starts_with(is_digit))
    }

    fn quoted_at(&self, before: &str, rest: &str) -> Option<usize> {
        let quote = before.chars().next_back().filter(|quote| QUOTES.contains(quote))?;
        let (inside, _) = rest.split_once(quote)?;
        self.short.contains(inside).then_some(inside.len())
    }

    /// A message that was cut may have the beginning or the end of a text beside the cut.
    fn ends(&self, text: &str) -> Vec<(usize, usize)> {
        let mut ranges = vec![];
        for (cut, _) in text.match_indices(ELLIPSIS) {
            let (before, after) = (text[..cut].trim_end(), text[cut + ELLIPSIS.len_utf8()..].trim_start());
            let cuts = self.cuts.get_or_init(|| Cuts::of(self.texts.texts()));
            ranges.extend(cuts.begun(before).map(|length| (before.len() - length, before.len())));
            let start = text.len() - after.len();
            ranges.extend(cuts.ended(after).map(|length| (start, start + length)));
        }
        ranges
    }
}

#[cfg(test)]
mod tests;
