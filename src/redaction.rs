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

mod writings;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::fmt;

use serde_json::{Map, Value};

use crate::release::mask::MASK;

/// What is shorter is masked only as a whole.
const SHORTEST: usize = 4;
/// Stands where a message was cut.
const CUT: char = '…';
/// Stands for a value that becomes another: that it does is no secret.
const CHANGED: &str = " (changed)";
/// What is between two of these is a whole.
const QUOTES: [char; 3] = ['"', '\'', '`'];

#[derive(Clone, Default)]
pub struct Redactor {
    /// By their first byte, the longest first.
    texts: HashMap<u8, Vec<String>>,
    short: BTreeSet<String>,
    /// Not inside a longer number.
    numbers: BTreeSet<String>,
    known: BTreeSet<String>,
}

/// How much it knows, and never what.
impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} texts)", self.known.len())
    }
}

impl Redactor {
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Learns the values at these places, as JSON pointers.
    pub fn learn<'a>(&mut self, values: &Value, pointers: impl IntoIterator<Item = &'a String>) {
        pointers.into_iter().filter_map(|pointer| values.pointer(pointer)).for_each(|value| self.learn_all(value));
    }

    fn learn_all(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.learn_text(text),
            Value::Number(number) => {
                let number = number.to_string();
                if number.len() >= SHORTEST && self.known.insert(number.clone()) {
                    self.numbers.insert(number);
                }
            }
            Value::Array(list) => list.iter().for_each(|inner| self.learn_all(inner)),
            Value::Object(map) => map.values().for_each(|inner| self.learn_all(inner)),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn learn_text(&mut self, text: &str) {
        let whole = text.trim();
        if whole.is_empty() || matches!(whole, "true" | "false" | "null") || !self.known.insert(text.to_owned()) {
            return;
        }
        if whole.chars().count() < SHORTEST {
            if !whole.bytes().all(|b| b.is_ascii_digit()) {
                self.short.insert(whole.to_owned());
            }
            return;
        }
        for writing in writings::of(text) {
            self.look_for(writing);
        }
        if let Some(inner) = writings::inner(text) {
            self.learn_all(&inner);
        }
    }

    fn look_for(&mut self, writing: String) {
        let is_number = writing.bytes().all(|b| b.is_ascii_digit());
        if writing.chars().count() < SHORTEST {
            return;
        }
        if is_number {
            self.numbers.insert(writing);
            return;
        }
        let alike = self.texts.entry(writing.as_bytes()[0]).or_default();
        if !alike.contains(&writing) {
            let at = alike.partition_point(|other| other.len() >= writing.len());
            alike.insert(at, writing);
        }
    }

    /// A text that may be shown.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.is_empty() {
            return Cow::Borrowed(text);
        }
        if self.short.contains(text.trim()) {
            return Cow::Borrowed(MASK);
        }
        let mut shown = String::new();
        let (mut at, mut copied) = (0, 0);
        while at < text.len() {
            match self.found_at(text, at) {
                Some(length) => {
                    shown.push_str(&text[copied..at]);
                    shown.push_str(MASK);
                    at += length;
                    copied = at;
                }
                None => at += text[at..].chars().next().map_or(1, char::len_utf8),
            }
        }
        shown.push_str(&text[copied..]);
        let shown = self.without_ends(shown);
        if shown == text { Cow::Borrowed(text) } else { Cow::Owned(shown) }
    }

    /// A message that was cut may have the beginning or the end of a text beside the cut.
    fn without_ends(&self, text: String) -> String {
        if !text.contains(CUT) {
            return text;
        }
        let mut pieces: Vec<String> = text.split(CUT).map(str::to_owned).collect();
        let last = pieces.len() - 1;
        for (index, piece) in pieces.iter_mut().enumerate() {
            let all = self.texts.values().flatten();
            if index < last
                && let Some(length) = all.clone().filter_map(|hidden| writings::begun(piece, hidden)).max()
            {
                let end = piece.trim_end().len();
                piece.replace_range(end - length..end, MASK);
            }
            if index > 0
                && let Some(length) = all.filter_map(|hidden| writings::ended(piece, hidden)).max()
            {
                let start = piece.len() - piece.trim_start().len();
                piece.replace_range(start..start + length, MASK);
            }
        }
        pieces.join(&CUT.to_string())
    }

    /// How long what begins here is, if it must not be shown.
    fn found_at(&self, text: &str, at: usize) -> Option<usize> {
        let (before, rest) = text.split_at(at);
        let alike = self.texts.get(&rest.as_bytes()[0]).into_iter().flatten();
        alike
            .filter_map(|hidden| writings::matched(rest, hidden))
            .next()
            .or_else(|| self.number_at(before, rest))
            .or_else(|| self.quoted_at(before, rest))
    }

    fn number_at(&self, before: &str, rest: &str) -> Option<usize> {
        let is_digit = |c: char| c.is_ascii_digit();
        if self.numbers.is_empty() || before.ends_with(is_digit) {
            return None;
        }
        let mut found = self.numbers.iter().filter(|number| rest.starts_with(number.as_str()));
        found.find(|number| !rest[number.len()..].starts_with(is_digit)).map(String::len)
    }

    fn quoted_at(&self, before: &str, rest: &str) -> Option<usize> {
        let quote = before.chars().next_back().filter(|quote| QUOTES.contains(quote))?;
        let (inside, _) = rest.split_once(quote)?;
        self.short.contains(inside).then_some(inside.len())
    }

    /// Takes out of an object what must not be shown, and says whether there was something. The kind of an object is never hidden.
    pub fn object(&self, value: &mut Value) -> bool {
        if self.is_empty() {
            return false;
        }
        match value {
            Value::Null | Value::Bool(_) => false,
            Value::Number(number) => {
                let is_hidden = self.numbers.contains(&number.to_string());
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
            Value::Object(map) => self.map(map),
        }
    }

    fn map(&self, map: &mut Map<String, Value>) -> bool {
        let is_object = map.contains_key("apiVersion") && map.contains_key("kind");
        let mut found = false;
        for (key, inner) in map.iter_mut() {
            if !(is_object && matches!(key.as_str(), "apiVersion" | "kind")) {
                found |= self.object(inner);
            }
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
        match (before, after) {
            (Some(Value::Object(before)), Some(Value::Object(after))) => {
                for (key, later) in after.iter_mut() {
                    self.versions(before.get_mut(key), Some(later));
                }
                before.iter_mut().filter(|(key, _)| !after.contains_key(*key)).for_each(|(_, it)| self.hide(it));
                self.keys(before);
                self.keys(after);
            }
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

#[cfg(test)]
mod tests;
